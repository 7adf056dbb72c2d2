"""Checks as workflow commands of GitHub Actions: annotations on the lines of a change.

Columns are given only where a span begins and ends on one line: the host ignores or misplaces them
otherwise. Source: GitHub Actions, workflow commands (`%`, CR and LF are escaped; in properties `:`
and `,` too).
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.foundation.diagnostics.model import Diagnostic, Severity
from titan.foundation.diagnostics.wording import clean
from titan.report.checks import Check

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(checks: Sequence[Check]) -> str:
    """One line for each diagnostic, and one for each check that is not decided."""
    lines = []
    for check in checks:
        lines += [_annotation(item) for item in check.diagnostics]
        if check.unreported:
            named = {"title": check.word, "file": check.path}
            kind = "warning" if check.is_open else "error"
            lines.append(_command(kind, named, f"{check.name}: {check.summary}"))
    return "".join(line + "\n" for line in lines)


def _annotation(item: Diagnostic) -> str:
    named = {"title": f"{item.code} {item.name}"}
    span = item.span
    if span is not None:
        named["file"] = span.path
        named["line"], named["endLine"] = str(span.start_line), str(span.end_line)
        if span.start_line == span.end_line:
            named["col"], named["endColumn"] = str(span.start_column), str(span.end_column)
    text = "\n".join([item.headline, *item.notes, *(f"help: {one}" for one in item.helps)])
    return _command(_COMMAND[item.severity], named, text)


def _command(kind: str, named: dict[str, str], text: str) -> str:
    properties = ",".join(f"{name}={_property(value)}" for name, value in named.items())
    lines = "\n".join(clean(line) for line in text.split("\n"))
    return f"::{kind} {properties}::{_data(lines)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(clean(text)).replace(":", "%3A").replace(",", "%2C")
