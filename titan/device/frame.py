"""The frame of every page: style, colours, bars, and the whole around its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = {"allowed": "#4c8c5a", "decides": "#c08a2b", "forbidden": "#b3362b", "open": "#7a7a7a"}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1d1d1f; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
h3 { font-size: .95rem; margin: 1.2rem 0 .2rem; } figure { margin: .6rem 0; }
svg text { font-size: 11px; fill: currentColor; }
table { border-collapse: collapse; } td, th { padding: .15rem .7rem .15rem 0; text-align: left; }
.bar { height: .8rem; display: inline-block; min-width: 1px; }
.finding { color: #b3362b; font-weight: 600; } .quiet { color: #666; }
td.good { background: #4c8c5a33; } td.bad { background: #b3362b44; }
td.part { background: #c08a2b44; } .scroll { overflow-x: auto; }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #161618; }
  .quiet { color: #aaa; } }
"""


def whole(title: str, head: str, parts: Sequence[str]) -> str:
    """A page of HTML around its parts, which are HTML already."""
    lines = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{title}: {escape(head)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{title}</h1><p>{escape(head)}</p>",
        *parts,
        "</body></html>\n",
    ]
    return "\n".join(lines)


def bar(value: float, most: float, colour: str, text: str = "") -> str:
    """A bar of HTML as long as the share of `value` in `most`, with its number or a text."""
    width = 60.0 * value / most if most else 0.0
    return (
        f"<span class='bar' style='width:{width:.2f}%;background:{colour}'></span> "
        f"{escape(text) or f'{value:,.0f}'}"
    )


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`M=128, N=256`, escaped."""
    return ", ".join(f"{escape(name)}={int(value)}" for name, value in sizes.items())
