"""How a race of two CTAs in global memory is shown (`TTN201`), whoever has found it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint
from titan.isa.simt.launch import Launch

MODES = {ev.Mode.READ: "reads", ev.Mode.WRITE: "writes", ev.Mode.ATOMIC: "updates"}


@dataclass(frozen=True, slots=True)
class RacingAccess:
    """One side of a race; `remark` follows its label."""

    cta: int
    event: ev.Event
    mode: ev.Mode
    remark: str = ""


def race_diagnostic(
    pair: tuple[RacingAccess, RacingAccess], common: tuple[int, int], launch: Launch,
    places: CodePlaces, *, though: str = "", helps: tuple[str, ...] = (),
    others: Sequence[Annotation] = (),
) -> Diagnostic:  # fmt: skip
    """The race at both instructions. `common`: bytes that both access; `though`: what CTAs do
    against it, behind the headline; `others`: places to be shown besides.
    """
    (low, high), ctas = common, [coordinates(launch, item.cta) for item in pair]
    headline = (
        f"CTA {ctas[0]} and CTA {ctas[1]} access global+{low:#x}..{high - 1:#x} and nothing "
        f"orders them{though}"
    )
    first, second = (places.span(item.event.instruction) for item in pair)
    labels = [
        f"CTA {cta} {MODES[item.mode]} here (warp {item.event.warp}){item.remark}"
        for cta, item in zip(ctas, pair, strict=True)
    ]
    shown = (Annotation(second, labels[1]), *others)
    made = diagnostic("TTN201", headline, first, labels[0], others=shown, helps=helps)
    return with_sources(made, places)


def common_range(one: Footprint, other: Footprint) -> tuple[int, int]:
    """The first range of bytes in both."""
    return next(
        (max(low, start), min(high, end))
        for low, high in one.ranges()
        for start, end in other.ranges()
        if max(low, start) < min(high, end)
    )


def coordinates(launch: Launch, cta: int) -> str:
    """A CTA in words, by its place in the grid."""
    return f"({', '.join(map(str, launch.coordinates(cta)))})"
