"""wmma.load and wmma.store in terms of rows: each lane gets the address of one row of the matrix.

PTX leaves open which lane holds which element ("Matrix Fragments for WMMA"): a warp touches a whole
matrix, the rows of which (columns, where the layout is `.col`) lie a stride apart. So the module
gets the instructions that compute the address of row n in lane n, as ldmatrix wants it, in front of
each of them; the machine then touches the rows. A form without a meaning is left as it is, for the
machine to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from titan.isa.ptx.labels import with_labels
from titan.isa.ptx.module import (
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    PtxRegister,
    RegisterDeclaration,
    Special,
    Vector,
)

OPCODE = "wmma"
ALIGNMENT_BYTES = 16  # of a row: "the stride is a multiple of 128 bits" (CUDA guide, wmma)
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64,
    "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32,
}  # fmt: skip
# The types that have each shape (PTX, "Matrix Data-types" and "Matrix Shape" of wmma).
_WIDE = ("f16", "bf16", "f32", "s8", "u8", "s32")
_SHAPES = {
    (16, 16, 16): _WIDE, (32, 8, 16): _WIDE, (8, 32, 16): _WIDE,
    (16, 16, 8): ("tf32", "f32"), (8, 8, 4): ("f64",),
    (8, 8, 32): ("s4", "u4", "s32"), (8, 8, 128): ("b1", "s32"),
}  # fmt: skip
_SCRATCH = ("b32", "b32", "b64", "b64", "b32", "b64")  # registers that the addresses are made in


class WarpMatrix(NamedTuple):
    """The rows (columns, if they are consecutive) of a matrix in memory."""

    rows: int
    elements: int  # of a row
    bits: int  # of an element

    @property
    def row_bytes(self) -> int:
        """What one row takes."""
        return self.elements * self.bits // 8


def warp_matrix(instruction: Instruction) -> WarpMatrix | None:
    """What wmma.load or wmma.store moves; None for another instruction, or an unknown form."""
    words = instruction.modifiers
    if instruction.opcode != OPCODE or len(words) < 2 or words[0] not in ("load", "store"):
        return None
    shape = next((found for found in map(_SHAPE.match, words) if found), None)
    layout = next((word for word in words if word in ("row", "col")), None)
    if shape is None or layout is None:
        return None
    m, n, k = map(int, shape.groups())
    if words[-1] not in _SHAPES.get((m, n, k), ()):
        return None
    extents = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}.get(words[1])
    if extents is None:
        return None
    rows, elements = extents if layout == "row" else extents[::-1]
    return WarpMatrix(rows, elements, _BITS[words[-1]])


def expanded(module: Module) -> Module:
    """The module with the addresses of rows in front of each wmma.load and wmma.store."""
    if not any(map(warp_matrix, module.instructions)):
        return module
    made: list[Instruction] = []
    places: list[int] = []  # where the instructions begin that replace the old ones
    functions: list[Function] = []
    done = 0
    for function in module.functions:
        start, scratch = len(made), len(function.registers)
        used = False
        for item in module.instructions[done : function.end]:
            places.append(len(made))
            rows = list(_rows(item, function, scratch))
            used = used or len(rows) > 1
            made += rows
        done = max(done, function.end)
        more = [RegisterDeclaration(f"%wmma{n}", kind) for n, kind in enumerate(_SCRATCH)]
        registers = (*function.registers, *(more if used else ()))
        bounds = (start, len(made)) if function.end > function.start else (start, start)
        functions.append(replace(function, registers=registers, start=bounds[0], end=bounds[1]))
    places.append(len(made))
    return replace(
        module,
        functions=tuple(functions),
        instructions=tuple(replace(i, operands=_moved(i.operands, places)) for i in made),
    )


def _moved(operands: tuple[Operand, ...], places: list[int]) -> tuple[Operand, ...]:
    return tuple(with_labels(operand, places.__getitem__) for operand in operands)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Instructions at the place of another one, without its guard: they touch scratch alone."""

    at: Instruction

    def __call__(self, text: str, *operands: Operand) -> Instruction:
        opcode, *modifiers = text.split(".")
        return replace(
            self.at, opcode=opcode, modifiers=tuple(modifiers), operands=operands, guard=-1,
            negated=False,
        )  # fmt: skip


def _rows(item: Instruction, function: Function, scratch: int) -> Iterator[Instruction]:
    """The instruction, behind those that compute the addresses of its rows."""
    matrix, operands = warp_matrix(item), item.operands
    values = next((one for one in operands if isinstance(one, Vector | PtxRegister)), None)
    place = next((one for one in operands if isinstance(one, Address)), None)
    if matrix is None or values is None or place is None or len(operands) not in (2, 3):
        yield item
        return
    if not isinstance(place.base, PtxRegister):
        yield item
        return
    write = _Writer(item)
    row, words, wide, shift, low, base = (PtxRegister(scratch + n) for n in range(len(_SCRATCH)))
    stride: Operand = operands[2] if len(operands) == 3 else Immediate(matrix.elements)
    yield write("mov.u32", row, Special("%laneid"))
    yield write("mul.lo.u32", words, row, stride)
    yield write("mul.wide.u32", wide, words, Immediate(matrix.bits))
    yield write("shr.u64", shift, wide, Immediate(3))
    if function.registers[place.base.number].type.endswith("64"):
        yield write("add.s64", base, place.base, shift)
    else:
        yield write("cvt.u32.u64", low, shift)
        base = low
        yield write("add.s32", low, place.base, low)
    yield replace(item, operands=(values, replace(place, base=base)))
