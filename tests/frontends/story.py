"""Events written by hand: a ring of a copying warp and computing warps, as a machine records it."""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.foundation.source.span import Span
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.record import LaunchRecording, record
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Box, Footprint, MemorySpace
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Confluence, Ending, Outcome, Run

FULL, EMPTY = 100_000, 200_000  # offsets of the first barriers of the two arrays
ALL = 0xFFFFFFFF
TILE = 1024
FINISHED = Outcome(Ending.FINISHED)


def shared(low: int, size: int, cta: int = 0) -> Footprint:
    return Footprint(MemorySpace.SHARED, cta, (Box(low, size),))


def _place(line: int) -> Span:
    return Span("story", line, 1, line, 2)


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
        self.add(ev.BarrierInit(*self.at(warp, 1), ev.BarrierAddress(0, offset), count))

    def invalidate(self, warp: int, offset: int) -> None:
        self.add(ev.BarrierInvalidate(*self.at(warp, 1), ev.BarrierAddress(0, offset)))

    def sync(self, warps: list[int], number: int = 0, generation: int = 0) -> None:
        for side in (ev.Side.SYNC, ev.Side.PASS):
            for warp in warps:
                self.add(
                    ev.RendezvousEvent(
                        *self.at(warp, ALL), ev.Meeting.NAMED, side, number, 32 * len(warps),
                        generation, ev.AccessSemantics.ACQUIRE_RELEASE,
                    )
                )  # fmt: skip

    def wait(self, warp: int, offset: int, phase: int, lanes: int = ALL) -> None:
        self.add(
            ev.WaitEvent(
                *self.at(warp, lanes), ev.BarrierAddress(0, offset), phase & 1, phase, phase + 1,
                ev.AccessSemantics.ACQUIRE, ev.AccessScope.CTA,
            )
        )  # fmt: skip

    def arrive(self, warp: int, offset: int, phase: int, expect: int = 0, lanes: int = 1) -> None:
        self.add(
            ev.ArriveEvent(
                *self.at(warp, lanes),
                ev.BarrierAddress(0, offset),
                1,
                expect,
                ev.AccessSemantics.RELEASE,
                ev.AccessScope.CTA,
                phase,
            )
        )

    def load(self, warp: int, low: int, size: int, barrier: int) -> None:
        self.operations += 1
        effect = ev.RecordedEffect(shared(low, size), ev.Mode.WRITE, ev.AccessProxy.ASYNC)
        done = ev.RecordedCompletion(ev.BarrierAddress(0, barrier), size)
        self.add(
            ev.AsynchronousEvent(
                *self.at(warp, 1),
                self.operations,
                ev.RecordedOperation.TENSOR_COPY,
                (effect,),
                (done,),
            )
        )

    def asynchronous(
        self,
        warp: int,
        queue: ev.RecordedQueue,
        low: int,
        size: int,
        write: bool = False,
        lanes: int = ALL,
    ) -> None:
        self.operations += 1
        mode = ev.Mode.WRITE if write else ev.Mode.READ
        effect = ev.RecordedEffect(shared(low, size), mode, ev.AccessProxy.ASYNC)
        kind = (
            ev.RecordedOperation.WGMMA
            if queue is ev.RecordedQueue.WGMMA
            else ev.RecordedOperation.TENSOR_COPY
        )
        self.add(
            ev.AsynchronousEvent(*self.at(warp, lanes), self.operations, kind, (effect,), (), queue)
        )

    def commit(self, warp: int, queue: ev.RecordedQueue, lanes: int = ALL) -> None:
        self.add(ev.CommitEvent(*self.at(warp, lanes), queue))

    def drain(
        self,
        warp: int,
        queue: ev.RecordedQueue,
        pending: int = 0,
        reads: bool = False,
        lanes: int = ALL,
    ) -> None:
        self.add(ev.QueueWaitEvent(*self.at(warp, lanes), queue, pending, reads))

    def access(
        self,
        warp: int,
        low: int,
        size: int,
        mode: ev.Mode = ev.Mode.WRITE,
        semantics: ev.AccessSemantics = ev.AccessSemantics.WEAK,
        lanes: int = ALL,
    ) -> None:
        footprint = shared(low, size)
        self.add(
            ev.AccessEvent(*self.at(warp, lanes), footprint, mode, semantics, ev.AccessScope.NONE)
        )

    def fence(self, warp: int, lanes: int = ALL) -> None:
        self.add(
            ev.FenceEvent(
                *self.at(warp, lanes),
                ev.RecordedFence.PROXY_ASYNC,
                ev.AccessSemantics.WEAK,
                ev.AccessScope.NONE,
            )
        )

    def order_registers(self, warp: int) -> None:
        """wgmma.fence."""
        kind, weak = ev.RecordedFence.WGMMA, ev.AccessSemantics.WEAK
        self.add(ev.FenceEvent(*self.at(warp, ALL), kind, weak, ev.AccessScope.NONE))

    def run(self, outcome: Outcome = FINISHED) -> Run:
        launch = Launch("k", (self.cluster, 1, 1), (32 * self.warps, 1, 1), (self.cluster, 1, 1))
        return Run(launch, self.events, outcome, Confluence(), self.line)

    def recording(self, **policies: str) -> LaunchRecording:
        return record(self.run(), "k", "sm_90a", _place, CodePolicies(**policies))


def ring(
    tiles: int = 5,
    depth: int = 2,
    *,
    wait_empty: bool = True,
    drain: bool = True,
    expect: int = TILE,
    consumed: int | None = None,
    story: Story | None = None,
) -> Story:
    """A warp copies tiles, another multiplies them, through a ring of `depth` stages."""
    story = Story() if story is None else story
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
        story.asynchronous(1, ev.RecordedQueue.WGMMA, TILE * stage, TILE)
        story.commit(1, ev.RecordedQueue.WGMMA)
        if drain:
            story.drain(1, ev.RecordedQueue.WGMMA)
        story.arrive(1, EMPTY + 8 * stage, use)
    if not drain:
        story.drain(1, ev.RecordedQueue.WGMMA)
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
    story.asynchronous(0, ev.RecordedQueue.BULK, 0, 1024, lanes=1)
    story.commit(0, ev.RecordedQueue.BULK, 1)
    if wait:
        story.drain(0, ev.RecordedQueue.BULK, 0, True, lanes=1)
    return story
