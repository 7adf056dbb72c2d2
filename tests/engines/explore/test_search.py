"""Budgets, traces, interrupts, bad programs, and the native sources themselves."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.building import access, at, e, loop, program, write
from tests.engines.explore.rings import ring
from titan.engines.explore import _build_core
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.replay import NativeReplayError, replay
from titan.engines.explore.search import CoreMissingError, ExplorationError, Reductions, explore
from titan.engines.explore.tables import TooLargeError
from titan.engines.result import Budget
from titan.foundation.verdict import Reason, Verdict
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.fault import Actor, FaultKind, Step

FULL = Reductions(symmetry=False, partial_order=False)


def test_a_spent_budget_is_undecided_and_says_what_ran_out() -> None:
    few = explore(ring(4, 2), budget=Budget(states_max=1000), reductions=FULL)
    assert (few.verdict, few.reason) == (Verdict.UNDECIDED, Reason.STATES)
    assert few.states >= 1000
    small = explore(ring(4, 3), budget=Budget(bytes_max=2**22), reductions=FULL)
    assert (small.verdict, small.reason) == (Verdict.UNDECIDED, Reason.MEMORY)
    assert small.bytes <= 2**22
    short = explore(ring(4, 4), budget=Budget(seconds_max=0.0), reductions=FULL)
    assert (short.verdict, short.reason) == (Verdict.UNDECIDED, Reason.TIME)


FLOOD = [ir.Role("flood", (loop("t", 300, [ir.Asynchronous((), None)]),), 1, 1)]


@pytest.mark.heavy
@pytest.mark.long
def test_too_many_operations_in_flight_are_undecided() -> None:
    roles = FLOOD
    alone = explore(program("flood", roles), reductions=FULL)
    assert alone.verdict is Verdict.UNDECIDED
    assert alone.reason is Reason.IN_FLIGHT


def test_too_many_operations_in_flight_do_not_hide_a_fault() -> None:
    roles = FLOOD
    assert explore(program("flood", roles)).verdict is Verdict.VERIFIED
    race = [ir.Role(name, (access(write("x", 0, 1)),), 1, 1) for name in ("left", "right")]
    both = explore(program("flood", [*roles, *race], buffers=[ir.Buffer("x")]), reductions=FULL)
    assert both.verdict is Verdict.REFUTED


def test_a_progress_callback_may_interrupt() -> None:
    def stop(states: int, seconds: float) -> None:
        assert states > 0 and seconds >= 0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(ring(4, 3), reductions=FULL, progress=stop)


def test_reductions_reduce_and_traces_stay_shortest() -> None:
    given = ring(2, 3, mistake="drain")
    expected = explore_reference(given, {"tiles": 3}, Budget(100_000))
    for reductions in (FULL, Reductions(True, False), Reductions(False, True), Reductions()):
        result = explore(given, {"tiles": 3}, reductions=reductions)
        assert result.trace is not None and expected.trace is not None
        assert len(result.trace.steps) == len(expected.trace.steps)
    full = explore(ring(3, 3), reductions=FULL)
    symmetric = explore(ring(3, 3), reductions=Reductions(True, False))
    both = explore(ring(3, 3))
    assert full.states > 4 * symmetric.states > 40 * both.states


def test_a_trace_with_another_fault_is_refused() -> None:
    given = program("race", [ir.Role(n, (access(write("x", 0, 1)),), 1, 1) for n in ("a", "b")],
                    buffers=[ir.Buffer("x")])  # fmt: skip
    assert replay(given, {}, (), FaultKind.DATA_RACE).fault.kind is FaultKind.DATA_RACE
    with pytest.raises(NativeReplayError, match="ends with TTN201"):
        replay(given, {}, (), FaultKind.DEADLOCK)
    with pytest.raises(NativeReplayError, match="is not possible"):
        replay(given, {}, (Step(Actor.FINISH, 0, 3),), FaultKind.DATA_RACE)


def test_programs_that_cannot_be_executed() -> None:
    divided = program(
        "divided",
        [ir.Role("warp", (ir.Arrive(at("b", "1 // zero")),), 1, 1)],
        parameters=[ir.Parameter("zero", 0)],
        barriers=[ir.Barrier("b", 1)],
    )
    with pytest.raises(ExplorationError, match="division by zero"):
        explore(divided)
    place = (ir.Role("warp", (ir.Arrive(at("b", "zero")),), 1, 1),)
    huge = replace(divided, roles=place, parameters=(ir.Parameter("zero", 2**80),))
    with pytest.raises(TooLargeError, match="64 bits"):
        explore(huge)
    crowd = program("crowd", [ir.Role("warp", (ir.Arrive(at("b")),), 61, 1)],
                    barriers=[ir.Barrier("b", 61)])  # fmt: skip
    with pytest.raises(TooLargeError, match="60 agents"):
        explore(crowd)
    deep = e("t")
    for _ in range(120):
        deep = ir_binary(deep)
    nested = program("deep", [ir.Role("warp", (ir.Assign("t", deep),), 1, 1)])
    with pytest.raises(TooLargeError, match="nested"):
        explore(nested)


def ir_binary(inner: object) -> object:
    from titan.sync.expression import Binary

    return Binary("-", Constant(1), inner)  # type: ignore[arg-type]


def test_a_missing_core_is_told_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "titan.engines.explore._core", None)
    monkeypatch.delattr("titan.engines.explore._core", raising=False)
    with pytest.raises(CoreMissingError, match="no C compiler"):
        explore(ring(2, 1))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_core_compiles_without_a_warning(tmp_path: Path) -> None:
    source = tmp_path / "core.c"
    source.write_text(_build_core.source())
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-c", str(source)]
    done = subprocess.run(
        ["gcc", *flags, "-o", str(tmp_path / "core.o")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
