"""Reads one operand of an instruction."""

from __future__ import annotations

import re

from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.isa.ptx.declarations import floating, integer
from titan.isa.ptx.module import (
    Address,
    Group,
    Immediate,
    Negated,
    Operand,
    Pair,
    PtxRegister,
    PtxTarget,
    Sink,
    Special,
    Symbol,
    Vector,
)
from titan.isa.ptx.scanner import INVALID, UNDECLARED, Scanner, split_at_commas
from titan.isa.ptx.scopes import Scopes

_NAME = re.compile(r"[%A-Za-z_$][\w$]*(?:\.[xyzwrgba])?")
_SUM = re.compile(r"([%A-Za-z_$][\w$]*)\s*\+?\s*([+-]?\s*\w+)")
_WORDS = """
tid ntid laneid warpid nwarpid ctaid nctaid smid nsmid gridid is_explicit_cluster clusterid
nclusterid cluster_ctaid cluster_nctaid cluster_ctarank cluster_nctarank lanemask_eq
lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi clock64 globaltimer
globaltimer_lo globaltimer_hi reserved_smem_offset_begin reserved_smem_offset_end
reserved_smem_offset_cap reserved_smem_offset_0 reserved_smem_offset_1 total_smem_size
aggr_smem_size dynamic_smem_size current_graph_exec
"""
_SPECIAL = frozenset(_WORDS.split())
DEPTH_MAX = 8


class OperandReader:
    """Reads operands of one function. Faults go to the scanner; what is unreadable is a Sink.

    `globals` holds the names of variables and functions of the module, `branches` collects uses of
    labels as (name, offset): a label operand becomes Target(-1 - index of the use).
    """

    def __init__(self, scanner: Scanner, scopes: Scopes, names: set[str]) -> None:
        self.scanner = scanner
        self.scopes = scopes
        self.names = names
        self.holes = 0
        self._kept: dict[str, Operand] = {}

    def forget(self) -> None:
        """Names mean something else now: a scope was opened, or something was declared."""
        self._kept.clear()

    def read(self, text: str, start: int, depth: int = 0) -> Operand:
        """The operand `text` that begins at offset `start`."""
        known = self._kept.get(text)
        if known is not None:
            return known
        holes, findings = self.holes, len(self.scanner.findings)
        operand = self._read(text, start, depth)
        if (
            holes == self.holes
            and findings == len(self.scanner.findings)
            and len(self.scopes.stack) == 1
        ):
            self._kept[text] = operand
        return operand

    def _read(self, text: str, start: int, depth: int) -> Operand:
        if depth > DEPTH_MAX:
            return self._unknown(text, start)
        if text == "_":
            return Sink()
        first = text[:1]
        if first == "{" and text.endswith("}"):
            return Vector(self.items(text, start, depth))
        if first == "(" and text.endswith(")"):
            return Group(self.items(text, start, depth))
        if first == "[" and text.endswith("]"):
            return self._address(text, start, depth)
        if first == "!":
            return Negated(self.read(text[1:].strip(), start + 1, depth + 1))
        if "|" in text:
            left, _, right = text.partition("|")
            at = start + len(left) + 1
            return Pair(
                self.read(left.strip(), start, depth + 1), self.read(right.strip(), at, depth + 1)
            )
        if first.isdigit() or first in "+-.":
            return self._constant(text, start)
        if _NAME.fullmatch(text):
            return self._name(text, start)
        match = _SUM.fullmatch(text)
        offset = integer(match.group(2).replace(" ", "")) if match else None
        if match is None or offset is None:
            return self._unknown(text, start)
        base = self._name(match.group(1), start)
        if isinstance(base, Symbol):
            return Symbol(base.name, offset)
        return self._unknown(text, start) if not isinstance(base, Sink) else base

    def items(self, text: str, start: int, depth: int = 0) -> tuple[Operand, ...]:
        """The operands in brackets."""
        return tuple(
            self.read(piece, start + 1 + at, depth + 1) for at, piece in split_at_commas(text[1:-1])
        )

    def _constant(self, text: str, start: int) -> Operand:
        bits = floating(text)
        if bits is not None:
            return Immediate(*bits)
        value = integer(text.replace(" ", ""))
        if value is None or not -(1 << 64) < value < 1 << 64:
            return self._unknown(text, start)
        return Immediate(value)

    def _name(self, text: str, start: int) -> Operand:
        if text.startswith("%"):
            stem = text[1:].partition(".")[0]
            if stem in _SPECIAL or re.fullmatch(r"(pm|envreg)\d+(_64)?", stem):
                return Special(text)
        number = self.scopes.register(text)
        if number is not None:
            return PtxRegister(number)
        elements = self.scopes.vector(text)
        if elements is not None:
            return Vector(tuple(map(PtxRegister, elements)))
        if text == "WARP_SZ":
            return Immediate(32)
        variable = self.scopes.variable(text)
        if variable is not None or text in self.names:
            return Symbol(variable or text)
        if text.startswith("%") or "." in text:
            known = self.scopes.known_registers()
            help_ = "".join(suggestion(text, known) if len(known) < 400 else ())
            self.scanner.fault(
                UNDECLARED, f"{quoted(text)} is not declared", start, start + len(text), help_
            )
            return Sink()
        self.holes += 1
        self.scopes.top.uses.append((text, start, self.holes))
        return PtxTarget(-self.holes)

    def _address(self, text: str, start: int, depth: int) -> Operand:
        pieces = split_at_commas(text[1:-1])
        if len(pieces) == 2 and pieces[1][1].startswith("{"):
            base = self._address(f"[{pieces[0][1]}]", start + pieces[0][0], depth)
            if not isinstance(base, Address):
                return base
            at, coordinates = pieces[1]
            items = self.items(coordinates, start + 1 + at, depth)
            return Address(base.base, base.offset, items)
        inner = text[1:-1].strip()
        constant = integer(inner)
        if constant is not None:
            return Address(None, constant)
        match = _SUM.fullmatch(inner)
        name, offset = inner, 0
        if match is not None and not _NAME.fullmatch(inner):
            value = integer(match.group(2).replace(" ", ""))
            if value is None:
                return self._unknown(text, start)
            name, offset = match.group(1), value
        if len(pieces) != 1 or not _NAME.fullmatch(name):
            return self._unknown(text, start)
        base_ = self._name(name, start + 1)
        if isinstance(base_, PtxRegister | Symbol):
            return Address(base_, offset)
        if isinstance(base_, PtxTarget):
            use, _, _ = self.scopes.top.uses.pop()
            self.scanner.fault(
                UNDECLARED, f"{quoted(use)} is not declared", start + 1, start + 1 + len(use)
            )
        return Sink()

    def _unknown(self, text: str, start: int) -> Operand:
        self.scanner.fault(
            INVALID,
            f"the operand {quoted(text)} is not understood",
            start,
            start + max(1, min(len(text), 60)),
        )
        return Sink()
