"""Steps of instructions of 16, 32 and 64 bits, for runs that compute (`typed_operations.py`).

Modifiers of the sign belong to the type of a source; a clamp keeps floating point between 0 and 1
(and makes 0 of NaN), integers within their type. A result of 16 bits makes the other half of its
register zero, or keeps it where the instruction has no short encoding or `op_sel` says which half
is written (CDNA3, 6.2 and 12; LLVM, `zeroesHigh16BitsOfDest`). Packed forms have two results of 16
bits, of chosen halves of every source; a constant in floating point has zeros above.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import GcnOperand, Registers
from titan.isa.waves.arithmetic import BINARY, TERNARY, UNARY
from titan.isa.waves.byte_steps import NEVER_WRITTEN
from titan.isa.waves.decode import DecodedInstruction, Step, in_halves, register_numbers
from titan.isa.waves.moved_lanes import operand_bits
from titan.isa.waves.part_steps import known_sources, moved_step, origin_of, part_step
from titan.isa.waves.sources import VectorSource, part_source, signed_wide_source
from titan.isa.waves.state import LANES, NOT_WRITTEN, OpaqueWord, Wave, Words, lanes_of, mask_of
from titan.isa.waves.typed_operations import (
    BITS,
    FLOATS,
    OPERATIONS,
    PACKED,
    Numbers,
    TypedOperation,
    bit_table,
    classes,
)

_HALF = np.uint32(0xFFFF)
_SCALED = ("mul", "div")  # output modifiers, which are not computed
_NEGATED = {"u": "o", "nge": "ge", "nlg": "lg", "ngt": "gt", "nle": "le", "neq": "eq", "nlt": "lt"}
_COMPARED: dict[str, Callable[[Numbers, Numbers], NDArray[np.bool_]]] = {
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
}


def typed_step(code: DecodedInstruction, computes: bool = True) -> Step | None:
    """The step of an instruction of the table; None for others, and where the ordinary one does.

    Of a run that does not compute (`computes`) results in floating point are not followed, nor
    comparisons with subnormal numbers, which may count as zero there.
    """
    item, name = code.item, code.item.base
    if in_halves(item) or any(word in item.options for word in _SCALED):
        return None
    if name.startswith("v_cmp_"):
        return _compared(code, computes)
    if name in PACKED:
        packed = OPERATIONS[PACKED[name]]
        return _packed(code, packed) if computes or packed.gives not in FLOATS else None
    operation = (
        bit_table(item.integer("bitop3")) if name == "v_bitop3_b16" else OPERATIONS.get(name)
    )
    ordinary = name in UNARY or name in BINARY or name in TERNARY
    if operation is None or (ordinary and "clamp" not in item.options):
        return None
    if not computes and any(kind in FLOATS for kind in (operation.gives, *operation.given)):
        return None
    operands = list(item.operands[1:])
    if len(operands) < len(operation.given):
        operands.append(item.operands[0])  # what is added to
    if len(operands) != len(operation.given):
        return None
    if "f64" in (operation.gives, *operation.given):
        return _of_any_width(code, operation, operands)
    return _of_words(code, operation, operands, computes)


# --------------------------------------------------------------------------- numbers and words


def numbers_of(words: Numbers, kind: str) -> Numbers:
    """The numbers in the lowest bits of words."""
    if kind == "f64":
        return np.ascontiguousarray(words, np.uint64).view(np.float64)
    if kind in FLOATS:
        unsigned = np.uint16 if kind == "f16" else np.uint32
        return np.ascontiguousarray(words.astype(unsigned)).view(FLOATS[kind])
    bits = BITS[kind]
    found = words.astype(np.int64) & (1 << bits) - 1
    return (found ^ 1 << bits - 1) - (1 << bits - 1) if kind[0] == "i" else found


def words_of(numbers: Numbers, kind: str, clamp: bool) -> Numbers:
    """Numbers as a result has them: words of 32 bits, or of 64."""
    if kind in FLOATS:
        if clamp:
            numbers = np.where(np.isnan(numbers), 0, np.clip(numbers, 0, 1))
        made = np.ascontiguousarray(numbers.astype(FLOATS[kind]))
        if kind == "f64":
            return made.view(np.uint64)
        return made.view(np.uint16 if kind == "f16" else np.uint32).astype(np.uint32)
    bits = BITS[kind]
    if clamp:
        low = -1 << bits - 1 if kind[0] == "i" else 0
        numbers = np.clip(numbers, low, low + (1 << bits) - 1)
    return (numbers & (1 << bits) - 1).astype(np.uint32)


def _function(operation: TypedOperation, clamp: bool) -> Callable[..., Numbers]:
    def function(*words: Numbers) -> Numbers:
        given = (numbers_of(one, kind) for one, kind in zip(words, operation.given, strict=True))
        with np.errstate(all="ignore"):
            return words_of(operation.function(*given), operation.gives, clamp)

    return function


def _sources(
    code: DecodedInstruction, operands: list[GcnOperand], kinds: tuple[str, ...]
) -> list[VectorSource] | None:
    """A source of words for each operand, with what the instruction changes of it."""
    upper = operand_bits(code.item, "op_sel", 0, 4)
    found = []
    for at, (operand, kind) in enumerate(zip(operands, kinds, strict=True)):
        part = code.item.options.get(f"src{at}_sel", "")
        if "op_sel" in code.item.options and BITS[kind] == 16 and upper[at]:
            part = "WORD_1"
        one = part_source(operand, code.number, part, kind)
        if one is None:
            return None
        found.append(one)
    return found


# ----------------------------------------------------------------------------------- steps


def _of_words(
    code: DecodedInstruction,
    operation: TypedOperation,
    operands: list[GcnOperand],
    computes: bool,
) -> Step | None:
    item = code.item
    sources = _sources(code, operands, operation.given)
    if sources is None:
        return None
    function = _function(operation, "clamp" in item.options)
    if item.opcode.endswith("_dpp"):
        return moved_step(code, function, sources)
    if item.opcode.endswith("_sdwa"):
        return part_step(code, function, sources)
    target = register_numbers(item.operands[0])[0]
    upper = "op_sel" in item.options and bool(operand_bits(item, "op_sel", 0, 1)[-1])
    half = BITS[operation.gives] == 16
    kept = half and (operation.kept or "op_sel" in item.options)
    shift = np.uint32(16 if half and upper else 0)

    def step(wave: Wave) -> None:
        made, known = known_sources(sources, wave)
        values = function(*(words for words, _, _ in made))
        if kept:
            before, also, why = kept_part(wave, target)
            if not computes:  # compilers do not rely on a half that is not known
                before = np.where(lanes_of(wave.known[target]), wave.vectors[target], 0)
                also = wave.lanes_all
            values = before & ~(_HALF << shift) | values << shift
            made.append((before, also, why))
            known &= also
        wave.set_vector(target, values, known, origin_of(made, wave))

    return step


def kept_part(wave: Wave, target: int) -> tuple[Words, int, OpaqueWord]:
    """A register of which a part stays; a pattern where nothing has written it."""
    before, known, why = wave.vectors[target], wave.known[target], wave.origins[target]
    if not known and why is NOT_WRITTEN:
        return np.full(LANES, NEVER_WRITTEN), wave.lanes_all, why
    return before, known, why


def _of_any_width(
    code: DecodedInstruction, operation: TypedOperation, operands: list[GcnOperand]
) -> Step | None:
    """Where a source or the result has 64 bits."""
    item = code.item
    if item.opcode.endswith(("_dpp", "_sdwa")) or "op_sel" in item.options:
        return None
    sources: list[Callable[[Wave], tuple[Numbers, int, OpaqueWord]]] = []
    for operand, kind in zip(operands, operation.given, strict=True):
        if kind == "f64":
            sources.append(signed_wide_source(operand, code.number))
            continue
        one = part_source(operand, code.number, "", kind)
        if one is None:
            return None
        sources.append(one)
    targets = register_numbers(item.operands[0])
    function = _function(operation, "clamp" in item.options)

    def step(wave: Wave) -> None:
        made = [source(wave) for source in sources]
        known = wave.exec
        for _, mask, _ in made:
            known &= mask
        found = np.broadcast_to(function(*(words for words, _, _ in made)), (LANES,))
        why = next((one for _, mask, one in made if wave.exec & ~mask), NOT_WRITTEN)
        for at, target in enumerate(targets):
            part = found >> found.dtype.type(32 * at) if at else found
            wave.set_vector(target, part.astype(np.uint32), known, why)

    return step


def _packed(code: DecodedInstruction, operation: TypedOperation) -> Step | None:
    """Two results, each of a chosen half of every source."""
    item, count = code.item, len(operation.given)
    operands = list(item.operands[1:])
    if len(operands) != count:
        return None
    function, halves = _function(operation, "clamp" in item.options), []
    for select, otherwise, sign in (("op_sel", 0, "neg_lo"), ("op_sel_hi", 1, "neg_hi")):
        chosen = operand_bits(item, select, otherwise, count)
        minus = operand_bits(item, sign, 0, count)
        sources = []
        for operand, kind, upper, negative in zip(
            operands, operation.given, chosen, minus, strict=True
        ):
            one = part_source(operand, code.number, f"WORD_{upper}", kind, bool(negative))
            if one is None:
                return None
            sources.append(one)
        halves.append(sources)
    target = register_numbers(item.operands[0])[0]

    def step(wave: Wave) -> None:
        made, known = known_sources(halves[0] + halves[1], wave)
        low = function(*(words for words, _, _ in made[:count]))
        high = function(*(words for words, _, _ in made[count:]))
        wave.set_vector(target, low | high << np.uint32(16), known, origin_of(made, wave))

    return step


def _tiny(numbers: Numbers) -> NDArray[np.bool_]:
    """Which of the numbers, lane by lane, are subnormal."""
    found = np.zeros(LANES, np.bool_)
    if numbers.dtype.kind == "f":
        found |= (numbers != 0) & (np.abs(numbers) < np.finfo(numbers.dtype).tiny)
    return found


def _compared(code: DecodedInstruction, computes: bool) -> Step | None:
    """Comparisons in floating point, and whether a number is of a class."""
    item = code.item
    word, _, kind = item.base.removeprefix("v_cmp_").rpartition("_")
    target = item.operands[0]
    positive = _NEGATED.get(word, word)
    test = classes if word == "class" else _COMPARED.get(positive)
    if test is None or kind not in FLOATS or not isinstance(target, Registers):
        return None
    if item.opcode.endswith("_dpp") or "clamp" in item.options or len(item.operands) != 3:
        return None
    kinds = (kind, "u32" if word == "class" else kind)
    sources: list[Callable[[Wave], tuple[Numbers, int, OpaqueWord]]] = []
    for at, (operand, one) in enumerate(zip(item.operands[1:], kinds, strict=True)):
        if one == "f64":
            sources.append(signed_wide_source(operand, code.number))
            continue
        part = part_source(operand, code.number, item.options.get(f"src{at}_sel", ""), one)
        if part is None:
            return None
        sources.append(part)

    def step(wave: Wave) -> None:
        made = [source(wave) for source in sources]
        unknown = [why for _, mask, why in made if wave.exec & ~mask]
        if unknown:
            wave.set_scalar(target.first, unknown[0], target.count)
            return
        a, b = (numbers_of(words, one) for (words, _, _), one in zip(made, kinds, strict=True))
        if not computes and (_tiny(a) | _tiny(b))[wave.active].any():
            subnormal = OpaqueWord("a subnormal number", code.number)
            wave.set_scalar(target.first, subnormal, target.count)
            return
        held = np.broadcast_to(test(a, b), (LANES,))
        held = held if word == positive else ~held
        wave.set_scalar(target.first, mask_of(held) & wave.exec, target.count)

    return step
