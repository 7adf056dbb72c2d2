"""The sync program of a kernel, whichever level it is written at, with what lowering says of it."""

from __future__ import annotations

from dataclasses import dataclass

from titan.diagnostics.model import Diagnostic
from titan.kernel.model import Kernel
from titan.sync.program import SyncProgram


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    program: SyncProgram
    notes: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class Refusal(Exception):
    """There is no sync program. `illegal`: a rule of the hardware is broken."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("; ".join(item.headline for item in diagnostics))
        self.diagnostics = diagnostics
        self.illegal = all(item.code.startswith("TTN4") for item in diagnostics)


def sync_program(kernel: Kernel) -> LoweredKernel:
    """Check the protocol and lower it. Raises Refusal."""
    if kernel.program is not None:
        return LoweredKernel(kernel.program)
    assert kernel.protocol is not None
    from titan.lower import LoweringRefused, lower_with_notes

    found = _typestate(kernel)
    try:
        lowered = lower_with_notes(kernel.protocol)
    except LoweringRefused as refused:
        raise Refusal((*found, *refused.diagnostics)) from None
    notes = tuple(note.text for note in lowered.notes)
    return LoweredKernel(lowered.program, notes, found)


def _typestate(kernel: Kernel) -> tuple[Diagnostic, ...]:
    """What the protocol level finds for every number of tiles."""
    return ()
