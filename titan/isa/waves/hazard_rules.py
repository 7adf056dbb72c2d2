"""How many wait states one instruction needs behind another one, as rules over pairs.

A rule compares two instructions alone: what the first writes (or still reads), what the second
reads or writes, and which unit executes them. `titan.isa.waves.wait_states` looks for the pairs,
and has the sources. Passes are the time a matrix product takes, in groups of four cycles.

Not here: the two wait states that gfx90a needs between a vector result and its use by memory when
a product of binary64 stands between, and the settings of VSKIP and of the trap status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from titan.isa.gcn.module import AssemblyInstruction, GcnOperand, SymbolOperand
from titan.isa.gcn.opcodes import OpcodeKind
from titan.isa.gcn.operands import EXEC, M0, VCC
from titan.isa.waves.decode import SCALAR_BASE, decoded, register_numbers

NOTHING: frozenset[int] = frozenset()
EXEC_WORDS = frozenset((SCALAR_BASE + EXEC, SCALAR_BASE + EXEC + 1))
VCC_WORDS = frozenset((SCALAR_BASE + VCC, SCALAR_BASE + VCC + 1))
M0_WORD = frozenset((SCALAR_BASE + M0,))
_VECTOR_MEMORY = frozenset(
    (OpcodeKind.GLOBAL, OpcodeKind.FLAT, OpcodeKind.SCRATCH, OpcodeKind.BUFFER)
)
_LDS = frozenset((OpcodeKind.LDS, OpcodeKind.CROSS_LANE))
_SHAPE = re.compile(r"_(\d+)x(\d+)x(\d+)")
# Products of binary32 that the matrix core executes otherwise than all others (CDNA3, 7.1).
_SINGLE = re.compile(r"x\d+(_\d+b_)?_?f32$")
_TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos)(_legacy)?_f\d\d$")
TRANSCENDENTAL_GFX1250 = re.compile(
    r"v_(s_)?(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos|tanh)_(f\d\d|bf16)$"
)
_READS_M0 = frozenset(("s_sendmsg", "s_sendmsghalt", "s_ttracedata"))
_LANES_BY_SCALAR = frozenset(("v_readlane_b32", "v_writelane_b32"))
_READ_LANES = frozenset(("v_readlane_b32", "v_readfirstlane_b32"))

_RESULT = "the result of a matrix product"
_SCALAR = "a scalar register is used that the vector unit wrote"


class Need(NamedTuple):
    """`states` between the two, because of `register`; `why` says what is done to it."""

    states: int
    register: int
    why: str


@dataclass(frozen=True, slots=True)
class HazardFacts:
    """What the rules ask of an instruction; registers as `Wave` counts them.

    `reads` are explicit operands, `implicit` those that are not written out. `accumulator`: what a
    product or `v_dot` adds to, `factors` what it multiplies. `stored`: the data of a store of more
    than 8 bytes. `partial`: it writes a part of a register by shifting its result. `setting`: the
    hardware register that s_setreg names.
    """

    name: str
    kind: OpcodeKind
    reads: frozenset[int]
    writes: frozenset[int]
    implicit: frozenset[int] = NOTHING
    accumulator: frozenset[int] = NOTHING
    factors: frozenset[int] = NOTHING
    stored: frozenset[int] = NOTHING
    lane: frozenset[int] = NOTHING
    passes: int = 0
    double: bool = False
    single: bool = False
    dot: bool = False
    transcendental: bool = False
    partial: bool = False
    lanes_moved: bool = False  # DPP
    setting: str = ""

    @property
    def matrix(self) -> bool:
        """A matrix product."""
        return self.kind is OpcodeKind.MATRIX

    @property
    def vector(self) -> bool:
        """An instruction of the vector unit, matrix products included."""
        return self.kind is OpcodeKind.VECTOR or self.matrix

    @property
    def vector_memory(self) -> bool:
        """Vector memory, not LDS."""
        return self.kind in _VECTOR_MEMORY

    @property
    def memory(self) -> bool:
        """Vector memory or LDS."""
        return self.vector_memory or self.kind in _LDS


def facts_of(number: int, item: AssemblyInstruction, target: str) -> HazardFacts:
    """The facts of one instruction."""
    code = decoded(number, item)
    kind, name, operands = code.opcode.kind, item.base, item.operands
    writes, implicit = code.writes, NOTHING
    if name.startswith("v_cmpx_"):
        writes |= EXEC_WORDS
    if kind in _VECTOR_MEMORY:
        implicit |= EXEC_WORDS
    if "lds" in item.options or "_load_lds_" in name or "addtid" in name or name in _READS_M0:
        implicit |= M0_WORD
    if name.startswith("s_movrel"):
        implicit |= M0_WORD
    if name.startswith("v_div_fmas_"):
        implicit |= VCC_WORDS
    implicit |= _zero_bits(operands)
    matrix = kind is OpcodeKind.MATRIX
    dot = name.startswith("v_dot")
    tied = 0 if name.startswith("v_smfmac") or "c_" in name[:8] else 3  # v_dot2c: its result
    accumulates = (matrix or dot) and len(operands) > tied
    lane = NOTHING
    if name in _LANES_BY_SCALAR and len(operands) > 2:
        lane = frozenset(register_numbers(operands[2]))
    return HazardFacts(
        name, kind, code.reads, writes, implicit,
        accumulator=frozenset(register_numbers(operands[tied])) if accumulates else NOTHING,
        factors=_factors(item) if matrix else NOTHING,
        stored=_stored(item, kind),
        lane=lane,
        passes=passes_of(item, target) if matrix else 0,
        double=name.startswith("v_mfma_f64"),
        single=matrix and bool(_SINGLE.search(name)) and not name.endswith("xf32"),
        dot=dot,
        transcendental=bool(_TRANSCENDENTAL.match(name)),
        partial=_partial(item),
        lanes_moved=item.opcode.endswith("_dpp"),
        setting=_setting(item),
    )  # fmt: skip


def passes_of(item: AssemblyInstruction, target: str) -> int:
    """The passes of a matrix product (CDNA2 to CDNA4, 7.2; the schedule of LLVM)."""
    found = _SHAPE.search(item.base)
    if found is None:
        return 16
    rows, depth = int(found[1]), int(found[3])
    if item.base.startswith("v_mfma_f64"):
        return 4 if rows == 4 else 16 if target == "gfx950" else 8
    if item.base.startswith("v_smfmac"):
        return 4 if rows == 16 else 8
    if rows == 4:
        return 2
    if target == "gfx90a":
        return 8 if rows == 16 else 16
    if item.base.endswith("f8f6f4"):
        eight_bits = item.integer("cbsz") <= 1 or item.integer("blgp") <= 1
        return (8 if eight_bits else 4) * (1 if rows == 16 else 2)
    if rows == 16:
        return 8 if depth in (1, 4) else 4
    return 16 if depth in (1, 2, 4) and not item.base.endswith("xf32") else 8


def _factors(item: AssemblyInstruction) -> frozenset[int]:
    """All operands but the result and what is added to, scales and indices included."""
    sparse = item.base.startswith("v_smfmac")
    places = [at for at in range(1, len(item.operands)) if sparse or at != 3]
    return frozenset(one for at in places for one in register_numbers(item.operands[at]))


def _stored(item: AssemblyInstruction, kind: OpcodeKind) -> frozenset[int]:
    """The data of a store of more than 8 bytes; in a buffer only without a scalar offset."""
    if kind not in _VECTOR_MEMORY or not ("_store_" in item.base or "_atomic_" in item.base):
        return NOTHING
    buffer = kind is OpcodeKind.BUFFER
    if buffer and len(item.operands) > 3 and register_numbers(item.operands[3]):
        return NOTHING
    place = 0 if buffer else 1
    if "_atomic_" in item.base and ("sc0" in item.options or "glc" in item.options):
        place += not buffer
    if len(item.operands) <= place:
        return NOTHING
    data = register_numbers(item.operands[place])
    return frozenset(data) if len(data) > 2 else NOTHING


def _zero_bits(operands: tuple[GcnOperand, ...]) -> frozenset[int]:
    """The registers behind vccz and execz as sources."""
    names = {one.name.removeprefix("src_") for one in operands if isinstance(one, SymbolOperand)}
    words = (("vccz", VCC_WORDS), ("execz", EXEC_WORDS))
    return NOTHING.union(*(found for name, found in words if name in names))


def _partial(item: AssemblyInstruction) -> bool:
    if not item.base.startswith("v_"):
        return False
    if item.opcode.endswith("_sdwa"):
        return item.options.get("dst_sel", "DWORD") != "DWORD"
    if item.base.startswith("v_cvt_scalef32") and "_fp4_" in item.base.split("scalef32")[1][:8]:
        return True
    if item.options.get("byte_sel", "0") != "0":
        return True
    chosen = item.options.get("op_sel", "").strip("[]").split(",")
    return len(chosen) == len(item.operands) and chosen[-1].strip() == "1"


def _setting(item: AssemblyInstruction) -> str:
    if not item.base.startswith(("s_setreg", "s_getreg")):
        return ""
    names = [one.name for one in item.operands if isinstance(one, SymbolOperand)]
    return names[0].split("(")[-1].split(",")[0].strip(" )") if names else "?"


# ------------------------------------------------------------------------- matrix products


def matrix_needs(
    first: HazardFacts, second: HazardFacts, target: str, hidden: frozenset[int]
) -> Iterator[Need]:
    """Behind a matrix product. `hidden`: registers that a later product has written as well."""
    results = first.writes - hidden
    if second.matrix:
        same = first.writes == second.accumulator
        added = results & second.accumulator
        if added:
            yield Need(
                _accumulated(first, second, target, same),
                min(added),
                f"{_RESULT} is added to",
            )
        others = results & second.factors
        if others:
            yield Need(
                _finished(first, target, False),
                min(others),
                f"{_RESULT} is multiplied",
            )
        return
    if not (second.vector or second.memory):
        return
    read = results & second.reads
    if read:
        yield Need(_finished(first, target, second.memory), min(read), f"{_RESULT} is read")
    written = results & second.writes
    if written:
        states = {4: 6}.get(first.passes, 11) if first.double else _finished(first, target, False)
        yield Need(states, min(written), f"{_RESULT} is overwritten")
    kept = first.accumulator & second.writes
    if kept and not first.double and (target == "gfx90a" or not first.single):
        yield Need(first.passes - 1, min(kept), "what a matrix product adds to is overwritten")
    if first.double and second.name in ("v_fma_f64", "v_fmac_f64"):
        yield Need(2, min(first.writes), "binary64 follows a matrix product of binary64")


def _accumulated(first: HazardFacts, second: HazardFacts, target: str, same: bool) -> int:
    """A product that adds to the result of another one; `same`: to exactly its registers."""
    passes, newer, cdna4 = first.passes, target != "gfx90a", target == "gfx950"
    if first.double and not second.double:
        return 0 if not newer or same or not second.single else _double_added(first, cdna4)
    if same:
        if first.double and first.passes == 4 and second.passes == 4:
            return 4
        return 2 if newer and passes == 2 else 0
    if first.double:
        return _double_added(first, cdna4)
    xdl, also = not first.single, not second.single and not second.double
    if not newer:
        return passes + second.double
    if not xdl:
        return 0 if also else passes
    late = cdna4 and (also or passes != 2)
    return passes + 1 + late


def _double_added(first: HazardFacts, cdna4: bool) -> int:
    return 4 if first.passes == 4 else 17 if cdna4 else 9


def _finished(first: HazardFacts, target: str, memory: bool) -> int:
    """Until the registers of a product have its result."""
    if first.double:
        if memory:
            return 9 if first.passes == 4 else 18
        return 6 if first.passes == 4 else 19 if target == "gfx950" else 11
    if target != "gfx90a" and first.single:
        return first.passes + 2
    return first.passes + 3 + (target == "gfx950" and first.passes != 2)


# ---------------------------------------------------------------------------- other rules


def other_needs(first: HazardFacts, second: HazardFacts, target: str) -> Iterator[Need]:
    """Behind an instruction of any other unit."""
    newer = target != "gfx90a"
    if first.vector and not first.matrix:
        yield from _behind_vector(first, second)
        yield from _scalars_of_vector(first, second, newer)
        if newer:
            yield from _forwarded(first, second)
    if second.lanes_moved:
        moved = first.writes & second.reads
        if moved and min(moved) < SCALAR_BASE:
            yield Need(2, min(moved), "lanes of a register are moved")
    if first.stored and second.vector:
        overwritten = first.stored & second.writes
        if overwritten:
            yield Need(1 + newer, min(overwritten), "the data of a store is overwritten")
    if first.kind is OpcodeKind.SCALAR and first.writes & second.implicit & M0_WORD:
        yield Need(1, SCALAR_BASE + M0, "M0 is used that the scalar unit wrote")
    if first.name.startswith("s_setreg") and first.setting == second.setting:
        yield Need(2, SCALAR_BASE, f"{first.setting} is used that s_setreg wrote")


def _behind_vector(first: HazardFacts, second: HazardFacts) -> Iterator[Need]:
    """Vector registers that a vector instruction writes."""
    read = first.writes & second.reads
    if second.matrix and read and not first.dot and min(read) < SCALAR_BASE:
        yield Need(2, min(read), "a result of the vector unit is multiplied")
    if first.dot and not second.matrix and (second.vector or second.memory):
        different = first.name != second.name
        if different or not read <= second.accumulator:
            for register in sorted(read)[:1]:
                yield Need(3, register, "the result of v_dot is read")
        for register in sorted(first.writes & second.writes)[: int(different)]:
            yield Need(3, register, "the result of v_dot is overwritten")
    if second.name.startswith("v_permlane") and second.name.endswith("_swap_b32"):
        for register in sorted(read)[:1]:
            yield Need(2, register, "lanes of a register are exchanged")
        if first.name.startswith("v_cmpx_"):
            yield Need(4, SCALAR_BASE + EXEC, _SCALAR)


def _scalars_of_vector(first: HazardFacts, second: HazardFacts, newer: bool) -> Iterator[Need]:
    """Scalar registers that a vector instruction writes."""
    written = frozenset(register for register in first.writes if register >= SCALAR_BASE)
    if not written:
        return
    rules = (
        (second.vector and not second.name.startswith("v_div_fmas_"), second.implicit, 5),
        (second.vector_memory, second.reads | second.implicit, 5),
        (second.name.startswith("v_div_fmas_"), VCC_WORDS, 4),
        (bool(second.lane), second.lane, 4),
        (second.lanes_moved, EXEC_WORDS, 5),
        (second.matrix, EXEC_WORDS, 4),
        (newer and second.name in _READ_LANES | _LANES_BY_SCALAR, EXEC_WORDS, 4),
        (newer and second.vector, second.reads | second.implicit, 2),
    )
    for holds, registers, states in rules:
        common = written & registers if holds else NOTHING
        if common:
            yield Need(states, min(common), _SCALAR)


def _forwarded(first: HazardFacts, second: HazardFacts) -> Iterator[Need]:
    """Results that the next vector instruction does not get in time (CDNA3, CDNA4)."""
    if not second.vector:
        return
    read = first.writes & second.reads
    late = first.transcendental and not second.transcendental
    if read and (late or second.name in _READ_LANES):
        yield Need(1, min(read), "a result is read too early")
    touched = first.writes & (second.reads | second.writes)
    if first.partial and touched:
        yield Need(1, min(touched), "a register is used of which a part was written")
