"""Reads whole assembly files for AMD GPUs, as LLVM writes them and people do.

Every fault is reported with its place, all at once. Directives that say nothing about kernels are
passed over; data sections are not read. An instruction that the table does not have is a fault,
whether or not it could be reached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.foundation.source.span import Source, whole_file
from titan.isa.gcn.allocation import beyond
from titan.isa.gcn.directives import Directives
from titan.isa.gcn.kernel_facts import KernelFacts
from titan.isa.gcn.locations import Locations
from titan.isa.gcn.module import (
    AssemblyFile,
    AssemblyInstruction,
    AssemblyKernel,
    GcnOperand,
    SymbolOperand,
)
from titan.isa.gcn.names_gfx1250 import OLDER, TARGET
from titan.isa.gcn.opcodes import OPCODES, base_name
from titan.isa.gcn.operand_forms import modifier_fault, operand_fault, wait_fault
from titan.isa.gcn.operands import BadOperand, as_encoded, modifier, operand, split, words
from titan.isa.gcn.reading_gfx1250 import DUAL, adapted, dual_fault, in_sequence
from titan.isa.gcn.register_banks import with_banks
from titan.isa.gcn.targets import lacking, loads_half

INVALID, UNKNOWN, UNDECLARED, TWICE = "TTN001", "TTN010", "TTN011", "TTN013"
REGISTERS = "TTN406"
FINDINGS_MAX = 100
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|;.*|//.*|/\*.*?\*/')
_LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$@]*):")
_STATEMENT = re.compile(r"(\s*)([A-Za-z_.][\w.]*)(.*)$", re.S)
_ASSIGNMENT = re.compile(r"\s*[A-Za-z_.$][\w.$]*\s*=")
_TARGET = re.compile(r"gfx[0-9a-f]{3,5}\b")
# Modifiers of data parallel primitives, and of selected bytes and halves.
_LANES_MOVED = frozenset(
    (
        "quad_perm", "row_shl", "row_shr", "row_ror", "row_mirror", "row_half_mirror", "row_bcast",
        "row_newbcast", "wave_shl", "wave_shr", "wave_rol", "wave_ror", "row_mask", "bank_mask",
        "bound_ctrl",
    )
)  # fmt: skip
_PARTS_SELECTED = frozenset(("dst_sel", "dst_unused", "src0_sel", "src1_sel"))
# Their operand is no list.
_BARE = ("s_waitcnt", "s_sendmsg", "s_sendmsghalt", "s_delay_alu", "s_wait_alu")
_LATER = re.compile(
    rf"^\s*(?:\.amdgcn_target\b.*|amdhsa\.target:.*)\b{TARGET}\b|-mcpu={TARGET}", re.M
)
_NAMED = re.compile(
    r"^\s*(?:\.amd(?:gcn|hsa)_target\b|amdhsa\.target:).*?\b(gfx[0-9a-f]{3,5})\b", re.M
)


def named_target(text: str) -> str:
    """The processor that a text names; empty if it names none."""
    found = _NAMED.search(text)
    return found[1] if found is not None else ""


def parse_assembly(source: Source) -> tuple[AssemblyFile | None, list[Diagnostic]]:
    """The file, or None and what is wrong with it."""
    reader = _Reader(source)
    reader.read()
    if not reader.findings:
        made = reader.assembly()
        if not reader.findings:
            return made, []
    return None, reader.findings[:FINDINGS_MAX]


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.findings: list[Diagnostic] = []
        self.instructions: list[AssemblyInstruction] = []
        self.labels: dict[str, int] = {}
        self.branches: list[tuple[int, str, int, int]] = []  # instruction, label, line, column
        self.ends: dict[str, int] = {}
        self.facts = KernelFacts()
        self.directives = Directives()
        self.locations = Locations()
        self.target, self.without_ecc = "", False
        self.metadata: list[str] | None = None
        self.later = _LATER.search(source.text) is not None  # written for gfx1250
        self.names = OLDER if self.later else OPCODES

    def fault(self, code: str, headline: str, line: int, column: int, length: int) -> None:
        """Note a finding; nothing more than `FINDINGS_MAX` is kept."""
        if len(self.findings) < FINDINGS_MAX:
            start = self.source.line_starts[line - 1] + column - 1
            span = self.source.span(start, start + max(1, length))
            self.findings.append(diagnostic(code, headline, span))

    # -------------------------------------------------------------------------- the text

    def read(self) -> None:
        """All lines."""
        for number in range(1, self.source.line_count + 1):
            line = self.source.line(number)
            if self.metadata is not None:
                if ".end_amdgpu_metadata" in line:
                    self._end_metadata(number)
                else:
                    self.metadata.append(line)
                continue
            self._line(line, number)
        if self.metadata is not None:
            self.fault(INVALID, "the metadata does not end", self.source.line_count, 1, 1)

    def _line(self, line: str, number: int) -> None:
        text = _COMMENT.sub(_blank, line) if ";" in line or "/" in line else line
        if "/*" in text and not line.lstrip().startswith("."):
            column = text.index("/*") + 1
            self.fault(INVALID, "a comment goes on in the next line", number, column, 2)
            return
        at = 0
        while (label := _LABEL.match(text, at)) is not None:
            self._label(label.group(1), number, label.start(1) + 1)
            at = label.end()
        found = _STATEMENT.match(text, at)
        if found is None:
            rest = text[at:].strip()
            if rest:
                column = text.index(rest[0], at) + 1
                self.fault(INVALID, f"{quoted(rest[:20])} is no statement", number, column, 1)
            return
        word, column = found.group(2), found.start(2) + 1
        if word.startswith("."):
            self._directive(word, found.group(3), line, number, column)
        elif not _ASSIGNMENT.match(text, at):
            self._instruction(word, found.group(3), number, column)

    def _label(self, name: str, number: int, column: int) -> None:
        if name in self.labels:
            self.fault(TWICE, f"the label {quoted(name)} stands twice", number, column, len(name))
        self.labels[name] = len(self.instructions)

    def _directive(self, word: str, rest: str, line: str, number: int, column: int) -> None:
        if not self.directives.read(word, rest, len(self.instructions), (number, column)):
            headline = f"{quoted(word)} decides which instructions there are, and is not read"
            self.fault(INVALID, headline, number, column, len(word))
        elif word == ".loc":
            if not self.locations.set(rest, line):
                self.fault(INVALID, "a location is not understood", number, column, 4)
        elif word == ".file":
            self.locations.declare(rest)
        elif word in (".amdgcn_target", ".amdhsa_target"):
            found = _TARGET.search(rest)
            self.target = found.group() if found is not None else self.target
            self.without_ecc = "sramecc-" in rest
        elif word == ".size":
            self.ends.setdefault(rest.split(",", maxsplit=1)[0].strip(), len(self.instructions))
        elif word == ".amdgpu_metadata":
            self.metadata = []
        elif word == ".amdhsa_kernel":
            if not self.facts.begin(rest.strip(), number):
                self.fault(
                    TWICE, f"the kernel {quoted(rest.strip())} stands twice", number, column, 1
                )
        elif word == ".end_amdhsa_kernel":
            self.facts.end()
        elif word.startswith(".amdhsa_"):
            self.facts.set(word.removeprefix(".amdhsa_"), rest.strip())

    def _end_metadata(self, number: int) -> None:
        assert self.metadata is not None
        text, self.metadata = "\n".join(self.metadata), None
        if not self.facts.read_metadata(text):
            self.fault(INVALID, "the metadata is not understood", number, 1, 1)
        if not self.target:
            found = _TARGET.search(self.facts.target)
            self.target = found.group() if found is not None else ""

    # ---------------------------------------------------------------------- instructions

    def _instruction(self, word: str, rest: str, number: int, column: int) -> None:
        if self.later and DUAL in rest:
            self._dual(word, rest, number, column)
        else:
            item = self._read(word, rest, number, column)
            if item is not None:
                self.instructions.append(item)
        self.directives.instruction(len(self.instructions))

    def _dual(self, word: str, rest: str, number: int, column: int) -> None:
        """Two halves between which `::` stands."""
        first_rest, _, second = rest.partition(DUAL)
        blank = len(second) - len(second.lstrip())
        at = column + len(word) + len(first_rest) + len(DUAL) + blank
        found = _STATEMENT.match(second.strip() and second.lstrip())
        if found is None:
            self.fault(INVALID, "a dual instruction has no second half", number, column, len(word))
            return
        halves = (
            self._read(word, first_rest, number, column),
            self._read(found.group(2), found.group(3), number, at),
        )
        if halves[0] is None or halves[1] is None:
            return
        wrong = dual_fault((halves[0], halves[1]))
        if wrong:
            self.fault(INVALID, wrong, number, column, len(word))
        else:
            self.instructions += in_sequence(halves[0], halves[1])

    def _read(self, word: str, rest: str, number: int, column: int) -> AssemblyInstruction | None:
        base = base_name(word)
        if base not in self.names:
            helps = suggestion(base, self.names)
            self.fault(UNKNOWN, f"unknown instruction {quoted(word)}", number, column, len(word))
            if helps and self.findings:
                self.findings[-1] = replace(self.findings[-1], helps=helps)
            return None
        start = column + len(word)
        operands: tuple[GcnOperand, ...] = ()
        modifiers: dict[str, str] = {}
        wrong = ""
        if base.startswith(("s_branch", "s_cbranch_")):
            name = rest.strip()
            place = start + len(rest) - len(rest.lstrip())
            self.branches.append((len(self.instructions), name, number, place))
        elif base in _BARE:
            operands = (SymbolOperand(rest.strip()),)
            wrong = wait_fault(rest.strip()) if base == "s_waitcnt" else ""
        else:
            known = len(self.findings)
            operands, modifiers = self._operands(rest, number, start)
            if not self.later and len(self.findings) == known:
                wrong = operand_fault(_whole_mnemonic(word, modifiers), operands, [*modifiers])
                wrong = wrong or modifier_fault(_whole_mnemonic(word, modifiers), modifiers)
            operands = operands if self.later else as_encoded(base, operands)
        word = _whole_mnemonic(word, modifiers)
        if wrong:
            self.fault(UNKNOWN, wrong, number, column, len(word))
        item = AssemblyInstruction(
            word, base, operands, modifiers, number, column, -1, self.locations.current
        )
        return adapted(item, OLDER[base]) if self.later else item

    def _operands(
        self, text: str, number: int, column: int
    ) -> tuple[tuple[GcnOperand, ...], dict[str, str]]:
        operands: list[GcnOperand] = []
        modifiers: dict[str, str] = {}
        for part, at in split(text):
            found = words(part)
            if not found:
                self.fault(INVALID, "an operand is empty", number, column + at, 1)
                continue
            for index, word in enumerate(found):
                named = modifier(word) if index or not _may_be_operand(word) else None
                if named is not None:
                    modifiers[named[0]] = named[1]
                    continue
                place = column + at + part.index(word)
                if index:
                    self.fault(INVALID, f"{quoted(word)} is no modifier", number, place, len(word))
                    continue
                try:
                    operands.append(operand(word, self.later))
                except BadOperand as error:
                    self.fault(INVALID, str(error), number, place, len(word))
        return tuple(operands), modifiers

    # ------------------------------------------------------------------------ the whole

    def assembly(self) -> AssemblyFile:
        """The file as data; branches and kernels are resolved."""
        for number, name, line, column in self.branches:
            target = self.labels.get(name)
            if target is None or target >= len(self.instructions):
                self.fault(
                    UNDECLARED, f"no label {quoted(name)} in front of an instruction", line, column,
                    len(name),
                )  # fmt: skip
            else:
                self.instructions[number] = replace(self.instructions[number], target=target)
        for item in self.instructions:
            if missing := lacking(item, self.target):
                headline = f"{self.target} has no {missing}"
                self.fault(UNKNOWN, headline, item.line, item.column, len(item.opcode))
            elif self.without_ecc and loads_half(item):
                headline = f"what {item.opcode} keeps of a register without ECC is not followed"
                self.fault(UNKNOWN, headline, item.line, item.column, len(item.opcode))
        kernels = []
        for made in self.facts.kernels():
            start = self.labels.get(made.name)
            if start is None or start >= len(self.instructions):
                headline = f"the kernel {quoted(made.name)} has no code"
                self.fault(UNDECLARED, headline, max(1, made.line), 1, 1)
                continue
            kernels.append(self._bounded(made, start))
        if not kernels and not self.findings:
            place = whole_file(self.source.path)
            self.findings.append(diagnostic("TTN007", "the file has no .amdhsa_kernel", place))
        code = self.instructions
        if self.later:
            code, wrong = with_banks(code, [kernel.start for kernel in kernels])
            for number, headline in wrong:
                item = code[number]
                self.fault(UNKNOWN, headline, item.line, item.column, len(item.opcode))
        for kernel in kernels:
            self._registers(kernel, code)
        return AssemblyFile(self.source.path, self.target, tuple(kernels), tuple(code))

    def _registers(self, kernel: AssemblyKernel, code: list[AssemblyInstruction]) -> None:
        """All registers are those of the kernel; without `.size` it may end at any other one."""
        others = [place for made in self.facts.kernels() if (place := self.labels.get(made.name))]
        end = min([kernel.end, *(place for place in others if place > kernel.start)])
        for item in code[kernel.start : end]:
            if found := beyond(item, kernel, self.later):
                headline = f"{found} {quoted(kernel.name)} asks for"
                self.fault(REGISTERS, headline, item.line, item.column, len(item.opcode))

    def _bounded(self, kernel: AssemblyKernel, start: int) -> AssemblyKernel:
        end = max(start, self.ends.get(kernel.name, len(self.instructions)))
        for one in self.directives.misplaced(start, end):
            headline = (
                f"{quoted(one.word)} between instructions of {quoted(kernel.name)} is not read"
            )
            self.fault(INVALID, headline, one.line, one.column, len(one.word))
        outside = self.directives.elsewhere(start, end)
        if outside is not None:
            item = self.instructions[outside]
            headline = f"{quoted(kernel.name)} goes on in another section"
            self.fault(INVALID, headline, item.line, item.column, len(item.opcode))
        return replace(kernel, start=start, end=end)


def _whole_mnemonic(word: str, modifiers: Mapping[str, str]) -> str:
    """The mnemonic with the suffix of its encoding, which may be left out where modifiers say it.

    What an instruction does to its sources depends on that.
    """
    if word.endswith(("_dpp", "_sdwa")):
        return word
    if not _LANES_MOVED.isdisjoint(modifiers):
        return f"{word}_dpp"
    return word if _PARTS_SELECTED.isdisjoint(modifiers) else f"{word}_sdwa"


def _blank(found: re.Match[str]) -> str:
    text = found.group()
    return text if text.startswith('"') else " " * len(text)


def _may_be_operand(word: str) -> bool:
    """Whether the first word of a part is no modifier, as in `v1, off` and not in `, offset:4`."""
    name, colon, _ = word.partition(":")
    return not colon or "[" in name
