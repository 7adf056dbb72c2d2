"""Which bytes of LDS a copy of the tensor data mover touches, from its description.

The tile lies dense in LDS, row by row, with a gap behind each so many words where the description
says so. Not followed: copies to other work-groups of a cluster, arrivals at barriers in LDS, tiles
that are taken in several steps. Sources: AMD's header for the descriptions (HIP,
amd_gfx1250_TDM.h); CDNA5 instruction set architecture, 10.11.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.isa.waves.state import OpaqueWord, Refused, Scalar

WORD_BYTES = 4
BYTES_MAX = 1 << 20
_USED = ((0, 0), (0, 1), (1, 0), (1, 3), (1, 4))  # group and word of what is read


def tile_in_lds(groups: Sequence[Sequence[Scalar]], name: str) -> list[int] | None:
    """The addresses of the words; None where the description is not known. Raises Refused."""
    if len(groups) not in (2, 4) or len(groups[0]) != 4 or len(groups[1]) != 8:
        raise Refused(f"{name} with a description of another form")
    used = [groups[group][word] for group, word in _USED]
    more = [groups[2][3], groups[3][2]] if len(groups) == 4 else []
    if any(isinstance(word, OpaqueWord) for word in (*used, *more)):
        return None
    first, start, form, row, others = (word for word in used if isinstance(word, int))
    if form & 0xFFFF:
        raise Refused(f"{name} to other work-groups of a cluster")
    if form >> 18 & 1:
        raise Refused(f"{name} that arrives at a barrier in LDS")
    if form >> 19 & 1:
        raise Refused(f"{name} in several steps")
    gathers = bool(first >> 31)
    count = (row >> 16) * max(1, others & 0xFFFF)
    if not gathers:
        count *= max(1, others >> 16)
        for word in more:
            assert isinstance(word, int)
            count *= max(1, word >> 16)
    size = count << (form >> 16 & 3)
    if size > BYTES_MAX:
        raise Refused(f"{name} of {size} bytes")
    words = range((size + WORD_BYTES - 1) // WORD_BYTES)
    if not form >> 20 & 1 or "_store_" in name:
        return [start + WORD_BYTES * at for at in words]
    interval, gap = 2 << (form >> 22 & 7), (form >> 25 & 127) + 1
    return [start + WORD_BYTES * (at + at // interval * gap) for at in words]
