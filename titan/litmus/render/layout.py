"""Places a litmus test in a launch: threads in warps of CTAs of clusters, locations in memory.

A litmus thread is one lane of a warp (the first of a warpgroup if it uses `wgmma`). One instance
takes as many clusters as the test names, all padded to the size of the largest, because every
cluster of a launch has the same size. Sizes and offsets are in bytes. Multicast needs its
destinations at the same offset in each CTA; such locations share one.
"""

from __future__ import annotations

from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest, LitmusThread, ThreadPlacement
from titan.litmus.render.cells import CellAllocation
from titan.litmus.render.places import (
    CLUSTER_CTAS_MAX,
    CTA_THREADS_MAX,
    SHARED_BYTES_MAX,
    WARP_THREADS,
    WARPGROUP_WARPS,
    LitmusLayout,
    Seat,
)
from titan.litmus.render.refusal import NotRenderable
from titan.litmus.render.tensors import is_tensor


def lay_out(test: LitmusTest) -> LitmusLayout:
    """Decide all places; raises `NotRenderable` where one launch has no such place."""
    places = _places(test)
    gpus = {place.gpu for place in places}
    if len(gpus) > 1:
        raise NotRenderable(
            "several gpus", f"the test needs {len(gpus)} gpus, and a launch runs on one", test.span
        )
    clusters: dict[int, list[ThreadPlacement]] = {}
    for place in places:
        clusters.setdefault(place.cluster, []).append(place)
    width = max(len(members) for members in clusters.values())
    if width > CLUSTER_CTAS_MAX:
        raise NotRenderable(
            "size", f"a cluster of {width} ctas, but {CLUSTER_CTAS_MAX} are portable", test.span
        )
    numbers = {
        place: cluster * width + rank
        for cluster, members in enumerate(clusters.values())
        for rank, place in enumerate(members)
    }
    return _layout(test, numbers, len(clusters), width)


def lay_out_anywhere(test: LitmusTest) -> LitmusLayout:
    """For a machine that is one scope: every CTA of the test is a place, whatever its gpu."""
    clusters: dict[tuple[int, int], list[ThreadPlacement]] = {}
    for place in _places(test):
        clusters.setdefault((place.gpu, place.cluster), []).append(place)
    width = max(len(members) for members in clusters.values())
    numbers = {
        place: cluster * width + rank
        for cluster, members in enumerate(clusters.values())
        for rank, place in enumerate(members)
    }
    return _layout(test, numbers, len(clusters), width)


def _layout(
    test: LitmusTest, numbers: dict[ThreadPlacement, int], clusters: int, width: int
) -> LitmusLayout:
    seats, warps = _seats(test, numbers)
    placed = CellAllocation(test, numbers)
    if warps * WARP_THREADS > CTA_THREADS_MAX or placed.shared_end > SHARED_BYTES_MAX:
        raise NotRenderable("size", "the test does not fit into a cta", test.span)
    return LitmusLayout(
        placed.cells,
        seats,
        clusters,
        width,
        warps * WARP_THREADS,
        placed.global_end,
        placed.shared_end,
        placed.views,
        placed.texels,
        placed.constant_end,
    )


def _places(test: LitmusTest) -> list[ThreadPlacement]:
    homes = [place.home for place in test.locations if place.home is not None]
    return sorted({thread.placement for thread in test.threads} | set(homes))


def _seats(test: LitmusTest, numbers: dict[ThreadPlacement, int]) -> tuple[tuple[Seat, ...], int]:
    """Warpgroups first, because they have to start at a multiple of four warps."""
    used: dict[int, int] = {}
    seats: dict[int, Seat] = {}
    order = sorted(enumerate(test.threads), key=lambda pair: not needs_warpgroup(pair[1]))
    for index, thread in order:
        cta = numbers[thread.placement]
        warps = WARPGROUP_WARPS if needs_warpgroup(thread) else 1
        seats[index] = Seat(index, thread, cta, used.get(cta, 0), warps)
        used[cta] = used.get(cta, 0) + warps
    return tuple(seats[index] for index in sorted(seats)), max(used.values())


def needs_warpgroup(thread: LitmusThread) -> bool:
    """Whether the thread issues wgmma, which four warps do together."""
    for step in thread.instructions:
        match step:
            case ast.MatrixRead() | ast.NoEffect() if not is_tensor(step):
                return True
            case ast.CommitGroup(kind) | ast.WaitGroup(kind) if kind is ast.GroupKind.WGMMA:
                return True
    return False
