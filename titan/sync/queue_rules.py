"""Queues of asynchronous operations: groups, what of them may finish, and the waits by count.

Sources: PTX "cp.async.bulk.wait_group", "wgmma.wait_group", "cp.async.mbarrier.arrive",
"tcgen05.commit".
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.sync import program as ir
from titan.sync.control import ControlFlow
from titan.sync.expression import evaluate
from titan.sync.fault import Actor, Step
from titan.sync.state import Draft, Environment, Flight, QueueState


class QueueRules:
    """What is put into the queues of the agents, and what of it may finish next."""

    def __init__(self, control: ControlFlow) -> None:
        self._operations = control.operations
        self._queues = {queue.name: queue for queue in control.program.queues}
        self._split_reads = {
            operation.queue
            for role in control.program.roles
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.QueueWait) and operation.until is ir.Until.READ
        }

    def engine_steps(self, draft: Draft) -> Iterator[Step]:
        """What engines may do next; of a step that two rules allow, both."""
        for flight in draft.free_flights:
            yield _engine_step(flight, split=False)
        for (_, name), queue in draft.queues.items():
            flights = [flight for group in queue.closed for flight in group]
            flights += queue.open[: self._released(queue.open)]
            split = name in self._split_reads
            for flight in flights[:1] if self._queues[name].ordered else flights:
                yield _engine_step(flight, split)
            # Reads of a later group may be over while the writes of an older one are not.
            reading = [flight for flight in flights if flight.reading]
            if split and reading:
                yield _engine_step(reading[0], split)

    def _released(self, group: tuple[Flight, ...]) -> int:
        """How many of an open group may finish: all up to the last marker that is to arrive.

        `cp.async.mbarrier.arrive` needs no commit (PTX); what no marker stands behind is taken to
        be in flight until its group is closed.
        """
        markers = [isinstance(self._operations[flight.site], ir.QueueArrive) for flight in group]
        return len(group) - markers[::-1].index(True) if True in markers else 0

    def wait_passes(
        self, draft: Draft, agent: int, operation: ir.QueueWait, environment: Environment
    ) -> bool:
        """Whether at most the pending number of the agent's groups is outstanding."""
        queue = draft.queues[(agent, operation.queue)]
        outstanding = self._outstanding(queue, operation.queue, operation.until)
        return outstanding <= evaluate(operation.pending, environment)

    def _outstanding(self, queue: QueueState, name: str, until: ir.Until) -> int:
        """Groups from the oldest unfinished to the newest (PTX: all but the newest N complete).

        An empty group counts while an older one is unfinished. Without order, a counter counts
        what is unfinished.
        """
        busy = [
            any(until is ir.Until.DONE or flight.reading for flight in group)
            for group in queue.closed
        ]
        if not self._queues[name].ordered:
            return sum(busy)
        return len(busy) - busy.index(True) if True in busy else 0

    def enqueue(self, draft: Draft, name: str | None, flight: Flight) -> None:
        """A flight starts: in a queue of its agent, or in none."""
        draft.issued[flight.agent] += 1
        if name is None:
            draft.free_flights.append(flight)
            return
        queue = draft.queues[(flight.agent, name)]
        if self._queues[name].grouped:
            changed = QueueState(queue.closed, (*queue.open, flight))
        else:
            changed = QueueState((*queue.closed, (flight,)), queue.open)
        draft.queues[(flight.agent, name)] = changed

    @staticmethod
    def commit(draft: Draft, agent: int, name: str) -> None:
        """Close the open group; an empty one counts only behind others."""
        queue = draft.queues[(agent, name)]
        if queue.open or queue.closed:
            draft.queues[(agent, name)] = QueueState((*queue.closed, queue.open), ())

    def retired(self, name: str, groups: list[tuple[Flight, ...]]) -> QueueState:
        """Drop what has retired: finished groups with none unfinished before them.

        The last group is the open one.

        An operation that only reads, through another proxy, is over once it has read; in an
        ordered queue, once everything before it is.
        """
        ordered, waiting = self._queues[name].ordered, False
        for number, group in enumerate(groups):
            left = []
            for flight in group:
                if waiting or not _is_over(flight):
                    waiting = waiting or ordered
                    left.append(flight)
            groups[number] = tuple(left)
        *closed, opened = groups
        if not ordered:
            return QueueState(tuple(group for group in closed if group), opened)
        first = next((number for number, group in enumerate(closed) if group), len(closed))
        return QueueState(tuple(closed[first:]), opened)


def _engine_step(flight: Flight, split: bool) -> Step:
    actor = Actor.READS if split and flight.reading else Actor.FINISH
    return Step(actor, flight.agent, flight.ordinal)


def _is_over(flight: Flight) -> bool:
    """Whether nothing is left to do: it only reads, has read, and leaves no mark on memory."""
    return (
        not flight.reading
        and not flight.completes
        and all(
            not write and proxy is not ir.Proxy.GENERIC
            for _, write, _, proxy, *_ in flight.accesses
        )
    )
