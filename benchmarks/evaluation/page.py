"""One page with every table and plot of the evaluation plan, stored or of a device.

What was measured without a device is in one file; every result file of `make device` adds its own
parts below the question that it answers, and fills the columns that wait for a device. A question
without a result of a device says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import cast

from benchmarks.evaluation.tables import NOT_RUN, Cell, Table
from titan.device import plots
from titan.device.documents import (
    LitmusDocument,
    StressDocument,
    SuiteDocument,
    TimedRow,
    VariantRow,
)
from titan.device.frame import whole
from titan.device.page import bench_part, litmus_page, stress_part
from titan.device.report import ablations_part, probes_part

QUESTIONS = {
    "A1": "ring buffer saturation", "A2": "wrap-around adversary", "A3": "several readers",
    "A4": "asynchronous compute hazards", "A5": "prologue, epilogue, tails",
    "A6": "proxy fences", "A7": "legality of layouts", "B1": "end-to-end", "B2": "specialisation",
    "B3": "register-aware scheduling", "B4": "minimal against conservative fences",
    "C1": "cost of counters", "C2": "semantic coverage", "D": "compile-time budget",
}  # fmt: skip
STRESSED = ("A1", "A2", "A3", "A4", "A5")
Measured = SuiteDocument | LitmusDocument


def documents(folder: Path) -> list[Measured]:
    """The result files of devices below a folder: suites and litmus runs, the oldest first."""
    found = []
    for path in sorted(folder.glob("*/*.json"), key=lambda path: path.name):
        read = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(read, dict) and read.get("kind") in ("device", "litmus"):
            found.append(read)
    return found


def page(
    tables: Sequence[Table],
    devices: Sequence[Measured],
    stress: StressDocument | None = None,
) -> str:
    """The page. `stress`: a run on the CPU."""
    suites = [cast(SuiteDocument, one) for one in devices if one["kind"] == "device"]
    litmus = [cast(LitmusDocument, one) for one in devices if one["kind"] == "litmus"]
    names = ", ".join(sorted({str(one["device"].get("name", "?")) for one in devices}))
    parts = [_contents()]
    for question, title in QUESTIONS.items():
        parts.append(f"<h2 id='{question}'>{question}: {escape(title)}</h2>")
        parts += [_table(filled(t, suites)) for t in tables if t.question == question]
        parts += _stressed(question, suites, stress)
        measured = _measured(question, suites, litmus)
        parts += measured or [f"<p class='quiet'>{NOT_RUN}</p>"]
    head = f"devices: {names}" if names else "no result of a device: every number is of a CPU"
    return whole("Evaluation", head, parts)


def _contents() -> str:
    links = (f"<a href='#{name}'>{name}</a> {escape(text)}" for name, text in QUESTIONS.items())
    return f"<p>{'; '.join(links)}</p>"


def _stressed(
    question: str, suites: Sequence[SuiteDocument], stress: StressDocument | None
) -> list[str]:
    """Stress runs stand below A1 once; A2 to A5 point there."""
    if question not in STRESSED:
        return []
    if question != STRESSED[0]:
        return ["<p>Stress runs: see <a href='#A1'>A1</a>.</p>"]
    parts = []
    if stress is not None:
        text = stress_part(stress)
        parts.append(f"<h3>stress on the emulated device ({stress['runs']} runs)</h3>{text}")
    for suite in suites:
        name = escape(str(suite["device"].get("name", "?")))
        parts.append(f"<h3>stress on {name}</h3>{stress_part(suite['stress'])}")
    return parts


def _measured(
    question: str, suites: Sequence[SuiteDocument], litmus: Sequence[LitmusDocument]
) -> list[str]:
    """What result files of devices say to a question."""
    parts = []
    for suite in suites:
        name = escape(f"{suite['device'].get('name', '?')}, {suite['date']}")
        text = ""
        if question in STRESSED:
            text = f"{suite['stress']['runs']} runs"
        elif question == "B1":
            text = bench_part(suite["bench"])
        elif question == "A6" and "probes" in suite:
            text = probes_part(suite["probes"]["probes"])
        elif question in ("B2", "B3", "B4") and "ablations" in suite:
            axis = {"B2": "specialisation", "B3": "registers", "B4": "fences"}[question]
            rows = suite["ablations"]["rows"]
            text = ablations_part([r for r in rows if r["axis"] in (axis, "product")])
        if text:
            parts.append(f"<h3>measured on {name}</h3>{text}")
    if question == "A6":
        for one in litmus:
            text = litmus_page(one)
            inner = text.partition("<body>")[2].partition("</body>")[0]
            parts.append(f"<h3>litmus tests</h3>{inner}")
    return parts


def filled(table: Table, suites: Sequence[SuiteDocument]) -> Table:
    """Columns of B1 and B4 that wait for a device, from the latest run that has them."""
    rows = list(table.rows)
    for suite in suites:
        timed = [row for row in suite["bench"]["rows"] if row["state"] == "timed"]
        best = {(row["package"], row["target"]): row for row in timed}
        if table.question == "B1":
            rows = [_with_times(table, row, best) for row in rows]
        if table.question == "B4" and "ablations" in suite:
            rows = [_with_overlap(table, row, suite["ablations"]["rows"]) for row in rows]
    return replace(table, rows=tuple(rows))


def _with_times(
    table: Table, row: tuple[Cell, ...], best: Mapping[tuple[Cell, Cell], TimedRow]
) -> tuple[Cell, ...]:
    found = best.get((row[0], row[1]))
    if found is None:
        return row
    known = dict(zip(table.columns, row, strict=True))
    for column, key, form in (
        ("TFLOP/s", "teraflops", ",.1f"), ("GB/s", "gigabytes", ",.0f"),
        ("occupancy", "occupancy", ".0%"), ("tail", "tail_share", ".1%"),
    ):  # fmt: skip
        if found.get(key) is not None:
            known[column] = format(found[key], form)
    return tuple(known.values())


def _with_overlap(
    table: Table, row: tuple[Cell, ...], variants: Sequence[VariantRow]
) -> tuple[Cell, ...]:
    """Cycles that the schedule predicts for one iteration, of those that were measured."""
    settings = {"fewest": ("product", "as built"), "conservative": ("fences", "conservative")}
    for found in variants:
        same = (found["axis"], found["setting"]) == settings.get(str(row[1]))
        cycles = found.get("steady_cycles") or found.get("measured_cycles")
        if same and found["package"] == row[0] and cycles and found["predicted_cycles"]:
            share = found["predicted_cycles"] / cycles
            text = f"{share:.1%} of the tensor core's bound ({cycles:,.0f} cycles an iteration)"
            return (*row[:-1], text)
    return row


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    plot = plots.lines(table.plot, *table.axes, table.title) if table.plot else ""
    note = f"<p class='quiet'>{escape(table.note)}</p>" if table.note else ""
    return (
        f"<h3>{escape(table.title)}</h3><p class='quiet'>{escape(table.measured)}</p>{plot}"
        f"<div class='scroll'><table><tr>{head}</tr>{body}</table></div>{note}"
    )


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
