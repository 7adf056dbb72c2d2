"""A loop whose masks do nothing in its first iterations, as two: one without them, then the rest.

The iterations are those of the one loop, in its order, and so is all that synchronises: only what
computes is left out of the first loop, where the condition of each mask holds for whole tiles (of
causal attention in front of the diagonal, of ragged keys in all but the last tile). What remains
is masked without a question. FlashAttention has its masks in loops of their own, too.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.emit.statements import (
    SpelledElementwise,
    SpelledLoop,
    SpelledStatement,
    SpelledVariable,
)


def parted(loop: SpelledLoop, names: set[str]) -> tuple[SpelledStatement, ...]:
    """The loop, or both of its parts behind the number of the counter from which on masks count.

    `names`: those that have been taken for such numbers in the role; the new one is added.
    """
    masks = [one for one in loop.body if isinstance(one, SpelledElementwise) and one.condition]
    bounds = {
        one.condition.until
        for one in masks
        if one.condition is not None and one.condition.counter == loop.variable
    }
    name = f"{loop.variable}_masked"
    if not bounds or name in names:
        return (loop,)
    names.add(name)
    until = loop.stop
    for bound in sorted(bounds):
        until = f"titan::smaller({until}, {bound})"
    begin = SpelledVariable(name, f"titan::larger({loop.start}, {until})")
    whole = [one for one in loop.body if not _bounded(one, loop)]
    # Masks with bounds of their own still ask: one may begin before the other.
    rest = [_masked(one) if _bounded(one, loop) and len(bounds) == 1 else one for one in loop.body]
    return (
        begin,
        replace(loop, stop=name, body=tuple(whole), note="tiles without elements to mask"),
        replace(loop, start=name, body=tuple(rest), note="tiles with elements to mask"),
    )


def _bounded(statement: SpelledStatement, loop: SpelledLoop) -> bool:
    if not isinstance(statement, SpelledElementwise) or statement.condition is None:
        return False
    return bool(statement.condition.until) and statement.condition.counter == loop.variable


def _masked(statement: SpelledStatement) -> SpelledStatement:
    assert isinstance(statement, SpelledElementwise)
    assert statement.condition is not None
    return replace(statement, condition=replace(statement.condition, whole=""))
