"""Queues of one counter: however a program is split into queues, the counter decides."""

from __future__ import annotations

import random
from dataclasses import replace

from titan.engines.explore.reference import explore_reference
from titan.language.protocol.counters import with_hardware_counters
from titan.sync import program as ir
from titan.sync.expression import Constant


def drawn(seed: int, queues: int) -> ir.SyncProgram:
    """One wave with reads and writes of LDS that count in one counter, said in so many queues."""
    draw = random.Random(seed)
    body: list[ir.Operation] = []
    for _ in range(5):
        name = f"q{draw.randrange(queues)}"
        roll = draw.random()
        if roll < 0.35:
            body.append(ir.QueueWait(name, Constant(draw.randrange(2))))
        elif roll < 0.8:
            effect = ir.Effect("L", Constant(draw.randrange(2)), draw.random() < 0.5)
            body.append(ir.Asynchronous((effect,), name))
        else:
            body.append(ir.Access((ir.Effect("L", Constant(draw.randrange(2)), True),)))
    body.append(ir.QueueWait("q0"))
    names = [f"q{number}" for number in range(queues)]
    return ir.SyncProgram(
        f"seed_{seed}",
        "gfx942",
        (ir.Role("wave", tuple(body), threads=64),),
        buffers=(ir.Buffer("L", 2, initial=0),),
        queues=tuple(ir.Queue(name, grouped=False) for name in names),
    )


def as_one(program: ir.SyncProgram) -> ir.SyncProgram:
    """The same with every queue spelled `q0`."""
    (role,) = program.roles
    body = tuple(
        replace(item, queue="q0") if isinstance(item, ir.Asynchronous | ir.QueueWait) else item
        for item in role.body
    )
    return replace(program, roles=(replace(role, body=body),), queues=program.queues[:1])


def test_split_queues_are_judged_as_the_counter_is():
    verdicts, changed = set(), 0
    for seed in range(150):
        program = drawn(seed, 3)
        kinds = [(queue.name, "lgkmcnt") for queue in program.queues]
        made = with_hardware_counters(program, kinds)
        assert made == as_one(program)
        verdict = explore_reference(made).verdict
        verdicts.add(verdict)
        changed += verdict is not explore_reference(program).verdict
    assert len(verdicts) == 2 and changed > 5, "some programs were judged otherwise before"


def test_queues_that_differ_stay_apart():
    program = drawn(1, 2)
    loose = replace(program.queues[1], ordered=False)
    program = replace(program, queues=(program.queues[0], loose))
    kinds = [("q0", "lgkmcnt"), ("q1", "lgkmcnt")]
    assert with_hardware_counters(program, kinds) == program
    kinds = [("q0", "lgkmcnt"), ("q1", "vmcnt")]
    assert with_hardware_counters(drawn(1, 2), kinds) == drawn(1, 2)
