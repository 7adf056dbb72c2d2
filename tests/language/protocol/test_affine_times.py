"""Affine times are judged by rational arithmetic; other coefficients or multipliers are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from titan.language.protocol import affine_times, ranking
from titan.language.protocol.affine_times import AffineTimes, TimesDoNotGrow, archived_times
from titan.language.protocol.dependences import Polyhedron
from titan.language.protocol.typestate import check
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import read_family

KERNEL = Path(__file__).resolve().parents[3] / "protocols" / "hopper_gemm.yaml"


@cache
def judged() -> tuple[tuple[Any, ...], list[str]]:
    """What the search for times handed over for judgement, and what was archived."""
    family, _, _ = read_family(str(KERNEL), VerifyOptions())
    assert family is not None
    protocol = family.kernels[0].protocol
    assert protocol is not None
    kept: list[tuple[Any, ...]] = []
    own = affine_times.refuse_unless_growing

    def keep(*given: Any) -> None:
        kept.append(given)
        own(*given)

    with pytest.MonkeyPatch.context() as patch, archived_times() as told:
        patch.setattr(ranking, "refuse_unless_growing", keep)
        check(protocol)
    return kept[0], told


def test_the_times_of_a_kernel_are_archived() -> None:
    (nodes, edges, _, _), (text,) = judged()
    assert text.count("time ") == len(nodes) > 3
    assert text.count("grows ") == len(edges) > 5


def others(found: AffineTimes) -> Iterator[AffineTimes]:
    """One multiplier, or one coefficient, other than it was."""
    for number, row in enumerate(found.multipliers):
        for place, value in enumerate(row):
            changed = (*row[:place], value + 1, *row[place + 1 :])
            rows = (*found.multipliers[:number], changed, *found.multipliers[number + 1 :])
            yield replace(found, multipliers=rows)
        less = (*row[:-1], -row[-1] - 1)
        yield replace(
            found, multipliers=(*found.multipliers[:number], less, *found.multipliers[number + 1 :])
        )
    for number, time in enumerate(found.times):
        changed_time = {**time, "": time[""] + 1}
        yield replace(
            found, times=(*found.times[:number], changed_time, *found.times[number + 1 :])
        )
    yield replace(found, multipliers=found.multipliers[:-1])


def test_other_times_are_refused() -> None:
    nodes, edges, sizes, found = judged()[0]
    affine_times.refuse_unless_growing(nodes, edges, sizes, found)
    idle = 0
    for other in others(found):
        try:
            affine_times.refuse_unless_growing(nodes, edges, sizes, other)
        except TimesDoNotGrow:
            continue
        idle += 1
    rows = [Polyhedron((*edge.conditions, *sizes)).rows for edge in edges]
    assert idle == sum(not any((*factors.values(), c)) for r in rows for factors, c in r)
