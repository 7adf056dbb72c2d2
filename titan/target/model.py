"""A target machine as a scheduler sees it: units, pools, memories, registers and warp limits.

A unit accepts `capacity` uses at once. A pool limits a weighted sum over several units, in every
cycle (`window_cycles` 1) or, for fractional rates, over every window of `window_cycles` successive
cycles of the steady state: capacity one half is amount 1 in a window of 2. Memories and registers
are held over lifetimes, not over cycles. The issue limit is a unit like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Unit:
    """A functional unit with `capacity` instances; `source` says where the number is from."""

    name: str
    capacity: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class ResourcePool:
    """At most `amount` of the weighted use of `members` in any `window_cycles` cycles."""

    name: str
    members: tuple[tuple[str, int], ...]
    amount: int
    window_cycles: int = 1
    source: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of which a loop may hold `capacity` (in `measure`, bytes or columns) at a time."""

    name: str
    capacity: int
    measure: str = "bytes"
    source: str = ""


@dataclass(frozen=True, slots=True)
class WarpGroup:
    """Warps that run the same operations; `registers_per_thread` None means no limit is checked."""

    name: str
    warps: int
    registers_per_thread: int | None = None
    variable_latency: bool = False

    def words(self, threads_per_warp: int) -> int | None:
        """Register capacity in 32-bit words of all threads of the group."""
        if self.registers_per_thread is None:
            return None
        return self.registers_per_thread * threads_per_warp * self.warps


@dataclass(frozen=True, slots=True)
class Machine:
    """One target. `groups` is the default partition into warp groups of a kernel for it."""

    name: str
    title: str
    units: Mapping[str, Unit]
    pools: tuple[ResourcePool, ...] = ()
    memories: Mapping[str, Memory] = field(default_factory=dict)
    groups: tuple[WarpGroup, ...] = ()
    threads_per_warp: int = 32
    warps_max: int = 64
    registers_per_thread_max: int = 255
    registers_total: int = 65536
    spill_base_cycles: int = 0
    spill_cycles_per_kib: int = 0
    sources: tuple[str, ...] = ()

    def spill_cycles(self, words: int) -> int:
        """Cycles to hand `words` 32-bit registers to another group through shared memory."""
        return self.spill_base_cycles + -(-self.spill_cycles_per_kib * words * 4 // 1024)
