"""Short programs of operations thrown together: barriers of small counts, one queue, two pieces.

Most are wrong; one in ten is right by accident, in ways that no family of kernels is.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.building import ASYNC, FENCE, access, at, e, loop, program, read, write
from titan.sync import program as ir


def soup(random: Random) -> ir.SyncProgram:
    """One program, without parameters."""
    barriers = [
        ir.Barrier(f"b{number}", random.randint(1, 3), initialised=random.random() < 0.93)
        for number in range(random.randint(1, 2))
    ]
    grouped, ordered, pipelined = (random.random() < share for share in (0.4, 0.8, 0.3))
    queue = ir.Queue("q", grouped, ordered, pipelined)
    ctas = (0, 0, random.choice((0, 0, 0, 1)))
    memory, phases = random.choice((0, 0.2, 0.5)), random.random() < 0.5
    roles = []
    for number in range(random.randint(1, 3)):
        body = _body(random, [barrier.name for barrier in barriers], memory, phases)
        if random.random() < 0.35:
            body = [loop("t", random.randint(1, 3), body)]
        agents = random.choice((1, 1, 1, 2))
        roles.append(ir.Role(f"r{number}", tuple(body), agents, 1, ctas[number]))
    policies = ir.Policies(
        random.choice(("writer", "path")),
        random.random() < 0.7,
        random.choice(("fence", "assumed")),
        random.choice(("allow", "allow", "refuse")),
    )
    return program(
        "soup",
        roles,
        barriers=barriers,
        named_barriers=[ir.NamedBarrier("n")],
        buffers=[ir.Buffer("x", initial=0), ir.Buffer("y", initial=0)],
        queues=[queue],
        policies=policies,
    )


def _body(random: Random, barriers: list[str], memory: float, phases: bool) -> list[ir.Operation]:
    body: list[ir.Operation] = []
    waited: Counter[str] = Counter()
    for _ in range(random.randint(1, 6)):
        barrier = random.choice(barriers)
        if random.random() < memory:
            body.append(_memory_operation(random, barrier))
        else:
            body += _barrier_operation(random, barrier, waited, phases)
    return body


def _effect(random: Random) -> ir.Effect:
    proxy = random.choice((ir.Proxy.GENERIC, ASYNC))
    return random.choice((read, write))(random.choice("xy"), proxy=proxy)


def _memory_operation(random: Random, barrier: str) -> ir.Operation:
    chunks = random.choice((1, 1, 2))
    done = (ir.Completion(at(barrier), e(8)),)
    until = ir.Until.READ if random.random() < 0.15 else ir.Until.DONE
    return random.choice(
        (
            access(_effect(random)),
            FENCE,
            ir.Asynchronous((_effect(random),), "q"),
            ir.QueueWait("q", e(random.choice((0, 0, 1))), until),
            ir.Commit("q"),
            ir.Asynchronous((_effect(random),), random.choice(("q", None)), done, chunks),
        )
    )


def _barrier_operation(
    random: Random, barrier: str, waited: Counter[str], phases: bool
) -> list[ir.Operation]:
    place, done = at(barrier), (ir.Completion(at(barrier), e(8)),)
    kind = random.choices(range(13), (6, 7, 3, 2, 2, 2, 1, 1, 1, 2, 1, 0.4, 0.4))[0]
    match kind:
        case 0:
            count, drop = random.choice((1, 1, 1, 2)), random.random() < 0.06
            return [ir.Arrive(place, e(count), drop=drop)]
        case 1:
            phase = waited[barrier]
            waited[barrier] += 1
            return [ir.Wait(place, e(phase % 2), e(phase) if phases else None)]
        case 2:
            return [ir.Arrive(place, transaction=e(8))]
        case 3:
            return [ir.ExpectTransaction(place, e(8))]
        case 4:
            chunks = random.choice((1, 1, 2))
            return [ir.Asynchronous((), random.choice(("q", None)), done, chunks)]
        case 5:
            return [ir.QueueArrive("q", place)]
        case 6:
            return [ir.Commit("q")]
        case 7:
            return [ir.Arrive(place, token=True), ir.TokenWait(place)]
        case 8:
            return [ir.QueueWait("q")]
        case 9:
            meet = random.choice((ir.BarrierSync, ir.BarrierArrive))
            return [meet(at("n"), e(random.choice((1, 2, 2, 3))))]
        case 10:
            return [ir.BarrierWait(at("n"))]
        case 11:
            return [ir.Init(place, e(random.randint(1, 2)))]
    return [ir.Invalidate(place)]
