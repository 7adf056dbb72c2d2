"""`titan litmus`: what the PTX memory model allows of a litmus test; tests as kernels."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.litmus_run import run
from titan.foundation.verdict import worst

if TYPE_CHECKING:
    from titan.foundation.source.span import Span
    from titan.litmus.decide import LitmusDecision
    from titan.litmus.language.suite import SuiteEntry
    from titan.litmus.model.options import ModelOptions

MESSAGE_MAX = 400
_FOUND = click.Path(exists=True, path_type=Path)
_PATHS = click.argument("paths", metavar="[FILE|DIR]...", nargs=-1, type=_FOUND)


@click.group()
def litmus() -> None:
    """Decide litmus tests under the PTX memory model with proxies."""


@litmus.command()
@_PATHS
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "concise", "json"]),
    default="text",
    show_default=True,
    help="How to show the answers.",
)
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
@click.option("--solver", type=click.Choice(["z3", "cvc5"]), default="z3", show_default=True)
@click.option("--confirm", is_flag=True, help="Decide each test with the other solver, too.")
@click.option(
    "--unroll", type=click.IntRange(0, 8), default=2, show_default=True, help="Extra loop rounds."
)
@click.option(
    "--timeout",
    type=click.IntRange(min=1),
    help="Seconds of processor time a test; a test that takes longer is undecided.",
)
def check(
    paths: tuple[Path, ...],
    format_name: str,
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
) -> int:
    """Decide each test, by default all of litmus/, and compare with the recorded verdicts.

    With recorded verdicts (kinds.txt) exit code 1 means that some test is decided differently;
    without, that the condition of some file does not hold (herd's No).
    """
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
    rows: list[dict[str, object]] = []
    codes: list[ExitCode] = []
    count = unexpected = 0
    for entry in _entries(paths):
        try:
            decision = _decide(entry, options, solver, unroll, timeout)
            if confirm:
                other = "cvc5" if solver == "z3" else "z3"
                _compare(decision, _decide(entry, options, other, unroll, timeout))
        except click.ClickException as problem:  # the others have answers of their own
            click.echo(f"Error: {problem.format_message()}", err=True)
            codes.append(ExitCode.BAD_INPUT)
            count, unexpected = count + 1, unexpected + 1
            continue
        expected = entry.expected.under(options) if entry.expected is not None else None
        code = _judge(decision, expected)
        codes.append(code)
        count += 1
        unexpected += code is not ExitCode.VERIFIED
        if graph is not None and decision.witness is not None:
            _draw(graph, entry.path.stem, decision)
        _show(decision, entry.path, expected, format_name, states, execution, unroll, timeout, rows)
    if format_name == "json":
        click.echo(json.dumps({"tests": rows}, indent=2))
    elif count != 1:
        click.echo(f"{count} tests, {unexpected} not as they should be", err=True)
    return ExitCode(worst(codes))


@litmus.command(name="list")
@_PATHS
def list_(paths: tuple[Path, ...]) -> None:
    """List the tests with their recorded verdicts, by default all of litmus/."""
    for entry in _entries(paths):
        verdict = entry.expected.verdict if entry.expected is not None else "?"
        others = entry.expected.exceptions if entry.expected is not None else ()
        notes = [
            ",".join(f"{key}={value}" for key, value in reading.items()) + f":{other}"
            for reading, other in others
        ]
        click.echo(" ".join([f"{verdict:<9}", _shown(entry.path), *notes]))


@litmus.command()
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, required=True, type=_FOUND)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for the sources and .json files; made if it is not there.",
)
@click.option(
    "--language",
    type=click.Choice(["cuda", "c11"]),
    default="cuda",
    show_default=True,
    help="CUDA for sm_90a, or C11 with atomics and threads for a CPU.",
)
def render(paths: tuple[Path, ...], output: Path, language: str) -> int:
    """Write tests as kernels with a manifest each; nothing is launched.

    Tests below a folder that have no rendering are named on stderr with the reason; a test that is
    named itself and has none is an error, and then nothing is written. Exit code 2 if so.
    """
    from titan.litmus.language.condition import LitmusError
    from titan.litmus.render.files import render_all, write_all

    named = {path for path in paths if not path.is_dir()}
    try:
        rendered, refused = render_all([e.path for e in _entries(paths)], language)
    except LitmusError as error:
        raise click.ClickException(_located(error)) from None
    for path, refusal in refused:
        if path in named:
            raise click.ClickException(_located(refusal))
        click.echo(f"{_shown(path)}: not rendered: {refusal.message}", err=True)
    if not rendered:
        raise click.ClickException("none of the tests has a rendering")
    try:
        write_all(output, rendered)
    except OSError as error:
        raise click.ClickException(f"cannot write to {output}: {error.strerror}") from None
    click.echo(f"{len(rendered) // 2} rendered, {len(refused)} not")
    return ExitCode.VERIFIED


litmus.add_command(run)


def _entries(paths: tuple[Path, ...]) -> list[SuiteEntry]:
    from titan.foundation.resources import root
    from titan.litmus.language.condition import LitmusError
    from titan.litmus.language.suite import find_tests

    try:
        entries = list(find_tests(paths or (root("litmus"),)))
    except LitmusError as error:
        raise click.ClickException(str(error)) from None
    if not entries:
        raise click.UsageError("no litmus tests there")
    return entries


def _decide(
    entry: SuiteEntry, options: ModelOptions, solver: str, unroll: int, timeout: int | None
) -> LitmusDecision:
    from titan.foundation.limited import within
    from titan.litmus.decide import decide, gave_up
    from titan.litmus.language.condition import LitmusError
    from titan.litmus.language.suite import read_test
    from titan.litmus.smt.terms import UnsupportedTest

    try:
        test = read_test(entry.path)
    except LitmusError as error:
        raise click.ClickException(_located(error)) from None
    ask = partial(decide, test, options, unroll=unroll, solver=solver)
    try:
        decision = ask() if timeout is None else within(timeout, ask)
    except UnsupportedTest as error:
        raise click.ClickException(f"{entry.path}: {error}") from None
    if decision is None:
        note = f"its {timeout} s of processor time ran out"
        return gave_up(test, options, solver, note, float(timeout or 0))
    return decision


def _compare(first: LitmusDecision, second: LitmusDecision) -> None:
    """Two solvers must not contradict each other; one that gave up contradicts nothing."""
    from titan.litmus.decide import EnginesDisagree

    verdicts = {first.allowed, second.allowed} - {None}
    if len(verdicts) > 1:
        raise EnginesDisagree(
            f"{first.test.name}: {first.solver} says {first.verdict}, "
            f"{second.solver} says {second.verdict}"
        )


def _located(error: Exception) -> str:
    """The message with the line of the file and a mark under what is wrong."""
    span: Span | None = getattr(error, "span", None)
    excerpt = span.excerpt() if span is not None else ""
    text = str(error)
    text = text if len(text) <= MESSAGE_MAX else text[:MESSAGE_MAX] + " ..."
    if span is None or not excerpt:
        return text
    if len(excerpt) > MESSAGE_MAX:  # a mark below it would not stand where it belongs
        return text
    width = max(1, span.end_column - span.start_column) if span.end_line == span.start_line else 1
    mark = " " * (span.start_column - 1) + "^" * width
    return f"{text}\n  {excerpt}\n  {mark}"


def _judge(decision: LitmusDecision, expected: str | None) -> ExitCode:
    if decision.holds is None:
        return ExitCode.UNDECIDED
    if expected is not None:
        return ExitCode.VERIFIED if decision.verdict == expected else ExitCode.REFUTED
    return ExitCode.VERIFIED if decision.holds else ExitCode.REFUTED


def _show(
    decision: LitmusDecision,
    path: Path,
    expected: str | None,
    format_name: str,
    states: bool,
    execution: bool,
    unroll: int,
    timeout: int | None,
    rows: list[dict[str, object]],
) -> None:
    from titan.foundation.limited import within
    from titan.litmus.decide import final_states
    from titan.litmus.report import as_json, format_decision, format_execution

    if format_name == "concise":
        note = "" if expected in (None, decision.verdict) else f" (expected {expected})"
        click.echo(f"{_shown(path)}: {decision.verdict}{note}")
        return
    found = None
    if states and decision.allowed is not None:
        ask = partial(final_states, decision.test, decision.options, unroll=unroll)
        found = ask() if timeout is None else within(timeout, ask)
    if format_name == "json":
        rows.append(as_json(decision, _shown(path), found, expected))
        return
    click.echo(format_decision(decision, found, expected))
    if execution and decision.witness is not None:
        click.echo(format_execution(decision.witness))


def _shown(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def _draw(folder: Path, name: str, decision: LitmusDecision) -> None:
    from titan.litmus.graph import to_dot, to_svg

    assert decision.witness is not None
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in (
        ("dot", to_dot(decision.witness, name)),
        ("svg", to_svg(decision.witness, name)),
    ):
        (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
