"""The places of a rendered test as data: seats of threads, cells of locations, sizes in bytes.

Global locations lie in one of three regions: `memory`, which the host allocates; `array`, the
memory of a surface; `constant`, the memory of a `__constant__` variable. A virtual alias is the
same offset in another view, which the host maps to the same memory. A location that tensor copies
use as their descriptor holds a tensor map; its values are tiles that the map points at. One in
shared memory is a draft that a descriptor copy brings to global memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from titan.litmus.language.ast import LitmusThread, Location

WARP_THREADS = 32
WARPGROUP_WARPS = 4
CTA_THREADS_MAX = 1024
CLUSTER_CTAS_MAX = 8  # the portable limit
SLOT_BYTES = 128  # alignment of every location: a tensor map's, which is the largest of all
WGMMA_TILE_BYTES = 256  # 8 columns of 32 bytes
SHARED_BYTES_MAX = 48 * 1024  # what a kernel has without asking for more
TENSOR_TILE_BYTES = 16  # four words: the box of every tensor map


class LitmusRegion(StrEnum):
    """Where the host gets the memory of a location from."""

    MEMORY = "memory"
    ARRAY = "array"
    CONSTANT = "constant"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a location lies: `offset` in its region's part of the instance, seen through `view`.

    In the array region the offset counts texels of the instance. `tiles` says for a tensor map
    where the tile of each value lies in global memory, and `images` for one whose final value is
    asked for where a descriptor of each value lies to compare it with: value, offset, the number of
    the encoded map it is made of, offset of its tile.
    """

    index: int
    location: Location
    offset: int
    size: int
    cta: int | None  # of the instance; None is global memory
    region: LitmusRegion = LitmusRegion.MEMORY
    view: int = 0
    tiles: tuple[tuple[int, int], ...] = ()
    images: tuple[tuple[int, int, int, int], ...] = ()

    @property
    def shared(self) -> bool:
        """Whether the cell is in shared memory of a CTA."""
        return self.cta is not None

    @property
    def is_map(self) -> bool:
        """Whether the cell is a tensor map."""
        return bool(self.tiles)


@dataclass(frozen=True, slots=True)
class KernelDevice:
    """What places depend on: `whole` is the word for all that one launch reaches.

    `cluster_ctas_max` is None where clusters (XCDs) take any number of CTAs (work-groups).
    """

    whole: str
    warp_threads: int
    shared_bytes_max: int
    cluster_ctas_max: int | None


NVIDIA = KernelDevice("gpu", WARP_THREADS, SHARED_BYTES_MAX, CLUSTER_CTAS_MAX)
AMD = KernelDevice("agent", 64, 64 * 1024, None)


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a litmus thread runs: the CTA of the instance, and its first warp in it.

    `part` numbers threads of a test that share a wave.
    """

    index: int
    thread: LitmusThread
    cta: int
    warp: int
    warps: int
    part: int = 0


@dataclass(frozen=True, slots=True)
class LitmusLayout:
    """`cluster_ctas` CTAs a cluster, `clusters` clusters an instance; CTA = cluster, rank.

    For AMD devices a CTA is a work-group and a cluster are the work-groups of one XCD.
    """

    cells: dict[str, Cell]
    seats: tuple[Seat, ...]
    clusters: int
    cluster_ctas: int
    cta_threads: int
    global_bytes: int
    shared_bytes: int
    views: dict[LitmusRegion, int]
    texels: int
    constant_bytes: int
    device: KernelDevice = NVIDIA

    def cluster(self, cta: int) -> int:
        """The cluster that a CTA of the instance is in."""
        return cta // self.cluster_ctas

    def rank(self, cta: int) -> int:
        """The rank of a CTA within its cluster."""
        return cta % self.cluster_ctas

    @property
    def group_warps(self) -> int:
        """Warps that the threads of one CTA of the test take."""
        return self.cta_threads // self.device.warp_threads

    @property
    def parts(self) -> int:
        """How many threads of the test share a wave at most."""
        return 1 + max((seat.part for seat in self.seats), default=0)

    @property
    def ctas(self) -> int:
        """CTAs of one instance of the test."""
        return self.clusters * self.cluster_ctas
