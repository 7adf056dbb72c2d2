"""How accurate is the machine model, and which rates fit the measurements?

The model gives each kernel terms: cycles that one iteration takes at least, for each unit, for the
ring (latency by depth) and for values carried from one iteration to the next. What an iteration
takes is the largest of them:

    cycles = overhead + max over terms of scale[term] * cycles of the term

Every scale is 1 where the machine description is right. The fit assigns each measurement to the
term that is largest, solves the least squares of relative errors, and does so again until nothing
changes, from several starts. A term that is never the largest is not fitted: it is only known to be
small enough, and by how much. NumPy and nothing else.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from titan.device.documents import FittedMachine, FittedRate, Rates
from titan.device.records import DeviceFacts

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]
    Integers = NDArray[numpy.intp]

FORMAT = "1"
ROUNDS_MAX = 100
BOOSTS = (0.3, 3.0)
EXACT = 1e-5  # relative errors below it are none
ALIKE = 1e-6  # terms of which one is a multiple of the other, over all measurements


@dataclass(frozen=True, slots=True)
class Observation:
    """Measured cycles of one iteration, and what the model says of each term."""

    name: str
    cycles: float
    terms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FittedTerm:
    """`state`: fitted; bounded (never the largest: the scale is at most `at_most`); not seen."""

    name: str
    state: str
    scale: float | None = None
    error: float | None = None  # standard error, where more measurements than unknowns
    at_most: float | None = None
    measurements: int = 0
    alike: tuple[str, ...] = ()  # terms that the measurements cannot distinguish from this one


@dataclass(frozen=True, slots=True)
class Residual:
    """Cycles of one measurement beside the model's, and the term that binds it."""

    name: str
    measured: float
    before: float  # by the description as it is
    after: float
    binding: str


@dataclass(frozen=True, slots=True)
class Fit:
    """`remarks`: what the measurements do not determine. Errors are relative, root mean square."""

    terms: tuple[FittedTerm, ...]
    overhead: float | None
    residuals: tuple[Residual, ...]
    error_before: float | None
    error_after: float | None
    remarks: tuple[str, ...] = ()

    def scale(self, name: str) -> float | None:
        """The scale of a term; None where it was not fitted."""
        return next((term.scale for term in self.terms if term.name == name), None)


@dataclass(slots=True)
class _Solution:
    scales: Floats
    overhead: float
    with_overhead: bool
    binding: Integers
    cost: float
    errors: dict[int, float]


def fit(observations: Sequence[Observation]) -> Fit:
    """The scales that fit best. Measurements without cycles or terms are left out, and remarked."""
    import numpy

    good = [o for o in observations if _usable(o)]
    remarks = []
    if len(good) < len(observations):
        remarks.append(f"{len(observations) - len(good)} measurements have no cycles or no terms")
    names = sorted({name for observation in good for name in observation.terms})
    if not good:
        return Fit((), None, (), None, None, (*remarks, "nothing was measured"))
    work = numpy.array([[o.terms.get(name, 0.0) for name in names] for o in good])
    cycles = numpy.array([o.cycles for o in good])
    starts = [numpy.ones(len(names))]
    for column in range(len(names)):
        for boost in BOOSTS:
            start = numpy.ones(len(names))
            start[column] = boost
            starts.append(start)
    found = [s for start in starts if (s := _descend(work, cycles, start)) is not None]
    if not found:
        return Fit((), None, (), None, None, (*remarks, "no scales fit the measurements"))
    best = min(found, key=lambda solution: _merit(solution, len(good)))
    if not best.with_overhead:
        remarks.append(
            "the overhead of an iteration cannot be distinguished from the rates; it is taken as 0"
        )
    terms = tuple(_term(number, names, work, cycles, best) for number in range(len(names)))
    for term in terms:
        if term.alike:
            remarks.append(f"{term.name} cannot be distinguished from {', '.join(term.alike)}")
    before = work.max(axis=1)
    after = best.overhead + (work * best.scales).max(axis=1)
    residuals = tuple(
        Residual(o.name, o.cycles, float(before[i]), float(after[i]), names[best.binding[i]])
        for i, o in enumerate(good)
    )
    return Fit(
        terms, best.overhead if best.with_overhead else None, residuals,
        _error(before, cycles), _error(after, cycles), tuple(remarks),
    )  # fmt: skip


def _merit(solution: _Solution, count: int) -> tuple[float, float]:
    """Less is better: Akaike's criterion, then the distance from the description as it is.

    Without it a term of its own for every measurement would fit everything.
    """
    import numpy

    unknowns = len(numpy.unique(solution.binding)) + solution.with_overhead
    spread = max(solution.cost / count, EXACT**2)
    distance = float(numpy.sum(numpy.log(numpy.maximum(solution.scales, 1e-6)) ** 2))
    return round(count * float(numpy.log(spread)) + 2.0 * unknowns, 6), distance


def _usable(observation: Observation) -> bool:
    finite = 0 < observation.cycles < float("inf")
    return finite and any(value > 0 for value in observation.terms.values())


def _error(model: Floats, cycles: Floats) -> float:
    import numpy

    return float(numpy.sqrt(numpy.mean((model / cycles - 1.0) ** 2)))


def _descend(work: Floats, cycles: Floats, start: Floats) -> _Solution | None:
    """Assign, solve, assign again; the best of what was met on the way."""
    import numpy

    scales, overhead = start, 0.0
    seen: set[tuple[int, ...]] = set()
    best: _Solution | None = None
    for _ in range(ROUNDS_MAX):
        binding = (work * scales).argmax(axis=1)
        key = tuple(int(number) for number in binding)
        if key in seen:
            break
        seen.add(key)
        solved = _solve(work, cycles, binding)
        if solved is None:
            break
        values, overhead, with_overhead, errors = solved
        scales = start.copy()
        for number, value in values.items():
            scales[number] = value
        limits = _limits(work, cycles, overhead)
        for number in range(len(scales)):
            if number not in values:  # never the largest: no larger than the measurements allow
                scales[number] = min(scales[number], limits[number])
        model = overhead + (work * scales).max(axis=1)
        cost = float(numpy.sum((model / cycles - 1.0) ** 2))
        if best is None or cost < best.cost:
            last = (work * scales).argmax(axis=1)
            best = _Solution(scales.copy(), overhead, with_overhead, last, cost, errors)
    return best


def _limits(work: Floats, cycles: Floats, overhead: float) -> Floats:
    """For each term the largest scale with which it exceeds no measurement."""
    import numpy

    with numpy.errstate(divide="ignore"):
        room = numpy.where(work > 0, (cycles - overhead)[:, None] / work, numpy.inf)
    return numpy.maximum(room.min(axis=0), 0.0)


def _solve(
    work: Floats, cycles: Floats, binding: Integers
) -> tuple[dict[int, float], float, bool, dict[int, float]] | None:
    """Scales of the terms that bind and the overhead, by least squares of relative errors."""
    import numpy

    columns = sorted({int(number) for number in binding})
    matrix = numpy.zeros((len(cycles), len(columns)))
    for row, number in enumerate(binding):
        matrix[row, columns.index(int(number))] = work[row, number]
    weights = 1.0 / cycles
    plain = matrix * weights[:, None]
    whole = numpy.column_stack([plain, weights])
    for weighted, with_overhead in ((whole, True), (plain, False)):
        if numpy.linalg.matrix_rank(weighted) < weighted.shape[1]:
            continue
        values, *_ = numpy.linalg.lstsq(weighted, numpy.ones(len(cycles)), rcond=None)
        overhead = float(values[-1]) if with_overhead else 0.0
        rates = values[:-1] if with_overhead else values
        if overhead < 0 or (rates <= 0).any():
            continue  # no machine has these; an overhead of 0 is the nearest
        freedom = len(cycles) - weighted.shape[1]
        errors: dict[int, float] = {}
        if freedom > 0:
            rest = weighted @ values - 1.0
            spread = numpy.linalg.inv(weighted.T @ weighted) * float(rest @ rest) / freedom
            errors = {n: float(numpy.sqrt(spread[i, i])) for i, n in enumerate(columns)}
        return dict(zip(columns, map(float, rates), strict=True)), overhead, with_overhead, errors
    return None


def _term(
    number: int, names: list[str], work: Floats, cycles: Floats, best: _Solution
) -> FittedTerm:
    import numpy

    mine = best.binding == number
    if mine.any():
        column = work[mine, number]
        alike = []
        for other, name in enumerate(names):
            if other == number or not (work[mine, other] > 0).all():
                continue
            ratio = work[mine, other] / column
            if numpy.ptp(ratio) <= ALIKE * ratio.max() and not (best.binding == other).any():
                alike.append(name)
        return FittedTerm(
            names[number], "fitted", float(best.scales[number]), best.errors.get(number), None,
            int(mine.sum()), tuple(alike),
        )  # fmt: skip
    if not (work[:, number] > 0).any():
        return FittedTerm(names[number], "not seen")
    limit = float(_limits(work, cycles, best.overhead)[number])
    return FittedTerm(names[number], "bounded", at_most=limit)


# ------------------------------------------------------------------------- the fitted machine


def fitted_rates(found: Fit, rates: Rates, ring: float | None = None) -> dict[str, FittedRate]:
    """New numbers for `rates.yaml` by their paths there, of the terms that were fitted.

    A rate falls as its scale grows, a cost grows with it. `ring` is the mean latency from asking
    for a tile to its release; what the scale changes of it is put on the latency of transfers.
    """
    made: dict[str, FittedRate] = {}
    for term in found.terms:
        if term.state != "fitted" or term.scale is None:
            continue
        for path, item in rates.get(term.name, {}).items():
            value = float(item["value"])
            if item["kind"] == "rate":
                made[path] = {"was": value, "fits": round(value / term.scale, 3)}
            elif item["kind"] == "cost":
                made[path] = {"was": value, "fits": round(value * term.scale, 3)}
            elif ring is not None:
                more = value + (term.scale - 1.0) * ring
                made[path] = {"was": value, "fits": round(max(0.0, more), 1)}
    return made


def document(
    device: DeviceFacts, machine: str, found: Fit, rates: Rates, ring: float | None = None
) -> FittedMachine:
    """The fitted machine as data."""
    return {
        "titan": FORMAT,
        "kind": "fitted machine",
        "machine": machine,
        "date": datetime.date.today().isoformat(),
        "device": device,
        "overhead_cycles": found.overhead,
        "terms": [
            {
                "term": term.name, "state": term.state, "scale": term.scale,
                "standard_error": term.error, "at_most": term.at_most,
                "measurements": term.measurements, "alike": list(term.alike),
            }
            for term in found.terms
        ],
        "rates": fitted_rates(found, rates, ring),
        "error_before": found.error_before,
        "error_after": found.error_after,
        "residuals": [
            {
                "kernel": item.name, "measured": item.measured, "before": item.before,
                "after": item.after, "binding": item.binding,
                "relative": item.after / item.measured - 1.0,
            }
            for item in found.residuals
        ],
        "remarks": list(found.remarks),
    }  # fmt: skip
