"""Which products add to what their accumulator holds, so that something must have written it.

A product does each time where its `useD` is 1, and at least the first time where that is a number
which the loop around it carries from 1 on, and every trip makes the product.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.foundation.source.span import Span
from titan.frontends.ttgir.effects import Operands
from titan.frontends.ttgir.loops import LoopDraft
from titan.sync.expression import ONE, Expression, Name


def sums_of(
    of: Operands, around: Sequence[Expression | LoopDraft], begun: set[str], quiet: bool
) -> dict[Span, bool]:
    """The place of such a product, and whether it adds each time; nothing for another operation.

    `around`: the loop or condition that it stands in. `begun`: counters that begin with 1.
    `quiet`: an attempt, in which counters have other names.
    """
    operation = of.operation
    if quiet or not operation.name.startswith("ttng.tc_gen5_mma"):
        return {}
    place = 5 if operation.name.endswith("scaled") else 3
    use, condition = ([part[:1] for part in of.parts()] + [[], []])[place : place + 2]
    if use == [ONE]:
        return {operation.span: True}
    in_every_trip = condition == [ONE] and any(
        isinstance(loop, LoopDraft) and operation in loop.body.operations for loop in around
    )
    carried = [value.name for value in use if isinstance(value, Name)]
    return {operation.span: False} if in_every_trip and begun.issuperset(carried or [""]) else {}
