"""A persistent ping-pong attention kernel: decided as it grows, and with any operation dropped."""

from collections import Counter

import pytest

from benchmarks.ping_pong_attention import Shape, ping_pong_attention
from tests.edits import count_operations, edit_at
from tests.engines.happens_before.replaying import assert_shown
from titan.engines.explore.reference import explore_reference
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.sync import program as ir

SMALL = ping_pong_attention(Shape(2, 4))


def barrier_operations(program: ir.SyncProgram) -> int:
    """Operations on barriers that a run of the program executes, without what engines add."""
    from titan.engines.happens_before.unfolding import Unfolder

    kinds = (ir.Wait, ir.Arrive, ir.BarrierSync, ir.BarrierArrive)
    agents = Unfolder(program, None, 1_000_000).agents()
    return sum(isinstance(item.operation, kinds) for agent in agents for item in agent.instances)


def test_a_small_one_agrees_with_the_search():
    program = ping_pong_attention(Shape(1, 1, 1, 2, 1))
    assert explore_reference(program).verdict is Verdict.VERIFIED
    assert analyse(program).verdict is Verdict.VERIFIED


def test_the_class_of_470_barrier_operations():
    assert barrier_operations(SMALL) >= 470
    assert analyse(SMALL).verdict is Verdict.VERIFIED


@pytest.mark.heavy
def test_tens_of_thousands_of_operations():
    result = analyse(ping_pong_attention(Shape(8, 16)))
    assert result.verdict is Verdict.VERIFIED
    assert result.operations > 14_000


def test_every_dropped_operation_is_seen():
    """All but the store itself and the last turn, which nothing in the kernel asks for."""
    harmless = []
    kinds: Counter[str] = Counter()
    for number in range(count_operations(SMALL)):
        dropped: list[ir.Operation] = []

        def without(block: ir.Block, index: int, kept: list[ir.Operation] = dropped) -> ir.Block:
            kept.append(block[index])
            return block[:index] + block[index + 1 :]

        program = edit_at(SMALL, number, without)
        result = analyse(program)
        if result.verdict is Verdict.VERIFIED:
            harmless.append(type(dropped[0]).__name__)
            continue
        assert result.verdict is Verdict.REFUTED, (number, dropped, result.remark)
        assert result.fault is not None
        kinds[result.fault.kind] += 1
        if number % 4 == 0:
            assert_shown(program, result)
    assert harmless == ["Asynchronous", "Branch", "BarrierSync"]
    assert len(kinds) >= 6
