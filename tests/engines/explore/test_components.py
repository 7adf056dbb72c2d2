"""Programs of parts that do not touch each other: the verdict of the whole, found part by part."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

from tests.building import access, at, e, loop, program, read, write
from tests.sampling import part
from tests.strategies import random_program
from titan.engines.explore.components import components
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import ExplorationError, Reductions, explore
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.control import LocalLoopError
from titan.sync.expression import Name
from titan.sync.fault import FaultKind
from titan.sync.interpreter import Interpreter

FAMILIES = ("ring", "ping_pong", "copy_pipeline", "store_pipeline", "mma_chain", "waves", "free",
            "lifecycle", "registers", "two_ctas")  # fmt: skip
NAMED = (
    Name,
    ir.Parameter,
    ir.Reference,
    ir.Barrier,
    ir.NamedBarrier,
    ir.Buffer,
    ir.Queue,
    ir.Pool,
    ir.Role,
)


def elsewhere(value: Any, prefix: str, ctas: int) -> Any:
    """The program with other names for all that it declares, `ctas` CTAs further on."""
    if isinstance(value, tuple):
        return tuple(elsewhere(item, prefix, ctas) for item in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {
        field.name: elsewhere(getattr(value, field.name), prefix, ctas)
        for field in fields(value)
        if field.name != "span"
    }
    if isinstance(value, ir.Role):
        changed["variables"] = tuple((prefix + name, first) for name, first in value.variables)
    for name in ("buffer", "queue", "pool", "storage", "variable", "per", "agent_constant"):
        if isinstance(changed.get(name), str) and changed[name]:
            changed[name] = prefix + changed[name]
    if isinstance(value, NAMED):
        changed["name"] = prefix + changed["name"]
    if "cta" in changed:
        changed["cta"] += ctas
    return replace(value, **changed)


def side_by_side(left: ir.SyncProgram, right: ir.SyncProgram) -> ir.SyncProgram:
    """Both programs in one, with nothing in common."""
    ctas = 1 + max([r.cta for r in left.roles] + [b.cta for b in left.buffers + left.barriers])
    moved = elsewhere(right, "other_", ctas)
    names = ("roles", "parameters", "barriers", "named_barriers", "buffers", "queues", "pools")
    both = {name: getattr(left, name) + getattr(moved, name) for name in names}
    return replace(left, **both)


def drawn(seed: int) -> ir.SyncProgram:
    random = Random(seed)
    parts = [
        random_program(random, random.choice(FAMILIES), random.choice((0, 0, 1))) for _ in range(2)
    ]
    return side_by_side(*parts)


def test_random_pairs_agree_with_the_reference_search() -> None:
    tally, apart = Counter[str](), 0
    for seed in range(part(120, 8)):
        given = drawn(seed)
        try:
            result = explore(given)
        except (ExplorationError, LocalLoopError):
            continue
        apart += len(components(given)) > 1
        whole = explore(given, None, Budget(states_max=40_000), Reductions())
        assert Verdict.UNDECIDED in (result.verdict, whole.verdict) or (
            result.verdict is whole.verdict
        ), seed
        expected = explore_reference(given, None, Budget(states_max=2_000)).verdict
        if expected is not Verdict.UNDECIDED:
            assert result.verdict is expected, seed
            tally[expected] += 1
        if result.trace is not None:
            confirm(given, result.trace)
    fewest = min(tally[Verdict.VERIFIED], tally[Verdict.REFUTED])
    assert apart > part(60, 8) and fewest >= part(5, 8), (apart, tally)


def confirm(given: ir.SyncProgram, trace: Any) -> None:
    """The trace is one of the whole program and ends in its fault."""
    machine = Interpreter(given, dict(trace.parameters))
    state, fault = machine.initial(), None
    for step in trace.steps:
        assert step in machine.steps(state)
        successor, fault = machine.apply(state, step)
        if successor is None:
            break
        state = successor
    fault = fault or machine.state_fault(state)
    assert fault is not None and fault.kind is trace.fault.kind


def pair(first: list[ir.Operation], second: list[ir.Operation], **more: Any) -> ir.SyncProgram:
    roles = [ir.Role("left", tuple(first), 1, 32), ir.Role("right", tuple(second), 1, 32, cta=1)]
    return program("pair", roles, **more)


def test_a_deadlock_of_one_part_is_one_of_the_whole_when_the_other_has_ended() -> None:
    stuck = [ir.Wait(at("b"), e(0), e(0))]
    other = [access(write("m", 0, 1)), access(read("m", 0, 1))]
    given = pair(
        stuck, other, barriers=[ir.Barrier("b", 1)],
        buffers=[ir.Buffer("m", cta=1)], policies=ir.Policies(barrier_init="assumed"),
    )  # fmt: skip
    assert len(components(given)) == 2
    result = explore(given)
    assert result.trace is not None and result.trace.fault.kind is FaultKind.DEADLOCK
    assert [step.agent for step in result.trace.steps] == [1, 1]


def test_what_keeps_parts_together() -> None:
    use, shared = [access(write("m", 0, 1))], ir.Buffer("m", space=ir.Space.GLOBAL)
    assert len(components(pair(use, use, buffers=[shared]))) == 1
    reading = [access(read("m"))]
    assert len(components(pair(reading, reading, buffers=[shared]))) == 2
    assert len(components(pair(reading, [], buffers=[ir.Buffer("m", cta=1)]))) == 1
    near = ir.Barrier("b", 1, cta=1)
    assert len(components(pair([ir.Arrive(at("b"))], [], barriers=[near]))) == 1
    take = [ir.PoolTake("p", e(1))]
    assert len(components(pair(take, take, pools=[ir.Pool("p", 2)]))) == 1
    fence = [ir.Fence(ir.FenceKind.TENSORMAP_RELEASE)]
    assert len(components(pair(reading, fence, buffers=[shared]))) == 1
    along = ir.Policies(fence_rule="path")
    assert len(components(pair(reading, reading, buffers=[shared], policies=along))) == 1
    endless = [loop("t", "t + 1", [access(read("m"))])]
    assert len(components(pair(reading, endless, buffers=[shared]))) == 1


def test_parts_add_up_instead_of_multiplying() -> None:
    random = Random(1)
    single = random_program(random, "ring", 0)
    both = side_by_side(single, single)
    alone = explore(single).states
    assert explore(both).states == 2 * alone
