"""From which lane each lane gets a value: data parallel primitives, exchanges and swizzles.

Sources: CDNA3, "Data parallel processing" and DS_SWIZZLE_B32; LLVM, AMDGPU operand syntax
(`row_share`, `row_xmask` and `dpp8` of gfx1250). What is not listed here is not known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyInstruction
from titan.isa.waves.state import LANES

LaneNumbers = NDArray[np.int64]
_LANE = np.arange(LANES, dtype=np.int64)
_ROW, _IN_ROW = _LANE // 16, _LANE % 16


def dpp_lanes(item: AssemblyInstruction) -> LaneNumbers | None:
    """The lane that each lane reads, -1 where there is none; None if the form is not known."""
    options = item.options
    if "quad_perm" in options:
        chosen = np.array([int(one) for one in options["quad_perm"].strip("[]").split(",")])
        return _LANE & ~3 | chosen[_LANE & 3]
    if "dpp8" in options:
        chosen = np.array([int(one) for one in options["dpp8"].strip("[]").split(",")])
        return _LANE & ~7 | chosen[_LANE & 7]
    if "row_mirror" in options:
        return _LANE ^ 15
    if "row_half_mirror" in options:
        return _LANE ^ 7
    for name, sign in (("row_shl", 1), ("row_shr", -1)):
        if name in options:
            place = _IN_ROW + sign * int(options[name])
            return np.where((place >= 0) & (place < 16), 16 * _ROW + place, -1)
    if "row_ror" in options:
        return 16 * _ROW + (_IN_ROW - int(options["row_ror"])) % 16
    for name, sign in (("wave_shl", 1), ("wave_shr", -1)):
        if name in options:
            lanes = _LANE + sign * int(options[name])
            return np.where((lanes >= 0) & (lanes < LANES), lanes, -1)
    for name, sign in (("wave_rol", 1), ("wave_ror", -1)):
        if name in options:
            return (_LANE + sign * int(options[name])) % LANES
    for name in ("row_newbcast", "row_share"):
        if name in options:
            return 16 * _ROW + int(options[name])
    if "row_xmask" in options:
        return _LANE ^ int(options["row_xmask"])
    if options.get("row_bcast") == "15":
        return np.where(_ROW > 0, 16 * _ROW - 1, -1)
    if options.get("row_bcast") == "31":
        return np.where(_LANE >= 32, 31, -1)
    return None


def dpp_written(item: AssemblyInstruction) -> NDArray[np.bool_]:
    """The lanes that the masks of rows and banks let write."""
    rows, banks = (item.integer(name, 15) for name in ("row_mask", "bank_mask"))
    return (rows >> _ROW & 1).astype(np.bool_) & (banks >> _IN_ROW // 4 & 1).astype(np.bool_)


def dpp_goes(item: AssemblyInstruction, active: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """The lanes that write if they are active; None if the form is not known."""
    lanes = dpp_lanes(item)
    if lanes is None or "fi" in item.options:
        return None
    there = (lanes >= 0) & active[np.where(lanes >= 0, lanes, 0)]
    return dpp_written(item) & (there | dpp_zeros(item))


def dpp_zeros(item: AssemblyInstruction) -> bool:
    """Whether a lane gets zero of one that does not take part, and does not leave its result."""
    return "bound_ctrl" in item.options or "dpp8" in item.options


def swap_rows(base: str) -> NDArray[np.bool_] | None:
    """Of an exchange of two registers: the lanes in odd rows; None for any other instruction."""
    width = {"v_permlane32_swap_b32": 32, "v_permlane16_swap_b32": 16}.get(base)
    return None if width is None else (_LANE // width % 2).astype(np.bool_)


def swizzle_lanes(item: AssemblyInstruction) -> LaneNumbers | None:
    """The lane that each lane reads by `ds_swizzle_b32`; None if the form is not known."""
    inside = item.options.get("offset", "").removeprefix("swizzle(").rstrip(")")
    kind, *numbers = (word.strip() for word in inside.split(","))
    if kind == "SWAP":
        return _LANE ^ int(numbers[0])
    if kind == "REVERSE":
        return _LANE ^ int(numbers[0]) - 1
    if kind == "QUAD_PERM":
        return _LANE & ~3 | np.array([int(one) for one in numbers])[_LANE & 3]
    return None


def places_matter(item: AssemblyInstruction) -> bool:
    """Whether the places of operands matter beside their numbers."""
    return item.opcode.endswith("_sdwa") or any(
        word in item.options for word in ("op_sel", "op_sel_hi", "neg_lo", "neg_hi", "byte_sel")
    )


def operand_bits(item: AssemblyInstruction, option: str, otherwise: int, count: int) -> list[int]:
    """A list of bits behind the operands, one for each of them."""
    text = item.options.get(option)
    return (
        [otherwise] * count if text is None else [int(one) for one in text.strip("[]").split(",")]
    )
