"""The fixed list of shapes that a build may take, from the best to the plainest; the model ranks it
(`ranking.py`), and where that makes no difference the order here decides.

Depth is the outer loop: a deep plain ring hides more latency than a shallow clever one. Within a
depth, where groups take turns at two products with a softmax between them: first only the last
multiplication one iteration behind, the order of FlashAttention-3, whose turn holds both products
and no arithmetic on the scores. Then, for all: the order of the schedule with the groups taking
turns at the tensor cores (sm_90a, where they issue products themselves), the same without turns;
only the last multiplication one iteration behind, which needs fewer registers; one iteration at a
time; that with the most registers for the computing groups (sm_90a, two groups with products and
bulk copies). Then depth 2, the baseline of the seed, with a last iteration that threads copy; then
the same depths without a warp that only loads, and at the very end no pipeline at all. Where a
tensor has no tensor map, or threads are asked for, the list is bulk copies, which say why not, and
the same orders by threads. Where poison is asked for, all shapes have it. Where stores may be
staged in slices, each depth begins with that, which leaves the ring of the loop more room; where
they may be staged in the place of loads, that is done at depths that do not fit otherwise.
Attention in tensor memory whose CTAs differ in the queries alone, and a product whose CTAs differ
in the rows alone, end, of the shapes with a loading warp, with pairs of CTAs, whose rings have more
stages: they need a peer, and an even number of tiles.
Source: seed formulation, architecture overview.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from titan.codegen.pipeline import cdna
from titan.codegen.pipeline.model import Shape
from titan.codegen.tile.alignment import unaligned, unaligned_loads
from titan.codegen.tile.alternation import may_alternate
from titan.codegen.tile.attention import NotAttention, attention_of
from titan.codegen.tile.clusters import PAIR, may_pair
from titan.codegen.tile.cost import shared_left, shares_of
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.rates import rates
from titan.codegen.tile.roofline import value_bytes
from titan.codegen.tile.staging import may_slice, overlaid
from titan.target.description import target_of
from titan.target.load import machine

DEPTH_MIN = 2
DEPTH_DEFAULT = 4
SPARE = 1  # stages: a bulk copy from beyond the L2 cache takes longer than the model's latency


def shapes(tile: TileProgram, needed: int, most: int) -> Iterator[Shape]:
    """The candidates in order.

    `needed` stages hide the latency of the loads in the schedule, `most` are what it had. Bulk
    copies get one more than needed where there is room.
    """
    target = target_of(tile.target)
    wanted = needed if target.amd else needed + SPARE
    depth = tile.depth or min(max(wanted, DEPTH_MIN), max(most, DEPTH_MIN))
    if target.amd:
        yield from cdna.shapes(tile, depth)
        return
    multiplications = sum(operation.kind == "mma" for operation in tile.body)
    # Products that are waited for by a commit alone have no other forms.
    elsewhere = target.matrix_commits_to_barriers and bool(multiplications)
    depths = range(depth, DEPTH_MIN - 1, -1) if depth >= DEPTH_MIN else (depth,)
    plain = Shape("", depth, persistent=tile.persistent)
    attention = elsewhere and multiplications >= 2 and _is_attention(tile)
    by_threads = unaligned_loads(tile) if attention else unaligned(tile)
    if by_threads or tile.tail == "threads":
        # Bulk copies, which say why not; then threads, at the same depths.
        yield replace(plain, name=f"depth {depth}, bulk copies", overlapped=False)
        for stages in () if elsewhere and multiplications >= 2 else depths:
            yield from _variants(tile, _by_threads(tile, plain, stages), multiplications)
        if tile.cluster == 1 and not elsewhere and unaligned(tile):
            for stages in range(max(depth, DEPTH_MIN), 0, -1):
                name = f"depth {stages}, guarded copies by threads, no loading warpgroup"
                yield Shape(name, stages, specialised=False, overlapped=False, guarded=True)
        return
    poison = tile.tail == "poison"
    for stages in depths:
        name = f"depth {stages}, poison" if poison else f"depth {stages}"
        named = replace(plain, name=name, depth=stages, poison=poison)
        if may_slice(tile) and not poison:
            ring = replace(named, name=f"{name}, stores in slices", sliced=True)
            yield from _variants(tile, ring, multiplications)
        for shape in _variants(tile, named, multiplications):
            yield _in_place(tile, shape)
        if tile.groups == 2 and multiplications and not elsewhere and not poison:
            lean = _named(named, "one iteration at a time, lean loading warp", False, False)
            yield _in_place(tile, replace(lean, lean=True))
    if poison:
        return
    if elsewhere and (attention or multiplications == 1) and may_pair(tile):
        for stages in range(_stages_of_pairs(tile, wanted), DEPTH_MIN - 1, -1):
            name = f"depth {stages}, pairs of CTAs"
            pairs = replace(plain, name=name, depth=stages, pair=True)
            yield from _variants(tile, pairs, multiplications)
    if tile.cluster == 1 and not elsewhere:
        yield _named(_by_threads(tile, plain, DEPTH_MIN), "one iteration at a time", False, False)
    for stages in range(max(depth, DEPTH_MIN), 0, -1):
        name = f"depth {stages}, no loading warp" if stages > 1 else "no pipeline"
        yield _in_place(tile, Shape(name, stages, specialised=False, overlapped=False))


def _variants(tile: TileProgram, plain: Shape, multiplications: int) -> Iterator[Shape]:
    """The orders of the loop body, from the cleverest to the plainest."""
    counted = not target_of(tile.target).matrix_commits_to_barriers
    turns = tile.groups == 2 and multiplications >= 2 and counted
    late = "last product one iteration late"
    short = turns and _is_attention(tile)
    if may_alternate(tile):
        one = _named(plain, "a tile a warpgroup, taking turns", True, False)
        yield replace(one, alternating=True)
    if short:
        yield _named(plain, f"{late}, taking turns", False, True, behind=True)
    if turns:
        yield _named(plain, "order of the schedule, taking turns", True, True)
    if multiplications:
        yield _named(plain, "order of the schedule", True, False)
    if multiplications >= 2 and counted:
        if turns and not short:
            yield _named(plain, f"{late}, taking turns", False, True, behind=True)
        yield _named(plain, late, False, False, behind=True)
    yield _named(plain, "one iteration at a time", False, False)


def _in_place(tile: TileProgram, shape: Shape) -> Shape:
    """The shape; with stores in the place of loads where they may be and its rings need the room.

    Where it fits otherwise that is no gain: groups would meet, and nothing would be saved.
    """
    if not overlaid(tile):
        return shape
    left = shared_left(tile, machine(tile.target), rates(tile.target), in_place=False)
    loads = [item.name for item in tile.body if item.kind == "load"]
    if shape.depth * sum(value_bytes(tile, name) for name in loads) <= left:
        return shape
    return replace(shape, name=f"{shape.name}, stores in the place of loads", overlaid=True)


def _stages_of_pairs(tile: TileProgram, wanted: int) -> int:
    """Stages of rings of which each CTA of a pair holds half, as many as are wanted and fit."""
    known, pairs = rates(tile.target), replace(tile, cluster=PAIR)
    loads = [item for item in tile.body if item.kind == "load"]
    held = sum(value_bytes(tile, item.name) // shares_of(pairs, item, known) for item in loads)
    fit = shared_left(pairs, machine(tile.target), known) // max(1, held)
    return min(tile.depth or max(wanted, DEPTH_MIN), fit)


def _is_attention(tile: TileProgram) -> bool:
    try:
        attention_of(tile)
    except NotAttention:
        return False
    return True


def _by_threads(tile: TileProgram, plain: Shape, stages: int) -> Shape:
    """All tiles of tensors without a tensor map by threads, else the last iteration."""
    guarded = bool(unaligned(tile))
    what = "guarded copies" if guarded else "last iteration"
    name = f"depth {stages}, {what} by threads"
    return replace(plain, name=name, depth=stages, guarded=guarded, tail=not guarded)


def _named(
    plain: Shape, text: str, overlapped: bool, ping_pong: bool, behind: bool = False
) -> Shape:
    name = f"{plain.name}, {text}"
    return replace(plain, name=name, overlapped=overlapped, ping_pong=ping_pong, behind=behind)
