"""Whether gfx90a, gfx942 and gfx950 have an instruction with such operands and modifiers.

Text that no assembler takes is no program: a register of another width, a number that does not fit,
a word that means nothing. The table (`operand_table.py`) has for each mnemonic its forms; one is a
list of operands, `v1|s1|i`: a vector register (`v`), an accumulation one (`a`), scalar ones (`s`),
each with how many; `i` a constant that the encoding has, `h` a literal of 16 bits, `l` of 32;
`off`, `hwreg`, `gpr_idx` those words. Options in front (`offen+lds:`) belong to that
form alone; `returns` are `sc0` and `glc` of atomics. What goes
beyond one operand is in the functions below. Source: the LLVM assembler, with which tests compare.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from titan.isa.gcn.module import GcnOperand, Literal, Registers, SymbolOperand, integer_of
from titan.isa.gcn.opcodes import OPCODES, OpcodeKind, base_name, expanded
from titan.isa.gcn.operand_table import TABLE
from titan.isa.gcn.operands import VCC

_SUFFIXES = ("", "_e32", "_e64", "_dpp", "_sdwa")
_OPTIONS = frozenset(("offen", "idxen", "lds"))
_REALS = frozenset(
    struct.pack("<f", sign * value)
    for value in (0.5, 1.0, 2.0, 4.0)
    for sign in (1, -1)
) | {struct.pack("<f", 0.15915494309189532)}  # fmt: skip
_CONSTANT = re.compile(
    r"(src_)?(vccz|execz|scc|shared_base|shared_limit|private_base|private_limit"
    r"|pops_exiting_wave_id)$"
)
_UNLISTED = frozenset(("s_waitcnt", "s_sendmsg", "s_sendmsghalt"))  # words of their own
_WORDS = ("hwreg", "gpr_idx")
_ANYWHERE = frozenset(("ds_read_b96_tr_b6",))  # its registers may begin at an odd one
_WHOLE_VCC = Registers("s", VCC, 2)
_CONDITION = 253  # the number of `scc` as a source
_ANY = range(-(1 << 31), 1 << 32)
_HALF = range(-(1 << 15), 1 << 16)


class GcnOperandForm(NamedTuple):
    """The operands of one form, and the options that belong to it."""

    operands: tuple[frozenset[str], ...]
    options: frozenset[str]


def _forms() -> dict[str, tuple[GcnOperandForm, ...]]:
    found: dict[str, tuple[GcnOperandForm, ...]] = {}
    heading = ""
    for line in TABLE.split("\n"):
        if not line.startswith(" "):
            heading = f"{heading} {line}" if not heading.endswith("=") else line
            continue
        forms = tuple(_form(text) for text in heading.strip().rstrip("=").split(";"))
        for pattern in line.split():
            for name in expanded(pattern):
                found[name] = forms
    return found


def _form(text: str) -> GcnOperandForm:
    options, colon, rest = text.strip().rpartition(":")
    words = [word for word in rest.split() if word != "none"]
    chosen = frozenset(options.split("+")) if colon else frozenset[str]()
    return GcnOperandForm(tuple(frozenset(word.split("|")) for word in words), chosen)


FORMS = _forms()


def forms_of(mnemonic: str) -> tuple[GcnOperandForm, ...]:
    """Those of a mnemonic: of its encoding where it names one, else of all that it has."""
    base = base_name(mnemonic)
    if mnemonic == base:
        return tuple(form for suffix in _SUFFIXES for form in FORMS.get(base + suffix, ()))
    only = FORMS.get(base, ()) if mnemonic.endswith("_e64") else ()
    return FORMS.get(mnemonic, only)


def operand_fault(mnemonic: str, operands: Sequence[GcnOperand], options: Sequence[str]) -> str:
    """What is wrong with the operands of an instruction, in words; empty if nothing is."""
    base = base_name(mnemonic)
    if base not in OPCODES:
        return f"{base} has no modifiers of another encoding"
    kind = OPCODES[base].kind
    for operand in operands if base not in _ANYWHERE else ():
        if isinstance(operand, Registers) and (text := _misaligned(operand)):
            return text
    if kind is OpcodeKind.CACHE:
        named = {one.name for one in operands if isinstance(one, SymbolOperand)}
        right = len(named) == len(operands) and named <= set(_COHERENCE.split())
        return "" if right else f"{mnemonic} takes no such operands"
    chosen = frozenset(options) & _OPTIONS
    if "_atomic_" in base and not base.startswith("s_") and {"sc0", "glc"} & set(options):
        chosen |= {"returns"}
    kinds = tuple(_kinds(operand) for operand in operands)
    if not _taken(mnemonic, kinds, chosen):
        return f"{mnemonic} takes no such operands"
    if mnemonic.endswith("_dpp") and sum(_moves(one) for one in options) != 1:
        return f"{mnemonic} moves lanes in no way, or in several"
    if kind in (OpcodeKind.VECTOR, OpcodeKind.MATRIX):
        return _one_scalar(mnemonic, operands) or _overlapping(mnemonic, operands)
    if kind is OpcodeKind.SCALAR_MEMORY and any(
        isinstance(one, Literal) and one.value not in _OFFSETS[kind] for one in operands
    ):
        return f"the offset of {mnemonic} has 21 bits"
    literals = {one.value for one in operands if isinstance(one, Literal) and not _is_inline(one)}
    if kind is OpcodeKind.SCALAR and len(literals) > 1:
        return f"{mnemonic} has room for one literal"
    return ""


@lru_cache(maxsize=1 << 14)
def _taken(mnemonic: str, kinds: tuple[frozenset[str], ...], options: frozenset[str]) -> bool:
    return base_name(mnemonic) in _UNLISTED or any(
        form.options == options
        and len(form.operands) == len(kinds)
        and all(found & allowed for found, allowed in zip(kinds, form.operands, strict=True))
        for form in forms_of(mnemonic)
    )


def _kinds(operand: GcnOperand) -> frozenset[str]:
    """The kinds of the table that an operand may be of."""
    if isinstance(operand, Registers):
        if operand.bank == "s" and operand.first == _CONDITION:
            return frozenset("i")
        found = f"{operand.bank}{operand.count}"
        return frozenset((found, "vcc") if operand == _WHOLE_VCC else (found,))
    if isinstance(operand, Literal):
        if _is_inline(operand):
            return frozenset(("i", "h", "l", *_WORDS))
        wide = ("l", *_WORDS) if operand.real or operand.value in _ANY else ()
        half = ("h",) if operand.real or operand.value in _HALF else ()
        return frozenset((*wide, *half))
    if _CONSTANT.match(operand.name):
        return frozenset("i")
    if operand.name == "off":
        return frozenset(("off",))
    word, opened, _ = operand.name.partition("(")
    if opened and word in _WORDS:
        return frozenset((word,))
    return frozenset(("l", "h"))  # an expression


def _is_inline(operand: Literal) -> bool:
    if operand.real:
        return operand.value == 0 or operand.value.to_bytes(4, "little") in _REALS
    return -16 <= operand.value <= 64


def _misaligned(operand: Registers) -> str:
    """Several vector registers begin at an even one, scalar ones at a multiple of 2 or 4."""
    unit = 1 if operand.count == 1 else 2 if operand.bank != "s" or operand.count == 2 else 4
    if operand.first % unit == 0:
        return ""
    last = operand.first + operand.count - 1
    text = f"{operand.bank}[{operand.first}:{last}]"
    return f"{text} does not begin at a multiple of {unit}"


def _one_scalar(mnemonic: str, operands: Sequence[GcnOperand]) -> str:
    """The vector unit reads one scalar register, or one literal (CDNA3, 6.2)."""
    base = base_name(mnemonic)
    sources = operands[0 if base == "v_writelane_b32" else OPCODES[base].results :]
    found: set[object] = {
        (one.first, one.count)
        for one in sources
        if isinstance(one, Registers) and one.bank == "s" and one.first != _CONDITION
    }
    if base == "v_writelane_b32":
        return ""
    if base.startswith("v_div_fmas"):
        found.add((VCC, 2))
    found |= {one.value for one in sources if isinstance(one, Literal) and not _is_inline(one)}
    found |= {one.name for one in sources if isinstance(one, SymbolOperand)}
    return f"{mnemonic} reads more than one scalar register or literal" if len(found) > 1 else ""


def _moves(option: str) -> bool:
    return option == "quad_perm" or (option.startswith(("row_", "wave_")) and option != "row_mask")


def _overlapping(mnemonic: str, operands: Sequence[GcnOperand]) -> str:
    """What a large product adds to is its result, or has no register in common with that."""
    if not mnemonic.startswith("v_mfma") or len(operands) < 4:
        return ""
    made, added = operands[0], operands[3]
    if not isinstance(made, Registers) or not isinstance(added, Registers) or made.count <= 4:
        return ""
    near = made.bank == added.bank and 0 < abs(made.first - added.first) < made.count
    return f"{mnemonic} adds to a part of its result" if near else ""


# ------------------------------------------------------------------------------ modifiers

_COHERENCE = "glc slc scc sc0 sc1 nt"
_SELECTED = "dst_sel dst_unused src0_sel src1_sel"
_MOVED = """quad_perm row_shl row_shr row_ror row_mirror row_half_mirror row_bcast row_newbcast
    wave_shl wave_shr wave_rol wave_ror row_mask bank_mask bound_ctrl"""
_BY_ENCODING = {
    "_e32": "",
    "_dpp": f"{_MOVED} clamp",
    "_sdwa": f"{_SELECTED} clamp mul div",
    "_e64": "clamp mul div op_sel bitop3 byte_sel fi bound_ctrl",
    "": f"{_MOVED} {_SELECTED} clamp mul div op_sel op_sel_hi neg_lo neg_hi bitop3 byte_sel fi",
}
_BY_KIND = {
    OpcodeKind.SCALAR: "",
    OpcodeKind.CONTROL: "",
    OpcodeKind.SCALAR_MEMORY: "offset glc nv",
    OpcodeKind.MATRIX: "cbsz abid blgp neg op_sel op_sel_hi neg_lo neg_hi clamp",
    OpcodeKind.LDS: "offset offset0 offset1 gds",
    OpcodeKind.CROSS_LANE: "offset gds",
    OpcodeKind.GLOBAL: f"offset lds {_COHERENCE}",
    OpcodeKind.FLAT: f"offset {_COHERENCE}",
    OpcodeKind.SCRATCH: f"offset lds {_COHERENCE}",
    OpcodeKind.BUFFER: f"offset offen idxen lds tfe {_COHERENCE}",
    OpcodeKind.CACHE: _COHERENCE,
}
_NUMBERS = {
    "offset0": range(256), "offset1": range(256), "cbsz": range(8), "abid": range(16),
    "blgp": range(8), "bitop3": range(256), "row_mask": range(16), "bank_mask": range(16),
    "row_shl": range(1, 16), "row_shr": range(1, 16), "row_ror": range(1, 16),
    "row_newbcast": range(16), "byte_sel": range(4), "mul": range(2, 5, 2), "div": range(2, 3),
}  # fmt: skip
_OFFSETS = {
    OpcodeKind.SCALAR_MEMORY: range(-(1 << 20), 1 << 20),
    OpcodeKind.LDS: _HALF[1 << 15 :],
    OpcodeKind.CROSS_LANE: _HALF[1 << 15 :],
    OpcodeKind.GLOBAL: range(-4096, 4096),
    OpcodeKind.SCRATCH: range(-4096, 4096),
    OpcodeKind.FLAT: range(4096),
    OpcodeKind.BUFFER: range(4096),
}


def modifier_fault(mnemonic: str, options: dict[str, str]) -> str:
    """What is wrong with the words behind the operands; empty if nothing is."""
    base = base_name(mnemonic)
    kind = OPCODES[base].kind
    allowed = _words(mnemonic[len(base) :], kind)
    for name, text in options.items():
        if name not in allowed:
            return f"{mnemonic} has no modifier {name}"
        limits = _OFFSETS.get(kind) if name == "offset" else _NUMBERS.get(name)
        value = integer_of(text)
        if limits is not None and value is not None and value not in limits:
            return f"{name}:{text} is beyond {limits[0]} to {limits[-1]}"
    return ""


@lru_cache(maxsize=256)
def _words(encoding: str, kind: OpcodeKind) -> frozenset[str]:
    text = _BY_ENCODING.get(encoding, "") if kind is OpcodeKind.VECTOR else _BY_KIND.get(kind, "")
    return frozenset(text.split())


# ------------------------------------------------------------------------- waits, messages

_COUNTED = re.compile(r"(vmcnt|lgkmcnt|expcnt)(_sat)?\s*\(\s*(\w+)\s*\)\s*(?:[&,]\s*)?")
_MOST = {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7}


def wait_fault(text: str) -> str:
    """What is wrong with the counters of an `s_waitcnt`; empty if nothing is."""
    if integer_of(text) is not None:
        return ""
    at = 0
    while at < len(text):
        found = _COUNTED.match(text, at)
        if found is None:
            return "" if at == 0 and "(" not in text else f"{text[at:]} is no counter"
        value = integer_of(found[3])
        if value is not None and value > _MOST[found[1]] and not found[2]:
            return f"{found[1]} counts to {_MOST[found[1]]}"
        at = found.end()
    return ""
