"""Values of special registers at the start of a warp."""

from __future__ import annotations

from titan.isa.simt.launch import Launch
from titan.isa.simt.layout import RESERVED_BYTES, MemoryLayout
from titan.isa.simt.values import LANES, UNKNOWN, Scalar, Value


def special_value(launch: Launch, layout: MemoryLayout, name: str, cta: int, warp: int) -> Value:
    """The value of `%name` in every lane; opaque for what a launch does not fix: `%warpid` is the
    place of a warp in the processor, which may change, and `%nwarpid` how many places there are.

    Source: PTX, "Special Registers".
    """
    stem, _, axis = name.partition(".")
    place = "xyz".find(axis) if axis else 0
    if stem == "tid":
        return _thread(launch, warp, place)
    if stem == "laneid":
        return list(range(LANES))
    if stem.startswith("lanemask_"):
        return [_lane_mask(stem.removeprefix("lanemask_"), lane) for lane in range(LANES)]
    if axis == "w":
        return 0
    known = _plain(launch, layout, stem, place, cta)
    return UNKNOWN if known is None else known


def _thread(launch: Launch, warp: int, place: int) -> Value:
    x, y, _ = launch.block
    found: list[Scalar] = []
    for lane in range(LANES):
        thread = warp * LANES + lane
        found.append((thread % x, thread // x % y, thread // (x * y))[place])
    if len(set(found)) == 1:
        return found[0]
    return found


def _lane_mask(which: str, lane: int) -> int:
    equal, less = 1 << lane, (1 << lane) - 1
    return {
        "eq": equal,
        "lt": less,
        "le": less | equal,
        "ge": 0xFFFFFFFF & ~less,
        "gt": 0xFFFFFFFF & ~(less | equal),
    }[which]


def _plain(launch: Launch, layout: MemoryLayout, stem: str, place: int, cta: int) -> int | None:
    at = launch.coordinates(cta)
    cluster = launch.cluster
    if stem == "cluster_ctarank":
        return launch.cluster_members(cta).index(cta)
    dynamic = layout.shared_bytes - layout.dynamic_start
    table = {
        "ntid": launch.block[place],
        "ctaid": at[place],
        "nctaid": launch.grid[place],
        "clusterid": at[place] // cluster[place],
        "nclusterid": launch.grid[place] // cluster[place],
        "cluster_ctaid": at[place] % cluster[place],
        "cluster_nctaid": cluster[place],
        "cluster_nctarank": launch.cluster_size,
        "is_explicit_cluster": int(launch.cluster_size > 1),
        "dynamic_smem_size": dynamic,
        "total_smem_size": layout.static_shared_bytes + dynamic,
        "aggr_smem_size": layout.static_shared_bytes + dynamic + RESERVED_BYTES,
        "reserved_smem_offset_begin": 0,
        "reserved_smem_offset_end": RESERVED_BYTES,
        "reserved_smem_offset_cap": RESERVED_BYTES,
    }
    return table.get(stem)
