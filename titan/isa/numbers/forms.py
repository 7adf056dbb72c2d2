"""What the text of an instruction says beyond its decoded step, as numbers for the native core.

The Python machine reads the same text in `functions` and `matrices`; tests compare the two. The
enumerations are those of native/numbers.h.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from enum import IntEnum

from titan.isa.numbers.functions import (
    clock_bits,
    dot_product,
    has_known_words,
    packed_integer,
)
from titan.isa.numbers.matrices import product_of
from titan.isa.ptx.module import Immediate, Instruction, PtxRegister, Vector
from titan.isa.simt.decode_async import SHAPES
from titan.isa.simt.operations import ATOMICS, COMPARISONS, DecodedStep, Kind, Op


class Math(IntEnum):
    """What a form computes; 0 where the decoded step says it all, or nothing is computed."""

    NONE = 0
    ADD = 1
    SUB = 2
    MUL = 3
    FMA = 4
    DIV = 5
    MIN = 6
    MAX = 7
    NEG = 8
    ABS = 9
    COPYSIGN = 10
    EX2 = 11
    LG2 = 12
    RCP = 13
    SQRT = 14
    RSQRT = 15
    SIN = 16
    COS = 17
    TANH = 18
    CLOCK = 19
    CONVERT = 20
    TO_INTEGER = 21
    FROM_INTEGER = 22
    PACK = 23
    UNPACK = 24
    COMPARE = 25
    INTEGER = 26
    TEST = 27
    DOT = 28
    PACK_INTEGERS = 29
    MATRIX = 30
    MOVE_MATRIX = 31
    LOAD_MATRIX = 32
    ATOMIC = 33
    SUM = 34
    REDUX = 35
    TENSOR_ACCESS = 36
    TENSOR_MULTIPLY = 37
    TENSOR_COPY = 38


FORMATS = ("f16", "bf16", "f32", "f64", "e4m3", "e5m2", "tf32", "e2m1", "e2m3", "e3m2", "ue8m0")
# Formats of matrix products: integers, too.
_OPERANDS = (*FORMATS, "s8", "u8", "s32")
TESTS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
_MODES = {"rn": 0, "rz": 1, "rm": 2, "rp": 3, "rna": 4}
_INTEGER_MODES = {"rni": 0, "rzi": 1, "rmi": 2, "rpi": 3}
_SOURCES = {Math.FMA: 3, Math.ADD: 2, Math.SUB: 2, Math.MUL: 2, Math.DIV: 2,
            Math.COPYSIGN: 2}  # fmt: skip
_OPCODES = {
    "add": Math.ADD, "sub": Math.SUB, "mul": Math.MUL, "fma": Math.FMA,
    "mad": Math.FMA, "div": Math.DIV, "min": Math.MIN, "max": Math.MAX,
    "neg": Math.NEG, "abs": Math.ABS, "copysign": Math.COPYSIGN, "ex2": Math.EX2,
    "lg2": Math.LG2, "rcp": Math.RCP, "sqrt": Math.SQRT, "rsqrt": Math.RSQRT,
    "sin": Math.SIN, "cos": Math.COS, "tanh": Math.TANH,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """One row of `titan_form`, in its order. Formats are places in FORMATS, -1 for integers."""

    function: Math = Math.NONE
    format: int = -1
    source: int = -1
    mode: int = 0
    packed: int = 0
    flush: int = 0
    saturate: int = 0  # 1: to [0, 1], 2: to the largest finite number
    relu: int = 0
    nan: int = 0
    bits: int = 0
    is_signed: int = 0
    word: int = 0  # a comparison, an atomic operation, an integer rounding + 1, transposed,
    # 1: of magnitudes, 2: and with both signs multiplied
    rows: int = 0
    columns: int = 0
    depth: int = 0
    a: int = -1
    b: int = -1
    negate_a: int = 0
    negate_b: int = 0

    def row(self) -> tuple[int, ...]:
        """The numbers of the row."""
        return tuple(int(getattr(self, item.name)) for item in fields(self))


NOTHING = Form()


def form_of(instruction: Instruction, step: DecodedStep) -> Form:
    """The form of an instruction; NOTHING where its step says it all, or nothing is computed."""
    words = instruction.modifiers
    if not words:
        return NOTHING
    match step.op:
        case Op.OPAQUE:
            return _scalar(instruction)
        case Op.MOV:
            clock = clock_bits(instruction)
            return NOTHING if clock is None else Form(Math.CLOCK, word=clock[0], bits=clock[1])
        case Op.WGMMA | Op.COLLECTIVE:
            return _matrix(instruction)
        case Op.LOAD_MATRIX | Op.STORE_MATRIX:
            if "b16" not in words:
                return NOTHING
            return Form(Math.LOAD_MATRIX, word=int("trans" in words))
        case Op.ATOMIC:
            format_, packed = _format(words[-1])
            if format_ < 0:
                return NOTHING
            return Form(Math.ATOMIC, format_, format_, packed=packed)
        case Op.BULK_COPY | Op.TENSOR_COPY if "reduce" in (instruction.opcode, *words):
            return _sum(words, tensor=step.op is Op.TENSOR_COPY)
        case Op.TENSOR_LOAD | Op.TENSOR_STORE | Op.TENSOR_MULTIPLY | Op.TENSOR_MEMORY_COPY:
            return _tensor(instruction, step)
        case Op.REDUX if step.kind is Kind.FLOAT:
            return Form(Math.REDUX, 2, 2, nan=int("NaN" in words), word=int("abs" in words))
        case _:
            return NOTHING


def _format(word: str) -> tuple[int, int]:
    """Place of a format and whether two are packed in a register; -1 for other words."""
    packed = word.endswith("x2")
    stem = word[:-2] if packed else word
    return (FORMATS.index(stem) if stem in FORMATS else -1), int(packed)


def _mode(words: tuple[str, ...]) -> int:
    return next((_MODES[word] for word in words if word in _MODES), 0)


def _scalar(instruction: Instruction) -> Form:
    words = instruction.modifiers
    if instruction.opcode == "cvt":
        return _conversion(words)
    if (dot := dot_product(instruction)) is not None:
        return Form(Math.DOT, bits=dot.shift, rows=dot.count, a=int(dot.signed_a),
                    b=int(dot.signed_b))  # fmt: skip
    format_, packed = _format(words[-1])
    if format_ < 0:
        return _integer(instruction)
    if instruction.opcode == "testp":
        return Form(Math.TEST, format_, format_, word=TESTS.index(words[0]))
    if instruction.opcode == "setp":
        if words[0] not in COMPARISONS or len(instruction.operands) != 3:
            return NOTHING
        word = COMPARISONS.index(words[0])
        return Form(Math.COMPARE, format_, format_, packed=packed, word=word)
    function = _OPCODES.get(instruction.opcode)
    if function is None or (format_ == 3 and _mode(words)) or not has_known_words(instruction):
        return NOTHING
    source = format_
    if len(words) > 1 and words[-2] == "f32" and words[-1] in ("f16", "bf16"):
        format_ = FORMATS.index("f32")  # mixed: the first operands are narrower
    if packed and source > 2:
        return NOTHING
    return Form(
        function, format_, source, _mode(words), packed, int("ftz" in words),
        int("sat" in words), int("relu" in words), int("NaN" in words),
        word=int("abs" in words) + int("xorsign" in words),
    )  # fmt: skip


def _integer(instruction: Instruction) -> Form:
    """add, min and max of pairs of 16-bit integers, and of integers that are not to be negative."""
    words = instruction.modifiers
    known = packed_integer(instruction)
    if known is None:
        return NOTHING
    bits, is_signed, packed = known
    word = ("add", "min", "max").index(instruction.opcode)
    return Form(Math.INTEGER, packed=int(packed), relu=int("relu" in words), bits=bits,
                is_signed=int(is_signed), word=word)  # fmt: skip


def _conversion(words: tuple[str, ...]) -> Form:
    """cvt with a floating-point side, and two integers in fewer bits."""
    if words[0] == "pack":
        return Form(Math.PACK_INTEGERS, bits=int(words[2][1:]), is_signed=int(words[2][0] == "s"))
    to, source = words[-2], words[-1]
    saturate = 2 if "satfinite" in words else 1 if "sat" in words else 0
    (target, target_pair), (origin, origin_pair) = _format(to), _format(source)
    flush, relu, mode = int("ftz" in words), int("relu" in words), _mode(words)
    if target_pair and source == "f32":
        if "rn" not in words and "rz" not in words and "rp" not in words:
            return NOTHING
        return Form(Math.PACK, target, origin, mode, 0, flush, saturate, relu)
    if origin_pair and to in ("f16x2", "bf16x2"):
        return Form(Math.UNPACK, target, origin, mode, relu=relu)
    if target_pair or origin_pair:
        return NOTHING
    if target >= 0 and origin >= 0:
        rounding = next((_INTEGER_MODES[w] + 1 for w in words if w in _INTEGER_MODES), 0)
        return Form(Math.CONVERT, target, origin, mode, 0, flush, saturate, relu, word=rounding)
    if target >= 0 and source[:1] in "us" and source[1:].isdigit():
        return Form(Math.FROM_INTEGER, target, mode=mode, bits=int(source[1:]),
                    is_signed=int(source[0] == "s"))  # fmt: skip
    if origin >= 0 and to[:1] in "us" and to[1:].isdigit():
        rounding = next((_INTEGER_MODES[w] for w in words if w in _INTEGER_MODES), 1)
        return Form(Math.TO_INTEGER, 2, origin, rounding, flush=flush, bits=int(to[1:]),
                    is_signed=int(to[0] == "s"))  # fmt: skip
    return NOTHING


def _sum(words: tuple[str, ...], *, tensor: bool) -> Form:
    """What a reduction of a copy does; the elements of a tensor are those of its map."""
    operation = next((word for word in words if word in ATOMICS), "")
    if not operation:
        return NOTHING
    which = ATOMICS.index(operation)
    if tensor:
        return Form(Math.SUM, word=which)
    format_, _ = _format(words[-1])
    bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}.get(words[-1], 0)
    if not bits and words[-1][1:].isdigit():
        bits = int(words[-1][1:])
    if not bits:
        return NOTHING
    return Form(Math.SUM, format_, format_, bits=bits, is_signed=int(words[-1][0] == "s"),
                word=which)  # fmt: skip


def _matrix(instruction: Instruction) -> Form:
    if instruction.opcode == "movmatrix":
        return Form(Math.MOVE_MATRIX)
    product = product_of(instruction)
    if product is None or (instruction.opcode == "mma" and "col" not in instruction.modifiers):
        return NOTHING
    a, b = _OPERANDS.index(product.a.name), _OPERANDS.index(product.b.name)
    return Form(
        Math.MATRIX, _OPERANDS.index(product.result.name),
        saturate=int(product.saturates), rows=product.rows,
        columns=product.columns, depth=product.depth, a=a, b=b,
        negate_a=int(product.negate_a), negate_b=int(product.negate_b),
    )  # fmt: skip


def _tensor(instruction: Instruction, step: DecodedStep) -> Form:
    """tcgen05.ld, .st, .mma and .cp; packing and decompression are not computed.

    Of .mma: the registers that disable output lanes, from `format` on; where one is not zero the
    product is not computed. `bits`: by which power of two the accumulator is divided first.
    """
    words = instruction.modifiers
    if step.op is Op.TENSOR_MULTIPLY:
        after = 4 + 2 * ("block_scale" in words) + ("sp" in words)
        last = [o for o in instruction.operands[after:] if not isinstance(o, Vector)]
        scale = last[1].value if len(last) > 1 and isinstance(last[1], Immediate) else 0
        mask = next((o.items for o in instruction.operands if isinstance(o, Vector)), ())
        known, places = instruction.operands[2], []
        for item in mask:
            if isinstance(item, PtxRegister) and isinstance(known, PtxRegister):
                places.append(item.number - known.number + step.args[2])
            elif not isinstance(item, Immediate) or item.value:
                return NOTHING
        places += [-1] * (8 - len(places))
        return replace(Form(Math.TENSOR_MULTIPLY, *places[:8]), bits=scale)
    if step.op is Op.TENSOR_MEMORY_COPY:
        if any(re.match(r"b\dx16", word) for word in words):
            return NOTHING
        spread = {"warpx4": 4, "warpx2::02_13": 13, "warpx2::01_23": 23}
        return Form(Math.TENSOR_COPY, word=next((spread[w] for w in words if w in spread), 0))
    shape = next((word for word in words if word in SHAPES), "")
    if not shape or any(word.startswith(("pack", "unpack")) for word in words):
        return NOTHING
    lanes, columns = SHAPES[shape]
    return Form(Math.TENSOR_ACCESS, rows=lanes, columns=columns)
