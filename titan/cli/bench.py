"""`titan bench`: how fast packages are, next to the vendor's library and to their variants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titan.cli.exit_code import ExitCode
from titan.cli.paths import ExistingPath

if TYPE_CHECKING:
    from titan.device.bench import BenchSettings
    from titan.device.documents import BenchDocument, FittedMachine, VariantRow, VariantsDocument
    from titan.device.records import DeviceFacts
    from titan.package.ablation import Made

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True,
    type=ExistingPath(exists=True, path_type=Path),
)  # fmt: skip
@click.option(
    "--size", "texts", metavar="M=8192,N=8192,K=8192", multiple=True,
    help="Sizes of a launch; by default those of the kernel's family.",
)  # fmt: skip
@click.option("--launches", type=click.IntRange(1, 10_000), default=20, show_default=True,
              help="Number of launches for the median.")  # fmt: skip
@click.option("--prepare", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Build the variants of tile files in this folder; time nothing.")  # fmt: skip
@click.option("--no-compile", is_flag=True,
              help="With --prepare: do not run the toolchain of the target.")  # fmt: skip
@click.option("--rates", type=_FILE, metavar="FILE",
              help="Fit the machine description to variants' cycles, write JSON.")  # fmt: skip
@click.option("--result", type=_FILE, metavar="FILE", help="Write the result as JSON.")
@click.option("--page", type=_FILE, metavar="FILE", help="Write the result as an HTML page.")
def bench(
    paths: tuple[Path, ...],
    texts: tuple[str, ...],
    launches: int,
    prepare: Path | None,
    no_compile: bool,
    rates: Path | None,
    result: Path | None,
    page: Path | None,
) -> int:
    """Time packages, or prepared variants, on a GPU; each is checked for small sizes first.

    A folder with ablations.json is timed as variants side by side. With --prepare, build the
    variants of tile files; that needs no GPU.

    Exit code 1 means that a package computes something wrong or fails, 2 that there is no device.
    """
    from titan.device import litmus
    from titan.device.__main__ import Outputs
    from titan.device.bench import BenchSettings

    if prepare is not None:
        return _prepare(paths, prepare, not no_compile)
    sizes = [_size(text) for text in texts]
    variants = [path for path in paths if (path / "ablations.json").is_file()]
    folders = [
        found.parent
        for path in paths
        if path not in variants
        for found in sorted(path.rglob("manifest.json"))
    ]
    if any(path.is_file() for path in paths):
        raise click.UsageError("tile files go with --prepare")
    if not folders and not variants:
        raise click.UsageError("no packages there")
    if rates is not None and not variants:
        raise click.UsageError("--rates needs a folder of prepared variants")
    try:
        facts = litmus.machine("gpu")
    except litmus.NoMachine as error:
        click.echo(f"no device: {error}", err=True)
        return ExitCode.BAD_INPUT
    settings = BenchSettings(sizes=sizes, launches=launches)
    data, bad = _timed(folders, variants, facts, settings)
    if rates is not None:
        bad = _fitted(variants, facts, rates) or bad
    Outputs(result=result, page=page).write(data)
    return ExitCode.REFUTED if bad else ExitCode.VERIFIED


def _timed(
    folders: list[Path], variants: list[Path], facts: DeviceFacts, settings: BenchSettings
) -> tuple[BenchDocument | VariantsDocument, bool]:
    """Packages as a document; variants as one of their own, or as a part of it."""
    from titan.device import ablations
    from titan.device import bench as module

    rows = list(module.bench(folders, facts, settings, lambda row: click.echo(module.line(row))))
    data = module.document(facts, rows)
    bad = any(row.state in ("wrong", "failed") for row in rows)
    others: list[VariantRow] = []
    for folder in variants:
        try:
            others += ablations.run(
                folder, facts, settings, lambda row: click.echo(ablations.line(row))
            )
        except ablations.BadIndex as error:
            raise click.ClickException(str(error)) from None
    bad = bad or any(row["state"] in ("wrong", "failed") for row in others)
    if variants and not folders:
        return ablations.document(facts, others), bad
    if variants:
        data["ablations"] = ablations.document(facts, others)["rows"]
    return data, bad


def _fitted(variants: list[Path], facts: DeviceFacts, rates: Path) -> bool:
    from titan.device import ablations, cycles
    from titan.device.__main__ import fitted_lines, write_whole

    machines: list[FittedMachine] = []
    bad = False
    for folder in variants:
        try:
            rows, found = ablations.fitted(folder, facts, lambda row: click.echo(cycles.line(row)))
        except ablations.BadIndex as error:
            raise click.ClickException(str(error)) from None
        machines += found
        bad = bad or any(row.state in ("hung", "failed") for row in rows)
    for machine in machines:
        click.echo(fitted_lines(machine))
    write_whole(rates, json.dumps(machines, indent=1) + "\n")
    return bad


def _prepare(paths: tuple[Path, ...], folder: Path, with_toolchain: bool) -> int:
    """Build all variants of tile files. Exit code 1: of some kernel not even the product."""
    from titan.codegen.pipeline.build import BuildLimits
    from titan.codegen.tile.load import load_tile, targets_of
    from titan.foundation.atomic import CannotWrite
    from titan.package.ablation import prepare
    from titan.target.description import target_of
    from titan.target.load import TargetRefused

    files = [
        file
        for path in paths
        for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])
    ]
    if not files:
        raise click.UsageError("no tile files there")
    try:
        programs = [
            (load_tile(file, target=target), file.read_text(encoding="utf-8-sig"))
            for file in files
            for target in targets_of(file)
            if target_of(target).matrix_counter == "wgmma"  # the forms that the axes are of
        ]
        made = prepare(programs, folder, BuildLimits(), _report, with_toolchain=with_toolchain)
    except TargetRefused as refused:
        faults = (f"{d.span}: {d.headline}" if d.span else d.headline for d in refused.diagnostics)
        raise click.ClickException("; ".join(faults)) from None
    except CannotWrite as error:
        raise click.ClickException(str(error)) from None
    built = sum(bool(item.folder) for item in made)
    click.echo(f"{built} of {len(made)} variants of {len(programs)} kernels")
    whole = all(item.folder for item in made if item.variant.axis == "product")
    return ExitCode.VERIFIED if made and whole else ExitCode.REFUTED


def _report(made: Made) -> None:
    name = f"{made.tile.name} ({made.tile.target}), {made.variant.axis} {made.variant.setting}"
    if not made.folder:
        click.echo(f"{name}: not built: {made.reason}")
        return
    click.echo(f"{name}: {made.folder}; {made.facts['shape']}, ii {made.facts['ii']}")


def _size(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip().isidentifier() or not value.strip().isdecimal():
            raise click.UsageError(f"not sizes of the form M=1,N=2: {text}")
        found[name.strip()] = int(value)
    return found
