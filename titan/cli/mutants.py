"""`titan mutants`: delete, weaken or shift every synchronising operation, and see who notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import show, write

if TYPE_CHECKING:
    from titan.kernel.model import Kernel
    from titan.mutate.judge import Score


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="How to show what became of the mutants.",
)
@click.option("--all", "everything", is_flag=True, help="List the killed ones too.")
@click.option("--depth", metavar="VALUES", help="The same as --set depth=VALUES.")
@click.option("--tiles", metavar="VALUES", help="The same as --set tiles=VALUES.")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUES",
    multiple=True,
    help="Give a size other values: 4, or 2,3,4, or 2..5.",
)
@click.option(
    "--budget-states",
    type=click.IntRange(1, 10**9),
    default=1_000_000,
    show_default=True,
    help="States that one run of an engine may visit.",
)
@click.option(
    "--budget-seconds",
    type=click.FloatRange(0.01, 1e6),
    default=10.0,
    show_default=True,
    help="Seconds that one run of an engine may take.",
)
def mutants(
    paths: tuple[str, ...],
    format_name: str,
    everything: bool,
    depth: str | None,
    tiles: str | None,
    settings: tuple[str, ...],
    budget_states: int,
    budget_seconds: float,
) -> int:
    """Break verified kernels on purpose: files, and folders with all kernel files in them.

    The exit code is 1 when a mutant survives without an argument or a kernel is refuted itself, and
    3 when something stays undecided.
    """
    from dataclasses import replace

    from titan.cli.verify import setting
    from titan.mutate.decide import Budget, Decider
    from titan.mutate.judge import judge_all
    from titan.mutate.table import to_json, to_markdown, to_text
    from titan.verify.lowering import Refusal, sync_program
    from titan.verify.model import Options

    wanted = [*settings]
    wanted += [f"depth={depth}"] if depth is not None else []
    wanted += [f"tiles={tiles}"] if tiles is not None else []
    kernels = _kernels(paths, Options(tuple(setting(text) for text in wanted)))
    if kernels is None:
        return ExitCode.BAD_INPUT
    budget = Budget(budget_states, budget_seconds)
    scores: list[Score] = []
    for name, kernel in kernels:
        try:
            program = sync_program(kernel).program
        except Refusal as refusal:
            show(refusal.diagnostics)
            return ExitCode.BAD_INPUT
        scores.append(replace(judge_all(program, Decider(budget)), name=name))
    if format_name == "json":
        write(to_json(scores))
    elif format_name == "markdown":
        write(to_markdown(scores))
    else:
        write(to_text(scores, everything))
    return _exit_code(scores)


def _kernels(paths: tuple[str, ...], options: object) -> list[tuple[str, Kernel]] | None:
    """All kernels of the paths, named; None, after what is wrong was shown, if one is faulty."""
    from titan.verify.files import find_kernels
    from titan.verify.model import Options
    from titan.verify.pipeline import read_family

    assert isinstance(options, Options)
    found = find_kernels(paths)
    if found.empty:
        raise click.UsageError(f"no kernel files in {found.empty[0]!r}")
    kernels: list[tuple[str, Kernel]] = []
    for path in found.kernels:
        family, errors, _ = read_family(path, options)
        if family is None:
            show(errors)
            return None
        for kernel in family.kernels:
            sizes = ", ".join(f"{name} {value}" for name, value in kernel.sizes)
            alone = len(family.kernels) == 1
            kernels.append((kernel.name if alone else f"{kernel.name}, {sizes}", kernel))
    return kernels


def _exit_code(scores: list[Score]) -> int:
    from titan.explore.reference import Outcome
    from titan.mutate.judge import Fate

    outcomes = {score.baseline.outcome for score in scores}
    fates = {judgement.fate for score in scores for judgement in score.judgements}
    if Fate.SURVIVING in fates or Outcome.REFUTED in outcomes:
        return ExitCode.REFUTED
    if Fate.UNDECIDED in fates or Outcome.UNDECIDED in outcomes:
        return ExitCode.UNDECIDED
    return ExitCode.VERIFIED
