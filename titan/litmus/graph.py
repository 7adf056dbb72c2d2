"""Draws a witness execution: DOT for Graphviz, or an SVG with one column a thread.

Only the edges that explain are drawn: program order between neighbours, rf, the reduced co, fr,
synchronizes-with; causality in a lighter line.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise

from titan.litmus.model.execution import CandidateExecution, ExecutionEvent, Key
from titan.litmus.report import _reduced

COLOURS = {
    "po": "#888888",
    "rf": "#b00020",
    "co": "#7a4a00",
    "fr": "#c06000",
    "sync": "#0050a0",
    "cause": "#6fa8dc",
}
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 230, 30, 70, 34, 40


def edges(execution: CandidateExecution) -> list[tuple[str, str, str]]:
    """(relation, from, to) by event name."""
    names = {node.key: node.name for node in execution.nodes}
    found: list[tuple[str, str, str]] = []
    for column in _columns(execution).values():
        ordered = [node for node in column if node.order < 10**6 and node.thread]
        found += [("po", a.name, b.name) for a, b in pairwise(ordered)]
    for relation in ("rf", "co", "fr", "sync", "cause"):
        pairs: list[tuple[Key, Key]] = list(getattr(execution, relation))
        named = sorted({(names[a], names[b]) for a, b in pairs if a in names and b in names})
        found += [(relation, a, b) for a, b in (_reduced(named) if relation == "co" else named)]
    return found


def _columns(execution: CandidateExecution) -> dict[str, list[ExecutionEvent]]:
    columns: dict[str, list[ExecutionEvent]] = {}
    for node in sorted(execution.nodes, key=lambda n: n.order):
        columns.setdefault(node.thread, []).append(node)
    return dict(sorted(columns.items(), key=lambda item: (item[0] != "", item[0])))


def to_dot(execution: CandidateExecution, title: str) -> str:
    """A Graphviz digraph with one cluster a thread."""
    lines = [f"digraph {_quote(title)} {{", "  node [shape=box, fontname=monospace];"]
    for number, (thread, nodes) in enumerate(_columns(execution).items()):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_quote(thread or 'initial state')};")
        for node in nodes:
            lines.append(f"    {_quote(node.name)} [label={_quote(f'{node.name}: {node.label}')}];")
        lines.append("  }")
    for relation, first, second in edges(execution):
        colour = COLOURS[relation]
        lines.append(
            f"  {_quote(first)} -> {_quote(second)} "
            f'[label="{relation}", color="{colour}", fontcolor="{colour}"];'
        )
    return "\n".join([*lines, "}"]) + "\n"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_svg(execution: CandidateExecution, title: str) -> str:
    """A self-contained picture; needs no Graphviz."""
    columns = _columns(execution)
    place: dict[str, tuple[int, int]] = {}
    body: list[str] = []
    for number, (thread, nodes) in enumerate(columns.items()):
        x = _MARGIN + number * (_WIDTH + _GAP_X)
        body.append(_text(x + _WIDTH // 2, _MARGIN + 30, thread or "initial state", "bold"))
        for row, node in enumerate(nodes):
            y = _MARGIN + 46 + row * (_HEIGHT + _GAP_Y)
            place[node.name] = (x, y)
            body.append(
                f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" '
                'fill="#ffffff" stroke="#333333"/>'
            )
            body.append(_text(x + _WIDTH // 2, y + 20, f"{node.name}: {node.label}"))
    drawn = [_arrow(place[a], place[b], relation) for relation, a, b in edges(execution)]
    width = 2 * _MARGIN + len(columns) * (_WIDTH + _GAP_X)
    height = 2 * _MARGIN + 46 + max(len(c) for c in columns.values()) * (_HEIGHT + _GAP_Y)
    markers = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
        for name, colour in COLOURS.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="monospace" font-size="12">\n'
        f"<title>{escape(title)}</title>\n<defs>{markers}</defs>\n"
        f'<rect width="{width}" height="{height}" fill="#fafafa"/>\n'
        + "\n".join([_text(width // 2, 24, title, "bold"), *drawn, *body])
        + "\n</svg>\n"
    )


def _text(x: int, y: int, text: str, weight: str = "normal") -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="middle" font-weight="{weight}">{escape(text)}</text>'
    )


def _arrow(start: tuple[int, int], end: tuple[int, int], relation: str) -> str:
    """A curve between the sides that face each other; the offset keeps relations apart."""
    shift = 6 * list(COLOURS).index(relation)
    (x1, y1), (x2, y2) = start, end
    if x1 == x2:
        side = x1 + _WIDTH if relation != "po" else x1 + 20
        bend = side + (18 + shift if relation != "po" else 0)
        top, bottom = y1 + (_HEIGHT if y2 > y1 else 0), y2 + (0 if y2 > y1 else _HEIGHT)
        if relation != "po":
            top, bottom = y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
        path = f"M{side},{top} C{bend},{top} {bend},{bottom} {side},{bottom}"
        label = (bend, (top + bottom) // 2)
    else:
        forward = x2 > x1
        a, b = x1 + (_WIDTH if forward else 0), x2 + (0 if forward else _WIDTH)
        ya, yb = y1 + 8 + shift // 2, y2 + 8 + shift // 2
        middle = (a + b) // 2
        path = f"M{a},{ya} C{middle},{ya} {middle},{yb} {b},{yb}"
        label = (middle, (ya + yb) // 2 - 3)
    colour = COLOURS[relation]
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" marker-end="url(#{relation})"/>'
        f'<text x="{label[0]}" y="{label[1]}" text-anchor="middle" fill="{colour}" '
        f'font-size="10">{relation}</text>'
    )
