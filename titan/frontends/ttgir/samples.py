"""Values of sizes that belong together, where several sizes rest on the same arguments.

`K` and `(K + 63) // 64` are two parameters of the program, and an engine that takes any number for
each finds runs that no `K` has. Here arguments are chosen and the sizes computed from them. A size
that loops count to is small, so that runs are short; one that conditions alone look at may be
large, as `K` is where `(K + 63) // 64` is the count.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from titan.sync import program as ir
from titan.sync.expression import Binary, Constant, Expression, Name, Not, evaluate, names_of

Sizes = Sequence[tuple[str, Expression]]
SIZE_MAX = 9
SAMPLES_MAX = 24
SPREAD_MAX = 4
TRIED_MAX = 60_000
_FEW = (0, 1, 2, 3, 4, 5, 7)
_MANY = (0, 1, 2, 3, 8, 16)


def dependent(sizes: Sizes) -> bool:
    """Whether two sizes rest on one argument."""
    seen: set[str] = set()
    for _, value in sizes:
        names = names_of(value)
        if names & seen:
            return True
        seen |= names
    return False


def _divisors(expression: Expression, found: dict[str, int]) -> None:
    match expression:
        case Binary("//", left, Constant(value)):
            for name in names_of(left):
                found[name] = max(found.get(name, 1), value if isinstance(left, Binary) else 1)
            _divisors(left, found)
        case Binary(_, left, right):
            _divisors(left, found)
            _divisors(right, found)
        case Not(operand):
            _divisors(operand, found)
        case Name(name):
            found.setdefault(name, 1)


def _assignments(sizes: Sizes) -> Iterator[dict[str, int]]:
    """Values of all arguments: multiples of what they are divided by, and next to them."""
    units: dict[str, int] = {}
    for _, value in sizes:
        _divisors(value, units)
    names = sorted(units)
    few = _FEW if len(names) <= 2 else _MANY
    near = (-1, 0, 1) if len(names) <= 2 else (0,)
    ranges = []
    for name in names:
        multiples = {unit * units[name] + step for unit in few for step in near} | {1}
        values_of = {0, 1} if name.startswith("program_id") else {n for n in multiples if n >= 0}
        ranges.append(sorted(values_of))
    for values in itertools.islice(itertools.product(*ranges), TRIED_MAX):
        yield dict(zip(names, values, strict=True))


def computed(sizes: Sizes) -> Iterator[dict[str, int]]:
    """The values of all sizes for many choices of the arguments; those that are negative are 0."""
    for chosen in _assignments(sizes):
        try:
            yield {name: max(0, evaluate(value, chosen)) for name, value in sizes}
        except ZeroDivisionError:
            continue


def samples(
    sizes: Sizes, minimums: Mapping[str, int], counted: Collection[str] | None = None
) -> list[dict[str, int]]:
    """Different small values of all sizes, at most `SAMPLES_MAX`: half of them those of small sums.

    The others, up to SPREAD_MAX each, are chosen so that each two sizes have as many different
    pairs of values as may be: a fault may need several tiles, of several trips, of one CTA.
    `counted`: the sizes that loops count to, which alone have to be small; None for all.
    """
    names = _small(sizes, counted)

    def small(values: Mapping[str, int], most: int) -> bool:
        return all(values[name] <= most for name in names)

    found = {
        tuple(values.items()): values
        for values in computed(sizes)
        if all(minimums.get(name, 0) <= value for name, value in values.items())
        and small(values, SIZE_MAX)
    }
    ordered = sorted(
        found.values(), key=lambda values: (sum(values[name] for name in names), *values.values())
    )
    chosen = ordered[: SAMPLES_MAX // 2]
    seen = {pair for values in chosen for pair in _pairs(values)}
    most = SPREAD_MAX if len(names) > 1 else SIZE_MAX
    rest = [
        (values, frozenset(_pairs(values)))
        for values in ordered[SAMPLES_MAX // 2 :]
        if small(values, most)
    ]
    while rest and len(chosen) < SAMPLES_MAX:
        best = max(range(len(rest)), key=lambda at: (len(rest[at][1] - seen), -at))
        values, pairs = rest.pop(best)
        chosen.append(values)
        seen |= pairs
    return chosen


def _small(sizes: Sizes, counted: Collection[str] | None) -> list[str]:
    """The sizes that have to be small."""
    return [name for name, _ in sizes if counted is None or name in counted]


def _pairs(values: Mapping[str, int]) -> Iterator[tuple[tuple[str, int], ...]]:
    """Each two sizes with their values."""
    return itertools.combinations(values.items(), 2)


def largest(sizes: Sizes, bound: int, counted: Collection[str] | None = None) -> dict[str, int]:
    """Values of all sizes that belong together, none that is counted to beyond a bound, with the
    largest sum of those."""
    names = _small(sizes, counted)
    within = (values for values in computed(sizes) if all(values[name] <= bound for name in names))
    found = max(
        within,
        key=lambda values: (sum(values[name] for name in names), *values.values()),
        default=None,
    )
    return {name: 0 for name, _ in sizes} if found is None else found


def counted_to(program: ir.SyncProgram) -> frozenset[str]:
    """The sizes that the bounds of loops name, also by variables that a role computes."""
    found: set[str] = set()
    for role in program.roles:
        computed_from: dict[str, set[str]] = {}
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Assign):
                computed_from.setdefault(operation.variable, set()).update(
                    names_of(operation.value)
                )
        loops = [one for one in ir.walk(role.body) if isinstance(one, ir.Loop)]
        waiting = [name for loop in loops for name in names_of(loop.start) | names_of(loop.stop)]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += computed_from.get(name, ())
    return frozenset(found)
