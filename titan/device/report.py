"""Probes, variants side by side and the fit of the machine description, as parts of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from titan.device.documents import (
    FittedMachine,
    ProbeRow,
    ProbesDocument,
    VariantRow,
    VariantsDocument,
)
from titan.device.frame import COLOURS, bar, sizes_text, whole


def probes_page(document: ProbesDocument) -> str:
    """What each probe answered and what that means."""
    rows = document["probes"]
    answered = sum(row["state"] == "answered" for row in rows)
    head = (
        f"{answered} of {len(rows)} answered on {document['device'].get('name', '?')}, "
        f"{document['date']}"
    )
    return whole("Probes of disputed facts", head, [probes_part(rows)])


def probes_part(rows: Sequence[ProbeRow]) -> str:
    """What each probe answered, as HTML."""
    parts = []
    for row in rows:
        facts = ", ".join(map(escape, row["facts"]))
        good = row["state"] == "answered"
        answer = row["answer"] if good else f"{row['state']} {row['message']}".strip()
        counters = "".join(
            f"<tr><td>{escape(name)}</td><td>{int(value):,}</td></tr>"
            for name, value in dict(row["counters"]).items()
        )
        parts.append(
            f"<h3>{escape(row['probe'])} ({facts})</h3><p>{escape(row['asks'])}</p>"
            f"<p class='{'' if good else 'finding'}'><b>{escape(answer)}</b></p>"
            f"<p class='quiet'>{escape(row['means'])}</p>"
            + (f"<table>{counters}</table>" if counters else "")
        )
    return "".join(parts)


# ------------------------------------------------------------------------------------ variants


def ablations_page(document: VariantsDocument) -> str:
    """Variants side by side, as a page of their own."""
    rows = document["rows"]
    timed = sum(row["seconds"] is not None for row in rows)
    head = (
        f"{timed} of {len(rows)} rows timed on {document['device'].get('name', '?')}, "
        f"{document['date']}"
    )
    return whole("Variants side by side", head, [ablations_part(rows)])


def ablations_part(rows: Sequence[VariantRow]) -> str:
    """A table for each kernel: variants as lines, sizes as columns; above 1 is faster."""
    parts = []
    for name in dict.fromkeys(f"{row['package']} ({row['target']})" for row in rows):
        mine = [row for row in rows if f"{row['package']} ({row['target']})" == name]
        sizes = list(dict.fromkeys(sizes_text(row["sizes"]) for row in mine if row["sizes"]))
        heads = "".join(f"<th>{size}</th>" for size in sizes)
        settings = dict.fromkeys((row["axis"], row["setting"]) for row in mine)
        lines = "".join(_setting(mine, key, sizes) for key in settings)
        parts.append(
            f"<h3>{escape(name)}</h3><div class='scroll'><table><tr><th>axis</th><th>setting</th>"
            f"{heads}<th>registers</th><th>spilled</th><th>shared</th><th>occupancy</th>"
            f"<th>fences</th><th>barriers</th><th>cycles</th></tr>{lines}</table></div>"
        )
    return "".join(parts)


def _setting(rows: Sequence[VariantRow], key: tuple[str, str], sizes: list[str]) -> str:
    mine = [row for row in rows if (row["axis"], row["setting"]) == key]
    by_size = {sizes_text(row["sizes"]): row for row in mine if row["sizes"]}
    first = mine[0]
    message = first.get("message") or first.get("about", "")
    name = (
        f"<td>{escape(key[0])}</td><td title='{escape(message, quote=True)}'>{escape(key[1])}</td>"
    )
    if not by_size:
        why = f"{first['state']}; {message}"[:200]
        return f"<tr>{name}<td colspan='{len(sizes) + 7}' class='quiet'>{escape(why)}</td></tr>"
    cells = "".join(_speed(by_size.get(size)) for size in sizes)
    fields: Mapping[str, object] = first
    facts = "".join(
        f"<td>{_number(fields.get(field), form)}</td>"
        for field, form in (
            ("registers", ",d"), ("spilled_bytes", ",d"), ("shared_bytes", ",d"),
            ("occupancy", ".0%"), ("fences", ",d"), ("barriers", ",d"), ("steady_cycles", ",.0f"),
        )
    )  # fmt: skip
    return f"<tr>{name}{cells}{facts}</tr>"


def _speed(row: VariantRow | None) -> str:
    if row is None or row["seconds"] is None:
        return f"<td class='quiet'>{escape(row['state']) if row else 'none'}</td>"
    text = f"{row['seconds'] * 1e6:,.1f} us"
    ratio = row.get("against_product")
    if ratio is None:
        return f"<td>{text}</td>"
    name = "good" if ratio >= 1.02 else "bad" if ratio <= 0.9 else ""
    return f"<td class='{name}'>{text} ({ratio:.2f})</td>"


def _number(value: object, form: str) -> str:
    return "" if value is None else format(value, form)


# ------------------------------------------------------------------------------------- machine


def machines_part(machines: Sequence[FittedMachine]) -> str:
    """The fit of the machine description: terms, rates, residuals."""
    parts = []
    for machine in machines:
        terms = "".join(
            f"<tr><td>{escape(term['term'])}</td><td>{escape(term['state'])}</td>"
            f"<td>{_number(term['scale'], '.3f')}</td><td>{_number(term['at_most'], '.3f')}</td>"
            f"<td>{term['measurements']}</td></tr>"
            for term in machine["terms"]
        )
        rates = "".join(
            f"<tr><td>{escape(path)}</td><td>{item['was']:g}</td><td>{item['fits']:g}</td></tr>"
            for path, item in machine["rates"].items()
        )
        most = max((row["measured"] for row in machine["residuals"]), default=0.0)
        rows = "".join(
            f"<tr><td>{escape(row['kernel'])}</td><td>{escape(row['binding'])}</td>"
            f"<td style='width:16rem'>"
            f"{bar(row['measured'], most, COLOURS['decides'])}</td>"
            f"<td>{row['before']:,.0f}</td><td>{row['after']:,.0f}</td>"
            f"<td>{row['relative']:+.1%}</td></tr>"
            for row in machine["residuals"]
        )
        message = "".join(f"<li>{escape(text)}</li>" for text in machine["remarks"])
        error = ""
        if machine["error_after"] is not None:
            error = (
                f"<p>Relative error: {machine['error_before']:.1%} as described, "
                f"{machine['error_after']:.1%} as fitted.</p>"
            )
        parts.append(
            f"<h3>{escape(machine['machine'])}</h3>{error}"
            "<table><tr><th>term</th><th>state</th><th>scale</th><th>at most</th>"
            f"<th>measurements</th></tr>{terms}</table>"
            f"<table><tr><th>rate</th><th>was</th><th>fits</th></tr>{rates}</table>"
            "<table><tr><th>kernel</th><th>binding</th><th>cycles measured</th><th>described</th>"
            f"<th>fitted</th><th>error</th></tr>{rows}</table><ul>{message}</ul>"
        )
    return "".join(parts)
