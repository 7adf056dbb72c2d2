"""Long lists of planted faults: some in every run, all of them under the heavy marker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


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
