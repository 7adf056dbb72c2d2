"""`titan litmus run`: which outcomes a device shows, beside those that the model allows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from titan.cli.exit_code import ExitCode
from titan.cli.litmus_files import located
from titan.cli.paths import ExistingPath
from titan.cli.progress import progress, show_part
from titan.cli.settings import NumberRange
from titan.foundation.scratch import scratch

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument(
    "paths", metavar="[FILE|DIR]...", nargs=-1, type=ExistingPath(exists=True, path_type=Path)
)
@click.option(
    "--backend",
    type=click.Choice(["gpu", "cpu", "emulated"]),
    default="gpu",
    show_default=True,
    help="A GPU through CuPy, this CPU (tests without proxies, as C11), or the emulated device.",
)
@click.option(
    "--seconds",
    type=NumberRange(0.01, 3600),
    default=1.0,
    show_default=True,
    help="Time for each test.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="First seed of the delays.")
@click.option(
    "--scale",
    type=NumberRange(0.001, 1000),
    default=1.0,
    show_default=True,
    help="Instances of a batch, as a multiple of what the test suggests.",
)
@click.option("--result", type=_FILE, metavar="FILE", help="Write the result as JSON.")
@click.option("--page", type=_FILE, metavar="FILE", help="Write the result as an HTML page.")
@click.option(
    "--findings",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    default="findings",
    show_default=True,
    help="Where tests that show a forbidden outcome are kept.",
)
@click.option("--log", type=_FILE, metavar="FILE", help="Append a line of JSON for every batch.")
def run(
    paths: tuple[Path, ...],
    backend: str,
    seconds: float,
    seed: int,
    scale: float,
    result: Path | None,
    page: Path | None,
    findings: Path,
    log: Path | None,
) -> int:
    """Run litmus tests (by default all of litmus/) and count their outcomes.

    A folder of rendered tests runs as it is; other files and folders are rendered first. Exit code
    1 means that an outcome was seen which the model forbids, 2 that there is no device.
    """
    from titan.device import litmus
    from titan.device.__main__ import Outputs, run_folder

    try:
        facts = litmus.machine(backend)
    except litmus.NoMachine as error:
        click.echo(f"no device: {error}", err=True)
        return ExitCode.BAD_INPUT
    settings = litmus.RunSettings(seconds=seconds, seed=seed, scale=scale, backend=backend)
    outputs = Outputs(result=result, page=page, log=log, findings=findings)
    if len(paths) == 1 and paths[0].is_dir() and litmus.manifests(paths[0]):
        return run_folder(paths[0], facts, settings, outputs)
    with scratch("titan-") as folder:
        language = {"cpu": "c11", "emulated": "cuda"}.get(backend)
        _render(paths, Path(folder), language or ("hip" if "architecture" in facts else "cuda"))
        return run_folder(Path(folder), facts, settings, outputs)


def _render(paths: tuple[Path, ...], folder: Path, language: str) -> None:
    """Render the tests that can be rendered, and count the others."""
    from titan.foundation.resources import root
    from titan.litmus.language.condition import LitmusError
    from titan.litmus.language.suite import find_tests
    from titan.litmus.render.files import render_all, write_all

    try:
        tests = [entry.path for entry in find_tests(paths or (root("litmus"),))]
        with progress():
            report = partial(show_part, "rendering litmus tests")
            rendered, refused = render_all(tests, language, report)
    except LitmusError as error:
        raise click.ClickException(located(str(error), error.span)) from None
    if not rendered:
        raise click.ClickException("none of the tests can be run there")
    write_all(folder, rendered)
    if refused:
        click.echo(
            f"{len(refused)} tests cannot be run there; `titan litmus render` says why", err=True
        )
