"""Random programs without rings that are correct as drawn: queues, pools, waves, two CTAs."""

from __future__ import annotations

from random import Random

from tests.building import ASYNC, FENCE, Body, access, at, e, loop, program, read, write
from titan.sync import program as ir

# -------------------------------------------------------------------------- named barriers


def ping_pong(random: Random) -> ir.SyncProgram:
    """Two warpgroups take turns at one buffer by named barriers (order barrier of the field)."""
    rounds, threads = random.randint(1, 3), random.choice((1, 32, 128))
    both = 2 * threads
    sync_own = ir.BarrierSync(at("order", "self"), e(both))
    touch = access(write("turn", 0, "2 * r + self"), read("turn", 0))
    hand_over = ir.BarrierArrive(at("order", "1 - self"), e(both))
    body: Body = [sync_own, touch, hand_over]
    first = ir.Branch(e("self == 1"), (ir.BarrierArrive(at("order", 0), e(both)),))
    last = ir.Branch(e("self == 0"), (ir.BarrierSync(at("order", 0), e(both)),))
    return program(
        "ping_pong",
        [ir.Role("math", (first, loop("r", rounds, body), last), 2, threads)],
        named_barriers=[ir.NamedBarrier("order", 2)],
        buffers=[ir.Buffer("turn", initial=-1)],
    )


def sync_phases(random: Random) -> ir.SyncProgram:
    """Agents write their parts, meet, read all parts, meet again; at times arrive, then wait."""
    agents, rounds = random.choice(((2, 1), (2, 2), (3, 1)))
    threads = random.choice((1, 32))
    total = agents * threads
    split = random.random() < 0.4

    def meet() -> Body:
        if split:
            return [ir.BarrierArrive(at("bar"), e(total)), ir.BarrierWait(at("bar"))]
        return [ir.BarrierSync(at("bar"), e(total))]

    body: Body = [
        access(write("data", 0, "r", "self")),
        *meet(),
        access(read("data", 0, "r")),
        *meet(),
    ]
    return program(
        "phases",
        [ir.Role("warp", (loop("r", rounds, body),), agents, threads)],
        named_barriers=[ir.NamedBarrier("bar")],
        buffers=[ir.Buffer("data", 1, agents)],
    )


# ---------------------------------------------------------------------------------- queues


def store_pipeline(random: Random) -> ir.SyncProgram:
    """An epilogue: write a stage, fence, bulk store in groups, reuse after `wait_group.read`."""
    depth, tiles = random.choice(((1, 2), (2, 2), (2, 3)))
    until = random.choice((ir.Until.READ, ir.Until.READ, ir.Until.DONE))
    empty_group = random.random() < 0.3
    stage = f"t % {depth}"
    store = ir.Asynchronous(
        (read("out", stage, "t", proxy=ASYNC), write("result", "t", "t", proxy=ASYNC)), "stores"
    )
    lag = depth - 1
    pending = 2 * lag if empty_group else lag
    body: Body = [ir.QueueWait("stores", e(pending), until)]
    body += [access(write("out", stage, "t")), FENCE, store, ir.Commit("stores")]
    body += [ir.Commit("stores")] if empty_group else []
    end: Body = [ir.QueueWait("stores")]
    end += [access(read("result", tiles - 1, tiles - 1))] if random.random() < 0.5 else []
    return program(
        "stores",
        [ir.Role("epilogue", (loop("t", tiles, body), *end), 1, 1)],
        buffers=[
            ir.Buffer("out", depth),
            ir.Buffer("result", tiles, space=ir.Space.GLOBAL),
        ],
        queues=[ir.Queue("stores")],
    )


def copy_pipeline(random: Random) -> ir.SyncProgram:
    """cp.async in groups with a lag, read by its own thread, or announced on an mbarrier."""
    depth, tiles = random.choice(((2, 2), (2, 3), (3, 3)))
    ordered = random.random() < 0.8
    announce = random.random() < 0.4

    def copy(index: str) -> Body:
        effect = write("tile", f"({index}) % {depth}", index)
        return [ir.Asynchronous((effect,), "copies"), ir.Commit("copies")]

    lag = depth - 1 if ordered else 0
    roles = []
    if announce:
        body: Body = [
            *copy("t")[:1],
            ir.QueueArrive("copies", at("full", "t")),
            ir.Commit("copies"),
        ]
        if random.random() < 0.5:  # the arrival needs no commit
            body = random.choice((body[:2], [*body[:2], ir.QueueWait("copies")]))
        waits: Body = [ir.Wait(at("full", "t"), e(0), e(0)), access(read("tile", "t", "t"))]
        end: Body = [ir.QueueWait("copies")]
        roles = [
            ir.Role("copier", (loop("t", depth, body), *end), 1, 1),
            ir.Role("reader", (loop("t", depth, waits),), random.choice((1, 2)), 1),
        ]
    else:
        refill = ir.Branch(
            e(f"t + {lag} < {tiles}"), tuple(copy(f"t + {lag}")), (ir.Commit("copies"),)
        )
        prologue = [loop("f", lag, copy("f"))]
        body = [refill, ir.QueueWait("copies", e(lag)), access(read("tile", f"t % {depth}", "t"))]
        roles = [ir.Role("copier", (*prologue, loop("t", tiles, body)), 1, 1)]
    return program(
        "copies",
        roles,
        barriers=[ir.Barrier("full", 1, depth)] if announce else [],
        buffers=[ir.Buffer("tile", depth)],
        queues=[ir.Queue("copies", True, ordered)],
    )


def mma_chain(random: Random) -> ir.SyncProgram:
    """tcgen05: MMAs that accumulate in tensor memory, a commit to an mbarrier, an epilogue read."""
    steps = random.randint(1, 3)
    accumulate = ir.Asynchronous(
        (
            read("operand", 0, 7, proxy=ASYNC),
            ir.Effect("accumulator", e(0), True, e("k"), None, ASYNC, accumulates=True),
        ),
        "mma",
    )
    issue: Body = [loop("k", steps, [accumulate]), ir.QueueArrive("mma", at("done"))]
    drain: Body = [ir.Wait(at("done"), e(0), e(0)), access(read("accumulator", 0, steps - 1))]
    drain += [access(read("operand", 0, 7))] if random.random() < 0.5 else []
    return program(
        "mma_chain",
        [
            ir.Role("issuer", tuple(issue), 1, 1),
            ir.Role("epilogue", tuple(drain), random.randint(1, 2)),
        ],
        barriers=[ir.Barrier("done", 1)],
        buffers=[
            ir.Buffer("operand", initial=7),
            ir.Buffer("accumulator", space=ir.Space.TENSOR, initial=-1),
        ],
        queues=[ir.Queue("mma", False, True, True)],
    )


def waves(random: Random) -> ir.SyncProgram:
    """MI300: every wave loads its part of the LDS tile directly, waits by vmcnt, then s_barrier."""
    count, depth, tiles = random.choice(((2, 1, 1), (2, 2, 2), (2, 1, 2), (1, 2, 3)))
    instructions = random.choice((1, 2)) if count * tiles < 4 else 1
    lag = (depth - 1) * instructions
    stage = f"t % {depth}"

    def load(index: str, effect_stage: str) -> Body:
        effect = write("lds", effect_stage, index, "self")
        rest = [ir.Asynchronous((), "vmcnt")] * (instructions - 1)
        return [ir.Asynchronous((effect,), "vmcnt"), *rest]

    barrier = ir.BarrierSync(at("s_barrier"), e(count * 64))
    ahead = depth - 1
    more = load(f"t + {ahead}", f"(t + {ahead}) % {depth}")
    body: Body = [ir.Branch(e(f"t + {ahead} < {tiles}"), tuple(more))]
    full = ir.QueueWait("vmcnt", e(lag))
    body += [ir.Branch(e(f"t + {ahead} < {tiles}"), (full,), (ir.QueueWait("vmcnt"),))]
    body += [barrier, access(read("lds", stage, "t")), barrier]
    prologue = [loop("f", ahead, load("f", f"f % {depth}"))] if ahead else []
    return program(
        "waves",
        [ir.Role("wave", (*prologue, loop("t", tiles, body)), count, 64)],
        named_barriers=[ir.NamedBarrier("s_barrier")],
        buffers=[ir.Buffer("lds", depth, count)],
        queues=[ir.Queue("vmcnt", False, random.random() < 0.85)],
        target="gfx942",
    )


# ------------------------------------------------------------------- pools, lifecycle, CTAs


def registers(random: Random) -> ir.SyncProgram:
    """setmaxnreg: one role gives registers back, others take them; or tensor memory in turns."""
    takers = random.randint(1, 3)
    amount = random.randint(1, 3)
    take, give = ir.PoolTake("pool", e(amount)), ir.PoolGive("pool", e(amount))
    if random.random() < 0.5:
        rounds = random.randint(1, 2)
        touch = access(write("columns", 0, "self"), read("columns"))
        user = loop("r", rounds, [take, touch, give])
        roles = [ir.Role("user", (user,), takers, 1)]
        return program(
            "columns",
            roles,
            buffers=[ir.Buffer("columns", space=ir.Space.TENSOR)],
            pools=[ir.Pool("pool", amount)],
        )
    giver = ir.Role("producer", (ir.PoolGive("pool", e(amount * takers)),), 1, 1)
    return program(
        "registers",
        [giver, ir.Role("math", (take,), takers, 1)],
        pools=[ir.Pool("pool", random.randint(0, amount - 1))],
    )


def lifecycle(random: Random) -> ir.SyncProgram:
    """Init, publish, meet, use, invalidate and use the memory again."""
    stages = random.choice((1, 1, 2))
    reuse = random.random() < 0.6
    bulk = random.random() < 0.6
    total = 2
    meet = ir.BarrierSync(at("cta"), e(total))
    first: Body = [ir.Init(at("ready", stage), e(1)) for stage in range(stages)]
    first += [ir.Fence(ir.FenceKind.BARRIER_INIT), meet]
    second: Body = [meet]
    for stage in range(stages):
        ready = at("ready", stage)
        if bulk:
            completes = (ir.Completion(ready, e(16)),)
            first.append(ir.Arrive(ready, transaction=e(16)))
            first.append(
                ir.Asynchronous((write("tile", stage, stage, proxy=ASYNC),), None, completes)
            )
        else:
            first += [access(write("tile", stage, stage)), ir.Arrive(ready)]
        second += [ir.Wait(ready, e(0), e(0)), access(read("tile", stage, stage))]
    if reuse:
        first += [meet, *(ir.Invalidate(at("ready", stage)) for stage in range(stages))]
        second.append(meet)
    return program(
        "lifecycle",
        [ir.Role("first", tuple(first), 1, 1), ir.Role("second", tuple(second), 1, 1)],
        barriers=[ir.Barrier("ready", 1, stages, False)],
        named_barriers=[ir.NamedBarrier("cta")],
        buffers=[ir.Buffer("tile", stages)],
    )


def two_ctas(random: Random) -> ir.SyncProgram:
    """A multicast copy into both CTAs, remote release, and a cluster barrier before the end."""
    rounds = random.randint(1, 2)
    guard = random.random() < 0.8
    scope = ir.Scope.CLUSTER
    multicast = ir.Asynchronous(
        (write("tile_0", 0, "t", proxy=ASYNC), write("tile_1", 0, "t", proxy=ASYNC)),
        None,
        (ir.Completion(at("full_0"), e(32)), ir.Completion(at("full_1"), e(32))),
    )
    meet: Body = (
        [
            ir.BarrierArrive(at("cluster"), e(2)),
            ir.BarrierWait(at("cluster")),
        ]
        if guard
        else []
    )

    def use(cta: int) -> Body:
        return [
            ir.Wait(at(f"full_{cta}"), e("t % 2"), e("t")),
            access(read(f"tile_{cta}", 0, "t")),
            FENCE,
            ir.Arrive(at("empty"), scope=scope),
        ]

    leader: Body = [
        ir.Wait(at("empty"), e("(t + 1) % 2"), e("t - 1"), scope=scope),
        ir.Arrive(at("full_0"), transaction=e(32)),
        multicast,
        *use(0),
    ]
    follower: Body = [ir.Arrive(at("full_1"), transaction=e(32)), *use(1)]
    return program(
        "two_ctas",
        [
            ir.Role("leader", (loop("t", rounds, leader), *meet), 1, 1, 0),
            ir.Role("follower", (loop("t", rounds, follower), *meet), 1, 1, 1),
        ],
        barriers=[
            ir.Barrier("full_0", 1, cta=0),
            ir.Barrier("full_1", 1, cta=1),
            ir.Barrier("empty", 2, cta=0),
        ],
        named_barriers=[ir.NamedBarrier("cluster", scope=scope)],
        buffers=[ir.Buffer("tile_0", cta=0), ir.Buffer("tile_1", cta=1)],
    )


def aliasing(random: Random) -> ir.SyncProgram:
    """An epilogue buffer on the storage of the operand stages, handed over by an mbarrier."""
    units = random.choice((1, 2))
    offset = random.choice((0, 0, 1, 2))
    later = ir.Buffer("out", 1, 1, ir.Space.SHARED, "arena", offset, units)
    loads = ir.Asynchronous(
        (write("operand", 0, 3, proxy=ASYNC),), None, (ir.Completion(at("full"), e(8)),)
    )
    producer: Body = [
        ir.Arrive(at("full"), transaction=e(8)),
        loads,
        ir.Wait(at("free"), e(0), e(0)),
        access(write("out", 0, 5)),
    ]
    consumer: Body = [
        ir.Wait(at("full"), e(0), e(0)),
        access(read("operand", 0, 3, "self")),
        ir.Arrive(at("free")),
    ]
    return program(
        "aliasing",
        [ir.Role("producer", tuple(producer), 1, 1), ir.Role("consumer", tuple(consumer), 2, 1)],
        barriers=[ir.Barrier("full", 1), ir.Barrier("free", 2)],
        buffers=[ir.Buffer("operand", 1, 2, ir.Space.SHARED, "arena", 0, units), later],
    )


def descriptors(random: Random) -> ir.SyncProgram:
    """A tensor map is updated by stores, released, acquired and used by a bulk copy.

    Proxy fences of another kind stand between at times, and one more agent writes the map before.
    """
    path = random.random() < 0.3
    release = ir.Fence(ir.FenceKind.TENSORMAP_RELEASE)
    update: Body = [
        access(write("descriptor", 0, 1)),
        release,
        ir.BarrierSync(at("cta"), e(2)),
    ]
    if random.random() < 0.5:
        spaces = random.choice(((), (ir.Space.GLOBAL,), (ir.Space.SHARED,)))
        update.insert(random.randint(1, 2), ir.Fence(ir.FenceKind.ASYNC, spaces))
    roles = []
    if random.random() < 0.4:
        meet = ir.BarrierSync(at("early"), e(2))
        first: Body = [access(write("descriptor", 0, 7)), release, meet]
        if random.random() < 0.3:
            first = [access(write("descriptor", 0, 7)), meet, release]
        roles = [ir.Role("first", tuple(first), 1, 1)]
        update = [meet, *update]
    copy = ir.Asynchronous(
        (
            read("descriptor", 0, 1, proxy=ir.Proxy.TENSORMAP),
            write("tile", 0, 4, proxy=ASYNC),
        ),
        None,
        (ir.Completion(at("full"), e(4)),),
    )
    use: Body = [
        ir.BarrierSync(at("cta"), e(2)),
        ir.Fence(ir.FenceKind.TENSORMAP_ACQUIRE),
        ir.Arrive(at("full"), transaction=e(4)),
        copy,
        ir.Wait(at("full"), e(0), e(0)),
        access(read("tile", 0, 4)),
    ]
    return program(
        "descriptors",
        [*roles, ir.Role("updater", tuple(update), 1, 1), ir.Role("copier", tuple(use), 1, 1)],
        barriers=[ir.Barrier("full", 1)],
        named_barriers=[ir.NamedBarrier("cta"), ir.NamedBarrier("early")],
        buffers=[ir.Buffer("descriptor", space=ir.Space.GLOBAL, initial=0), ir.Buffer("tile")],
        policies=ir.Policies(fence_rule="path" if path else "writer"),
    )
