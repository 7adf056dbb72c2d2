"""Instructions that take parts of words (SDWA) or words of other lanes (DPP), in runs that compute.

SDWA: each source is a part of its word, extended by zeros or its sign; the result goes to a part of
the target, whose other bits become zero (UNUSED_PAD) or stay (UNUSED_PRESERVE). DPP: the first
source is that of another lane (`moved_lanes.py`); where there is none, or it is not active, zero
(bound_ctrl), or the lane writes nothing. Sources: CDNA3, "SDWA" and "DPP".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from titan.isa.waves.decode import DecodedInstruction, Step, register_numbers
from titan.isa.waves.moved_lanes import dpp_lanes, dpp_written, dpp_zeros, swap_rows
from titan.isa.waves.sources import VectorSource
from titan.isa.waves.state import LANES, OpaqueWord, Wave, Words, lanes_of, mask_of

_KNOWN = OpaqueWord("nothing", -1)
Given = tuple[Words, int, OpaqueWord]
PartWriter = Callable[[Wave, Words, int, list[Given]], None]


def part_step(
    code: DecodedInstruction, function: Callable[..., Words], sources: list[VectorSource]
) -> Step | None:
    """The step of an instruction with parts, whose sources have been chosen (`part_source`); None
    for parts of the result that are not computed."""
    write = part_writer(code)
    if write is None:
        return None

    def step(wave: Wave) -> None:
        made, known = known_sources(sources, wave)
        with np.errstate(all="ignore"):
            values = function(*(words for words, _, _ in made))
        write(wave, values, known, made)

    return step


def part_writer(code: DecodedInstruction) -> PartWriter | None:
    """What puts values, known in some lanes, into the part of the result that is named."""
    options = code.item.options
    place = _place(options.get("dst_sel", "DWORD"))
    rest = options.get("dst_unused", "UNUSED_PRESERVE")  # as the assembler has it
    if place is None or rest not in ("UNUSED_PAD", "UNUSED_PRESERVE"):
        return None
    (shift, bits), keeps = place, rest == "UNUSED_PRESERVE"
    inside = np.uint32((1 << bits) - 1 << shift)
    target = register_numbers(code.item.operands[0])[0]

    def write(wave: Wave, values: Words, known: int, made: list[Given]) -> None:
        values = values << np.uint32(shift) & inside
        if keeps and bits < 32:
            before = wave.vectors[target], wave.known[target], wave.origins[target]
            made = [*made, before]
            known &= before[1]
            values = values | before[0] & ~inside
        wave.set_vector(target, values, known, origin_of(made, wave))

    return write


def moved_step(
    code: DecodedInstruction, function: Callable[..., Words], sources: list[VectorSource]
) -> Step | None:
    """The step of an instruction whose first source is that of another lane."""
    lanes = dpp_lanes(code.item)
    if lanes is None or not sources or "fi" in code.item.options:  # of lanes that are not active
        return None
    written, zeros = dpp_written(code.item), dpp_zeros(code.item)
    inside, chosen = lanes >= 0, np.where(lanes >= 0, lanes, 0)
    target = register_numbers(code.item.operands[0])[0]

    def step(wave: Wave) -> None:
        values, mask, why = sources[0](wave)
        there = inside & wave.active[chosen]
        moved = np.where(there, np.broadcast_to(values, (LANES,))[chosen], np.uint32(0))
        known = mask_of(~there | lanes_of(mask)[chosen])
        made = [(moved.astype(np.uint32), known, why), *(one(wave) for one in sources[1:])]
        for _, mask, _ in made:
            known &= mask
        with np.errstate(all="ignore"):
            result = np.broadcast_to(function(*(words for words, _, _ in made)), (LANES,))
        goes = written if zeros else written & there
        kept, kept_known = wave.vectors[target], lanes_of(wave.known[target])
        made.append((kept, wave.known[target], wave.origins[target]))
        all_known = mask_of(np.where(goes, lanes_of(known), kept_known)) & wave.exec
        wave.set_vector(target, np.where(goes, result, kept), all_known, origin_of(made, wave))

    return step


def swap_step(code: DecodedInstruction) -> Step | None:
    """v_permlane32_swap, v_permlane16_swap: odd rows of the first register, even ones of the other.

    Of waves with lanes that are not active both registers are not known.
    """
    odd = swap_rows(code.item.base)
    if odd is None:
        return None
    first, second = (register_numbers(one)[0] for one in code.item.operands[:2])
    shift = 32 if "32_swap" in code.item.base else 16
    partial = OpaqueWord("an exchange of lanes that are not all active", code.number)

    def step(wave: Wave) -> None:
        if wave.exec != wave.lanes_all:
            wave.forget(first, 1, partial, True)
            wave.forget(second, 1, partial, True)
            return
        rows = [
            (wave.vectors[at].copy(), lanes_of(wave.known[at]), wave.origins[at])
            for at in (first, second)
        ]
        (one, one_known, one_why), (other, other_known, other_why) = rows
        for at, values, known, why in (
            (first, np.where(odd, np.roll(other, shift), one),
             np.where(odd, np.roll(other_known, shift), one_known), one_why),
            (second, np.where(odd, other, np.roll(one, -shift)),
             np.where(odd, other_known, np.roll(one_known, -shift)), other_why),
        ):  # fmt: skip
            wave.set_vector(at, values, mask_of(known), why)

    return step


def _place(selection: str) -> tuple[int, int] | None:
    """The lowest bit and the bits of a part of the target."""
    if selection == "DWORD":
        return 0, 32
    kind, _, index = selection.partition("_")
    bits = {"BYTE": 8, "WORD": 16}.get(kind)
    if bits is None or not index.isdigit() or bits * (int(index) + 1) > 32:
        return None
    return bits * int(index), bits


def known_sources(
    sources: list[VectorSource], wave: Wave
) -> tuple[list[tuple[Words, int, OpaqueWord]], int]:
    """What each source gives, and the active lanes in which all of them are known."""
    made, known = [source(wave) for source in sources], wave.exec
    for _, mask, _ in made:
        known &= mask
    return made, known


def origin_of(made: list[tuple[Words, int, OpaqueWord]], wave: Wave) -> OpaqueWord:
    """Why a source is not known, in a lane that is active."""
    return next((why for _, mask, why in made if wave.exec & ~mask), _KNOWN)
