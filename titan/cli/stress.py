"""`titan stress`: packages against the adversary, and their unsafe variants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.output import deliver, report_options
from titan.cli.paths import ExistingPath
from titan.cli.progress import current, progress
from titan.cli.settings import NumberRange
from titan.cli.stress_progress import StressProgress
from titan.cli.stress_report import render
from titan.foundation.errors import Interruption
from titan.foundation.scratch import scratch

if TYPE_CHECKING:
    from titan.device.documents import DeviceFacts
    from titan.device.stress import StressRun

_FILE = click.Path(dir_okay=False, path_type=Path)
EMULATED_RUNS = 5  # for each seed: all policies, and as many of the sizes


@click.command()
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True,
    type=ExistingPath(exists=True, path_type=Path),
)  # fmt: skip
@click.option(
    "--backend",
    type=click.Choice(["gpu", "emulated"]),
    default="gpu",
    show_default=True,
    help="Run on a GPU, or without one: PTX on the emulated device, HIP on the CPU.",
)
@click.option(
    "--depth", "depths", type=click.IntRange(1, 16), multiple=True,
    help="Ring depths to build tile files with; by default 2, 3, 4 and 5.",
)  # fmt: skip
@click.option(
    "--seeds", type=click.IntRange(1, 10_000), default=2, show_default=True,
    help="Seeds that each size and policy is run with.",
)  # fmt: skip
@click.option(
    "--runs", "runs_each", type=click.IntRange(1, 1_000_000), metavar="N",
    help="Runs of each variant, at most; what is left out is counted. Default: 5 for each seed on "
    "the emulated device, all on a GPU.",
)  # fmt: skip
@click.option(
    "--trips", type=click.IntRange(1, 100_000), metavar="N",
    help="Also launch with this many trips, not only around the depth (1000: parities wrap).",
)  # fmt: skip
@click.option(
    "--budget", type=NumberRange(1, 86_400), metavar="SECONDS",
    help="Time limit for the whole command; what it does not reach is reported. Default: no limit.",
)  # fmt: skip
@click.option(
    "--findings", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    default="findings", show_default=True, help="Where safe kernels that fail are kept.",
)  # fmt: skip
@click.option("--safe-only", is_flag=True, help="Leave out the unsafe variants.")
@click.option("-v", "--verbose", is_flag=True, help="Report every run instead of every variant.")
@report_options
@click.option("--result", type=_FILE, metavar="FILE", help="Write the result as JSON.")
@click.option("--page", type=_FILE, metavar="FILE", help="Write the result as an HTML page.")
def stress(
    paths: tuple[Path, ...],
    backend: str,
    depths: tuple[int, ...],
    seeds: int,
    runs_each: int | None,
    trips: int | None,
    budget: float | None,
    findings: Path,
    safe_only: bool,
    verbose: bool,
    format_name: str,
    output: str | None,
    result: Path | None,
    page: Path | None,
) -> int:
    """Run every variant of packages, or of tile files built at several depths.

    Exit code 1 means that a safe kernel failed, 2 that there is no device, 3 that something could
    not be run, or that nothing was (no time, or packages of other devices). Interrupted, it writes
    what was done so far to stderr, and no result.
    """
    from titan.device import litmus
    from titan.device.__main__ import Outputs
    from titan.device.findings import Keep
    from titan.device.spread import devices
    from titan.device.stress import StressSettings, document, planned
    from titan.device.stress import stress as run_all
    from titan.foundation.extras import require

    require("numpy", "run", "titan stress")
    try:
        facts = litmus.machine(backend)
    except litmus.NoMachine as error:
        click.echo(f"no device: {error}", err=True)
        return ExitCode.BAD_INPUT

    if runs_each is None and backend == "emulated":
        runs_each = EMULATED_RUNS * seeds

    def report(run: StressRun) -> None:
        reached.add(run)
        if not verbose:
            return
        current().wipe()
        sizes = ", ".join(f"{name}={value}" for name, value in run.sizes)
        text = f"{run.package} depth {run.depth}, {run.variant}: {sizes}, {run.policy}: {run.state}"
        click.echo(f"{text}; {run.message}" if run.message else text, err=format_name != "text")

    with progress(), _packages(paths, depths or (2, 3, 4, 5)) as folders:
        if not folders:
            raise click.UsageError("no packages and no tile files there")
        settings = StressSettings(
            backend=backend, seeds=range(seeds), unsafe=not safe_only, budget=budget,
            longest=trips, runs=runs_each,
        )  # fmt: skip
        plan = planned(folders, settings)
        reached = StressProgress(plan, lines=not verbose)
        found = run_all(plan, settings, report, places=devices(facts), keep=Keep(findings, facts))
        runs = _collected(found, reached, facts)
    data = document(facts, runs, plan.left_out)
    Outputs(result=result, page=page).write(data)
    deliver(render(data, format_name), output)
    if data["safe_failures"]:
        return ExitCode.REFUTED
    undecided = data["not_run"] or not data["runs"]
    return ExitCode.UNDECIDED if undecided else ExitCode.VERIFIED


def _collected(
    found: Iterator[StressRun], reached: StressProgress, facts: DeviceFacts
) -> list[StressRun]:
    """All of the runs; an interrupt leaves what was done so far on standard error."""
    from titan.device.stress import document

    runs: list[StressRun] = []
    try:
        for run in found:
            runs.append(run)
    except (KeyboardInterrupt, Interruption):
        current().wipe()
        click.echo(reached.text(), err=True)
        click.echo(render(document(facts, runs), "text"), err=True, nl=False)
        raise
    return runs


@contextmanager
def _packages(paths: tuple[Path, ...], depths: tuple[int, ...]) -> Iterator[list[Path]]:
    """The package folders; those of tile files are built in a folder that is removed again."""
    from titan.codegen.pipeline.build import BuildLimits, BuildRefused
    from titan.codegen.tile.load import load_tile, targets_of
    from titan.package.produce import produce

    with scratch("titan-") as parent:
        folders: list[Path] = []
        for path in paths:
            if path.is_dir():
                folders += sorted(found.parent for found in path.rglob("manifest.json"))
                continue
            program = load_tile(path, target=targets_of(path)[0])
            text = path.read_text(encoding="utf-8-sig")
            for depth in depths:
                tile = replace(program, depth=depth)
                place = Path(parent) / f"depth-{depth}"
                try:
                    made = produce(tile, text, place, BuildLimits(), with_toolchain=False)
                except BuildRefused as refused:
                    click.echo(f"{path}, depth {depth}: not built: {refused}", err=True)
                    continue
                if made.built.shape.depth == depth:
                    folders.append(made.folder)
        yield folders
