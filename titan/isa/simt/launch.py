"""The launch that the machine runs: grid, block, cluster, parameters, tensor maps, memory.

What is not known stays unknown: bytes of parameters and of memory that were not given are opaque,
and the machine names what is missing when control or an address depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Dimensions = tuple[int, int, int]

MAP_BYTES = 128
QUESTION = "a word of global memory is asked for"
EVENTS_SPENT = "the budget of events is used"
EVENTS_MAX = 2_000_000  # of one run, which takes two gigabytes with its sync program
WORD_BYTES = (4, 8)  # of what is asked for


@dataclass(frozen=True, slots=True)
class LaunchTensorMap:
    """A tensor map as cuTensorMapEncodeTiled or ...Im2col takes it; innermost dimension first.

    `data_type`, `interleave`, `swizzle` and `fill` are the numbers of the driver's enumerations.
    `stride_bytes` has rank - 1 entries. `lower`, `upper` (corners), `channels` and `pixels` are of
    im2col maps, whose `box` is empty.
    """

    data_type: int
    base: int
    dimensions: tuple[int, ...]
    stride_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int = 0
    swizzle: int = 0
    fill: int = 0
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0

    @property
    def rank(self) -> int:
        """The number of dimensions of the tensor."""
        return len(self.dimensions)


@dataclass(frozen=True, slots=True)
class LaunchParameter:
    """The bytes of one parameter of the entry; `known` None means all of them, else a mask of one
    byte (0 or 1) a byte.
    """

    data: bytes
    known: bytes | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """Global memory that the kernel may touch."""

    start: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ModuleMemory:
    """Where the variables of a module are while it is loaded: the address of its global ones, whose
    bytes are global memory of the launch, and the bytes of its constant ones.
    """

    start: int
    constants: bytes


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of one entry.

    `parameters` in the order of the entry's list; missing ones are unknown. `tensor_maps` by their
    128 bytes in memory. `memory` is what is known of global memory at the start, by address.
    `allocations`, if any are given, bound what may be touched (memory of tensor maps is added);
    without any, global memory has no bounds. `pointed`: memory that pointers among the parameters
    lead to, each apart from all other; an unknown index does not leave it. `entry` None:
    the only one of the module. `module` None: its variables have their initial values.
    `cancelled`: how many clusters clusterlaunchcontrol.try_cancel obtains for each cluster that is
    run, those that follow it in the grid, before it finds none. `in_turn`: additions to global
    memory whose old value is used act as if each cluster of the grid made one in turn;
    `draws`, by the address of a counter: those that the cluster that is run makes of it instead, as
    numbers in the order of all that are made; further ones go on as in turn. `tickets`:
    addresses of counters whose number in `memory` is the one that the CTA that is run finds there.
    `answers`, if given: what the strong loads of single words of global memory, and the atomics on
    them whose old value is used, find one after the other (None: what is there); a run that needs
    one more is refused with `QUESTION`, and what such a word holds is not known in between.
    `decisions`: which way a warp, by its CTA and number, goes at one branch on unknown data after
    the other (whether it jumps), where its arms do not meet or synchronise and all its lanes come.
    `wave_ways`: the same of waves, by their numbers: the instructions, and whether their conditions
    hold (`titan/isa/waves/decided_ways.py`). `cooperative`: all CTAs of the grid are there at once.
    """

    entry: str | None
    grid: Dimensions
    block: Dimensions
    cluster: Dimensions = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    parameters: tuple[LaunchParameter, ...] = ()
    tensor_maps: Mapping[bytes, LaunchTensorMap] = field(default_factory=dict)
    memory: Mapping[int, bytes | memoryview] = field(default_factory=dict)
    allocations: tuple[Allocation, ...] = ()
    module: ModuleMemory | None = None
    pointed: tuple[Allocation, ...] = ()
    cancelled: int = 0
    in_turn: bool = False
    draws: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    tickets: tuple[int, ...] = ()
    answers: tuple[int | None, ...] | None = None
    cooperative: bool = False
    decisions: Mapping[tuple[int, int], tuple[bool, ...]] = field(default_factory=dict)
    wave_ways: Mapping[int, tuple[tuple[int, bool], ...]] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Threads of each CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of each CTA; the last may have fewer than 32 threads."""
        return (self.threads + 31) // 32

    @property
    def ctas(self) -> int:
        """CTAs of the whole grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster_size(self) -> int:
        """CTAs of each cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    def maps(self) -> tuple[LaunchTensorMap, ...]:
        """The tensor maps of the launch, without their names."""
        return tuple(self.tensor_maps.values())

    def boxes_fit(self) -> bool:
        """Whether no box is larger than its tensor, so that none is clipped on two sides at once.

        Then what is left of a clipped box says where the box lies.
        """
        return all(
            not map_.pixels
            and all(box <= size for box, size in zip(map_.box, map_.dimensions, strict=True))
            for map_ in self.maps()
        )

    def coordinates(self, cta: int) -> Dimensions:
        """%ctaid of a linear index."""
        x, y, _ = self.grid
        return cta % x, cta // x % y, cta // (x * y)

    def cluster_members(self, cta: int) -> tuple[int, ...]:
        """The linear indices of the CTAs of the cluster of `cta`, by their rank in it."""
        place = self.coordinates(cta)
        low = [at - at % size for at, size in zip(place, self.cluster, strict=True)]
        cx, cy, cz = self.cluster
        return tuple(
            self.linear((low[0] + x, low[1] + y, low[2] + z))
            for z in range(cz)
            for y in range(cy)
            for x in range(cx)
        )

    @property
    def clusters(self) -> int:
        """Clusters of the whole grid."""
        return self.ctas // self.cluster_size

    def cluster_number(self, cta: int) -> int:
        """The linear index of the cluster of a CTA, x the fastest."""
        places = zip(self.coordinates(cta), self.grid, self.cluster, strict=True)
        number, factor = 0, 1
        for at, extent, size in places:
            number += at // size * factor
            factor *= extent // size
        return number

    def following(self, cta: int, count: int) -> Dimensions:
        """%ctaid of the first CTA of the cluster `count` after that of `cta`, round the grid."""
        across = [n // size for n, size in zip(self.grid, self.cluster, strict=True)]
        number = (self.cluster_number(cta) + count) % self.clusters
        found = (
            number % across[0],
            number // across[0] % across[1],
            number // across[0] // across[1],
        )
        x, y, z = (at * size for at, size in zip(found, self.cluster, strict=True))
        return x, y, z

    def linear(self, place: Dimensions) -> int:
        """The linear index in the grid of the CTA at (x, y, z), x the fastest."""
        return place[0] + self.grid[0] * (place[1] + self.grid[1] * place[2])


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. `ctas`: the linear indices of the CTAs to run (whole clusters); None runs all.

    `seed` 0 is round-robin in order; others shuffle. `steps_max` counts warp instructions,
    `events_max` what is recorded of them, which bounds the memory of a run; it ends before the
    first instruction beyond, with `EVENTS_SPENT`.
    `first_poll_fails`: the first test_wait or try_wait at each place for each phase gives false, as
    it may in some interleaving; code that peeks before it waits then shows its wait.
    `highest_columns`: tcgen05.alloc gives the highest free columns of tensor memory, not the
    lowest; code that takes them to begin at 0 then shows that it does. `strong_as_plain`: strong
    accesses of a warp's lanes clash as plain ones do, but for reductions with each other; what they
    give is settled where nothing clashes. `lone_lanes`: activemask in an arm finds each lane alone,
    and they go on alone to the end of the arm; of the Python machine.
    """

    ctas: tuple[int, ...] | None = None
    seed: int = 0
    steps_max: int = 20_000_000
    events_max: int = EVENTS_MAX
    first_poll_fails: bool = True
    highest_columns: bool = False
    strong_as_plain: bool = False
    lone_lanes: bool = False
