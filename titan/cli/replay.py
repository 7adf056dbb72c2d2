"""`titan replay`: a saved counterexample, step by step on the reference interpreter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import colour_option, format_option, write
from titan.cli.streams import INPUT

if TYPE_CHECKING:
    from titan.language.kernel.model import Kernel
    from titan.verify.tracefile import SavedTrace


@click.command()
@click.argument("path", metavar="TRACE", type=INPUT)
@format_option
@colour_option
def replay(path: str, format_name: str, colour: str) -> int:
    """Replay a saved trace and confirm that it reaches its fault.

    A trace of a kernel file or of TTGIR is replayed on the reference interpreter, one of compiled
    code on the machine of warps. The exit code is 1, since the fault is real. A trace that was
    changed, or that does not lead to its fault, is refused with 2.
    """
    import sys

    from titan.frontends.ptx.code_trace import is_code_trace

    if is_code_trace(path):
        return _replay_code(path, format_name, colour)

    from titan.foundation.diagnostics.render.colour import wanted
    from titan.report.findings import ReportStyle, render
    from titan.verify.reopen import TraceRefused, reopen

    try:
        finding = reopen(path, _kernel_of)
    except TraceRefused as refused:
        from titan.cli.output import show

        show(refused.diagnostics, format_name, colour)
        return ExitCode.BAD_INPUT
    style = ReportStyle(wanted(sys.stdout, colour), full_trace=True)
    write(render([finding], format_name, style))
    if format_name == "text":
        assert finding.trace is not None
        count = len(finding.trace.steps)
        steps = "1 step" if count == 1 else f"{count} steps"
        write(f"confirmed: {steps} of the reference interpreter lead to the fault\n")
    return ExitCode.REFUTED


def _kernel_of(saved: SavedTrace) -> Kernel:
    """The kernel of a trace, of a kernel file or of TTGIR. Raises TraceRefused."""
    from titan.frontends.open import is_ttgir_text
    from titan.verify.reopen import kernel_in_file

    if not is_ttgir_text(saved.path, saved.text):
        return kernel_in_file(saved)
    from titan.frontends.ttgir.verify import kernel_of_trace

    return kernel_of_trace(saved)


def _replay_code(path: str, format_name: str, colour: str) -> int:
    """An interleaving of compiled code, as text; diagnostics where it is refused."""
    from titan.cli.output import show
    from titan.foundation.diagnostics.model import diagnostic
    from titan.foundation.source.span import whole_file
    from titan.frontends.ptx.code_trace import CodeTraceError, load_code_trace
    from titan.frontends.ptx.replay_code import (
        CodeReplayRefused,
        replay_code,
        replay_data,
        replay_text,
    )

    try:
        replayed = replay_code(load_code_trace(path))
    except (CodeTraceError, CodeReplayRefused) as error:
        headline = f"the trace is refused: {error}"
        first = (diagnostic("TTN002", headline, whole_file(path)),)
        unread = isinstance(error, CodeTraceError) and bool(error.diagnostics)
        show((() if unread else first) + error.diagnostics, format_name, colour)
        return ExitCode.BAD_INPUT
    if format_name == "json":
        write(json.dumps(replay_data(replayed), indent=2) + "\n")
    else:
        text = replay_text(replayed)
        lines = text.splitlines()
        write(text if format_name == "text" else f"{lines[0]}; {lines[-1]}\n")
    return ExitCode.REFUTED
