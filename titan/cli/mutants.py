"""`titan mutants`: delete, weaken or shift every synchronising operation; which engines notice?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import show, write
from titan.cli.progress import progress
from titan.cli.settings import NumberRange, overrides, settings_options
from titan.cli.spread import spread, spread_options
from titan.cli.streams import INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from titan.cli.progress import ProgressLine
    from titan.sync.program import SyncProgram
    from titan.verify.model import VerifyOptions
    from titan.verify.mutate.decide import MutantDecision, MutationBudget
    from titan.verify.mutate.judge import Score


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=INPUT)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="Format of the report.",
)
@click.option("--all", "everything", is_flag=True, help="List the killed ones, too.")
@settings_options("Override a size: 4, or 2,3,4, or 2..5.")
@click.option(
    "--budget-states",
    type=click.IntRange(1, 10**9),
    default=1_000_000,
    show_default=True,
    help="Maximum number of states that the searches of one mutant visit together.",
)
@click.option(
    "--budget-seconds",
    type=NumberRange(0.01, 1e6),
    default=120.0,
    show_default=True,
    help="Processor time for these searches; a backstop.",
)
@spread_options("Mutants decided in parallel")
def mutants(
    paths: tuple[str, ...],
    format_name: str,
    everything: bool,
    depth: str | None,
    tiles: str | None,
    settings: tuple[str, ...],
    budget_states: int,
    budget_seconds: float,
    jobs: int | None,
    cluster: str | None,
) -> int:
    """Break verified kernels on purpose: files, and folders with all kernel files in them.

    Text comes kernel by kernel; an interruption shows what was done until then. The exit code is 1
    when a mutant survives without an argument or a kernel is refuted itself, and 3 when something
    stays undecided.
    """
    from titan.verify.model import VerifyOptions
    from titan.verify.mutate.decide import MutationBudget
    from titan.verify.mutate.table import to_json, to_markdown, to_text, totals

    kernels = _kernels(paths, VerifyOptions(overrides(settings, depth, tiles)))
    if kernels is None:
        return ExitCode.BAD_INPUT
    each = f"{budget_states:,} states a mutant"
    click.echo(f"kernels: {len(kernels)}, budget: {each}", err=True)
    scores: list[Score] = []
    budget = MutationBudget(budget_states, budget_seconds)
    try:
        with progress() as shown:
            for score in _scores(kernels, budget, shown, (jobs, cluster)):
                scores.append(score)
                if format_name == "text":
                    write(to_text(score, everything))
                    sys.stdout.flush()
    finally:
        if format_name == "json":
            write(to_json(scores))
        elif format_name == "markdown":
            write(to_markdown(scores))
        elif len(scores) > 1:
            write(totals(scores))
    return _exit_code(scores)


def _scores(
    kernels: list[tuple[str, SyncProgram]],
    budget: MutationBudget,
    shown: ProgressLine,
    where: tuple[int | None, str | None],
) -> Iterator[Score]:
    """The judgement on each program as it arrives; progress is shown on a terminal."""
    from dataclasses import replace

    from titan.verify.mutate.decide import Decider
    from titan.verify.mutate.judge import Decide, judge_all

    def decide_all(decide: Decide, programs: Sequence[SyncProgram]) -> Iterator[MutantDecision]:
        return spread(decide, [(program,) for program in programs], *where)

    for number, (name, program) in enumerate(kernels):
        head = f"{name} ({number + 1} of {len(kernels)})"
        shown.show(head)

        def report(done: int, mutants: int, head: str = head) -> None:
            shown.show(f"{head}: {done} of {mutants} mutants")

        yield replace(judge_all(program, Decider(budget), report, decide_all), name=name)


def _kernels(
    paths: tuple[str, ...], options: VerifyOptions
) -> list[tuple[str, SyncProgram]] | None:
    """The named programs of all kernels; None if one is faulty, after showing its diagnostics."""
    from titan.verify.files import find_kernels
    from titan.verify.lowering import NotLowered, sync_program
    from titan.verify.pipeline import read_family

    found = find_kernels(paths)
    if found.empty:
        raise click.UsageError(f"no kernel files in {found.empty[0]!r}")
    if not found.kernels:
        raise click.UsageError("no kernel file is among the given paths")
    kernels: list[tuple[str, SyncProgram]] = []
    for path in found.kernels:
        family, errors, _ = read_family(path, options)
        if family is None:
            show(errors)
            return None
        for kernel in family.kernels:
            sizes = ", ".join(f"{name} {value}" for name, value in kernel.sizes)
            alone = len(family.kernels) == 1
            try:
                program = sync_program(kernel).program
            except NotLowered as refusal:
                show(refusal.diagnostics)
                return None
            kernels.append((kernel.name if alone else f"{kernel.name}, {sizes}", program))
    return kernels


def _exit_code(scores: list[Score]) -> int:
    from titan.foundation.verdict import Verdict
    from titan.verify.mutate.judge import Fate

    outcomes = {score.baseline.verdict for score in scores}
    fates = {judgement.fate for score in scores for judgement in score.judgements}
    if Fate.SURVIVING in fates or Verdict.REFUTED in outcomes:
        return ExitCode.REFUTED
    if Fate.UNDECIDED in fates or Verdict.UNDECIDED in outcomes:
        return ExitCode.UNDECIDED
    return ExitCode.VERIFIED
