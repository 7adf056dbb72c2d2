"""Which model a litmus test is decided under: the first word of its file says so.

`PTX` is the PTX memory model with proxies. `AMDGPU` is the source model of AMD devices: scoped
C++ atomics as the LLVM AMDGPU memory model has them (scopes are inclusive, a data race makes every
outcome possible). `GFX90A`, `GFX942` and `GFX950` are tests of machine instructions, which are
explored and not decided by axioms. The source models share their events and relations; a table says
which rules the one has and the other lacks.
"""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """The word that a litmus file starts with."""

    PTX = "PTX"
    AMDGPU = "AMDGPU"
    GFX90A = "GFX90A"
    GFX942 = "GFX942"
    GFX950 = "GFX950"

    @property
    def machine(self) -> str | None:
        """The target whose instructions the test consists of; None for a source test."""
        return self.value.lower() if self.value.startswith("GFX") else None

    @property
    def amd(self) -> bool:
        """Whether places are those of AMD devices."""
        return self is not Dialect.PTX


# Rules of `mutants` that a dialect does not have.
ABSENT: dict[Dialect, frozenset[str]] = {
    Dialect.PTX: frozenset({"single_order", "sync_fenced_barriers"}),
    Dialect.AMDGPU: frozenset(
        {
            # C++20 release sequences continue through atomics only, and begin with the release
            "release_then_write",
            "read_then_acquire",
            # `fence.sc` of C++ orders in the single order, but does not synchronise by it
            "sync_fence_sc",
            "fence_sc",
            # `s_barrier` alone makes threads meet; what is visible behind it is up to fences
            "sync_barriers",
            "sync_cluster_barriers",
            "sync_mbarriers",
        }
    ),
}


def in_force(rule: str, dialect: Dialect) -> bool:
    """Whether a dialect has a rule at all."""
    return rule not in ABSENT.get(dialect, frozenset())
