"""What every schedule of an interval satisfies, as clauses; and the check of a refutation.

Trusted; plain code without a solver, and none of the scheduler's: it shares the loop model with
them and nothing else. The clauses follow from the constraints of `check.py`, for schedules of every
length. If they have no solution, no schedule of this interval exists. They need not be all that a
schedule must satisfy: what is left out makes a refutation harder to find and never wrong.

Why a finite formula refers to every length: moving a whole schedule changes nothing, because
dependences and lifetimes are differences and all else depends on residues, so one operation, the
anchor, is issued at cycle 0. Differences are bounded: from below by dependences, from above by
rings (a value ends before its slot is written again) and by limits: a value that takes R of a limit
of L and lives T cycles has ceil(T / ii) copies alive in some cycle, so T is at most floor(L / R)
ii. The shortest paths over these bounds are the windows. Where one is missing nothing is refuted.

Variables: `by(v, t)`, v is issued at cycle t or before; `on[v][g]`, v runs on group g. All others
are implied by what they represent ("v holds this row", "so many copies are alive in this row"), so
that every schedule gives a solution: make exactly those true whose meaning is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from titan.foundation.errors import Refusal, TitanError
from titan.foundation.verdict import Reason
from titan.scheduling.loop.model import DATA, Dependence, Loop
from titan.scheduling.rup import refutes

REGISTERS = "registers"
CYCLES_MAX = 400_000
OPERATIONS_MAX = 200
CLAUSES_MAX = 4_000_000
POOL_TERMS_MAX = 200_000
Literal = int | bool


class Unbounded(Refusal):
    """The distance between two operations has no bound here, or the formula is too large."""

    reason = Reason.TOO_LARGE


class Contradiction(TitanError):
    """The bounds contradict each other: plain arithmetic refutes the interval."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Copies of values that cannot be alive in one cycle: `what` is a memory, or registers."""

    what: str
    copies: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Refutation:
    """The interval, which parts of the formula are used, and the lemmas that show a contradiction.

    `pairs`: (v, o), v waits while o may be being issued.
    """

    ii: int
    covers: tuple[Cover, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    lemmas: tuple[tuple[int, ...], ...] = ()


def check_refutation(loop: Loop, claim: Refutation, visits: int | None = None) -> str | None:
    """What is wrong with the claim, or None: no schedule of this interval exists.

    Raises rup.Late after so many visits of clauses.
    """
    if claim.ii < 1:
        return f"{claim.ii} is not an interval"
    try:
        formula = Formula(loop, claim.ii)
        for v, o in claim.pairs:
            formula.apart(v, o)
        for cover in claim.covers:
            formula.cover(cover)
        if not refutes(formula.variables, formula.clauses, claim.lemmas, visits):
            return f"the lemmas do not refute interval {claim.ii}"
    except Contradiction:
        return None
    except (Unbounded, ValueError) as error:
        return f"interval {claim.ii}: {error}"
    return None


def no(literal: Literal) -> Literal:
    """The negation of a literal or constant."""
    return (not literal) if isinstance(literal, bool) else -literal


class Formula:
    """The clauses for one interval. Raises Unbounded and Contradiction."""

    def __init__(self, loop: Loop, ii: int) -> None:
        self.loop, self.ii = loop, ii
        self.n = len(loop.operations)
        if self.n > OPERATIONS_MAX:
            raise Unbounded(f"more than {OPERATIONS_MAX} operations")
        self.clauses: list[list[int]] = []
        self.variables = 0
        self.low, self.high = windows(loop, ii)
        if sum(self.high) - sum(self.low) > CYCLES_MAX:
            raise Unbounded(f"the operations are more than {CYCLES_MAX} cycles apart")
        self._first = []
        for low, high in zip(self.low, self.high, strict=True):
            self._first.append(self.variables + 1)
            self.variables += high - low
        for v in range(self.n):
            for t in range(self.low[v], self.high[v]):
                self.add(no(self.by(v, t)), self.by(v, t + 1))
        self.on = [self.groups(v) for v in range(self.n)]
        self._held: dict[tuple[int, int, int], list[Literal]] = {}
        self._apart: dict[tuple[int, int], Literal] = {}
        self._copies: dict[tuple[int, int], list[Literal]] = {}
        self.dependences()
        self.units()
        self.pools()

    def variable(self) -> int:
        """A new variable."""
        self.variables += 1
        return self.variables

    def add(self, *literals: Literal) -> None:
        """One of them holds."""
        clause: list[int] = []
        for literal in literals:
            if literal is True:
                return
            if literal is not False:
                clause.append(literal)
        if len(self.clauses) >= CLAUSES_MAX:
            raise Unbounded(f"more than {CLAUSES_MAX} clauses")
        self.clauses.append(clause)

    def by(self, v: int, t: int) -> Literal:
        """v is issued at cycle t or before."""
        if t < self.low[v]:
            return False
        if t >= self.high[v]:
            return True
        return self._first[v] + t - self.low[v]

    def groups(self, v: int) -> list[Literal]:
        """v runs on one of the groups that may run it."""
        allowed = able(self.loop, v)
        if not allowed:
            raise Contradiction
        if len(allowed) == 1:
            return [g == allowed[0] for g in range(len(self.loop.teams))]
        row: list[Literal] = [
            self.variable() if g in allowed else False for g in range(len(self.loop.teams))
        ]
        self.add(*row)
        for i, a in enumerate(row):
            for b in row[:i]:
                self.add(no(a), no(b))
        return row

    def dependences(self) -> None:
        """Delays, the wait for a transfer between groups on top, and rings of slots."""
        for e in self.loop.dependences:
            weight = e.delay_cycles - e.distance * self.ii
            self.after(e.source, e.sink, weight, False)
            if e.kind == DATA and self.spill(e) and e.source != e.sink:
                late = weight + self.spill(e)
                self.after(e.source, e.sink, late, no(self.apart_literal(e)))
            slots = self.loop.operations[e.source].slots
            if slots is not None and e.kind == DATA:
                back = (e.distance - slots) * self.ii + e.hold_cycles
                self.after(e.sink, e.source, back, False)

    def spill(self, e: Dependence) -> int:
        """Cycles of the transfer of a value to another group."""
        return self.loop.operations[e.source].spill_cycles

    def after(self, u: int, v: int, weight: int, unless: Literal) -> None:
        """v is issued `weight` cycles after u or later, unless the literal holds."""
        if u == v:
            if weight > 0:
                self.add(unless)
            return
        for t in range(self.low[v], max(self.high[v], self.high[u] + weight) + 1):
            self.add(unless, no(self.by(v, t)), self.by(u, t - weight))

    def apart_literal(self, e: Dependence) -> Literal:
        """The ends of e are on different groups: true where they are."""
        key = (min(e.source, e.sink), max(e.source, e.sink))
        if key not in self._apart:
            self._apart[key] = self.new_apart(*key)
        return self._apart[key]

    def new_apart(self, u: int, v: int) -> Literal:
        """A literal that is true where u and v are on different groups."""
        pairs = [
            (a, b)
            for i, a in enumerate(self.on[u])
            for k, b in enumerate(self.on[v])
            if i != k and a is not False and b is not False
        ]
        if not pairs:
            return False
        if any(a is True and b is True for a, b in pairs):
            return True
        found = self.variable()
        for a, b in pairs:
            self.add(no(a), no(b), found)
        return found

    # Rows of the interval

    def held(self, v: int, first: int, cycles: int) -> list[Literal]:
        """For each row: v holds it, from `first` cycles after its issue on, for less than ii."""
        key = (v, first, cycles)
        if key not in self._held:
            rows: list[Literal] = [False] * self.ii
            for t in range(self.low[v] + first, self.high[v] + first + cycles):
                issued, over = self.by(v, t - first), self.by(v, t - first - cycles)
                if issued is False or over is True:
                    continue
                if rows[t % self.ii] is False:
                    rows[t % self.ii] = self.variable()
                self.add(no(issued), over, rows[t % self.ii])
            self._held[key] = rows
        return self._held[key]

    def uses(self, weights: dict[str, int]) -> tuple[int, list[tuple[list[Literal], int]]]:
        """What is used in every row by any schedule, and which operation uses how much in which
        row.
        """
        always, found = 0, []
        for v, operation in enumerate(self.loop.operations):
            for use in operation.uses:
                amount = use.amount * weights.get(use.unit, 0)
                turns, rest = divmod(use.cycles, self.ii)
                always += turns * amount
                if rest and amount:
                    found.append((self.held(v, use.first_cycle, rest), amount))
        return always, found

    def units(self) -> None:
        """No row of a unit is taken more often than the unit has instances."""
        for name in sorted({use.unit for op in self.loop.operations for use in op.uses}):
            always, blocks = self.uses({name: 1})
            for row in range(self.ii):
                taken = [(rows[row], amount) for rows, amount in blocks]
                self.at_most(taken, self.loop.units[name].capacity - always)

    def pools(self) -> None:
        """Every window of a pool; left out where it would be large."""
        for pool in self.loop.pools:
            always, blocks = self.uses(dict(pool.members))
            if self.ii * pool.window_cycles * len(blocks) > POOL_TERMS_MAX:
                continue
            for row in range(self.ii):
                taken = [
                    (rows[(row + k) % self.ii], amount)
                    for k in range(pool.window_cycles)
                    for rows, amount in blocks
                ]
                self.at_most(taken, pool.amount - always * pool.window_cycles)

    def at_most(self, taken: list[tuple[Literal, int]], limit: int) -> None:
        """The amounts of those that hold sum to at most `limit`."""
        weights: dict[int, int] = {}
        for literal, amount in taken:
            if literal is True:
                limit -= amount
            elif literal is not False:
                weights[literal] = weights.get(literal, 0) + amount
        if limit < 0:
            raise Contradiction
        items = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
        if sum(amount for _, amount in items) <= limit:
            return
        if len(items) < 2 or items[-1][1] + items[-2][1] > limit:
            for i, (a, amount) in enumerate(items):
                if amount > limit:
                    self.add(-a)
                for b, _ in items[:i]:
                    self.add(-a, -b)
            return
        self.sums(items, limit)

    def sums(self, items: list[tuple[int, int]], limit: int) -> None:
        """A variable for "those so far sum to this or more", for every sum that can occur."""
        reached: dict[int, Literal] = {0: True}
        for literal, amount in items:
            more = {total + amount for total in reached if total + amount <= limit}
            following: dict[int, Literal] = {0: True}
            for total in sorted((more | set(reached)) - {0}):
                following[total] = self.variable()
            for total, here in reached.items():
                self.add(no(here), following[total])
                beyond = following[total + amount] if total + amount <= limit else False
                self.add(no(here), -literal, beyond)
            reached = following

    # Parts that a refutation asks for

    def apart(self, v: int, o: int) -> None:
        """While v waits at its issue, o of the same group is not being issued."""
        if not (0 <= v < self.n and 0 <= o < self.n and v != o):
            raise ValueError("no pair of operations")
        if not self.loop.has_teams:
            raise ValueError("no operation waits without warp groups")
        causes: list[Literal] = []
        for e in self.loop.dependences:
            if e.sink == v and e.blocking:
                causes.append(True)
            elif e.sink == v and e.source != v and e.kind == DATA and self.spill(e):
                causes.append(self.apart_literal(e))
        window = self.loop.operations[o].issue_window
        every: list[Literal] = [True] * self.ii
        issued = self.held(v, 0, 1) if self.ii > 1 else every
        issuing = self.held(o, 0, window) if window < self.ii else every
        for cause in sorted(set(causes), key=str):
            for a, b in zip(self.on[v], self.on[o], strict=True):
                for x, y in zip(issued, issuing, strict=True):
                    self.add(no(cause), no(a), no(b), no(x), no(y))

    def cover(self, cover: Cover) -> None:
        """The copies of a cover are never alive together. Raises ValueError where they may be."""
        operations = self.loop.operations
        named = [u for u, _ in cover.copies]
        if len(set(named)) < len(named) or any(not 0 <= u < self.n for u in named):
            raise ValueError("a cover names operations of the loop, each once")
        if any(count < 1 for _, count in cover.copies):
            raise ValueError("a cover has one copy of a value or more")
        if cover.what == REGISTERS:
            words = sum(operations[u].registers * count for u, count in cover.copies)
            for g in range(len(self.loop.teams)):
                limit = self.loop.team_words(g)
                if limit is not None and words > limit:
                    self.never_alive(cover, [no(self.on[u][g]) for u in named])
            return
        taken = rings(self.loop, cover.what)
        for u, count in cover.copies:
            if operations[u].slots is None:
                taken += dict(operations[u].footprints).get(cover.what, 0) * count
        if cover.what not in self.loop.limits or taken <= self.loop.limits[cover.what]:
            raise ValueError(f"the values of a cover fit into {cover.what}")
        self.never_alive(cover, [])

    def never_alive(self, cover: Cover, unless: Sequence[Literal]) -> None:
        """The values of a cover are not alive in one row together, unless a literal holds."""
        for row in range(self.ii):
            alive = [no(self.copies(u, count)[row]) for u, count in cover.copies]
            self.add(*alive, *unless)

    def copies(self, u: int, count: int) -> list[Literal]:
        """For each row: `count` values of u or more are alive in it.

        Alive at cycle t and at t + (count - 1) ii: issued by the first, and used after the second.
        """
        key = (u, count)
        if key in self._copies:
            return self._copies[key]
        more = (count - 1) * self.ii
        rows: list[Literal] = [False] * self.ii
        for e in self.loop.dependences:
            if e.source != u or e.kind != DATA:
                continue
            shift = e.distance * self.ii + e.hold_cycles
            for t in range(self.low[u], self.high[e.sink] + shift - more):
                issued, used = self.by(u, t), self.by(e.sink, t + more - shift)
                if used is True:
                    continue
                if rows[t % self.ii] is False:
                    rows[t % self.ii] = self.variable()
                self.add(no(issued), used, rows[t % self.ii])
        self._copies[key] = rows
        return rows


def able(loop: Loop, v: int) -> list[int]:
    """The groups that may run v, as the checker has it."""
    if not loop.groups:
        return [0]
    producers = [g for g, group in enumerate(loop.groups) if group.variable_latency][:1]
    special = loop.operations[v].variable_latency
    return [
        g
        for g, group in enumerate(loop.groups)
        if group.warps >= loop.operations[v].warps
        and (not producers or special == (g in producers))
    ]


def rings(loop: Loop, memory: str) -> int:
    """What rings own of a memory for the whole loop."""
    return sum(
        op.slots * amount
        for op in loop.operations
        if op.slots is not None
        for name, amount in op.footprints
        if name == memory
    )


def windows(loop: Loop, ii: int) -> tuple[list[int], list[int]]:
    """First and last issue cycle of each operation, when the anchor is issued at cycle 0."""
    n = len(loop.operations)
    most = differences(loop, ii)
    for k in range(n):
        through = most[k]
        for row in most:
            first = row[k]
            if first is None:
                continue
            for v, second in enumerate(through):
                if second is not None:
                    old = row[v]
                    if old is None or first + second < old:
                        row[v] = first + second
    if any((most[v][v] or 0) < 0 for v in range(n)):
        raise Contradiction
    best: tuple[int, list[int], list[int]] | None = None
    for anchor in range(n):
        high = [x for x in most[anchor] if x is not None]
        low = [-x for row in most if (x := row[anchor]) is not None]
        if len(high) < n or len(low) < n:
            raise Unbounded("two operations can be any number of cycles apart")
        width = sum(high) - sum(low)
        if best is None or width < best[0]:
            best = (width, low, high)
    assert best is not None
    return best[1], best[2]


def differences(loop: Loop, ii: int) -> list[list[int | None]]:
    """Entry (u, v): the issue of v less that of u is at most this, by one constraint alone."""
    n = len(loop.operations)
    most: list[list[int | None]] = [[0 if u == v else None for v in range(n)] for u in range(n)]

    def bound(u: int, v: int, cycles: int) -> None:
        old = most[u][v]
        if old is None or cycles < old:
            most[u][v] = cycles

    for e in loop.dependences:
        bound(e.sink, e.source, e.distance * ii - e.delay_cycles)
        if e.kind == DATA:
            turns = copies_max(loop, e.source)
            if turns is not None:
                bound(e.source, e.sink, (turns - e.distance) * ii - e.hold_cycles)
    return most


def copies_max(loop: Loop, u: int) -> int | None:
    """How many values of u can be alive in one cycle, or None."""
    operation = loop.operations[u]
    found = [] if operation.slots is None else [operation.slots]
    words = [loop.team_words(g) for g in able(loop, u)]
    if operation.registers and None not in words:
        found.append(max((x for x in words if x is not None), default=0) // operation.registers)
    for memory, amount in operation.footprints:
        if operation.slots is None and amount and memory in loop.limits:
            left = loop.limits[memory] - rings(loop, memory)
            found.append(max(0, left) // amount)
    return min(found, default=None)
