"""A litmus run as one HTML page that needs nothing else: a histogram for each test."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

COLOURS = {"allowed": "#4c8c5a", "decides": "#c08a2b", "forbidden": "#b3362b", "open": "#7a7a7a"}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1d1d1f; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .7rem .15rem 0; text-align: left; }
.bar { height: .8rem; display: inline-block; min-width: 1px; }
.finding { color: #b3362b; font-weight: 600; } .quiet { color: #666; }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #161618; }
  .quiet { color: #aaa; } }
"""


def page(document: Mapping[str, Any]) -> str:
    """The page of one run."""
    device = document["device"]
    tests = document["tests"]
    found = document["findings"]
    head = (
        f"{len(tests)} tests, {document['instances']:,} instances on {device.get('name', '?')}, "
        f"{document['date']}"
    )
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Litmus run: {escape(head)}</title><style>{STYLE}</style></head><body>",
        f"<h1>Litmus run</h1><p>{escape(head)}</p>",
        _finding(found),
        _legend(),
        *(_test(test) for test in tests),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _finding(found: list[str]) -> str:
    if not found:
        return "<p>No outcome that the model forbids was seen.</p>"
    names = ", ".join(map(escape, found))
    return f"<p class='finding'>Outcomes that the model forbids were seen in {names}.</p>"


def _legend() -> str:
    words = {
        "allowed": "allowed",
        "decides": "allowed by the strictest reading only",
        "forbidden": "forbidden",
        "open": "the verdict is not complete",
    }
    cells = (
        f"<span class='bar' style='width:.8rem;background:{COLOURS[k]}'></span> {v}"
        for k, v in words.items()
    )
    return f"<p class='quiet'>{' &nbsp; '.join(cells)}</p>"


def _test(test: Mapping[str, Any]) -> str:
    title = f"<h2 id='{escape(test['file'])}'>{escape(test['test'])}</h2>"
    rate = f"{test['instances']:,} instances, {test['per_second']:,} a second"
    state = escape(test["state"])
    line = f"<p class='quiet'>{state}; {rate}</p>"
    if test.get("error"):
        line += f"<p class='finding'>{escape(test['error'])}</p>"
    if not test.get("outcomes"):
        return title + line
    most = max(outcome["count"] for outcome in test["outcomes"])
    names = "".join(f"<th>{escape(name)}</th>" for name in test["words"])
    rows = "".join(_outcome(outcome, most) for outcome in test["outcomes"])
    unseen = "; ".join(
        ", ".join(f"{n}={v}" for n, v in zip(test["words"], values, strict=True))
        for values in test["allowed_but_unseen"]
    )
    never = f"<p class='quiet'>allowed, never seen: {escape(unseen)}</p>" if unseen else ""
    return f"{title}{line}<table><tr>{names}<th>count</th><th></th></tr>{rows}</table>{never}"


def _outcome(outcome: Mapping[str, Any], most: int) -> str:
    cells = "".join(
        f"<td>{'other' if value is None else int(value)}</td>" for value in outcome["values"]
    )
    width = 100.0 * outcome["count"] / most
    colour = COLOURS[outcome["state"]]
    mark = " *" if outcome["asked"] else ""
    return (
        f"<tr>{cells}<td>{outcome['count']:,}{mark}</td><td style='width:20rem'>"
        f"<span class='bar' style='width:{width:.2f}%;background:{colour}'></span></td></tr>"
    )
