"""Which allocations of shared memory may be laid on which: by where they are used last.

Triton places allocations when it lowers further, and two may share memory where no use of the first
follows the second. `ttg.local_dealloc` is such a use, and nothing more. A name that may be that of
an allocation counts as it, so that one lives here as long as there, or longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.foundation.source.span import Span
from titan.frontends.ttgir.model import Block, TtgirOperation

SHARED = "ttg.local_alloc"
LOOPS = ("scf.for", "scf.while")
ALIASES = ("ttg.memdesc_", "arith.select")

Below = dict[Span, list[Span]]  # of an allocation: those that have ended before it is made


@dataclass(frozen=True, slots=True)
class _Lifetime:
    """An allocation of a block, from one of its operations to another."""

    span: Span
    first: int
    last: int


def ended_before(block: Block, repeated: bool = False) -> Below:
    """For each allocation in a block those that have ended when it is made.

    `repeated`: the block is the body of a loop, and each trip follows another.
    """
    found: Below = {}
    lifetimes: list[_Lifetime] = []
    for place, operation in enumerate(block.operations):
        if operation.name == SHARED:
            last = _last_use(block.operations, place)
            lifetimes.append(_Lifetime(operation.span, place, last))
        for region in operation.regions:
            inner = ended_before(region, operation.name in LOOPS)
            found |= inner
            lifetimes += [_Lifetime(span, place, place) for span in inner]
    for later in lifetimes:
        ended = [one.span for one in lifetimes if one.last < later.first]
        if repeated:  # those of the trip before
            ended += [one.span for one in lifetimes if later.last < one.first]
        found[later.span] = [*found.get(later.span, []), *ended]
    return found


def _last_use(operations: list[TtgirOperation], place: int) -> int:
    """The last operation of the block that names the allocation made at a place, or what views it.

    What an operation with regions hands out may be each of the allocations that it names.
    """
    names = set(operations[place].results)
    last = place
    for at in range(place + 1, len(operations)):
        operation = operations[at]
        if _names(operation) & names:
            last = at
            if operation.regions or operation.name.startswith(ALIASES):
                names.update(operation.results)
    return last


def _names(operation: TtgirOperation) -> set[str]:
    found = set(operation.operands)
    for region in operation.regions:
        for inner in region.operations:
            found |= _names(inner)
    return found
