"""Plots as SVG inside of a page: lines over an axis of amounts. No script, no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 520, 220
LEFT, RIGHT, TOP, BOTTOM = 70, 12, 12, 42
COLOURS = ("#4c8c5a", "#c08a2b", "#4a74a8", "#b3362b", "#7a5ba6", "#3d8f8f")
TICKS = 4


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str, title: str
) -> str:
    """One line for each series. The places of the x axis are the different values, evenly spaced:
    amounts that double each time would crowd at one end otherwise. Empty without points."""
    places = sorted({x for points in series.values() for x, _ in points})
    most = max((y for points in series.values() for _, y in points), default=0.0)
    if not places or most <= 0:
        return ""
    top = _rounded(most)
    parts = [*_axes(places, top, across, up)]
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        marks = [(_x(places, x), _y(top, y), x, y) for x, y in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in marks)
        parts.append(
            f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'></polyline>"
        )
        for at_x, at_y, x, y in marks:
            message = f"{escape(name)}: {y:,.0f} at {x:g}"
            parts.append(
                f"<circle cx='{at_x:.1f}' cy='{at_y:.1f}' r='3' fill='{colour}'>"
                f"<title>{message}</title></circle>"
            )
    keys = " &nbsp; ".join(
        f"<span class='bar' style='width:.8rem;background:{COLOURS[n % len(COLOURS)]}'></span> "
        f"{escape(name)}"
        for n, name in enumerate(series)
    )
    return (
        f"<figure><svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' role='img' "
        f"aria-label='{escape(title, quote=True)}'>{''.join(parts)}</svg>"
        f"<figcaption class='quiet'>{keys}</figcaption></figure>"
    )


def _x(places: Sequence[float], value: float) -> float:
    inner = WIDTH - LEFT - RIGHT
    return LEFT + inner * (places.index(value) + 0.5) / len(places)


def _y(top: float, value: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value / top)


def _rounded(most: float) -> float:
    """The next number with one digit that is not smaller."""
    size = 1.0
    while size * 10 <= most:
        size *= 10
    while size > most:
        size /= 10
    digit = next((n for n in range(1, 10) if n * size >= most), 10)
    return digit * size


def _axes(places: Sequence[float], top: float, across: str, up: str) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [
        f"<path d='M{LEFT} {TOP}V{bottom}H{right}' fill='none' stroke='currentColor'></path>",
        f"<text x='{(LEFT + right) / 2:.0f}' y='{HEIGHT - 6}' text-anchor='middle'>"
        f"{escape(across)}</text>",
        f"<text x='14' y='{(TOP + bottom) / 2:.0f}' text-anchor='middle' "
        f"transform='rotate(-90 14 {(TOP + bottom) / 2:.0f})'>{escape(up)}</text>",
    ]
    for number in range(TICKS + 1):
        value = top * number / TICKS
        y = _y(top, value)
        parts.append(f"<text x='{LEFT - 6}' y='{y + 4:.1f}' text-anchor='end'>{value:,.4g}</text>")
    for place in places:
        x = _x(places, place)
        parts.append(f"<text x='{x:.1f}' y='{bottom + 16}' text-anchor='middle'>{place:g}</text>")
    return parts
