"""Which operations of one pipelined queue the data path itself keeps in order: the one table of it.

Operations of a pipelined queue may be under way together. Some pairs of them are executed in the
order of issue although nothing waits in between; every other pair that touches one region needs a
wait. PTX lists the pairs. Tensor cores are also used as if they executed whatever one thread gives
them in order (CUTLASS's block-scaled products copy the scales of the next step over those that the
last product reads; attention writes scores over the probabilities that the last product reads), and
the policy `tensor_pipe` takes them so.

Every engine asks this table; what an operation does to a region is one of three words.
"""

from __future__ import annotations

from enum import IntEnum

from titan.foundation.records import dataclass
from titan.sync import program as ir


class PipeUse(IntEnum):
    """What an operation of a pipelined queue does to a region; the explorer uses the values."""

    READ = 0
    COPY = 1  # a write that is no accumulation: tcgen05.cp
    ACCUMULATE = 2  # the write of a matrix instruction to its accumulator


@dataclass(frozen=True, slots=True)
class PipePair:
    """Two uses of memory, the earlier and the later; `same`: of one region, cell for cell."""

    earlier: PipeUse
    later: PipeUse
    same: bool = False


_SAME_ACCUMULATOR = PipePair(PipeUse.ACCUMULATE, PipeUse.ACCUMULATE, True)

# PTX, wgmma.fence: products of one shape that accumulate in the same registers need none.
WGMMA_PAIRS = (_SAME_ACCUMULATOR,)

# PTX, "Pipelined tcgen05 instructions": mma before mma (same accumulator and shape), cp before mma.
# The pairs with tcgen05.shift stand there as well; kernel files do not have it.
LISTED_PAIRS = (
    _SAME_ACCUMULATOR,
    PipePair(PipeUse.COPY, PipeUse.READ),
    PipePair(PipeUse.COPY, PipeUse.ACCUMULATE),
)

EVERY_PAIR = tuple(  # two reads need no order anyway
    PipePair(earlier, later)
    for earlier in PipeUse
    for later in PipeUse
    if earlier is not PipeUse.READ or later is not PipeUse.READ
)


def pipe_use(write: bool, accumulates: bool) -> PipeUse:
    """What an effect with these properties does to the regions that it touches."""
    if not write:
        return PipeUse.READ
    return PipeUse.ACCUMULATE if accumulates else PipeUse.COPY


def pipe_pairs(queue: ir.Queue, policies: ir.Policies) -> tuple[PipePair, ...]:
    """The pairs that operations of the queue keep in order; none where it is not pipelined."""
    if not queue.pipelined:
        return ()
    if queue.grouped:
        return WGMMA_PAIRS
    return EVERY_PAIR if policies.tensor_pipe == "in_order" else LISTED_PAIRS


def keeps(pairs: tuple[PipePair, ...], earlier: PipeUse, later: PipeUse, same_region: bool) -> bool:
    """Whether one of the pairs is of these two uses."""
    return any(
        pair.earlier is earlier and pair.later is later and (same_region or not pair.same)
        for pair in pairs
    )
