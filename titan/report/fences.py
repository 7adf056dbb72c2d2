"""The fences of a kernel as text and JSON: what each is for, what is missing, the cheapest set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.render import json as json_render
from titan.foundation.diagnostics.render import render
from titan.foundation.diagnostics.wording import clean, counted
from titan.verify.fence_review import PURPOSES_MAX, Review, ReviewedFence
from titan.verify.fence_text import Insertion
from titan.verify.fences import Fixed

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class FenceReport:
    """One file. `review` None: the target has no proxy fences. `written`: where --fix wrote."""

    path: str
    kernel: str
    review: Review | None
    fixed: Fixed | None = None
    problem: str = ""
    written: str = ""
    fixing: bool = False

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The diagnostics of the review; none if there was no review."""
        return self.review.diagnostics() if self.review is not None else []


def text(report: FenceReport, *, colour: bool = False) -> str:
    """The report for people."""
    name = f"{clean(report.kernel)} ({clean(report.path)})"
    if report.review is None:
        return f"{name}: the target has no proxy fences\n"
    review = report.review
    body = render("text", report.diagnostics, colour=colour) if report.diagnostics else ""
    rows = [f"{name}: {counted(len(review.fences), 'fence')}, cost {review.cost}"]
    for item in review.fences:
        rows += _fence_rows(item)
    if review.missing:
        rows.append(f"  {counted(len(review.missing), 'pair')} of accesses without a fence")
    if review.reason:
        rows.append(f"  one run does not represent all: {clean(review.reason)}")
    rows += _fixed_rows(report)
    return body + "\n".join(rows) + "\n"


def _fence_rows(item: ReviewedFence) -> list[str]:
    where = f"added at line {item.line}" if item.added else f"line {item.line}"
    state = item.state if item.state == "needed" else f"{item.state}, saves {item.saving}"
    rows = [f"  {where}: {item.text} ({item.executions} executions, cost {item.cost}; {state})"]
    rows += [f"    for {clean(purpose)}" for purpose in item.purposes[:PURPOSES_MAX]]
    if len(item.purposes) > PURPOSES_MAX:
        rows.append(f"    and {len(item.purposes) - PURPOSES_MAX} more")
    return rows


def _fixed_rows(report: FenceReport) -> list[str]:
    if report.problem:
        return [f"  {clean(report.problem)}"]
    if report.fixed is None:
        return []
    fixed = report.fixed
    verdicts = ", ".join(dict.fromkeys(finding.verdict.value for finding in fixed.findings))
    chosen = fixed.synthesis.chosen
    word = "to add" if fixed.kept else "cheapest"
    rows = [f"  {word}: {counted(len(chosen), 'fence')}, cost {fixed.synthesis.cost}; {verdicts}"]
    for item in chosen:
        place = item.place.fence
        where = (
            f"at line {place.first}" if place is not None else f"after line {item.place.line - 1}"
        )
        rows.append(f"    {where}: {' '.join(line.strip(' -') for line in item.lines())}")
    if report.written:
        rows.append(f"  written to {clean(report.written)}")
    elif report.fixing:
        why = "the file already has these fences" if fixed.verified else "it is not verified"
        rows.append(f"  nothing is written: {why}")
    return rows


def as_json(reports: Sequence[FenceReport], errors: Sequence[Diagnostic] = ()) -> str:
    """The reports for programs; `errors` are the faults of files that are not kernels."""
    rows = [_row(report) for report in reports]
    found = json.loads(json_render.render(errors))
    content = {"format": FORMAT_VERSION, "files": rows, "errors": found}
    return json.dumps(content, indent=2) + "\n"


def _row(report: FenceReport) -> dict[str, Any]:
    row: dict[str, Any] = {"path": report.path, "kernel": report.kernel}
    review = report.review
    if review is None:
        return row | {"proxies": False}
    row["diagnostics"] = json.loads(json_render.render(report.diagnostics))
    row |= {"cost": review.cost, "pairs": review.demands, "reason": review.reason}
    row["fences"] = [
        {
            "line": item.line,
            "kind": item.kind.value,
            "spaces": [space.value for space in item.spaces],
            "added_by_lowering": item.added,
            "executions": item.executions,
            "cost": item.cost,
            "state": item.state,
            "saving": item.saving,
            "purposes": item.purposes,
        }
        for item in review.fences
    ]
    row["missing"] = [
        {
            "rule": item.kind.value,
            "first": item.first,
            "second": item.second,
            "path": item.path,
            "missing": item.missing,
        }
        for item in review.missing
    ]
    if report.problem:
        row["problem"] = report.problem
    if report.fixed is not None:
        row["to_add" if report.fixed.kept else "cheapest"] = {
            "cost": report.fixed.synthesis.cost,
            "fences": [_insertion(item) for item in report.fixed.synthesis.chosen],
            "verdicts": [finding.verdict.value for finding in report.fixed.findings],
        }
    if report.written:
        row["written"] = report.written
    return row


def _insertion(item: Insertion) -> dict[str, Any]:
    return {
        "after_line": item.place.line - 1,
        "replaces_line": item.place.fence.first if item.place.fence is not None else None,
        "kind": item.kind.value,
        "spaces": [space.value for space in item.spaces],
        "when": item.when,
        "text": item.lines(),
    }
