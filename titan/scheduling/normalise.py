"""Cost normalisation (Twill, section 5.2), solved exactly.

Given cycle counts C, find whole numbers C' with sum at most U that minimise F, the largest
|C[i] C'[j] - C[j] C'[i]|. A cost that is positive stays positive: a normalised graph in which most
operations are free proves nothing about the real one. The optimum is seldom unique, so a second
objective chooses: the least total distortion relative to the scale, then the finest scale.

The largest cost fixes the scale. For each value it can take, every other cost has few candidates
within the best F so far, and a depth-first search over the distinct costs finds the rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason
from titan.scheduling.loop.model import Loop


@dataclass(frozen=True, slots=True)
class Normalisation:
    """`costs` maps each original cost to its new one; `distortion` is F.

    `ratio_error` is the largest relative error of a ratio of two costs, and `scale` the new cycles
    of an original cycle. Exact means that every ratio is kept.
    """

    costs: dict[int, int]
    distortion: int
    ratio_error: Fraction
    scale: Fraction
    total: int
    explored: int

    @property
    def exact(self) -> bool:
        """Whether all ratios are kept."""
        return self.distortion == 0


class TooSmall(Refusal):
    """No normalisation with positive costs has a sum within the limit."""

    reason = Reason.TOO_LARGE


def normalise(costs: list[int], total_max: int) -> Normalisation:
    """Normalise positive costs, given with repetitions. Raises TooSmall."""
    counts = Counter(costs)
    values = sorted(counts, reverse=True)
    if not values:
        return Normalisation({}, 0, Fraction(0), Fraction(1), 0, 0)
    if sum(counts.values()) > total_max:
        raise TooSmall(f"{sum(counts.values())} costs cannot sum to at most {total_max}")
    search = _Search(values, [counts[v] for v in values], total_max)
    for scale in range(1, total_max // counts[values[0]] + 1):
        search.largest(scale)
    assert search.best is not None
    chosen = dict(zip(values, search.best, strict=True))
    ratio = Fraction(search.best[0], values[0])
    error = max(
        (abs(Fraction(chosen[a] * b, chosen[b] * a) - 1) for a in values for b in values),
        default=Fraction(0),
    )
    total = sum(chosen[c] for c in costs)
    return Normalisation(chosen, search.bound, error, ratio, total, search.explored)


class _Search:
    def __init__(self, values: list[int], counts: list[int], total_max: int) -> None:
        self.values = values
        self.counts = counts
        self.total_max = total_max
        self.bound = values[0] * total_max + 1
        self.key: tuple[Fraction, int, tuple[int, ...]] | None = None
        self.best: tuple[int, ...] | None = None
        self.explored = 0
        self.rest = [sum(counts[i:]) for i in range(len(counts) + 1)]

    def largest(self, scale: int) -> None:
        """Everything in which the largest cost becomes `scale`."""
        self._extend([scale], scale * self.counts[0], 0)

    def _extend(self, chosen: list[int], total: int, worst: int) -> None:
        i = len(chosen)
        if i == len(self.values):
            self._offer(tuple(chosen), worst)
            return
        self.explored += 1
        top, value, scale = self.values[0], self.values[i], chosen[0]
        low = max(1, -(-(value * scale - self.bound) // top))
        high = (value * scale + self.bound) // top
        room = self.total_max - total - self.rest[i + 1]
        high = min(high, room // self.counts[i], chosen[-1])
        candidates = sorted(range(low, high + 1), key=lambda x: (abs(top * x - value * scale), x))
        for x in candidates:
            errors = [abs(self.values[j] * x - value * chosen[j]) for j in range(i)]
            now = max(worst, *errors)
            if now > self.bound:
                if abs(top * x - value * scale) > self.bound:
                    break
                continue
            self._extend([*chosen, x], total + x * self.counts[i], now)

    def _offer(self, chosen: tuple[int, ...], worst: int) -> None:
        top, scale = self.values[0], chosen[0]
        off = sum(
            n * abs(top * x - v * scale)
            for x, v, n in zip(chosen, self.values, self.counts, strict=True)
        )
        key = (Fraction(off, scale), -scale, chosen)
        if worst < self.bound or self.key is None or key < self.key:
            self.bound, self.key, self.best = worst, key, chosen


@dataclass(frozen=True, slots=True)
class Normalised:
    """A loop in fewer, coarser cycles, kept together with what it came from."""

    loop: Loop
    original: Loop
    normalisation: Normalisation


def normalise_loop(loop: Loop, total_max: int = 300) -> Normalised:
    """The loop in coarser cycles: costs of operations normalised, all else scaled and rounded up.

    Raises TooSmall. Pools with a window are kept only where the scale is 1, since a window is not
    a cost.
    """
    costs = [use.cycles for operation in loop.operations for use in operation.uses]
    if sum(costs) <= total_max or any(pool.window_cycles > 1 for pool in loop.pools):
        same = Normalisation({c: c for c in costs}, 0, Fraction(0), Fraction(1), sum(costs), 0)
        return Normalised(loop, loop, same)
    found = normalise(costs, total_max)

    def cycles(x: int) -> int:
        return found.costs.get(x) or -(-(x * found.scale.numerator) // found.scale.denominator)

    operations = tuple(
        replace(
            operation,
            uses=tuple(
                replace(use, cycles=cycles(use.cycles), first_cycle=cycles(use.first_cycle))
                for use in operation.uses
            ),
            latency_cycles=cycles(operation.latency_cycles),
            spill_cycles=cycles(operation.spill_cycles),
            issue_cycles=None if operation.issue_cycles is None else cycles(operation.issue_cycles),
        )
        for operation in loop.operations
    )
    dependences = tuple(
        replace(e, delay_cycles=cycles(e.delay_cycles), hold_cycles=cycles(e.hold_cycles))
        for e in loop.dependences
    )
    coarse = replace(loop, operations=operations, dependences=dependences)
    return Normalised(coarse, loop, found)
