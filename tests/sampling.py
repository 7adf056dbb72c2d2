"""How much of a long list a run takes: a part under `make test`, all of it under `make heavy`.

Random programs and planted faults find what nobody thought of, and cost most of the time of the
tests. A run of `make test` takes the same part each time; `make heavy` sets `TITAN_TESTS=whole`.

So that a heavy test cannot rot unseen, `make test` also runs one of each heavy function of which
it would run nothing else (mark `sampled`), but for those that take long even once (mark `long`).
`TITAN_PART=3/12` leaves the third of twelve parts, by the names of the tests alone: every part has
some of each long list, and the twelve together have each test once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any
from zlib import crc32

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


def of_part(name: str, wanted: str) -> bool:
    """Whether a test belongs to a part: "3/12" for the third of twelve. ValueError if there is no
    such part.
    """
    number, slash, count = wanted.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ValueError(f"a part is written 3/12, not {wanted!r}")
    if not 1 <= int(number) <= int(count):
        raise ValueError(f"there is no part {number} of {count}")
    return crc32(name.encode()) % int(count) == int(number) - 1


def function_of(name: str) -> str:
    """The function that a test is an instance of, without its parameters."""
    return name.partition("[")[0]


def representatives(tests: Iterable[tuple[str, bool, bool]]) -> set[str]:
    """The tests that keep a heavy function in use, from the name of each, whether it is heavy, and
    whether it takes long even once: the first of each function that has no light test.
    """
    first: dict[str, str] = {}
    excluded = set()
    for name, heavy, long in tests:
        if not heavy or long:
            excluded.add(function_of(name))
        first.setdefault(function_of(name), name)
    return {name for function, name in first.items() if function not in excluded}
