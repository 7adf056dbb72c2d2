"""Rewrites forms that only TITAN reads as YAML: `[A[t], B[t]]` and `{wait: full[s], parity: 0}`.

Statements get their options beside the verb, lists of references become one scalar, and whatever
else has brackets or commas of its own within brackets or braces is quoted. Nothing else changes:
comments, blank lines and the order of keys stay. Works on text and its located tree alone, so
that fragments and files with other faults can be rewritten; the same text comes out of its result.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.loading import load_text
from titan.foundation.source.span import Source, Span
from titan.foundation.source.tree import Mapping, MappingEntry, Node, Scalar, Sequence
from titan.foundation.source.yaml import parse
from titan.language.kernel import listing
from titan.language.kernel.table import LISTED, VERB_OF, VERBS, VERSION, ValueForm

_LISTS = frozenset(
    {verb.name for verb in VERBS if verb.object in LISTED}
    | {key.name for verb in VERBS for key in verb.options if key.form in LISTED}
)
_AMBIGUOUS = (": ", " #")  # what ends a plain scalar of a block


@dataclass(frozen=True, slots=True)
class _Edit:
    """Text that replaces the characters from `start` to `end`."""

    start: int
    end: int
    text: str


def standard_form(text: str, path: str = "<text>") -> tuple[str, list[Diagnostic]]:
    """The text in standard YAML, or unchanged with the faults that make it unreadable."""
    source, errors = load_text(text, path)
    if source is None:
        return text, errors
    root, errors = parse(source)
    if root is not None:
        errors += _unknown_version(root)
    if root is None or errors:
        return text, errors
    if isinstance(root, Mapping) and not root.nonstandard:
        return text, []
    rewriter = _Rewriter(source)
    rewriter.block(root)
    for edit in sorted(rewriter.edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text, []


def _unknown_version(root: Node) -> list[Diagnostic]:
    """A file of another version is not rewritten: what its forms mean is not known here."""
    node = root.get("titan") if isinstance(root, Mapping) else None
    if not isinstance(node, Scalar) or not node.text.isdecimal() or int(node.text) == VERSION:
        return []
    headline = f"version {int(node.text)} of the language is not known"
    helps = (f"this version of titan reads `titan: {VERSION}`",)
    return [diagnostic("TTN016", headline, node.span, helps=helps)]


class _Rewriter:
    """Collects the edits of one source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.edits: list[_Edit] = []
        self.newline = "\r\n" if "\r\n" in source.text else "\n"

    # Where and how a node is written

    def start(self, span: Span) -> int:
        return self.source.line_starts[span.start_line - 1] + span.start_column - 1

    def end(self, span: Span) -> int:
        return self.source.line_starts[span.end_line - 1] + span.end_column - 1

    def written(self, node: Node) -> str:
        return self.source.text[self.start(node.span) : self.end(node.span)]

    def is_flow(self, node: Node) -> bool:
        return not isinstance(node, Scalar) and self.written(node)[:1] in ("[", "{")

    def faults(self, node: Node) -> list[Scalar]:
        """The plain scalars of a flow collection that other YAML readers split or reject."""
        if isinstance(node, Scalar):
            bad = node.plain and any(char in node.text for char in "[]{},")
            return [node] if bad else []
        if isinstance(node, Mapping):
            return [
                bad
                for entry in node
                for part in (entry.key, entry.value)
                for bad in self.faults(part)
            ]
        return [bad for item in node for bad in self.faults(item)]

    def simple(self, node: Node) -> bool:
        """Whether a flow collection stands on one line, without anchors and aliases."""
        text = self.written(node)
        return "\n" not in text and "\r" not in text and "&" not in text and "*" not in text

    # The walk

    def block(self, node: Node) -> None:
        """A node that stands outside of brackets and braces."""
        if isinstance(node, Scalar):
            return
        if self.is_flow(node):
            self.quote(node)
        elif isinstance(node, Mapping):
            for entry in node:
                self.entry(entry)
        else:
            for item in node:
                self.item(item)

    def entry(self, entry: MappingEntry) -> None:
        """A key and its value in a block mapping."""
        value = entry.value
        if not self.is_flow(value) or not self.faults(value):
            self.block(value)
            return
        on_its_line = entry.key.span.start_line == value.span.start_line
        lines = self.lines(entry) if on_its_line and self.simple(value) else None
        if lines is None:
            self.quote(value)
            return
        self.replace(self.start(entry.key.span), value, lines, entry.key.span.start_column - 1)

    def item(self, node: Node) -> None:
        """An item of a block list: a statement in braces loses them."""
        spread = isinstance(node, Mapping) and self.is_flow(node) and self.faults(node)
        if not spread or not self.simple(node):
            self.block(node)
            return
        assert isinstance(node, Mapping)
        lines: list[str] = []
        for entry in node:
            found = self.lines(entry)
            lines += found if found is not None else [self.as_it_was(entry)]
        self.replace(self.start(node.span), node, lines, node.span.start_column - 1)

    def replace(self, start: int, last: Node, lines: list[str], indent: int) -> None:
        """Write lines for what ends with `last`; a comment behind it stays on the first one."""
        end = self.end(last.span)
        text = self.source.text
        stop = min((at for at in (text.find("\n", end), text.find("\r", end)) if at >= 0),
                   default=len(text))  # fmt: skip
        rest = text[end:stop]
        if len(lines) > 1 and rest.strip() and not rest.lstrip().startswith("#"):
            return  # something follows on the line; it is no block
        if rest.strip():
            rest = " " * max(1, end - start + len(rest) - len(rest.lstrip()) - len(lines[0]))
            rest += text[end:stop].lstrip()
        tail = "".join(f"{self.newline}{' ' * indent}{line}" for line in lines[1:])
        self.edits.append(_Edit(start, stop, lines[0] + rest + tail))

    # How entries are written in a block

    def lines(self, entry: MappingEntry) -> list[str] | None:
        """The lines of an entry in a block mapping; None where it can only be quoted."""
        key, value = entry.key.text, entry.value
        if isinstance(value, Scalar):
            plain = not any(mark in value.text for mark in _AMBIGUOUS)
            return [self.as_it_was(entry)] if plain and not self.faults(entry.key) else None
        if isinstance(value, Sequence):
            listed = self.listed(value) if key in _LISTS else None
            return [f"{key}: {listed}" if listed is not None else f"{key}: {self.quoted(value)}"]
        return self.beside(key, value) if key in VERB_OF else None

    def as_it_was(self, entry: MappingEntry) -> str:
        value = entry.value
        if isinstance(value, Scalar) and not value.text and value.plain:
            return f"{self.written(entry.key)}:"
        text = self.written(value) if isinstance(value, Scalar) else self.quoted(value)
        return f"{self.written(entry.key)}: {text}"

    def listed(self, node: Sequence) -> str | None:
        """A list of references as one scalar."""
        texts = [item.text for item in node if isinstance(item, Scalar)]
        whole = len(texts) == len(node) and all(
            text and not any(mark in text for mark in _AMBIGUOUS)
            and len(listing.pieces(text)) == 1 and text[0] not in "\"'&*!|>%@`{["
            for text in texts
        )  # fmt: skip
        return ", ".join(texts) if whole and texts else None

    def beside(self, key: str, node: Mapping) -> list[str] | None:
        """A verb with its options in braces: the options go next to it."""
        verb = VERB_OF[key]
        if verb.object is ValueForm.ASSIGNMENTS:
            return None
        options = {option.name for option in verb.options} | {"when"}
        objects: list[str] = []
        lines: list[str] = []
        for entry in node:
            value = entry.value
            if entry.key.text == verb.call and isinstance(value, Sequence | Scalar):
                called = self.listed(value) if isinstance(value, Sequence) else value.text
                if called is None:
                    return None
                objects.append(f"{verb.call}({called})")
            elif isinstance(value, Scalar) and value.is_null and entry.key.text not in options:
                objects.append(entry.key.text)
            else:
                found = self.lines(entry)
                if found is None:
                    return None
                lines += found
        if any(mark in text for text in objects for mark in _AMBIGUOUS):
            return None
        return [f"{key}: {', '.join(objects)}" if objects else f"{key}:", *lines]

    # Quoting

    def quote(self, node: Node) -> None:
        """Quote, within a flow collection, what other YAML readers split or reject."""
        for bad in self.faults(node):
            start, end = self.start(bad.span), self.end(bad.span)
            self.edits.append(_Edit(start, end, in_quotes(self.source.text[start:end])))

    def quoted(self, node: Node) -> str:
        """The text of a flow collection with that in quotes."""
        text, first = self.written(node), self.start(node.span)
        for bad in reversed(self.faults(node)):
            start, end = self.start(bad.span) - first, self.end(bad.span) - first
            text = text[:start] + in_quotes(text[start:end]) + text[end:]
        return text


def in_quotes(text: str) -> str:
    """A quoted scalar with this text."""
    if '"' in text or "\\" in text:
        return "'" + text.replace("'", "''") + "'"
    return f'"{text}"'
