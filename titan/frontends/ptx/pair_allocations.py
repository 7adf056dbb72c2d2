"""Allocations of tensor memory by both CTAs of a pair, which are one operation of two warps.

tcgen05.alloc with cta_group::2 is issued by a warp of each CTA, and only both perform it (PTX,
"Issue Granularity" of tcgen05): who comes out of it knows that the columns are allocated in both.
CUTLASS starts its products for a pair on that alone. The n-th of one CTA is that of the other, too.
It orders execution and makes nothing visible, so it is a relaxed meeting at a barrier of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from titan.foundation.source.span import Span
from titan.sync import program as ir
from titan.sync.expression import Constant


class PairAllocations:
    """The barriers of a cluster of `ctas` CTAs, as far as they have been used."""

    def __init__(self, ctas: int) -> None:
        self.ctas = ctas
        self.barriers: dict[str, ir.Barrier] = {}
        self._made: Counter[int] = Counter()  # by rank

    def meet(self, rank: int, span: Span | None) -> Iterator[ir.Operation]:
        """The CTA of this rank has allocated, and goes on when its peer has."""
        first, number = rank & ~1, self._made[rank]
        self._made[rank] += 1
        if first | 1 >= self.ctas:
            return
        name = f"allocation {number} of CTAs {first} and {first | 1}"
        if name not in self.barriers:
            self.barriers[name] = ir.Barrier(name, 2, cta=first)
        barrier, order, scope = ir.Reference(name), ir.Order.RELAXED, ir.Scope.CLUSTER
        yield ir.Arrive(barrier, order=order, scope=scope, span=span)
        yield ir.Wait(barrier, Constant(0), Constant(0), order=order, scope=scope, span=span)
