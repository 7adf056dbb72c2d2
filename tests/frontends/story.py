"""Events written by hand: a ring of a copying warp and computing warps, as a machine records it."""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.frontends.policies import CodePolicies
from titan.frontends.record import Recording, record
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Box, Footprint, Space
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Confluence, Ending, Outcome, Run

FULL, EMPTY = 100_000, 200_000  # offsets of the first barriers of the two arrays
ALL = 0xFFFFFFFF
TILE = 1024
FINISHED = Outcome(Ending.FINISHED)


def shared(low: int, size: int, cta: int = 0) -> Footprint:
    return Footprint(Space.SHARED, cta, (Box(low, size),))


@dataclass
class Story:
    """Appends events; `line` numbers instructions, so that faults can be found again."""

    warps: int = 2
    cluster: int = 1
    events: list[ev.Event] = field(default_factory=list)
    line: int = 0
    operations: int = 0

    def at(self, warp: int, lanes: int, cta: int = 0) -> tuple[int, int, int, int, int]:
        self.line += 1
        return len(self.events), cta, warp, lanes, self.line

    def add(self, event: ev.Event) -> ev.Event:
        self.events.append(event)
        return event

    def init(self, warp: int, offset: int, count: int) -> None:
        self.add(ev.BarrierInit(*self.at(warp, 1), ev.Barrier(0, offset), count))

    def sync(self, warps: list[int], number: int = 0, generation: int = 0) -> None:
        for side in (ev.Side.SYNC, ev.Side.PASS):
            for warp in warps:
                self.add(
                    ev.Rendezvous(
                        *self.at(warp, ALL), ev.Meeting.NAMED, side, number, 32 * len(warps),
                        generation, ev.Semantics.ACQUIRE_RELEASE,
                    )
                )  # fmt: skip

    def wait(self, warp: int, offset: int, phase: int, lanes: int = ALL) -> None:
        self.add(
            ev.Wait(
                *self.at(warp, lanes), ev.Barrier(0, offset), phase & 1, phase, phase + 1,
                ev.Semantics.ACQUIRE, ev.Scope.CTA,
            )
        )  # fmt: skip

    def arrive(self, warp: int, offset: int, phase: int, expect: int = 0, lanes: int = 1) -> None:
        self.add(
            ev.Arrive(
                *self.at(warp, lanes), ev.Barrier(0, offset), 1, expect, ev.Semantics.RELEASE,
                ev.Scope.CTA, phase,
            )
        )  # fmt: skip

    def load(self, warp: int, low: int, size: int, barrier: int) -> None:
        self.operations += 1
        effect = ev.Effect(shared(low, size), ev.Mode.WRITE, ev.Proxy.ASYNC)
        done = ev.Completion(ev.Barrier(0, barrier), size)
        self.add(
            ev.Asynchronous(
                *self.at(warp, 1), self.operations, ev.Operation.TENSOR_COPY, (effect,), (done,)
            )
        )

    def asynchronous(
        self, warp: int, queue: ev.Queue, low: int, size: int, write: bool = False, lanes: int = ALL
    ) -> None:
        self.operations += 1
        mode = ev.Mode.WRITE if write else ev.Mode.READ
        effect = ev.Effect(shared(low, size), mode, ev.Proxy.ASYNC)
        kind = ev.Operation.WGMMA if queue is ev.Queue.WGMMA else ev.Operation.TENSOR_COPY
        self.add(
            ev.Asynchronous(*self.at(warp, lanes), self.operations, kind, (effect,), (), queue)
        )

    def commit(self, warp: int, queue: ev.Queue, lanes: int = ALL) -> None:
        self.add(ev.Commit(*self.at(warp, lanes), queue))

    def drain(
        self, warp: int, queue: ev.Queue, pending: int = 0, reads: bool = False, lanes: int = ALL
    ) -> None:
        self.add(ev.QueueWait(*self.at(warp, lanes), queue, pending, reads))

    def access(
        self,
        warp: int,
        low: int,
        size: int,
        mode: ev.Mode = ev.Mode.WRITE,
        semantics: ev.Semantics = ev.Semantics.WEAK,
        lanes: int = ALL,
    ) -> None:
        footprint = shared(low, size)
        self.add(ev.Access(*self.at(warp, lanes), footprint, mode, semantics, ev.Scope.NONE))

    def fence(self, warp: int, lanes: int = ALL) -> None:
        self.add(
            ev.Fence(
                *self.at(warp, lanes), ev.FenceKind.PROXY_ASYNC, ev.Semantics.WEAK, ev.Scope.NONE
            )
        )

    def order_registers(self, warp: int) -> None:
        """wgmma.fence."""
        kind, weak = ev.FenceKind.WGMMA, ev.Semantics.WEAK
        self.add(ev.Fence(*self.at(warp, ALL), kind, weak, ev.Scope.NONE))

    def run(self, outcome: Outcome = FINISHED) -> Run:
        launch = Launch("k", (self.cluster, 1, 1), (32 * self.warps, 1, 1), (self.cluster, 1, 1))
        return Run(launch, self.events, outcome, Confluence(), self.line)

    def recording(self, **policies: str) -> Recording:
        return record(self.run(), "k", "sm_90a", lambda line: line, CodePolicies(**policies))


def ring(
    tiles: int = 5,
    depth: int = 2,
    *,
    wait_empty: bool = True,
    drain: bool = True,
    expect: int = TILE,
    consumed: int | None = None,
) -> Story:
    """A warp copies tiles, another multiplies them, through a ring of `depth` stages."""
    story = Story()
    for stage in range(depth):
        story.init(0, FULL + 8 * stage, 1)
        story.init(0, EMPTY + 8 * stage, 1)
    story.sync([0, 1])
    story.order_registers(1)
    consumed = tiles if consumed is None else consumed
    for t in range(tiles):
        stage, use = t % depth, t // depth
        if wait_empty:
            story.wait(0, EMPTY + 8 * stage, use - 1)
        story.arrive(0, FULL + 8 * stage, use, expect)
        story.load(0, TILE * stage, TILE, FULL + 8 * stage)
        if t >= consumed:
            continue
        story.wait(1, FULL + 8 * stage, use)
        story.asynchronous(1, ev.Queue.WGMMA, TILE * stage, TILE)
        story.commit(1, ev.Queue.WGMMA)
        if drain:
            story.drain(1, ev.Queue.WGMMA)
        story.arrive(1, EMPTY + 8 * stage, use)
    if not drain:
        story.drain(1, ev.Queue.WGMMA)
    return story


def epilogue(fence: int = ALL, sync: bool = True, wait: bool = True) -> Story:
    """Two warps store to shared memory, one copies it out."""
    story = Story()
    for warp in (0, 1):
        story.access(warp, 512 * warp, 512)
        if fence:
            story.fence(warp, fence)
    if sync:
        story.sync([0, 1])
    story.asynchronous(0, ev.Queue.BULK, 0, 1024, lanes=1)
    story.commit(0, ev.Queue.BULK, 1)
    if wait:
        story.drain(0, ev.Queue.BULK, 0, True, lanes=1)
    return story
