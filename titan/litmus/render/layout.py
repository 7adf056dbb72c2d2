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
    CTA_THREADS_MAX,
    NVIDIA,
    WARPGROUP_WARPS,
    KernelDevice,
    LitmusLayout,
    Seat,
)
from titan.litmus.render.refusal import NotRenderable
from titan.litmus.render.tensors import is_tensor


def lay_out(test: LitmusTest, device: KernelDevice = NVIDIA) -> LitmusLayout:
    """Decide all places; raises `NotRenderable` where one launch has no such place."""
    places = _places(test)
    wholes = {place.gpu for place in places}
    if len(wholes) > 1:
        raise NotRenderable(
            f"several {device.whole}s",
            f"the test needs {len(wholes)} {device.whole}s, and a launch runs on one",
            test.span,
        )
    layout = lay_out_anywhere(test, device)
    most = device.cluster_ctas_max
    if most is not None and layout.cluster_ctas > most:
        raise NotRenderable(
            "size", f"a cluster of {layout.cluster_ctas} ctas, but {most} are portable", test.span
        )
    return layout


def lay_out_anywhere(test: LitmusTest, device: KernelDevice = NVIDIA) -> LitmusLayout:
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
    seats, warps = _seats(test, numbers)
    placed = CellAllocation(test, numbers)
    threads = warps * device.warp_threads
    if threads > CTA_THREADS_MAX or placed.shared_end > device.shared_bytes_max:
        raise NotRenderable("size", "the test does not fit into a cta", test.span)
    return LitmusLayout(
        placed.cells,
        seats,
        len(clusters),
        width,
        threads,
        placed.global_end,
        placed.shared_end,
        placed.views,
        placed.texels,
        placed.constant_end,
        device,
    )


def _places(test: LitmusTest) -> list[ThreadPlacement]:
    homes = [place.home for place in test.locations if place.home is not None]
    return sorted({thread.placement.group for thread in test.threads} | set(homes))


def _seats(test: LitmusTest, numbers: dict[ThreadPlacement, int]) -> tuple[tuple[Seat, ...], int]:
    """Warpgroups first, because they have to start at a multiple of four warps.

    Threads of AMD devices that name the same wave share it.
    """
    used: dict[int, int] = {}
    seats: dict[int, Seat] = {}
    waves: dict[ThreadPlacement, list[int]] = {}
    order = sorted(enumerate(test.threads), key=lambda pair: not needs_warpgroup(pair[1]))
    for index, thread in order:
        cta = numbers[thread.placement.group]
        mates = waves.setdefault(thread.placement, [])
        mates.append(index)
        if test.dialect.amd and len(mates) > 1:
            first = seats[mates[0]]
            seats[index] = Seat(index, thread, cta, first.warp, 1, len(mates) - 1)
            continue
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
