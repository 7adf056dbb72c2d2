"""Reads the text of TTGIR: functions, operations, regions, attributes and locations.

Only the form that Triton prints is read: one operation a line, regions in braces at the end of a
line. What an operation means is not examined here, so operations that nobody knows are read like
others. Between functions there are modules, names of layouts and locations, and comments; anything
else there is a fault, so that no function is passed over. Faults are located, and all functions
without a fault are still read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.errors import TitanError
from titan.foundation.source.span import Source, Span
from titan.frontends.ttgir.control_flow import UnstructuredError, structured
from titan.frontends.ttgir.model import Block, TtgirFunction, TtgirModule, TtgirOperation

DEPTH_MAX = 64
RESULTS_MAX = 1024
FAULTS_MAX = 20
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULTS = re.compile(r"\s*((?:%[\w$.-]+(?::\d+)?)(?:\s*,\s*%[\w$.-]+(?::\d+)?)*)\s*=\s*")
_NAME = re.compile(r'\s*(?:"([\w.]+)"|([A-Za-z_][\w$]*(?:\.[\w$]+)+))')
_LOCATION = re.compile(r"\s*loc\(")
_ALIAS = re.compile(r"^(#loc\w*)\s*=\s*loc\((.*)\)\s*$")
_LAYOUT = re.compile(r"^(#\w+)\s*=\s*(#tt\w+\..*)$")
_PLACE = re.compile(r'"([^"]+)":(\d+):\d+')
_FUNCTION = re.compile(r"\s*tt\.func\s+(\w+\s+)?@([\w$.-]+|\"[^\"]+\")\s*\(")
_MODULE = re.compile(r"\s*module\b.*\{\s*$")
_MODULE_END = re.compile(r"\s*\}\s*(?:loc\(.*\))?\s*$")
_BETWEEN = re.compile(r"\s*(?://|#\w+\s*=|$)")
_PARTITION = re.compile(r"\s*(partition\d+)\s*\(")
_LABEL = re.compile(r"\s*\^\w+\s*(?:\((.*)\))?\s*:\s*$")
_WARPS = re.compile(r"num_warps\((\d+)\)")
_ATTRIBUTE = re.compile(r'\s*("[^"]+"|[\w.-]+)\s*(?:=\s*)?')
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}


class _Fault(TitanError):
    """What is wrong, and in which columns of the line."""

    def __init__(self, line: int, text: str, column: int = 0) -> None:
        super().__init__(text)
        self.line, self.column = line, column


@dataclass(slots=True)
class _Reader:
    source: Source
    lines: list[str]
    places: dict[str, str]
    number: int = 0
    at: int = 0
    errors: list[Diagnostic] = field(default_factory=list)

    def span(self, line: int, start: int = 0) -> Span:
        text = self.lines[line] if line < len(self.lines) else ""
        start = max(start, len(text) - len(text.lstrip()))
        return Span(
            self.source.path, line + 1, start + 1, line + 1, len(text.rstrip()) + 1, self.source
        )


def parse_ttgir(source: Source) -> tuple[TtgirModule | None, list[Diagnostic]]:
    """The module that a text holds, or what is wrong with it."""
    lines = source.text.split("\n")
    reader = _Reader(source, [line.rstrip("\r") for line in lines], {})
    aliases = {}
    for line in reader.lines:
        found = _ALIAS.match(line)
        if found is not None:
            aliases[found[1]] = found[2]
    reader.places = {name: _resolved(name, aliases) for name in aliases}
    module = TtgirModule()
    try:
        _module(reader, module)
    except _Fault as fault:
        _report(reader, fault)
    if not module.functions and not reader.errors:
        headline = "the file holds no tt.func"
        reader.errors.append(diagnostic("TTN007", headline, reader.span(0)))
    return (None, reader.errors) if reader.errors else (module, [])


def _report(reader: _Reader, fault: _Fault) -> None:
    if len(reader.errors) < FAULTS_MAX:
        line = min(fault.line, max(0, len(reader.lines) - 1))
        item = diagnostic("TTN001", str(fault), reader.span(line, fault.column))
        reader.errors.append(item)


def _resolved(name: str, aliases: dict[str, str], depth: int = 0) -> str:
    """`file.py:12` of a location by name, through names and calls."""
    text = aliases.get(name, "")
    found = _PLACE.search(text)
    if found is not None:
        return f"{found[1].rsplit('/', 1)[-1]}:{found[2]}"
    inner = re.search(r"#loc\w*", text)
    if inner is None or depth > 8:
        return ""
    return _resolved(inner[0], aliases, depth + 1)


def _module(reader: _Reader, module: TtgirModule) -> None:
    opened: list[int] = []
    while reader.at < len(reader.lines):
        line = reader.lines[reader.at]
        found = _FUNCTION.match(line)
        if found is not None:
            module.functions.append(_function(reader, found))
            continue
        layout = _LAYOUT.match(line)
        if layout is not None:
            module.layouts[layout[1]] = layout[2]
        elif _MODULE.match(line) is not None:
            _attributes_of(line, reader.at, module)
            opened.append(reader.at)
        elif opened and _MODULE_END.match(line) is not None:
            opened.pop()
        elif _BETWEEN.match(line) is None:
            raise _Fault(reader.at, "this stands in no function, and is no module, name or comment")
        reader.at += 1
    if opened:
        raise _Fault(opened[-1], "the module is not closed")


def _attributes_of(line: str, number: int, module: TtgirModule) -> None:
    start = line.find("{")
    if "attributes" in line:
        end = _closing(line, start, number)
        module.attributes = _attributes(line[start + 1 : end], number)


def _function(reader: _Reader, found: re.Match[str]) -> TtgirFunction:
    line, start = reader.lines[reader.at], found.end() - 1
    span = reader.span(reader.at)
    end = _closing(line, start, reader.at)
    arguments = _arguments(line[start + 1 : end])
    if not _without_location(line).rstrip().endswith("{"):
        raise _Fault(reader.at, "a function has a body in braces", start)
    reader.at += 1
    blocks = [Block("function")]
    _block(reader, blocks[0], 0)
    while _label_at(reader) is not None:
        name = reader.lines[reader.at].split("^", 1)[1].split(":")[0].split("(")[0].strip()
        blocks.append(Block(name))
        _block(reader, blocks[-1], 0)
    reader.at += 1
    try:
        body = structured(blocks)
    except UnstructuredError as reason:
        raise _Fault(reason.operation.span.start_line - 1, str(reason)) from None
    return TtgirFunction(found[2].strip('"'), span, arguments, body)


def _label_at(reader: _Reader) -> re.Match[str] | None:
    """The label of a block where the reader is."""
    return _LABEL.match(_without_location(reader.lines[reader.at].partition("//")[0]))


def _arguments(text: str) -> list[tuple[str, str]]:
    """`%a: type {attributes} loc(..), ...` as names and types.

    Triton's compiler of launches adds attributes (`tt.divisibility`); compiling by hand does not.
    """
    found = []
    for part in _split(text):
        name, _, type_text = part.partition(":")
        if name.strip().startswith("%"):
            plain = _without_location(type_text).partition(" {")[0]
            found.append((name.strip(), plain.strip()))
    return found


def _split(text: str) -> list[str]:
    """The parts between the commas that stand in no brackets."""
    parts, depth, start, quoted_text = [], 0, 0, False
    for at, character in enumerate(text):
        if character == '"':
            quoted_text = not quoted_text
        elif quoted_text:
            continue
        elif character in "([{<":
            depth += 1
        elif character in ")]}" or (character == ">" and text[at - 1 : at] != "-"):
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    tail = text[start:]
    return [*parts, tail] if tail.strip() else parts


def _closing(text: str, start: int, line: int) -> int:
    """The place of the bracket that closes the one at `start`."""
    depth, quoted_text = 0, False
    for at in range(start, len(text)):
        character = text[at]
        if character == '"':
            quoted_text = not quoted_text
        elif quoted_text:
            continue
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                if character != _PAIRS[text[start]]:
                    break
                return at
    raise _Fault(line, f"{quoted(text[start])} is not closed in its line", start)


def _without_location(text: str) -> str:
    """The text without the location at its end."""
    stripped = text.rstrip()
    brace = ""
    if stripped.endswith("{"):
        stripped, brace = stripped[:-1].rstrip(), "{"
    at = _location_start(stripped)
    return (stripped if at is None else stripped[:at]) + brace


def _location_start(text: str) -> int | None:
    """Where a location at the end of a text begins."""
    at = text.rfind(" loc(")
    if at < 0:
        return None
    rest = text[at + 5 :]
    # A location inside of another is closed twice; the outer one begins before it.
    while rest.count(")") - rest.count("(") > 1:
        at = text.rfind(" loc(", 0, at)
        if at < 0:
            return None
        rest = text[at + 5 :]
    return at if text.endswith(")") else None


def _block(reader: _Reader, block: Block, depth: int) -> None:
    """Operations up to the line that begins with a closing brace, which is left to be read.

    Those of a function end at the label of its next block, too.
    """
    if depth > DEPTH_MAX:
        raise _Fault(reader.at, f"regions are nested deeper than {DEPTH_MAX}")
    while reader.at < len(reader.lines):
        text = reader.lines[reader.at].strip()
        if text.startswith("}"):
            return
        label = _label_at(reader)
        if label is not None and block.operations and depth == 0:
            return  # another block of the function
        if label is not None:
            block.arguments = _arguments(label[1] or "")
            reader.at += 1
        elif not text or text.startswith("//"):
            reader.at += 1
        else:
            try:
                block.operations.append(_operation(reader, depth))
            except _Fault as fault:
                _report(reader, fault)
                if len(reader.errors) >= FAULTS_MAX:
                    raise
                reader.at = max(reader.at, fault.line + 1)
    raise _Fault(len(reader.lines) - 1, "the text ends inside of a region")


def _operation(reader: _Reader, depth: int) -> TtgirOperation:
    line_number = reader.at
    raw = reader.lines[line_number]
    source = _source_of(reader, raw)
    line = _without_location(raw)
    results: list[str] = []
    at = 0
    found = _RESULTS.match(line)
    if found is not None:
        at = found.end()
        for part in found[1].split(","):
            name, _, count = part.strip().partition(":")
            if count and (len(count) > 4 or int(count) > RESULTS_MAX):
                raise _Fault(line_number, f"an operation has more than {RESULTS_MAX} results")
            results += [f"{name}#{n}" for n in range(int(count))] if count else [name]
    named = _NAME.match(line, at)
    if named is None:
        word = line[at:].strip().split(" ")[0]
        raise _Fault(line_number, f"{quoted(word[:40])} does not begin an operation", at)
    operation = TtgirOperation(
        named[1] or named[2], reader.number, reader.span(line_number), tuple(results),
        source=source,
    )  # fmt: skip
    reader.number += 1
    rest = line[named.end() :]
    opens = rest.rstrip().endswith("{")
    _header(operation, rest[: rest.rstrip().rfind("{")] if opens else rest, line_number)
    reader.at += 1
    if opens:
        _regions(reader, operation, depth)
    elif operation.name == "ttg.warp_specialize":
        _partitions(reader, operation, depth)
    return operation


def _source_of(reader: _Reader, raw: str) -> str:
    at = _location_start(raw.rstrip())
    if at is None:
        return ""
    text = raw[at:]
    alias = re.search(r"#loc\w*", text)
    if alias is not None:
        return reader.places.get(alias[0], "")
    found = _PLACE.search(text)
    return f"{found[1].rsplit('/', 1)[-1]}:{found[2]}" if found is not None else ""


def _header(operation: TtgirOperation, text: str, line: int) -> None:
    """Operands, attributes and types of the text behind the name of an operation."""
    plain: list[str] = []
    at, depth = 0, 0
    while at < len(text):
        character = text[at]
        if character == '"':  # a text, such as assembly, in which nothing is a name or a bracket
            end = text.find('"', at + 1)
            at = len(text) if end < 0 else end + 1
            continue
        if character == "{" or text.startswith("<{", at):
            start = at + (character == "<")
            end = _closing(text, start, line)
            operation.attributes |= _attributes(text[start + 1 : end], line)
            at = end + 1 + (character == "<")
            continue
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == ":" and depth == 0:
            operation.types = text[at + 1 :].strip()
            break
        plain.append(character)
        at += 1
    operation.header = "".join(plain).strip()
    cut = operation.header.find("attributes")
    header = operation.header if cut < 0 else operation.header[:cut]
    operation.operands = tuple(_VALUE.findall(header))


def _attributes(text: str, line: int) -> dict[str, str]:
    """`a = 1 : i32, b, "c.d" = [..]` by name."""
    found: dict[str, str] = {}
    for part in _split(text):
        name = _ATTRIBUTE.match(part)
        if name is None:
            raise _Fault(line, f"{quoted(part.strip()[:40])} is not an attribute")
        found[name[1].strip('"')] = part[name.end() :].strip()
    return found


def _regions(reader: _Reader, operation: TtgirOperation, depth: int) -> None:
    """Region after region: `{ ... } else { ... } {attributes}`."""
    block = Block(operation.name)
    while True:
        opened = reader.at
        _block(reader, block, depth + 1)
        operation.regions.append(block)
        if reader.at >= len(reader.lines):
            raise _Fault(opened, "a region is not closed")
        text = _without_location(reader.lines[reader.at]).strip()
        reader.at += 1
        rest = text[1:].strip()
        if rest.endswith("{") and not rest.startswith("{"):
            word = rest[:-1].strip()
            block = Block(word)
            continue
        rest = rest.lstrip(")").strip()
        if rest.startswith("{"):
            end = _closing(rest, 0, reader.at - 1)
            operation.attributes |= _attributes(rest[1:end], reader.at - 1)
            rest = rest[end + 1 :].strip()
        if rest.startswith(":"):
            operation.types = rest[1:].strip()
        return


def _partitions(reader: _Reader, operation: TtgirOperation, depth: int) -> None:
    """`default { ... }` and `partitionN(...) num_warps(n) { ... }` behind a ttg.warp_specialize."""
    while reader.at < len(reader.lines):
        line = reader.lines[reader.at]
        found = _PARTITION.match(line)
        if found is None and not line.strip().startswith("default"):
            return
        opened = reader.at
        block = Block("default")
        if found is not None:
            end = _closing(line, found.end() - 1, reader.at)
            warps = _WARPS.search(line, end)
            block = Block(found[1], _arguments(line[found.end() : end]))
            block.warps = int(warps[1]) if warps is not None else 0
        if not line.rstrip().endswith("{"):
            raise _Fault(reader.at, "a partition has a body in braces")
        reader.at += 1
        _block(reader, block, depth + 1)
        if reader.at >= len(reader.lines):
            raise _Fault(opened, "a region is not closed")
        operation.regions.append(block)
        reader.at += 1
