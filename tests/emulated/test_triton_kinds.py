"""Kernels of Triton of many kinds on both emulated devices: against NumPy and Triton's interpreter.

All launches are verified but that named here. Most kernels run with `-m heavy` only.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from titan.foundation.verdict import Verdict

triton = pytest.importorskip("triton", reason="Triton is not installed (extra `dev`)")

from tests.emulated.triton_kinds import KINDS  # noqa: E402
from tests.emulated.triton_products import PRODUCTS  # noqa: E402

EXAMPLES = {**KINDS, **PRODUCTS}
QUICK = ("sort", "int8_product")
# The interpreter cuts fp8 off, and has no bfloat16.
NOT_INTERPRETED = ("fp8_conversions", "bf16_product")
NAMES = [
    pytest.param(name, marks=() if name in QUICK else (pytest.mark.heavy,)) for name in EXAMPLES
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("device", ["h100", "b200"])
@pytest.mark.parametrize("name", NAMES)
def test_kernels_agree_with_numpy(name, device, tmp_path_factory, monkeypatch):
    from triton.runtime.driver import driver

    from titan.emulated.triton.driver import TitanDriver

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))
    monkeypatch.setenv("TITAN_CHECK", "1")
    monkeypatch.setenv("TITAN_DEVICE", device)
    monkeypatch.setitem(triton.backends.backends, "nvidia", triton.backends.backends["nvidia"])
    monkeypatch.setattr(driver, "_active", None)
    made = TitanDriver()
    driver.set_active(made)
    triton.compiler.compiler.max_shared_mem.cache_clear()  # of the device before
    example, tolerance = EXAMPLES[name]
    _forget(sys.modules[example.__module__])
    got, right = example(np.random.default_rng(1))
    assert np.abs(got.astype(np.float64) - right).max() <= tolerance
    assert made.queue.launches == 1
    assert made.queue.checker.verdicts == {Verdict.VERIFIED: 1}


def _forget(module: object) -> None:
    """What kernels of a module were compiled to for another driver."""
    for function in vars(module).values():
        caches = getattr(function, "device_caches", None)
        if caches is not None:
            caches.clear()


SECOND_OPINION = """
import numpy as np
from tests.emulated.tensors import InterpretedTensor
from tests.emulated.test_triton_kinds import EXAMPLES, NOT_INTERPRETED

for name, (example, tolerance) in EXAMPLES.items():
    if name not in NOT_INTERPRETED:
        got, right = example(np.random.default_rng(1), InterpretedTensor)
        far = np.abs(got.astype(np.float64) - right).max()
        assert far <= max(tolerance, 1e-6), (name, far)
"""


@pytest.mark.heavy
def test_the_interpreter_of_triton_says_the_same():
    """It works on tiles in NumPy and shares nothing with PTX."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", SECOND_OPINION]
    subprocess.run(command, env=environment, check=True)
