"""Chooses between the C inner loops and their plain Python twins, which give the same answers.

The C module is absent where it was not built; `TITAN_PURE=1` switches it off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from titan.foundation.native_core import CData, check_core
from titan.scheduling import iterative as plain
from titan.scheduling.loop.model import Dependence, Loop, Operation, ReservationUse
from titan.scheduling.loop.recurrence import Arc, PositiveCycle, unit_cycle
from titan.scheduling.loop.recurrence import recurrence as plain_recurrence
from titan.scheduling.problem import Problem

_LIMIT = 1 << 30


def core() -> ModuleType | None:
    """The C module, or None. Raises StaleCoreError."""
    if os.environ.get("TITAN_PURE") == "1":
        return None
    try:
        from titan.scheduling import _core  # type: ignore[attr-defined]
    except ImportError:
        return None
    module: ModuleType = _core
    check_core(module, Path(__file__).parent)
    return module


def _fits(*numbers: list[int]) -> bool:
    """Do all numbers fit the C types with room for sums?"""
    return all(not group or (min(group) > -_LIMIT and max(group) < _LIMIT) for group in numbers)


def recurrence(n: int, arcs: list[Arc]) -> tuple[int, tuple[int, ...]]:
    """As titan.scheduling.loop.recurrence.recurrence."""
    module = core()
    if module is None or not arcs:
        return plain_recurrence(n, arcs)
    source, sink, delay, distance = (list(column) for column in zip(*arcs, strict=True))
    if not _fits(delay, distance):
        return plain_recurrence(n, arcs)
    ffi = module.ffi
    numbers = {"source": source, "sink": sink, "delay": delay, "distance": distance}
    keep = {name: ffi.new("int[]", column) for name, column in numbers.items()}
    p = _indexed(module, n, len(arcs), keep)
    found, witness = _recurrence(module, p)
    return found, witness or unit_cycle(arcs)


def _indexed(module: ModuleType, n: int, m: int, keep: dict[str, CData]) -> CData:
    """The problem with these columns, its arcs found by their ends; `keep` then holds them too."""
    ffi = module.ffi
    new = ffi.new_allocator(should_clear_after_alloc=False)
    keep |= {name: new("int[]", n + 2) for name in ("out_begin", "in_begin", "order")}
    keep |= {name: new("arc[]", m + 1) for name in ("out", "in")}
    p = ffi.new("problem *", keep)
    p.n, p.m = n, m
    module.lib.titan_index(p)
    return p


def _recurrence(module: ModuleType, p: CData) -> tuple[int, tuple[int, ...]]:
    cycle, length = module.ffi.new("int[]", p.n + 1), module.ffi.new("int *")
    ii = module.lib.titan_recurrence(p, cycle, length)
    witness = tuple(cycle[i] for i in range(length[0]))
    if ii < 0:
        raise PositiveCycle(witness)
    return int(ii), witness


@dataclass(frozen=True, slots=True)
class Columns:
    """A loop without warp groups, pools or storage, read by C into arrays."""

    module: ModuleType
    p: CData
    units: list[str]
    columns: CData
    keep: dict[str, CData]

    @property
    def sequential_ii(self) -> int:
        """An interval at which nothing overlaps."""
        return int(self.columns.sequential)

    def latest(self, starts: tuple[int, ...]) -> int:
        """The latest cycle at which a latency or the uses of an operation end."""
        return int(self.module.lib.titan_latest(self.columns, starts))

    def recurrence(self) -> tuple[int, tuple[int, ...]]:
        """As `recurrence`, but without a search for a self-arc where no cycle binds."""
        return _recurrence(self.module, self.p)

    def depth(self) -> int | None:
        """The longest path of one iteration; None where dependences of distance 0 are cyclic."""
        found = self.module.lib.titan_depth(self.p)
        return None if found < 0 else int(found)

    def demand(self) -> tuple[dict[str, int], int] | None:
        """Unit-cycles of an iteration, and the interval that one use alone asks for; None where
        one takes more of a unit than there is."""
        out = self.module.ffi.new("int64_t[]", len(self.units) + 1)
        alone = self.module.lib.titan_alone(self.p, out)
        if alone < 0:
            return None
        return {unit: int(out[i]) for i, unit in enumerate(self.units) if out[i]}, int(alone)


def read(loop: Loop) -> Columns | None:
    """The loop as columns; None where it has more than they hold, or the C module is absent."""
    module = core()
    if module is None or loop.groups or loop.pools or not loop.operations:
        return None
    ffi, address = module.ffi, lambda one: module.ffi.cast("uintptr_t", id(one))
    n, m = len(loop.operations), len(loop.dependences)
    uses = module.lib.titan_count_uses(address(loop.operations), address(Operation))
    units = sorted(loop.units)
    capacity = [loop.units[unit].capacity for unit in units]
    if uses < 0 or m >= _LIMIT or not _fits(capacity):
        return None
    new = ffi.new_allocator(should_clear_after_alloc=False)
    keep = {name: new("int[]", m + 1) for name in ("source", "sink", "delay", "distance")}
    for name in ("use_unit", "use_first", "use_cycles", "use_amount"):
        keep[name] = new("int[]", uses + 1)
    keep["use_begin"], finish = new("int[]", n + 1), new("int[]", n + 1)
    c = ffi.new("loop_columns *", {**keep, "finish": finish, "n": n, "m": m, "uses": uses})
    numbers = {unit: i for i, unit in enumerate(units)}
    types = (Operation, ReservationUse, Dependence)
    given = (loop.operations, loop.dependences, types, numbers)
    if not module.lib.titan_read(*map(address, given), c) or c.stored:
        return None
    none, teams = ffi.new("int[]", n + 1), ffi.new("int[]", n + 1)
    ffi.buffer(teams)[:] = b"\xff" * ffi.sizeof(teams)  # -1: no group
    keep |= {"capacity": ffi.new("int[]", capacity), "team": teams, "window": none, "waits": none}
    p = _indexed(module, n, m, keep)
    p.units, p.teams = len(units), 0
    return Columns(module, p, units, c, {**keep, "finish": finish})


Order = list[int] | CData  # a number for every operation, in Python or in C


class Placer:
    """Iterative modulo scheduling of one problem at any interval; C arrays are made once, or come
    with a loop that was read as columns."""

    def __init__(
        self, problem: Problem | Callable[[], Problem], read: Columns | None = None
    ) -> None:
        self._problem = problem
        self.module = read.module if read is not None else None
        if read is not None:
            self.keep, self.p = read.keep, read.p
        elif not self.problem.fractional:
            self.module = core()
            self._load()

    @property
    def problem(self) -> Problem:
        """As plain Python places it; compiled when it is first needed."""
        if not isinstance(self._problem, Problem):
            self._problem = self._problem()
        return self._problem

    def _load(self) -> None:
        if self.module is None:
            return
        problem, ffi = self.problem, self.module.ffi
        begin, flat = [0], []
        for blocks in problem.blocks:
            flat.extend(blocks)
            begin.append(len(flat))
        columns = [list(column) for column in zip(*flat, strict=True)] if flat else [[]] * 4
        arcs = [list(c) for c in zip(*problem.arcs, strict=True)] if problem.arcs else [[]] * 4
        numbers = [*columns, *arcs, problem.windows, problem.capacity]
        if not _fits(*numbers):
            self.module = None
            return
        self.keep = {
            "source": ffi.new("int[]", arcs[0]),
            "sink": ffi.new("int[]", arcs[1]),
            "delay": ffi.new("int[]", arcs[2]),
            "distance": ffi.new("int[]", arcs[3]),
            "use_begin": ffi.new("int[]", begin),
            "use_unit": ffi.new("int[]", columns[0]),
            "use_first": ffi.new("int[]", columns[1]),
            "use_cycles": ffi.new("int[]", columns[2]),
            "use_amount": ffi.new("int[]", columns[3]),
            "capacity": ffi.new("int[]", problem.capacity),
            "team": ffi.new("int[]", problem.teams),
            "window": ffi.new("int[]", problem.windows),
            "waits": ffi.new("int[]", [int(w) for w in problem.waits]),
        }
        self.p = _indexed(self.module, problem.n, len(problem.arcs), self.keep)
        self.p.units = len(problem.capacity)
        self.p.teams = max(problem.teams, default=-1) + 1

    def heights(self, ii: int) -> list[int] | None:
        """Longest paths to the end at this interval; None where a cycle is longer than it."""
        order = self.by_height(ii)
        return None if order is None else self.numbers(order)

    def by_height(self, ii: int) -> Order | None:
        """The heights as an order to place by."""
        if self.module is None:
            return plain.heights(self.problem, ii)
        out = self.module.ffi.new("int64_t[]", self.p.n + 1)
        return out if self.module.lib.titan_heights(self.p, ii, out) else None

    def by_width(self, heights: Order) -> Order:
        """The widest reservation first, then by height."""
        if self.module is None or isinstance(heights, list):
            wide = [max((c for _, _, c, _ in of), default=0) for of in self.problem.blocks]
            scale = max(heights, default=0) + 1
            return [w * scale + h for w, h in zip(wide, heights, strict=True)]
        out = self.module.ffi.new("int64_t[]", self.p.n + 1)
        self.module.lib.titan_wide_first(self.p, heights, out)
        return out

    def numbers(self, order: Order) -> list[int]:
        """An order as a list."""
        if self.module is None or isinstance(order, list):
            return list(order)
        return list(self.module.ffi.unpack(order, self.p.n)) if self.p.n else []

    @property
    def reservations(self) -> int:
        """How many uses of a unit there are."""
        if self.module is None:
            return sum(map(len, self.problem.blocks))
        return int(self.p.use_begin[self.p.n])

    def rows(self, ii: int) -> int:
        """Rows that placing every operation once writes."""
        if self.module is None:
            return sum(min(cycles, ii) for of in self.problem.blocks for _, _, cycles, _ in of)
        return int(self.module.lib.titan_rows(self.p, ii))

    def place(self, ii: int, budget: int, priority: Order) -> tuple[list[int] | None, int, int]:
        """As titan.scheduling.iterative.iterative."""
        if self.module is None or ii >= _LIMIT or self._table(ii) > _LIMIT // 8:
            return plain.iterative(self.problem, ii, budget, self.numbers(priority))
        n, ffi = self.p.n, self.module.ffi
        seats = ffi.new("int64_t *")
        start = ffi.new("int64_t[]", n + 1)
        steps = self.module.lib.titan_iterative(self.p, ii, budget, priority, start, seats)
        if steps < 0:
            return None, int(-steps - 1), int(seats[0])
        return (ffi.unpack(start, n) if n else []), int(steps), int(seats[0])

    def _table(self, ii: int) -> int:
        """Cells of the tables that placing at this interval takes."""
        return ii * (self.p.units + 2 * max(1, self.p.teams))
