"""Instructions as steps: each is decoded once into a function that changes a wave.

A step raises Refused where control or the machine itself would depend on a value that is not
known. Data that is not known stays so: results of instructions that compute it are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from titan.isa.gcn.module import AssemblyInstruction, Registers
from titan.isa.gcn.opcodes import OPCODES, GcnOpcode
from titan.isa.gcn.operands import EXEC, M0, VCC
from titan.isa.waves.state import BANK, Wave

SCALAR_BASE = 2 * BANK
_NAMED = {VCC: "vcc", VCC + 1: "vcc", M0: "m0", EXEC: "exec", EXEC + 1: "exec"}
# Where the text does not name it; other conditions that are not named cannot be loaded.
_READS_VCC = frozenset(
    ("v_div_fmas_f32", "v_div_fmas_f64", "s_cbranch_vccz", "s_cbranch_vccnz")
)  # fmt: skip
Step = Callable[[Wave], None]


@dataclass(slots=True)
class DecodedInstruction:
    """`reads` and `writes` are register numbers, as `Wave` counts them."""

    number: int
    item: AssemblyInstruction
    opcode: GcnOpcode
    reads: frozenset[int]
    writes: frozenset[int]
    touches: frozenset[int]
    step: Step | None = None


def register_numbers(operand: object) -> range:
    """The registers of an operand; none for a constant."""
    if not isinstance(operand, Registers):
        return range(0)
    base = {"v": 0, "a": BANK, "s": SCALAR_BASE}[operand.bank] + operand.first
    return range(base, base + operand.count)


def register_name(number: int, later: bool = False) -> str:
    """`v4`, `a0`, `s12`, `vcc`; on gfx1250 (`later`) v256 in place of `a0`."""
    if number >= SCALAR_BASE:
        return _NAMED.get(number - SCALAR_BASE, f"s{number - SCALAR_BASE}")
    if later:
        return f"v{number}"
    return f"v{number}" if number < BANK else f"a{number - BANK}"


def decoded(number: int, item: AssemblyInstruction) -> DecodedInstruction:
    """What an instruction reads and writes; its step is made where it is executed first."""
    opcode = OPCODES[item.base]
    results = results_of(item, opcode)
    writes = {at for operand in item.operands[:results] for at in register_numbers(operand)}
    reads = {at for operand in item.operands[results:] for at in register_numbers(operand)}
    if opcode.both or in_halves(item):
        reads |= writes
    if item.base in _READS_VCC:
        reads |= {SCALAR_BASE + VCC, SCALAR_BASE + VCC + 1}
    return DecodedInstruction(
        number, item, opcode, frozenset(reads), frozenset(writes), frozenset(reads | writes)
    )


def written_in_order(code: DecodedInstruction) -> tuple[int, ...]:
    """The registers that an instruction writes, in the order of its operands."""
    item = code.item
    results = item.operands[: results_of(item, code.opcode)]
    return tuple(number for operand in results for number in register_numbers(operand))


def results_of(item: AssemblyInstruction, opcode: GcnOpcode) -> int:
    """How many of the first operands are written."""
    if "lds" in item.options:
        return 0
    if "_atomic_" in item.base and ("sc0" in item.options or "glc" in item.options):
        return 1
    if "_atomic_" in item.base and "RETURN" in item.options.get("th", ""):
        return 1
    return opcode.results


def in_halves(item: AssemblyInstruction) -> bool:
    """Whether operands are halves of registers (gfx1250), of which a result keeps the other one.
    Loads of 16 bits write zeros there: the registers of all targets have ECC (CDNA5, D16 loads)."""
    return any(isinstance(one, Registers) and bool(one.half) for one in item.operands)
