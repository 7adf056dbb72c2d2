"""Faults that the machine itself saw in a run: registers, barriers, memory, tensor memory.

Each of these happened in the run that was made, so it refutes whatever the interleaving. Faults of
one kind at one instruction are reported once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.remarks import CLOSE_LANES, EQUAL_LANES, NOT_SHOWN, STALE_STAGE
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.fences_on_way import unfenced_on_way
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.mbarriers import LIMIT
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Policy, Run
from titan.isa.simt.stale_reads import stale_reads
from titan.isa.simt.tracing.executed_step import is_untraced
from titan.isa.simt.tracing.traced import traced

BREACHES_MAX = 8
ALL_LANES = 0xFFFFFFFF
WARP_THREADS = 32
UNFENCED = "wgmma reads and writes registers that no wgmma.fence has ordered"

_MISUSES = {
    ev.Misuse.NOT_INITIALISED: ("TTN208", "is used before it is initialised"),
    ev.Misuse.COUNT_UNDERFLOW: ("TTN206", "gets more arrivals than its phase expects"),
    ev.Misuse.BYTES_RANGE: ("TTN207", "overflows its transaction count"),
    ev.Misuse.COUNT_RANGE: ("TTN404", "is initialised with a count out of range"),
    ev.Misuse.NO_COMPLETE_COMPLETED: ("TTN206", "receives an arrival that must not complete it"),
    ev.Misuse.OVERWRITTEN: ("TTN209", "is overwritten while it is live"),
    ev.Misuse.MISALIGNED: ("TTN414", "is not aligned to 8 bytes"),
    ev.Misuse.OUTSIDE: ("TTN218", "lies outside of shared memory"),
    ev.Misuse.FOREIGN_STATE: ("TTN212", "is waited for by a state that no arrival at it has given"),
    ev.Misuse.REINITIALISED: ("TTN209", "is initialised while it is live"),
}
_FAULTS = {
    ev.MemoryFaultKind.OUTSIDE: ("TTN218", "lies in no allocation"),
    ev.MemoryFaultKind.NOT_ALLOCATED_TENSOR: ("TTN218", "is tensor memory that is not allocated"),
    ev.MemoryFaultKind.MISALIGNED: ("TTN219", "is not aligned"),
    ev.MemoryFaultKind.WRONG_SPACE: ("TTN219", "is memory that the instruction cannot use"),
    ev.MemoryFaultKind.DESCRIPTOR: ("TTN219", "comes from an invalid descriptor"),
    ev.MemoryFaultKind.NO_SUCH_CTA: (
        "TTN218",
        "is multicast to a CTA that the cluster does not have",
    ),
    ev.MemoryFaultKind.NEGATIVE_START: (
        "TTN219",
        "is the start of a tensor, and a box is stored to it from a negative coordinate on",
    ),
}


def breaches(run: Run, places: CodePlaces, policies: CodePolicies) -> list[Diagnostic]:
    """The faults of a run, at most `BREACHES_MAX`, in the order of their first occurrence."""
    found: dict[tuple[str, int], Diagnostic] = {}
    if policies.register_ready != "allow":
        unfenced = [event.instruction for event in _unfenced_multiplies(run)]
        for instruction in unfenced or unfenced_products(run, certain=True)[:1]:
            fault = diagnostic("TTN217", UNFENCED, places.span(instruction))
            found[(fault.code, instruction)] = with_sources(fault, places)
    starts: dict[int, ev.AsynchronousEvent] = {}
    events = run.events
    if run.clashes is not None:
        events = [*(e for e in events if not isinstance(e, ev.LaneClash)), *run.clashes]
    for event in events:
        if isinstance(event, ev.AsynchronousEvent):
            starts[event.operation] = event
            continue
        item = _diagnose(event, starts, places, policies)
        if item is not None:
            key = (item.code, event.instruction)
            if key not in found:
                found[key] = with_sources(item, places)
                if len(found) == BREACHES_MAX:
                    break
    return list(found.values())


def open_lanes(
    run: Run, remarks: Mapping[str, tuple[int, int]], policies: CodePolicies
) -> Iterator[tuple[str, int]]:
    """Stores of which lanes write the same bytes: numbers that are close together, which decides
    nothing, or what is not shown to be equal."""
    for event in run.events if policies.lanes != "ordered" else ():
        if isinstance(event, ev.LaneClash) and event.rounding:
            yield CLOSE_LANES, event.instruction
    for instruction in run.stored_again if policies.lanes != "ordered" else ():
        yield f"lanes store over what they have stored, {NOT_SHOWN}", instruction
    if EQUAL_LANES in remarks and policies.equal_writes != "assumed":
        text = f"lanes of one store write the same bytes, {NOT_SHOWN}"
        yield text + _untraced(run), remarks[EQUAL_LANES][1]


def stale_stages(run: Run, policies: CodePolicies) -> Iterator[tuple[str, int]]:
    """The first read of a stage that nothing has filled again, and of which something is used."""
    found = stale_reads(run)
    if found and policies.unused_reads == "allow":
        shown = run.traced or traced(run)
        found = found if shown is None else stale_reads(run, shown.unused)
    for instruction in found[:1]:
        yield STALE_STAGE, instruction


def _untraced(run: Run) -> str:
    """Why nothing is shown of the values of a run, if its length or an access is why."""
    made = run.prepared
    if run.traced is not None or made is None:
        return ""
    if run.instructions > INSTRUCTIONS_MAX:
        return f" in runs of more than {INSTRUCTIONS_MAX:,} warp instructions"
    event = next((event for event in run.events if is_untraced(event, made.code.steps)), None)
    if event is None:
        return ""
    line = made.instructions[event.instruction].line
    if not isinstance(event, ev.Assumption):
        return f", as line {line} writes to much of memory at once"
    if event.policy == Policy.FUNCTION_OPAQUE:
        return f", as line {line} calls a function without a body"
    return f", as line {line} has an address that is not known"


def with_fences_followed(run: Run) -> Run:
    """The run, with what lacks a fence on its way, where something does on some way."""
    return replace(run, unfenced=unfenced_on_way(run)) if _unfenced(run, certain=False) else run


def unfenced_products(run: Run, *, certain: bool) -> Sequence[int]:
    """The products of a run that touch registers without a wgmma.fence, on every way or on some.

    Where the way of the run was followed, on it, whatever unknown data leave out or if they do.
    """
    always = _unfenced(run, certain=True)
    if run.unfenced is None:
        return always if certain else _unfenced(run, certain=False)
    return always or run.unfenced.certain if certain else run.unfenced.possible


def unfenced_elsewhere(run: Run) -> Sequence[int]:
    """Products of a run that lack a fence on ways that it did not take."""
    if run.unfenced is None:
        return ()
    return [at for at in _unfenced(run, certain=False) if at not in run.unfenced.possible]


def _unfenced(run: Run, *, certain: bool) -> list[int]:
    code = run.prepared.code if run.prepared is not None else None
    listed = [item.instruction for item in code.unfenced if item.certain is certain] if code else []
    if not listed:
        return []
    kind = ev.RecordedOperation.WGMMA
    ran = {
        event.instruction
        for event in run.events
        if isinstance(event, ev.AsynchronousEvent) and event.kind is kind
    }
    return [instruction for instruction in listed if instruction in ran]


def _unfenced_multiplies(run: Run) -> list[ev.Event]:
    """The first wgmma of a warp, where no wgmma.fence is before it (PTX, wgmma.fence)."""
    fenced: set[tuple[int, int]] = set()
    found: dict[int, ev.Event] = {}
    for event in run.events:
        warp = (event.cta, event.warp)
        if isinstance(event, ev.FenceEvent) and event.kind is ev.RecordedFence.WGMMA:
            fenced.add(warp)
        elif (
            isinstance(event, ev.AsynchronousEvent)
            and event.kind is ev.RecordedOperation.WGMMA
            and warp not in fenced
        ):
            found.setdefault(event.instruction, event)
            fenced.add(warp)
    return list(found.values())[:1]


def _diagnose(
    event: ev.Event,
    starts: dict[int, ev.AsynchronousEvent],
    places: CodePlaces,
    policies: CodePolicies,
) -> Diagnostic | None:
    span = places.span(event.instruction)
    who = f"here, by warp {event.warp}"
    match event:
        case ev.RegisterBreach(register=register, operation=operation, write=write):
            start = starts.get(operation)
            load = start is not None and start.kind is ev.RecordedOperation.TENSOR_LOAD
            if (policies.load_ready if load else policies.register_ready) != "refuse":
                return None
            verb = "written" if write else "read"
            headline = f"register {register} is {verb} while an operation in flight owns it"
            others: tuple[Annotation, ...] = ()
            if start is not None:
                place = places.span(start.instruction)
                others = (Annotation(place, "in flight since it started here"),)
            return diagnostic("TTN217", headline, span, who, others=others)
        case ev.ArriveEvent(barrier=barrier, count=count) if not 1 <= count <= LIMIT:
            headline = f"mbarrier+{barrier.offset:#x} gets {count} arrivals at once"
            return diagnostic("TTN404", headline, span, who)
        case ev.BarrierMisuse(barrier=barrier, misuse=misuse):
            if misuse not in _MISUSES:
                return None
            code, text = _MISUSES[misuse]
            return diagnostic(code, f"mbarrier+{barrier.offset:#x} {text}", span, who)
        case ev.MemoryFault(fault=fault, footprint=footprint, alignment=alignment):
            if fault not in _FAULTS:
                return None
            code, text = _FAULTS[fault]
            aligned = fault is ev.MemoryFaultKind.MISALIGNED and alignment
            more = f" to {alignment} bytes" if aligned else ""
            return diagnostic(code, f"{_where(footprint)} {text}{more}", span, who)
        case ev.LaneClash(footprint=footprint, mode=mode, other=other, rounding=rounding):
            if policies.lanes == "ordered" or rounding:
                return None
            if other == event.instruction:
                headline = f"lanes of a warp write {_where(footprint)} with one instruction"
                headline += ": which of them stays is open"
                return diagnostic("TTN201", headline, span, who)
            verb = "reads" if mode is ev.Mode.READ else "writes"
            headline = (
                f"a lane {verb} {_where(footprint)} that another lane of its warp has accessed, "
                "and no bar.warp.sync orders them"
            )
            others = (Annotation(places.span(other), "the other lane's access"),)
            return diagnostic("TTN201", headline, span, who, others=others)
        case ev.RendezvousEvent(meeting=ev.Meeting.WARP, number=members, lanes=lanes) if (
            lanes & ~members
        ):
            headline = f"bar.warp.sync with mask {members & ALL_LANES:#x} lacks a lane that runs it"
            return diagnostic("TTN210", headline, span, who)
        case ev.RendezvousEvent(meeting=ev.Meeting.NAMED) if headline := _wrong_count(event):
            return diagnostic("TTN404", headline, span, who)
        case ev.PartialCollective(lanes=lanes, expected=expected):
            return diagnostic("TTN220", _partial(lanes, expected), span, who)
        case ev.TensorDeallocate(known=False, column=column, columns=columns):
            headline = f"{columns} columns of tensor memory at {column} were not allocated so"
            return diagnostic("TTN218", headline, span, who)
    return None


def _wrong_count(event: ev.RendezvousEvent) -> str:
    """What is wrong with the thread count at a named barrier: 0 in its place is all threads of the
    CTA, and an arrival has to have one."""
    if event.threads % WARP_THREADS:
        return f"bar {event.number} waits for {event.threads} threads, not a multiple of 32"
    if not event.threads and event.side is ev.Side.ARRIVE:
        return f"an arrival at bar {event.number} has a count of 0 threads"
    return ""


def _partial(lanes: int, expected: int) -> str:
    if lanes & ~expected:
        return f"lanes {lanes & ~expected:#x} execute this with members {expected:#x}, without them"
    return f"lanes {lanes:#x} execute what {expected:#x} have to execute together"


def _where(footprint: Footprint) -> str:
    low, high = footprint.bounds
    return f"{footprint.space.name.lower()}+{low:#x}..{max(low, high - 1):#x}"
