"""`titan build`: packages of verified CUDA and HIP from tile programs."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import colour_option, show, write
from titan.cli.progress import current, progress
from titan.cli.settings import NumberRange
from titan.cli.streams import INPUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from titan.codegen.pipeline.build import Answer, BuildCandidate, BuildLimits, Judge
    from titan.codegen.tile.model import TileProgram


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=INPUT)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    default="out",
    show_default=True,
    help="Folder for the packages, one for each kernel and target.",
)
@click.option("--target", metavar="NAME", help="Build for this target only.")
@click.option(
    "--solver",
    type=click.Choice(["auto", "rau", "joint", "gauss"]),
    default="auto",
    show_default=True,
    help="The scheduler.",
)
@click.option(
    "--budget",
    type=NumberRange(0.1, 1e6),
    help="Processor time for the verification of one shape, in seconds: a backstop that refuses the"
    " package when it is spent. By default states are counted, no time.",
)
@click.option(
    "--schedule-budget",
    type=NumberRange(0.1, 1e6),
    default=5.0,
    show_default=True,
    help="Work of a scheduler, in seconds of an idle core of 2023; counted, not timed.",
)
@click.option(
    "--specialise",
    type=click.Choice(["always", "heuristic", "never"]),
    default="always",
    show_default=True,
    help="A separate loading warp: try it first, only where the model says it is faster, or never.",
)
@click.option(
    "--loop",
    type=click.Choice(["peeled", "unified"]),
    default="peeled",
    show_default=True,
    help="Prologue, steady state and epilogue, or one loop over time with guards.",
)
@click.option(
    "--tail",
    type=click.Choice(["boxes", "threads", "poison"]),
    help="The last iteration, of programs that do not say: whole boxes, threads, or poison.",
)
@click.option(
    "--tiles",
    type=click.IntRange(1, 1 << 30),
    default=64,
    show_default=True,
    help="Iterations that `--specialise heuristic` and `--explain` assume, unless the program "
    "fixes them.",
)
@click.option(
    "--require",
    type=click.Choice(["any", "bounded"]),
    default="bounded",
    show_default=True,
    help="Whether to write a pipeline that is verified for some numbers of tiles only.",
)
@click.option(
    "--cache",
    metavar="FILE",
    default=".titan/schedules.sqlite",
    show_default=True,
    help="Where schedules are stored.",
)
@click.option(
    "--certificate-states",
    type=click.IntRange(0, 1_000_000),
    default=5000,
    show_default=True,
    help="Maximum number of configurations of the certificate; 0 for no certificate.",
)
@click.option("--no-compile", is_flag=True, help="Do not run the toolchain of the target.")
@click.option("--no-cache", is_flag=True, help="Ignore the cache: search again and store nothing.")
@click.option("--cache-rates", is_flag=True, help="Report how often schedules came from the cache.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to report what was built.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Say why the shape was taken and what bounds the kernel, at --tiles iterations.",
)
@click.option("--timings", is_flag=True, help="Show processor times.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Verify all shapes of a file in parallel on a dask.distributed cluster.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 256),
    help="Packages built at the same time; by default one per core, or TITAN_JOBS.",
)
@colour_option
def build(
    paths: tuple[str, ...],
    output: str,
    target: str | None,
    solver: str,
    budget: float | None,
    schedule_budget: float,
    specialise: str,
    loop: str,
    tail: str | None,
    tiles: int,
    require: str,
    cache: str,
    certificate_states: int,
    no_compile: bool,
    no_cache: bool,
    cache_rates: bool,
    format_name: str,
    explain: bool,
    timings: bool,
    cluster: str | None,
    jobs: int | None,
    colour: str,
) -> int:
    """Build verified kernels from tile programs: files, and folders with tile files in them.

    A package is written only when its pipeline is verified; shapes are tried by the cycles that a
    model predicts, and what was rejected is reported.
    """
    from titan.codegen.pipeline.build import BuildLimits
    from titan.foundation.atomic import CannotWrite, refuse_unwritable

    try:
        refuse_unwritable(output)
    except CannotWrite as error:
        raise click.BadParameter(str(error), param_hint="--output") from None
    limits = BuildLimits(
        schedule_budget,
        verify_seconds=math.inf if budget is None else budget,
        require_any=require == "any",
        cache=None if no_cache else cache,
        solver=solver,
        specialise=specialise,
        iterations=tiles,
        loop=loop,
    )
    if not no_cache:
        _warn_of_damage(cache)
    codes: list[int] = []
    order = BuildOrder(
        Path(output), limits, not no_compile, certificate_states, cluster, format_name,
        tiles if explain else 0, timings,
    )  # fmt: skip
    with progress():
        work = [(*one, order) for one in _programs(paths, target, tail, colour, codes)]
        _report(built_in_turn(work, 1 if cluster is not None else jobs), format_name, codes)
    if cache_rates and not no_cache and format_name != "json":
        write(rates_text(cache))
    worst = (ExitCode.INTERNAL, ExitCode.BAD_INPUT, ExitCode.REFUTED)
    return next((code for code in worst if code in codes), ExitCode.VERIFIED)


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """How programs are built and reported; `explained`: for so many iterations, or 0."""

    parent: Path
    limits: BuildLimits
    with_toolchain: bool
    certificate_states: int
    cluster: str | None
    format_name: str
    explained: int
    timings: bool


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What one build has to say: on the two streams, for JSON, and as an exit code."""

    text: str = ""
    document: dict[str, object] | None = None
    errors: tuple[str, ...] = ()
    code: ExitCode = ExitCode.VERIFIED


def built_in_turn(
    work: list[tuple[str, TileProgram, str, BuildOrder]], jobs: int | None
) -> Iterator[BuildReport]:
    """Reports in the order of the programs, each as soon as it and those before it are done."""
    from titan.cli.spread import spread

    for number, report in enumerate(spread(built, work, jobs), 1):
        yield report
        if number < len(work):
            current().show(f"building, {work[number][1].name} next", number, len(work))


def _report(reports: Iterator[BuildReport], format_name: str, codes: list[int]) -> None:
    """What was built; text as soon as it is there."""
    documents: list[dict[str, object]] = []
    for report in reports:
        codes.append(report.code)
        if report.errors:
            current().wipe()
            for line in report.errors:
                click.echo(line, err=True)
        if report.document is not None:
            documents.append(report.document)
        if report.text:
            write(report.text)
            sys.stdout.flush()
    if format_name == "json":
        import json

        write(json.dumps(documents, indent=2) + "\n")


def _all_at_once(cluster: str) -> Judge:
    """Candidates verified at the same time on a cluster; the first that is verified is taken."""
    from titan.cli.spread import spread
    from titan.codegen.pipeline.build import answer_on

    def judge(
        candidates: Iterable[BuildCandidate], limits: BuildLimits
    ) -> Iterator[tuple[BuildCandidate, Answer]]:
        known = list(candidates)
        work = [(candidate, limits) for candidate in known]
        yield from zip(known, spread(answer_on, work, None, cluster), strict=True)

    return judge


def _warn_of_damage(cache: str) -> None:
    """Says so where nothing is kept of the schedules, once for all programs."""
    from titan.scheduling.cache import Cache

    with Cache(cache) as store:
        pass
    if store.damage:
        click.echo(f"warning: {cache} is left as it is and not used: {store.damage}", err=True)


def rates_text(cache: str) -> str:
    """Hits and misses of a cache over all of its uses, by tile, type, target and fusion."""
    from titan.scheduling.cache import Cache

    with Cache(cache) as store:
        rates = store.rates()
    lines = ["cache: tile, type, target, fused: hits of look-ups"]
    for one in rates:
        of = one.subject
        total = one.hits + one.misses
        lines.append(
            f"  {of.tile}, {of.dtype}, {of.target}, {of.fusion}: "
            f"{one.hits} of {total} ({one.rate:.0%})"
        )
    return "\n".join(lines) + "\n"


def _programs(
    paths: tuple[str, ...],
    target: str | None,
    tail: str | None,
    colour: str,
    codes: list[int],
) -> list[tuple[str, TileProgram, str]]:
    """All tile programs of the files; nothing is built if one of them is faulty. `tail` becomes
    part of the text of those that have none, so that a package says all of what it computes."""
    from titan.codegen.tile.load import load_tile, parse_tile, targets_of
    from titan.target.load import TargetRefused

    found = []
    for path in _files(paths):
        try:
            for name in targets_of(path):
                if target in (None, name):
                    text = _text_of(path)
                    tile = load_tile(path, target=name)
                    if tail not in (None, tile.tail):
                        text = f"{text.rstrip()}\ntail: {tail}\n"
                        tile = parse_tile(text, path, name)
                    found.append((path, tile, text))
        except TargetRefused as refused:
            show(refused.diagnostics, "text", colour)
            codes.append(ExitCode.BAD_INPUT)
    if codes:
        return []
    if not found:
        raise click.UsageError(f"no tile program for target {target}" if target else "no files")
    return found


def _text_of(path: str) -> str:
    """The text of a file, each line of it ended by a line feed. Raises TargetRefused."""
    from titan.foundation.source.loading import load_file
    from titan.target.load import TargetRefused

    source, errors = load_file(path)
    if source is None:
        raise TargetRefused(errors)
    return source.text.replace("\r\n", "\n").replace("\r", "\n")


def _files(paths: tuple[str, ...]) -> list[str]:
    files: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            inside = sorted(str(item) for item in Path(path).glob("*.yaml"))
            if not inside:
                raise click.UsageError(f"no tile files in {path}")
            files += inside
        else:
            files.append(path)
    return files


def built(path: str, tile: TileProgram, text: str, order: BuildOrder) -> BuildReport:
    """One package, written to its folder, or the reason for none."""
    from titan.codegen.pipeline.build import BuildRefused, one_by_one
    from titan.foundation.atomic import CannotWrite
    from titan.foundation.diagnostics.wording import one_line
    from titan.package.explain import explain
    from titan.package.produce import ProductionHooks, produce
    from titan.package.summary import as_data, as_text
    from titan.proof.configuration import FaultyError

    def report(what: str) -> None:
        current().show(f"{tile.name} for {tile.target}: {what}")

    judge = one_by_one if order.cluster is None else _all_at_once(order.cluster)
    hooks = ProductionHooks(report, judge)
    try:
        package = produce(
            tile, text, order.parent, order.limits, hooks, order.with_toolchain,
            order.certificate_states,
        )  # fmt: skip
    except BuildRefused as refused:
        lines = [f"REFUSED {tile.name} ({one_line(path)}) for {tile.target}: {refused}"]
        lines += [f"  not taken {step.shape.name}: {step.reason}" for step in refused.steps]
        return BuildReport(errors=tuple(lines), code=ExitCode.REFUTED)
    except FaultyError as fault:
        words = f"{one_line(path)}: {tile.name}: a fault where none was found: {fault}"
        return BuildReport(errors=(words,), code=ExitCode.INTERNAL)
    except CannotWrite as error:
        return BuildReport(errors=(f"{one_line(path)}: {error}",), code=ExitCode.BAD_INPUT)
    why = explain(package, order.explained) if order.explained else None
    if order.format_name == "json":
        return BuildReport(document=as_data(path, package, why, order.timings))
    return BuildReport(text=as_text(path, package, why, order.timings))
