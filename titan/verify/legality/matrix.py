"""Matrix instructions and tensor memory.

Sources: PTX ISA, wgmma.mma_async (shapes and types; ptxas checks them too) and tcgen05 (shapes by
kind and CTA group in the instruction descriptor, which no assembler reads; tensor memory).
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import listed, quoted
from titan.foundation.source.span import Span
from titan.language.kernel.table import BITS_OF_DTYPE
from titan.sync.program import PoolGive, PoolTake, Space
from titan.target.limits import MatrixShapes
from titan.verify.legality.case import Case, PlacedBuffer, plain
from titan.verify.legality.rule import rule


@rule("TTN417", "matrix")
def matrix_instruction(case: Case) -> Iterator[Diagnostic]:
    """Family, types, accumulator and shape form a row of the target's table."""
    for item in case.kernel.placement.instructions:
        if not case.limits.sources:
            continue
        title = f"matrix instruction {quoted(item.name)}"
        family = [row for row in case.limits.matrix if row.kind == item.kind]
        if not family:
            headline = f"{title} is {item.kind}, which {case.kernel.target} does not have"
            yield case.fault("TTN417", headline, item.span, source=f"PTX, {item.kind}: targets")
            continue
        rows = [row for row in family if row.takes(item.kind, item.a, item.b, item.cta_group)]
        m, n, k = item.shape
        if not rows:
            headline = f"{title} multiplies {quoted(item.a)} and {quoted(item.b)}"
            headline += f" with {item.cta_group} CTA{'s' if item.cta_group > 1 else ''}, which "
            headline += f"{item.kind} does not do"
            yield case.fault("TTN417", headline, item.span, source=family[0].source)
        elif not any(item.accumulator in row.accumulators for row in rows):
            headline = f"{title} accumulates in {quoted(item.accumulator)}, not in "
            headline += listed(rows[0].accumulators, "or")
            yield case.fault("TTN417", headline, item.span, source=rows[0].source)
        elif not any(m in row.m and n in row.columns() and k == row.k for row in rows):
            shapes_text = "; ".join(_shape_text(row) for row in rows)
            headline = f"{title} has the shape {m} x {n} x {k}"
            helps = (f"for these types: {shapes_text}",)
            yield case.fault("TTN417", headline, item.span, source=rows[0].source, helps=helps)


def _shape_text(row: MatrixShapes) -> str:
    m = "|".join(map(str, row.m))
    return f"M {m}, N {row.n[0]}..{row.n[1]} step {row.n[2]}, K {row.k}"


@rule("TTN418", "tensor_columns", "tensor_lanes")
def tensor_memory(case: Case) -> Iterator[Diagnostic]:
    """The stages in tensor memory fit into its columns."""
    columns = case.limits.number("tensor_columns")
    used: dict[str, int] = {}
    place: Span | None = None
    for memory in case.memories.values():
        if memory.buffer.space is Space.TENSOR:
            storage = memory.buffer.storage.partition("@")[0] or memory.name
            needed = memory.buffer.stages * columns_of(case, memory)
            used[storage] = max(used.get(storage, 0), needed)
            place = place or memory.span
    if columns is None or not used:
        return
    if columns == 0:
        headline = f"{case.kernel.target} has no tensor memory"
        yield case.fault("TTN418", headline, place, source="tensor_columns")
    elif case.kernel.placed and sum(used.values()) > columns:
        headline = f"a CTA needs {sum(used.values())} columns of tensor memory; it has {columns}"
        yield case.fault("TTN418", headline, place, source="tensor_columns")


def columns_of(case: Case, memory: PlacedBuffer) -> int:
    """Columns of 32 bits that one stage covers at least; 0 where its size is not known.

    A tile of fewer rows than there are lanes may share its columns with another one, so only its
    bytes count.
    """
    lanes = case.limits.number("tensor_lanes") or 128
    tile, bits = memory.layout.tile, BITS_OF_DTYPE.get(memory.layout.dtype, 0)
    if len(tile) == 2 and bits and tile[0] >= lanes:
        return -(-tile[0] // lanes) * -(-tile[1] * bits // 32)
    return -(-memory.bytes_per_stage // (4 * lanes))


@rule("TTN418", "tensor_alloc")
def tensor_allocation(case: Case) -> Iterator[Diagnostic]:
    """Tensor memory is allocated in powers of two from 32 to 512 columns."""
    bounds = case.limits.numbers("tensor_alloc")
    kinds = dict(case.kernel.placement.kinds)
    for _, operation in case.operations:
        if not isinstance(operation, PoolTake):
            continue
        if kinds.get(operation.pool.partition("@")[0]) != "tensor" or bounds is None:
            continue
        for amount in case.values_of(operation, operation.amount):
            if not amount & (amount - 1) and bounds[0] <= amount <= bounds[1]:
                continue
            headline = (
                f"{amount} columns of tensor memory are requested; the "
                "hardware allocates powers of two from "
            )
            headline += f"{bounds[0]} to {bounds[1]}"
            yield case.fault("TTN418", headline, operation.span, source="tensor_alloc")
            break


@rule("TTN418", "tensor_alloc")
def tensor_memory_is_given_back(case: Case) -> Iterator[Diagnostic]:
    """Tensor memory that is allocated is freed before the kernel ends.

    Only whether it is freed is checked, not how much.
    """
    if case.limits.numbers("tensor_alloc") is None:
        return
    kinds = dict(case.kernel.placement.kinds)
    given = {plain(item.pool) for _, item in case.operations if isinstance(item, PoolGive)}
    reported = set()
    for _, operation in case.operations:
        if not isinstance(operation, PoolTake):
            continue
        name = plain(operation.pool)
        if kinds.get(name) == "tensor" and name not in given and name not in reported:
            reported.add(name)
            headline = f"tensor memory is allocated from {quoted(name)} and never freed"
            source = "PTX, tcgen05.alloc: all that is allocated is deallocated before the exit"
            yield case.fault("TTN418", headline, operation.span, source=source)


@rule("TTN417", "matrix")
def one_cta_group(case: Case) -> Iterator[Diagnostic]:
    """A kernel uses one CTA group throughout, and a pair needs a cluster of pairs."""
    items = [item for item in case.kernel.placement.instructions if item.kind == "tcgen05"]
    source = "PTX, tcgen05: one .cta_group in a kernel; ptxas refuses to mix them"
    for item in items:
        if item.cta_group != items[0].cta_group:
            headline = (
                f"matrix instruction {quoted(item.name)} has CTA group {item.cta_group}, "
                f"{quoted(items[0].name)} has {items[0].cta_group}"
            )
            yield case.fault("TTN417", headline, item.span, source=source)
        elif item.cta_group > 1 and case.kernel.ctas % item.cta_group:
            headline = (
                f"matrix instruction {quoted(item.name)} works on pairs of CTAs; the cluster has "
                f"{case.kernel.ctas}"
            )
            yield case.fault("TTN417", headline, item.span, source=source)


@rule("TTN424", "warps_per_warpgroup", "registers_entry_max")
def accumulators_fit(case: Case) -> Iterator[Diagnostic]:
    """The accumulators of one wgmma are registers of its warpgroup: M N / 128 of 32 bits each."""
    width, warps = case.limits.number("threads_per_warp"), case.limits.number("warps_per_warpgroup")
    most = case.limits.number("registers_entry_max")
    for item in case.kernel.placement.instructions:
        bits, role = BITS_OF_DTYPE.get(item.accumulator), case.shapes.get(item.role)
        if item.kind != "wgmma" or not bits or role is None or not (width and warps and most):
            continue
        needed = -(-item.shape[0] * item.shape[1] * bits // (32 * width * warps))
        has = role.registers or most
        if needed >= has:
            headline = (
                f"matrix instruction {quoted(item.name)} accumulates in {needed} registers a "
                f"thread; role {quoted(role.name)} has {has} in all"
            )
            source = "PTX, wgmma.mma_async: accumulator fragments"
            yield case.fault("TTN424", headline, item.span, source=source)
