"""Random programs of operations in no particular order."""

from __future__ import annotations

from random import Random

from tests.building import FENCE, Body, access, at, e, loop, program, read, write
from titan.sync import program as ir

# ------------------------------------------------------------------------------------ free


class _Scene:
    """The declarations of a free program, and random references into them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.barriers = [
            ir.Barrier("b", random.randint(1, 2), random.randint(1, 2)),
            ir.Barrier("c", random.randint(1, 2), 1, random.random() < 0.7, random.randint(0, 1)),
        ]
        self.buffers = [
            ir.Buffer("x", random.randint(1, 2), random.randint(1, 2), initial=0),
            ir.Buffer(
                "y",
                1,
                1,
                random.choice(tuple(ir.Space)),
                random.choice(("x", "", "")),
                random.randint(0, 1),
                random.randint(1, 2),
                0,
            ),
        ]
        self.queues = [ir.Queue("q", True), ir.Queue("u", False, random.random() < 0.6, True)]

    def barrier(self) -> ir.Reference:
        chosen = self.random.choice(self.barriers)
        return at(chosen.name, self.random.randrange(chosen.stages))

    def effect(self, proxy: ir.Proxy = ir.Proxy.GENERIC) -> ir.Effect:
        buffer = self.random.choice(self.buffers)
        part = self.random.choice((None, self.random.randrange(buffer.parts)))
        stage = self.random.randrange(buffer.stages)
        tile = self.random.choice((None, None, 0, 1))
        make = self.random.choice((read, read, write))
        return make(buffer.name, stage, tile, part, proxy)

    def asynchronous(self) -> Body:
        queue = self.random.choice((None, "q", "u"))
        proxy = self.random.choice((ir.Proxy.ASYNC, ir.Proxy.ASYNC, ir.Proxy.GENERIC))
        effects = tuple(self.effect(proxy) for _ in range(self.random.randint(0, 2)))
        completes: tuple[ir.Completion, ...] = ()
        before: Body = []
        if self.random.random() < 0.6:
            barrier, size = self.barrier(), self.random.choice((2, 4))
            completes = (ir.Completion(barrier, e(size)),)
            announce = ir.Arrive(barrier, transaction=e(size))
            if self.random.random() < 0.3:
                announce = ir.ExpectTransaction(barrier, e(size))
            before = [announce] if self.random.random() < 0.85 else []
        operation = ir.Asynchronous(effects, queue, completes, self.random.choice((1, 1, 2)))
        after: Body = [ir.Commit("q")] if queue == "q" and self.random.random() < 0.7 else []
        if queue and self.random.random() < 0.5:
            until = self.random.choice((ir.Until.DONE, ir.Until.DONE, ir.Until.READ))
            after.append(ir.QueueWait(queue, e(self.random.choice((0, 0, 1))), until))
        return [*before, operation, *after]

    def synchronisation(self) -> Body:
        barrier, roll = self.barrier(), self.random.random()
        if roll < 0.4:
            return [ir.Arrive(barrier, e(self.random.choice((1, 1, 1, 2))), token=roll < 0.06)]
        if roll < 0.6:
            meant = self.random.choice((None, None, 0))
            return [ir.Wait(barrier, e(0), None if meant is None else e(meant))]
        if roll < 0.68:
            return [ir.Arrive(barrier, token=True), ir.TokenWait(barrier)]
        if roll < 0.8:
            return [ir.QueueArrive(self.random.choice(("q", "u")), barrier)]
        return [ir.BarrierSync(at("bar", self.random.randrange(2)), e(2))]

    def others(self) -> Body:
        random = self.random
        barrier = at("c")
        return random.choice(
            (
                [ir.Fence(random.choice(tuple(ir.FenceKind)))],
                [FENCE],
                [ir.Init(barrier, e(1)), ir.Fence(ir.FenceKind.BARRIER_INIT)],
                [ir.Invalidate(barrier)],
                [ir.PoolTake("p", e(1)), ir.PoolGive("p", e(1))],
                [ir.PoolGive("p", e(random.choice((1, 2, -1))))],
                [ir.BarrierArrive(at("bar"), e(2)), ir.BarrierWait(at("bar"))],
                [ir.BarrierArrive(at("bar"), e(2))],
                [ir.Commit("q"), ir.QueueWait("q", e(random.choice((0, 1))))],
            )
        )

    def body(self, length: int) -> Body:
        made: Body = []
        while len(made) < length:
            draw = self.random.random()
            if draw < 0.3:
                effects = tuple(self.effect() for _ in range(self.random.choice((1, 1, 2))))
                made.append(access(*effects))
            elif draw < 0.55:
                made += self.asynchronous()
            elif draw < 0.85:
                made += self.synchronisation()
            else:
                made += self.others()
        return made


def free(random: Random) -> ir.SyncProgram:
    """Operations at random; loops, branches and counters around some of them."""
    scene = _Scene(random)
    roles = []
    for number in range(random.choice((1, 2, 2, 2, 3))):
        body = scene.body(random.randint(2, 5))
        cut = random.randrange(len(body))
        tail = body[cut:]
        roll = random.random()
        if roll < 0.15 and len(tail) <= 3:
            body = [*body[:cut], loop("i", 2, tail)]
        elif roll < 0.3:
            body = [
                *body[:cut],
                ir.Assign("v", e("v + 1")),
                ir.Branch(e("v % 2 == self"), tuple(tail)),
            ]
        cta = 1 if number and random.random() < 0.2 else 0
        agents = 2 if number == 0 and random.random() < 0.2 else 1
        roles.append(ir.Role(f"role_{number}", tuple(body), agents, 1, cta, variables=(("v", 0),)))
    allow = random.random() < 0.6
    return program(
        "free",
        roles,
        barriers=scene.barriers,
        named_barriers=[ir.NamedBarrier("bar", 2)],
        buffers=scene.buffers,
        queues=scene.queues,
        pools=[ir.Pool("p", random.randint(0, 2))],
        policies=ir.Policies(
            fence_rule=random.choice(("writer", "path")),
            war_fence=random.random() < 0.5,
            exit_in_flight="allow" if allow else "refuse",
            unobserved_phase=random.choice(("refuse", "allow")),
            tensor_pipe=random.choice(("listed", "in_order")),
        ),
    )
