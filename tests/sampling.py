"""How much of a long list a run takes: a part under `make test`, all of it under `make heavy`.

Random programs and planted faults find what nobody thought of, and cost most of the time of the
tests. A run of `make test` takes the same part each time; `make heavy` sets `TITAN_TESTS=whole`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

WHOLE = os.environ.get("TITAN_TESTS") == "whole"


def part(count: int, of: int = 4) -> int:
    """How many of `count` random examples this run takes: every one, or one in `of`."""
    return count if WHOLE else max(1, count // of)


def sampled(values: Iterable[Any], every: int = 4) -> list[Any]:
    """Parameters of a test, tuples for several names: the first of every `every` as it is, the
    others heavy. A text in the first place names the test.
    """
    found = []
    for place, value in enumerate(values):
        marks = () if place % every == 0 else (pytest.mark.heavy,)
        parts = value if isinstance(value, tuple) else (value,)
        name = parts[0] if isinstance(parts[0], str) else None
        found.append(pytest.param(*parts, marks=marks, id=name))
    return found
