"""Places a litmus test in a launch: threads in warps of CTAs of clusters, locations in memory.

A litmus thread is the first lane of a warp (of a warpgroup if it uses `wgmma`). One instance takes
as many clusters as the test names, all padded to the size of the largest, because every cluster of
a launch has the same size. Sizes and offsets are in bytes. Multicast needs its destinations at the
same offset in each CTA; such locations share one.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.memory import ast
from titan.memory.ast import LitmusTest, Location, Placement, Proxy, Space, Thread
from titan.memory.render.refusal import NotRenderable

WARP_THREADS = 32
WARPGROUP_WARPS = 4
CTA_THREADS_MAX = 1024
CLUSTER_CTAS_MAX = 8  # the portable limit
SLOT_BYTES = 128  # alignment of every location: a tensor map's, which is the largest of all
WGMMA_TILE_BYTES = 256  # 8 columns of 32 bytes
SHARED_BYTES_MAX = 48 * 1024  # what a kernel has without asking for more


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a location lies: `offset` in the instance's global part or in its CTA's shared."""

    index: int
    location: Location
    offset: int
    size: int
    cta: int | None  # of the instance; None is global memory

    @property
    def shared(self) -> bool:
        return self.cta is not None


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a litmus thread runs: the CTA of the instance, and its first warp in it."""

    index: int
    thread: Thread
    cta: int
    warp: int
    warps: int


@dataclass(frozen=True, slots=True)
class Layout:
    """`cluster_ctas` CTAs a cluster, `clusters` clusters an instance; CTA = cluster, rank."""

    cells: dict[str, Cell]
    seats: tuple[Seat, ...]
    clusters: int
    cluster_ctas: int
    cta_threads: int
    global_bytes: int
    shared_bytes: int

    def cluster(self, cta: int) -> int:
        return cta // self.cluster_ctas

    def rank(self, cta: int) -> int:
        return cta % self.cluster_ctas

    @property
    def ctas(self) -> int:
        return self.clusters * self.cluster_ctas


def lay_out(test: LitmusTest) -> Layout:
    """Decide all places; raises `NotRenderable` where one launch has no such place."""
    places = _places(test)
    gpus = {place.gpu for place in places}
    if len(gpus) > 1:
        raise NotRenderable(
            "several gpus", f"the test needs {len(gpus)} gpus, and a launch runs on one", test.span
        )
    clusters: dict[int, list[Placement]] = {}
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
    seats, warps = _seats(test, numbers)
    cells, global_bytes, shared_bytes = _cells(test, numbers)
    if warps * WARP_THREADS > CTA_THREADS_MAX or shared_bytes > SHARED_BYTES_MAX:
        raise NotRenderable("size", "the test does not fit into a cta", test.span)
    return Layout(
        cells, seats, len(clusters), width, warps * WARP_THREADS, global_bytes, shared_bytes
    )


def _places(test: LitmusTest) -> list[Placement]:
    homes = [place.home for place in test.locations if place.home is not None]
    return sorted({thread.placement for thread in test.threads} | set(homes))


def _seats(test: LitmusTest, numbers: dict[Placement, int]) -> tuple[tuple[Seat, ...], int]:
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


def needs_warpgroup(thread: Thread) -> bool:
    for step in thread.instructions:
        match step:
            case ast.MatrixRead() | ast.NoEffect():
                return True
            case ast.CommitGroup(kind) | ast.WaitGroup(kind) if kind is ast.GroupKind.WGMMA:
                return True
    return False


def _cells(test: LitmusTest, numbers: dict[Placement, int]) -> tuple[dict[str, Cell], int, int]:
    sizes = _sizes(test)
    together = _together(test)
    cells: dict[str, Cell] = {}
    shared_offsets: dict[str, int] = {}
    global_end, shared_end = SLOT_BYTES, 0  # the first global slot is where the threads meet
    for index, location in enumerate(test.locations):
        _plain(location)
        size = sizes[location.name]
        cta = numbers[location.home] if location.home is not None else None
        if (location.space is Space.SHARED) != (cta is not None):
            raise NotRenderable("space", "a shared location needs a home cta", location.span)
        if cta is None:
            cells[location.name] = Cell(index, location, global_end, size, None)
            global_end += size
            continue
        key = together.get(location.name, location.name)
        if key not in shared_offsets:
            members = [name for name, other in together.items() if other == key]
            shared_offsets[key] = shared_end
            shared_end += max(sizes[name] for name in [*members, location.name])
        cells[location.name] = Cell(index, location, shared_offsets[key], size, cta)
    taken = [(cell.cta, cell.offset) for cell in cells.values() if cell.shared]
    if len(set(taken)) != len(taken):
        raise NotRenderable("multicast", "a multicast writes one cta twice", test.span)
    return cells, global_end, shared_end


def _plain(location: Location) -> None:
    if location.proxy is not Proxy.GENERIC:
        raise NotRenderable(
            f"{location.proxy} proxy",
            f"accesses through the {location.proxy} proxy are not rendered: the address would "
            "have to be bound by the host",
            location.span,
        )
    if location.alias_of is not None:
        raise NotRenderable(
            "virtual alias",
            "a second virtual address of the same memory has to be mapped by the host",
            location.span,
        )
    if not -(2**31) <= location.initial < 2**31:
        raise NotRenderable("size", "an initial value does not fit 32 bits", location.span)


def _sizes(test: LitmusTest) -> dict[str, int]:
    """Bytes of each location: a slot, or what the largest bulk copy or `wgmma` touches."""
    sizes = {location.name: SLOT_BYTES for location in test.locations}
    for thread in test.threads:
        for step in thread.instructions:
            touched: dict[str, int] = {}
            if isinstance(step, ast.BulkCopy):
                names = [*step.destinations, *([step.source] if step.source else [])]
                touched = dict.fromkeys(names, step.size)
            elif isinstance(step, ast.MatrixRead):
                touched = {step.location: WGMMA_TILE_BYTES}
            for name, size in touched.items():
                sizes[name] = max(sizes[name], -(-size // SLOT_BYTES) * SLOT_BYTES)
    return sizes


def _together(test: LitmusTest) -> dict[str, str]:
    """Locations that must share an offset -> the name that stands for all of them."""
    leader: dict[str, str] = {}
    for thread in test.threads:
        for step in thread.instructions:
            if isinstance(step, ast.BulkCopy) and len(step.destinations) > 1:
                for names in (step.destinations, step.barriers):
                    merged = {leader.get(name, name) for name in names}
                    chosen = min(merged)
                    leader |= dict.fromkeys(names, chosen)
                    leader |= {n: chosen for n, old in leader.items() if old in merged}
    return leader
