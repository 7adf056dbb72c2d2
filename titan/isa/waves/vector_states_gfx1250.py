"""Vector instructions of gfx1250 that follow a matrix product, or a transcendental, too closely.

Both run beside vector instructions that come behind them. So many of these have to lie between a
product and one that reads its result, overwrites it, or overwrites what it reads; or another
product that multiplies its result; and one between a transcendental and one that uses its result
or overwrites its source. The hardware waits for nothing there. Copies between memory and LDS are
bound like vector instructions, but do not count as one between; of other units none does, `v_nop`
does, two halves of a dual instruction are one. Source: LLVM, GCNHazardRecognizer (WMMA and
transcendental co-execution hazards, for the silicon that LLVM calls B0), with which the tests
compare; that the registers which a product adds to count as well is LLVM's issue 222932.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from titan.isa.gcn.module import AssemblyFile, AssemblyInstruction, AssemblyKernel
from titan.isa.gcn.opcodes import OPCODES, OpcodeKind
from titan.isa.gcn.reading_gfx1250 import is_second_half
from titan.isa.waves.decode import SCALAR_BASE, decoded, register_name, register_numbers
from titan.isa.waves.hazard_rules import TRANSCENDENTAL_GFX1250
from titan.isa.waves.wait_states import ClosePair, predecessors

STATES_MAX = 10
_RESULT, _SOURCE = "the result of a matrix product", "what a matrix product reads"


@dataclass(frozen=True, slots=True)
class _Facts:
    """`product`: behind it, states for another product and for other vector instructions."""

    reads: frozenset[int]
    writes: frozenset[int]
    factors: frozenset[int]
    product: tuple[int, int] | None
    beside: bool  # it runs beside others, as a product or behind one
    bound: bool  # it has to keep away from a product or a transcendental
    transcendental: bool


def states_of_gfx1250(item: AssemblyInstruction) -> int:
    """The states that an instruction is worth."""
    kinds = (OpcodeKind.VECTOR, OpcodeKind.MATRIX)
    return int(OPCODES[item.base].kind in kinds and not is_second_half(item))


def close_pairs_of_gfx1250(assembly: AssemblyFile, kernel: AssemblyKernel) -> tuple[ClosePair, ...]:
    """All pairs that some path through the kernel brings too close to each other."""
    code: Sequence[AssemblyInstruction] = assembly.instructions[kernel.start : kernel.end]
    facts = [_facts(kernel.start + at, item) for at, item in enumerate(code)]
    if not any(one.factors or one.transcendental for one in facts):
        return ()
    before = predecessors(code, kernel.start)
    states = [states_of_gfx1250(item) for item in code]
    found: list[ClosePair] = []
    for at, second in enumerate(facts):
        if not second.bound:
            continue
        seen: dict[int, int] = {}
        waiting = [(place, 0) for place in before[at]]
        while waiting:
            place, passed = waiting.pop()
            if seen.get(place, STATES_MAX) <= passed:
                continue
            seen[place] = passed
            need = _need(facts[place], second)
            if need is not None and need[0] > passed:
                start = kernel.start
                pair = ClosePair(
                    start + place, start + at, need[0], passed, register_name(need[1], True),
                    need[2],
                )  # fmt: skip
                found = [
                    one for one in found if (one.first, one.second) != (pair.first, pair.second)
                ]
                found.append(pair)
            waiting += [(earlier, passed + states[place]) for earlier in before[place]]
    return tuple(found)


def _facts(number: int, item: AssemblyInstruction) -> _Facts:
    code = decoded(number, item)
    kind = code.opcode.kind
    matrix = kind is OpcodeKind.MATRIX
    product = _product_states(item) if matrix else None
    multiplied = item.operands[1 : 4 if item.base.startswith("v_swmmac") else 3] if matrix else ()
    factors = {
        one for operand in multiplied for one in register_numbers(operand) if one < SCALAR_BASE
    }
    copy = "_async_to_lds_" in item.base or "_async_from_lds_" in item.base
    reads = frozenset(one for one in code.reads if one < SCALAR_BASE) if matrix else code.reads
    return _Facts(
        reads, code.writes, frozenset(factors), product,
        beside=product is not None or not matrix,
        bound=copy or kind in (OpcodeKind.MATRIX, OpcodeKind.VECTOR),
        transcendental=TRANSCENDENTAL_GFX1250.match(item.base) is not None,
    )  # fmt: skip


def _product_states(item: AssemblyInstruction) -> tuple[int, int] | None:
    """Behind a product, before another product and before other vector instructions."""
    name, four_bits = item.base, "MATRIX_FMT_FP4"
    if name.endswith("16x16x4_f32"):
        return None  # it does not run beside others
    if name.startswith("v_swmmac"):
        return (5, 4) if name.endswith("iu8") else (3, 2)
    if name.endswith("iu8"):
        return 9, 8
    if all(item.options.get(f"matrix_{one}_fmt") == four_bits for one in "ab"):
        return 2, 1
    if "16x16x64_" in name:
        return 2, 1
    return 5, 4


def _need(first: _Facts, second: _Facts) -> tuple[int, int, str] | None:
    if first.transcendental:
        if second.transcendental:
            return None
        for registers, what in (
            (first.writes & second.reads, "the result of a transcendental is read"),
            (first.writes & second.writes, "the result of a transcendental is overwritten"),
            (first.reads & second.writes, "the source of a transcendental is overwritten"),
        ):
            if registers:
                return 1, min(registers), what
    if second.factors:
        multiplied = first.writes & second.factors
        if not first.factors or not multiplied:
            return None
        states = first.product[0] if first.product is not None and second.beside else 1
        return states, min(multiplied), f"{_RESULT} is multiplied"
    if first.product is None:
        return None
    states = first.product[1]
    for registers, what in (
        (first.writes & second.reads, f"{_RESULT} is read"),
        (first.writes & second.writes, f"{_RESULT} is overwritten"),
        (first.reads & second.writes, f"{_SOURCE} is overwritten"),
    ):
        if registers:
            return states, min(registers), what
    return None
