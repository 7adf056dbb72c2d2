"""The driver of the emulated device in Triton, for the time of one test."""

from __future__ import annotations

import triton

from tests.emulated import triton_amd_kernels
from tests.emulated import triton_examples as examples
from tests.frontends import triton_kernels


def checking_driver(tmp_path_factory, monkeypatch, backend):
    """A driver that checks every launch, over a back end of Triton; what it replaced comes back
    after, and no kernel of the tests is compiled for another yet."""
    from triton.runtime.driver import driver

    from titan.emulated.triton.driver import TitanDriver

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))
    monkeypatch.setenv("TITAN_CHECK", "1")
    monkeypatch.setitem(triton.backends.backends, backend, triton.backends.backends[backend])
    monkeypatch.setattr(driver, "_active", None)
    made = TitanDriver()
    driver.set_active(made)
    triton.compiler.compiler.max_shared_mem.cache_clear()  # of the device before
    modules = (examples, triton_kernels, triton_amd_kernels)
    for function in (one for module in modules for one in vars(module).values()):
        caches = getattr(function, "device_caches", None)
        if caches is not None:
            caches.clear()
    return made
