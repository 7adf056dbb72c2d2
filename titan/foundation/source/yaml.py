"""YAML 1.2 text to the located tree, with every fault a diagnostic and every size bounded.

The tree is built from ruamel.yaml's parse events, not from its composer: the composer recurses, so
that deep nesting ends in a RecursionError, and it resolves anchors without a bound. Here depth,
nodes and expanded aliases are counted while the events come, and the parser is left as soon as a
bound is passed. An alias shares the node of its anchor, so memory stays linear in the file; the
expanded count bounds the work of whoever walks the tree. What is simple is read by `simple_yaml`.
Not supported, on purpose: tags, several documents in a file.
"""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import Any

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.foundation.errors import TitanError
from titan.foundation.records import dataclass
from titan.foundation.source import indexed, simple_yaml
from titan.foundation.source.loading import load_bytes, load_file, load_text
from titan.foundation.source.span import Source, Span
from titan.foundation.source.tree import Mapping, MappingEntry, Node, Scalar, Sequence

NODES_MAX = 100_000
DEPTH_MAX = 64
ERRORS_MAX = 50


@dataclass(slots=True)
class _Frame:
    """A collection that is still open."""

    is_mapping: bool
    flow: bool
    start: int
    anchor: str
    items: list[Node] = field(default_factory=list)
    entries: list[MappingEntry] = field(default_factory=list)
    keys: dict[str, Scalar] = field(default_factory=dict)
    key: Scalar | None = None
    awaits_value: bool = False
    size: int = 1
    depth: int = 1
    end: int = 0


class _Refused(TitanError):
    """Reading stops here; the diagnostic is already recorded."""


class _Builder:
    def __init__(self, source: Source, nodes_max: int, depth_max: int) -> None:
        self.source = source
        self.nodes_max = nodes_max
        self.depth_max = depth_max
        self.errors: list[Diagnostic] = []
        self.frames: list[_Frame] = []
        self.anchors: dict[str, Node] = {}
        self.root: Node | None = None
        self.nodes = 0
        self.documents = 0
        self.nonstandard: list[Span] = []

    def report(self, code: str, headline: str, span: Span, label: str = "", **more: Any) -> None:
        self.errors.append(diagnostic(code, headline, span, label, **more))
        if len(self.errors) >= ERRORS_MAX:
            raise _Refused

    def refuse(self, code: str, headline: str, span: Span, **more: Any) -> None:
        self.report(code, headline, span, **more)
        raise _Refused

    def event(self, event: Any) -> None:
        name = type(event).__name__
        anchor = indexed.show(getattr(event, "anchor", None) or "")
        span = self.source.span(event.start_mark.index, event.end_mark.index)
        if name == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                self.refuse(
                    "TTN001", "a file holds one YAML document, but here a second begins", span
                )
            if event.version is not None and tuple(event.version) != (1, 2):
                number = ".".join(map(str, event.version))
                self.report("TTN001", f"the file is read as YAML 1.2, and says {number}", span)
        elif name == "ScalarEvent":
            self.check_tag(event, span)
            self.count(1, span)
            node = Scalar(indexed.show(event.value), span, not event.style)
            if node.plain and node.text != event.value and any(f.flow for f in self.frames):
                self.nonstandard.append(span)
            self.anchor(anchor, node)
            self.add(node, event.end_mark.index)
        elif name == "AliasEvent":
            self.alias(anchor, span, event.end_mark.index)
        elif name in ("MappingStartEvent", "SequenceStartEvent"):
            self.check_tag(event, span)
            self.count(1, span)
            if len(self.frames) >= self.depth_max:
                self.refuse("TTN003", f"nesting is deeper than {self.depth_max} levels", span)
            mapping = name == "MappingStartEvent"
            start, end = event.start_mark.index, event.end_mark.index
            frame = _Frame(mapping, bool(event.flow_style), start, anchor, end=end)
            self.frames.append(frame)
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            self.close(event)

    def count(self, nodes: int, span: Span) -> None:
        self.nodes += nodes
        if self.nodes > self.nodes_max:
            headline = f"the file has more than {self.nodes_max} nodes, aliases expanded"
            self.refuse("TTN003", headline, span)

    def check_tag(self, event: Any, span: Span) -> None:
        if event.tag is not None and str(event.tag) != "!":
            self.report(
                "TTN001", f"the tag {quoted(indexed.show(str(event.tag)))} is not supported", span
            )

    def anchor(self, name: str, node: Node) -> None:
        if name:
            self.anchors[name] = node

    def alias(self, name: str, span: Span, end: int) -> None:
        for frame in self.frames:
            if frame.anchor == name:
                place = self.source.span(frame.start, frame.start + len(name) + 1)
                other = (Annotation(place, "the anchor is on what encloses the alias"),)
                self.refuse(
                    "TTN005", f"the alias {quoted(name)} contains itself", span, others=other
                )
        node = self.anchors.get(name)
        if node is None:
            helps = suggestion(name, list(self.anchors)[:100])
            self.report("TTN011", f"no anchor {quoted(name)} before this alias", span, helps=helps)
            node = Scalar("", span)
        self.count(node.size, span)
        if len(self.frames) + node.depth > self.depth_max + 1:
            self.refuse("TTN003", f"nesting is deeper than {self.depth_max} levels", span)
        self.add(node, end)

    def close(self, event: Any) -> None:
        frame = self.frames.pop()
        end = event.end_mark.index if frame.flow else frame.end
        span = self.source.span(frame.start, end)
        node: Node
        if frame.is_mapping:
            node = Mapping(tuple(frame.entries), span, frame.size, frame.depth)
        else:
            node = Sequence(tuple(frame.items), span, frame.size, frame.depth)
        self.anchor(frame.anchor, node)
        self.add(node, end)

    def add(self, node: Node, end: int) -> None:
        """Put a finished node where it belongs:

        Root, list item, key or value of the innermost open collection.
        """
        if not self.frames:
            self.root = node
            return
        frame = self.frames[-1]
        frame.end = max(frame.end, end)
        frame.size += node.size
        frame.depth = max(frame.depth, node.depth + 1)
        if not frame.is_mapping:
            frame.items.append(node)
        elif not frame.awaits_value:
            frame.awaits_value = True
            frame.key = self.checked_key(frame, node)
        else:
            frame.awaits_value = False
            if frame.key is not None:
                frame.entries.append(MappingEntry(frame.key, node))

    def checked_key(self, frame: _Frame, node: Node) -> Scalar | None:
        """The key, or None when it is reported: not a scalar, or there already."""
        if not isinstance(node, Scalar):
            self.report("TTN008", "a key of a mapping must be a scalar", node.span)
            return None
        first = frame.keys.setdefault(node.text, node)
        if first is not node:
            others = (Annotation(first.span, "first given here"),)
            headline = f"the key {quoted(node.text)} is given twice"
            self.report("TTN004", headline, node.span, "given again", others=others)
            return None
        return node


def parse(
    source: Source, *, nodes_max: int = NODES_MAX, depth_max: int = DEPTH_MAX
) -> tuple[Node | None, list[Diagnostic]]:
    """The located tree of `source`, or None; and what is wrong with it.

    A tree can come together with diagnostics (a duplicate key, an unknown alias): the caller goes
    on to decode it, so that all faults are reported at once, and fails because the list is not
    empty.
    """
    simple = simple_yaml.read(source, nodes_max, depth_max)
    return (simple, []) if simple is not None else parse_fully(source, nodes_max, depth_max)


def parse_fully(
    source: Source, nodes_max: int = NODES_MAX, depth_max: int = DEPTH_MAX
) -> tuple[Node | None, list[Diagnostic]]:
    """`parse` by ruamel.yaml, whatever the text holds."""
    from ruamel.yaml import YAML

    builder = _Builder(source, nodes_max, depth_max)
    try:
        for event in YAML(typ="safe", pure=True).parse(indexed.hide(source.text)):
            builder.event(event)
    except _Refused:
        return None, builder.errors
    except (
        Exception
    ) as error:  # the parser leaks ValueError, IndexError and others on untrusted text
        builder.errors.append(_syntax_error(source, error))
        return None, builder.errors
    if builder.root is None or (isinstance(builder.root, Scalar) and builder.root.is_null):
        builder.errors.append(diagnostic("TTN007", "the file is empty", source.span(0, 0)))
        return None, builder.errors
    root = builder.root
    if isinstance(root, Mapping) and builder.nonstandard:
        root = replace(root, nonstandard=tuple(builder.nonstandard))
    return root, builder.errors


def parse_text(text: str, path: str = "<text>") -> tuple[Node | None, list[Diagnostic]]:
    """`parse` for text at hand."""
    source, errors = load_text(text, path)
    return parse(source) if source is not None else (None, errors)


def parse_bytes(data: bytes, path: str = "<bytes>") -> tuple[Node | None, list[Diagnostic]]:
    """`parse` for bytes at hand."""
    source, errors = load_bytes(data, path)
    return parse(source) if source is not None else (None, errors)


def parse_file(path: str | Path) -> tuple[Node | None, list[Diagnostic]]:
    """`parse` for a file."""
    source, errors = load_file(path)
    return parse(source) if source is not None else (None, errors)


def _syntax_error(source: Source, error: Exception) -> Diagnostic:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    offset = mark.index if mark is not None else len(source.text)
    at = source.text[offset : offset + 1]
    span = source.span(offset, offset + (1 if at.strip() else 0))
    if at == "\t":
        headline = "a tab character cannot indent YAML"
        tab = source.span(offset, offset + 1)
        return diagnostic("TTN001", headline, tab, "tab", helps=("indent with spaces",))
    problem = str(getattr(error, "problem", None) or "the text cannot be parsed as YAML")
    headline = indexed.show(problem.split("\n", maxsplit=1)[0].rstrip("."))
    headline = headline[:1].lower() + headline[1:]
    context_mark = getattr(error, "context_mark", None)
    context = getattr(error, "context", None)
    others: tuple[Annotation, ...] = ()
    if context_mark is not None and context and context_mark.index != offset:
        place = source.span(context_mark.index, context_mark.index + 1)
        others = (Annotation(place, indexed.show(str(context))),)
    return diagnostic("TTN001", headline, span, others=others)
