"""Pools and pairs: what setmaxnreg and tcgen05.alloc take from, and whose memory products use.

Sources: PTX ISA, setmaxnreg (targets), tcgen05.alloc (sizes do not grow, a deallocation names what
an allocation gave), tcgen05.mma with .cta_group::2 (the two CTAs whose ranks differ in the last
bit; one group in a kernel). Sizes that are no numbers are not judged, nor is the order of
allocations by different roles.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.sync.expression import Constant
from titan.sync.program import (
    Block,
    Branch,
    Loop,
    PoolGive,
    PoolTake,
    Proxy,
    Space,
)
from titan.verify.legality.case import Case, plain
from titan.verify.legality.rule import rule

_GROWTH = "PTX, tcgen05.alloc: the number of columns does not increase between allocations"


def _kind(case: Case, pool: str) -> str:
    return dict(case.kernel.placement.kinds).get(plain(pool), "registers")


@rule("TTN406", "setmaxnreg")
def pools_are_of_the_target(case: Case) -> Iterator[Diagnostic]:
    """What is taken and given back exists: registers by setmaxnreg, columns of tensor memory."""
    if not case.limits.sources:
        return
    reported = set()
    for _, item in case.operations:
        if not isinstance(item, PoolTake | PoolGive) or plain(item.pool) in reported:
            continue
        tensor = _kind(case, item.pool) == "tensor"
        if tensor and case.limits.number("tensor_columns") == 0:
            headline = f"{quoted(plain(item.pool))} are columns of tensor memory, which "
            headline += f"{case.kernel.target} does not have"
            yield case.fault("TTN418", headline, item.span, source="tensor_columns")
        elif not tensor and case.limits.numbers("setmaxnreg") is None:
            headline = f"{quoted(plain(item.pool))} are registers, and {case.kernel.target} has no "
            headline += "setmaxnreg"
            source = "PTX, setmaxnreg: targets" if case.nvidia else "registers_per_lane"
            yield case.fault("TTN406", headline, item.span, source=source)
        else:
            continue
        reported.add(plain(item.pool))


@rule("TTN418", "tensor_columns")
def pool_of_columns_fits(case: Case) -> Iterator[Diagnostic]:
    """A pool has no more columns than the tensor memory of a CTA."""
    most = case.limits.number("tensor_columns")
    for pool in case.program.pools if most else ():
        if _kind(case, pool.name) == "tensor" and pool.available > (most or 0):
            headline = f"{quoted(plain(pool.name))} has {pool.available} columns; a CTA has {most}"
            yield case.fault("TTN418", headline, pool.span, source="tensor_columns")
            return


@rule("TTN418", "tensor_alloc")
def columns_are_given_back_as_taken(case: Case) -> Iterator[Diagnostic]:
    """A deallocation names the columns of an allocation, all of them."""
    if case.limits.numbers("tensor_alloc") is None:
        return
    taken: dict[str, set[int]] = {}
    for _, item in case.operations:
        if isinstance(item, PoolTake):
            amounts = case.values_of(item, item.amount)
            taken.setdefault(plain(item.pool), set()).update(amounts)
    for _, item in case.operations:
        if not isinstance(item, PoolGive) or _kind(case, item.pool) != "tensor":
            continue
        name = plain(item.pool)
        other = set(case.values_of(item, item.amount)) - taken.get(name, set())
        if taken.get(name) and other:
            headline = f"{min(other)} columns of {quoted(name)} are freed, and nothing "
            headline += "allocates so many"
            source = "PTX, tcgen05.dealloc: the number of columns that was allocated"
            yield case.fault("TTN418", headline, item.span, source=source)


@rule("TTN418", "tensor_alloc")
def allocations_do_not_grow(case: Case) -> Iterator[Diagnostic]:
    """A role allocates no more columns than it did before."""
    if case.limits.numbers("tensor_alloc") is None:
        return
    for role in case.program.roles:
        least: dict[str, int] = {}
        for item in _twice(role.body):
            if _kind(case, item.pool) != "tensor" or not isinstance(item.amount, Constant):
                continue
            before = least.get(item.pool)
            if before is not None and item.amount.value > before:
                headline = f"{item.amount.value} columns are allocated after {before}"
                yield case.fault("TTN418", headline, item.span, source=_GROWTH)
                break
            least[item.pool] = item.amount.value


def _twice(block: Block) -> Iterator[PoolTake]:
    """The allocations of a block in order, those of a loop as in two rounds of it.

    Of a branch, those of the first arm that has any.
    """
    for item in block:
        if isinstance(item, PoolTake):
            yield item
        elif isinstance(item, Loop):
            found = list(_twice(item.body))
            yield from found + found
        elif isinstance(item, Branch):
            then = list(_twice(item.then))
            yield from then or _twice(item.otherwise)


@rule("TTN417", "matrix")
def products_of_pairs(case: Case) -> Iterator[Diagnostic]:
    """A product reaches its CTA or both of its pair, and all products of a kernel alike."""
    if not any(row.cta_group > 1 for row in case.limits.matrix) or case.kernel.ctas == 1:
        return
    spaces = (Space.SHARED, Space.TENSOR)
    groups: set[bool] = set()
    for role, item in case.asynchronous:
        if item.label != "mma" or case.queue_kind(item.queue) not in ("tcgen05", ""):
            continue
        touched = {
            case.homes[effect.buffer]
            for effect in item.effects
            if effect.proxy is not Proxy.TENSORMAP and case.space_of(effect) in spaces
        }
        if any(cta // 2 != role.cta // 2 for cta in touched):
            far = next(cta for cta in sorted(touched) if cta // 2 != role.cta // 2)
            headline = f"a product of CTA {role.cta} uses memory of CTA {far}, which is not of its "
            headline += "pair"
            source = "PTX, tcgen05: a CTA pair has ranks that differ in the last bit"
            yield case.fault("TTN425", headline, item.span, source=source)
            return
        groups.add(touched != {role.cta})
        if len(groups) == 2:
            headline = "a product of one CTA and a product of a pair in one kernel"
            source = "PTX, tcgen05: one .cta_group in a kernel; ptxas refuses to mix them"
            yield case.fault("TTN417", headline, item.span, source=source)
            return
