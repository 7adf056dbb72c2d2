"""The result of `titan stress` in the formats of reports, a check for each package and variant.

What depends on the machine or the day (device, date, cycles) is in `--result` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from titan.cli.output import CI_FORMATS, for_ci

if TYPE_CHECKING:
    from titan.device.documents import StressDocument, StressRow
    from titan.report.checks import Check

FORMAT_VERSION = 1
_LEFT_OUT = ("stalls", "imbalance")


def render(data: StressDocument, format_name: str) -> str:
    """The result in a format of `text`, `concise`, `json` and those of CI systems."""
    if format_name in CI_FORMATS:
        return for_ci(checks(data), format_name)
    if format_name == "json":
        return _document(data)
    rows = [*_lines(data)] if format_name == "text" else []
    return "".join(line + "\n" for line in (*rows, _sum(data)))


def checks(data: StressDocument) -> Iterator[Check]:
    """A check for each package and variant, and for those that were not reached."""
    from titan.device.variants import SAFE
    from titan.foundation.verdict import Verdict
    from titan.report.checks import Check

    for row in data["rows"]:
        failure = ""
        verdict = Verdict.VERIFIED
        if row["variant"] == SAFE and row["seen_to_fail"]:
            verdict, failure = Verdict.REFUTED, "safe kernel failed"
        elif "not run" in row["states"]:
            verdict, failure = Verdict.UNDECIDED, "not run"
        name = f"depth {row['depth']}, {row['variant']}"
        yield Check(row["package"], name, verdict, _message(row), failure=failure)
    for late in data["skipped"]:
        text = f"the time did not reach {late['runs']} runs"
        name = f"depth {late['depth']}, {late['variant']}"
        yield Check(late["package"], name, Verdict.UNDECIDED, text)


def _message(row: StressRow) -> str:
    states = ", ".join(f"{count} {state}" for state, count in sorted(row["states"].items()))
    return states + (f"; first: {row['first']}" if row["first"] else "")


def _lines(data: StressDocument) -> Iterator[str]:
    for row in data["rows"]:
        yield f"{row['package']} depth {row['depth']}, {row['variant']}: {_message(row)}"
    for late in data["skipped"]:
        name = f"{late['package']} depth {late['depth']}, {late['variant']}"
        yield f"{name}: the time did not reach {late['runs']} runs"


def _sum(data: StressDocument) -> str:
    return (
        f"{data['runs']} runs; safe kernels failed {len(data['safe_failures'])} times; "
        f"{data['unsafe_seen_to_fail']} of {data['unsafe_variants']} unsafe variants seen to fail"
        + (f"; {data['not_run']} could not be run" if data["not_run"] else "")
        + (f"; {data['left_out']:,} runs left out (--runs)" if data.get("left_out") else "")
    )


def _document(data: StressDocument) -> str:
    rows = [
        {key: value for key, value in row.items() if key not in _LEFT_OUT} for row in data["rows"]
    ]
    content = {
        "version": FORMAT_VERSION,
        "runs": data["runs"],
        "not_run": data["not_run"],
        "safe_failures": data["safe_failures"],
        "unsafe_variants": data["unsafe_variants"],
        "unsafe_seen_to_fail": data["unsafe_seen_to_fail"],
        "skipped": data["skipped"],
        "left_out": data.get("left_out", 0),
        "rows": rows,
    }
    return json.dumps(content, indent=2) + "\n"
