"""Which reductions into one region commute: the one table that every engine asks.

A reduction (`red`, an atomic operation whose old value nobody uses, `cp.reduce.async.bulk`,
`red.async`) adds to what a region holds, without losing what others add at the same time. Two of
them need no order between them if they are of one operator, reach memory by one proxy, and are
atomic to each other: each is of a scope that holds whoever makes the other. A reduction of CTA
scope is atomic within its CTA only (PTX, "Memory Consistency Model", morally strong operations; the
elements of a bulk reduction are relaxed and of gpu scope: PTX, "cp.reduce.async.bulk").

`inc` and `dec` wrap around at a bound that each operation names for itself (PTX, "red": `inc` is 0
behind its bound). Of two with different bounds the sum depends on the order, and bounds are values,
which nothing here knows: they need an order like plain writes.

A read, a plain write and a reduction of another kind still need an order. The order in which
floating-point numbers are added is not examined: sums may differ in their last bits.
"""

from __future__ import annotations

from typing import NamedTuple

from titan.sync import program as ir

# PTX "red", "cp.reduce.async.bulk": the operators, and those that do not commute with themselves.
OPERATORS = ("add", "min", "max", "and", "or", "xor", "inc", "dec")
WRAPPING = ("inc", "dec")


class Reduction(NamedTuple):
    """What two reductions must have in common; `cta` None: atomic in all CTAs, or in this one."""

    operator: str
    proxy: ir.Proxy
    cta: int | None


def reduction_of(effect: ir.Effect, cta: int) -> Reduction | None:
    """The kind of reduction that an effect of an agent in `cta` is; None if it is none."""
    if not effect.reduction:
        return None
    return Reduction(effect.reduction, effect.proxy, cta if effect.reach is ir.Scope.CTA else None)


def commute(first: Reduction | None, second: Reduction | None) -> bool:
    """Whether two effects are reductions of one kind, so that they need no order."""
    return first is not None and first == second and first.operator not in WRAPPING
