"""Where the text of a kernel file may have a fence: the places, the fences already there, edits.

A place is before an item of a list of statements that is written one item a line, or after the last
one. Lists in brackets offer no place. Edits work on lines, so comments and layout stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from titan.foundation.source.tree import Mapping, Node, Scalar, Sequence
from titan.language.kernel.sync_verbs import FENCES
from titan.sync import program as ir

WORD_OF = {kind: word for word, kind in FENCES.items()}
_BLOCKS = ("do", "then", "else")
_FENCE_KEYS = {"fence", "spaces", "when"}


@dataclass(frozen=True, slots=True)
class WrittenFence:
    """A fence in the text: lines `first` to `last`, counted from 1."""

    first: int
    last: int
    kind: ir.FenceKind
    spaces: tuple[ir.Space, ...]
    when: str


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Before line `line`, indented by `indent`; `whens` are conditions of the neighbours.

    `fence`: the place is that of an existing fence.
    """

    number: int
    line: int
    indent: int
    whens: tuple[str, ...]
    fence: WrittenFence | None = None


@dataclass(frozen=True, slots=True)
class Insertion:
    """A fence to be written at a place."""

    place: TextPlace
    kind: ir.FenceKind
    spaces: tuple[ir.Space, ...] = ()
    when: str = ""

    def lines(self) -> list[str]:
        """The statement as lines without line breaks."""
        word = WORD_OF[self.kind]
        if self.spaces:
            names = ", ".join(space.value for space in self.spaces)
            word = f"{{{word}, spaces: [{names}]}}"
        found = [" " * self.place.indent + f"- fence: {word}"]
        if self.when:
            found.append(" " * (self.place.indent + 2) + f"when: {self.when}")
        return found


def places(root: Node, text: str) -> list[TextPlace]:
    """All places of the file, in the order of the text."""
    lines = _lines(text)
    found: dict[tuple[int, int, bool], TextPlace] = {}
    program = root.get("program") if isinstance(root, Mapping) else None
    bodies = [entry.value for entry in program] if isinstance(program, Mapping) else []
    while bodies:
        body = bodies.pop(0)
        if not isinstance(body, Sequence):
            continue
        for item in body:
            if isinstance(item, Mapping):
                bodies += [entry.value for entry in item if entry.key.text in _BLOCKS]
        for place in _in_list(body, lines):
            found.setdefault((place.line, place.indent, place.fence is not None), place)
    ordered = sorted(found.values(), key=lambda place: (place.line, place.indent))
    return [
        TextPlace(number, place.line, place.indent, place.whens, place.fence)
        for number, place in enumerate(ordered)
    ]


def _in_list(body: Sequence, lines: list[str]) -> list[TextPlace]:
    """The places of one list; none where it is not written one item a line."""
    items = body.items
    starts = [item.span.start_line for item in items]
    if not items or len(set(starts)) != len(starts):
        return []
    indents = set()
    for item in items:
        before = lines[item.span.start_line - 1][: item.span.start_column - 1]
        if before.strip() != "-":
            return []
        indents.add(before.index("-"))
    if len(indents) != 1:
        return []
    (indent,) = indents
    whens = [_when(item) for item in items]
    fences = [_fence(item) for item in items]
    alone = all(fence is not None for fence in fences)  # an empty list would be no list
    found = []
    for number, item in enumerate(items):
        fence = fences[number] if not alone else None
        near = tuple(dict.fromkeys(w for w in whens[max(0, number - 1) : number + 1] if w))
        if fence is not None:
            near = tuple(dict.fromkeys((*near, fence.when))) if fence.when else near
            near = tuple(dict.fromkeys((*near, *(w for w in whens[number + 1 : number + 2] if w))))
            found.append(TextPlace(0, item.span.start_line, indent, near, fence))
        elif number == 0 or fences[number - 1] is None or alone:
            found.append(TextPlace(0, item.span.start_line, indent, near))
    if fences[-1] is None or alone:
        near = (whens[-1],) if whens[-1] else ()
        found.append(TextPlace(0, _last_line(items[-1], lines) + 1, indent, near))
    return found


def _when(item: Node) -> str:
    value = item.get("when") if isinstance(item, Mapping) else None
    return value.text if isinstance(value, Scalar) and value.plain else ""


def _fence(item: Node) -> WrittenFence | None:
    """The fence that an item is, where it is written so that it can be taken out."""
    if not isinstance(item, Mapping) or not set(item.names) <= _FENCE_KEYS:
        return None
    node = item.get("fence")
    spaces = item.get("spaces")
    if isinstance(node, Mapping):  # {fence: {async, spaces: [shared]}}
        if not node.entries or not set(node.names[1:]) <= {"spaces", "when"}:
            return None
        word, spaces = node.names[0], node.get("spaces")
        if node.get("when") is not None:
            return None
    elif isinstance(node, Scalar):
        word = node.text
    else:
        return None
    if word not in FENCES:
        return None
    named = spaces.items if isinstance(spaces, Sequence) else (spaces,) if spaces else ()
    if not all(isinstance(name, Scalar) for name in named):
        return None
    found = tuple(ir.Space(name.text) for name in named if isinstance(name, Scalar))
    last = max(item.span.start_line, _last_scalar_line(item))
    return WrittenFence(item.span.start_line, last, FENCES[word], found, _when(item))


def _lines(text: str) -> list[str]:
    """Lines with their breaks, counted as spans count them."""
    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text)


def _last_line(node: Node, lines: list[str]) -> int:
    """The last line that belongs to a node; block collections reach further by their span."""
    first = lines[node.span.start_line - 1][node.span.start_column - 1 :][:1]
    if isinstance(node, Scalar) or first in ("[", "{"):
        return node.span.end_line
    children = [entry.value for entry in node] if isinstance(node, Mapping) else list(node)
    keys = [entry.key.span.end_line for entry in node] if isinstance(node, Mapping) else []
    return max([node.span.start_line, *keys, *(_last_line(child, lines) for child in children)])


def _last_scalar_line(node: Node) -> int:
    if isinstance(node, Scalar):
        return node.span.end_line
    if isinstance(node, Mapping):
        parts = [part for entry in node for part in (entry.key, entry.value)]
    else:
        parts = list(node)
    return max([node.span.start_line, *(_last_scalar_line(part) for part in parts)])


# ---------------------------------------------------------------------------------- edits


def edit(text: str, removed: Iterable[WrittenFence], insertions: Iterable[Insertion]) -> Edited:
    """The text without the removed fences and with the insertions, lines mapped."""
    gone = {number for fence in removed for number in range(fence.first, fence.last + 1)}
    added: dict[int, list[Insertion]] = {}
    for insertion in insertions:
        added.setdefault(insertion.place.line, []).append(insertion)
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = _lines(text)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += ending
    result: list[str] = []
    at: dict[int, Insertion] = {}
    for number in range(1, len(lines) + 2):
        # At one line the deeper lists end before the outer ones continue.
        for insertion in sorted(added.get(number, []), key=lambda item: -item.place.indent):
            at[len(result) + 1] = insertion
            result += [line + ending for line in insertion.lines()]
        if number <= len(lines) and number not in gone:
            result.append(lines[number - 1])
    return Edited("".join(result), at)


@dataclass(frozen=True, slots=True)
class Edited:
    """`insertions`: what was inserted at which line of the new text."""

    text: str
    insertions: dict[int, Insertion]


def without_fences(root: Node, text: str) -> str:
    """The text with every fence taken out that can be."""
    standing = [place.fence for place in places(root, text) if place.fence is not None]
    return edit(text, standing, []).text
