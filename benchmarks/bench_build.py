"""What `titan build` makes of every tile program of the library, and the time that it takes.

The table of docs/reference/build.md: for each kernel and target the shape that was taken and what
was refused before, depth, roles, resources as the toolchain counts them (where it is installed),
the initiation interval over its bound, and the seconds of TITAN itself (without the toolchain)
with an empty cache of schedules and with a full one. From the root of the repository:

    python benchmarks/bench_build.py [--no-compile] [--out FILE] [--page FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from bench_library import BEGIN, END, machine  # noqa: E402

from titan.codegen.pipeline.build import BuildLimits, BuildRefused  # noqa: E402
from titan.codegen.tile.load import load_tile, targets_of  # noqa: E402
from titan.codegen.tile.model import TileProgram  # noqa: E402
from titan.package.produce import Produced, produce  # noqa: E402
from titan.package.summary import refused  # noqa: E402
from titan.scheduling.cache import explored  # noqa: E402

WHOLE = ("PTX", "machine code")
LIBRARY = ROOT / "protocols" / "tiles"
Row = dict[str, Any]


def programs() -> list[tuple[Path, TileProgram]]:
    """Every tile program of the library for each of its targets."""
    found = []
    for path in sorted(LIBRARY.glob("*.yaml")):
        found += [(path, load_tile(path, target=name)) for name in targets_of(path)]
    return found


def measure(path: Path, tile: TileProgram, folder: Path, with_compiler: bool) -> Row:
    """One row; a kernel that no shape of the list fits says why for each."""
    text = path.read_text(encoding="utf-8")
    row: Row = {"kernel": tile.name, "target": tile.target}
    seconds, searched = [], 0
    produced: Produced | None = None
    for run in ("empty cache", "full cache", "toolchain"):
        limits = BuildLimits(cache=str(folder / "schedules.sqlite"))
        asked = run == "toolchain"
        if asked and not with_compiler:
            break
        try:
            produced = produce(tile, text, folder, limits, with_toolchain=asked)
        except BuildRefused as refusal:
            steps = [f"{step.shape.name}: {step.reason}" for step in refusal.steps]
            return {**row, "built": False, "reason": str(refusal), "refused": steps}
        seconds.append(round(produced.built.seconds, 3))
        searched = max(searched, explored(produced.built.result))
    assert produced is not None
    built, manifest = produced.built, produced.emitted.manifest
    schedule = built.result.schedule
    assert schedule is not None
    coverage = built.finding.coverage
    row |= {
        "built": True,
        "shape": built.shape.name,
        "depth": built.shape.depth,
        "roles": [f"{role.agents} x {role.name}" for role in built.program.roles],
        "resources": manifest.get("resources", {}),
        "ii": schedule.ii,
        "bound": built.result.bounds.ii,
        "explored": searched,
        "verified_for": {n: v if v is None else [min(v), max(v)] for n, v in coverage.parameters},
        "refused": [f"{step.shape.name}: {step.reason}" for step in refused(built.steps)],
        "seconds_empty_cache": seconds[0],
        "seconds_full_cache": seconds[1],
    }
    if produced.figures is not None:
        row |= {
            "registers": produced.figures.registers,
            "spills": produced.figures.spill_bytes,
            "compared": produced.compared,
            "seconds_with_toolchain": seconds[2],
        }
    return row


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "| kernel | target | shape taken | roles | registers | shared KiB | fences | barriers |"
        " interval / bound | verified for | s, cache empty / full | explored |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- | --- | --- | ---: |",
    ]
    for row in rows:
        if not row["built"]:
            lines.append(
                f"| `{row['kernel']}` | {row['target']} | refused: {row['reason']} "
                + "| " * 9
                + "|"
            )
            continue
        resources = row["resources"]
        scope = [
            f"any {name}" if values is None else f"{name} {values[0]}..{values[1]}"
            for name, values in row["verified_for"].items()
        ]
        cells = [
            f"`{row['kernel']}`",
            row["target"],
            row["shape"],
            ", ".join(row["roles"]),
            str(row.get("registers", "not compiled")),
            f"{resources.get('shared_bytes', 0) / 1024:.0f}",
            str(resources.get("fences", "")),
            str(resources.get("barriers", "")),
            f"{row['ii']} / {row['bound']}",
            ", ".join(scope),
            f"{row['seconds_empty_cache']:.2f} / {row['seconds_full_cache']:.2f}",
            str(row["explored"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n" + summary(rows)


def summary(rows: list[Row]) -> str:
    """Median and 95th percentile of the seconds, and how often which fallback was taken."""
    built = [row for row in rows if row["built"]]
    lines = []
    for name, key in (("empty", "seconds_empty_cache"), ("full", "seconds_full_cache")):
        seconds = sorted(row[key] for row in built)
        if seconds:
            high = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]
            middle = statistics.median(seconds)
            lines.append(f"Cache {name}: median {middle:.2f} s, 95th percentile {high:.2f} s.")
    compared = sum(row.get("compared", "no").split(",")[0] in WHOLE for row in built)
    lines.append(f"{compared} compared with their sync programs after compilation.")
    fell = sum(bool(row["refused"]) for row in built)
    lines.append(
        f"{len(built)} of {len(rows)} built; {fell} of them not in the first shape of the list."
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--no-compile", action="store_true", help="do not ask the toolchains")
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    parser.add_argument("--only", nargs="+", default=[], metavar="PROGRAM",
                        help="measure these, and keep the other rows of --out")  # fmt: skip
    options = parser.parse_args()
    rows = []
    if options.only:
        stored = json.loads(options.out.read_text(encoding="utf-8"))["rows"]
        rows = [row for row in stored if row["kernel"] not in options.only]
    with tempfile.TemporaryDirectory() as folder:
        for path, tile in programs():
            if options.only and tile.name not in options.only:
                continue
            rows.append(measure(path, tile, Path(folder), not options.no_compile))
            print(json.dumps(rows[-1]))
            sys.stdout.flush()
    rows.sort(key=lambda row: (row["kernel"], row["target"]))
    text = table(rows)
    print(text)
    if options.out:
        data = {"benchmark": "build", "machine": machine(), "rows": rows}
        options.out.write_text(json.dumps(data, indent=1) + "\n")
    if options.page:
        page = options.page.read_text(encoding="utf-8")
        head, _, rest = page.partition(BEGIN)
        _, _, tail = rest.partition(END)
        options.page.write_text(head + BEGIN + text + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
