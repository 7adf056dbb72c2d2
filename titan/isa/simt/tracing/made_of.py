"""Which loads the value of a register is made of, so that no compiler finds it without them.

`and` with zero, the difference of a number and itself, or a choice by a known predicate name a
register and need nothing of it. So a value counts as made of its operands only where the operation
leaves none of them out, whatever the numbers are: moves, sums of integers, arithmetic of floating
point (a product with zero may be NaN, as may a difference of equal numbers), the greater and the
smaller of two (unless a known one decides it alone), and shuffles from a known lane. Parts of
vectors that are loaded are accesses in no order, so that no part is made of another.
"""

from __future__ import annotations

from titan.isa.ptx.module import Instruction, PtxRegister
from titan.isa.simt.collectives import shuffled_from
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.state import Fragment, Warp
from titan.isa.simt.values import LANES, Opaque, lane, lanes_of

Loads = list[frozenset[int]]  # of each lane
NO_LOADS: frozenset[int] = frozenset()
_FLOATING = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"})
_OF_FLOATING = frozenset(
    {
        "abs", "add", "cos", "div", "ex2", "fma", "lg2", "mad", "mul", "neg", "rcp", "rsqrt",
        "sin", "sqrt", "sub", "tanh",
    }
)  # fmt: skip
_ORDERED = frozenset({"max", "min"})
_WHOLE = frozenset({"u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64", "f32", "f64"})


def keeps_operands(instruction: Instruction, known: tuple[bool, ...]) -> bool:
    """Whether its result needs each operand that is a register; `known`: those that are numbers.

    Of types that floating-point numbers are converted to, those with two halves have one operand
    for each.
    """
    words, operands = instruction.modifiers, instruction.operands[1:]
    if not words or any(not isinstance(item, PtxRegister) for item in instruction.operands[:1]):
        return False
    floating, opcode = words[-1] in _FLOATING, instruction.opcode
    if opcode == "mov":
        return words[-1] in _WHOLE and isinstance(operands[0], PtxRegister)
    if opcode in _ORDERED:
        return not any(known) and len(set(operands)) == len(operands)
    if opcode == "add" and not floating:
        return "sat" not in words and words[-1] in _WHOLE and len(set(operands)) == len(operands)
    if opcode == "cvt":
        types = [word for word in words if word in _FLOATING]
        return bool(types) and not any(word.endswith("x2") for word in words)
    return floating and opcode in _OF_FLOATING


class MadeOf:
    """The loads that the registers of warps are made of."""

    def __init__(self) -> None:
        self._held: dict[Warp, dict[int, Loads]] = {}

    def executed(
        self, fragment: Fragment, step: DecodedStep, instruction: Instruction, holds: int,
        maybe: int, loads: Loads | None,
    ) -> None:  # fmt: skip
        """An instruction writes its results in lanes that hold, and may in others; `loads`: what
        it has loaded, if it is a load that is followed."""
        held = self._held.setdefault(fragment.warp, {})
        made = [NO_LOADS] * LANES
        if loads is not None:
            made = loads if len(step.out) == 1 else made
        elif step.op is Op.SHUFFLE:
            made = self._shuffled(fragment, step, held)
        elif keeps_operands(instruction, _known(fragment, step)):
            sources = [held[register] for register in step.args if register in held]
            made = [NO_LOADS.union(*(of[at] for of in sources)) for at in range(LANES)]
        results = step.out[:1] if step.op is Op.SHUFFLE else step.out
        for register in step.out:
            if register >= 0:
                _write(held, register, made if register in results else None, holds, maybe)

    def written(self, warp: Warp, registers: frozenset[int], lanes: int) -> None:
        """Registers that may have been written, of whatever."""
        held = self._held.setdefault(warp, {})
        for register in registers:
            _write(held, register, None, lanes, 0)

    def stored(self, warp: Warp, step: DecodedStep) -> Loads:
        """The loads that each of the registers of a store is made of, in each lane."""
        held, registers = self._held.get(warp, {}), step.args[1:]
        if not registers or any(register not in held for register in registers):
            return [NO_LOADS] * LANES
        first, *others = (held[register] for register in registers)
        return [first[at].intersection(*(of[at] for of in others)) for at in range(LANES)]

    @staticmethod
    def _shuffled(fragment: Fragment, step: DecodedStep, held: dict[int, Loads]) -> Loads:
        b, c = (fragment.warp.registers[register] for register in step.args[1:3])
        of = held.get(step.args[0])
        if of is None:
            return [NO_LOADS] * LANES
        sources = [shuffled_from(step, b, c, at) for at in range(LANES)]
        return [NO_LOADS if source is None else of[source[0]] for source in sources]


def _known(fragment: Fragment, step: DecodedStep) -> tuple[bool, ...]:
    """Whether the operand is a number in some lane."""
    return tuple(
        not all(isinstance(lane(fragment.warp.registers[r], at), Opaque) for at in lanes)
        for r in step.args
        if r >= 0
        for lanes in (list(lanes_of(fragment.mask)),)
    )


def _write(
    held: dict[int, Loads], register: int, made: Loads | None, holds: int, maybe: int
) -> None:
    if register not in held and (made is None or not any(made)):
        return
    now = held.setdefault(register, [NO_LOADS] * LANES)
    for at in lanes_of(holds):
        now[at] = NO_LOADS if made is None else made[at]
    for at in lanes_of(maybe):
        now[at] = NO_LOADS if made is None else now[at] & made[at]
