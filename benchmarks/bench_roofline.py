"""What bounds the emitted kernels for sm_90a, by the machine: a table of docs/reference/sass.md.

    python benchmarks/bench_roofline.py [--page docs/reference/sass.md]

The model is that of titan/codegen/tile/roofline.py, for large problems; issue slots come from the
counts of the machine code (benchmarks/results/sass.json).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from pages import write_between  # noqa: E402

from titan.codegen.tile.load import load_tile  # noqa: E402
from titan.codegen.tile.roofline import PROCESSORS, Roofline, iteration_cycles  # noqa: E402
from titan.sync.expression import evaluate  # noqa: E402

BEGIN, END = "<!-- roofline -->\n", "<!-- end of roofline -->\n"
STORED = ROOT / "benchmarks" / "results" / "sass.json"
TARGET = "sm_90a"
GEMM = {"M": 8192, "N": 8192, "K": 8192}
ATTENTION = {"heads": 16, "queries": 16384, "keys": 16384}
KERNELS = (("gemm", GEMM), ("gemm_cluster2", GEMM), ("gemm_persistent", GEMM),
           ("gemm_large", GEMM), ("gemm_ping_pong", GEMM),
           ("attention_forward", ATTENTION))  # fmt: skip


def bounds(kernel: str, sizes: dict[str, int], least: int) -> Roofline:
    """The bounds of a tile program; `least`: instructions of its main loop, the shortest way."""
    tile = load_tile(ROOT / "protocols" / "tiles" / f"{kernel}.yaml", target=TARGET)
    names = {**dict(tile.sizes), **sizes}
    items = 1
    for dimension in tile.work:
        items *= evaluate(dimension.count, names)
    trips = evaluate(tile.trip_count, names)
    return Roofline(
        iteration_cycles(tile, least), trips, items, PROCESSORS[TARGET], tile.persistent,
        tile.cluster,
    )  # fmt: skip


def least_of(kernel: str) -> int:
    """Instructions on the shortest way around the main loop, as they were counted last."""
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    return int(next(row["least"] for row in rows if row["kernel"] == f"`{kernel}`, after"))


def table() -> str:
    """The bounds as Markdown."""
    found = {kernel: bounds(kernel, sizes, least_of(kernel)) for kernel, sizes in KERNELS}
    resources = list(next(iter(found.values())).cycles)
    lines = [
        f"| kernel | {' | '.join(resources)} | bound by | of peak, at most |",
        "| --- |" + " ---: |" * len(resources) + " --- | ---: |",
    ]
    for kernel, item in found.items():
        numbers = " | ".join(f"{item.cycles[name]:.0f}" for name in resources)
        lines.append(f"| `{kernel}` | {numbers} | {item.limit} | {100 * item.share:.0f} % |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the table, and write it where a page is given."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    text = table()
    print(text)
    if arguments.page is not None:
        write_between(arguments.page, BEGIN, END, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
