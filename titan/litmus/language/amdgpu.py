"""The AMDGPU dialect of litmus tests: places, instructions and their spelling.

Scopes are `wavefront`, `workgroup`, `agent` and `system`, orders `weak` (not atomic), `relaxed`,
`acquire`, `release`, `acq_rel` and `seq_cst`, as in LLVM IR. A thread stands in a wave of a
work-group (`wg`) on an XCD of an agent; without a wave it is alone in its own. `s_barrier` makes
the threads of a work-group meet and orders no memory: fences around it do.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TypeVar

from titan.litmus.language import ast
from titan.litmus.language.ast import Scope, Semantics, ThreadPlacement
from titan.litmus.language.mnemonics import (
    InstructionError,
    InstructionLine,
    name_of,
    operand_of,
    read_instruction,
)
from titan.litmus.language.qualifiers import ARITHMETIC, ATOMIC_OPERATIONS

_Word = TypeVar("_Word")
AMDGPU_SCOPES = {
    "wavefront": Scope.WAVEFRONT,
    "workgroup": Scope.CTA,
    "agent": Scope.GPU,
    "system": Scope.SYS,
}
LEVELS = ("agent", "xcd", "wg", "wave")
_SCOPE_NAMES = {scope: name for name, scope in AMDGPU_SCOPES.items()}
_ORDERS = {order.value: order for order in Semantics if order is not Semantics.SC} | {
    "seq_cst": Semantics.SC
}
_ORDER_NAMES = {order: name for name, order in _ORDERS.items()}
_ALLOWED = {
    "ld": ("weak", "relaxed", "acquire", "seq_cst"),
    "st": ("weak", "relaxed", "release", "seq_cst"),
    "atom": ("relaxed", "acquire", "release", "acq_rel", "seq_cst"),
    "fence": ("acquire", "release", "acq_rel", "seq_cst"),
}
_PLACE = re.compile(r"([A-Za-z]+)\s*(\d+)")
_SHARED_WITH_PTX = (*ARITHMETIC, "mov", "goto", "beq", "bne", "blt", "ble", "bgt", "bge")
_OWN_WAVE = 1000  # and up: the wave of a thread that names none


def read_place(text: str, own: int) -> ThreadPlacement:
    """`wave 0,wg 1,xcd 0,agent 0`; `own` numbers the thread. Raises InstructionError."""
    levels: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _PLACE.fullmatch(part)
        if match is None or match.group(1) not in LEVELS:
            word = match.group(1) if match is not None else part
            raise InstructionError(f"`{word}` is no level of a place{_near(word, LEVELS)}")
        levels[match.group(1)] = int(match.group(2))
    return ThreadPlacement(
        levels.get("agent", 0),
        levels.get("xcd", 0),
        levels.get("wg", 0),
        levels.get("wave", _OWN_WAVE + own),
    )


def format_place(place: ThreadPlacement) -> str:
    """The place as `read_place` reads it."""
    wave = f"wave {place.wave}," if place.wave < _OWN_WAVE else ""
    xcd = f"xcd {place.cluster}," if place.cluster else ""
    return f"{wave}wg {place.cta},{xcd}agent {place.gpu}"


def read_amdgpu(text: str) -> ast.LitmusInstruction:
    """The instruction that `text` spells. Raises InstructionError with the reason."""
    line = InstructionLine(text)
    family = line.qualifiers[0]
    if family in _SHARED_WITH_PTX or text.strip().endswith(":"):
        return read_instruction(text)
    if family == "s_barrier":
        line.take(0)
        return ast.Barrier(0)
    if family not in _ALLOWED:
        known = (*_ALLOWED, "s_barrier", *_SHARED_WITH_PTX)
        raise InstructionError(f"unknown instruction `{family}`{_near(family, known)}")
    order, scope, operation = _qualifiers(line)
    match family:
        case "ld":
            destination, location = line.take(2)
            return ast.Load(name_of(destination), name_of(location), order, scope)
        case "st":
            location, value = line.take(2)
            return ast.Store(name_of(location), operand_of(value), order, scope)
        case "fence":
            line.take(0)
            return ast.Fence(order, _needed(line, scope))
    inputs = 2 if operation == "cas" else 1
    destination, location, *values = line.take(2 + inputs)
    operands = tuple(operand_of(value) for value in values)
    return ast.Atomic(
        _needed(line, operation), name_of(location), operands, order, _needed(line, scope),
        name_of(destination),
    )  # fmt: skip


def _qualifiers(line: InstructionLine) -> tuple[Semantics, Scope | None, str | None]:
    """Order, scope and operation, each at most once and as the family has them."""
    family, *given = line.qualifiers
    orders = [word for word in given if word in _ORDERS]
    scopes = [word for word in given if word in AMDGPU_SCOPES]
    operations = [word for word in given if word in ATOMIC_OPERATIONS and family == "atom"]
    rest = [word for word in given if word not in (*orders, *scopes, *operations)]
    if rest:
        known = (*_ORDERS, *AMDGPU_SCOPES, *(ATOMIC_OPERATIONS if family == "atom" else ()))
        raise InstructionError(f"`{line.head}` has no qualifier `{rest[0]}`{_near(rest[0], known)}")
    if len(orders) != 1 or orders[0] not in _ALLOWED[family]:
        raise InstructionError(f"`{line.head}` needs one order of {', '.join(_ALLOWED[family])}")
    order = _ORDERS[orders[0]]
    if len(scopes) != (0 if order is Semantics.WEAK else 1):
        wanted = "no scope" if order is Semantics.WEAK else f"one of {', '.join(AMDGPU_SCOPES)}"
        raise InstructionError(f"`{line.head}` needs {wanted}")
    if len(operations) != (family == "atom"):
        raise InstructionError(f"`{line.head}` needs one operation of {ATOMIC_OPERATIONS}")
    scope = AMDGPU_SCOPES[scopes[0]] if scopes else None
    return order, scope, operations[0] if operations else None


def _needed(line: InstructionLine, word: _Word | None) -> _Word:
    if word is None:
        raise InstructionError(f"`{line.head}` is not complete")
    return word


def _near(word: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(word, known, 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def format_amdgpu(instruction: ast.LitmusInstruction) -> str | None:
    """The instruction as this dialect spells it; None where PTX tests spell it the same way."""
    match instruction:
        case ast.Load(destination, location, order, scope):
            return f"ld{amdgpu_order(order, scope)} {destination}, {location}"
        case ast.Store(location, value, order, scope):
            return f"st{amdgpu_order(order, scope)} {location}, {value}"
        case ast.Fence(order, scope):
            return f"fence{amdgpu_order(order, scope)}"
        case ast.Barrier():
            return "s_barrier"
        case ast.Atomic(operation, location, operands, order, scope, destination):
            values = ", ".join(map(str, operands))
            return (
                f"atom{amdgpu_order(order, scope)}.{operation} {destination}, {location}, {values}"
            )
    return None


def amdgpu_order(order: Semantics, scope: Scope | None) -> str:
    """Order and scope as qualifiers: `.acquire.agent`."""
    return f".{_ORDER_NAMES[order]}" + (f".{_SCOPE_NAMES[scope]}" if scope is not None else "")
