"""Random programs whose engines read, write and arrive, and what two graphs say of their accesses.

Engines arrive at mbarriers when what their agent has issued is over (tcgen05.commit,
cp.async.mbarrier.arrive). Every phase is the only one of its barrier, so the events and the order
of their execution are known beforehand. The oracle is reachability: one graph of the order of
execution, one of what carries visibility. It shares nothing with the clocks of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from tests.building import access, at, e, program, read, write
from titan.sync import program as ir

Node = tuple[int, int, bool]  # agent, place, whether it is the end of what is issued there


@dataclass
class Rounds:
    """A program in rounds, a barrier each: agents or their engines arrive, and some agents wait."""

    bodies: list[list[ir.Operation]]
    arrivals: list[list[Node]] = field(default_factory=list)
    waits: list[list[Node]] = field(default_factory=list)

    def add(self, agent: int, operation: ir.Operation) -> Node:
        self.bodies[agent].append(operation)
        ends = isinstance(operation, ir.QueueArrive | ir.Asynchronous)
        return agent, len(self.bodies[agent]) - 1, ends

    def program(self) -> ir.SyncProgram:
        return program(
            "rounds",
            [ir.Role(f"r{n}", tuple(body), threads=1) for n, body in enumerate(self.bodies)],
            barriers=[ir.Barrier(f"b{n}", len(who)) for n, who in enumerate(self.arrivals)],
            buffers=[ir.Buffer("x", initial=0), ir.Buffer("y", initial=0)],
            queues=[ir.Queue("q", grouped=False)],
            policies=ir.Policies(exit_in_flight="allow"),
        )


def draw(random: Random) -> Rounds:
    """Two to four agents, two to four rounds, at most two arrivals a round."""
    agents = random.randint(2, 4)
    made = Rounds([[] for _ in range(agents)])
    for number in range(random.randint(2, 4)):
        arriving = random.sample(range(agents), random.choice((1, 1, 1, 2)))
        barrier = at(f"b{number}")
        for agent in range(agents):
            effect = random.choice((read, write))(random.choice("xy"))
            if random.random() < (0.5 if agent in arriving else 0.1):
                made.add(agent, access(effect))
            elif random.random() < 0.12:
                made.add(agent, ir.Asynchronous((effect,), queue="q"))
        made.arrivals.append([])
        for agent in arriving:
            marker = ir.QueueArrive("q", barrier)
            made.arrivals[-1].append(
                made.add(agent, marker if random.random() < 0.7 else ir.Arrive(barrier))
            )
        waiting = random.sample(range(agents), random.randint(agents - 1, agents))
        made.waits.append([made.add(agent, ir.Wait(barrier, e(0))) for agent in waiting])
    return made


@dataclass(frozen=True)
class Touch:
    """One access: where it begins, where it is over, and what it does."""

    begin: Node
    end: Node
    buffer: str
    write: bool

    @property
    def engine(self) -> bool:
        return self.end[2]


def touches(made: Rounds) -> list[Touch]:
    found = []
    for agent, body in enumerate(made.bodies):
        for place, operation in enumerate(body):
            if isinstance(operation, ir.Access | ir.Asynchronous):
                end = (agent, place, isinstance(operation, ir.Asynchronous))
                effect = operation.effects[0]
                found.append(Touch((agent, place, False), end, effect.buffer, effect.write))
    return found


def reach(made: Rounds, visible: bool) -> dict[Node, set[Node]]:
    """Of every node, all that come after it. What an agent did tells its engines nothing."""
    edges: dict[Node, set[Node]] = {}
    for agent, body in enumerate(made.bodies):
        last: Node | None = None
        for place, operation in enumerate(body):
            here, end = (agent, place, False), (agent, place, True)
            edges.setdefault(here, set())
            if place:
                edges[(agent, place - 1, False)].add(here)
            if isinstance(operation, ir.Asynchronous | ir.QueueArrive):
                edges.setdefault(end, set())
                if not visible:
                    edges[here].add(end)
                if last is not None:
                    edges[last].add(end)
                last = end
    for arrivals, waits in zip(made.arrivals, made.waits, strict=True):
        for arrival in arrivals:
            edges[arrival] |= set(waits)
    found: dict[Node, set[Node]] = {}
    for start in edges:
        known, left = {start}, [start]
        while left:
            fresh = edges[left.pop()] - known
            known |= fresh
            left += fresh
        found[start] = known
    return found


def expected(made: Rounds) -> str:
    """By paths alone: a conflict in time ("race"), an order without visibility, or neither."""
    every = touches(made)
    executed, seen = reach(made, False), reach(made, True)

    def before(one: Touch, other: Touch) -> bool:
        return one is not other and other.begin in executed[one.end]

    def visible(old: Touch, new: Touch) -> bool:
        if old.engine and (not old.write or (new.engine and new.write)):
            return True
        if new.begin in seen[old.end]:
            return True
        return new.write and any(
            other.engine and not other.write and other.buffer == new.buffer
            and other.begin in seen[old.end] and before(other, new)
            for other in every
        )  # fmt: skip

    weak = False
    for first, second in combinations(every, 2):
        if first.buffer != second.buffer or not (first.write or second.write):
            continue
        if not (before(first, second) or before(second, first)):
            return "race"
        old, new = (first, second) if before(first, second) else (second, first)
        covered = any(
            other.write and other.buffer == old.buffer and before(old, other) and before(other, new)
            for other in every
        )
        weak |= not covered and not visible(old, new)
    return "weak" if weak else "verified"
