"""One target: what it accepts, what its operations complete in, and what follows from that.

Everything that other rooms ask of a target's name stands here as a capability, so that none of them
looks into the name. The data are the files of `backends/<target>/`.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

from titan.foundation.records import dataclass
from titan.target.completion import MBARRIER, CompletionTable, Vendor, Waits, completion
from titan.target.limits import TargetLimits, limits

# What protocols are lowered to and tile programs are built for; legality knows more targets.
GENERATED = ("sm_90a", "sm_100a", "gfx942", "gfx950")


@dataclass(frozen=True)
class Target:
    """A target by its name, with the limits and the completion table of its folder.

    `completion` is None for a target without a file; it then has no capability.
    """

    name: str
    limits: TargetLimits
    completion: CompletionTable | None

    @property
    def nvidia(self) -> bool:
        """Whether PTX is what its instructions are described in."""
        return self.completion is not None and self.completion.vendor is Vendor.NVIDIA

    @property
    def amd(self) -> bool:
        """Whether it counts in wait counters of a wave."""
        return self.completion is not None and self.completion.vendor is Vendor.AMD

    @cached_property
    def threads_per_warp(self) -> int:
        """Lanes of a warp or wave; 32 where nothing is known."""
        return self.limits.number("threads_per_warp") or 32

    @property
    def generated(self) -> bool:
        """Whether there are lowering and code generation for it."""
        return self.name in GENERATED

    @cached_property
    def shared_bytes(self) -> int:
        """Shared memory or LDS of one CTA or work-group; 0 where nothing is known."""
        return self.limits.number("shared_bytes") or 0

    @cached_property
    def lds_copy_bytes(self) -> tuple[int, ...]:
        """What a lane can copy to LDS at once in whole words, powers of two, the widest first."""
        widths = self.limits.numbers("lds_dma_widths") or ()
        return tuple(sorted((w for w in widths if w >= 4 and w & (w - 1) == 0), reverse=True))

    @cached_property
    def parity_barriers(self) -> bool:
        """Whether it has mbarriers that are waited for by the parity of a phase."""
        return self.nvidia and self.limits.table("operations").get(MBARRIER, 0) > 0

    @cached_property
    def matrix_counter(self) -> str:
        """The queue kind that matrix instructions complete by; empty where they are synchronous."""
        return self.completion.counter_of("mma") if self.completion is not None else ""

    @cached_property
    def matrix_commits_to_barriers(self) -> bool:
        """Whether matrix instructions are waited for by a commit to an mbarrier, never by count."""
        counters = self.completion.counters if self.completion is not None else {}
        row = counters.get(self.matrix_counter)
        return row is not None and row.waits is Waits.NONE

    @cached_property
    def cluster_barrier_counts_groups(self) -> bool:
        """Whether one wave of each work-group signals at a cluster barrier, and all wait."""
        return self.amd and self.limits.table("operations").get("barrier_wait", 0) > 0

    @cached_property
    def copies_direct_to_shared(self) -> bool:
        """Whether loads to LDS that count in a wait counter are how stages are filled."""
        return self.amd

    @cached_property
    def bulk_copies(self) -> bool:
        """Whether it has bulk copies that complete on an mbarrier."""
        rows = self.completion.operations if self.completion is not None else ()
        return any(row.verb == "bulk_load" for row in rows)


def generated_targets(vendor: Vendor) -> tuple[str, ...]:
    """The targets of a vendor that code is generated for."""
    known = (target_of(name).completion for name in GENERATED)
    return tuple(table.target for table in known if table and table.vendor is vendor)


@lru_cache(maxsize=64)
def target_of(name: str) -> Target:
    """The target of a name, read once. Raises FaultyLimits and FaultyCompletion."""
    return Target(name, limits(name), completion(name))
