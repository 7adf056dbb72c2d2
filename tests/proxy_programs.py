"""Random programs about cached proxies and one-way fences; a fence is missing at times."""

from __future__ import annotations

from random import Random

from tests.building import ASYNC, FENCE, Body, access, at, e, loop, program, read, write
from titan.sync import program as ir

_FENCES = {proxy: kind for kind, proxy in ir.CACHED_FENCES.items()}
_ANY = (ir.Proxy.GENERIC, *ir.CACHED, ASYNC)


def cached(random: Random) -> ir.SyncProgram:
    """Rounds: one agent accesses global memory, all meet, another one does by another proxy.

    The accesses are separated by the fences of the proxies, by each in the CTA of its access, of
    which one is left out at times, or is executed by an agent of another CTA, or in another order.
    """
    agents = random.choice((2, 2, 3))
    ctas = [0, *(random.choice((0, 0, 1)) for _ in range(agents - 1))]
    bodies: list[Body] = [[] for _ in range(agents)]
    turns = random.choice((2, 2, 3))
    tile = 0
    last: tuple[int, ir.Proxy] | None = None
    for turn in range(turns):
        who = random.randrange(agents)
        proxy = random.choice(_ANY)
        tile = _hand_over(random, bodies, last, (who, proxy), tile, turn)
        last = (who, proxy)
    roles = [ir.Role(f"role_{n}", tuple(body), 1, 1, ctas[n]) for n, body in enumerate(bodies)]
    return program(
        "cached",
        roles,
        barriers=[ir.Barrier("b", 1, 4), ir.Barrier("d", 1, 4)],
        named_barriers=[ir.NamedBarrier("all", scope=ir.Scope.CLUSTER)],
        buffers=[
            ir.Buffer("g", random.choice((1, 1, 2)), space=ir.Space.GLOBAL, initial=0),
            ir.Buffer("sink", space=ir.Space.GLOBAL, initial=0),
        ],
        queues=[ir.Queue("bulk")],
        policies=ir.Policies(
            fence_rule=random.choice(("writer", "path")),
            war_fence=random.random() < 0.7,
            exit_in_flight="allow",
        ),
    )


def _hand_over(
    random: Random,
    bodies: list[Body],
    last: tuple[int, ir.Proxy] | None,
    new: tuple[int, ir.Proxy],
    tile: int,
    turn: int,
) -> int:
    """Fences out of the last proxy, a meeting of all, fences into the new one, the access."""
    agents = len(bodies)
    if last is not None:
        _fence(random, bodies, last)
        if random.random() < 0.4:
            for body in bodies:
                if random.random() < 0.97:
                    body.append(ir.BarrierSync(at("all"), e(agents)))
        elif last[0] != new[0]:
            far = ir.Scope.CLUSTER
            bodies[last[0]].append(ir.Arrive(at("b", turn), scope=far))
            bodies[new[0]].append(ir.Wait(at("b", turn), e(0), e(0), scope=far))
            if random.random() < 0.3:  # one that passes by
                other = random.randrange(agents)
                if other not in (last[0], new[0]):
                    bodies[other].append(ir.Wait(at("b", turn), e(0), e(0), scope=far))
        _fence(random, bodies, new)
    who, proxy = new
    writes = random.random() < 0.5 and proxy not in (ir.Proxy.CONSTANT, ir.Proxy.TEXTURE)
    make = write if writes else read
    tile += writes
    effect = make("g", 0, tile if random.random() < 0.8 else None, None, proxy)
    if proxy is not ASYNC:
        bodies[who].append(access(effect))
        return tile
    effects = (effect, write("sink", 0, 1, None, ASYNC)) if random.random() < 0.3 else (effect,)
    until = random.choice((ir.Until.DONE, ir.Until.READ)) if not writes else ir.Until.DONE
    if writes and random.random() < 0.4:
        completes = (ir.Completion(at("d", turn), e(8)),)
        bodies[who] += [
            ir.Arrive(at("d", turn), transaction=e(8)),
            ir.Asynchronous(effects, None, completes),
            ir.Wait(at("d", turn), e(0), e(0)),
        ]
        return tile
    bodies[who] += [ir.Asynchronous(effects, "bulk"), ir.Commit("bulk")]
    bodies[who] += [ir.QueueWait("bulk", until=until)] if random.random() < 0.9 else []
    return tile


def _fence(random: Random, bodies: list[Body], access_: tuple[int, ir.Proxy]) -> None:
    """The fence that an access through its proxy needs; at times none, or another one."""
    who, proxy = access_
    if random.random() < 0.15:
        proxy = random.choice(_ANY)
    if random.random() < 0.15:
        who = random.randrange(len(bodies))
    if proxy is ir.Proxy.GENERIC or random.random() < 0.15:
        return
    kind = ir.FenceKind.ASYNC if proxy is ASYNC else _FENCES[proxy]
    spaces = (ir.Space.SHARED,) if random.random() < 0.05 else ()
    bodies[who].append(ir.Fence(kind, spaces))


def halves(random: Random) -> ir.SyncProgram:
    """Generic accesses to a shared tile, a release half, a hand-over, an acquire half, a copy."""
    rounds = random.choice((1, 1, 2))
    ctas = (0, random.choice((0, 0, 0, 1)))
    home = random.choice((0, 0, 1)) if ctas[1] else 0
    writes = random.random() < 0.5
    scope = ir.Scope.CLUSTER if random.random() < 0.8 or ctas[1] else ir.Scope.CTA
    release = _half(random, ir.FenceKind.ASYNC_RELEASE)
    acquire = _half(random, ir.FenceKind.ASYNC_ACQUIRE)
    touch = access((write if writes else read)("tile", 0))
    first: Body = [touch, *release, ir.Arrive(at("ready"), scope=scope)]
    if random.random() < 0.15:
        first.insert(random.randrange(3), FENCE)
    if random.random() < 0.2:
        first[0], first[-1] = first[-1], first[0]
    copy = ir.Asynchronous(
        ((read if writes and random.random() < 0.7 else write)("tile", 0, proxy=ASYNC),), "bulk"
    )
    second: Body = [
        ir.Wait(at("ready"), e("r % 2"), e("r"), scope=scope),
        *acquire,
        copy,
        ir.Commit("bulk"),
        ir.QueueWait("bulk"),
        ir.Arrive(at("free"), scope=scope),
    ]
    back: Body = [ir.Wait(at("free"), e("r % 2"), e("r"), scope=scope)]
    readers = 2 if random.random() < 0.2 else 1
    bodies = [loop("r", rounds, [*first, *back]), loop("r", rounds, second)]
    return program(
        "halves",
        [
            ir.Role("toucher", (bodies[0],), readers if not writes else 1, 1, ctas[0]),
            ir.Role("copier", (bodies[1],), 1, 1, ctas[1]),
        ],
        barriers=[
            ir.Barrier("ready", readers if not writes else 1, cta=ctas[1]),
            ir.Barrier("free", 1, cta=ctas[0]),
        ],
        buffers=[ir.Buffer("tile", 1, initial=0, cta=home)],
        queues=[ir.Queue("bulk")],
        policies=ir.Policies(
            fence_rule=random.choice(("writer", "path")),
            war_fence=random.random() < 0.8,
            exit_in_flight="allow",
        ),
    )


def _half(random: Random, kind: ir.FenceKind) -> Body:
    roll = random.random()
    if roll < 0.7:
        return [ir.Fence(kind)]
    if roll < 0.8:
        return []
    other = (ir.FenceKind.ASYNC_RELEASE, ir.FenceKind.ASYNC_ACQUIRE, ir.FenceKind.ASYNC)
    return [ir.Fence(random.choice(other))]
