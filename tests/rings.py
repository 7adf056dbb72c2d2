"""Random mbarrier rings, correct as drawn, in the variants that kernels use."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.building import ASYNC, FENCE, Body, access, at, e, loop, program, read, write
from titan.sync import program as ir

# ------------------------------------------------------------------------------------- rings


class RingShape:
    """The choices of one ring, drawn at once so that producer and consumers agree."""

    def __init__(self, random: Random) -> None:
        self.depth = random.choice((1, 1, 2, 2, 3))
        self.consumers = random.choice((1, 1, 2, 2, 3))
        widest = {1: self.depth + 2, 2: self.depth + 1, 3: 2}[self.consumers]
        self.tiles = random.randint(1, min(widest, 4))
        self.fill = random.choice(("bulk", "bulk", "bulk", "store", "copy"))
        self.use = random.choice(("read", "read", "mma", "mma_lag"))
        self.meant = random.random() < 0.6
        self.counters = random.random() < 0.3
        self.split_bytes = random.random() < 0.3
        self.chunks = random.choice((1, 1, 2)) if self.consumers < 3 else 1
        self.commit_release = self.use == "mma" and random.random() < 0.4
        self.symmetric = random.random() < 0.7

    @property
    def stage(self) -> str:
        return "s" if self.counters else f"t % {self.depth}"

    def wait(self, name: str, offset: int) -> ir.Wait:
        """A wait for phase `t // depth + offset`."""
        parity = f"p + {offset % 2}" if self.counters else f"(t // {self.depth} + {offset % 2}) % 2"
        meant = e(f"t // {self.depth} + {offset}") if self.meant else None
        return ir.Wait(at(name, self.stage), e(parity), meant)

    def next_stage(self) -> Body:
        """The stage counter and the phase bit, as kernels keep them."""
        if not self.counters:
            return []
        wrap = (ir.Assign("s", e(0)), ir.Assign("p", e("1 - p")))
        return [ir.Assign("s", e("s + 1")), ir.Branch(e(f"s == {self.depth}"), wrap)]

    @property
    def variables(self) -> tuple[tuple[str, int], ...]:
        return (("s", 0), ("p", 0)) if self.counters else ()


def ring(random: Random) -> ir.SyncProgram:
    shape = RingShape(random)
    roles = [_ring_producer(shape)]
    body = _ring_consumer(shape)
    if shape.symmetric:
        roles.append(ir.Role("consumer", body, shape.consumers, 1, variables=shape.variables))
    else:
        roles += [
            ir.Role(f"consumer_{i}", body, 1, 1, variables=shape.variables)
            for i in range(shape.consumers)
        ]
    queues = [ir.Queue("copies"), ir.Queue("group", random.random() < 0.7, True, True)]
    if shape.commit_release or not queues[1].grouped:
        queues[1] = ir.Queue("group", False, True, True)
    ring_program = program(
        "ring",
        roles,
        parameters=[ir.Parameter("tiles", shape.tiles)],
        barriers=[
            ir.Barrier("full", 1, shape.depth),
            ir.Barrier("empty", shape.consumers, shape.depth),
        ],
        buffers=[ir.Buffer("tile", shape.depth)],
        queues=queues,
    )
    return ring_program if queues[1].grouped else without_commits(ring_program, "group")


def _ring_producer(shape: RingShape) -> ir.Role:
    stage = shape.stage
    full = at("full", stage)
    body: Body = [shape.wait("empty", -1)]
    if shape.fill == "bulk":
        halves = (64, 64) if shape.split_bytes else (128,)
        body.append(ir.Arrive(full, transaction=e(sum(halves))))
        for number, size in enumerate(halves):
            effects = (write("tile", stage, "t", proxy=ASYNC),) if number == 0 else ()
            completes = (ir.Completion(full, e(size)),)
            body.append(ir.Asynchronous(effects, None, completes, shape.chunks))
    elif shape.fill == "store":
        body += [access(write("tile", stage, "t"))]
        body += [FENCE] if shape.use != "read" else []
        body.append(ir.Arrive(full))
    else:
        copy = ir.Asynchronous((write("tile", stage, "t", proxy=ASYNC),), "copies")
        body += [copy, ir.Commit("copies"), ir.QueueWait("copies"), ir.Arrive(full)]
    block = (loop("t", "tiles", body + shape.next_stage()),)
    return ir.Role("producer", block, 1, 1, variables=shape.variables)


def _ring_consumer(shape: RingShape) -> tuple[ir.Operation, ...]:
    stage = shape.stage
    body: Body = [shape.wait("full", 0)]
    mma = ir.Asynchronous((read("tile", stage, "t", proxy=ASYNC),), "group")
    after: Body = []
    if shape.use == "read":
        body += [access(read("tile", stage, "t"))]
        body += [FENCE] if shape.fill != "store" else []
        body.append(ir.Arrive(at("empty", stage)))
    elif shape.commit_release:
        body += [mma, ir.QueueArrive("group", at("empty", stage))]
        after = [ir.QueueWait("group")]
    elif shape.use == "mma":
        body += [mma, ir.Commit("group"), ir.QueueWait("group"), ir.Arrive(at("empty", stage))]
    else:
        earlier = ir.Arrive(at("empty", f"(t - 1) % {shape.depth}"))
        body += [mma, ir.Commit("group"), ir.QueueWait("group", e(1))]
        body.append(ir.Branch(e("t >= 1"), (earlier,)))
        after = [ir.QueueWait("group"), ir.Arrive(at("empty", f"(tiles - 1) % {shape.depth}"))]
    if shape.use == "mma_lag" and shape.depth == 1:
        # One stage cannot be refilled while its read lags behind: release at once.
        body = [shape.wait("full", 0), mma, ir.Commit("group"), ir.QueueWait("group")]
        body.append(ir.Arrive(at("empty", stage)))
        after = []
    return (loop("t", "tiles", body + shape.next_stage()), *after)


def without_commits(given: ir.SyncProgram, queue: str) -> ir.SyncProgram:
    """Drop the commits of an ungrouped queue."""

    def strip(block: ir.Block) -> ir.Block:
        kept: Body = []
        for operation in block:
            if isinstance(operation, ir.Loop):
                kept.append(replace(operation, body=strip(operation.body)))
            elif not (isinstance(operation, ir.Commit) and operation.queue == queue):
                kept.append(operation)
        return tuple(kept)

    roles = tuple(replace(role, body=strip(role.body)) for role in given.roles)
    return replace(given, roles=roles)


def token_ring(random: Random) -> ir.SyncProgram:
    """All agents arrive at one barrier with a token, wait for it, then read what others wrote."""
    count, rounds = random.choice(((2, 1), (2, 2), (3, 1)))
    drop = random.random() < 0.3
    last = "r == " + str(rounds - 1)
    arrive = ir.Arrive(at("all"), token=True)
    leave = ir.Branch(
        e(f"self == 0 and {last}"),
        (ir.Arrive(at("all"), drop=True),),
        (arrive, ir.TokenWait(at("all"))),
    )
    neighbour = f"(self + 1) % {count}"
    body: Body = [access(write("slot", "self", "r"))]
    if drop:
        body.append(leave)
        body.append(
            ir.Branch(e(f"not (self == 0 and {last})"), (access(read("slot", neighbour, "r")),))
        )
    else:
        body += [arrive, ir.TokenWait(at("all")), access(read("slot", neighbour, "r"))]
    body += [ir.Branch(e(f"r < {rounds - 1}"), (arrive, ir.TokenWait(at("all"))))]
    return program(
        "tokens",
        [ir.Role("worker", (loop("r", rounds, body),), count, 1)],
        barriers=[ir.Barrier("all", count)],
        buffers=[ir.Buffer("slot", count)],
    )


def persistent_ring(random: Random) -> ir.SyncProgram:
    """Output tiles with a number of k-tiles each, counted through; both numbers are open."""
    depth, consumers = random.choice((1, 2, 2)), random.choice((1, 2))
    meant = random.random() < 0.7
    per_tile = random.random() < 0.7
    epilogue = random.random() < 0.5
    stage = f"n % {depth}"

    def wait(name: str, offset: int) -> ir.Wait:
        phase = f"n // {depth} + {offset}"
        return ir.Wait(at(name, stage), e(f"({phase}) % 2"), e(phase) if meant else None)

    count = ir.Assign("n", e("n + 1"))
    full = at("full", stage)
    transfer = ir.Asynchronous(
        (write("tile", stage, "n", proxy=ASYNC),), None, (ir.Completion(full, e(64)),)
    )
    fill: Body = [wait("empty", -1), ir.Arrive(full, transaction=e(64)), transfer, count]
    use: Body = [wait("full", 0), access(read("tile", stage, "n")), FENCE]
    use += [ir.Arrive(at("empty", stage)), count]
    after: Body = [ir.BarrierSync(at("done"), e(consumers))] if epilogue else []
    work_use: Body = [loop("k", "k_tiles", use), *after]
    number = (("n", 0),)
    return program(
        "persistent_ring",
        [
            ir.Role("producer", (loop("w", "work", [loop("k", "k_tiles", fill)]),), 1, 1,
                    variables=number),
            ir.Role("consumer", (loop("w", "work", work_use),), consumers, 1, variables=number),
        ],
        parameters=[
            ir.Parameter("work"),
            ir.Parameter("k_tiles", minimum=1, per="w" if per_tile else None),
        ],
        barriers=[ir.Barrier("full", 1, depth), ir.Barrier("empty", consumers, depth)],
        named_barriers=[ir.NamedBarrier("done")],
        buffers=[ir.Buffer("tile", depth)],
    )  # fmt: skip
