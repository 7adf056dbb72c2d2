"""A size of none apart from one or more: the same programs, and searches that close."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.building import FENCE
from tests.engines.explore.test_nests import chosen, drawn, nest
from titan.engines.explore.cases import cases_of
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import explore
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir

STORE = FENCE


def storing(sizes: str, stop: str = "n") -> ir.SyncProgram:
    """A nest whose consumer does something in every item, its producer in those with tiles."""
    program = nest(sizes, stop=stop)
    consumer = program.roles[1]
    body = tuple(
        replace(op, body=(*op.body, STORE)) if isinstance(op, ir.Loop) else op
        for op in consumer.body
    )
    return replace(program, roles=(program.roles[0], replace(consumer, body=body)))


def test_a_producer_that_idles_does_not_keep_a_search_open() -> None:
    result = explore(storing("work: any, n: any"), None, Budget(states_max=4_000))
    assert result.verdict is Verdict.VERIFIED, result.remark


@pytest.mark.parametrize("sizes", ["work: any, n: {any: true, minimum: 1}", "work: any, n: 3"])
def test_other_sizes_have_no_cases(sizes: str) -> None:
    assert cases_of(storing(sizes), {}) == []
    assert cases_of(nest("work: any, n: any"), {}) == []  # empty items are left out there


def test_a_fault_of_one_case_is_one_of_the_program() -> None:
    """One tile too much is read in every item, so also where there are none."""
    program = storing("work: any, n: any", stop="n + 1")
    result = explore(program, None, Budget(states_max=4_000))
    assert result.verdict is Verdict.REFUTED and result.trace is not None
    sizes = dict(result.trace.parameters)
    assert explore_reference(program, sizes).verdict is Verdict.REFUTED


def test_each_case_is_the_program_for_its_sizes() -> None:
    seen = 0
    for seed in range(100):
        program = drawn(seed, seed % 2)
        cases = cases_of(program, {})
        if not cases or seen > 3:
            continue
        seen += 1
        for sizes in chosen(program):
            if sizes["work"] > 2 or sizes["k_tiles"] > 2:
                continue
            case = cases[1 if sizes["k_tiles"] else 0]
            small = Budget(states_max=500)
            same = explore_reference(case, sizes, small)
            plain = explore_reference(program, sizes, small)
            assert (plain.verdict, plain.states) == (same.verdict, same.states), (seed, sizes)
    assert seen == 4
