"""Reads a file of JSON that TITAN wrote, or says as diagnostics, with a place, why that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.source.loading import load_file


def read_json(path: str | Path, bytes_max: int) -> tuple[object, list[Diagnostic]]:
    """What the file holds, or None and what is wrong with it.

    Keys that stand twice and numbers that JSON does not have (NaN) are refused.
    """
    source, errors = load_file(path, bytes_max)
    if source is None:
        return None, errors

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(items)
        if len(found) != len(items):
            names = [name for name, _ in items]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the key {quoted(twice)} is given twice")
        return found

    def constant(text: str) -> NoReturn:
        raise ValueError(f"{text} is no number of JSON")

    try:
        return json.loads(source.text, object_pairs_hook=pairs, parse_constant=constant), []
    except json.JSONDecodeError as error:
        place = source.span(error.pos, min(error.pos + 1, len(source.text)))
        reason = f"{error.msg[:1].lower()}{error.msg[1:]}"
    except RecursionError:
        place, reason = source.span(0, 0), "it is nested too deeply"
    except ValueError as error:
        place, reason = source.span(0, 0), str(error)
    return None, [diagnostic("TTN001", f"the file is not JSON: {reason}", place)]
