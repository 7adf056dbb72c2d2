"""What does a real GPU do? Runs packages, litmus tests and stress from their folders alone.

Nothing here imports a solver, and of other rooms only types and exceptions where no package is
emulated: a machine with Python, NumPy and CuPy is enough.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from titan.emulated.machine import Emulated as Emulated


def __getattr__(name: str) -> object:
    """`titan.device.Emulated`, loaded when it is asked for."""
    if name == "Emulated":
        from titan.emulated.machine import Emulated as found

        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
