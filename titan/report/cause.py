"""Why a counterexample goes wrong, nearer to the cause than the rule that found it.

A step may break several rules. The engines name the first that they check; a person is served by
the one that explains the others: a stale read before a missing fence, the store that lacks the
fence, the operation that is too weak. Nothing here decides: the interleaving has been replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.foundation.diagnostics.model import Annotation
from titan.foundation.diagnostics.wording import counted
from titan.foundation.source.span import Span
from titan.report.interleaving import agent_name
from titan.report.story import WAITING, StoryStep, attempted
from titan.report.words import Words
from titan.sync import program as ir
from titan.sync.fault import FaultKind
from titan.sync.parts import queue_of
from titan.sync.state import ANY_TILE, Key
from titan.sync.weak import weak_operations
from titan.verify.replay import Played, Replay

_FENCES = {
    FaultKind.MISSING_FENCE: (True, "written"),
    FaultKind.MISSING_FENCE_WAR: (False, "read"),
}


_NOT_LISTED = (
    "PTX does not list these two tcgen05 operations as a pair that executes in order; the policy "
    "`tensor_pipe: in_order` takes all that one thread issues so, as CUTLASS and Triton do"
)
_NO_ORDER_OF_COMMITS = (
    "PTX orders a commit behind the operations that it tracks, and no commit behind another: only "
    "a wait at this barrier says that the arrival is over"
)


@dataclass(slots=True)
class Cause:
    """A rule, a headline in the words of the file, and what is marked and noted besides."""

    code: str
    headline: str
    others: list[Annotation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def cause_of(replay: Replay, words: Words, story: list[StoryStep]) -> Cause:
    """The cause of a replayed fault."""
    fault = replay.fault
    cause = Cause(fault.kind.value, words.named(fault.message, fault.object_name))
    if fault.kind is FaultKind.MISSING_FENCE and _stale(replay, words, story, cause):
        return cause
    if fault.kind in _FENCES:
        _unfenced(replay, words, story, cause)
    elif fault.kind is FaultKind.WEAK_SYNCHRONISATION:
        _weak(replay, words, story, cause)
    elif fault.kind is FaultKind.DATA_RACE:
        _passed(replay, words, story, cause)
    elif fault.kind in (FaultKind.TRANSACTION_MISMATCH, FaultKind.DEADLOCK):
        _bytes(replay, words, story, cause)
    elif fault.kind in (FaultKind.UNOBSERVED_PHASE, FaultKind.OVER_ARRIVAL):
        _arrivals(replay, words, story, cause)
        _flag(replay, words, cause)
    elif fault.kind is FaultKind.LAPPED_WAIT:
        _flag(replay, words, cause)
    elif fault.kind in (FaultKind.OVERWRITE_IN_FLIGHT, FaultKind.READ_BEFORE_ARRIVAL):
        _pipe(replay, cause)
    elif fault.kind is FaultKind.LEAK_AT_EXIT and fault.object_name in _commits(replay):
        cause.notes.append(_NO_ORDER_OF_COMMITS)
    return cause


def _flag(replay: Replay, words: Words, cause: Cause) -> None:
    """A counter in memory that runs ahead of who polls it: in the model it has phases."""
    program = replay.machine.program
    homes = {role.cta for role in program.roles}
    counters = {item.name for item in program.barriers if item.cta not in homes}
    for key in _concerned(replay)[:1]:
        if key[0] in counters:
            cause.notes.append(
                f"{words.key(key)} is a flag, modelled with phases like an mbarrier: if the code "
                "polls a counter that may run ahead (`>=`), declare a flag for each slot (`stages`)"
            )


def _pipe(replay: Replay, cause: Cause) -> None:
    """Two operations of one tensor core's queue: PTX does not list them as a pair in order."""
    fault, program = replay.fault, replay.machine.program
    queues = {queue.name for queue in program.queues if queue.pipelined and not queue.grouped}
    used = [queue_of(item) for item in fault.operations if isinstance(item, ir.Asynchronous)]
    if len(used) == 2 and used[0] == used[1] and used[0] in queues and len(set(fault.agents)) == 1:
        cause.notes.append(_NOT_LISTED)


def _commits(replay: Replay) -> set[str]:
    return {
        item.barrier.name for item in replay.fault.operations if isinstance(item, ir.QueueArrive)
    }


def _line(span: Span | None) -> str:
    return f" (line {span.start_line})" if span is not None else ""


def _mark(cause: Cause, operation: ir.Operation, label: str) -> None:
    if operation.span is not None:
        cause.others.append(Annotation(operation.span, label))


def _stale(replay: Replay, words: Words, story: list[StoryStep], cause: Cause) -> bool:
    """Whether the access reads another tile than it means, fence or no fence."""
    access = attempted(replay, 0)
    if access is None:
        return False
    held = {cell: state.tile for cell, state in replay.last.cells}
    for item in access.accesses:
        if item.write or item.tile == ANY_TILE or held[item.cell] == item.tile:
            continue
        place = words.cells.get(item.cell, str(item.cell))
        found, meant = (words.tile(t, item.cell[0]) for t in (held[item.cell], item.tile))
        cause.code = FaultKind.STALE_READ.value
        cause.headline = f"{place} holds {found} where {meant} is expected"
        cause.notes.append(
            f"nothing delays the write of {found} until this access; it is not fenced either"
        )
        for step in reversed(story):
            if any(one.write and one.cell == item.cell for one in step.accesses):
                name = agent_name(replay.machine.agents, step.agent)
                _mark(cause, step.operation, f"{name} wrote {found} here")
                break
        return True
    return False


def _unfenced(replay: Replay, words: Words, story: list[StoryStep], cause: Cause) -> None:
    """Marks the generic access that is not fenced, and says where the fence goes.

    Where nothing orders it before the asynchronous access, the report says so: no fence helps.
    """
    access = attempted(replay, 0)
    if access is None:
        return
    write, verb = _FENCES[replay.fault.kind]
    states = dict(replay.last.cells)
    for item in access.accesses:
        state = states[item.cell]
        for agent in sorted(state.writers if write else state.readers):
            last = _last_access(story, agent, item.cell, write)
            if last is None:
                continue
            name = agent_name(replay.machine.agents, agent)
            if not _reached(story, last, access.agent):
                other, place = agent_name(replay.machine.agents, access.agent), item.cell
                cause.code = FaultKind.DATA_RACE.value
                cause.headline = (
                    f"{words.cells.get(place, str(place))} is {verb} by {name}, and nothing orders "
                    f"that before this asynchronous access of {other}"
                )
                _mark(cause, last.operation, f"{verb} by {name} here")
                cause.notes.append(
                    f"{other} has passed no barrier after it; a fence alone orders "
                    "nothing between agents"
                )
                return
            _mark(cause, last.operation, f"{verb} by {name} here, and not fenced after")
            until = next(
                (step for step in story[last.number :] if step.agent == agent and step.arrives),
                None,
            )
            what = until.operation if until is not None else access.operation
            where = "its arrival" if until is not None else "the asynchronous access"
            _end_of_a_grid(replay, words, item.cell[0], until, cause)
            cause.notes.append(
                f"`fence: async` goes to {name}, after its access{_line(last.operation.span)} and "
                f"before {where}{_line(what.span)}"
            )
            return


def _end_of_a_grid(
    replay: Replay, words: Words, storage: str, until: StoryStep | None, cause: Cause
) -> None:
    """Where an arrival in front of which global memory was written is all that its agent does."""
    control = replay.machine.control
    if until is None or not isinstance(until.operation, ir.Arrive):
        return
    buffers = replay.machine.program.buffers
    far = any(b.space is ir.Space.GLOBAL and storage in (b.storage, b.name) for b in buffers)
    if far and control.operation_of(replay.last, until.agent) is None:
        cause.notes.append(
            f"if {words.key(until.arrives[0])} models the end of a grid (griddepcontrol), "
            "declare it with `kind: grid`, which publishes to every proxy"
        )


def _reached(story: list[StoryStep], since: StoryStep, agent: int) -> bool:
    """Whether a way through barriers may lead from a step to an agent.

    False is sure: a barrier where threads meet is taken as passed by all who were ever there.
    """
    informed, carried = {since.agent}, set[Key]()
    for step in story[since.number :]:
        if carried & set(step.waits):
            informed.add(step.agent)
        if step.agent in informed:
            carried |= set(step.arrives)
            met = [key for key in step.waits if key in step.arrives]
            informed |= {d.agent for d in story if set(met) & set(d.waits)}
    return agent in informed


def _last_access(story: list[StoryStep], agent: int, cell: object, write: bool) -> StoryStep | None:
    for step in reversed(story):
        own = step.agent == agent and isinstance(step.operation, ir.Access)
        if own and any(item.cell == cell and item.write is write for item in step.accesses):
            return step
    return None


def _weak(replay: Replay, words: Words, story: list[StoryStep], cause: Cause) -> None:
    """Names the arrivals and waits of the trace that are too weak, and the word to write."""
    weak = weak_operations(replay.machine.program)
    executed = [step for step in story if any(step.operation is item.operation for item in weak)]
    found = {id(step.operation): step for step in executed}
    for item in weak:
        step = found.get(id(item.operation))
        if step is None and executed:
            continue
        verb = "wait" if isinstance(item.operation, WAITING) else "arrival"
        cause.notes.append(f"the {verb}{_line(item.operation.span)} is {item.lack}: {item.edit}")
        _mark(cause, item.operation, f"too weak: {item.lack}")


def _passed(replay: Replay, words: Words, story: list[StoryStep], cause: Cause) -> None:
    """Which barrier let each racing agent come so far, and who had arrived there."""
    for agent in replay.fault.agents:
        last = next((step for step in reversed(story) if step.agent == agent and step.waits), None)
        name = agent_name(replay.machine.agents, agent)
        if last is None:
            cause.notes.append(f"{name} has passed no barrier before its access")
            continue
        key = last.waits[0]
        there = dict.fromkeys(
            agent_name(replay.machine.agents, step.agent)
            for step in story
            if key in step.arrives and step.agent != agent
        )
        arrived = f"; there arrived {', '.join(there)}" if there else ""
        cause.notes.append(f"{name} passed {words.key(key)}{_line(last.operation.span)}{arrived}")


def _bytes(replay: Replay, words: Words, story: list[StoryStep], cause: Cause) -> None:
    """Both sums of a phase whose bytes do not fit: those expected, those that copies bring."""
    state = dict(replay.last.barriers)
    for key in _concerned(replay):
        barrier = state.get(key)
        short = replay.fault.kind is FaultKind.TRANSACTION_MISMATCH
        if barrier is None or not (barrier.transaction or short):
            continue
        expected, brought = _sums(replay, story, key)
        cause.notes.append(
            f"phase {barrier.phase} of {words.key(key)}: {_summed(expected, 'are expected')}, "
            f"{_summed(brought, 'come by copies')}"
        )
        for step, size in expected:
            _mark(cause, step.operation, f"expects {size} bytes")


def _summed(parts: list[tuple[StoryStep, int]], verb: str) -> str:
    lines = ", ".join(
        dict.fromkeys(f"line {step.operation.span.start_line}" for step, _ in parts
                      if step.operation.span is not None)
    )  # fmt: skip
    total = sum(size for _, size in parts)
    return f"{total} bytes {verb}" + (f" ({lines})" if lines else "")


def _concerned(replay: Replay) -> list[Key]:
    keys: list[Key] = []
    for index in range(len(replay.fault.operations)):
        step = attempted(replay, index)
        keys += [*step.waits, *step.arrives] if step is not None else []
    names = {key[0] for key in keys}
    if replay.fault.object_name and replay.fault.object_name not in names:
        keys += [key for key, _ in replay.last.barriers if key[0] == replay.fault.object_name]
    return list(dict.fromkeys(keys))


def _who(replay: Replay, steps: list[StoryStep], key: Key, phase: int) -> str:
    """Who arrives at a barrier in some steps, of one phase."""
    who = [
        f"{agent_name(replay.machine.agents, step.agent)}{_line(step.operation.span)}"
        for step in steps
        if key in step.arrives and isinstance(step.operation, ir.Arrive | ir.QueueArrive)
    ]
    return f"; in phase {phase} arrived {', '.join(who)}" if who else ""


def _by_phase(replay: Replay, story: list[StoryStep], key: Key) -> list[list[StoryStep]]:
    """The steps by phases of a barrier: each but the last ends with the one that completes it."""
    phases: list[list[StoryStep]] = [[]]
    for step, played in zip(story, replay.steps, strict=True):
        phases[-1].append(step)
        if played.after is not None:
            before, after = dict(played.before.barriers), dict(played.after.barriers)
            if key in before and before[key].phase != after[key].phase:
                phases.append([])
    return phases


def _sums(
    replay: Replay, story: list[StoryStep], key: Key
) -> tuple[list[tuple[StoryStep, int]], list[tuple[StoryStep, int]]]:
    """Bytes expected, and bytes that copies have brought, of the phase under way, by step."""
    expected: list[tuple[StoryStep, int]] = []
    brought: list[tuple[StoryStep, int]] = []
    for step in _by_phase(replay, story, key)[-1]:
        if key not in step.arrives:
            continue
        change = _change(replay.steps[step.number - 1], key)
        if change > 0:
            expected.append((step, change))
        elif change < 0:
            brought.append((step, -change))
    return expected, brought


def _change(played: Played, key: Key) -> int:
    """By how many bytes a step has changed what the phase of a barrier lacks."""
    if played.after is None:
        return 0
    before, after = dict(played.before.barriers), dict(played.after.barriers)
    return after[key].transaction - before[key].transaction


def _arrivals(replay: Replay, words: Words, story: list[StoryStep], cause: Cause) -> None:
    """The declared count of a barrier, and who has arrived in the phase under way."""
    counts = {barrier.name: barrier for barrier in replay.machine.program.barriers}
    state = dict(replay.last.barriers)
    for key in _concerned(replay)[:1]:
        barrier = state.get(key)
        if barrier is None or key[0] not in counts:
            continue
        declared = counts[key[0]].span
        *earlier, current = _by_phase(replay, story, key)
        arrived = _who(replay, current, key, barrier.phase)
        if replay.fault.kind is FaultKind.UNOBSERVED_PHASE and earlier:
            arrived = _who(replay, earlier[-1], key, barrier.phase - 1) + arrived
        cause.notes.append(
            f"{words.key(key)} counts {counted(barrier.expected, 'arrival')} a phase"
            f"{_line(declared)}{arrived}"
        )
