"""Time to the verdict on every kernel of the library, and the table of docs/reference/library.md.

Each kernel is verified with the options that `titan verify` has by default; seconds are the median
over the runs, in one process, from the decoded kernel to the verdict of all engines. From the root
of the repository:

    python benchmarks/bench_library.py [--runs N] [--out FILE] [--page FILE]

`--out` takes the rows with the machine that they were measured on (benchmarks/results/library.json
holds the last ones), `--page` the table, between its two marks; give both, or the two differ.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from titan.foundation.verdict import Verdict  # noqa: E402
from titan.language.kernel.decode import decode_text  # noqa: E402
from titan.language.kernel.model import Kernel  # noqa: E402
from titan.sync.control import agents_of  # noqa: E402
from titan.verify.lowering import sync_program  # noqa: E402
from titan.verify.model import VerifyOptions  # noqa: E402
from titan.verify.pipeline import verify_kernel  # noqa: E402

LIBRARY = ROOT / "protocols"
RESULTS = ROOT / "benchmarks" / "results" / "library.json"
OPTIONS = VerifyOptions(save_traces=None)
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
Row = dict[str, Any]


def kernels() -> list[Kernel]:
    """All kernels of the library, in the order of the files."""
    found: list[Kernel] = []
    for path in sorted(LIBRARY.glob("*.yaml")):
        family, diagnostics = decode_text(path.read_text(encoding="utf-8"), path.name)
        assert family is not None, diagnostics
        found += family.kernels
    return found


def measure(kernel: Kernel, runs: int) -> Row:
    """One row: what the kernel is, what the engines said, and the median of their seconds."""
    findings = [verify_kernel(kernel, OPTIONS) for _ in range(runs)]
    finding = findings[-1]
    coverage = finding.coverage
    minimums = dict(coverage.minimums)
    explorer = next(report for report in finding.engines if report.engine == "explorer")
    return {
        "kernel": kernel.name,
        "models": kernel.note.split(". ")[0].rstrip(". \n").replace("\n", " "),
        "target": kernel.target,
        "sizes": dict(coverage.sizes),
        "verdict": finding.verdict.value,
        "open": {n: minimums[n] for n, values in coverage.parameters if values is None},
        "bounded": {n: list(values) for n, values in coverage.parameters if values is not None},
        "agents": len(agents_of(sync_program(kernel).program)),
        "ctas": coverage.ctas,
        "states": explorer.states,
        "verified_by": [r.engine for r in finding.engines if r.verdict is Verdict.VERIFIED],
        "happens_before_sizes": {
            name: [min(values), max(values)]
            for report in finding.engines
            if report.engine == "happens-before"
            for name, values in report.sizes
            if values
        },
        "seconds": round(statistics.median(each.seconds for each in findings), 4),
    }


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "| kernel | models | target | fixed sizes | verdict | open sizes | agents | states |"
        " seconds | verified by |",
        "| --- | --- | --- | --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        fixed = ", ".join(f"{name} {value}" for name, value in row["sizes"].items())
        left = [f"any {name} ≥ {least}" for name, least in row["open"].items()]
        left += [f"{name} = {min(v)}..{max(v)} only" for name, v in row["bounded"].items()]
        spans = row["happens_before_sizes"].items()
        span = ", ".join(f"{name} {first}..{last}" for name, (first, last) in spans)
        engines = [
            f"{engine} ({span})" if engine == "happens-before" and span else engine
            for engine in row["verified_by"]
        ]
        cells = [
            f"`{row['kernel']}`", row["models"], row["target"], fixed or "none", row["verdict"],
            ", ".join(left), str(row["agents"]), f"{row['states']:,}", f"{row['seconds']:.3f}",
            ", ".join(engines),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def machine() -> Row:
    """What the numbers were measured on."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    options = parser.parse_args()
    rows = []
    for kernel in kernels():
        rows.append(measure(kernel, options.runs))
        print(f"{kernel.name:26} {rows[-1]['states']:>9} states {rows[-1]['seconds']:8.3f} s")
    report = {"machine": machine(), "runs": options.runs, "kernels": rows}
    if options.out is not None:
        text = json.dumps(report, indent=1, ensure_ascii=False)
        options.out.write_text(text + "\n", encoding="utf-8")
    if options.page is not None:
        text = options.page.read_text(encoding="utf-8")
        head, rest = text.split(BEGIN)
        tail = rest.split(END)[1]
        options.page.write_text(head + BEGIN + table(rows) + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
