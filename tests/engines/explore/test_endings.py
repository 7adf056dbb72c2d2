"""Loops that count off their passes, and what partial order makes of those that do not."""

from __future__ import annotations

from tests.building import FENCE, access, e, loop, program, read, write
from titan.engines.explore.endings import terminates
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import Reductions, explore
from titan.foundation.verdict import Verdict
from titan.sync import program as ir


def role(*body: ir.Operation, name: str = "warp") -> ir.Role:
    return ir.Role(name, body, 1, 1, variables=(("v", 0),))


def of(*body: ir.Operation, per: str | None = None) -> ir.SyncProgram:
    sizes = [ir.Parameter("work"), ir.Parameter("tiles", per=per)]
    return program("loops", [role(*body)], parameters=sizes)


def test_nested_loops_with_open_numbers_count_off_their_passes() -> None:
    inner = loop("t", "tiles", [FENCE, ir.Assign("v", e("v + 1"))])
    assert terminates(of(loop("w", "work", [inner]), per="w"))
    assert terminates(of(loop("w", "v + 2", [FENCE])))


def test_a_variable_that_is_set_in_its_own_loop_counts_off_nothing() -> None:
    assert not terminates(of(loop("w", "work", [FENCE, ir.Assign("w", e(0))])))
    assert not terminates(of(loop("w", "work", [loop("w", "tiles", [FENCE])])))


def test_a_stop_that_moves_counts_off_nothing() -> None:
    assert not terminates(of(loop("w", "v", [FENCE, ir.Assign("v", e("v + 1"))])))
    assert not terminates(of(loop("w", "w + 1", [FENCE])))
    assert not terminates(of(loop("t", "tiles", [FENCE]), per="t"))
    again = ir.Branch(e("v >= 1"), (ir.Assign("w", e(0)),))
    assert not terminates(of(loop("w", "tiles", [loop("u", "2", [FENCE]), again])))


def test_who_turns_for_ever_does_not_keep_others_from_their_faults() -> None:
    endless = loop("i", 1, [FENCE, ir.Assign("i", e(-1))])
    for order in (0, 1):
        roles = [
            role(endless, name="turning"),
            role(FENCE, access(write("a", 0, 1)), access(read("a", 0, 2)), name="reading"),
        ]
        given = program("endless", roles[:: 1 - 2 * order], buffers=[ir.Buffer("a")])
        assert not terminates(given)
        assert explore_reference(given).verdict is Verdict.REFUTED
        for symmetry in (True, False):
            result = explore(given, reductions=Reductions(symmetry, True))
            assert result.verdict is Verdict.REFUTED, order
