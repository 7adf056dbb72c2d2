"""A saved interleaving of compiled code, replayed on the machine of warps.

The engines take no part: the machine runs the text of the file under its launch, warp by warp as
the steps say, and what is claimed is looked for in its state. The claims that it can see:

- two accesses are possible at one time: both are made, nothing between them completes the first,
  and their bytes overlap (races, work in flight that is overwritten or read);
- no warp can proceed (deadlock, and a lapped wait, after which the machine runs freely);
- a barrier is misused (too many arrivals, one that is not live): the machine says so.

A missing fence, weak synchronisation, phases that nobody waited for, named barriers that are
arrived at twice and the operations in flight at the end leave no mark on the machine: there the
steps are followed, which is all that is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import one_line
from titan.foundation.errors import UserError
from titan.foundation.source.span import Source
from titan.frontends.ptx.code_trace import CodeTrace
from titan.frontends.ptx.interleaving import WARP, MachineInterleaving, MachineStep
from titan.frontends.ptx.names import short_name
from titan.frontends.ptx.places import CodePlaces, location_text
from titan.isa.ptx.parse import parse_source
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.launch import Options
from titan.isa.simt.outcome import Ending, Run
from titan.isa.simt.run import prepare
from titan.isa.simt.steered import NotFollowedError, SteeredExecution, WarpName
from titan.sync.fault import FaultKind

IN_FLIGHT = (FaultKind.OVERWRITE_IN_FLIGHT, FaultKind.READ_BEFORE_ARRIVAL)
HANGS = (FaultKind.DEADLOCK, FaultKind.LAPPED_WAIT)
MISUSES = (
    FaultKind.OVER_ARRIVAL, FaultKind.TRANSACTION_MISMATCH, FaultKind.BARRIER_UNINITIALISED,
    FaultKind.BARRIER_LIFECYCLE,
)  # fmt: skip
SHOWN = (*IN_FLIGHT, *HANGS, *MISUSES, FaultKind.DATA_RACE)
Bytes = tuple[str, int, int, int]  # memory, CTA, first and last byte + 1


class CodeReplayRefused(UserError):
    """The interleaving does not replay; `diagnostics` where the code is refused."""

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """A step that the machine followed: who, which line of the text, its source, in words."""

    who: str
    line: int
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class CodeReplay:
    """`seen`: what the machine shows at the end, in a sentence. `shown`: it is the fault itself."""

    trace: CodeTrace
    steps: tuple[PlayedStep, ...]
    seen: str
    shown: bool


def replay_code(trace: CodeTrace) -> CodeReplay:
    """Follow the steps on the machine. Raises CodeReplayRefused where it does not go that way."""
    source = Source(trace.path, trace.text)
    machine, places = _machine(trace, source)
    found = trace.interleaving
    player = _Player(machine, places, found)
    try:
        machine.begin()
        steps = player.follow(found.steps)
        seen, shown = player.fault()
    except NotFollowedError as error:
        raise CodeReplayRefused(f"the machine cannot execute the steps: {error}") from None
    if not shown and FaultKind(found.code) in SHOWN:
        raise CodeReplayRefused(
            f"the machine can execute the steps and does not show the fault: {seen}"
        )
    return CodeReplay(trace, steps, seen, shown)


def shows_fault(run: Run, places: CodePlaces, found: MachineInterleaving) -> bool:
    """Whether the machine, led along the interleaving, comes to the fault by itself.

    Tests of barriers say there what the barriers are in, so that code which goes by them goes as it
    would on a device.
    """
    made = run.prepared
    if made is None or FaultKind(found.code) not in SHOWN:
        return False
    options = replace(made.options, first_poll_fails=False)
    machine = SteeredExecution.again(made, options)
    player = _Player(machine, places, found)
    try:
        machine.begin()
        player.follow(found.steps)
        return player.fault()[1]
    except NotFollowedError:
        return False


def replay_text(replayed: CodeReplay) -> str:
    """The steps and what came of them, a line each."""
    trace = replayed.trace
    found = trace.interleaving
    head = (trace.path, short_name(trace.kernel), f"{found.code}: {found.message}")
    path, kernel, fault = map(one_line, head)  # as somebody may have written them into the file
    lines = [f"{path}: {kernel}, {fault}", ""]
    wide = max((len(item.who) for item in replayed.steps), default=0)
    for number, item in enumerate(replayed.steps, start=1):
        place = f"line {item.line}" + (f", {item.source}" if item.source else "")
        lines.append(f"{number:6}  {item.who:{wide}}  {item.text} ({place})")
    count = len(replayed.steps)
    verb = "confirmed" if replayed.shown else "followed"
    lines += ["", f"{verb}: {count} step{'s' * (count != 1)} of the machine: {replayed.seen}", ""]
    return "\n".join(lines)


def replay_data(replayed: CodeReplay) -> dict[str, object]:
    """What `replay_text` says, for programs."""
    trace = replayed.trace
    found = trace.interleaving
    return {
        "version": 1, "path": trace.path, "kernel": trace.kernel, "code": found.code,
        "message": found.message, "verdict": "confirmed" if replayed.shown else "followed",
        "seen": replayed.seen,
        "steps": [
            {"agent": item.who, "text": item.text, "line": item.line, "source": item.source}
            for item in replayed.steps
        ],
    }  # fmt: skip


def _machine(trace: CodeTrace, source: Source) -> tuple[SteeredExecution, CodePlaces]:
    module, errors = parse_source(source)
    if module is None:
        raise CodeReplayRefused("the code of the trace is refused", tuple(errors))
    launch = replace(trace.launch, entry=trace.launch.entry or trace.kernel)
    if trace.cta >= launch.ctas:
        raise CodeReplayRefused("the launch of the trace has no such CTA")
    made, errors = prepare(module, launch, Options((trace.cta,)), source)
    if made is None:
        raise CodeReplayRefused("the code of the trace cannot be run", tuple(errors))
    options = Options(
        launch.cluster_members(trace.cta), trace.seed, first_poll_fails=trace.seed % 2 == 0
    )
    code, layout, parameters = made
    machine = SteeredExecution(code, layout, launch, options)
    machine.load_parameters(parameters)
    return machine, CodePlaces(module, source)


class _Player:
    def __init__(
        self, machine: SteeredExecution, places: CodePlaces, found: MachineInterleaving
    ) -> None:
        self.machine = machine
        self.places = places
        self.found = found

    def follow(self, steps: tuple[MachineStep, ...]) -> tuple[PlayedStep, ...]:
        """Do the steps. A warp that misuses a barrier need not get beyond that."""
        done: list[PlayedStep] = []
        try:
            done.extend(self._followed(steps))
        except NotFollowedError:
            if FaultKind(self.found.code) not in MISUSES or not self._misused():
                raise
        return tuple(done)

    def _followed(self, steps: tuple[MachineStep, ...]) -> Iterator[PlayedStep]:
        """Each step is reported once it is done."""
        for item in steps:
            name = item.cta, item.warp
            if item.kind == WARP:
                self.machine.advance(name, item.count)
                instruction = self.machine.own(name)[item.count - 1].instruction
                yield self._played(f"warp {item.warp}", item.cta, instruction, "")
            else:
                operation = self.machine.operation(name, item.count)
                if not operation.done:
                    self.machine.complete(name, item.count)
                    who = f"engine of warp {item.warp}"
                    yield self._played(who, item.cta, operation.instruction, "completes ")

    def _played(self, who: str, cta: int, instruction: int, verb: str) -> PlayedStep:
        item = self.places.module.instructions[instruction]
        if len(self.machine.ctas) > 1:
            who += f" of CTA {cta}"
        text = verb + self.places.word(instruction)
        return PlayedStep(who, item.line, location_text(item.location), text)

    # ------------------------------------------------------------------------------- faults

    def fault(self) -> tuple[str, bool]:
        """What the machine shows after the steps, and whether it is the fault."""
        kind = FaultKind(self.found.code)
        if kind in HANGS:
            return self._hangs()
        if kind in MISUSES:
            return self._misuses()
        return self._meeting(kind)

    def _hangs(self) -> tuple[str, bool]:
        outcome = self.machine.go_on()
        if outcome.ending is not Ending.HUNG:
            return f"the machine runs to its end: {outcome.ending.name.lower()}", False
        waiting = sorted({f"line {self._line(item.instruction)}" for item in outcome.waiters})
        return f"no warp can proceed; warps wait at {', '.join(waiting)}", True

    def _misuses(self) -> tuple[str, bool]:
        for events in self.found.accesses[:1]:
            for name, number in events if not self._misused() else ():
                self.machine.advance(name, number + 1)
        found = self._misused()
        if found:
            last = found[-1]
            words = last.misuse.name.lower().replace("_", " ")
            return f"the barrier is misused in line {self._line(last.instruction)}: {words}", True
        outcome = self.machine.go_on()
        if outcome.ending is Ending.HUNG:
            return "the barrier never completes: no warp can proceed", True
        return "the machine executes the operation without an error", False

    def _misused(self) -> list[ev.BarrierMisuse]:
        return [item for item in self.machine.events if isinstance(item, ev.BarrierMisuse)]

    def _meeting(self, kind: FaultKind) -> tuple[str, bool]:
        """Both accesses are made; that of an operation in flight is not over when the other is."""
        for events in self.found.accesses:
            for name, number in events:
                self.machine.advance(name, number + 1)
        if len(self.found.accesses) < 2:
            return "the steps can be executed; this fault leaves no trace in the machine", False
        late, early = self.found.accesses[0], self.found.accesses[1]
        common = self._common(late, early)
        if common is None:
            return "the two accesses have no byte in common", False
        one, other, (memory, _, low, high) = common
        where = f"{memory} bytes {low:#x} to {high - 1:#x}"
        lines = f"lines {self._line(other.instruction)} and {self._line(one.instruction)}"
        flights = [item for item in (one, other) if isinstance(item, ev.AsynchronousEvent)]
        flying = any(not self._over(item) for item in flights)
        if kind in IN_FLIGHT and not flying:
            return f"both accesses touch {where} ({lines}), and nothing is in flight", False
        state = "while one of them is in flight" if flying else "with nothing between them"
        return f"both accesses touch {where} ({lines}), {state}", kind in SHOWN

    def _over(self, event: ev.AsynchronousEvent) -> bool:
        warp = self.machine.ctas[event.cta].warps[event.warp]
        return all(item.done for item in warp.issued if item.number == event.operation)

    def _common(
        self, late: tuple[tuple[WarpName, int], ...], early: tuple[tuple[WarpName, int], ...]
    ) -> tuple[ev.Event, ev.Event, Bytes] | None:
        """Two events with a byte in common, one of which writes it."""
        first = [self.machine.own(name)[number] for name, number in late]
        second = [self.machine.own(name)[number] for name, number in early]
        for one in first:
            for other in second:
                for footprint, writes in _touched(one):
                    for against, also in _touched(other):
                        bytes_ = _overlap(footprint, against) if writes or also else None
                        if bytes_ is not None:
                            return one, other, bytes_
        return None

    def _line(self, instruction: int) -> int:
        return self.places.module.instructions[instruction].line


def _touched(event: ev.Event) -> list[tuple[Footprint, bool]]:
    match event:
        case ev.AccessEvent(footprint=footprint, mode=mode):
            return [(footprint, mode is not ev.Mode.READ)]
        case ev.AsynchronousEvent(effects=effects):
            return [(item.footprint, item.mode is not ev.Mode.READ) for item in effects]
        case ev.Skipped(writes=writes):
            return [(item, True) for item in writes]
    return []


def _overlap(left: Footprint, right: Footprint) -> Bytes | None:
    if (left.space, left.cta) != (right.space, right.cta):
        return None
    others = list(right.ranges())
    for low, high in left.ranges():
        for start, end in others:
            if low < end and start < high:
                return left.space.name.lower(), left.cta, max(low, start), min(high, end)
    return None
