"""`titan schema`: the JSON Schemas of input files, and of reports."""

from __future__ import annotations

import importlib
import json

import click

MODULES = {
    "kernel": "titan.language.kernel.schema",
    "tile": "titan.codegen.tile.schema",
    "loop": "titan.scheduling.loop.schema",
    "launch": "titan.frontends.ptx.schema",
}
REPORT = "report"  # what `--format json` writes; its file is the source


@click.command()
@click.argument("kind", type=click.Choice([*MODULES, REPORT]), default="kernel", metavar="[KIND]")
@click.option("--path", is_flag=True, help="Print the path of the schema, for editor settings.")
def schema(kind: str, path: bool) -> None:
    """Print the JSON Schema of kernel, tile, loop or launch files, or of reports.

    Editors check files against it, and so can programs without TITAN; KIND is kernel unless given.
    `report` is what `--format json` of any command writes.
    """
    if path:
        from titan.foundation.resources import root

        click.echo(root("schemas") / f"{kind}.schema.json")
        return
    click.echo(text_of(kind), nl=False)


def text_of(kind: str) -> str:
    """The schema of one kind of file as it is shipped."""
    if kind == REPORT:
        from titan.foundation.resources import root

        return (root("schemas") / "report.schema.json").read_text(encoding="utf-8")
    return json.dumps(importlib.import_module(MODULES[kind]).json_schema(), indent=2) + "\n"
