"""Block scales in a comparison: their copies to tensor memory, and products that take them.

A copy of a tile of scales is one `tcgen05.cp.32x128b.warpx4` for each atom of 512 bytes, upwards in
shared memory and in columns, four of these an atom. A step of a product takes as many blocks as it
has along K; an atom has four, and the instruction descriptor names the first. Source: PTX ISA,
tcgen05.cp, tcgen05.mma with block scaling, instruction descriptors of its kinds.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.validate.compare.thread_events import SCALED, ThreadEvent

ATOM_BYTES = 512
ATOM_COLUMNS = 4  # of tensor memory
ATOM_BLOCKS = 4
ROWS = 128


@dataclass(frozen=True, slots=True)
class ScaledKind:
    """What a kind of product says: its word, that of its scales, the number of their type, and the
    blocks of a step."""

    word: str
    vector: str
    scale: int
    blocks: int


# By the types of the elements and of the scales: numbers of the elements in the descriptor, kind.
_KINDS = {
    ("e4m3", "ue8m0"): (0, ScaledKind("kind::mxf8f6f4", "scale_vec::1X", 1, 1)),
    ("e5m2", "ue8m0"): (1, ScaledKind("kind::mxf8f6f4", "scale_vec::1X", 1, 1)),
    ("e2m1x2", "ue8m0"): (1, ScaledKind("kind::mxf4", "scale_vec::2X", 1, 2)),
    ("e2m1x2", "e4m3"): (1, ScaledKind("kind::mxf4nvf4", "scale_vec::4X", 0, 4)),
}


def instruction(
    event: ThreadEvent, elements: str, scales: str, columns: int, step: int, ctas: int
) -> str:
    """What is wrong with kind and descriptor of step `step` of a product by so many CTAs; empty
    where nothing is."""
    number, kind = _KINDS.get((elements, scales), (0, None))
    if kind is None or not {kind.word, kind.vector, SCALED} <= set(event.modifiers):
        return "kind of a multiplication with scales"
    first = step * kind.blocks % ATOM_BLOCKS
    wanted = number << 7 | number << 10 | columns >> 3 << 17 | kind.scale << 23
    wanted |= ctas * ROWS >> 7 << 27 | first << 4 | first << 29
    return "" if event.values[3] == wanted else "instruction descriptor"


def first_columns(
    event: ThreadEvent, elements: str, scales: str, step: int, tiles: int
) -> tuple[int | None, ...]:
    """Where the scales of step 0 begin, as those of this step say: the tile of the left operand,
    and so many of the right one, whose atoms lie side by side."""
    _, kind = _KINDS[elements, scales]
    atoms = step * kind.blocks // ATOM_BLOCKS
    left, right = event.values[6:]
    first = None if left is None else left - ATOM_COLUMNS * atoms
    others = (
        None if right is None else right + ATOM_COLUMNS * (tile - tiles * atoms)
        for tile in range(tiles)
    )
    return first, *others


def copied(events: list[ThreadEvent], atoms: int, apart: int, cta: int) -> tuple[int, int] | None:
    """The first column and the first byte of the copies of a tile in a CTA of a pair, or the one
    CTA, whose atoms are so many columns `apart`; None where they are not in order, or not of whole
    atoms."""
    places: list[tuple[int, int]] = []
    for event in events:
        spans = sorted(event.spans[cta]) if cta < len(event.spans) else []
        column = event.values[0]
        if column is None or not spans or spans[-1][1] - spans[0][0] != ATOM_BYTES:
            return None
        if sum(high - low for low, high in spans) != ATOM_BYTES:
            return None
        places.append((column, spans[0][0]))
    column, first = places[0] if places else (0, 0)
    wanted = [(column + apart * n, first + ATOM_BYTES * n) for n in range(atoms)]
    return places[0] if places and places == wanted else None
