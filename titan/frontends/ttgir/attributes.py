"""The attributes that operations on memory and barriers may have.

Each either is followed or changes nothing that is decided here. Another one may change what the
operation does, as `multicastCTA` does of an arrival, so an operation that has it is refused.
Attributes with a dot in their name belong to passes of the compiler and mean nothing to the
operation. Source: the operation definitions of Triton's dialects (3.9).
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.frontends.ttgir.model import TtgirOperation

# What says in the generic form how operands and results are grouped, and who runs what.
_ANYWHERE = frozenset({"async_task_id", "operandSegmentSizes", "resultSegmentSizes"})
_CACHES = frozenset({"cache", "evict", "isVolatile", "cacheModifier", "evictionPolicy"})
_PRODUCT = frozenset({"is_async", "two_ctas", "multicast", "is_unsigned"})
_KNOWN: dict[str, frozenset[str]] = {
    "ttng.init_barrier": frozenset({"count"}),
    "ttng.barrier_expect": frozenset({"fromCTA", "size"}),
    "ttng.arrive_barrier": frozenset({"fromCTA", "multicast", "multicastCTA", "count"}),
    "ttng.async_tma_copy_global_to_local": frozenset({"multicast"}) | _CACHES,
    "ttng.async_tma_gather": frozenset({"multicast"}),
    "ttng.async_tma_reduce": frozenset({"kind"}),
    "ttng.async_tma_store_wait": frozenset({"pendings", "read_only"}),
    "ttg.async_copy_global_to_local": frozenset({"contiguity"}) | _CACHES,
    "ttg.async_wait": frozenset({"num"}),
    "ttng.async_copy_mbarrier_arrive": frozenset({"noIncrement"}),
    "ttng.warp_group_dot": frozenset({"inputPrecision", "maxNumImpreciseAcc", "isAsync"}),
    "ttng.warp_group_dot_wait": frozenset({"pendings", "warpGroupLocal"}),
    "ttng.tc_gen5_mma": _PRODUCT,
    "ttng.tc_gen5_mma_scaled": _PRODUCT | {"a_type", "b_type"},
    "ttng.tmem_load": frozenset({"redOp", "abs", "NaN"}),
    "ttg.local_gather": frozenset({"axis"}),
    "ttg.local_scatter": frozenset({"axis"}),
    "ttng.fence_async_shared": frozenset({"bCluster"}),
    "ttng.cluster_barrier": frozenset({"relaxed"}),
    "amdg.buffer_load_to_local": frozenset({"contiguity", "stride"}) | _CACHES,
    "amdg.local_load_packed_transposed": frozenset(),
    "ttg.local_alloc": frozenset({"alignment"}),
    "ttg.global_scratch_alloc": frozenset({"alignment", "nbytes"}),
    "ttng.tensormap_create": frozenset(
        {"elem_type", "fill_mode", "interleave_layout", "swizzle_mode"}
    ),
    "ttg.memdesc_trans": frozenset({"order"}),
    "ttg.memdesc_subslice": frozenset({"offsets"}),
}


def unknown_attributes(operation: TtgirOperation) -> Iterator[str]:
    """The names of those attributes of an operation whose meaning is not known."""
    known = _KNOWN.get(operation.name, frozenset()) | _ANYWHERE
    for name in operation.attributes:
        if name not in known and "." not in name:
            yield name
