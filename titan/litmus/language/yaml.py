"""Reads litmus tests from YAML: the same test, with the program as lists of instructions.

    litmus: MP
    comment: message passing
    locations:
      - x = 0
      - shared tile = 0 @ cta 0
    threads:
      - {name: P0, at: "cta 0,gpu 0", code: [st.weak x, 1, st.release.gpu flag, 1]}
    filter: P1:r0 = 1
    exists: P1:r1 = 0

Locations, instructions and conditions are spelled as in the text format, so that the two formats
cannot drift apart: the YAML is laid out as text and read by the same reader. Faults are reported
at the YAML value that they come from.
"""

from __future__ import annotations

from titan.foundation.source.span import Span
from titan.foundation.source.tree import Mapping, Node, Scalar, Sequence
from titan.foundation.source.yaml import parse_text
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.condition import LitmusError
from titan.litmus.language.text import read_litmus

QUANTIFIERS = {"exists": "exists", "not_exists": "~exists", "forall": "forall"}
_KEYS = (
    "litmus",
    "dialect",
    "comment",
    "locations",
    "registers",
    "threads",
    "filter",
    *QUANTIFIERS,
)


def read_litmus_yaml(path: str, text: str) -> LitmusTest:
    """Parse one YAML litmus test; raises `LitmusError` with a span in the YAML."""
    root, faults = parse_text(text, path)
    if faults:
        raise LitmusError(faults[0].headline, faults[0].span)
    if not isinstance(root, Mapping):
        raise LitmusError("a litmus test is a mapping", root.span if root is not None else None)
    layout = _Layout(root)
    try:
        return read_litmus(path, layout.text())
    except LitmusError as error:
        line = error.span.start_line if error.span is not None else 0
        raise LitmusError(error.message, layout.span_of(line)) from None


class _Layout:
    """The text layout of a YAML test; one source value a line, so that lines map back to spans."""

    def __init__(self, root: Mapping) -> None:
        self.root = root
        for entry in root.entries:
            if entry.key.text not in _KEYS:
                raise LitmusError(f"unknown key `{entry.key.text}`", entry.key.span)
        self.lines: list[str] = []
        self.spans: list[Node] = []

    def span_of(self, line: int) -> Span:
        """Where in the YAML the laid-out line came from."""
        inside = 0 < line <= len(self.spans)
        return self.spans[line - 1].span if inside else self.root.span

    def text(self) -> str:
        dialect = self.root.get("dialect")
        word = dialect.text if isinstance(dialect, Scalar) else "PTX"
        self._line(f"{word} {self._scalar('litmus').text}", dialect or self._scalar("litmus"))
        comment = self.root.get("comment")
        if isinstance(comment, Scalar):
            self._line('"' + " ".join(comment.text.split()) + '"', comment)
        self._line("{", self.root)
        for name in ("locations", "registers"):
            for item in self._items(name):
                self._line(f"{item.text};", item)
        self._line("}", self.root)
        self._program()
        condition = self.root.get("filter")
        if isinstance(condition, Scalar):
            self._line(f"filter ({condition.text})", condition)
        found = [key for key in QUANTIFIERS if key in self.root]
        if len(found) != 1:
            raise LitmusError(f"expected one of {', '.join(QUANTIFIERS)}", self.root.span)
        asked = self._scalar(found[0])
        self._line(f"{QUANTIFIERS[found[0]]} ({asked.text})", asked)
        return "\n".join(self.lines) + "\n"

    def _program(self) -> None:
        threads = self.root.get("threads")
        if not isinstance(threads, Sequence) or not threads.items:
            raise LitmusError("`threads` is a list with at least one thread", self.root.span)
        columns: list[list[Scalar]] = []
        heads = []
        for thread in threads:
            if not isinstance(thread, Mapping):
                raise LitmusError("a thread is a mapping", thread.span)
            name, place = thread.get("name"), thread.get("at")
            if not isinstance(name, Scalar) or not isinstance(place, Scalar):
                raise LitmusError("a thread has a `name` and stands `at` a place", thread.span)
            heads.append(f"{name.text}@{place.text}")
            columns.append(self._scalars(thread.get("code"), thread))
        self._line(" | ".join(heads) + " ;", threads)
        # one instruction a line, the other columns empty, keeps line and source value together
        for number, column in enumerate(columns):
            for item in column:
                cells = [""] * len(columns)
                cells[number] = item.text
                self._line(" | ".join(cells) + " ;", item)

    def _line(self, text: str, source: Node) -> None:
        self.lines.append(text)
        self.spans.append(source)

    def _scalar(self, key: str) -> Scalar:
        node = self.root.get(key)
        if not isinstance(node, Scalar):
            raise LitmusError(f"`{key}` is missing or no text", self.root.span)
        return node

    def _items(self, key: str) -> list[Scalar]:
        node = self.root.get(key)
        return [] if node is None else self._scalars(node, self.root)

    @staticmethod
    def _scalars(node: Node | None, owner: Node) -> list[Scalar]:
        if not isinstance(node, Sequence) or not all(isinstance(i, Scalar) for i in node):
            raise LitmusError("expected a list of texts", (node or owner).span)
        return [item for item in node if isinstance(item, Scalar)]


__all__ = ["read_litmus_yaml"]
