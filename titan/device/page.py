"""A run as one self-contained HTML page: no script, no other file, light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import cast

from titan.device import plots
from titan.device.documents import (
    BenchDocument,
    Document,
    LitmusDocument,
    LitmusTestRow,
    OutcomeRow,
    ProbesDocument,
    ShareRow,
    StallRow,
    StressDocument,
    StressRow,
    SuiteDocument,
    TimedRow,
    VariantsDocument,
)
from titan.device.frame import COLOURS, bar, sizes_text, whole
from titan.device.report import (
    ablations_page,
    ablations_part,
    machines_part,
    probes_page,
    probes_part,
)

FIGURES = (
    ("registers", "registers", ",d"), ("spilled bytes", "spilled_bytes", ",d"),
    ("shared bytes", "shared_bytes", ",d"), ("occupancy", "occupancy", ".0%"),
    ("tail", "tail_share", ".1%"), ("idle in the last round", "wave_share", ".1%"),
    ("fences", "fences", ",d"), ("barrier operations", "barriers", ",d"),
)  # fmt: skip


def page(document: Document) -> str:
    """The page of one run, or of a suite; raises KeyError for anything else."""
    match document["kind"]:
        case "litmus":
            return litmus_page(cast(LitmusDocument, document))
        case "stress":
            return stress_page(cast(StressDocument, document))
        case "bench":
            return bench_page(cast(BenchDocument, document))
        case "probes":
            return probes_page(cast(ProbesDocument, document))
        case "ablations":
            return ablations_page(cast(VariantsDocument, document))
        case "device":
            return suite_page(cast(SuiteDocument, document))
    raise KeyError(document["kind"])


def litmus_page(document: LitmusDocument) -> str:
    """A histogram for each test."""
    device = document["device"]
    tests = document["tests"]
    found = document["findings"]
    head = (
        f"{len(tests)} tests, {document['instances']:,} instances on {device.get('name', '?')}, "
        f"{document['date']}"
    )
    parts = [_finding(found), _legend(), *(_test(test) for test in tests)]
    if document.get("probes"):
        parts += ["<h2>Probes</h2>", probes_part(document["probes"])]
    return whole("Litmus run", head, parts)


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


def _test(test: LitmusTestRow) -> str:
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


def _outcome(outcome: OutcomeRow, most: int) -> str:
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


# -------------------------------------------------------------------------------------- stress


def stress_page(document: StressDocument) -> str:
    """Variants by packages with what became of their runs, by policy, and stalls where measured."""
    head = (
        f"{document['runs']:,} runs on {document['device'].get('name', '?')}, {document['date']}; "
        f"{document['unsafe_seen_to_fail']} of {document['unsafe_variants']} unsafe variants "
        "seen to fail"
    )
    return whole("Stress run", head, [stress_part(document)])


def stress_part(document: StressDocument) -> str:
    """The tables and plots of a stress run, as HTML."""
    rows, bad = document["rows"], document["safe_failures"]
    found = "<p>The safe kernels were correct in every run.</p>"
    if bad:
        found = f"<p class='finding'>Runs in which safe kernels failed: {len(bad)}.</p>"
    failures = "".join(
        f"<li>{escape(item['package'])}, depth {item['depth']}, {sizes_text(item['sizes'])}, "
        f"{escape(item['policy'])}, seed {item['seed']}: {escape(item['state'])}; "
        f"{escape(item['message'])}</li>"
        for item in bad[:50]
    )
    skipped = "".join(
        f"<li>{escape(item['package'])}, depth {item['depth']}, {escape(item['variant'])}: "
        f"{item['runs']} runs under {escape(', '.join(item['policies']))}</li>"
        for item in document.get("skipped", ())
    )
    parts = [found, f"<ul>{failures}</ul>" if failures else "", _matrix(rows)]
    if skipped:
        parts.append(f"<h2>Not reached</h2><ul>{skipped}</ul>")
    if document.get("left_out"):
        parts.append(f"<p>Left out by the limit on runs: {document['left_out']}.</p>")
    parts += [_imbalance(row) + _policies(row) for row in rows]
    return "".join(parts)


def _imbalance(row: StressRow) -> str:
    """What the producer waits for a stage, against the delay of its readers."""
    series = {
        item["knob"]: [
            (float(point["amount"]), float(point["producer_cycles"]))
            for point in item["points"]
            if point["producer_cycles"] is not None
        ]
        for item in row.get("imbalance", ())
    }
    title = f"{row['package']}, depth {row['depth']}, {row['variant']}"
    plot = plots.lines(series, "delay of those that read", "cycles of an acquire", title)
    return f"<h2>{escape(title)}: stall at acquire against imbalance</h2>{plot}" if plot else ""


def _matrix(rows: Sequence[StressRow]) -> str:
    names = list(dict.fromkeys(row["variant"] for row in rows))
    packages = list(dict.fromkeys((row["package"], row["depth"]) for row in rows))
    known = {(row["package"], row["depth"], row["variant"]): row for row in rows}
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = []
    for package, depth in packages:
        cells = "".join(_cell(known.get((package, depth, name))) for name in names)
        lines.append(f"<tr><td>{escape(package)}</td><td>{depth}</td>{cells}</tr>")
    return (
        "<h2>Runs seen to fail, of all</h2><div class='scroll'><table><tr><th>package</th>"
        f"<th>depth</th>{head}</tr>{''.join(lines)}</table></div>"
    )


def _cell(row: StressRow | None) -> str:
    if row is None:
        return "<td class='quiet'>none</td>"
    failed, runs = row["seen_to_fail"], row["runs"]
    safe = row["variant"] == "safe"
    good = (failed == 0) if safe else (failed > 0)
    name = "good" if good else "bad" if safe else "part"
    states = ", ".join(f"{count} {state}" for state, count in sorted(row["states"].items()))
    return f"<td class='{name}' title='{escape(states)}'>{failed} of {runs}</td>"


def _policies(row: StressRow) -> str:
    """One package and variant: failures and, where measured, waits under each policy."""
    stalls: dict[str, list[StallRow]] = {}
    for item in row.get("stalls", ()):
        stalls.setdefault(item["policy"], []).append(item)
    most = max((item["cycles_each"] or 0 for items in stalls.values() for item in items), default=0)
    lines = []
    for policy, counts in row.get("policies", {}).items():
        bars = "".join(
            f"<div>{escape(item['role'])}: "
            f"{bar(item['cycles_each'] or 0, most, COLOURS['decides'])}</div>"
            for item in stalls.get(policy, ())
        )
        lines.append(
            f"<tr><td>{escape(policy)}</td><td>{counts['seen_to_fail']} of {counts['runs']}</td>"
            f"<td style='width:26rem'>{bars}</td></tr>"
        )
    if not lines:
        return ""
    title = f"{row['package']}, depth {row['depth']}: {row['variant']}"
    waits = "<th>cycles of one wait at a barrier</th>" if stalls else "<th></th>"
    first = f"<p class='quiet'>first: {escape(row['first'])}</p>" if row["first"] else ""
    return (
        f"<h2>{escape(title)}</h2>{first}<table><tr><th>policy</th><th>failed</th>{waits}</tr>"
        f"{''.join(lines)}</table>"
    )


# --------------------------------------------------------------------------------------- bench


def bench_page(document: BenchDocument) -> str:
    """Each package and size as a bar next to its peer; predicted against measured cycles."""
    rows = document["rows"]
    timed = [row for row in rows if row["state"] == "timed"]
    head = (
        f"{len(timed)} of {len(rows)} timed on {document['device'].get('name', '?')}, "
        f"{document['date']}"
    )
    return whole("Bench run", head, [bench_part(document)])


def bench_part(document: BenchDocument) -> str:
    """Times beside the peers', and variants, as HTML."""
    rows = document["rows"]
    wrong = [row for row in rows if row["state"] in ("wrong", "failed")]
    found = f"<p class='finding'>{len(wrong)} wrong or failed.</p>" if wrong else ""
    parts = [found, *(_timing(row) for row in rows)]
    if document.get("ablations"):
        parts += ["<h2>Variants</h2>", ablations_part(document["ablations"])]
    return "".join(parts)


def _timing(row: TimedRow) -> str:
    sizes = f", {sizes_text(row['sizes'])}" if row["sizes"] else ""
    title = f"<h2>{escape(row['package'])} ({escape(row['target'])}){sizes}</h2>"
    if row["seconds"] is None:
        return f"{title}<p class='quiet'>{escape(row['state'])}; {escape(row['message'])}</p>"
    times = {"this kernel": (row["seconds"], COLOURS["allowed"])}
    if row["peer_seconds"]:
        times[row["peer"] or "peer"] = (row["peer_seconds"], COLOURS["open"])
    slowest = max(seconds for seconds, _ in times.values())
    lines = [
        _line(name, bar(seconds, slowest, colour, f"{seconds * 1e6:,.1f} us"))
        for name, (seconds, colour) in times.items()
    ]
    if row["measured_cycles"] is not None and row["predicted_cycles"]:
        steady = row.get("steady_cycles") or 0
        most = max(row["measured_cycles"], row["predicted_cycles"], steady)
        for name, cycles in (
            ("cycles predicted", row["predicted_cycles"]),
            ("cycles measured", row["measured_cycles"]),
            ("cycles in the steady state", row.get("steady_cycles")),
        ):
            if cycles is not None:
                lines.append(_line(name, bar(cycles, most, COLOURS["decides"])))
    figures: Mapping[str, object] = row
    rates = [
        f"{rate:,.1f} {unit}"
        for rate, unit in ((row["teraflops"], "TFLOP/s"), (row["gigabytes"], "GB/s"))
        if rate is not None
    ]
    if row["ratio"] is not None:
        rates.append(f"{row['ratio']:.2f} of the speed of {row['peer']}")
    rates += [
        f"{name} {format(figures[key], form)}"
        for name, key, form in FIGURES
        if figures.get(key) is not None
    ]
    table = f"<table>{''.join(lines)}</table>"
    return f"{title}<p class='quiet'>{escape('; '.join(rates))}</p>{table}"


def _line(name: str, bar: str) -> str:
    return f"<tr><td>{escape(name)}</td><td style='width:32rem'>{bar}</td></tr>"


# --------------------------------------------------------------------------------------- suite


def suite_page(document: SuiteDocument) -> str:
    """Stress, speed, variants, machine and probes of one run, and what the time did not reach."""
    device = document["device"]
    head = f"{device.get('name', '?')}, {document['date']}"
    sections = {
        "Not reached": _left(document.get("left_out", {}), document.get("shares", {})),
        "Stress": stress_part(document["stress"]),
        "Speed": bench_part(document["bench"]),
        "Variants": ablations_part(
            document["ablations"]["rows"] if "ablations" in document else []
        ),
        "Machine description": machines_part(document.get("machines", [])),
        "Probes": probes_part(document["probes"]["probes"] if "probes" in document else []),
    }
    facts = "".join(
        f"<tr><td>{escape(str(name))}</td><td>{escape(str(value))}</td></tr>"
        for name, value in device.items()
    )
    parts = [f"<table>{facts}</table>"]
    parts += [f"<h2>{name}</h2>{text}" for name, text in sections.items() if text]
    return whole("Device suite", head, parts)


def _left(left: Mapping[str, list[str]], shares: Mapping[str, ShareRow]) -> str:
    rows = "".join(
        f"<tr><td>{escape(part)}</td><td>{item.get('given_seconds', 0):g} s</td>"
        f"<td>{item.get('taken_seconds', 0):g} s</td></tr>"
        for part, item in shares.items()
    )
    items = "".join(
        f"<li>{escape(part)}: {escape(str(name))}</li>"
        for part, names in left.items()
        for name in names
    )
    message = f"<ul>{items}</ul>" if items else "<p>The time was enough for everything.</p>"
    table = f"<table><tr><th>part</th><th>given</th><th>taken</th></tr>{rows}</table>"
    return f"{message}{table if rows else ''}"
