"""Random pipelines with prologues, peeled iterations and epilogues; the number of tiles is open.

What they share: some operation names a fixed tile or a fixed phase of the memory or barrier that
the loops count through, or a loop starts where another one ended.
"""

from __future__ import annotations

from random import Random

from tests.building import ASYNC, FENCE, Body, access, at, e, loop, program, read, write
from titan.sync import program as ir


class _Ring:
    """One ring: how stage, phase and memory are named, and what fills and uses them."""

    def __init__(self, random: Random, name: str, depth: int) -> None:
        self.name, self.depth = name, depth
        self.bulk = random.random() < 0.6
        self.meant = random.random() < 0.7
        self.known = random.random() < 0.9  # whether readers say which tile they mean

    def wait(self, barrier: str, tile: int | str, offset: int) -> ir.Wait:
        parity = e(f"(({tile}) // {self.depth} + {offset % 2}) % 2")
        phase = e(f"({tile}) // {self.depth} + {offset}") if self.meant else None
        return ir.Wait(at(f"{barrier}_{self.name}", self.stage(tile)), parity, phase)

    def stage(self, tile: int | str) -> str:
        return f"({tile}) % {self.depth}"

    def fill(self, tile: int | str, acquire: bool = True) -> Body:
        body: Body = [self.wait("empty", tile, -1)] if acquire else []
        full = at(f"full_{self.name}", self.stage(tile))
        if self.bulk:
            effect = write(self.name, self.stage(tile), tile, proxy=ASYNC)
            transfer = ir.Asynchronous((effect,), None, (ir.Completion(full, e(64)),))
            return [*body, ir.Arrive(full, transaction=e(64)), transfer]
        return [*body, access(write(self.name, self.stage(tile), tile)), ir.Arrive(full)]

    def take(self, tile: int | str) -> Body:
        meant = tile if self.known else None
        body: Body = [self.wait("full", tile, 0)]
        body.append(access(read(self.name, self.stage(tile), meant)))
        return body + ([FENCE] if self.bulk else [])

    def release(self, tile: int | str) -> Body:
        return [ir.Arrive(at(f"empty_{self.name}", self.stage(tile)))]


def _fill_all(random: Random, rings: list[_Ring], stop: str) -> Body:
    """A producer: plain, or with its first tiles filled before the loop in one of the ways."""
    depth = min(ring.depth for ring in rings)

    def fill(tile: int | str, acquire: bool = True) -> Body:
        return [op for ring in rings for op in ring.fill(tile, acquire)]

    ahead = random.randint(1, depth)
    acquire = random.random() < 0.3
    guarded: Body = [ir.Branch(e(f"s < {stop}"), tuple(fill("s", acquire)))]
    match random.randrange(6):
        case 0:
            return [loop("t", stop, fill("t"))]
        case 1:
            return [loop("s", ahead, guarded), loop("t", stop, fill("t"), ahead)]
        case 2:
            until = f"min({ahead}, {stop})"
            return [loop("s", until, fill("s", acquire)), loop("t", stop, fill("t"), until)]
        case 3:
            first: Body = [
                ir.Branch(e(f"{stop} > {tile}"), tuple(fill(tile, acquire)))
                for tile in range(ahead)
            ]
            return [*first, loop("t", stop, fill("t"), ahead)]
        case 4:
            later = ir.Branch(e(f"t + {ahead} < {stop}"), tuple(fill(f"t + {ahead}")))
            return [loop("s", ahead, guarded), loop("t", stop, [later])]
        case _:
            counted = [*fill("n"), ir.Assign("n", e("n + 1"))]
            before = loop("s", f"min({stop}, {ahead})", counted)
            return [before, loop("t", f"{stop} - {ahead}", counted)]


def _use_all(random: Random, rings: list[_Ring], stop: str) -> Body:
    """A consumer: plain, behind by some tiles, or with its first tile before the loop."""

    def take(tile: int | str) -> Body:
        return [op for ring in rings for op in ring.take(tile)]

    def release(tile: int | str) -> Body:
        return [op for ring in rings for op in ring.release(tile)]

    deep = min(ring.depth for ring in rings) > 1
    match random.randrange(5):
        case 1 if deep:
            earlier = ir.Branch(e("t >= 1"), tuple(release("t - 1")))
            last = ir.Branch(e(f"{stop} >= 1"), tuple(release(f"{stop} - 1")))
            return [loop("t", stop, [*take("t"), earlier]), last]
        case 2 if deep:
            first = ir.Branch(e(f"{stop} > 0"), tuple(take(0)))
            rest = loop("t", stop, [*take("t"), *release("t - 1")], 1)
            return [first, rest, ir.Branch(e(f"{stop} > 0"), tuple(release(f"{stop} - 1")))]
        case 3:
            behind = random.choice((1, 2))
            used = ir.Branch(
                e(f"t >= {behind}"), (*take(f"t - {behind}"), *release(f"t - {behind}"))
            )
            return [loop("t", f"{stop} + {behind}", [used])]
        case 4:
            first = ir.Branch(e(f"{stop} > 0"), (*take(0), *release(0)))
            return [first, loop("t", stop, [*take("t"), *release("t")], 1)]
    return [loop("t", stop, [*take("t"), *release("t")])]


def prologued(random: Random) -> ir.SyncProgram:
    """One or two rings of one producer and one or two consumers, correct as drawn."""
    depths = random.choice(((1,), (2,), (2,), (3,), (1, 1), (2, 1), (2, 2)))
    rings = [_Ring(random, f"r{number}", depth) for number, depth in enumerate(depths)]
    consumers = random.choice((1, 1, 2)) if sum(depths) < 4 else 1
    produce, consume = _fill_all(random, rings, "tiles"), _use_all(random, rings, "tiles")
    barriers = [ir.Barrier(f"full_{ring.name}", 1, ring.depth) for ring in rings]
    barriers += [ir.Barrier(f"empty_{ring.name}", consumers, ring.depth) for ring in rings]
    buffers = [ir.Buffer(ring.name, ring.depth) for ring in rings]
    if random.random() < 0.4:  # a query, loaded once and used by every tile
        barriers.append(ir.Barrier("ready", 1))
        buffers.append(ir.Buffer("query"))
        place = random.choice((0, len(produce) - 1))
        loaded: Body = [access(write("query", 0, 0)), ir.Arrive(at("ready"))]
        produce = [*produce[:place], *loaded, *produce[place:]]
        consume = [ir.Wait(at("ready"), e(0), e(0)), access(read("query", 0, 0)), *consume]
    if random.random() < 0.3:  # all is over
        barriers.append(ir.Barrier("over", consumers))
        consume = [*consume, ir.Arrive(at("over"))]
        produce = [*produce, ir.Wait(at("over"), e(0), e(0))]
    count = (("n", 0),)
    return program(
        "prologued",
        [
            ir.Role("producer", tuple(produce), 1, 1, variables=count),
            ir.Role("consumer", tuple(consume), consumers, 1, variables=count),
        ],
        parameters=[ir.Parameter("tiles", minimum=random.choice((0, 0, 1)))],
        barriers=barriers,
        buffers=buffers,
    )


def prologued_work(random: Random) -> ir.SyncProgram:
    """Output tiles with their own numbers of k-tiles, counted through, some filled ahead."""
    depth, per = random.choice((1, 2, 2)), random.random() < 0.6
    ring = _Ring(random, "r0", depth)
    step = ir.Assign("n", e("n + 1"))
    fill: Body = [*ring.fill("n"), step]
    ahead = random.randint(1, depth)
    match random.randrange(4):
        case 0:
            inner: Body = [loop("k", "k_tiles", fill)]
        case 1:
            inner = [loop("k", f"min({ahead}, k_tiles)", fill), loop("j", "k_tiles", fill, ahead)]
        case 2:
            guarded = ir.Branch(e("k < k_tiles"), tuple(fill))
            inner = [loop("k", ahead, [guarded]), loop("j", "k_tiles", fill, ahead)]
        case _:
            inner = [ir.Branch(e("k_tiles > 0"), tuple(fill)), loop("k", "k_tiles", fill, 1)]
    produce: Body = [loop("w", "work", inner)]
    use: Body = [*ring.take("n"), *ring.release("n"), step]
    consume: Body = [loop("w", "work", [loop("k", "k_tiles", use)])]
    if random.random() < 0.4:
        peeled: Body = [ir.Branch(e("k_tiles > 0"), tuple(use)), loop("k", "k_tiles", use, 1)]
        consume = [loop("w", "work", peeled)]
    if random.random() < 0.4:  # the first tile of all, outside the loops
        first = ring.fill(0, False)
        produce = [*first, ir.Assign("n", e("n + 1")), *produce]
        consume = [*ring.take(0), *ring.release(0), ir.Assign("n", e("n + 1")), *consume]
    count = (("n", 0),)
    return program(
        "prologued_work",
        [
            ir.Role("producer", tuple(produce), 1, 1, variables=count),
            ir.Role("consumer", tuple(consume), 1, 1, variables=count),
        ],
        parameters=[
            ir.Parameter("work"),
            ir.Parameter("k_tiles", minimum=random.choice((0, 1)), per="w" if per else None),
        ],
        barriers=[ir.Barrier("full_r0", 1, depth), ir.Barrier("empty_r0", 1, depth)],
        buffers=[ir.Buffer("r0", depth)],
    )
