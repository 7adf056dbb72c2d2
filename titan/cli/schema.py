"""`titan schema`: the JSON Schema of kernel.yaml."""

from __future__ import annotations

import json

import click


@click.command()
def schema() -> None:
    """Print the JSON Schema of kernel.yaml, for editors and for checks without TITAN."""
    from titan.language.kernel.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
