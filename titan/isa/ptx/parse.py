"""Reads a whole PTX module: `parse(text, path)` gives the module, or everything wrong with it.

The text is scanned statement by statement; only the structure is read. Which forms of an
instruction have a meaning is up to the machine that executes it; an instruction whose first word
PTX does not have is a fault here, and all of them are reported at once.
"""

from __future__ import annotations

import re

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.source.span import Source
from titan.isa.ptx import declarations
from titan.isa.ptx.body import BodyReader, symbols
from titan.isa.ptx.inlined import inlined
from titan.isa.ptx.module import Function, Instruction, Module, Symbol, Variable
from titan.isa.ptx.places import PtxPlaces
from titan.isa.ptx.scanner import INVALID, TWICE, UNDECLARED, Scanner, Stop
from titan.isa.ptx.warp_matrices import expanded

_WORD = re.compile(r"\.?[A-Za-z_]\w*")
_FUNCTION = re.compile(
    r"((?:\.(?:visible|extern|weak|common)\s+)*)\.(entry|func)\b\s*"
    r"((?:\.(?:attribute|unified)\s*\([^)]*\)\s*)*)"
)
_NAME = re.compile(r"[%A-Za-z_$][\w$]*")
_PERFORMANCE = re.compile(
    r"\s*\.(maxnreg|maxntid|reqntid|minnctapersm|maxnctapersm|reqnctapercluster|maxclusterrank"
    r"|explicitcluster|noreturn|blocksareclusters|abi_preserve|abi_preserve_control|language)\b"
    r"\s*((?:\d+\s*,?\s*)*)"
)
_PRAGMA = re.compile(r'\s*\.pragma\s+("[^"\n]*"(?:\s*,\s*"[^"\n]*")*)\s*;')
_SOURCES = re.compile(
    r"\.nv_intermediate_source_section\s*\{(?:\s*\.code_block\s*\{.*?\.source_end\s*\})*\s*\}",
    re.DOTALL,
)
_LINKING = (".visible", ".extern", ".weak", ".common")
_VARIABLE = (".global", ".const", ".shared", ".tex", ".local", ".param", ".align")


def parse(text: str, path: str, *, calls: bool = False) -> tuple[Module | None, list[Diagnostic]]:
    """The module, or None and what is wrong: PTX ISA, "Syntax", "Directives".

    `calls`: those that have a function's body in their place are left as they are written.
    """
    return parse_source(Source(path, text), calls=calls)


def parse_source(source: Source, *, calls: bool = False) -> tuple[Module | None, list[Diagnostic]]:
    """As `parse`, for a source that is loaded."""
    reader: _ModuleReader | None = None
    scanner = Scanner.__new__(Scanner)
    try:
        scanner.__init__(source)  # type: ignore[misc]
        reader = _ModuleReader(scanner)
        reader.read()
    except Stop:
        pass
    if scanner.findings or reader is None:
        return None, sorted(scanner.findings, key=_place)
    module = expanded(reader.module())
    return module if calls else inlined(module), []


def _place(item: Diagnostic) -> tuple[int, int]:
    span = item.span
    return (span.start_line, span.start_column) if span is not None else (0, 0)


class _ModuleReader:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.places = PtxPlaces(scanner)
        self.version = (0, 0)
        self.target: tuple[str, ...] = ()
        self.functions: list[Function] = []
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.pragmas: list[str] = []
        self.names: set[str] = set()  # PTX declares before it uses

    def module(self) -> Module:
        return Module(
            self.scanner.source.path,
            self.version,
            self.target,
            tuple(self.functions),
            tuple(self.variables),
            tuple(self.instructions),
            tuple(self.pragmas),
        )

    def read(self) -> None:
        scanner = self.scanner
        while scanner.skip_space():
            word = _WORD.match(scanner.text, scanner.position)
            if word is None or not word.group().startswith("."):
                self._lost()
                continue
            name = word.group()
            if name in (".loc", ".file"):
                end = scanner.line_end()
                self.places.directive(scanner.text[word.start() : end], word.start())
                scanner.position = end
            elif name in (".version", ".target", ".address_size"):
                self._header(name, word.end())
            elif name == ".section":
                scanner.position = scanner.find("{", "a section")
                scanner.position = scanner.closing(scanner.position, "a section") + 1
            elif sources := _SOURCES.match(scanner.text, scanner.position):
                scanner.position = sources.end()
            elif name == ".pragma":
                found = _PRAGMA.match(scanner.text, scanner.position)
                scanner.position = scanner.find(";", "a pragma") + 1
                self.pragmas.extend(re.findall(r'"([^"]*)"', found.group(1)) if found else ())
            elif _FUNCTION.match(scanner.text, scanner.position):
                self._function()
            elif name in _LINKING or name in _VARIABLE:
                self._variable()
            elif name == ".alias":
                scanner.position = scanner.find(";", "an alias") + 1
            else:
                self._lost()
        if not scanner.findings:
            self._check()

    def _lost(self) -> None:
        """Report what is not understood, and continue after the line."""
        scanner = self.scanner
        end = max(scanner.line_end(), scanner.position + 1)
        shown = scanner.text[scanner.position : end].split(None, 1)[0]
        scanner.fault(
            INVALID,
            f"{quoted(shown)} is not allowed outside of a function",
            scanner.position,
            min(end, scanner.position + len(shown)),
        )
        scanner.position = end

    def _header(self, name: str, behind: int) -> None:
        scanner = self.scanner
        end = scanner.line_end()
        text = scanner.text[behind:end].strip()
        if name == ".version":
            found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", text)
            if found is None:
                scanner.fault(INVALID, "a version is not understood", scanner.position, behind)
            else:
                self.version = (int(found.group(1)), int(found.group(2)))
        elif name == ".target":
            self.target = tuple(piece.strip() for piece in text.split(","))
        elif text != "64":
            scanner.fault(INVALID, "only 64-bit addresses are supported", scanner.position, behind)
        scanner.position = end

    def _variable(self) -> None:
        scanner = self.scanner
        start = scanner.position
        end = scanner.find(";", "a declaration")
        scanner.position = end + 1
        line = scanner.source.position(start)[0]
        made = declarations.variables(scanner, scanner.text[start:end], start, line)
        self.variables.extend(made)
        self.names.update(variable.name for variable in made)

    # ----------------------------------------------------------------------- functions

    def _function(self) -> None:
        scanner = self.scanner
        head = _FUNCTION.match(scanner.text, scanner.position)
        assert head is not None
        start, line = scanner.position, scanner.source.position(scanner.position)[0]
        scanner.position = head.end()
        results: tuple[Variable, ...] = ()
        if scanner.skip_space() and scanner.text[scanner.position] == "(":
            results = self._parameters(line)
            scanner.skip_space()
        found = _NAME.match(scanner.text, scanner.position)
        if found is None:
            scanner.fault(INVALID, "a function without a name", start, scanner.position)
            raise Stop
        name = found.group()
        self.names.add(name)
        scanner.position = found.end()
        parameters: tuple[Variable, ...] = ()
        if scanner.skip_space() and scanner.text[scanner.position] == "(":
            parameters = self._parameters(line)
        performance = self._performance()
        if scanner.skip_space() and scanner.text[scanner.position] == ";":
            scanner.position += 1
            here = len(self.instructions)
            self.functions.append(
                Function(name, head.group(2) == "entry", parameters, results, (), (), here, here,
                         performance, line, declared=True)
            )  # fmt: skip
            return
        if scanner.position >= len(scanner.text) or scanner.text[scanner.position] != "{":
            scanner.fault(
                INVALID,
                f"the function {quoted(name)} has no body",
                found.start(),
                found.end(),
            )
            raise Stop
        scanner.position += 1
        if any(other.name == name and not other.declared for other in self.functions):
            scanner.fault(TWICE, f"{quoted(name)} is declared twice", found.start(), found.end())
        self.places.current = None
        first = len(self.instructions)
        body = BodyReader(scanner, self.places, self.instructions, self.names, parameters + results)
        body.read()
        self.functions.append(
            Function(name, head.group(2) == "entry", parameters, results, body.registers,
                     tuple(body.variables), first, len(self.instructions), performance, line)
        )  # fmt: skip

    def _parameters(self, line: int) -> tuple[Variable, ...]:
        scanner = self.scanner
        opening = scanner.position
        end = scanner.closing(opening, "a list of parameters")
        scanner.position = end + 1
        text = scanner.text[opening + 1 : end]
        return declarations.parameters(scanner, text, opening + 1, line)

    def _performance(self) -> dict[str, tuple[int, ...]]:
        scanner = self.scanner
        found: dict[str, tuple[int, ...]] = {}
        while True:
            match = _PERFORMANCE.match(scanner.text, scanner.position)
            if match is not None:
                found[match[1]] = tuple(int(n[:9]) for n in re.findall(r"\d+", match[2]))
                scanner.position = match.end()
                continue
            pragma = _PRAGMA.match(scanner.text, scanner.position)
            if pragma is None:
                return found
            scanner.position = pragma.end()

    def _check(self) -> None:
        """Every symbol that an instruction names is declared somewhere."""
        shared = {variable.name for variable in self.variables}
        shared |= {function.name for function in self.functions}
        for function in self.functions:
            own = {v.name for v in function.variables + function.parameters + function.results}
            for instruction in self.instructions[function.start : function.end]:
                for operand in instruction.operands:
                    for symbol in symbols(operand):
                        if symbol.name not in own and symbol.name not in shared:
                            self._missing(symbol, instruction)

    def _missing(self, symbol: Symbol, instruction: Instruction) -> None:
        start = self.scanner.source.line_starts[instruction.line - 1] + instruction.column - 1
        place = self.scanner.text.find(symbol.name, start)
        place = start if place < 0 else place
        self.scanner.fault(
            UNDECLARED,
            f"{quoted(symbol.name)} is not declared",
            place,
            place + len(symbol.name),
        )
