"""`titan explain`: the explanation of a rule, from the docstring of its module."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from titan.foundation.diagnostics.codes import Code
    from titan.foundation.diagnostics.rules import RuleExplanation


@click.command()
@click.argument("rules", metavar="CODE|NAME...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="How to show the explanation.",
)
def explain(rules: tuple[str, ...], format_name: str) -> None:
    """Explain rules, each given by its code (TTN201) or name (data-race)."""
    from titan.foundation.diagnostics.codes import BY_NAME, CODES, find
    from titan.foundation.diagnostics.rules import explanation
    from titan.foundation.diagnostics.wording import quoted, suggestion

    entries: list[Code] = []
    for rule in rules:
        entry = find(rule)
        if entry is None:
            names = CODES if rule.upper().startswith("TTN") else BY_NAME
            hint = "".join(f"; {text}" for text in suggestion(rule, names))
            raise click.UsageError(f"no rule {quoted(rule)}{hint}")
        entries.append(entry)
    found: list[RuleExplanation] = [explanation(entry) for entry in entries]
    if format_name == "json":
        rows = [
            {"code": e.code, "name": e.name, "summary": e.summary, "sections": e.sections}
            for e in found
        ]
        click.echo(json.dumps(rows, indent=2))
    elif format_name == "markdown":
        click.echo("\n".join(item.markdown() for item in found), nl=False)
    else:
        click.echo("\n\n".join(_text(item) for item in found))


def _text(item: RuleExplanation) -> str:
    rows = [f"{item.code} {item.name}: {item.summary}"]
    for heading, text in item.sections.items():
        rows += ["", click.style(heading, bold=True)]
        rows += ["  " + line if line else "" for line in text.split("\n")]
    return "\n".join(rows)
