"""Second engine, part two: barriers, cluster barriers and mbarriers played step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from titan.litmus.enumerate.run import Key, RunEvent, StepKind
from titan.litmus.language.ast import Barrier, ClusterBarrier, LitmusTest, MbarrierWait

_STEPS = (
    StepKind.BARRIER,
    StepKind.CLUSTER_ARRIVE,
    StepKind.CLUSTER_WAIT,
    StepKind.ARRIVE,
    StepKind.EXPECT,
    StepKind.WAIT,
    StepKind.ISSUE,
)


def _barrier(event: RunEvent) -> Barrier:
    """The instruction of a barrier event. Raises TypeError for another event."""
    if not isinstance(event.code, Barrier):
        raise TypeError(event.kind)
    return event.code


def _counts_everybody(event: RunEvent) -> bool:
    """Whether the event is a barrier without a count of threads: all that have it must come."""
    return event.kind is StepKind.BARRIER and _barrier(event).count is None


def _parity(event: RunEvent) -> int:
    """The phase parity that an mbarrier wait asks for. Raises TypeError for another event."""
    if not isinstance(event.code, MbarrierWait):
        raise TypeError(event.kind)
    return event.code.parity


@dataclass(frozen=True, slots=True)
class RendezvousSchedule:
    """Who met whom, in which mbarrier phase each use fell, and one order of all steps."""

    meets: frozenset[tuple[Key, Key]]
    phases: tuple[tuple[Key, int], ...]
    order: tuple[Key, ...]


@dataclass(slots=True)
class _Board:
    """Mutable state of one partial schedule."""

    done: set[Key] = field(default_factory=set)
    waiting: set[Key] = field(default_factory=set)
    free: tuple[Key, ...] = ()
    open: dict[tuple[object, ...], list[Key]] = field(default_factory=dict)
    barrier: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    phases: dict[Key, int] = field(default_factory=dict)
    meets: set[tuple[Key, Key]] = field(default_factory=set)
    order: list[Key] = field(default_factory=list)

    def copy(self) -> _Board:
        return _Board(
            set(self.done),
            set(self.waiting),
            self.free,
            {key: list(value) for key, value in self.open.items()},
            dict(self.barrier),
            dict(self.phases),
            set(self.meets),
            list(self.order),
        )


class Scheduler:
    """All schedules of the rendezvous steps of one combination of runs.

    With `wanted`, only those in which just the wanted pairs meet.
    """

    def __init__(
        self,
        test: LitmusTest,
        acts: list[RunEvent],
        counts: dict[str, int],
        wanted: frozenset[tuple[Key, Key]] | None = None,
    ) -> None:
        self.test = test
        self.wanted = wanted
        self.acts = {act.key: act for act in acts}
        self.counts = counts
        threads = range(len(test.threads))
        self.program = [
            [a for a in acts if a.thread == t and a.step is not None and a.kind in _STEPS]
            for t in threads
        ]
        for steps in self.program:
            steps.sort(key=lambda act: act.step or 0)
        self.detached = [a for a in acts if a.kind is StepKind.ARRIVE and a.step is None]
        self.groups: dict[tuple[object, ...], set[Key]] = {}
        for steps in self.program:
            seen: dict[tuple[object, ...], int] = {}
            for act in steps:
                if _counts_everybody(act):
                    name = self._resource(act)
                    seen[name] = seen.get(name, 0) + 1
                    self.groups.setdefault((*name, seen[name]), set()).add(act.key)
        self.group_of = {key: name for name, keys in self.groups.items() for key in keys}

    @staticmethod
    def _resource(act: RunEvent) -> tuple[object, ...]:
        return (act.place.group, _barrier(act).instance, act.ident)

    def schedules(self) -> Iterator[RendezvousSchedule]:
        """Every schedule, one after the other; an empty one where no two threads meet."""
        if not any(a.kind in _STEPS and a.kind is not StepKind.ISSUE for a in self.acts.values()):
            yield RendezvousSchedule(frozenset(), (), ())
            return
        yield from self._extend(_Board())

    def _extend(self, board: _Board) -> Iterator[RendezvousSchedule]:
        moved = False
        for steps in self.program:
            for act in self._enabled(board, steps):
                after = board.copy()
                if self._step(after, act):
                    moved = True
                    if self.wanted is None or after.meets <= self.wanted:
                        yield from self._extend(after)
        for key in board.free:
            after = board.copy()
            after.free = tuple(k for k in board.free if k != key)
            if self._arrive(after, self.acts[key]):
                moved = True
                yield from self._extend(after)
        if not moved and self._final(board):
            yield RendezvousSchedule(
                frozenset(board.meets), tuple(sorted(board.phases.items())), tuple(board.order)
            )

    def _enabled(self, board: _Board, steps: list[RunEvent]) -> list[RunEvent]:
        """Steps whose blocking predecessors, and predecessors on the same object, are done."""
        found = []
        for position, act in enumerate(steps):
            if act.key in board.done or act.key in board.waiting:
                continue
            awaited = (e for e in steps[:position] if e.key not in board.done)
            if not any(e.blocks or self._name(e) == self._name(act) for e in awaited):
                found.append(act)
        return found

    def _name(self, act: RunEvent) -> object:
        """The object that a step works on; an issue works on none."""
        if act.kind is StepKind.BARRIER:
            return self._resource(act)
        if act.kind in (StepKind.CLUSTER_ARRIVE, StepKind.CLUSTER_WAIT):
            return "cluster"
        return self.test.memory(act.spot) if act.spot is not None else act.key

    # Steps ------------------------------------------------------------------------------------

    def _step(self, board: _Board, act: RunEvent) -> bool:
        if act.kind is StepKind.BARRIER:
            return self._bar(board, act)
        if act.kind in (StepKind.ARRIVE, StepKind.EXPECT):
            return self._arrive(board, act) and self._advance(board, act)
        if act.kind is StepKind.WAIT:
            return self._wait(board, act)
        if act.kind is StepKind.CLUSTER_WAIT:
            return self._cluster_wait(board, act)
        if act.kind is StepKind.ISSUE:
            board.free += tuple(a.key for a in self.detached if a.issue == act.key)
        board.order.append(act.key)
        return self._advance(board, act)

    @staticmethod
    def _advance(board: _Board, act: RunEvent) -> bool:
        board.done.add(act.key)
        return True

    def _bar(self, board: _Board, act: RunEvent) -> bool:
        if _counts_everybody(act):
            if not act.passed:
                return False
            name = self.group_of[act.key]
            size = len(self.groups[name])
        else:
            name, size = self._resource(act), act.count
        members = board.open.setdefault(name, [])
        members.append(act.key)
        if act.blocks:
            board.waiting.add(act.key)
        else:
            board.order.append(act.key)
            self._advance(board, act)
        if len(members) == size:
            return self._release(board, name)
        return True

    def _release(self, board: _Board, name: tuple[object, ...]) -> bool:
        members = board.open.pop(name)
        waiters = [self.acts[key] for key in members if self.acts[key].blocks]
        for waiter in waiters:
            if not waiter.passed:
                return False
            board.waiting.discard(waiter.key)
            board.order.append(waiter.key)
            board.done.add(waiter.key)
            board.meets |= {(key, waiter.key) for key in members if key != waiter.key}
        return True

    def _cluster_wait(self, board: _Board, act: RunEvent) -> bool:
        number = self._ordinal(act, StepKind.CLUSTER_WAIT)
        awaited = []
        for steps in self.program:
            arrivals = [
                a for a in steps if a.kind is StepKind.CLUSTER_ARRIVE and self._same_cluster(a, act)
            ]
            if self._arrives_in_program(steps, act) > number:
                if len(arrivals) <= number or arrivals[number].key not in board.order:
                    return False
                awaited.append(arrivals[number].key)
        if not act.passed:
            return False
        board.meets |= {(key, act.key) for key in awaited}
        board.order.append(act.key)
        return self._advance(board, act)

    def _arrives_in_program(self, steps: list[RunEvent], wait: RunEvent) -> int:
        """How many cluster arrivals the thread's code has, executed in this run or not."""
        thread = self.program.index(steps)
        spec = self.test.threads[thread]
        same = (spec.placement.gpu, spec.placement.cluster) == (wait.place.gpu, wait.place.cluster)
        return (
            sum(isinstance(i, ClusterBarrier) and not i.waits for i in spec.instructions)
            if same
            else 0
        )

    @staticmethod
    def _same_cluster(first: RunEvent, second: RunEvent) -> bool:
        return (first.place.gpu, first.place.cluster) == (second.place.gpu, second.place.cluster)

    def _ordinal(self, act: RunEvent, kind: StepKind) -> int:
        mine = [a.key for a in self.program[act.thread] if a.kind is kind]
        return mine.index(act.key)

    def _object(self, board: _Board, act: RunEvent) -> tuple[str, tuple[int, int, int]]:
        assert act.spot is not None
        name = self.test.memory(act.spot)
        return name, board.barrier.get(name, (0, self.counts[name], 0))

    def _arrive(self, board: _Board, act: RunEvent) -> bool:
        name, (phase, pending, bytes_left) = self._object(board, act)
        board.phases[act.key] = phase
        board.order.append(act.key)
        pending -= act.count
        bytes_left += act.expect
        if pending < 0:
            return False
        if pending == 0 and bytes_left == 0:
            phase, pending = phase + 1, self.counts[name]
        board.barrier[name] = (phase, pending, bytes_left)
        return True

    def _wait(self, board: _Board, act: RunEvent) -> bool:
        _, (phase, _, _) = self._object(board, act)
        complete = phase & 1 != _parity(act)
        if act.passed != complete:
            return False
        if act.blocks and not act.passed:
            return False  # judged when nothing else moves
        board.phases[act.key] = phase
        board.order.append(act.key)
        if act.passed:
            board.meets |= {
                (key, act.key)
                for key, earlier in board.phases.items()
                if earlier < phase and self._uses_same(self.acts[key], act)
            }
        return self._advance(board, act)

    def _uses_same(self, first: RunEvent, second: RunEvent) -> bool:
        if (
            first.kind not in (StepKind.ARRIVE, StepKind.EXPECT)
            or first.spot is None
            or second.spot is None
        ):
            return False
        return self.test.memory(first.spot) == self.test.memory(second.spot)

    def _final(self, board: _Board) -> bool:
        """Nothing moves: every thread is done or is stuck exactly where its run says it blocks."""
        if board.free:
            return False
        for act in (a for steps in self.program for a in steps if a.key not in board.done):
            last = max(a.step or 0 for a in self.acts.values() if a.thread == act.thread)
            if act.passed or not act.blocks or act.step != last:
                return False
            if _counts_everybody(act):
                return False
            if act.kind is StepKind.WAIT:
                _, (phase, _, _) = self._object(board, act)
                if phase & 1 != _parity(act):
                    return False
                board.phases[act.key] = phase
            elif act.kind is StepKind.CLUSTER_WAIT and self._complete(board, act):
                return False
        return True

    def _complete(self, board: _Board, act: RunEvent) -> bool:
        number = self._ordinal(act, StepKind.CLUSTER_WAIT)
        for steps in self.program:
            arrivals = [
                a for a in steps if a.kind is StepKind.CLUSTER_ARRIVE and self._same_cluster(a, act)
            ]
            if self._arrives_in_program(steps, act) > number and (
                len(arrivals) <= number or arrivals[number].key not in board.order
            ):
                return False
        return True
