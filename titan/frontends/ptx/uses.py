"""The accesses of a run as uses of memory: who touches which bytes, how, and with whom it may race.

Readings of the contract are settled here, each under its policy: what tcgen05.alloc writes to
shared memory is ordered like an engine's write that is over at once; writes that are equal, and
reads that are unused, do not race; a tcgen05.ld of which nothing is used touches nothing; and what
cp.async writes may be taken to be written through the async proxy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from titan.frontends.ptx.equal_writes import leave_out_unused, mark_assumed, mark_shown
from titan.frontends.ptx.memory import STRONG, MemoryUse
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.settled import commutes, engines_reduce, is_settling, operation_of
from titan.frontends.ptx.shipped_readings import copies_that_arrive
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import tensor_box
from titan.isa.simt.operations import Op
from titan.isa.simt.outcome import Alike, Run, TracedAccesses
from titan.isa.simt.tracing.equal_stores import are_stores
from titan.sync import program as ir

PROXIES = {
    ev.AccessProxy.GENERIC: ir.Proxy.GENERIC,
    ev.AccessProxy.ASYNC: ir.Proxy.ASYNC,
    ev.AccessProxy.TENSORMAP: ir.Proxy.TENSORMAP,
    ev.AccessProxy.CONSTANT: ir.Proxy.GENERIC,
    ev.AccessProxy.TENSOR: ir.Proxy.GENERIC,
}
_REDUCING = (
    ev.RecordedOperation.BULK_REDUCE,
    ev.RecordedOperation.TENSOR_REDUCE,
    ev.RecordedOperation.REDUCE,
)
TENSOR_LANES = 128
STORES = (Op.STORE, Op.STORE_MATRIX)


@dataclass(slots=True)
class RunUses:
    """`of`: the uses of each event by its sequence. `allocations`: events that tcgen05.alloc made.

    `equal_writes`: events whose writes are taken to equal those of another warp;
    `shown_writes`: those that are shown to; `same_lane`: if of lanes that write the same bytes
    the same one's stay in each warp. `unused_reads`: left out, as their values are unused;
    `unused_loads`: the same of tcgen05.ld. `colliding`: stores of several lanes to the same bytes
    whose values are not known; `alike`: those of which the lanes are shown to write the same,
    `rounded`: the same but for rounding, `tried`: the same in samples; `chosen_own`: branches on
    data for which a load of the thread's own memory is taken to be of what was written.
    `unfenced_copies`: cp.async whose writes need no proxy fence.
    """

    of: dict[int, list[MemoryUse]] = field(default_factory=dict)
    allocations: set[int] = field(default_factory=set)
    equal_writes: list[int] = field(default_factory=list)
    shown_writes: list[int] = field(default_factory=list)
    same_lane: Sequence[int] = ()
    unused_reads: list[int] = field(default_factory=list)
    unused_loads: list[int] = field(default_factory=list)
    colliding: list[int] = field(default_factory=list)
    alike: list[int] = field(default_factory=list)
    rounded: list[int] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    chosen_own: Sequence[int] = ()
    unfenced_copies: list[int] = field(default_factory=list)

    def note_lanes(self, sequence: int, traced: TracedAccesses | None) -> None:
        """A store of several lanes to the same bytes."""
        found = Alike.NOT_SHOWN if traced is None else traced.alike.get(sequence, Alike.NOT_SHOWN)
        (self.colliding, self.tried, self.rounded, self.alike)[found].append(sequence)

    def remarks(self) -> Iterator[tuple[str, int]]:
        """What is to be remarked of the verdict: its name, and the event."""
        for name, sequences in (
            ("equal-writes", self.equal_writes), ("shown-writes", self.shown_writes),
            ("same-lane", self.same_lane), ("unused-reads", self.unused_reads),
            ("unused-loads", self.unused_loads), ("equal-lanes", self.colliding),
            ("shown-lanes", self.alike), ("rounded-lanes", self.rounded),
            ("tried-lanes", self.tried), ("chosen-own", self.chosen_own),
            ("copy-fence", self.unfenced_copies),
        ):  # fmt: skip
            for sequence in sequences:
                yield name, sequence


def uses_of_run(run: Run, agents: Mapping[tuple[int, int], int], policies: CodePolicies) -> RunUses:
    """All uses of a run; `agents` numbers the warps by CTA and number."""
    found = RunUses()
    if policies.allocation_write == "ordered":
        found.allocations = _allocations(run)
    arriving = copies_that_arrive(run) if policies.copy_fence == "arrivals" else set()
    for event in run.events:
        uses = _uses_of(event, agents[(event.cta, event.warp)], found.allocations, run)
        if event.sequence in arriving or (policies.copy_fence == "assumed" and _is_copy(event)):
            found.unfenced_copies.append(event.sequence)
            uses = [replace(use, proxy=ir.Proxy.ASYNC) if use.write else use for use in uses]
        if uses:
            found.of[event.sequence] = uses
        if collides(event, run):
            found.note_lanes(event.sequence, run.traced)
    if run.traced is not None and policies.unused_reads == "allow":
        found.unused_reads = leave_out_unused(found.of, run.traced)
    for clash in run.idle_clashes():
        left_out = found.alike if _are_stores(clash, run) else found.unused_reads
        left_out.append(clash.sequence)
    if policies.unused_reads == "allow":
        found.unused_loads = [n for n in _unused_loads(run) if found.of.pop(n, None) is not None]
    if run.traced is not None and policies.equal_writes != "refuse":
        found.shown_writes = mark_shown(found.of, run.traced)
        found.same_lane = run.traced.same_lane if found.shown_writes else ()
    if run.traced is not None and (found.shown_writes or found.alike or found.rounded):
        found.chosen_own = run.traced.chosen_own
    if policies.equal_writes == "assumed":
        found.equal_writes = mark_assumed(found.of)
    return found


def _are_stores(clash: ev.LaneClash, run: Run) -> bool:
    return run.prepared is not None and are_stores(clash, run.prepared.code.steps)


def _uses_of(event: ev.Event, agent: int, allocations: set[int], run: Run) -> list[MemoryUse]:
    match event:
        case ev.AccessEvent(footprint=footprint, mode=mode):
            write = mode is not ev.Mode.READ
            if event.sequence in allocations:
                return [MemoryUse(footprint, agent, write, ir.Proxy.ASYNC, True)]
            mark = _strength(event, run)
            narrow = isinstance(mark, str) and event.scope == ev.AccessScope.CTA
            return [MemoryUse(footprint, agent, write, strong=mark, narrow=narrow)]
        case ev.AsynchronousEvent(effects=effects, kind=kind):
            return [
                MemoryUse(
                    effect.footprint,
                    agent,
                    effect.mode is not ev.Mode.READ,
                    PROXIES[effect.proxy],
                    True,
                    STRONG if effect.mode is ev.Mode.ATOMIC and kind in _REDUCING else "",
                )
                for effect in effects
            ]
        case ev.Skipped(writes=writes):
            return [MemoryUse(footprint, agent, True) for footprint in writes]
        case ev.TensorAllocate() | ev.TensorDeallocate():
            columns = tensor_box(event.cta, 0, TENSOR_LANES, event.column, event.columns)
            return [MemoryUse(columns, agent, True)]
    return []


def strong_as_plain(run: Run) -> bool:
    """Whether the run takes strong accesses as plain ones (`settled.py`)."""
    return run.prepared is not None and run.prepared.options.strong_as_plain


def collides(event: ev.Event, run: Run) -> bool:
    """Whether lanes store to the same bytes, and the values are not all known to be equal.

    Other operations of a whole warp write once for it (tensormap.cp_fenceproxy, tcgen05.alloc).
    """
    if not isinstance(event, ev.AccessEvent) or not event.collides or event.value is not None:
        return False
    steps = run.prepared.code.steps if run.prepared is not None else ()
    if event.instruction < len(steps) and steps[event.instruction].op not in STORES:
        return False
    return strong_as_plain(run) or event.semantics is ev.AccessSemantics.WEAK


def _is_copy(event: ev.Event) -> bool:
    return isinstance(event, ev.AsynchronousEvent) and event.kind is ev.RecordedOperation.COPY


def _allocations(run: Run) -> set[int]:
    """The accesses that belong to a tcgen05.alloc: of the same warp and instruction."""
    found: set[int] = set()
    for event in run.events:
        if isinstance(event, ev.TensorAllocate):
            near = run.events[max(0, event.sequence - 1) : event.sequence + 2]
            found |= {
                other.sequence
                for other in near
                if isinstance(other, ev.AccessEvent)
                and (other.cta, other.warp, other.instruction)
                == (event.cta, event.warp, event.instruction)
            }
    return found


def _unused_loads(run: Run) -> list[int]:
    """The tcgen05.ld, by event, that are not waited for and of which no register is read."""
    open_loads: dict[tuple[int, int], dict[int, int]] = {}
    for event in run.events:
        loads = open_loads.setdefault((event.cta, event.warp), {})
        if isinstance(event, ev.AsynchronousEvent):
            if event.queue is ev.RecordedQueue.TENSOR_LOAD:
                loads[event.operation] = event.sequence
        elif isinstance(event, ev.RegisterBreach):
            if not event.write:
                loads.pop(event.operation, None)
        elif isinstance(event, ev.QueueWaitEvent) and event.queue is ev.RecordedQueue.TENSOR_LOAD:
            loads.clear()
    return sorted(sequence for loads in open_loads.values() for sequence in loads.values())


def _strength(event: ev.AccessEvent, run: Run) -> str | bytes:
    """What makes accesses not race with each other; see `MemoryUse`."""
    if strong_as_plain(run) and is_settling(event, run):
        word = commutes(run, event)
        if word:
            as_engines = operation_of(word) == "add" and engines_reduce(run)
            return STRONG if as_engines else f"{STRONG} {word}"
        return event.value or "" if event.mode is ev.Mode.WRITE else ""
    if event.mode is ev.Mode.ATOMIC or event.semantics is not ev.AccessSemantics.WEAK:
        return STRONG
    return event.value or ""
