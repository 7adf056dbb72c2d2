"""Renderers: one module a format, each a function from diagnostics to text.

Formats are a table; a module is loaded when its format is asked for. All formats are tested with
the same diagnostics, so that they cannot drift apart.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from titan.foundation.diagnostics.model import Diagnostic, sort_key

FORMATS = {
    "text": "titan.foundation.diagnostics.render.text",
    "concise": "titan.foundation.diagnostics.render.concise",
    "json": "titan.foundation.diagnostics.render.json",
}


def render(format_name: str, diagnostics: Iterable[Diagnostic], *, colour: bool = False) -> str:
    """The diagnostics in a format of `FORMATS`, sorted by place.

    Raises KeyError for another format.

    `colour` is honoured by formats for people and ignored by formats for programs.
    """
    module = importlib.import_module(FORMATS[format_name])
    return str(module.render(sorted(diagnostics, key=sort_key), colour=colour))
