"""Allocations of tensor memory by both CTAs of a pair, which are one operation of two warps.

tcgen05.alloc with cta_group::2 is issued by a warp of each CTA, and only both perform it (PTX,
"Issue Granularity" of tcgen05): who comes out of it knows that the columns are allocated in both.
CUTLASS starts its products for a pair on that alone. The n-th of one CTA is that of the other, too.
It orders execution and makes nothing visible, so it is a relaxed meeting: each CTA has a barrier of
its own for it, at which both arrive, as a CTA waits at no other barriers.
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
        order, scope = ir.Order.RELAXED, ir.Scope.CLUSTER
        names = {cta: f"allocation {number} of CTA {cta}" for cta in (first, first | 1)}
        for cta, name in names.items():
            self.barriers.setdefault(name, ir.Barrier(name, 2, cta=cta))
            yield ir.Arrive(ir.Reference(name), order=order, scope=scope, span=span)
        own = ir.Reference(names[rank])
        yield ir.Wait(own, Constant(0), Constant(0), order=order, scope=scope, span=span)
