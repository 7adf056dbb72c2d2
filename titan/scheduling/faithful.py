"""The joint problem as Twill writes it down: booleans op[v, i, t] over the unrolled program.

The reference for the fast formulation: slow, literal, and sharing no code with it. One boolean for
every operation and cycle, one for every operation and physical warp; uniqueness, completion,
dependence, capacity, liveness by propagation of liveness and deadness, memory capacity, warp
uniqueness, variable latency, register limit, cross-warp spills and concurrency, each quantified as
in the paper. By consistency op[v, i, t + i II] is op[v, 0, t], and that variable represents it.

Three departures, each a gap of the printed constraints. The program is unrolled far enough that
every dependence has both ends in it and every lifetime is counted whole (printed: ceil(L / II)
copies, which a loop-carried value can outlive). Order dependences end no lifetime. Operations of
several warps run on all warps of one group, and a group may take an operation of fewer warps.

Booleans are numbers here. A formulation is clauses over them and weighted sums with a limit, which
is an integer linear program with variables of 0 and 1 as written; `paper_engines.py` hands it to
Z3, to a solver of integer programs, or to an SMT solver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from titan.scheduling.loop.model import DATA, Dependence, Loop
from titan.scheduling.model import Schedule
from titan.scheduling.paper_engines import PaperEngine, Sum, Z3Engine
from titan.scheduling.work import CLAUSE, SearchWork, Stopwatch


@dataclass(frozen=True, slots=True)
class FaithfulResult:
    """`status` is `optimal`, `infeasible` (up to the limits given) or `unknown`."""

    status: str
    schedule: Schedule | None
    seconds: float
    booleans: int
    assertions: int
    intervals_refuted: int


class Formulation:
    """The constraints of one (interval, length)."""

    def __init__(self, loop: Loop, ii: int, length: int) -> None:
        self.loop, self.ii, self.length = loop, ii, length
        self.booleans = 0
        self.clauses: dict[tuple[int, ...], None] = {}
        self.sums: list[Sum] = []
        self.n = len(loop.operations)
        reach = max((e.distance * ii + e.hold_cycles for e in loop.dependences), default=0)
        self.end = length + reach + 1
        self.op = [[self.boolean() for _ in range(length)] for _ in range(self.n)]
        self.warp_of = [team for team, group in enumerate(loop.teams) for _ in range(group.warps)]
        if not loop.has_teams:
            self.warp_of = [0]
        self.opw = [[self.boolean() for _ in self.warp_of] for _ in range(self.n)]
        self.leaders = [self.warp_of.index(team) for team in range(len(loop.teams))]

    @property
    def assertions(self) -> int:
        """How many constraints there are."""
        return len(self.clauses) + len(self.sums)

    def boolean(self) -> int:
        """A new variable."""
        self.booleans += 1
        return self.booleans

    def at(self, v: int, t: int) -> int | None:
        """op[v, 0, t], or None for false."""
        return self.op[v][t] if 0 <= t < self.length else None

    def on(self, v: int, team: int) -> int:
        """v runs on the group, read from the first warp of the group."""
        return self.opw[v][self.leaders[team]]

    def build(self) -> None:
        """Write all constraints down."""
        self.uniqueness()
        self.completion()
        self.dependence()
        self.capacity()
        self.warps()
        self.spills()
        self.concurrency()
        self.storage()

    def clause(self, *literals: int) -> None:
        """One of them holds. Equal clauses are kept once."""
        self.clauses[tuple(sorted(set(literals)))] = None

    def equals_and(self, both: int, a: int, b: int) -> None:
        """`both` holds exactly where a and b do."""
        self.clause(-both, a)
        self.clause(-both, b)
        self.clause(both, -a, -b)

    def exactly_one(self, variables: list[int]) -> None:
        """One of the variables holds, and no other."""
        self.sums.append(Sum(tuple((x, 1) for x in variables), 1, exact=True))

    def limited(self, held: list[tuple[int, int]], limit: int) -> None:
        """The weights of those that hold sum to at most `limit`."""
        self.sums.append(Sum(tuple(held), limit))

    def never(self, *literals: int | None) -> None:
        """Not all of them; None means false."""
        known = [-literal for literal in literals if literal is not None]
        if len(known) == len(literals):
            self.clause(*known)

    def uniqueness(self) -> None:
        """Every operation is issued in exactly one cycle."""
        for row in self.op:
            self.exactly_one(row)

    def completion(self) -> None:
        """No operation is issued so late that it would end after the last cycle."""
        for v, operation in enumerate(self.loop.operations):
            for t in range(self.length):
                if t + operation.cycles > self.length:
                    self.clause(-self.op[v][t])

    def dependence(self) -> None:
        """op[u, i, t] forbids op[v, i + distance, t'] for t' < t + delay."""
        for e in self.loop.dependences:
            for t in range(self.length):
                stop = t + e.delay_cycles - e.distance * self.ii
                for other in range(min(stop, self.length)):
                    if e.source == e.sink and other != t:
                        continue
                    self.never(self.at(e.source, t), self.at(e.sink, other))

    def capacity(self) -> None:
        """In every cycle of the steady state the unit is taken at most `capacity` times."""
        for unit, limit in sorted((u.name, u.capacity) for u in self.loop.units.values()):
            self.limit_window({unit: 1}, limit, 1)
        for pool in self.loop.pools:
            self.limit_window(dict(pool.members), pool.amount, pool.window_cycles)

    def limit_window(self, weights: dict[str, int], limit: int, window: int) -> None:
        """At most `limit` of the weighted units in any `window` successive cycles."""
        for row in range(self.ii):
            terms: dict[tuple[int, int], int] = {}
            for k in range(window):
                for v, operation in enumerate(self.loop.operations):
                    for use in operation.uses:
                        for c in range(use.cycles if use.unit in weights else 0):
                            first = (row + k - use.first_cycle - c) % self.ii
                            for t in range(first, self.length, self.ii):
                                more = use.amount * weights[use.unit]
                                terms[(v, t)] = terms.get((v, t), 0) + more
            if terms:
                self.limited([(self.op[v][t], w) for (v, t), w in sorted(terms.items())], limit)

    def warps(self) -> None:
        """Every operation on all warps of exactly one group that is wide enough for it."""
        producer = self.loop.variable_latency_team
        for v, operation in enumerate(self.loop.operations):
            self.exactly_one([self.on(v, team) for team in range(len(self.loop.teams))])
            for w, team in enumerate(self.warp_of):
                self.clause(-self.opw[v][w], self.on(v, team))
                self.clause(self.opw[v][w], -self.on(v, team))
            if not self.loop.has_teams:
                continue
            for team, group in enumerate(self.loop.teams):
                if group.warps < operation.warps:
                    self.clause(-self.on(v, team))
            if producer is not None:
                on = self.on(v, producer)
                self.clause(on if operation.variable_latency else -on)

    def teams_apart(self, u: int, v: int) -> list[tuple[int, int]]:
        """Pairs of literals of which both hold for one pair where u and v are on two groups."""
        count = len(self.loop.teams)
        return [
            (self.on(u, a), self.on(v, b)) for a in range(count) for b in range(count) if a != b
        ]

    def spills(self) -> None:
        """A value for another group comes later by the cycles of its transfer."""
        for e in self.loop.dependences:
            spill = self.loop.operations[e.source].spill_cycles
            if e.kind != DATA or e.source == e.sink:
                continue
            for t in range(self.length):
                for s in range(spill):
                    later = self.at(e.sink, t + e.delay_cycles + s - e.distance * self.ii)
                    for a, b in self.teams_apart(e.source, e.sink):
                        self.never(self.at(e.source, t), later, a, b)

    def concurrency(self) -> None:
        """While v waits at its start, nothing else of its warps is being issued."""
        if not self.loop.has_teams:
            return
        for e in self.loop.dependences:
            if e.blocking:
                self.alone(e, [()])
            elif e.kind == DATA and self.loop.operations[e.source].spill_cycles:
                self.alone(e, self.teams_apart(e.source, e.sink))

    def alone(self, e: Dependence, causes: Sequence[tuple[int, ...]]) -> None:
        """The sink of e waits where one of the causes holds (an empty one always does)."""
        v = e.sink
        for o, other in enumerate(self.loop.operations):
            if o == v:
                continue
            for t in range(self.length):
                for since in range(other.issue_window):
                    for s in range((t - since) % self.ii, self.length, self.ii):
                        for team in range(len(self.loop.teams)):
                            both = (self.on(v, team), self.on(o, team))
                            for cause in causes:
                                if cause and self.on(v, team) not in cause:
                                    continue  # it puts v on another group: stated already
                                self.never(self.at(v, t), self.at(o, s), *both, *cause)

    def storage(self) -> None:
        """Memories, rings and registers hold what is alive in every cycle."""
        live = [self.liveness(v) for v in range(self.n)]
        for memory, limit in sorted(self.loop.limits.items()):
            amounts = [dict(op.footprints).get(memory, 0) for op in self.loop.operations]
            rings = [
                amount * op.slots
                for amount, op in zip(amounts, self.loop.operations, strict=True)
                if op.slots is not None
            ]
            free = [
                0 if op.slots is not None else amount
                for amount, op in zip(amounts, self.loop.operations, strict=True)
            ]
            self.limit_live(live, free, limit - sum(rings))
        for v, operation in enumerate(self.loop.operations):
            if operation.slots is not None:
                only = [1 if u == v else 0 for u in range(self.n)]
                self.limit_live(live, only, operation.slots)
        for team in range(len(self.loop.teams)):
            words = self.loop.team_words(team)
            if words is None:
                continue
            held = []
            for v in range(self.n):
                row = []
                for alive in live[v]:
                    row.append(self.boolean())
                    self.equals_and(row[-1], alive, self.on(v, team))
                held.append(row)
            self.limit_live(held, [op.registers for op in self.loop.operations], words)

    def liveness(self, v: int) -> list[int]:
        """live[v, 0, x] for every cycle x, from the last one backwards.

        Alive before x where it is alive or used at x, unless x is where it is defined.
        """
        live = [self.boolean() for _ in range(self.end)]
        uses = [e for e in self.loop.dependences if e.source == v and e.kind == DATA]
        self.clause(-live[-1])
        for x in range(1, self.end):
            users = [self.at(e.sink, x - e.distance * self.ii - e.hold_cycles) for e in uses]
            reasons = [live[x], *(user for user in users if user is not None)]
            defined = self.at(v, x)
            unless = [] if defined is None else [defined]
            self.clause(-live[x - 1], *reasons)
            self.never(live[x - 1], defined)
            for reason in reasons:
                self.clause(live[x - 1], -reason, *unless)
        return live

    def limit_live(self, live: list[list[int]], amounts: list[int], limit: int) -> None:
        """The values alive in every row of the interval take at most `limit`."""
        for row in range(self.ii):
            held = [
                (live[v][x], amount)
                for v, amount in enumerate(amounts)
                if amount
                for x in range(row, self.end, self.ii)
            ]
            if limit < 0:
                self.sums.append(Sum((), limit))  # cannot hold
            elif held:
                self.limited(held, limit)

    def solve(self, work: SearchWork, engine: PaperEngine | None = None) -> Schedule | bool | None:
        """A schedule, False when there is none, None when the work did not do."""
        chosen = engine or Z3Engine()
        work.spend(CLAUSE * (len(self.clauses) + sum(len(one.terms) for one in self.sums)))
        answer = chosen.solve(self.booleans, list(self.clauses), self.sums, work)
        return self.decode(answer) if callable(answer) else answer

    def decode(self, holds: Callable[[int], bool]) -> Schedule:
        """The schedule that a solution describes."""
        starts = tuple(next(t for t, x in enumerate(row) if holds(x)) for row in self.op)
        count = len(self.loop.teams)
        teams = tuple(next(k for k in range(count) if holds(self.on(v, k))) for v in range(self.n))
        return Schedule(self.ii, starts, teams)


def solve(
    loop: Loop, ii_from: int, ii_to: int, length_to: int, seconds: float = 600.0
) -> FaithfulResult:
    """The least interval in the range, and for it the least length up to `length_to`."""
    begin, work = Stopwatch(), SearchWork(seconds)
    size = [0, 0]

    def attempt(ii: int, length: int) -> Schedule | bool | None:
        if not work.left:
            return None
        formulation = Formulation(loop, ii, length)
        formulation.build()
        size[0] = max(size[0], formulation.booleans)
        size[1] = max(size[1], formulation.assertions)
        return formulation.solve(work)

    def result(status: str, schedule: Schedule | None, refuted: int) -> FaithfulResult:
        return FaithfulResult(status, schedule, begin.seconds, size[0], size[1], refuted)

    shortest = max(op.cycles for op in loop.operations)
    for ii in range(ii_from, ii_to + 1):
        found = attempt(ii, length_to)
        if found is None:
            return result("unknown", None, ii - ii_from)
        if not isinstance(found, Schedule):
            continue
        for length in range(shortest, length_to):
            shorter = attempt(ii, length)
            if shorter is None:
                return result("unknown", found, ii - ii_from)
            if isinstance(shorter, Schedule):
                return result("optimal", shorter, ii - ii_from)
        return result("optimal", found, ii - ii_from)
    return result("infeasible", None, ii_to - ii_from + 1)
