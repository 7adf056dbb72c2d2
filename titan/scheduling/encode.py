"""The fast joint formulation: one variable for "issued at or before t", warp groups, lazy storage.

For a fixed interval and a horizon (the longest schedule considered) every constraint of the joint
problem becomes clauses:

* `M(v) <= t` for t in the window that the dependences leave; dependences are implications between
  such variables, and rings of slots are dependences too;
* rows of the modulo reservation table: an operation that holds a unit at a time holds its row, and
  a row holds no more than the capacity; pools likewise;
* one variable for "v runs on group g", with interchangeable groups used in order; transfers make a
  dependence longer and its sink wait if the two ends are on different groups;
* a waiting operation does not start in a row in which another of its group is being issued.

Memory and register limits are not written down at first. Where a solution breaks one, the values
that together pass the limit become a clause for every row and every group it applies to (a cover),
so that refutations hold for the full problem and only what matters is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from titan.foundation.errors import TitanError
from titan.scheduling.cnf import Cnf, Literal, negate
from titan.scheduling.loop.model import DATA, Dependence, Loop
from titan.scheduling.work import SearchWork

Weighted = list[tuple[Literal, int]]


class Infeasible(TitanError):
    """No schedule exists at this interval within this horizon; no solver is needed to see it."""


class Encoding:
    """The clauses of one (interval, horizon)."""

    def __init__(
        self,
        loop: Loop,
        ii: int,
        horizon: int,
        span: tuple[Sequence[int], Sequence[int]] | None = None,
        work: SearchWork | None = None,
    ) -> None:
        """`span`: first and last issue cycles (perhaps negative), instead of the horizon's.

        Raises BudgetSpent where there are more clauses than `work` pays for."""
        self.loop = loop
        self.ii = ii
        self.horizon = horizon
        self.cnf = Cnf()
        if work is not None:
            self.cnf.bound(work)
        self.arcs = precedence(loop, ii)
        if span is None:
            self.low, self.high = windows(loop, self.arcs, horizon)
        else:
            self.low, self.high = list(span[0]), list(span[1])
        self._live: dict[tuple[int, int], Literal] = {}
        self._copies: dict[tuple[int, int, int], Literal] = {}
        self._pairs: set[tuple[int, int]] = set()
        self._busy: dict[tuple[int, int, int], list[Literal]] = {}
        self._same: dict[tuple[int, int], Literal] = {}
        self.order_variables()
        self.group_variables()
        self.dependences()
        self.capacities()
        self.pools()
        self.waits()

    # Variables

    def order_variables(self) -> None:
        """One variable for "issued at or before t" for every cycle of a window but the last."""
        cnf = self.cnf
        self._first = []
        for low, high in zip(self.low, self.high, strict=True):
            self._first.append(cnf.variables + 1)
            cnf.variables += high - low
        for first, low, high in zip(self._first, self.low, self.high, strict=True):
            cnf.clauses += [[-by, by + 1] for by in range(first, first + high - low - 1)]

    def by(self, v: int, t: int) -> Literal:
        """v is issued at cycle t or before."""
        if t < self.low[v]:
            return False
        if t >= self.high[v]:
            return True
        return self._first[v] + t - self.low[v]

    def group_variables(self) -> None:
        """One variable for every group that may run an operation, exactly one of them."""
        loop, cnf = self.loop, self.cnf
        self.on: list[list[Literal]] = []
        for v in range(len(loop.operations)):
            allowed = allowed_teams(loop, v)
            if not allowed:
                raise Infeasible(f"no warp group can run {loop.operations[v].name}")
            row: list[Literal] = [False] * len(loop.teams)
            for team in allowed:
                row[team] = True if len(allowed) == 1 else cnf.variable()
            self.on.append(row)
            if len(allowed) > 1:
                cnf.add(*row)
                for i, a in enumerate(allowed):
                    for b in allowed[:i]:
                        cnf.add(negate(row[a]), negate(row[b]))
        for first, second in interchangeable(loop):
            earlier: list[Literal] = []
            for row in self.on:
                cnf.add(negate(row[second]), *earlier)
                earlier.append(row[first])

    def crosses(self, u: int, v: int) -> Literal:
        """u and v are on different groups (implied true where they are)."""
        key = (u, v) if u < v else (v, u)
        if key not in self._same:
            self._same[key] = self._new_same(*key)
        return negate(self._same[key])

    def _new_same(self, u: int, v: int) -> Literal:
        pairs = [(a, b) for a, b in zip(self.on[u], self.on[v], strict=True)]
        if all(a is False or b is False for a, b in pairs):
            return False
        if any(a is True and b is True for a, b in pairs):
            return True
        same = self.cnf.variable()
        for a, b in pairs:
            self.cnf.add(negate(a), negate(b), same)
            self.cnf.add(negate(a), b, -same)
            self.cnf.add(a, negate(b), -same)
        return same

    # Constraints

    def dependences(self) -> None:
        """Every dependence as implications; a transfer lengthens it where its ends are apart."""
        for u, v, weight in self.arcs:
            self.after(u, v, weight)
        self.waiting: dict[int, list[Literal]] = {}
        for e in self.loop.dependences:
            spill = self.loop.operations[e.source].spill_cycles
            if e.blocking:
                self.waiting.setdefault(e.sink, []).append(True)
            if e.kind != DATA or not spill or e.source == e.sink or not self.loop.has_teams:
                continue
            crosses = self.crosses(e.source, e.sink)
            if crosses is False:
                continue
            weight = e.delay_cycles + spill - e.distance * self.ii
            self.after(e.source, e.sink, weight, negate(crosses))
            self.waiting.setdefault(e.sink, []).append(crosses)

    def after(self, u: int, v: int, weight: int, unless: Literal = False) -> None:
        """M(v) >= M(u) + weight, unless the literal holds."""
        if u == v:
            if weight > 0:
                self.cnf.add(unless)
            return
        if unless is not True:
            self._in_order(u, v, weight, [] if unless is False else [unless])
        self.cnf.add(unless, negate(self.by(v, self.low[u] + weight - 1)))

    def _in_order(self, u: int, v: int, weight: int, head: list[int]) -> None:
        """For each cycle: v is issued by then only if u is `weight` cycles before, or `head`."""
        low, high = self.low[v], self.high[v]
        by_v, by_u = self._first[v] - low, self._first[u] - self.low[u] - weight
        for t in range(low, min(high, self.high[u] + weight - 1) + 1):
            clause = head.copy()
            if t < high:
                clause.append(-by_v - t)
            if t >= self.low[u] + weight:
                clause.append(by_u + t)
            self.cnf.add_plain(clause)

    def busy(self, v: int, first: int, cycles: int) -> list[Literal]:
        """Of each row: v holds it with what begins `first` cycles after its issue and lasts
        `cycles`, less than an interval."""
        key = (v, first, cycles)
        if key not in self._busy:
            self._busy[key] = self._new_busy(*key)
        return self._busy[key]

    def _new_busy(self, v: int, first: int, cycles: int) -> list[Literal]:
        rows: list[Literal] = [False] * self.ii
        low, high, by = self.low[v], self.high[v], self._first[v] - self.low[v]
        for issued in range(low, high + cycles):
            place = (issued + first) % self.ii
            if rows[place] is False:
                rows[place] = self.cnf.variable()
            clause = [-by - issued] if issued < high else []
            if issued >= low + cycles:  # and not over
                clause.append(by + issued - cycles)
            clause.append(rows[place])
            self.cnf.add_plain(clause)
        return rows

    def row_use(self, v: int, first: int, cycles: int, amount: int) -> list[Weighted]:
        """What v holds of each row: in full intervals, and perhaps once more."""
        whole, rest = divmod(cycles, self.ii)
        always: Weighted = [(True, whole * amount)] if whole else []
        if not rest:
            return [always] * self.ii
        once = self.busy(v, first + whole * self.ii, rest)
        return [[*always, (literal, amount)] for literal in once]

    def capacities(self) -> None:
        """No row of a unit is taken more often than the unit has instances."""
        users: dict[str, list[tuple[int, int, int, int]]] = {}
        for v, operation in enumerate(self.loop.operations):
            for use in operation.uses:
                block = (v, use.first_cycle, use.cycles, use.amount)
                users.setdefault(use.unit, []).append(block)
        for unit, blocks in sorted(users.items()):
            self.limit_rows(blocks, self.loop.units[unit].capacity, 1)

    def limit_rows(self, blocks: list[tuple[int, int, int, int]], limit: int, window: int) -> None:
        """At most `limit` in every run of `window` rows, over and over where it wraps."""
        total = sum(cycles * amount for _, _, cycles, amount in blocks)
        turns, rest = divmod(window, self.ii)
        if turns * total > limit:
            raise Infeasible("a pool takes more in its window than its amount")
        if not rest:
            return
        used = [self.row_use(*block) for block in blocks]
        for row in range(self.ii):
            weighted: Weighted = []
            for k in range(rest):
                for rows in used:
                    weighted += rows[(row + k) % self.ii]
            self.cnf.at_most(weighted, limit - turns * total)

    def pools(self) -> None:
        """No window of rows takes more of a pool than its amount."""
        for pool in self.loop.pools:
            weights = dict(pool.members)
            blocks = [
                (v, use.first_cycle, use.cycles, use.amount * weights[use.unit])
                for v, operation in enumerate(self.loop.operations)
                for use in operation.uses
                if use.unit in weights
            ]
            if blocks:
                self.limit_rows(blocks, pool.amount, pool.window_cycles)

    # Waiting

    def waits(self) -> None:
        """Pairs whose waiting is certain are written down now, the others where they are broken."""
        if not self.loop.has_teams:
            return
        for v, causes in sorted(self.waiting.items()):
            if True in causes:
                for o in range(len(self.loop.operations)):
                    self.keep_apart(v, o)

    def keep_apart(self, v: int, o: int) -> None:
        """If v waits, it does not start while o of the same group is being issued."""
        if v == o or (v, o) in self._pairs:
            return
        self._pairs.add((v, o))
        same = negate(self.crosses(v, o))
        if same is False:
            return
        window = self.loop.operations[o].issue_window
        causes = self.waiting[v]
        if True in causes:
            waits: Literal = True
        else:
            waits = self.cnf.variable()
            for cause in causes:
                self.cnf.add(negate(cause), waits)
        if window >= self.ii:
            self.cnf.add(negate(same), negate(waits))
            return
        starts: list[Literal] = self.busy(v, 0, 1) if self.ii > 1 else [True]
        issuing = self.busy(o, 0, window)
        for start, issue in zip(starts, issuing, strict=True):
            self.cnf.add(negate(start), negate(issue), negate(same), negate(waits))

    # Storage

    def live(self, u: int, t: int) -> Literal:
        """The value of u of iteration 0 is alive at cycle t (implied where it is)."""
        if (u, t) not in self._live:
            self._live[(u, t)] = self._new_live(u, t)
        return self._live[(u, t)]

    def _new_live(self, u: int, t: int) -> Literal:
        issued = self.by(u, t)
        uses = [self.by(e.sink, t - self.shift(e)) for e in self.consumers(u)]
        if issued is False or all(use is True for use in uses):
            return False
        alive = self.cnf.variable()
        for use in uses:
            self.cnf.add(negate(issued), use, alive)
        return alive

    def shift(self, e: Dependence) -> int:
        """Cycles from an issue of the sink to the end of its use, in the time of the source."""
        return e.distance * self.ii + e.hold_cycles

    def consumers(self, u: int) -> list[Dependence]:
        """The data dependences of the value of u."""
        return [e for e in self.loop.dependences if e.source == u and e.kind == DATA]

    def copies(self, u: int, row: int, count: int) -> Literal:
        """At least `count` values of u are alive in `row`."""
        key = (u, row, count)
        if key not in self._copies:
            self._copies[key] = self._new_copies(u, row, count)
        return self._copies[key]

    def _new_copies(self, u: int, row: int, count: int) -> Literal:
        end = max((self.high[e.sink] + self.shift(e) for e in self.consumers(u)), default=0)
        begin = self.low[u] + (row - self.low[u]) % self.ii
        found: Literal = False
        for t in range(begin + (count - 1) * self.ii, end, self.ii):
            first, last = self.live(u, t - (count - 1) * self.ii), self.live(u, t)
            if first is False or last is False:
                continue
            if found is False:
                found = self.cnf.variable()
            self.cnf.add(negate(first), negate(last), found)
        return found

    def forbid(
        self,
        cover: Sequence[tuple[int, int]],
        teams: Sequence[int] | None,
        guard: Literal = True,
    ) -> None:
        """The values of `cover` (operation, copies) are never alive in one row together.

        With `teams`: not while all are on one of these groups. Only where `guard` holds.
        """
        for row in range(self.ii):
            clause = [negate(self.copies(u, row, count)) for u, count in cover]
            clause.append(negate(guard))
            if teams is None:
                self.cnf.add(*clause)
                continue
            for team in teams:
                self.cnf.add(*clause, *(negate(self.on[u][team]) for u, _ in cover))

    def limit_registers(self, team: int, limit: int) -> None:
        """The register limit of one group in every row, written out."""
        loop = self.loop
        holders = [v for v, op in enumerate(loop.operations) if op.registers]
        for row in range(self.ii):
            weighted = []
            for v in holders:
                if self.on[v][team] is False:
                    continue
                for copy in self.all_copies(v, row):
                    held = copy
                    if self.on[v][team] is not True:
                        held = self.cnf.variable()
                        self.cnf.add(negate(copy), negate(self.on[v][team]), held)
                    weighted.append((held, loop.operations[v].registers))
            self.cnf.at_most(weighted, limit)

    def limit_memory(self, amounts: list[int], limit: int) -> None:
        """A memory limit in every row, written out."""
        for row in range(self.ii):
            weighted = [
                (copy, amount)
                for v, amount in enumerate(amounts)
                if amount
                for copy in self.all_copies(v, row)
            ]
            self.cnf.at_most(weighted, limit)

    def all_copies(self, u: int, row: int) -> list[Literal]:
        """One literal for each value of u that can be alive in `row` at once."""
        found: list[Literal] = []
        while True:
            literal = self.copies(u, row, len(found) + 1)
            if literal is False:
                return found
            found.append(literal)

    # Reading back

    def decode(self, value: Callable[[int], bool]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Issue cycles and groups of a solution; the order variables of one are monotone."""

        def holds(literal: Literal) -> bool:
            return literal if isinstance(literal, bool) else value(literal)

        starts = []
        for v, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            first, last = low, high
            while first < last:
                middle = (first + last) // 2
                if holds(self.by(v, middle)):
                    last = middle
                else:
                    first = middle + 1
            starts.append(first)
        teams = [next(k for k, literal in enumerate(row) if holds(literal)) for row in self.on]
        return tuple(starts), tuple(teams)

    def ends_by(self, length: int) -> list[int] | None:
        """Assumptions that the schedule is no longer than `length`; None when it cannot be."""
        found = []
        for v, operation in enumerate(self.loop.operations):
            literal = self.by(v, length - operation.cycles)
            if literal is False:
                return None
            if literal is not True:
                found.append(literal)
        return found


def allowed_teams(loop: Loop, v: int) -> list[int]:
    """Groups that may run v: enough warps, and variable latency where it belongs."""
    operation, producer = loop.operations[v], loop.variable_latency_team
    if not loop.has_teams:
        return [0]
    return [
        team
        for team, group in enumerate(loop.teams)
        if group.warps >= operation.warps
        and (producer is None or operation.variable_latency == (team == producer))
    ]


def interchangeable(loop: Loop) -> list[tuple[int, int]]:
    """Successive groups that differ in nothing but their names."""
    pairs = []
    for second, b in enumerate(loop.teams):
        for first in range(second - 1, -1, -1):
            a = loop.teams[first]
            alike = (a.warps, a.registers_per_thread) == (b.warps, b.registers_per_thread)
            if alike and not a.variable_latency and not b.variable_latency:
                pairs.append((first, second))
                break
    return pairs


def precedence(loop: Loop, ii: int) -> list[tuple[int, int, int]]:
    """M(v) >= M(u) + weight: dependences, and rings of slots (a value ends before it is reused)."""
    best: dict[tuple[int, int], int] = {}

    def arc(u: int, v: int, weight: int) -> None:
        best[(u, v)] = max(weight, best.get((u, v), weight))

    for e in loop.dependences:
        arc(e.source, e.sink, e.delay_cycles - e.distance * ii)
        slots = loop.operations[e.source].slots
        if slots is not None and e.kind == DATA:
            arc(e.sink, e.source, (e.distance - slots) * ii + e.hold_cycles)
    return [(u, v, weight) for (u, v), weight in best.items()]


def windows(
    loop: Loop, arcs: list[tuple[int, int, int]], horizon: int
) -> tuple[list[int], list[int]]:
    """Earliest and latest issue cycles within the horizon. Raises Infeasible."""
    n = len(loop.operations)
    low = [0] * n
    high = [horizon - operation.cycles for operation in loop.operations]
    for turn in range(n + 1):
        changed = False
        for u, v, weight in arcs:
            if low[u] + weight > low[v]:
                low[v] = low[u] + weight
                changed = True
            if high[v] - weight < high[u]:
                high[u] = high[v] - weight
                changed = True
        if not changed:
            break
        if turn == n:
            raise Infeasible("a dependence cycle is longer than the interval allows")
    if any(a > b for a, b in zip(low, high, strict=True)):
        raise Infeasible("the dependences do not fit into the horizon")
    return low, high


def shortest(loop: Loop, ii: int) -> int:
    """The least length that the dependences allow. Raises Infeasible."""
    large = sum(op.cycles for op in loop.operations) + sum(
        max(0, weight) for _, _, weight in precedence(loop, ii)
    )
    low, _ = windows(loop, precedence(loop, ii), large + 1)
    return max(t + op.cycles for t, op in zip(low, loop.operations, strict=True))
