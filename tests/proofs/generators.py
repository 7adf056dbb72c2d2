"""Random sync programs of what the other generators seldom come to."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.building import Body, at, e, loop, read, write
from tests.building import program as program_of
from titan.sync import program as ir
from titan.sync.program import Policies, SyncProgram


def sleepers(random: Random) -> SyncProgram:
    """One agent completes phases without asking whether the other has seen them."""
    barrier, rounds = at("b"), random.randint(2, 4)
    completes: Body = [ir.Arrive(barrier, token=random.random() < 0.3)]
    waits: Body = [ir.Wait(barrier, e("t % 2"), e("t"))]
    return program_of(
        "sleepers",
        [
            ir.Role("arriving", (loop("t", rounds, completes),)),
            ir.Role("waiting", (loop("t", rounds, waits),)),
        ],
        barriers=[ir.Barrier("b", 1)],
        policies=Policies(unobserved_phase="allow"),
    )


def mixed_queue(random: Random) -> SyncProgram:
    """Copies that only read, only write, or do both, in groups of one queue."""
    queue = ir.Queue("q", random.random() < 0.7, random.random() < 0.8)
    body: Body = []
    for place in range(random.randint(3, 6)):
        reads = [read("x", 0, None, None, ir.Proxy.ASYNC)]
        writes = [write("y", place, None, None, ir.Proxy.ASYNC)]
        body.append(ir.Asynchronous(tuple(random.choice((reads, writes, reads + writes))), "q"))
        body += [ir.Commit("q")] * random.choice((0, 1, 1, 2))
        if random.random() < 0.3:
            until = random.choice((ir.Until.READ, ir.Until.READ, ir.Until.DONE))
            body.append(ir.QueueWait("q", e(random.randint(0, 2)), until))
    body += [ir.Commit("q"), ir.QueueWait("q", e(0), ir.Until.READ)]
    return program_of(
        "mixed_queue",
        [ir.Role("one", (*body, ir.QueueWait("q")))],
        buffers=[ir.Buffer("x"), ir.Buffer("y", 6)],
        queues=[queue],
    )


def by_turns(random: Random) -> SyncProgram:
    """Two agents take turns by named barriers of their own, touch stages meanwhile, and others do.

    At times an operation is left out, so that turns are taken too early or never.
    """
    stages = ("self", "1 - self", 0, 1)

    def touch() -> ir.Operation:
        effect = random.choice((read, write))("x", random.choice((*stages, "self", "self")))
        return ir.Access((effect,))

    def extra() -> Body:
        alone = ir.BarrierSync(at("own", random.choice(("self", "self", 0))), e(32))
        arrive, wait = (
            ir.Arrive(at("full", random.choice(stages))),
            ir.Wait(at("full", "self"), e(0)),
        )
        return random.sample([touch(), touch(), alone, arrive, wait], random.randint(0, 2))

    turns = (
        ir.BarrierSync(at("turn", "self"), e(64)),
        ir.BarrierArrive(at("turn", "1 - self"), e(64)),
    )
    body: Body = [*extra(), turns[0], *extra(), touch(), turns[1], *extra()]
    if random.random() < 0.2:
        del body[random.randrange(len(body))]
    first = ir.Branch(e("self == 1"), (ir.BarrierArrive(at("turn", 0), e(64)),))
    last = ir.Branch(e("self == 0"), (ir.BarrierSync(at("turn", 0), e(64)),))
    rounds = random.choice((1, 2, "n"))
    role = ir.Role("math", (first, loop("r", rounds, body), last), 2, 32)
    others = [ir.Role("other", tuple(extra()), 1, 32)] * (random.random() < 0.5)
    return program_of(
        "by_turns",
        random.sample([role, *others], 1 + len(others)),
        parameters=(ir.Parameter("n", None),),
        named_barriers=[ir.NamedBarrier("turn", 2), ir.NamedBarrier("own", 2)],
        barriers=[ir.Barrier("full", random.choice((1, 2)), 2)],
        buffers=[ir.Buffer("x", 2, initial=-1)],
        policies=Policies(unobserved_phase=random.choice(("allow", "refuse"))),
    )


def crowded(random: Random) -> SyncProgram:
    """Agents that arrive at one or two barriers and wait for any phase, in no particular order."""
    barriers = [ir.Barrier(name, 1, random.randint(1, 3)) for name in "ab"[: random.randint(1, 2)]]

    def signal() -> ir.Operation:
        barrier = at(random.choice(barriers).name)
        if random.random() < 0.6:
            return ir.Arrive(barrier)
        return ir.Wait(barrier, parity=e(random.randrange(2)))

    bodies = [
        tuple(signal() for _ in range(random.randint(1, 3))) for _ in range(random.randint(2, 4))
    ]
    return program_of(
        "crowded",
        [ir.Role(f"agent{n}", body) for n, body in enumerate(bodies)],
        barriers=barriers,
        policies=Policies(exit_in_flight="allow", unobserved_phase="allow"),
    )


def fenced(random: Random) -> SyncProgram:
    """Agents that touch a few tiles, also through other proxies, with fences in no order."""
    tiles = "xyz"[: random.randint(1, 3)]  # z is a descriptor
    kinds = (ir.FenceKind.ASYNC, ir.FenceKind.ASYNC)
    kinds += (ir.FenceKind.TENSORMAP_RELEASE, ir.FenceKind.TENSORMAP_ACQUIRE)

    def operation() -> ir.Operation:
        tile, roll, make = random.choice(tiles), random.random(), random.choice((read, write))
        if roll < 0.35:
            return ir.Fence(random.choice(kinds))
        if roll < 0.7:
            return ir.Access((make(tile, 0),))
        if tile != "z":
            queue = random.choice((None, "q"))
            return ir.Asynchronous((make(tile, 0, None, None, ir.Proxy.ASYNC),), queue)
        effects = (read(tile, 0, None, None, ir.Proxy.TENSORMAP),)
        return ir.Access(effects) if random.random() < 0.5 else ir.Asynchronous(effects, "q")

    bodies = [
        tuple(operation() for _ in range(random.randint(1, 3))) for _ in range(random.randint(2, 3))
    ]
    spaces = {tile: random.choice((ir.Space.SHARED, ir.Space.GLOBAL)) for tile in "xy"}
    return program_of(
        "fenced",
        [ir.Role(f"agent{n}", body) for n, body in enumerate(bodies)],
        buffers=[
            ir.Buffer(tile, 1, space=spaces.get(tile, ir.Space.GLOBAL), initial=0) for tile in tiles
        ],
        queues=[ir.Queue("q", random.random() < 0.5)],
        policies=Policies(
            exit_in_flight="allow",
            unobserved_phase="allow",
            war_fence=random.random() < 0.5,
            fence_rule=random.choice(("writer", "path")),
        ),
    )


def sums(random: Random) -> SyncProgram:
    """Agents of two CTAs add to the same pieces, each in its own way."""

    def adds() -> ir.Operation:
        proxy = random.choice((ir.Proxy.GENERIC, ir.Proxy.ASYNC))
        tile = random.choice((None, None, 0, 1))
        effect = write(random.choice("xy"), 0, tile, None, proxy)
        reach = random.choice((ir.Scope.CTA, ir.Scope.CLUSTER))
        kind = replace(effect, reduction=random.choice(("add", "add", "max")), reach=reach)
        return random.choice((ir.Access((kind,)), ir.Asynchronous((kind,))))

    bodies = [tuple(adds() for _ in range(random.randint(1, 3))) for _ in range(2)]
    return program_of(
        "sums",
        [ir.Role(f"agent{n}", body, cta=n % 2) for n, body in enumerate(bodies)],
        buffers=[ir.Buffer(name, space=ir.Space.GLOBAL, initial=0) for name in "xy"],
        policies=Policies(exit_in_flight="allow", war_fence=False),
    )


def with_reductions(block: ir.Block, random: Random) -> ir.Block:
    """Some plain writes become reductions, of few kinds so that they meet their like."""

    def other(effect: ir.Effect) -> ir.Effect:
        plain = effect.write and not effect.accumulates and effect.proxy in ir.REDUCING
        if not plain or random.random() < 0.3:
            return effect
        reach = random.choice((ir.Scope.CTA, ir.Scope.CLUSTER))
        return replace(effect, reduction=random.choice(("add", "add", "min")), reach=reach)

    def changed(operation: ir.Operation) -> ir.Operation:
        match operation:
            case ir.Access(effects=effects) | ir.Asynchronous(effects=effects):
                return replace(operation, effects=tuple(map(other, effects)))
            case ir.Loop(body=body):
                return replace(operation, body=with_reductions(body, random))
            case ir.Branch(then=then, otherwise=otherwise):
                arms = with_reductions(then, random), with_reductions(otherwise, random)
                return replace(operation, then=arms[0], otherwise=arms[1])
        return operation

    return tuple(map(changed, block))
