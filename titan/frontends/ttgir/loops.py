"""Loops of TTGIR as counted loops: what they are made of, flattened pairs, and `scf.while`.

Triton flattens `for t in tiles: for k in trips` into one loop over `tiles * trips` with a counter
that begins again after `trips - 1`. The pair of loops executes the same, and a search for any
number closes on it. A `scf.while` is a counted loop where its condition compares a number that
grows steadily; where it depends on data, every number of trips is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from titan.frontends.ttgir import integers
from titan.frontends.ttgir.effects import Made, guarded
from titan.frontends.ttgir.integers import Fixed
from titan.frontends.ttgir.model import Block, TtgirOperation
from titan.frontends.ttgir.values import Value, is_integer
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Binary, Constant, Expression, Name, names_of

Probed = Mapping[str, tuple[Value, Value]]  # of each carried value: before a trip, and after it


@dataclass(frozen=True, slots=True)
class LoopDraft:
    """A loop: the counter of its trips, how many there are, and the number its variable has.

    `inner`: the trips of the inner one of two loops that were flattened, and its counter.
    """

    operation: TtgirOperation
    body: Block
    counter: str
    trips: Expression
    number: Expression
    variable: str
    inner: tuple[str, Expression] | None = None


@dataclass(frozen=True, slots=True)
class Flattened:
    """A loop over `outer * inner` trips, in which the carried number `name` counts the inner."""

    name: str
    outer: Expression
    inner: Expression


def repeated(loop: LoopDraft, body: Made) -> ir.Loop:
    """The body as often as the loop says."""
    inside = tuple(body)
    if loop.inner is not None:
        inside = (ir.Loop(loop.inner[0], ZERO, loop.inner[1], inside),)
    return ir.Loop(loop.counter, ZERO, loop.trips, inside)


Around = Sequence[Expression | LoopDraft]  # conditions and loops, from the outermost on


def decided_by(around: Around, names: set[str]) -> bool:
    """Whether these names alone decide how often what stands in them is executed."""
    found: set[str] = set()
    for item in around:
        for one in _numbers(item):
            found |= names_of(one)
    return found <= names


def _numbers(item: Expression | LoopDraft) -> list[Expression]:
    if isinstance(item, LoopDraft):
        return [item.trips] if item.inner is None else [item.trips, item.inner[1]]
    return [item]


def as_often(around: Around, body: Made) -> Made:
    """What another role executes, in the conditions and loops that its start stands in."""
    for item in reversed(around):
        if isinstance(item, LoopDraft):
            loop = repeated(item, body)
            span, label = item.operation.span, item.operation.source
            inner = tuple(
                replace(one, span=span, label=label) if one.span is None else one
                for one in loop.body
            )
            body = [replace(loop, body=inner, span=span, label=label)]
        else:
            body = guarded(item, body)
    return body


def flattened(
    trips: Expression,
    starts: Mapping[str, Value],
    probed: Probed,
    fixed: Fixed,
    least: Callable[[Expression], int | None],
) -> Flattened | None:
    """The pair of loops that a loop is, if it is one. The inner one has at least one trip."""
    match trips:
        case Binary("*", left, right):
            pairs = ((left, right), (right, left))
        case _:
            return None
    for name, (before, after) in probed.items():
        if not isinstance(before, Name) or starts[name] != ZERO:
            continue
        for outer, inner in pairs:
            last = integers.compare("==", before, integers.subtract(inner, ONE), fixed)
            again = integers.select(last, ZERO, integers.add(before, ONE))
            if after == again and (least(inner) or 0) >= 1:
                return Flattened(name, outer, inner)
    return None


@dataclass(frozen=True, slots=True)
class WhileForm:
    """A `scf.while` that hands all it carries on to its body, in order.

    `names` are those of the body's arguments, `asked` those of the block with the condition.
    """

    names: tuple[str, ...]
    asked: tuple[str, ...]
    starts: tuple[str, ...]
    condition: str


def while_form(operation: TtgirOperation) -> WhileForm | None:
    """The parts of a `scf.while`; None where it is of another form."""
    if len(operation.regions) != 2 or not operation.regions[0].operations:
        return None
    last = operation.regions[0].operations[-1]
    names = tuple(name for name, _ in operation.regions[1].arguments)
    asked, starts = operation.operands[0::2], operation.operands[1::2]
    if last.name != "scf.condition" or last.operands[1:] != asked or len(names) != len(asked):
        return None
    return WhileForm(names, asked, starts, last.operands[0])


def while_fault(operation: TtgirOperation, synchronises: Callable[[Block], bool]) -> str:
    """Why a `scf.while` is not followed that has no form, or whose condition synchronises."""
    first, *rest = operation.regions
    if synchronises(first):
        return "a loop whose condition synchronises is not supported"
    decides = first.operations[-1].operands[:1] if first.operations else ()
    for body in rest:
        carried = zip(operation.operands[0::2], body.operations[-1].operands, strict=False)
        decides = tuple(after for before, after in carried if (before,) == decides)
    if any(
        item.name.startswith("ttng.clc_") and {*item.results} & {*decides}
        for body in rest
        for item in body.operations
    ):
        return "how often a loop runs that `ttng.clc_try_cancel` gives tiles is not followed"
    return "a `scf.while` that does not hand all that it carries on to its body is not supported"


def while_trips(
    condition: Value, starts: Mapping[str, Value], probed: Probed, growth: Mapping[str, int]
) -> Expression | None:
    """How often a condition holds that compares a number that grows; None where it is another."""
    match condition:
        case Binary("<", Name() as number, bound):
            for name, (before, _) in probed.items():
                start, step = starts[name], growth.get(name, 0)
                if before == number and step > 0 and is_integer(start):
                    return integers.ceiling_divide(integers.subtract(bound, start), step)
    return None


def steady_growth(probed: Probed) -> dict[str, int]:
    """What each carried number grows by in every trip, where that is always the same."""
    grown: dict[str, int] = {}
    for name, (probe, value) in probed.items():
        if is_integer(value) and isinstance(probe, Name):
            difference = integers.subtract(value, probe)
            if isinstance(difference, Constant) and difference.value >= 0:
                grown[name] = difference.value
    return grown
