"""TITAN: verify, schedule and emit software-pipelined, warp-specialised GPU kernels."""

from typing import TYPE_CHECKING

from titan.foundation.version import __version__

if TYPE_CHECKING:
    from titan.api import Findings as Findings
    from titan.api import InputError as InputError
    from titan.api import Kernel as Kernel
    from titan.api import LitmusResult as LitmusResult
    from titan.api import LoweringOptions as LoweringOptions
    from titan.api import Package as Package
    from titan.api import Scheduled as Scheduled
    from titan.api import build as build
    from titan.api import litmus as litmus
    from titan.api import schedule as schedule
    from titan.api import verify as verify
    from titan.api import verify_ptx as verify_ptx
    from titan.runtime.arrays import CallError as CallError
    from titan.runtime.attention import attention_gradients as attention_gradients
    from titan.runtime.library import Library as Library
    from titan.runtime.loaded import LoadedKernel as LoadedKernel
    from titan.runtime.loaded import load as load
    from titan.runtime.torch_operator import torch_operator as torch_operator

__all__ = ["__version__"]
_OF_API = (
    "Findings", "InputError", "Kernel", "LitmusResult", "LoweringOptions", "Package", "Scheduled",
    "build", "schedule", "verify_ptx",
)  # fmt: skip
_OF_RUNTIME = {
    "CallError": "arrays", "Library": "library", "LoadedKernel": "loaded", "load": "loaded",
    "torch_operator": "torch_operator", "attention_gradients": "attention",
}  # fmt: skip
_ROOMS = ("litmus", "verify")  # packages that can be called


def __getattr__(name: str) -> object:
    """What `titan.api` has, loaded when it is asked for."""
    if name in _OF_API:
        import titan.api

        return getattr(titan.api, name)
    if name in _OF_RUNTIME:
        from importlib import import_module

        return getattr(import_module(f"titan.runtime.{_OF_RUNTIME[name]}"), name)
    if name in _ROOMS:
        from importlib import import_module

        return import_module(f"titan.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_API, *_OF_RUNTIME, *_ROOMS})
