"""Which sizes of a tile program come first: those with the most work in a cycle, by the model.

For each alternative (`titan/codegen/tile/alternatives.py`) the shapes are ranked as for a program
of its own (`ranking.py`); what counts is the share of the matrix units' peak in its best shape, or
the bytes that it loads in a cycle where it multiplies nothing. Alternatives within `NEAR` of the
best keep the order of the file. Nothing has been measured on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from titan.codegen.pipeline.build import BuildLimits, BuildRefused, considered, scheduled
from titan.codegen.pipeline.ranking import NEAR, ranked
from titan.codegen.tile.alternatives import SizeAlternative
from titan.codegen.tile.rates import rates
from titan.codegen.tile.roofline import product_cycles, value_bytes


@dataclass(frozen=True, slots=True)
class RankedSizes:
    """`rate`: the share of the matrix units' peak, or bytes in a cycle; None where nothing is built
    for the `reason`."""

    alternative: SizeAlternative
    rate: float | None
    by_products: bool
    reason: str = ""

    @property
    def words(self) -> str:
        """For reports."""
        if self.rate is None:
            return f"{self.alternative.words}: {self.reason}"
        if self.by_products:
            share = f"{100 * self.rate:.0f} % of the tensor cores' peak"
        else:
            share = f"{self.rate:.0f} bytes a cycle"
        return f"{self.alternative.words}: {share} by the model"


def by_model(found: Sequence[SizeAlternative], limits: BuildLimits) -> list[RankedSizes]:
    """The alternatives in the order in which they are built."""
    if len(found) == 1:
        return [RankedSizes(found[0], 1.0, False)]
    left = [_ranked(one, limits) for one in found]
    made: list[RankedSizes] = []
    while left:
        best = max(one.rate or 0.0 for one in left)
        taken = next(one for one in left if NEAR * (one.rate or 0.0) >= best)
        left.remove(taken)
        made.append(taken)
    return made


def _ranked(one: SizeAlternative, limits: BuildLimits) -> RankedSizes:
    tile = one.tile
    known = rates(tile.target)
    products = [item for item in tile.body if item.kind == "mma"]
    work: float = sum(product_cycles(tile, item, known) for item in products)
    if not products:
        work = sum(value_bytes(tile, item.name) for item in tile.body if item.kind == "load")
    try:
        loop, result, stages = scheduled(tile, limits)
        result, listed, _ = considered(tile, loop, result, stages, limits)
    except BuildRefused as refused:
        return RankedSizes(one, None, bool(products), str(refused))
    cycles = [shape.cycles for shape in ranked(tile, result.loop, result, listed)]
    if not cycles:
        return RankedSizes(one, None, bool(products), "no shape")
    return RankedSizes(one, work / min(cycles), bool(products))
