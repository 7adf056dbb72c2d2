"""From the events of a run of waves to a straight-line sync program.

Each wave is an agent. What a counter counts is an asynchronous operation of the queue of that
counter; `s_waitcnt` waits for all but the newest of a queue. The instructions of one queue keep
their order among themselves (LDS: LLVM AMDGPU usage, memory model; vector memory: CDNA3, 4.4), so
that those of one wave do not conflict with each other; with the other queue of their wave, and
with all other waves, they do. Operations between which no wait distinguishes are one operation.

Accesses to global memory by the vector cache are synchronous, so that a barrier orders them, waited
for or not (`issue_order.py`). With the policy `group_memory=waited` they are as all others.

A counter says nothing about other waves; `s_barrier` orders what comes before it in every wave with
what comes after it. A wave that has ended is not waited for: its end takes the place of the
barriers that it leaves out. `s_endpgm` waits for all that the wave has in flight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from titan.frontends.gcn.cache_queue import in_one_queue
from titan.frontends.gcn.issue_order import IssueOrder
from titan.frontends.gcn.tokens import token_text
from titan.frontends.ptx.agents import Locate, Member
from titan.frontends.ptx.equal_writes import mark_assumed
from titan.frontends.ptx.memory import STRONG, MemoryUse, RecordedMemory, united
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.record import LaunchRecording
from titan.isa.gcn.names_gfx1250 import TARGET as GFX1250
from titan.isa.simt.events import Event
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.outcome import Run
from titan.isa.simt.stored import MADE
from titan.isa.simt.written import WrittenMemories
from titan.isa.waves.events import (
    APART,
    GFX1250_QUEUES,
    OLDER_QUEUES,
    SCALAR_QUEUES,
    CounterFull,
    CounterWait,
    LanesAlike,
    LanesByData,
    LanesShown,
    LoadUnused,
    LoopByData,
    OperationIssued,
    UnknownAddress,
    WaveBarrier,
    WaveEnd,
    WaveQueue,
    WaveSignal,
    WaveSignalWait,
    WaveUse,
)
from titan.sync import program as ir
from titan.sync.expression import Constant

LANES, LANES_OF_GFX1250 = 64, 32
BARRIER = "s_barrier"
REMARKED = {
    UnknownAddress: "unknown-load", CounterFull: "counter-full", LanesAlike: "equal-lanes",
    LanesShown: "shown-lanes",
    LoadUnused: "unused-reads",
    LanesByData: "lanes-by-data",
    LoopByData: "data-loops",
}  # fmt: skip
INSTRUCTIONS_TRACED_MAX = 200_000


def record_waves(
    run: Run, name: str, target: str, locate: Locate, policies: CodePolicies
) -> LaunchRecording:
    """The sync program of a run of one work-group."""
    return record_waves_together([run], name, target, locate, policies)[0]


def record_waves_together(
    runs: Sequence[Run], name: str, target: str, locate: Locate, policies: CodePolicies,
    settled: bool = False,
) -> list[LaunchRecording]:  # fmt: skip
    """The sync programs of runs of one work-group under several launches.

    Bytes are cut into regions by the footprints of all runs, so that a region has the same name in
    each of the programs. `settled`: atomics race unless they leave the same in any order.
    """
    memory = RecordedMemory({event.cta: 0 for run in runs for event in run.events[:1]})
    noted: list[tuple[dict[int, list[MemoryUse]], dict[str, tuple[int, int]]]] = []
    for run in runs:
        remarks: dict[str, tuple[int, int]] = {}
        uses = _uses(run, policies, remarks, settled)
        for found in uses.values():
            for use in found:
                memory.note(use)
        noted.append((uses, remarks))
    memory.settle()
    made = []
    for run, (uses, remarks) in zip(runs, noted, strict=True):
        roles, named, members = _roles(run, memory, uses, locate, target)
        for event in run.events:
            remark = REMARKED.get(type(event))
            if remark is not None:
                times, first = remarks.get(remark, (0, event.instruction))
                remarks[remark] = (times + 1, first)
        program = ir.SyncProgram(
            name,
            target,
            tuple(roles),
            (),
            (),
            named,
            tuple(memory.buffers.values()),
            tuple(
                ir.Queue(queue, grouped=False, pipelined=queue not in SCALAR_QUEUES | APART)
                for queue in queues_of(target)
            ),
            (),
            replace(policies.of_program(), tensor_pipe="in_order"),
        )
        made.append(LaunchRecording(program, members, memory, [], remarks))
    return made


def queues_of(target: str) -> tuple[WaveQueue, ...]:
    """The queues of the sync programs of a target."""
    return GFX1250_QUEUES if target == GFX1250 else OLDER_QUEUES


def lanes_of_wave(target: str) -> int:
    """The lanes of a wave."""
    return LANES_OF_GFX1250 if target == GFX1250 else LANES


def _roles(
    run: Run,
    memory: RecordedMemory,
    uses: Mapping[int, list[MemoryUse]],
    locate: Locate,
    target: str,
) -> tuple[list[ir.Role], tuple[ir.NamedBarrier, ...], dict[int, list[Member]]]:
    """The waves of a run, the barriers at which they meet, and what operations were made of."""
    mine: dict[int, list[Event]] = {wave: [] for wave in sorted({e.warp for e in run.events})}
    for event in run.events:
        mine[event.warp].append(event)
    if target == GFX1250:
        mine = {wave: in_one_queue(events) for wave, events in mine.items()}
    barriers = {
        wave: sum(isinstance(event, WaveBarrier | WaveSignal) for event in events)
        for wave, events in mine.items()
    }
    lanes = lanes_of_wave(target)
    named: dict[str, ir.NamedBarrier] = {}
    roles, members = [], dict[int, list[Member]]()
    for wave, events in mine.items():
        agent = _WaveAgent(events, memory, uses, barriers, named, locate, lanes)
        body = agent.body()
        members |= agent.members
        roles.append(ir.Role(f"wave {wave}", tuple(body), threads=lanes))
    return roles, tuple(named.values()), members


def _uses(
    run: Run, policies: CodePolicies, remarks: dict[str, tuple[int, int]], settled: bool
) -> dict[int, list[MemoryUse]]:
    """The uses of each event by its sequence; writes that are equal, or assumed so, are marked."""
    found: dict[int, list[MemoryUse]] = {}
    equal, order = _equal_writes(run), IssueOrder(run)
    issued = policies.group_memory == "issued"
    for event in run.events:
        if isinstance(event, OperationIssued) and event.uses:
            found[event.sequence] = [
                MemoryUse(
                    use.footprint,
                    event.warp,
                    use.write,
                    asynchronous=not (issued and order.holds(event.queue, use.footprint)),
                    strong=_mark_of_atomic(use, settled)
                    if use.atomic
                    else equal.get((use.footprint, use.value), ""),
                )
                for use in event.uses
            ]
    shown = [sequence for sequence, uses in found.items() if any(_is_shown(use) for use in uses)]
    if shown:
        remarks["shown-writes"] = (len(shown), run.events[shown[0]].instruction)
    if policies.equal_writes == "assumed":
        for sequence in mark_assumed(found):
            times, first = remarks.get("equal-writes", (0, run.events[sequence].instruction))
            remarks["equal-writes"] = (times + 1, first)
    return found


def worth_tracing(run: Run) -> bool:
    """Whether waves or lanes store to the same bytes what may be equal."""
    if run.instructions > INSTRUCTIONS_TRACED_MAX:
        return False
    writers: dict[Footprint, int] = {}
    for event in run.events:
        if isinstance(event, LanesAlike):
            return True
        for use in event.uses if isinstance(event, OperationIssued) else ():
            plain = use.write and not use.atomic
            if plain and writers.setdefault(use.footprint, event.warp) != event.warp:
                return True
    return False


def may_be_unused(run: Run) -> bool:
    """Whether a wave loads from global memory what another one stores."""
    if run.instructions > INSTRUCTIONS_TRACED_MAX:
        return False
    uses = [
        (event.warp, use)
        for event in run.events
        if isinstance(event, OperationIssued)
        for use in event.uses
        if use.footprint.space is MemorySpace.GLOBAL and not use.atomic
    ]
    written = WrittenMemories((use.footprint, warp) for warp, use in uses if use.write)
    return any(
        writer != warp
        for warp, use in uses
        if not use.write
        for writer in written.meeting(use.footprint)
    )


def _is_shown(use: MemoryUse) -> bool:
    return isinstance(use.strong, bytes) and use.strong.startswith(MADE)


def _mark_of_atomic(use: WaveUse, settled: bool) -> str | bytes:
    return use.word.encode() if settled else STRONG


def _equal_writes(run: Run) -> dict[tuple[Footprint, bytes], bytes]:
    """The marks of known values that several waves write to the same bytes."""
    writers: dict[tuple[Footprint, bytes], set[int]] = {}
    for event in run.events:
        for use in event.uses if isinstance(event, OperationIssued) else ():
            if use.value:
                writers.setdefault((use.footprint, use.value), set()).add(event.warp)
    return {key: key[1] for key, waves in writers.items() if len(waves) > 1}


@dataclass(slots=True)
class _QueueGroups:
    """The operations of one queue of a wave, gathered where no wait distinguishes them.

    `cuts`: the numbers of operations in front of which a wait ends. `starts`: the first operation
    of each group that is in the program.
    """

    cuts: frozenset[int]
    issued: int = 0
    open: list[Member] = field(default_factory=list)
    first: int = 0
    starts: list[int] = field(default_factory=list)
    retired: int = 0  # groups that are known to be done


class _WaveAgent:
    def __init__(
        self,
        events: list[Event],
        memory: RecordedMemory,
        uses: Mapping[int, list[MemoryUse]],
        barriers: Mapping[int, int],
        named: dict[str, ir.NamedBarrier],
        locate: Locate,
        lanes: int = LANES,
    ) -> None:
        self.lanes = lanes
        self.events, self.memory, self.uses, self.locate = events, memory, uses, locate
        self.barriers, self.named = barriers, named
        self.queues = {queue: _QueueGroups(_cuts(events, queue)) for queue in WaveQueue}
        self.operations: list[ir.Operation] = []
        self.members: dict[int, list[Member]] = {}

    def body(self) -> list[ir.Operation]:
        """The operations of the wave."""
        for event in self.events:
            match event:
                case OperationIssued():
                    self._issue(event)
                case CounterWait(queue=queue, pending=pending):
                    self._flush()
                    self._wait(queue, pending, event)
                case WaveBarrier(generation=generation):
                    self._flush()
                    reference, threads = self._barrier(generation)
                    span = self.locate(event.instruction)
                    self._add(ir.BarrierSync(reference, threads, span=span), [(event, ())])
                case WaveSignal(generation=generation):
                    self._flush()
                    reference, threads = self._barrier(generation)
                    span = self.locate(event.instruction)
                    self._add(ir.BarrierArrive(reference, threads, span=span), [(event, ())])
                case WaveSignalWait(generation=generation):
                    self._flush()
                    reference, _ = self._barrier(generation)
                    span = self.locate(event.instruction)
                    self._add(ir.BarrierWait(reference, span=span), [(event, ())])
                case WaveEnd() if self.lanes == LANES:
                    self._flush()
                    for queue in WaveQueue:
                        self._wait(queue, 0, event)
                    self._leave(event)
                case WaveEnd():
                    # No document says that the barrier is dropped behind what is in flight.
                    self._flush()
                    self._leave(event)
                    for queue in WaveQueue:
                        self._wait(queue, 0, event)
        self._flush()
        return self.operations

    def _add(self, operation: ir.Operation, made_of: list[Member]) -> None:
        self.operations.append(operation)
        self.members[id(operation)] = made_of

    # ------------------------------------------------------------------------- operations

    def _issue(self, event: OperationIssued) -> None:
        self._perform(event)
        queue = self.queues[event.queue]
        if queue.issued in queue.cuts:
            self._close(event.queue)
        if not queue.open:
            queue.first = queue.issued
        queue.issued += 1
        effects = tuple(
            effect
            for use in self.uses.get(event.sequence, ())
            if use.asynchronous
            for effect in self.memory.effects(use)
        )
        if effects:
            if event.queue in APART and _meet(effects, queue.open):
                self._close(event.queue)
                queue.first = queue.issued - 1
            queue.open.append((event, effects))

    def _perform(self, event: OperationIssued) -> None:
        """The accesses that take place where they are issued, behind all operations before."""
        effects = united(
            effect
            for use in self.uses.get(event.sequence, ())
            if not use.asynchronous
            for effect in self.memory.effects(use)
        )
        if effects:
            self._flush()
            self._add(ir.Access(effects, span=self.locate(event.instruction)), [(event, effects)])

    def _close(self, name: WaveQueue) -> None:
        queue = self.queues[name]
        made_of, queue.open = queue.open, []
        if not made_of:
            return
        effects = united(effect for _, them in made_of for effect in them)
        span = self.locate(made_of[0][0].instruction)
        queue.starts.append(queue.first)
        self._add(ir.Asynchronous(effects, name, span=span), made_of)

    def _flush(self) -> None:
        for name in self.queues:
            self._close(name)

    def _wait(self, name: WaveQueue, pending: int, event: Event) -> None:
        """A wait for what is in the program; one that ends nothing new is left out."""
        queue = self.queues[name]
        cut = queue.issued - pending
        done = sum(1 for start in queue.starts if start < cut)
        if done <= queue.retired:
            return
        queue.retired = done
        left = len(queue.starts) - done
        span = self.locate(event.instruction)
        label = token_text(name, pending) if isinstance(event, CounterWait) else ""
        self._add(ir.QueueWait(name, Constant(left), span=span, label=label), [(event, ())])

    # --------------------------------------------------------------------------- barriers

    def _barrier(self, generation: int) -> tuple[ir.Reference, Constant]:
        """The barrier of a generation; where some waves have ended before, one of its own."""
        everyone = all(count > generation for count in self.barriers.values())
        name = BARRIER if everyone else f"{BARRIER} {generation + 1}"
        self.named.setdefault(name, ir.NamedBarrier(name))
        return ir.Reference(name), Constant(self.lanes * len(self.barriers))

    def _leave(self, event: Event) -> None:
        """The end of a wave replaces the barriers that others still execute."""
        most = max(self.barriers.values(), default=0)
        for generation in range(self.barriers[event.warp], most):
            reference, threads = self._barrier(generation)
            span = self.locate(event.instruction)
            self._add(ir.BarrierArrive(reference, threads, span=span), [(event, ())])


def _meet(effects: Sequence[ir.Effect], others: Sequence[Member]) -> bool:
    """Whether one of them writes a region that another one touches."""
    touched: dict[str, bool] = {}
    for _, them in others:
        for effect in them:
            touched[effect.buffer] = touched.get(effect.buffer, False) or effect.write
    return any(
        effect.buffer in touched and (effect.write or touched[effect.buffer]) for effect in effects
    )


def _cuts(events: list[Event], queue: WaveQueue) -> frozenset[int]:
    """Where waits for a queue end: between the operation of this number and the one before."""
    found, issued = set[int](), 0
    for event in events:
        if isinstance(event, OperationIssued) and event.queue is queue:
            issued += 1
        elif isinstance(event, CounterWait) and event.queue is queue:
            found.add(issued - event.pending)
    return frozenset(found)
