"""Waits without one's own arrival, and pipelined queues: random programs, every engine.

Each program has one agent that issues matrix instructions and copies to a pipelined queue, on few
pieces, and two that arrive and wait at a split barrier and at an mbarrier with tokens, anyhow.
What the code of before took as right (a wait that passes without an arrival, a matrix instruction
that reads what an unfinished one writes) is among them.
"""

from __future__ import annotations

import random

import pytest

from tests.agreement.engines import engines, reference
from tests.sampling import sampled
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.engines.spin import run_spin, spin_available, to_promela
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.fault import FaultKind

PROGRAMS = 120


def matrix_instruction(draw: random.Random) -> ir.Operation:
    """A matrix instruction or a copy on two overlapping buffers of two stages."""
    effects: list[ir.Effect] = []
    for write in (False, True)[draw.random() < 0.2 :]:
        part = Constant(draw.randrange(2)) if draw.random() < 0.4 else None
        name, stage = draw.choice(("T", "T", "U")), Constant(draw.randrange(2))
        accumulates = write and draw.random() < 0.8
        effects.append(ir.Effect(name, stage, write, None, part, accumulates=accumulates))
    return ir.Asynchronous(tuple(effects), "q")


def rendezvous(draw: random.Random) -> ir.Operation:
    """An arrival or a wait at the split barrier, or with tokens at the mbarrier."""
    named, barrier = ir.Reference("n"), ir.Reference("b")
    return draw.choice(
        (
            ir.BarrierArrive(named, Constant(2)),
            ir.BarrierWait(named),
            ir.BarrierArrive(named, Constant(2)),
            ir.BarrierWait(named),
            ir.Arrive(barrier, token=True),
            ir.TokenWait(barrier),
            ir.BarrierSync(named, Constant(2)),
        )
    )


def pipe(seed: int) -> ir.SyncProgram:
    """One agent with a pipelined queue."""
    draw = random.Random(f"pipe {seed}")
    body = [matrix_instruction(draw) for _ in range(draw.randint(2, 3))]
    if draw.random() < 0.5:
        body.insert(draw.randrange(3), ir.QueueWait("q", Constant(draw.randrange(2))))
    units = draw.choice((1, 2))
    return ir.SyncProgram(
        f"pipe_{seed}",
        "sm_100a",
        (ir.Role("w", (*body, ir.QueueWait("q"))),),
        buffers=(
            ir.Buffer("T", 2, 2, ir.Space.TENSOR, "S", 0, units, initial=0),
            ir.Buffer("U", 2, 2, ir.Space.TENSOR, "S", 1, units, initial=0),
        ),
        queues=(ir.Queue("q", grouped=False, pipelined=True),),
    )


def split(seed: int) -> ir.SyncProgram:
    """Two agents at a split barrier and at an mbarrier with tokens."""
    draw = random.Random(f"split {seed}")
    symmetric = draw.random() < 0.5
    bodies = [
        tuple(rendezvous(draw) for _ in range(draw.randint(2, 4))) for _ in range(2 - symmetric)
    ]
    roles = tuple(
        ir.Role(f"r{number}", body, 2 if symmetric else 1, 1) for number, body in enumerate(bodies)
    )
    return ir.SyncProgram(
        f"split_{seed}",
        "sm_90a",
        roles,
        barriers=(ir.Barrier("b", 2),),
        named_barriers=(ir.NamedBarrier("n", scope=ir.Scope.CLUSTER),),
    )


@pytest.mark.parametrize("family", [pipe, split])
def test_every_engine_agrees(family):
    seen: dict[Verdict | None, int] = {}
    for seed in range(PROGRAMS):
        program = family(seed)
        expected = reference(program)
        seen[expected.verdict] = seen.get(expected.verdict, 0) + 1
        for name, engine in engines().items():
            found = engine(program)
            assert found.verdict in (None, expected.verdict), (seed, name, found.reason)
    assert seen[Verdict.VERIFIED] > 5 and seen[Verdict.REFUTED] > 30


@pytest.mark.parametrize("family", [pipe, split])
def test_the_faults_are_there(family):
    kinds = set()
    for seed in range(PROGRAMS):
        result = explore_reference(family(seed), budget=Budget(states_max=6_000))
        if result.trace is not None:
            kinds.add(result.trace.fault.kind)
    wanted = {
        pipe: {FaultKind.READ_BEFORE_ARRIVAL, FaultKind.OVERWRITE_IN_FLIGHT},
        split: {FaultKind.NAMED_BARRIER_MISUSE, FaultKind.DEADLOCK},
    }
    assert wanted[family] <= kinds


@pytest.mark.skipif(not spin_available(), reason="spin or gcc is not installed")
@pytest.mark.parametrize("seed", sampled(range(6), every=3))
@pytest.mark.parametrize("family", [pipe, split])
def test_spin_agrees(family, seed: int):
    program = family(seed)
    expected = reference(program).verdict is Verdict.REFUTED
    assert (run_spin(to_promela(program), optimise="-O0").rule is not None) is expected
