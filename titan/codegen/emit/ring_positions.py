"""Places in rings that are kept beside a counter, so that a loop neither divides nor takes a rest.

A sync program names a stage by `n % depth` and a phase by the parity of `n // depth`. Where `n`
goes up by one at a time, both are carried from one iteration to the next: the stage goes up and
begins again at the depth, the parity then changes. `position_reads` finds the expressions that
can be read off such a position, `agrees` proves that the position gives what the expression says
for every value of the counter. In a ring of two stages a loop computes the place before from the
place at the counter (`before`), so that neither is moved. Nothing else is decided; an expression of
another form stays as it is in the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from titan.codegen.emit.statements import SpelledStatement
from titan.sync import program as ir
from titan.sync.expression import Binary, Constant, Expression, Name, binary, evaluate

PositionKey = tuple[str, int, int]  # counter, depth, lag
LAGS = (0, 1)  # what is read: the place of the counter, or the one before it
DEPTH_MAX = 64


@dataclass(frozen=True, slots=True)
class PositionRead:
    """What an expression asks of the position of `counter - lag` in a ring of `depth` stages.

    `flip` is None for the stage; for the parity it says whether the other one is meant.
    """

    counter: str
    depth: int
    lag: int
    flip: int | None

    @property
    def key(self) -> PositionKey:
        """The position that is read."""
        return self.counter, self.depth, self.lag


@dataclass(frozen=True, slots=True)
class SpelledBefore(SpelledStatement):
    """The place before another one in a ring of two stages, in this iteration."""

    name: str
    source: str
    kind: ClassVar[str] = "before"


@dataclass(frozen=True, slots=True)
class SpelledNotNegative(SpelledStatement):
    """What is known of a counter, so that a compiler divides it as a number without a sign."""

    name: str
    kind: ClassVar[str] = "not_negative"


def position_read(expression: Expression) -> PositionRead | None:
    """How the expression is read off a position; None where it has another form."""
    flip: int | None = None
    match expression:
        case Binary("%", inner, Constant(2)) if (found := _quotient(inner)) is not None:
            counter, behind, depth, rounds = found
            lag = -behind % depth
            flip = (rounds + (behind + lag) // depth) % 2
        case Binary("%", inner, Constant(divisor)) if (sums := _sum(inner)) is not None:
            base, behind = sums
            if not isinstance(base, Name) or not 2 <= divisor <= DEPTH_MAX:
                return None
            counter, depth, lag = base.name, divisor, -behind % divisor
        case _:
            return None
    return PositionRead(counter, depth, lag, flip) if lag in LAGS else None


def _sum(expression: Expression) -> tuple[Expression, int]:
    """An expression as another one and the number added to it."""
    match expression:
        case Binary("+", left, Constant(value)):
            base, more = _sum(left)
            return base, more + value
        case Binary("-", left, Constant(value)):
            base, more = _sum(left)
            return base, more - value
    return expression, 0


def _quotient(expression: Expression) -> tuple[str, int, int, int] | None:
    """`(counter + behind) // depth + rounds`, taken apart."""
    divided, rounds = _sum(expression)
    match divided:
        case Binary("//", inner, Constant(depth)) if 2 <= depth <= DEPTH_MAX:
            base, behind = _sum(inner)
            if isinstance(base, Name):
                return base.name, behind, depth, rounds
    return None


def position_at(number: int, depth: int) -> tuple[int, int]:
    """Stage and parity of a number, which may be negative."""
    return number % depth, number // depth % 2


def advanced(position: tuple[int, int], depth: int) -> tuple[int, int]:
    """One further, as `advance` of the device header does it."""
    stage, parity = position
    return (stage + 1, parity) if stage + 1 != depth else (0, 1 - parity)


def before(position: tuple[int, int]) -> tuple[int, int]:
    """The place before in a ring of two stages, as `before` of the device header computes it."""
    stage, parity = position
    return stage ^ 1, parity ^ stage ^ 1


def computed(kept: Mapping[PositionKey, str]) -> dict[PositionKey, str]:
    """Positions that a loop need not keep: the name of the place that each is computed from."""
    return {
        (counter, depth, lag): kept[counter, depth, 0]
        for counter, depth, lag in kept
        if depth == 2 and lag == 1 and (counter, depth, 0) in kept
    }


def agrees(read: PositionRead, expression: Expression, start: int) -> bool:
    """Whether the position that begins at `start` gives the expression for all later values.

    The expression depends on the counter modulo twice the depth alone, by its form; a position is
    where it began after so many steps. So one round of all of them is a proof.
    """
    position = began = position_at(start - read.lag, read.depth)
    for number in range(start, start + 2 * read.depth):
        stage, parity = position
        shown = stage if read.flip is None else parity ^ read.flip
        if read.depth == 2 and read.lag and position != before(position_at(number, 2)):
            return False
        if shown != evaluate(expression, {read.counter: number}):
            return False
        position = advanced(position, read.depth)
    return position == began


def position_reads(block: ir.Block) -> Iterator[tuple[PositionRead, Expression]]:
    """All expressions for stages and parities of a block that a position could give."""
    for operation in ir.walk(block):
        for expression in _places(operation):
            if (read := position_read(expression)) is not None:
                yield read, expression


def _places(operation: ir.Operation) -> Iterator[Expression]:
    match operation:
        case ir.Wait(barrier=barrier, parity=parity):
            yield from (barrier.index, lowest_bit(parity))
        case ir.Arrive(barrier=barrier):
            yield barrier.index
        case ir.Asynchronous(effects=effects, completes=completes):
            yield from (effect.stage for effect in effects)
            yield from (completion.barrier.index for completion in completes)
        case ir.Access(effects=effects):
            yield from (effect.stage for effect in effects)


def lowest_bit(parity: Expression) -> Expression:
    """The lowest bit of a parity; one that is 0 or 1 already stays as it is."""
    if isinstance(parity, Binary) and parity.operator == "%" and parity.right == Constant(2):
        return parity
    return binary("%", parity, Constant(2))


def steps_by_one(block: ir.Block, counter: str) -> bool:
    """Whether every assignment to the counter adds 1 to it."""
    one = Binary("+", Name(counter), Constant(1))
    return all(
        operation.value == one
        for operation in ir.walk(block)
        if isinstance(operation, ir.Assign) and operation.variable == counter
    )
