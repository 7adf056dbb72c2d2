"""One line a diagnostic: `path:line:column: severity[code] rule-name: headline`."""

from __future__ import annotations

from collections.abc import Sequence

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import one_line


def render(diagnostics: Sequence[Diagnostic], *, colour: bool = False) -> str:
    """A line for each diagnostic; those without a place begin with the severity."""
    del colour
    return "".join(_line(item) + "\n" for item in diagnostics)


def _line(item: Diagnostic) -> str:
    place = f"{one_line(str(item.span))}: " if item.span is not None else ""
    return f"{place}{item.severity.value}[{item.code}] {item.name}: {one_line(item.headline)}"
