"""The sync program of a kernel, whichever level it is written at, with what lowering
added, changed or chose on the way.
"""

from __future__ import annotations

import time
from dataclasses import replace

from titan.foundation.diagnostics.codes import CODES, FAMILIES
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import Refusal
from titan.foundation.records import dataclass
from titan.foundation.verdict import Verdict
from titan.language.kernel.model import Kernel
from titan.language.lower.model import Note
from titan.language.protocol.model import Protocol
from titan.sync.contents import as_engines_see
from titan.sync.program import SyncProgram
from titan.verify.model import EngineReport

TYPESTATE = "typestate"
LEGALITY = FAMILIES["TTN4"][0]


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """The sync program of a kernel.

    `added` are the operations that lowering put in, `missing` those that it would put in were the
    kernel not taken as written. `report` is the result of typestate on the protocol; a kernel of
    the sync level has none.
    """

    program: SyncProgram
    notes: tuple[str, ...] = ()
    added: tuple[Note, ...] = ()
    missing: tuple[Note, ...] = ()
    report: EngineReport | None = None


class NotLowered(Refusal):
    """There is no sync program. `illegal`: a rule of the hardware is broken."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], report: EngineReport | None) -> None:
        super().__init__("; ".join(item.headline for item in diagnostics))
        self.diagnostics = diagnostics
        self.report = report
        self.illegal = all(CODES[item.code].family == LEGALITY for item in diagnostics)


def sync_program(
    kernel: Kernel,
    *,
    typestate: bool = False,
    rewrites: frozenset[str] = frozenset(),
    as_written: bool | None = None,
    together: bool = False,
) -> LoweredKernel:
    """Lower the kernel, its protocol checked before where that is asked for. Raises NotLowered.

    `rewrites` names what lowering may change where the target cannot say the protocol as it is.
    `as_written` keeps lowering from adding fences; None: for kernels that model existing code.
    `together`: a copy to several CTAs is one operation, as it is emitted, and not one for each.
    """
    if kernel.program is not None:
        return LoweredKernel(kernel.program if together else as_engines_see(kernel.program))
    assert kernel.protocol is not None
    lowered = _lowered(
        kernel.protocol,
        check_protocol(kernel.protocol) if typestate else None,
        rewrites,
        models_existing(kernel) if as_written is None else as_written,
    )
    return lowered if together else replace(lowered, program=as_engines_see(lowered.program))


def models_existing(kernel: Kernel) -> bool:
    """Whether the file says that it models code that exists: it names its source."""
    return bool(kernel.source)


def _lowered(
    protocol: Protocol, report: EngineReport | None, rewrites: frozenset[str], as_written: bool
) -> LoweredKernel:
    from titan.language.lower import LoweringRefused, lower_with_notes

    try:
        whole = lower_with_notes(protocol, rewrites=rewrites)
        added = tuple(note for note in whole.notes if note.adds)
        lowered = whole
        if added and as_written:
            lowered = lower_with_notes(protocol, add_fences=False, rewrites=rewrites)
    except LoweringRefused as refused:
        raise NotLowered(refused.diagnostics, report) from None
    notes = tuple(dict.fromkeys(note.text for note in lowered.notes if not note.adds))
    if as_written:
        return LoweredKernel(lowered.program, notes, (), added, report)
    return LoweredKernel(lowered.program, notes, added, (), report)


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
