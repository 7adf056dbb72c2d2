"""Reads the simple part of YAML that kernels and TITAN's own data are written in, in one pass.

Block mappings and lists by indentation, `{...}` and `[...]` on one line, plain scalars on one line,
quoted ones without escapes, blocks of text without blank lines, comments. Anything else, and any
fault, is left to the full parser: `read` then gives None. It never reports, so that there is one
place that words faults.

Why a second reader: the full one takes a third of the processor time of a short command. What this
one reads, the full one reads alike, spans included: `tests/foundation/source/test_simple_yaml.py`
compares them on every file of the project and on mutants of those.
"""

from __future__ import annotations

import re

from titan.foundation.errors import TitanError
from titan.foundation.source import indexed
from titan.foundation.source.span import Source, Span
from titan.foundation.source.tree import Mapping, MappingEntry, Node, Scalar, Sequence

_LEFT_OUT = re.compile("[\t\r\x85\u2028\u2029\ufeff]")
_KEY = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*):(?= |$)")
_LONE_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?= *[,}])")
_QUOTED = re.compile(r'"([^"\\]*)"|\'([^\']*)\'')
_REST = re.compile(r" *$| +#.*$")
_START = r"(?:[A-Za-z0-9_.(/~$\ue000-\uf8ff]|-(?=[A-Za-z0-9_.(]))"
_PLAIN = re.compile(_START + r"(?:[^ :#]|:(?=[^ ])|(?<=[^ ])#| +(?=[^ #]))*")
_FLOW_PLAIN = re.compile(_START + r"(?:[^ :#,\[\]{}]| +(?=[^ :#,\[\]{}]))*")
_SPACES = re.compile(" *")


class _NotSimpleError(TitanError):
    """The full parser has to read this."""


def read(source: Source, nodes_max: int, depth_max: int) -> Mapping | Sequence | None:
    """The located tree; None where the text is not simple."""
    text = indexed.hide(source.text)
    if _LEFT_OUT.search(text) is not None:
        return None
    reader = _SimpleReader(source, text.split("\n"))
    try:
        root = reader.document()
    except _NotSimpleError:
        return None
    return root if root.size <= nodes_max and root.depth <= depth_max else None


class _SimpleReader:
    """The lines that hold something, and how far they are read."""

    def __init__(self, source: Source, lines: list[str]) -> None:
        self.source = source
        self.lines = lines
        self.number = 0  # of the line that is read, from 0
        self.nonstandard: list[Span] = []

    def document(self) -> Mapping | Sequence:
        """The only document of the text."""
        self.skip()
        if self.number >= len(self.lines):
            raise _NotSimpleError
        root = self.block(self.indent(), 0)
        if self.number < len(self.lines):
            raise _NotSimpleError
        if isinstance(root, Mapping) and self.nonstandard:
            nonstandard = tuple(self.nonstandard)
            return Mapping(root.entries, root.span, root.size, root.depth, nonstandard)
        return root

    def skip(self) -> None:
        """Go to the next line that holds more than a comment."""
        while self.number < len(self.lines):
            text = self.lines[self.number].lstrip(" ")
            if text and text[0] != "#":
                return
            self.number += 1

    def indent(self) -> int:
        """How far the line is indented; -1 behind the last one."""
        if self.number >= len(self.lines):
            return -1
        line = self.lines[self.number]
        return len(line) - len(line.lstrip(" "))

    def span(self, start: int, end: int) -> Span:
        """Columns of the line, from 0."""
        line = self.number + 1
        return Span(self.source.path, line, start + 1, line, end + 1, self.source)

    # --------------------------------------------------------------------- indented blocks

    def block(self, column: int, depth: int) -> Mapping | Sequence:
        """The mapping or list that begins in this column of the line."""
        if depth > 60:
            raise _NotSimpleError
        line = self.lines[self.number]
        if line.startswith("- ", column):
            return self.block_list(column, depth)
        return self.block_mapping(column, depth)

    def block_list(self, column: int, depth: int) -> Sequence:
        start = self.span(column, column + 1)
        items: list[Node] = []
        while True:
            line = self.lines[self.number]
            if not line.startswith("- ", column):
                raise _NotSimpleError
            content = _after_spaces(line, column + 1)
            if line.startswith("- ", content) or _KEY.match(line, content) is not None:
                items.append(self.block(content, depth + 1))
            else:
                items.append(self.on_line(content))
                self.end_of_entry(column)
            if self.indent() != column or not self.lines[self.number].startswith("- ", column):
                break
        if self.indent() > column:
            raise _NotSimpleError
        return Sequence(tuple(items), start.to(items[-1].span), *_measure(items))

    def block_mapping(self, column: int, depth: int) -> Mapping:
        entries: list[MappingEntry] = []
        names: set[str] = set()
        while True:
            line = self.lines[self.number]
            found = _KEY.match(line, column)
            if found is None or found[1] in names:
                raise _NotSimpleError
            names.add(found[1])
            key = Scalar(found[1], self.span(column, found.end(1)))
            if line.endswith((" >", " |"), found.end()):
                value: Node = self.text(column, line[-1] == ">")
            elif _REST.match(line, found.end()) is None:
                value = self.on_line(_after_spaces(line, found.end()))
                self.end_of_entry(column)
            else:
                value = self.below(column, depth)
            entries.append(MappingEntry(key, value))
            if self.indent() != column:
                break
        if self.indent() > column:
            raise _NotSimpleError
        parts = [part for entry in entries for part in (entry.key, entry.value)]
        span = entries[0].key.span.to(entries[-1].value.span)
        return Mapping(tuple(entries), span, *_measure(parts))

    def below(self, column: int, depth: int) -> Mapping | Sequence:
        """The value of a key that stands on the lines below it."""
        self.number += 1
        self.skip()
        indent = self.indent()
        if indent < column:
            raise _NotSimpleError
        if indent == column and not self.lines[self.number].startswith("- ", indent):
            raise _NotSimpleError
        return self.block(indent, depth + 1)

    def text(self, column: int, folded: bool) -> Scalar:
        """A block of text below a key, all lines indented alike."""
        line = self.lines[self.number]
        first = self.number + 1
        if len(line) - 1 != _after_spaces(line, line.index(":", column) + 1):
            raise _NotSimpleError
        self.number = first
        indent = self.indent()
        if indent <= column:
            raise _NotSimpleError
        while self.indent() == indent and self.lines[self.number]:
            self.number += 1
        found = [item[indent:] for item in self.lines[first : self.number]]
        behind = self.lines[self.number : self.number + 1]
        blank = any(not item or item.endswith(" ") for item in found)
        if blank or not behind or self.indent() > column:
            raise _NotSimpleError
        if not behind[0] and self.number + 1 < len(self.lines):
            raise _NotSimpleError
        if behind[0] and behind[0][self.indent() :][:1] in ("", "#"):
            raise _NotSimpleError
        start, end = self.source.line_starts[first - 1] + len(line) - 1, self.number
        text = (" " if folded else "\n").join(found) + "\n"
        self.skip()
        span = self.source.span(start, self.source.line_starts[end])
        return Scalar(indexed.show(text), span, False)

    def end_of_entry(self, column: int) -> None:
        """Go to the next line; one that continues what stands on this one is not simple."""
        self.number += 1
        self.skip()
        if self.indent() > column:
            raise _NotSimpleError

    # ------------------------------------------------------------------------- on one line

    def on_line(self, column: int) -> Node:
        """The value that begins in this column and ends with the line."""
        line = self.lines[self.number]
        if line.startswith(("[", "{"), column):
            node, end = self.flow(column, 0)
        elif line.startswith(('"', "'"), column):
            node, end = self.quoted(column)
        else:
            found = _PLAIN.match(line, column)
            if found is None:
                raise _NotSimpleError
            end = found.end()
            node = Scalar(indexed.show(found[0]), self.span(column, end))
        if _REST.match(line, end) is None:
            raise _NotSimpleError
        return node

    def quoted(self, column: int) -> tuple[Scalar, int]:
        found = _QUOTED.match(self.lines[self.number], column)
        if found is None:
            raise _NotSimpleError
        text = found[1] if found[1] is not None else found[2]
        return Scalar(indexed.show(text), self.span(column, found.end()), False), found.end()

    def flow(self, column: int, depth: int) -> tuple[Node, int]:
        """A value in brackets or braces, and the column behind it."""
        line = self.lines[self.number]
        opening = line[column : column + 1]
        if opening in ("[", "{"):
            if depth > 20:
                raise _NotSimpleError
            return self.collection(column, depth, opening == "{")
        if opening in ('"', "'"):
            return self.quoted(column)
        found = _FLOW_PLAIN.match(line, column)
        if found is None:
            raise _NotSimpleError
        node = Scalar(indexed.show(found[0]), self.span(column, found.end()))
        if node.text != found[0]:
            self.nonstandard.append(node.span)
        return node, found.end()

    def collection(self, column: int, depth: int, braces: bool) -> tuple[Node, int]:
        line, closing = self.lines[self.number], "}" if braces else "]"
        items: list[Node] = []
        entries: list[MappingEntry] = []
        names: set[str] = set()
        at = _after_spaces(line, column + 1)
        while not line.startswith(closing, at):
            if braces:
                found = _KEY.match(line, at)
                alone = _LONE_KEY.match(line, at) if found is None else None
                name = found or alone
                if name is None or name[1] in names:
                    raise _NotSimpleError
                names.add(name[1])
                key = Scalar(name[1], self.span(at, name.end(1)))
                if found is not None:
                    value, at = self.flow(_after_spaces(line, found.end()), depth + 1)
                else:
                    at = _after_spaces(line, name.end())  # where ruamel.yaml puts it
                    value = Scalar("", self.span(at, at))
                entries.append(MappingEntry(key, value))
                items += (key, value)
            else:
                value, at = self.flow(at, depth + 1)
                items.append(value)
            at = _after_spaces(line, at)
            if line.startswith(",", at):
                at = _after_spaces(line, at + 1)
            elif not line.startswith(closing, at):
                raise _NotSimpleError
        span = self.span(column, at + 1)
        if braces:
            return Mapping(tuple(entries), span, *_measure(items)), at + 1
        return Sequence(tuple(items), span, *_measure(items)), at + 1


def _measure(parts: list[Node]) -> tuple[int, int]:
    """Size and depth of a collection of these."""
    size = 1 + sum(part.size for part in parts)
    return size, max((part.depth + 1 for part in parts), default=1)


def _after_spaces(line: str, column: int) -> int:
    found = _SPACES.match(line, column)
    end = found.end() if found is not None else column
    if end >= len(line) or line[end] == "#":
        raise _NotSimpleError
    return end
