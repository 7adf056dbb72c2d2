"""The fixed list of shapes that a build goes down, from the best to the plainest.

Depth is the outer loop: a deep plain ring hides more latency than a shallow clever one. Within a
depth: the order of the schedule with the groups taking turns at the tensor cores (sm_90a, where
they issue products themselves), the same without turns; only the last multiplication one turn
behind, which needs fewer registers; one iteration at a time. Then the same depths without a warp
that only loads, down to the baseline of the seed (depth 2) whose last iteration threads copy, and
at the very end no pipeline at all. Where a tensor has no tensor map the list is another
(`_guarded`). Source: seed formulation, architecture overview.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from titan.pipeline import cdna
from titan.pipeline.model import Shape
from titan.tile.alignment import unaligned
from titan.tile.model import TileProgram

DEPTH_MIN = 2
DEPTH_DEFAULT = 4


def shapes(tile: TileProgram, needed: int, most: int) -> Iterator[Shape]:
    """The candidates in order.

    `needed` stages hide the latency of the loads in the schedule, `most` are what it had.
    """
    depth = tile.depth or min(max(needed, DEPTH_MIN), max(most, DEPTH_MIN))
    if tile.target.startswith("gfx"):
        yield from cdna.shapes(tile, depth)
        return
    multiplications = sum(operation.kind == "mma" for operation in tile.body)
    if unaligned(tile):
        yield from _guarded(tile, depth, bool(multiplications))
        return
    if tile.tail == "threads":
        yield from _tails(tile, depth, bool(multiplications))
        return
    turns = tile.groups == 2 and multiplications >= 2 and tile.target == "sm_90a"
    for stages in range(depth, DEPTH_MIN - 1, -1) if depth >= DEPTH_MIN else (depth,):
        plain = Shape(f"depth {stages}", stages, persistent=tile.persistent)
        if turns:
            yield _named(plain, "order of the schedule, taking turns", True, True)
        if multiplications:
            yield _named(plain, "order of the schedule", True, False)
        if multiplications >= 2 and tile.target == "sm_90a":
            text = "last product one turn behind"
            if turns:
                yield _named(plain, f"{text}, taking turns", False, True, behind=True)
            yield _named(plain, text, False, False, behind=True)
        yield _named(plain, "one iteration at a time", False, False)
    if tile.target != "sm_90a" and multiplications:
        return
    if tile.cluster == 1:
        yield _tail(tile, DEPTH_MIN)
    for stages in range(max(depth, DEPTH_MIN), 0, -1):
        name = f"depth {stages}, no loading warp" if stages > 1 else "no pipeline"
        yield Shape(name, stages, specialised=False, overlapped=False)


def _guarded(tile: TileProgram, depth: int, multiplies: bool) -> Iterator[Shape]:
    """Tiles by bulk copies, which says why not; then by threads, at the same depths."""
    yield Shape(f"depth {depth}, bulk copies", depth, overlapped=False, persistent=tile.persistent)
    if tile.target != "sm_90a" and multiplies:
        return
    for stages in range(depth, DEPTH_MIN - 1, -1) if depth >= DEPTH_MIN else (depth,):
        plain = Shape(
            f"depth {stages}, guarded copies by threads", stages,
            persistent=tile.persistent, guarded=True,
        )  # fmt: skip
        if multiplies:
            yield _named(plain, "order of the schedule", True, False)
        yield _named(plain, "one iteration at a time", False, False)


def _tails(tile: TileProgram, depth: int, multiplies: bool) -> Iterator[Shape]:
    """Whole boxes, which says why not; then the last iteration by threads."""
    yield Shape(f"depth {depth}, bulk copies", depth, overlapped=False, persistent=tile.persistent)
    if tile.target != "sm_90a" and multiplies:
        return
    for stages in range(depth, DEPTH_MIN - 1, -1) if depth >= DEPTH_MIN else (depth,):
        plain = _tail(tile, stages)
        if multiplies:
            yield replace(plain, name=f"{plain.name}, order of the schedule", overlapped=True)
        yield plain


def _tail(tile: TileProgram, stages: int) -> Shape:
    name = f"depth {stages}, last iteration by threads"
    return Shape(name, stages, overlapped=False, persistent=tile.persistent, tail=True)


def _named(
    plain: Shape, text: str, overlapped: bool, ping_pong: bool, behind: bool = False
) -> Shape:
    return Shape(
        f"{plain.name}, {text}",
        plain.depth,
        overlapped=overlapped,
        ping_pong=ping_pong,
        behind=behind,
        persistent=plain.persistent,
        guarded=plain.guarded,
    )
