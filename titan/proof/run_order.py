"""What is ordered in every run of a straight-line sync program, read off one run of it.

A step is known to be over to another one if a chain of links leads from it there: the next step of
the same agent; the start of an operation, then its end; the ends of an ordered queue in turn; all
that a phase or generation counts, then its completion, then who waited for it; the end of groups,
then the queue wait that covers them. A clock has one entry for each agent, for the reads and the
ends of each ordered queue, for each mbarrier (completed phases) and each named barrier. Theorem:
proofs/Sync.v and docs/explanation/happens_before.md, "When one run represents all".

Independent of titan/engines: the checker of certificates rests on this and on titan/sync alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Clock = list[int]  # never changed once made
Mark = tuple[int, int]  # an entry of the clock, and the number that it must have reached


@dataclass(slots=True)
class Moment:
    """A step of the run: what it knows, and its own mark. `clock` leaves its own mark out."""

    clock: Clock
    mark: Mark

    def knows(self, mark: Mark) -> bool:
        """Whether what the mark represents is over before this step."""
        entry, number = mark
        if entry == self.mark[0] and number < self.mark[1]:
            return True
        return self.clock[entry] >= number

    def knows_any(self, marks: Iterable[Mark]) -> bool:
        """Whether it knows one of the marks, each of which says the same."""
        return any(self.knows(mark) for mark in marks)


def joined(clocks: Iterable[Clock]) -> Clock:
    """What is known to any of them."""
    return [max(numbers) for numbers in zip(*clocks, strict=True)]


def with_mark(clock: Clock, mark: Mark) -> Clock:
    """The clock of who knows one thing more."""
    if clock[mark[0]] >= mark[1]:
        return clock
    changed = list(clock)
    changed[mark[0]] = mark[1]
    return changed


class Entries:
    """The entries of a clock, by what they count."""

    def __init__(self, agents: int) -> None:
        self.agents = agents
        self.numbers: dict[object, int] = {}

    def add(self, what: object) -> None:
        """One more entry."""
        self.numbers[what] = self.agents + len(self.numbers)

    def of(self, what: object) -> int:
        """The entry of something that was added."""
        return self.numbers[what]

    def start(self) -> Clock:
        """The clock of who knows nothing."""
        return [0] * (self.agents + len(self.numbers))


@dataclass(slots=True)
class Work:
    """An operation in flight: its start, and marks of which each says that it is over.

    `read`: marks that say that its reads are over; the ends say so as well. `queue`: that of its
    agent, None without one.
    """

    start: Moment
    ends: list[Mark] = field(default_factory=list)
    read: list[Mark] = field(default_factory=list)
    queue: tuple[int, str] | None = None

    def over(self, moment: Moment, writes: bool) -> bool:
        """Whether its writes, or only its reads, are over before a step."""
        return moment.knows_any(self.ends) or (not writes and moment.knows_any(self.read))

    def end(self) -> Moment:
        """Its end: the engine knows what the agent knew, and the work that was before it."""
        clock = with_mark(self.start.clock, self.start.mark)
        for mark in (*self.ends[:1], *self.read[:1]) if self.queue is not None else ():
            clock = with_mark(clock, mark)
        return Moment(clock, self.start.mark)
