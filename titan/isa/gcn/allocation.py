"""Which registers a kernel has: those that its descriptor asks for, in whole granules.

What an instruction does with others is undefined: behind the vector registers of a kernel lie its
accumulation registers, and behind these those of other waves, which the hardware keeps out. A
kernel whose numbers are not given (or are expressions) is not judged. Source: LLVM, AMDGPU usage,
`.amdhsa_next_free_vgpr`, `.amdhsa_accum_offset` and the kernel descriptor of gfx90a to gfx950.
"""

from __future__ import annotations

from titan.isa.gcn.module import AssemblyInstruction, AssemblyKernel, Registers

_VECTORS, _SCALARS = 8, 16  # registers in a granule
_VECTORS_GFX1250 = 16
_HIDDEN = 6  # scalar registers for vcc, the flat scratch and the XNACK mask, at most
_NUMBERED = 102  # scalar registers that a number names


def beyond(item: AssemblyInstruction, kernel: AssemblyKernel, later: bool) -> str:
    """The first operand that is no register of the kernel, in words; empty if there is none.

    `later`: on gfx1250, where every wave has all scalar registers.
    """
    for operand in item.operands:
        if isinstance(operand, Registers):
            limit = _limit(operand, kernel, later)
            last = operand.first + operand.count - 1
            if limit is not None and last >= limit and not _is_named(operand):
                return f"{operand.bank}{last} is none of the {limit} registers of its kind that"
    return ""


def _is_named(operand: Registers) -> bool:
    return operand.bank == "s" and operand.first >= _NUMBERED


def _limit(operand: Registers, kernel: AssemblyKernel, later: bool) -> int | None:
    vectors = kernel.settings.get("next_free_vgpr")
    if operand.bank == "s":
        scalars = kernel.settings.get("next_free_sgpr")
        if scalars is None or later:
            return None
        return min(_NUMBERED, _whole(scalars + _HIDDEN, _SCALARS))
    if vectors is None:
        return None
    if later:
        return _whole(vectors, _VECTORS_GFX1250)
    first = kernel.settings.get("accum_offset")
    if first is None:
        return None
    whole = _whole(vectors, _VECTORS)
    return min(first, whole) if operand.bank == "v" else max(0, whole - first)


def _whole(count: int, granule: int) -> int:
    return max(granule, -(-count // granule) * granule)
