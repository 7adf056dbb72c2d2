"""`titan litmus check`: the model's verdict on each test, compared with the recorded one."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.litmus_files import PATHS, entries_of, located, shown_path
from titan.cli.output import CI_FORMATS, deliver, for_ci, report_options, write
from titan.cli.progress import current, progress
from titan.cli.spread import spread_options
from titan.foundation.verdict import worst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from titan.foundation.verdict import Verdict
    from titan.litmus.answer import LitmusAnswer
    from titan.report.checks import Check

FORMAT_VERSION = 1


@click.command()
@PATHS
@report_options
@click.option(
    "--fence-rule",
    type=click.Choice(["writer", "writer-alone", "path"]),
    default="writer",
    show_default=True,
    help="Who has to fence generic accesses before asynchronous ones.",
)
@click.option(
    "--war",
    type=click.Choice(["fence", "sync"]),
    default="fence",
    show_default=True,
    help="Whether a generic read needs a fence before an asynchronous overwrite.",
)
@click.option(
    "--init",
    type=click.Choice(["sync", "fence"]),
    default="sync",
    show_default=True,
    help="Whether mbarrier.init needs a fence before asynchronous or remote use.",
)
@click.option(
    "--tensor",
    type=click.Choice(["order", "fence"]),
    default="order",
    show_default=True,
    help="Whether operands of tcgen05 need a fence before they are overwritten after a commit.",
)
@click.option("--states/--no-states", default=True, help="List all final states (text, json).")
@click.option("--execution", is_flag=True, help="Print the execution that shows Allowed.")
@click.option(
    "--graph",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write each witness to this folder as .dot and .svg.",
)
@click.option(
    "--solver", type=click.Choice(["z3", "cvc5"]), default="z3", show_default=True,
    help="The solver that decides the axioms.",
)  # fmt: skip
@click.option("--confirm", is_flag=True, help="Decide each test with the other solver as well.")
@click.option(
    "--unroll", type=click.IntRange(0, 8), default=2, show_default=True, help="Extra loop rounds."
)
@click.option(
    "--timeout",
    type=click.IntRange(min=1),
    help="Seconds of processor time for each test; a test that takes longer is undecided.",
)
@click.option("--timings", is_flag=True, help="Show the processor time of each test.")
@spread_options("Tests decided in parallel")
def check(
    paths: tuple[Path, ...],
    format_name: str,
    output: str | None,
    fence_rule: str,
    war: str,
    init: str,
    tensor: str,
    states: bool,
    execution: bool,
    graph: Path | None,
    solver: str,
    confirm: bool,
    unroll: int,
    timeout: int | None,
    timings: bool,
    jobs: int | None,
    cluster: str | None,
) -> int:
    """Decide each test (by default all of litmus/) and compare with the recorded verdicts.

    With recorded verdicts (kinds.txt) exit code 1 means that some test is decided differently;
    without, that the condition of some file does not hold (herd's No).
    """
    from titan.cli.spread import spread
    from titan.litmus.answer import LitmusRequest, answer
    from titan.litmus.model.options import (
        FenceRule,
        InitRule,
        ModelOptions,
        TensorRule,
        WarPolicy,
    )

    options = ModelOptions(
        FenceRule(fence_rule), WarPolicy(war), InitRule(init), TensorRule(tensor)
    )
    request = LitmusRequest(
        options, solver, unroll, timeout, confirm, states and format_name in ("text", "json")
    )
    entries = entries_of(paths)
    shown = _Shown(format_name, output, execution, timings)
    with progress():
        answers = spread(answer, [(entry, request) for entry in entries], jobs, cluster)
        found = shown.all(answers, len(entries), graph)
    return ExitCode(worst(verdict.exit_code for verdict in found))


@dataclass(frozen=True)
class _Shown:
    """How answers are shown, and where."""

    format_name: str
    output: str | None
    execution: bool
    timings: bool
    texts: list[str] = field(default_factory=list)

    def all(self, answers: Iterator[LitmusAnswer], of: int, graph: Path | None) -> list[Verdict]:
        """Text for people is written as answers arrive, other formats at the end."""
        done: list[LitmusAnswer] = []
        current().show("deciding", 0, of)
        for item in answers:
            done.append(item)
            current().show("decided", len(done), of)
            if graph is not None:
                _draw(graph, item)
            if item.fault and self.format_name != "json":
                current().wipe()
                click.echo(f"Error: {_fault(item)}", err=True)
            elif self.format_name in ("text", "concise"):
                self._line(item)
        if self.format_name in CI_FORMATS:
            self.texts.append(for_ci(map(check_of, done), self.format_name))
        elif self.format_name == "json":
            self.texts.append(self._document(done))
        deliver("".join(self.texts), self.output)
        if self.format_name in ("text", "concise") and len(done) != 1:
            bad = sum(item.verdict.exit_code != ExitCode.VERIFIED for item in done)
            click.echo(f"{len(done)} tests, {bad} not as they should be", err=True)
        return [item.verdict for item in done]

    def _line(self, item: LitmusAnswer) -> None:
        text = self._text(item)
        if self.output is not None:
            self.texts.append(text)
            return
        write(text)
        sys.stdout.flush()

    def _text(self, item: LitmusAnswer) -> str:
        from titan.litmus.report import format_decision, format_execution

        decision = item.decision
        assert decision is not None
        if self.format_name == "concise":
            note = "" if item.expected in (None, decision.verdict) else _expected(item)
            return f"{shown_path(item.entry.path)}: {decision.verdict}{note}\n"
        text = format_decision(decision, item.states, item.expected, timings=self.timings) + "\n"
        if self.execution and decision.witness is not None:
            text += format_execution(decision.witness) + "\n"
        return text

    def _document(self, done: list[LitmusAnswer]) -> str:
        rows = [self._row(item) for item in done]
        return json.dumps({"version": FORMAT_VERSION, "tests": rows}, indent=2) + "\n"

    def _row(self, item: LitmusAnswer) -> dict[str, object]:
        from titan.litmus.report import as_json

        path = shown_path(item.entry.path)
        if item.decision is None:
            return {"path": path, "fault": item.fault, "line": item.span and item.span.start_line}
        return as_json(item.decision, path, item.states, item.expected, timings=self.timings)


def check_of(item: LitmusAnswer) -> Check:
    """The record that reports for CI systems are made of."""
    from titan.foundation.diagnostics.model import diagnostic
    from titan.report.checks import Check

    path, decision = shown_path(item.entry.path), item.decision
    if decision is None:
        found = diagnostic("TTN001", item.fault, item.span)
        return Check(path, item.entry.path.stem, item.verdict, item.fault, (found,))
    text = f"{decision.verdict}{_expected(item)}" + (f"; {decision.note}" if decision.note else "")
    failure = ""
    if item.verdict.exit_code == ExitCode.REFUTED:
        failure = "unexpected verdict" if item.expected is not None else "condition not met"
    return Check(path, decision.test.name, item.verdict, text, failure=failure)


def _expected(item: LitmusAnswer) -> str:
    return f" (expected {item.expected})" if item.expected is not None else ""


def _fault(item: LitmusAnswer) -> str:
    place = f"{item.span}: " if item.span is not None else f"{shown_path(item.entry.path)}: "
    return located(place + item.fault, item.span)


def _draw(folder: Path, item: LitmusAnswer) -> None:
    """The witness as pictures, where there is one."""
    if item.decision is None or item.decision.witness is None:
        return
    from titan.foundation.atomic import write_text
    from titan.litmus.graph import to_dot, to_svg

    witness, name = item.decision.witness, item.entry.path.stem
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in (("dot", to_dot(witness, name)), ("svg", to_svg(witness, name))):
        write_text(folder / f"{name}.{suffix}", text)
