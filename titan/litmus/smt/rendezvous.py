"""What barriers, cluster barriers, and mbarriers do in an execution: who meets whom, and when.

Every rendezvous event gets an integer time, so that an execution in which two threads wait for
each other is none: what follows a blocking event depends on it (the no-thin-air axiom), and a wait
comes after what it waits for. Operations of one thread on different barriers have no order in time
beyond that. Barriers with a count form groups of that many arrivals; those without
synchronise whoever executes the same barrier for the same time. An mbarrier counts arrivals and
bytes into phases; a parity wait sees some number of completed phases of the other parity (PTX,
mbarrier: phase completion, parity waits).
"""

from __future__ import annotations

from collections import defaultdict

from pysmt.fnode import FNode
from pysmt.shortcuts import INT, Int, Plus, Symbol

from titan.litmus.language.ast import Barrier, MbarrierWait
from titan.litmus.model.unsupported import UnsupportedTest
from titan.litmus.smt.events import EventGraph, EventKind, LitmusEvent
from titan.litmus.smt.terms import (
    NO,
    YES,
    all_of,
    any_of,
    both,
    choose,
    compare,
    implied,
    negation,
)


class Rendezvous:
    """Relations of rendezvous events and the constraints that define them."""

    def __init__(self, graph: EventGraph, mutations: frozenset[str] = frozenset()) -> None:
        self.graph = graph
        self.mutations = mutations
        self.constraints: list[FNode] = []
        self.meets: dict[tuple[int, int], FNode] = {}
        self.phase: dict[int, FNode] = {}
        self.bar_phase: dict[int, FNode] = {}
        self._times: dict[int, FNode] = {}
        self._bars()
        self._clusters()
        self._mbarriers()
        self._completion_times()

    def time(self, event: LitmusEvent) -> FNode:
        """The position of a step in the one order of all rendezvous steps."""
        if event.index not in self._times:
            self._times[event.index] = Symbol(f"time_{event.index}", INT)
        return self._times[event.index]

    def before(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        """The condition under which one step comes before another."""
        return compare(self.time(first), "<", self.time(second))

    def _say(self, *parts: FNode) -> None:
        self.constraints += [part for part in parts if not part.is_true()]

    def _completion_times(self) -> None:
        for issue, arrive in self.graph.prefix:
            self._say(self.before(self.graph.events[issue], self.graph.events[arrive]))

    # Barriers of a CTA --------------------------------------------------------------------

    def _bars(self) -> None:
        groups: dict[object, list[LitmusEvent]] = defaultdict(list)
        for event in self.graph.of_kind(EventKind.BARRIER):
            assert isinstance(event.instruction, Barrier)
            groups[(event.placement.group, event.instruction.instance)].append(event)
        for members in groups.values():
            counted = [event for event in members if event.count is not None]
            if counted and len(counted) != len(members):
                raise UnsupportedTest("a barrier with and without a count is not decided")
            if counted:
                self._counted(members)
            else:
                self._uncounted(members)

    def _same(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        assert first.identifier is not None and second.identifier is not None
        executed = both(first.guard, second.guard)
        return both(executed, compare(first.identifier, "==", second.identifier))

    def _uncounted(self, members: list[LitmusEvent]) -> None:
        def ordinal(event: LitmusEvent) -> FNode:
            earlier = [e for e in members if self.graph.po(e, event)]
            parts = [choose(self._same(e, event), Int(1), Int(0)) for e in earlier]
            return _sum(parts)

        for first in members:
            if first.blocking:
                self._say(first.passes)
            for second in members:
                if first.thread != second.thread:
                    meets = both(
                        self._same(first, second), compare(ordinal(first), "==", ordinal(second))
                    )
                    self._meet(first, second, meets)
                elif self.graph.po(first, second):
                    self._say(implied(self._same(first, second), self.before(first, second)))

    def _meet(self, first: LitmusEvent, second: LitmusEvent, meets: FNode) -> None:
        if second.blocking and not meets.is_false():
            self.meets[(first.index, second.index)] = both(meets, second.passes)
            relation = "==" if first.blocking else "<="
            passed = both(second.passes, first.passes if first.blocking else YES)
            order = compare(self.time(first), relation, self.time(second))
            self._say(implied(both(meets, passed), order))

    def _counted(self, members: list[LitmusEvent]) -> None:
        for event in members:
            phase = Symbol(f"phase_{event.index}", INT)
            self.bar_phase[event.index] = phase
            self._say(compare(phase, ">=", Int(0)), compare(phase, "<", Int(len(members))))
        full: dict[int, FNode] = {}
        for event in members:
            assert event.count is not None
            size = _sum(
                [
                    Int(1),
                    *(
                        choose(self._grouped(event, other), Int(1), Int(0))
                        for other in members
                        if other is not event
                    ),
                ]
            )
            self._say(implied(event.guard, compare(size, "<=", event.count)))
            full[event.index] = both(event.guard, compare(size, "==", event.count))
            if event.blocking:
                self._say(implied(both(event.guard, event.passes), full[event.index]))
                self._say(implied(full[event.index], event.passes))
        for first in members:
            for second in members:
                if first is second:
                    continue
                same = self._same(first, second)
                earlier = compare(self.bar_phase[first.index], "<", self.bar_phase[second.index])
                self._say(implied(both(same, earlier), full[first.index]))
                self._say(implied(both(same, earlier), self.before(first, second)))
                if self.graph.po(first, second):
                    self._say(implied(same, earlier))
                elif first.thread != second.thread:
                    grouped = both(self._grouped(first, second), full[second.index])
                    self._meet(first, second, grouped)

    def _grouped(self, first: LitmusEvent, second: LitmusEvent) -> FNode:
        equal = compare(self.bar_phase[first.index], "==", self.bar_phase[second.index])
        return both(self._same(first, second), equal)

    # Cluster barriers ---------------------------------------------------------------------

    def _clusters(self) -> None:
        arrivals: dict[tuple[int, int], list[list[LitmusEvent]]] = defaultdict(list)
        for thread in range(len(self.graph.test.threads)):
            mine = [e for e in self.graph.of_kind(EventKind.CLUSTER_ARRIVE) if e.thread == thread]
            if mine:
                place = mine[0].placement
                arrivals[(place.gpu, place.cluster)].append(mine)
        seen: dict[int, int] = defaultdict(int)
        for wait in self.graph.of_kind(EventKind.CLUSTER_WAIT):
            number = seen[wait.thread]
            seen[wait.thread] += 1
            rounds = arrivals[(wait.placement.gpu, wait.placement.cluster)]
            mine = next((m for m in rounds if m[0].thread == wait.thread), [])
            if len(mine) <= number:
                raise UnsupportedTest("barrier.cluster.wait without an arrive of the same thread")
            awaited = [events[number] for events in rounds if len(events) > number]
            complete = all_of(event.guard for event in awaited)
            self._say(implied(both(wait.guard, wait.passes), complete))
            self._say(implied(both(wait.guard, complete), wait.passes))
            for arrive in awaited:
                passed = both(wait.guard, wait.passes)
                self.meets[(arrive.index, wait.index)] = both(passed, arrive.guard)
                self._say(implied(passed, self.before(arrive, wait)))

    # Mbarriers ----------------------------------------------------------------------------

    def _mbarriers(self) -> None:
        uses: dict[str, list[LitmusEvent]] = defaultdict(list)
        for event in self.graph.of_kind(EventKind.ARRIVE, EventKind.EXPECT, EventKind.WAIT):
            uses[self.graph.memory(event)].append(event)
        for name, events in uses.items():
            self._mbarrier(name, self._arrival_count(name), events)

    def _arrival_count(self, name: str) -> int:
        counts = [
            e.count.constant_value()
            for e in self.graph.of_kind(EventKind.MBARRIER_INIT)
            if self.graph.memory(e) == name and e.count is not None
        ]
        declared = self.graph.test.location(name).count
        counts += [declared] if declared else []
        if len(set(counts)) != 1 or counts[0] < 1:
            raise UnsupportedTest(f"mbarrier `{name}` needs one positive arrival count")
        return int(counts[0])

    def _mbarrier(self, name: str, count: int, events: list[LitmusEvent]) -> None:
        arrivals = [e for e in events if e.kind is not EventKind.WAIT]
        total = sum(e.count.constant_value() for e in arrivals if e.count is not None)
        most = total // count
        final = Symbol(f"completed_{name}", INT)
        self._say(compare(final, ">=", Int(0)), compare(final, "<=", Int(most)))
        for event in events:
            phase = Symbol(f"phase_{event.index}", INT)
            self.phase[event.index] = phase
            self._say(compare(phase, ">=", Int(0)))
            self._say(implied(event.guard, compare(phase, "<=", final)))
        for number in range(most + 1):
            here = [
                (e, both(e.guard, compare(self.phase[e.index], "==", Int(number))))
                for e in arrivals
            ]
            pending = _sum([choose(at, e.count, Int(0)) for e, at in here if e.count is not None])
            missing = _sum([choose(at, Int(e.expect), Int(0)) for e, at in here])
            complete = both(compare(pending, "==", Int(count)), compare(missing, "==", Int(0)))
            self._say(compare(pending, "<=", Int(count)))
            self._say(implied(compare(final, ">", Int(number)), complete))
            self._say(implied(compare(final, "==", Int(number)), negation(complete)))
        for event in events:
            if event.kind is EventKind.WAIT:
                self._wait(event, arrivals, final, most)
        for first in arrivals:
            if "phase_ends_at_once" not in self.mutations:
                self._completes_last(first, arrivals, count)
            for second in events:
                if first is not second:
                    self._phase_order(first, second)

    def _completes_last(self, event: LitmusEvent, arrivals: list[LitmusEvent], count: int) -> None:
        """A phase ends at the first moment when no arrival and no byte is missing."""
        peers = []
        for other in arrivals:
            if other is not event:
                same = compare(self.phase[other.index], "==", self.phase[event.index])
                here = all_of((other.guard, event.guard, same))
                self._say(
                    any_of((negation(here), self.before(other, event), self.before(event, other)))
                )
                peers.append(
                    (
                        other,
                        both(here, self.before(other, event)),
                        both(here, self.before(event, other)),
                    )
                )
        assert event.count is not None
        arrived = _sum(
            [event.count, *(choose(e, o.count, Int(0)) for o, e, _ in peers if o.count is not None)]
        )
        missing = _sum(
            [Int(event.expect), *(choose(e, Int(o.expect), Int(0)) for o, e, _ in peers)]
        )
        complete = both(compare(arrived, "==", Int(count)), compare(missing, "==", Int(0)))
        self._say(
            implied(both(event.guard, complete), negation(any_of(later for _, _, later in peers)))
        )

    def _wait(
        self, wait: LitmusEvent, arrivals: list[LitmusEvent], final: FNode, most: int
    ) -> None:
        phase = self.phase[wait.index]
        open_phase = any_of(
            all_of((a.guard, compare(self.phase[a.index], "==", phase), self.before(wait, a)))
            for a in arrivals
        )
        self._say(implied(both(wait.guard, compare(phase, "<", final)), open_phase))
        assert isinstance(wait.instruction, MbarrierWait)
        parity = wait.instruction.parity
        done = any_of(compare(phase, "==", Int(c)) for c in range(most + 1) if c % 2 != parity)
        self._say(implied(both(wait.guard, wait.passes), done))
        stuck = both(wait.guard, negation(wait.passes))
        self._say(implied(stuck, negation(done)))
        if wait.blocking:
            self._say(implied(stuck, compare(phase, "==", final)))

    def _phase_order(self, first: LitmusEvent, second: LitmusEvent) -> None:
        earlier = compare(self.phase[first.index], "<", self.phase[second.index])
        happened = both(first.guard, second.guard)
        if second.kind is EventKind.WAIT and not second.passes.is_true():
            seen = all_of((happened, second.passes, earlier))
            self.meets[(first.index, second.index)] = seen
        self._say(implied(both(happened, earlier), self.before(first, second)))


def _sum(parts: list[FNode]) -> FNode:
    constant = sum(p.constant_value() for p in parts if p.is_int_constant())
    rest = [p for p in parts if not p.is_int_constant()]
    if not rest:
        return Int(constant)
    return Plus([*rest, Int(constant)]) if constant or len(rest) > 1 else rest[0]


__all__ = ["NO", "Rendezvous"]
