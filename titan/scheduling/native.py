"""Chooses between the C inner loops and their plain Python twins, which give the same answers.

The C module is absent where it was not built; `TITAN_PURE=1` switches it off.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from titan.foundation.native_core import check_core
from titan.scheduling import iterative as plain
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
    keep = [
        ffi.new("int[]", source),
        ffi.new("int[]", sink),
        ffi.new("int64_t[]", delay),
        ffi.new("int[]", distance),
    ]
    p = ffi.new("problem *", {"n": n, "m": len(arcs), "source": keep[0], "sink": keep[1]})
    p.delay, p.distance = keep[2], keep[3]
    cycle, length = ffi.new("int[]", n + 1), ffi.new("int *")
    ii = module.lib.titan_recurrence(p, cycle, length)
    witness = tuple(cycle[i] for i in range(length[0]))
    if ii < 0:
        raise PositiveCycle(witness)
    return int(ii), witness or unit_cycle(arcs)


class Placer:
    """Iterative modulo scheduling of one problem at any interval; C arrays are made once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.module = None if problem.fractional else core()
        if self.module is not None:
            self._load()

    def _load(self) -> None:
        assert self.module is not None
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
            "delay": ffi.new("int64_t[]", arcs[2]),
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
        self.p = ffi.new("problem *", self.keep)
        self.p.n, self.p.m = problem.n, len(problem.arcs)
        self.p.units = len(problem.capacity)
        self.p.teams = max(problem.teams, default=-1) + 1

    def heights(self, ii: int) -> list[int] | None:
        """Longest paths to the end at this interval; None where a cycle is longer than it."""
        if self.module is None:
            return plain.heights(self.problem, ii)
        out = self.module.ffi.new("int64_t[]", self.problem.n + 1)
        if not self.module.lib.titan_heights(self.p, ii, out):
            return None
        return list(self.module.ffi.unpack(out, self.problem.n)) if self.problem.n else []

    def place(self, ii: int, budget: int, priority: list[int]) -> tuple[list[int] | None, int, int]:
        """As titan.scheduling.iterative.iterative."""
        rows = ii * (len(self.problem.capacity) + 2 * len(set(self.problem.teams)))
        if self.module is None or ii >= _LIMIT or rows > _LIMIT // 8:
            return plain.iterative(self.problem, ii, budget, priority)
        n, ffi = self.problem.n, self.module.ffi
        seats = ffi.new("int64_t *")
        start = ffi.new("int64_t[]", n + 1)
        steps = self.module.lib.titan_iterative(self.p, ii, budget, priority, start, seats)
        if steps < 0:
            return None, int(-steps - 1), int(seats[0])
        return (list(ffi.unpack(start, n)) if n else []), int(steps), int(seats[0])
