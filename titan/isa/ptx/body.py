"""Reads the body of a function: scopes, labels, declarations, instructions, source locations."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace

from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.isa.ptx import declarations
from titan.isa.ptx.module import (
    Address,
    Group,
    Instruction,
    Negated,
    Operand,
    Pair,
    PtxTarget,
    RegisterDeclaration,
    Symbol,
    Targets,
    Variable,
    Vector,
)
from titan.isa.ptx.opcodes import OPCODES, TYPE_BYTES
from titan.isa.ptx.operands import OperandReader
from titan.isa.ptx.places import PtxPlaces
from titan.isa.ptx.scanner import INVALID, TWICE, UNDECLARED, UNKNOWN, Scanner, split_at_commas
from titan.isa.ptx.scopes import Scopes

_LEAVING = ("ret", "exit", "trap", "bra", "brx")  # do not continue to the next instruction
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_TABLE = re.compile(r"\s*\.(branchtargets|calltargets|callprototype)\b")
_GUARD = re.compile(r"@\s*(!?)\s*([%A-Za-z_$][\w$]*)\s*")
_HEAD = re.compile(r"([A-Za-z_]\w*)((?:\.[\w:]+)*)(?=[\s({\[!%;]|$)\s*")
_FAMILY = re.compile(r"([%A-Za-z_$][\w$]*)\s*(?:<\s*(\d+)\s*>)?")
SCOPES_MAX = 64


class BodyReader:
    """Reads one body; `instructions` of the module grow."""

    def __init__(
        self,
        scanner: Scanner,
        places: PtxPlaces,
        instructions: list[Instruction],
        names: set[str],
        parameters: tuple[Variable, ...],
    ) -> None:
        self.scanner = scanner
        self.places = places
        self.instructions = instructions
        self.scopes = Scopes()
        self.operands = OperandReader(scanner, self.scopes, names)
        self.variables: list[Variable] = []
        self.targets: dict[int, int] = {}
        self.tables: dict[int, tuple[int, ...]] = {}
        self.scopes.top.variables.update((item.name, item.name) for item in parameters)
        self.heads: dict[str, tuple[str, ...]] = {}
        self.first = len(instructions)

    @property
    def registers(self) -> tuple[RegisterDeclaration, ...]:
        """All registers declared so far, family members only once used; indexed by number."""
        return tuple(self.scopes.registers)

    def read(self) -> None:
        """From after the opening brace to after the closing one. Raises Stop."""
        scanner = self.scanner
        while scanner.skip_space():
            here = scanner.text[scanner.position]
            if here == "{":
                if len(self.scopes.stack) >= SCOPES_MAX:
                    scanner.find("\0", "the nesting of braces")
                self.scopes.stack.append(type(self.scopes.top)())
                self.operands.forget()
                scanner.position += 1
            elif here == "}":
                scanner.position += 1
                self._close()
                if not self.scopes.stack:
                    self._return(scanner.position - 1)
                    self._resolve()
                    return
            elif here == ".":
                self._directive()
            elif label := _LABEL.match(scanner.text, scanner.position):
                self._label(label)
            else:
                self._statement()
        scanner.find("}", "the body of a function")

    def _return(self, close: int) -> None:
        """The end of the body returns, where it can be reached: the `ret` that is not written."""
        end = len(self.instructions)
        aims = {*self.targets.values(), *(at for row in self.tables.values() for at in row)}
        last = self.instructions[-1] if end > self.first else None
        if end not in aims and last is not None and last.guard < 0 and last.opcode in _LEAVING:
            return
        starts = self.scanner.source.line_starts
        line = bisect_right(starts, close)
        column = close - starts[line - 1] + 1
        self.instructions.append(
            Instruction("ret", (), (), -1, False, line, column, self.places.current)
        )

    # -------------------------------------------------------------------------- labels

    def _label(self, label: re.Match[str]) -> None:
        name, start = label.group(1), label.start(1)
        self.scanner.position = label.end()
        table = _TABLE.match(self.scanner.text, label.end())
        scope = self.scopes.top
        if name in scope.labels or name in scope.tables:
            self.scanner.fault(
                TWICE, f"the label {quoted(name)} is defined twice", start, label.end(1)
            )
        if table is None:
            scope.labels[name] = len(self.instructions)
            return
        end = self.scanner.find(";", "a table of targets")
        listed = self.scanner.text[table.end() : end]
        if table.group(1) == "branchtargets":
            scope.tables[name] = tuple(piece for _, piece in split_at_commas(listed))
            for at, piece in split_at_commas(listed):
                scope.uses.append((piece, table.end() + at, 0))
        else:
            scope.tables[name] = ()
        self.scanner.position = end + 1

    def _close(self) -> None:
        """Resolve the labels of the innermost scope; what is not found is asked of the outer."""
        scope = self.scopes.stack.pop()
        outer = self.scopes.stack[-1] if self.scopes.stack else None
        for name, start, hole in scope.uses:
            if name in scope.labels:
                self.targets[hole] = scope.labels[name]
            elif name in scope.tables:
                self.tables[hole] = tuple(
                    scope.labels.get(target, -1) for target in scope.tables[name]
                )
            elif outer is not None:
                outer.uses.append((name, start, hole))
            else:
                help_ = "".join(suggestion(name, list(scope.labels)[:400]))
                self.scanner.fault(
                    UNDECLARED, f"{quoted(name)} is not declared", start, start + len(name), help_
                )
        self.operands.forget()

    def _resolve(self) -> None:
        """Fill the targets into the instructions of this function."""
        if not self.targets and not self.tables:
            return
        for index in range(self.first, len(self.instructions)):
            instruction = self.instructions[index]
            if any(_has_target(operand) for operand in instruction.operands):
                operands = tuple(self._filled(operand) for operand in instruction.operands)
                self.instructions[index] = replace(instruction, operands=operands)

    def _filled(self, operand: Operand) -> Operand:
        if isinstance(operand, PtxTarget):
            hole = -operand.instruction
            if hole in self.tables:
                return Targets(self.tables[hole])
            return PtxTarget(self.targets.get(hole, self.first))
        if isinstance(operand, Group):
            return Group(tuple(self._filled(item) for item in operand.items))
        return operand

    # ---------------------------------------------------------------------- directives

    def _directive(self) -> None:
        scanner = self.scanner
        word = re.compile(r"\.\w*").match(scanner.text, scanner.position)
        assert word is not None
        name, start = word.group(), scanner.position
        if name in (".loc", ".file"):
            end = scanner.line_end()
            self.places.directive(scanner.text[start:end], start)
            scanner.position = end
            return
        if name == ".loc_intermediate":  # a place in the text that the compiler made on the way
            scanner.position = scanner.line_end()
            return
        if name == ".section":
            scanner.position = scanner.find("{", "a section")
            scanner.position = scanner.closing(scanner.position, "a section") + 1
            return
        end = scanner.find(";", "a declaration")
        scanner.position = end + 1
        text = scanner.text[start:end]
        if name == ".reg":
            self._registers(text[4:], start + 4)
        elif name == ".pragma":
            pass
        elif name in (".branchtargets", ".calltargets", ".callprototype"):
            scanner.fault(INVALID, f"{quoted(name)} needs a label", start, start + len(name))
        else:
            line = scanner.source.position(start)[0]
            made = declarations.variables(scanner, text, start, line)
            for variable in made:
                own = self.scopes.declare_variable(variable, self.variables)
                if all(own.name != other.name for other in self.variables):
                    self.variables.append(own)
            self.operands.forget()

    def _registers(self, text: str, start: int) -> None:
        match = re.match(r"\s*(?:\.v([248])\s*)?\.(\w+)\s*", text)
        if match is None or match.group(2) not in TYPE_BYTES:
            self.scanner.fault(INVALID, "a type of registers is missing", start, start + 1)
            return
        width, type_ = int(match.group(1) or 1), match.group(2)
        for at, piece in split_at_commas(text[match.end() :]):
            place = start + match.end() + at
            family = _FAMILY.fullmatch(piece)
            if family is None:
                self.scanner.fault(
                    INVALID, f"{quoted(piece)} is not a register", place, place + max(1, len(piece))
                )
            elif family.group(2) is None:
                if not self.scopes.declare(piece, type_, width):
                    self.scanner.fault(
                        TWICE, f"{quoted(piece)} is declared twice", place, place + len(piece)
                    )
            elif len(family.group(2)) > 9 or not self.scopes.declare_family(
                family.group(1), type_, int(family.group(2)), width
            ):
                self.scanner.fault(
                    TWICE,
                    f"{quoted(piece)} is declared twice or too large",
                    place,
                    place + len(piece),
                )
        self.operands.forget()

    # -------------------------------------------------------------------- instructions

    def _statement(self) -> None:
        scanner = self.scanner
        start = scanner.position
        end = scanner.find(";", "a statement")
        scanner.position = end + 1
        text = scanner.text[start:end].rstrip()
        if text.count("{") != text.count("}"):
            # Vectors may be in braces and span several lines; anything else has lost a `;`.
            scanner.fault(INVALID, "a statement does not end", start, _line_end(text, start))
            scanner.position = _line_end(text, start)
            return
        if not text:
            return
        guard, negated, place = -1, False, start
        if text[0] == "@":
            found = _GUARD.match(text)
            if found is None:
                scanner.fault(INVALID, "a guard is not understood", start, start + 1)
                return
            number = self.scopes.register(found.group(2))
            if number is None:
                at = start + found.start(2)
                scanner.fault(
                    UNDECLARED, f"{quoted(found.group(2))} is not declared", at, start + found.end()
                )
                return
            guard, negated = number, bool(found.group(1))
            place, text = start + found.end(), text[found.end() :]
        head = _HEAD.match(text)
        if head is None:
            scanner.fault(INVALID, "a statement is not understood", start, _line_end(text, start))
            return
        opcode = head.group(1)
        if opcode not in OPCODES:
            help_ = "".join(suggestion(opcode, OPCODES))
            scanner.fault(
                UNKNOWN,
                f"unknown instruction {quoted(head.group().strip())}",
                place,
                place + len(head.group().rstrip()),
                help_,
            )
            return
        modifiers = self.heads.get(head.group(2))
        if modifiers is None:
            modifiers = tuple(head.group(2).split(".")[1:])
            self.heads[head.group(2)] = modifiers
        rest, begin = text[head.end() :], place + head.end()
        operands = tuple(
            [self.operands.read(piece, begin + at) for at, piece in split_at_commas(rest)]
        )
        starts = scanner.source.line_starts
        line = bisect_right(starts, start)
        self.instructions.append(
            Instruction(
                opcode,
                modifiers,
                operands,
                guard,
                negated,
                line,
                start - starts[line - 1] + 1,
                self.places.current,
            )
        )


def _line_end(text: str, start: int) -> int:
    return start + max(1, len(text.split("\n", 1)[0]))


def _has_target(operand: Operand) -> bool:
    if isinstance(operand, Group):
        return any(_has_target(item) for item in operand.items)
    return isinstance(operand, PtxTarget)


def symbols(operand: Operand) -> list[Symbol]:
    """The symbols that an operand names."""
    if isinstance(operand, Symbol):
        return [operand]
    if isinstance(operand, Address):
        return [operand.base] if isinstance(operand.base, Symbol) else []
    if isinstance(operand, Vector | Group):
        return [symbol for item in operand.items for symbol in symbols(item)]
    if isinstance(operand, Pair):
        return symbols(operand.first) + symbols(operand.second)
    if isinstance(operand, Negated):
        return symbols(operand.operand)
    return []
