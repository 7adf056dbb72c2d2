"""A saved trace as a finding again: the kernel that it holds, replayed to its fault."""

from __future__ import annotations

import time
from collections.abc import Callable

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.errors import UserError
from titan.foundation.source.span import whole_file
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.sync.control import LocalLoopError
from titan.sync.fault import FaultKind, Trace
from titan.sync.program import SyncProgram
from titan.verify.coverage import coverage_of, with_policies
from titan.verify.lowering import NotLowered, sync_program
from titan.verify.model import Finding
from titan.verify.replay import ReplayError, replay
from titan.verify.tracefile import SavedTrace, TraceFileError, load


class TraceRefused(UserError):
    """The file is not a trace that replays; `diagnostics` say why."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("; ".join(item.headline for item in diagnostics))
        self.diagnostics = diagnostics


def kernel_in_file(saved: SavedTrace) -> Kernel:
    """The kernel of a trace whose text is a kernel file. Raises TraceRefused."""
    overrides = {name: (value,) for name, value in saved.sizes}
    family, errors = decode_text(saved.text, saved.path, overrides)
    if family is None:
        raise TraceRefused(tuple(errors))
    return family.kernels[0]


def reopen(path: str, kernel_of: Callable[[SavedTrace], Kernel] = kernel_in_file) -> Finding:
    """The finding that the trace file shows; `kernel_of` reads its text. Raises TraceRefused."""
    started = time.thread_time()
    try:
        saved = load(path)
        return _reopened(saved, kernel_of(saved), path, started)
    except (TraceFileError, ReplayError) as error:
        headline = f"the trace is refused: {error}"
        refused = (diagnostic("TTN002", headline, whole_file(path)),)
        raise TraceRefused(getattr(error, "diagnostics", ()) or refused) from None
    except (LocalLoopError, ZeroDivisionError) as error:
        headline = f"the trace is refused: its kernel cannot run: {error}"
        raise TraceRefused((diagnostic("TTN002", headline, whole_file(path)),)) from None
    except NotLowered as refusal:
        raise TraceRefused(refusal.diagnostics) from None


def _reopened(saved: SavedTrace, whole: Kernel, path: str, started: float) -> Finding:
    kernel = with_policies(whole, saved.policies)
    rewrites = frozenset(saved.rewrites)
    program = sync_program(kernel, rewrites=rewrites, as_written=saved.as_written).program
    replay(program, saved.trace)
    trace = _confirmed(program, saved.trace)
    return Finding(
        saved.path,
        kernel.name,
        kernel.target,
        Verdict.REFUTED,
        coverage_of(kernel),
        seconds=time.thread_time() - started,
        program=program,
        trace=trace,
        trace_path=path,
    )


def _confirmed(program: SyncProgram, trace: Trace) -> Trace:
    """The trace; where the order alone shows its fault, as the happens-before engine finds it."""
    if trace.fault.kind is not FaultKind.WEAK_SYNCHRONISATION:
        return trace
    from titan.engines.happens_before.engine import analyse

    result = analyse(program, dict(trace.parameters))
    if result.trace is None or result.trace.fault.kind is not trace.fault.kind:
        raise ReplayError("the order of the run does not show the fault")
    return result.trace
