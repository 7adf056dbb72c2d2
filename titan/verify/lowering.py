"""The sync program of a kernel, whichever level it is written at, with what is said on the way."""

from __future__ import annotations

import time
from dataclasses import dataclass

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.verdict import Verdict
from titan.language.kernel.model import Kernel
from titan.language.protocol.model import Protocol
from titan.sync.program import SyncProgram
from titan.verify.model import EngineReport

TYPESTATE = "typestate"


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """`report` is what typestate says of the protocol; a kernel of the sync level has none."""

    program: SyncProgram
    notes: tuple[str, ...] = ()
    report: EngineReport | None = None


class Refusal(Exception):
    """There is no sync program. `illegal`: a rule of the hardware is broken."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], report: EngineReport | None) -> None:
        super().__init__("; ".join(item.headline for item in diagnostics))
        self.diagnostics = diagnostics
        self.report = report
        self.illegal = all(item.code.startswith("TTN4") for item in diagnostics)


def sync_program(
    kernel: Kernel, *, typestate: bool = False, rewrites: frozenset[str] = frozenset()
) -> LoweredKernel:
    """Lower the kernel, its protocol checked before where that is asked for. Raises Refusal.

    `rewrites` names what lowering may change where the target cannot say the protocol as it is.
    """
    if kernel.program is not None:
        return LoweredKernel(kernel.program)
    assert kernel.protocol is not None
    from titan.language.lower import LoweringRefused, lower_with_notes

    report = check_protocol(kernel.protocol) if typestate else None
    try:
        lowered = lower_with_notes(kernel.protocol, rewrites=rewrites)
    except LoweringRefused as refused:
        raise Refusal(refused.diagnostics, report) from None
    notes = tuple(dict.fromkeys(note.text for note in lowered.notes))
    return LoweredKernel(lowered.program, notes, report)


def check_protocol(protocol: Protocol) -> EngineReport:
    """What typestate says of a protocol, for every value of its parameters."""
    from titan.language.protocol.typestate import TypestateResult, check

    verdict_of = {
        TypestateResult.VERIFIED: Verdict.VERIFIED,
        TypestateResult.REFUTED: Verdict.REFUTED,
        TypestateResult.UNDECIDED: Verdict.UNDECIDED,
    }
    started = time.thread_time()
    report = check(protocol)
    remark = "; ".join(dict.fromkeys(item.reason for item in report.open))
    return EngineReport(
        TYPESTATE,
        verdict_of[report.answer],
        time.thread_time() - started,
        sizes=tuple((item.name, None) for item in protocol.parameters if item.value is None),
        remark=remark,
        diagnostics=report.diagnostics,
    )
