"""TITAN: verify, schedule and emit software-pipelined, warp-specialised GPU kernels."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from titan.api import verify_ptx as verify_ptx

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`titan.verify_ptx`, loaded when it is asked for."""
    if name == "verify_ptx":
        from titan.api import verify_ptx

        return verify_ptx
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
