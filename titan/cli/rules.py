"""`titan rules`: all rules, by family."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from titan.foundation.diagnostics.codes import Code


@click.command()
@click.option("--family", help="Only the rules of one family, for instance exploration.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="How to show the list.",
)
def rules(family: str | None, format_name: str) -> None:
    """List the rules with their codes, names and subjects."""
    from titan.foundation.diagnostics.codes import CODES, FAMILIES
    from titan.foundation.diagnostics.rules import explanation
    from titan.foundation.diagnostics.wording import quoted, suggestion

    used = {entry.family for entry in CODES.values()}
    if family is not None and family not in used:
        hint = "".join(f"; {text}" for text in suggestion(family, used))
        raise click.UsageError(f"no family {quoted(family)}{hint}")
    chosen = [entry for entry in CODES.values() if family in (None, entry.family)]
    if format_name == "json":
        rows = [
            {
                "code": entry.code,
                "name": entry.name,
                "severity": entry.severity,
                "family": entry.family,
                "summary": explanation(entry).summary,
            }
            for entry in chosen
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    titles = dict(FAMILIES.values())
    if format_name == "markdown":
        click.echo(_markdown(chosen, titles), nl=False)
        return
    width = max(len(entry.name) for entry in chosen)
    last = ""
    for entry in chosen:
        if entry.family != last:
            click.echo(("\n" if last else "") + click.style(titles[entry.family], bold=True))
            last = entry.family
        mark = "" if entry.severity == "error" else f" ({entry.severity})"
        click.echo(f"  {entry.code}  {entry.name:<{width}}  {explanation(entry).summary}{mark}")


def _markdown(chosen: list[Code], titles: dict[str, str]) -> str:
    """The page docs/reference/rules.md; a test compares the committed one with this."""
    from titan.foundation.diagnostics.rules import explanation

    rows = [
        "# Rules",
        "",
        "`titan explain CODE` explains what a rule means, why it is a fault, and what to do.",
        "This page is the output of `titan rules --format markdown`.",
    ]
    family = ""
    for entry in chosen:
        if entry.family != family:
            family = entry.family
            title = titles[family][:1].upper() + titles[family][1:]
            rows += [
                "",
                f"## {title}",
                "",
                "| code | rule | severity | |",
                "| --- | --- | --- | --- |",
            ]
        summary = explanation(entry).summary
        rows.append(f"| {entry.code} | `{entry.name}` | {entry.severity} | {summary} |")
    return "\n".join(rows) + "\n"
