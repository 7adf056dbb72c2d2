"""Tests of barriers that are not waits, against a walk through all states of the program."""

from __future__ import annotations

from random import Random

import pytest

from tests.building import at, e, program
from tests.rings import ring
from tests.sampling import part
from tests.straight_programs import straight
from titan.engines.happens_before.engine import analyse
from titan.engines.happens_before.peeks import Peek
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.interpreter import Interpreter
from titan.sync.state import State

STATES_MAX = 300


def states_of(machine: Interpreter) -> set[State] | None:
    """All reachable states; None if there are too many or something is wrong."""
    first = machine.initial()
    seen, work = {first}, [first]
    while work:
        state = work.pop()
        for step in machine.steps(state):
            after, fault = machine.apply(state, step)
            if fault is not None or len(seen) > STATES_MAX:
                return None
            assert after is not None
            if after not in seen:
                seen.add(after)
                work.append(after)
    return seen


def counted(block: ir.Block, index: int) -> int:
    return sum(not isinstance(operation, ir.Access) for operation in block[:index])


def least_phase(machine: Interpreter, states: set[State], peek: Peek) -> int:
    """The fewest completed phases that the agent can meet there; -1 without an initialisation."""
    body = machine.agents[peek.agent].role.body
    found = []
    for state in states:
        frames = state.positions[peek.agent].frames
        index = frames[-1][1] if frames else len(body)
        if counted(body, index) == peek.position:
            barrier = dict(state.barriers)[peek.barrier]
            found.append(barrier.phase if barrier.status else -1)
    return min(found)


def drawn(random: Random, one: ir.SyncProgram, states: set[State]) -> Peek:
    """A peek somewhere in the program."""
    agent = random.randrange(len(one.roles))
    body = one.roles[agent].body
    barrier = random.choice(one.barriers)
    key = barrier.name, random.randrange(barrier.stages)
    most = max(dict(state.barriers)[key].phase for state in states)
    return Peek(
        agent, random.randint(0, counted(body, len(body))), key, random.randint(1, max(1, most))
    )


def test_a_peek_is_passed_exactly_where_every_state_has_the_phase_before():
    seen = {True: 0, False: 0}
    for seed in range(part(40)):
        random = Random(seed)
        one = straight(ring(random))
        if analyse(one).verdict is not Verdict.VERIFIED:
            continue
        machine = Interpreter(one)
        states = states_of(machine)
        if states is None:
            continue
        for _ in range(8):
            peek = drawn(random, one, states)
            right = least_phase(machine, states, peek) >= peek.phase
            found = analyse(one, peeks=[peek], show=False).verdict
            assert found is (Verdict.VERIFIED if right else Verdict.UNDECIDED), (seed, peek)
            seen[right] += 1
    assert min(seen.values()) > 5, seen


@pytest.mark.parametrize(("position", "expected"), [(0, Verdict.UNDECIDED), (1, Verdict.VERIFIED)])
def test_a_peek_is_behind_the_initialisation(position, expected):
    init = ir.Init(at("b"), e(1))
    done = ir.Arrive(at("b"), e(1), e(0))
    one = program(
        "begun",
        [
            ir.Role("first", (init, ir.BarrierSync(at("n"), e(2)), done), 1, 1),
            ir.Role("second", (ir.BarrierSync(at("n"), e(2)), ir.Wait(at("b"), e(0), e(0))), 1, 1),
        ],
        barriers=[ir.Barrier("b", 1, initialised=False)],
        named_barriers=[ir.NamedBarrier("n")],
        policies=ir.Policies(barrier_init="assumed"),
    )
    assert analyse(one).verdict is Verdict.VERIFIED
    peek = Peek(1, position, ("b", 0), 0)
    result = analyse(one, peeks=[peek])
    assert result.verdict is expected
    assert ("before it is initialised" in result.remark) is (expected is Verdict.UNDECIDED)


def test_a_peek_after_the_last_operation_is_judged():
    one = program(
        "last",
        [
            ir.Role("first", (ir.Arrive(at("b"), e(1), e(0)),)),
            ir.Role("second", ()),
        ],
        barriers=[ir.Barrier("b", 1)],
    )
    assert analyse(one, peeks=[Peek(0, 0, ("b", 0), 1)]).verdict is Verdict.UNDECIDED
    assert analyse(one, peeks=[Peek(0, 1, ("b", 0), 1)]).verdict is Verdict.VERIFIED
    assert analyse(one, peeks=[Peek(1, 0, ("b", 0), 1)]).verdict is Verdict.UNDECIDED
