"""The joint problem as Twill writes it down: booleans op[v, i, t] over the unrolled program, in Z3.

The reference for the fast formulation: slow, literal, and sharing no code with it. One boolean for
every operation and cycle, one for every operation and physical warp; uniqueness, completion,
dependence, capacity, liveness by propagation of liveness and deadness, memory capacity, warp
uniqueness, variable latency, register limit, cross-warp spills and concurrency, each quantified as
in the paper. By consistency op[v, i, t + i II] is op[v, 0, t], and that variable stands for it.

Three departures, each a gap of the printed constraints. The program is unrolled far enough that
every dependence has both ends in it and every lifetime is counted whole (printed: ceil(L / II)
copies, which a loop-carried value can outlive). Order dependences end no lifetime. Operations of
several warps run on all warps of one group, and a group may take an operation of fewer warps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from titan.loop.model import DATA, Dependence, Loop
from titan.schedule.model import Schedule


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
        import z3

        self.z3: Any = z3
        self.loop, self.ii, self.length = loop, ii, length
        self.solver = z3.SolverFor("QF_FD")
        self.booleans = self.assertions = 0
        self._forbidden: set[tuple[int, ...]] = set()
        self.n = len(loop.operations)
        reach = max((e.distance * ii + e.hold_cycles for e in loop.dependences), default=0)
        self.end = length + reach + 1
        self.op = [[self.boolean(f"op_{v}_{t}") for t in range(length)] for v in range(self.n)]
        self.warp_of = [team for team, group in enumerate(loop.teams) for _ in range(group.warps)]
        if not loop.has_teams:
            self.warp_of = [0]
        self.opw = [
            [self.boolean(f"opw_{v}_{w}") for w in range(len(self.warp_of))] for v in range(self.n)
        ]
        self.leaders = [self.warp_of.index(team) for team in range(len(loop.teams))]

    def boolean(self, name: str) -> Any:
        self.booleans += 1
        return self.z3.Bool(name)

    def at(self, v: int, t: int) -> Any | None:
        """op[v, 0, t], or None where it stands for false."""
        return self.op[v][t] if 0 <= t < self.length else None

    def on(self, v: int, team: int) -> Any:
        return self.opw[v][self.leaders[team]]

    def build(self) -> None:
        self.uniqueness()
        self.completion()
        self.dependence()
        self.capacity()
        self.warps()
        self.spills()
        self.concurrency()
        self.storage()

    def exactly_one(self, literals: list[Any]) -> None:
        self.assertions += 1
        self.solver.add(self.z3.PbEq([(literal, 1) for literal in literals], 1))

    def never(self, *literals: Any) -> None:
        """Not all of them; None stands for false."""
        if any(literal is None for literal in literals):
            return
        key = tuple(sorted({literal.get_id() for literal in literals}))
        if key not in self._forbidden:
            self._forbidden.add(key)
            self.assertions += 1
            self.solver.add(self.z3.Or([self.z3.Not(literal) for literal in literals]))

    def uniqueness(self) -> None:
        for row in self.op:
            self.exactly_one(row)

    def completion(self) -> None:
        for v, operation in enumerate(self.loop.operations):
            for t in range(self.length):
                if t + operation.cycles > self.length:
                    self.solver.add(self.z3.Not(self.op[v][t]))

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
                held = [(self.op[v][t], weight) for (v, t), weight in sorted(terms.items())]
                self.assertions += 1
                self.solver.add(self.z3.PbLe(held, limit))

    def warps(self) -> None:
        """Every operation on all warps of exactly one group that is wide enough for it."""
        producer = self.loop.variable_latency_team
        for v, operation in enumerate(self.loop.operations):
            self.exactly_one([self.on(v, team) for team in range(len(self.loop.teams))])
            for w, team in enumerate(self.warp_of):
                self.solver.add(self.opw[v][w] == self.on(v, team))
            if not self.loop.has_teams:
                continue
            for team, group in enumerate(self.loop.teams):
                if group.warps < operation.warps:
                    self.solver.add(self.z3.Not(self.on(v, team)))
            if producer is not None:
                special = self.z3.BoolVal(operation.variable_latency)
                self.solver.add(special == self.on(v, producer))

    def teams_apart(self, u: int, v: int) -> list[tuple[Any, Any]]:
        count = len(self.loop.teams)
        return [
            (self.on(u, a), self.on(v, b)) for a in range(count) for b in range(count) if a != b
        ]

    def spills(self) -> None:
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

    def alone(self, e: Dependence, causes: list[Any]) -> None:
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
                                self.never(self.at(v, t), self.at(o, s), *both, *cause)

    def storage(self) -> None:
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
                for x, alive in enumerate(live[v]):
                    both = self.boolean(f"held_{team}_{v}_{x}")
                    self.solver.add(both == self.z3.And(alive, self.on(v, team)))
                    row.append(both)
                held.append(row)
            self.limit_live(held, [op.registers for op in self.loop.operations], words)

    def liveness(self, v: int) -> list[Any]:
        """live[v, 0, x] for every cycle x, from the last one backwards."""
        z3 = self.z3
        live = [self.boolean(f"live_{v}_{x}") for x in range(self.end)]
        uses = [e for e in self.loop.dependences if e.source == v and e.kind == DATA]
        self.solver.add(z3.Not(live[-1]))
        for x in range(1, self.end):
            users = [self.at(e.sink, x - e.distance * self.ii - e.hold_cycles) for e in uses]
            here = [user for user in users if user is not None]
            defined = self.at(v, x)
            no_definition = z3.Not(defined) if defined is not None else z3.BoolVal(True)
            used = z3.Or(here) if here else z3.BoolVal(False)
            self.assertions += 1
            self.solver.add(live[x - 1] == z3.And(z3.Or(live[x], used), no_definition))
        return live

    def limit_live(self, live: list[list[Any]], amounts: list[int], limit: int) -> None:
        for row in range(self.ii):
            held = [
                (live[v][x], amount)
                for v, amount in enumerate(amounts)
                if amount
                for x in range(row, self.end, self.ii)
            ]
            if limit < 0:
                self.solver.add(False)
            elif held:
                self.assertions += 1
                self.solver.add(self.z3.PbLe(held, limit))

    def solve(self, seconds: float) -> Schedule | bool | None:
        """A schedule, False when there is none, None when the time did not do."""
        z3 = self.z3
        self.solver.set("timeout", max(1, int(seconds * 1000)))
        answer = self.solver.check()
        if answer == z3.unknown:
            return None
        if answer == z3.unsat:
            return False
        model = self.solver.model()

        def holds(atom: Any) -> bool:
            return z3.is_true(model.eval(atom, model_completion=True))

        starts = tuple(next(t for t, x in enumerate(row) if holds(x)) for row in self.op)
        count = len(self.loop.teams)
        teams = tuple(next(k for k in range(count) if holds(self.on(v, k))) for v in range(self.n))
        return Schedule(self.ii, starts, teams)


def solve(
    loop: Loop, ii_from: int, ii_to: int, length_to: int, seconds: float = 600.0
) -> FaithfulResult:
    """The least interval in the range, and for it the least length up to `length_to`."""
    begin = time.monotonic()
    size = [0, 0]

    def attempt(ii: int, length: int) -> Schedule | bool | None:
        left = seconds - (time.monotonic() - begin)
        if left <= 0:
            return None
        formulation = Formulation(loop, ii, length)
        formulation.build()
        size[0] = max(size[0], formulation.booleans)
        size[1] = max(size[1], formulation.assertions)
        return formulation.solve(left)

    def result(status: str, schedule: Schedule | None, refuted: int) -> FaithfulResult:
        spent = time.monotonic() - begin
        return FaithfulResult(status, schedule, spent, size[0], size[1], refuted)

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
