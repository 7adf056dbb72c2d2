"""Which threads of a launch a role is for: a CTA of the cluster, and a half of its waves.

A function of TTGIR is what all threads of all CTAs do together. It is read once for each CTA, and
once for each half of the waves where the halves alternate (`amdg.cond_barrier`, stages of a warp
pipeline): then a wave of one half is a barrier ahead of the other.

A layout says how CTAs share a tensor: bit `n` of the rank of a CTA moves its part by the basis
`n`. CTAs whose ranks differ only in bits with a basis of zeros hold the same part; an mbarrier of
such CTAs is that of the lowest rank among them, its *leader* (Triton, CGALayout).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from titan.frontends.ttgir.model import MemoryType, TtgirModule

HALVES = ("lower", "upper")
_BASES = re.compile(r"\b(?:CGALayout|block)\s*=\s*\[((?:\s*\[[\d,\s]*\]\s*,?)*)\]")
_BASIS = re.compile(r"\[([\d,\s]*)\]")


@dataclass(frozen=True, slots=True)
class DraftPlace:
    """The threads of one draft. `half` is 0 or 1 where the halves of the waves alternate."""

    cta: int = 0
    ctas: int = 1
    half: int | None = None

    def role(self, name: str) -> str:
        """The name of a role of these threads."""
        if self.half is not None:
            name = f"{name}_{HALVES[self.half]}"
        return self.named(name)

    def named(self, name: str, cta: int | None = None) -> str:
        """The name of what each CTA has for itself: an allocation, a barrier."""
        return name if self.ctas == 1 else f"{name}@{self.cta if cta is None else cta}"


def works_in_pairs(module: TtgirModule) -> bool:
    """Whether tensor cores work for pairs of CTAs."""
    return "true" in module.attributes.get("ttng.two-ctas", "")


def bases(of: MemoryType, layouts: Mapping[str, str]) -> tuple[tuple[int, ...], ...] | None:
    """The bases of the layout of a view, one for each bit of a rank; None where it has none."""
    found = _BASES.search(layouts.get(of.layout, of.layout))
    if found is None:
        return None
    return tuple(
        tuple(int(part) for part in basis.split(",") if part.strip())
        for basis in _BASIS.findall(found[1])
    )


def shared_bits(of: tuple[tuple[int, ...], ...]) -> int:
    """The bits of a rank that do not change which part a CTA holds."""
    return sum(1 << bit for bit, basis in enumerate(of) if not any(basis))


def group(cta: int, bits: int, ctas: int) -> tuple[int, ...]:
    """The CTAs that differ from one in no other bits than these."""
    return tuple(other for other in range(ctas) if (other ^ cta) & ~bits == 0)
