"""What bounds the emitted kernels for sm_90a, by the machine: a table of docs/reference/sass.md.

    python benchmarks/bench_roofline.py [--page docs/reference/sass.md]

For a large problem, the cycles of one iteration on a multiprocessor at each resource: tensor cores
and reads of their operands from the tile program, issue slots from the counts of the machine code
(benchmarks/results/sass.json), loads through the L2 cache from the tile program and its clusters.
The largest of them, the waves of CTAs and a constant for the beginning and the end of a work item
bound the share of the tensor cores' peak from above. A model and no measurement: its rates are
those of backends/sm_90a/rates.yaml, latencies are taken as hidden.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from pages import write_between  # noqa: E402

from titan.codegen.emit.names import DTYPE_BYTES  # noqa: E402
from titan.codegen.tile.load import load_tile  # noqa: E402
from titan.codegen.tile.model import TileOperation, TileProgram, ValuePlace  # noqa: E402
from titan.codegen.tile.rates import rates as rates_of  # noqa: E402
from titan.runtime.library import FILL_CYCLES  # noqa: E402
from titan.sync.expression import evaluate, names_of  # noqa: E402

BEGIN, END = "<!-- roofline -->\n", "<!-- end of roofline -->\n"
STORED = ROOT / "benchmarks" / "results" / "sass.json"
TARGET = "sm_90a"
PROCESSORS = 132  # of an H100 SXM
EXPONENTIALS = ("exp2", "log2")  # what takes the special function units
INSTRUCTION_ROWS = 64  # wgmma: the right operand is read once for so many rows
GEMM = {"M": 8192, "N": 8192, "K": 8192}
ATTENTION = {"heads": 16, "queries": 16384, "keys": 16384}
KERNELS = (("gemm", GEMM), ("gemm_cluster2", GEMM), ("gemm_persistent", GEMM),
           ("gemm_large", GEMM), ("attention_forward", ATTENTION))  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelBounds:
    """Cycles of one iteration on a multiprocessor by resource; work items and their iterations."""

    kernel: str
    cycles: dict[str, float]
    items: int
    trips: int
    persistent: bool
    cluster: int

    @property
    def limit(self) -> str:
        """The resource that an iteration takes longest at; the tensor cores where several do."""
        most = max(self.cycles.values())
        return next(name for name, cycles in self.cycles.items() if cycles == most)

    @property
    def share(self) -> float:
        """The share of the tensor cores' peak, at most."""
        at_once = PROCESSORS // self.cluster * self.cluster
        waves = -(-self.items // at_once)
        fills = 1 if self.persistent else waves
        total = waves * self.trips * max(self.cycles.values()) + fills * FILL_CYCLES
        return self.items * self.trips * self.cycles["tensor cores"] / (PROCESSORS * total)


def value_bytes(tile: TileProgram, name: str) -> int:
    """The size of a value in bytes."""
    value = tile.operation(name).value
    return value.rows * value.columns * DTYPE_BYTES[value.dtype]


def contraction(tile: TileProgram, product: TileOperation) -> int:
    """The extent that a product sums over: the columns of its left operand as it enters."""
    left = tile.operation(product.operands[0]).value
    return left.rows if product.transpose and product.transpose[0] else left.columns


def operand_bytes(tile: TileProgram, product: TileOperation) -> int:
    """Bytes of shared memory that a product reads: left operands once, right ones by 64 rows."""
    left, right = product.operands[:2]
    of_left = tile.operation(left).value.place is ValuePlace.SHARED
    repeats = product.value.rows // INSTRUCTION_ROWS
    return repeats * value_bytes(tile, right) + (value_bytes(tile, left) if of_left else 0)


def global_bytes(tile: TileProgram, load: TileOperation) -> float:
    """Bytes that a CTA fetches: its part where the CTAs of its cluster want the same tile."""
    last = tile.work[-1].name
    own = any(last in names_of(offset) for offset in load.tensor_view.offsets)
    return value_bytes(tile, load.name) / (1 if own else tile.cluster)


def bounds(kernel: str, sizes: dict[str, int], least: int) -> KernelBounds:
    """The bounds of a tile program; `least`: instructions of its main loop, the shortest way.

    Each of the four schedulers of a multiprocessor issues for one warp of every warpgroup.
    """
    tile = load_tile(ROOT / "protocols" / "tiles" / f"{kernel}.yaml", target=TARGET)
    rates = rates_of(TARGET)
    products = [item for item in tile.body if item.kind == "mma"]
    loads = [item for item in tile.body if item.kind == "load"]
    names = {**dict(tile.sizes), **sizes}
    items = 1
    for dimension in tile.work:
        items *= evaluate(dimension.count, names)
    multiplied = sum(
        item.value.rows * item.value.columns * contraction(tile, item) for item in products
    )
    loaded = sum(value_bytes(tile, item.name) for item in loads)
    read = sum(operand_bytes(tile, item) for item in products)
    exponentials = sum(
        item.value.rows * item.value.columns for item in tile.body if item.kind in EXPONENTIALS
    )
    dtype = tile.operation(products[0].operands[1]).value.dtype
    cycles = {
        "tensor cores": multiplied / rates.matrix.per_cycle[dtype],
        "issue slots": float(least * tile.groups),
        "special functions": exponentials / dict(rates.classes["exponential"].uses)["SFU"],
        "shared memory": (read + loaded) / rates.shared.bytes_per_cycle,
        "L2 to shared memory": sum(global_bytes(tile, item) for item in loads)
        / rates.global_memory.bytes_per_cycle,
    }  # fmt: skip
    trips = evaluate(tile.trip_count, names)
    return KernelBounds(kernel, cycles, items, trips, tile.persistent, tile.cluster)


def least_of(kernel: str) -> int:
    """Instructions on the shortest way around the main loop, as they were counted last."""
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    return int(next(row["least"] for row in rows if row["kernel"] == f"`{kernel}`, after"))


def table() -> str:
    """The bounds as Markdown."""
    found = [bounds(kernel, sizes, least_of(kernel)) for kernel, sizes in KERNELS]
    resources = list(found[0].cycles)
    lines = [
        f"| kernel | {' | '.join(resources)} | bound by | of peak, at most |",
        "| --- |" + " ---: |" * len(resources) + " --- | ---: |",
    ]
    for item in found:
        numbers = " | ".join(f"{item.cycles[name]:.0f}" for name in resources)
        lines.append(f"| `{item.kernel}` | {numbers} | {item.limit} | {100 * item.share:.0f} % |")
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
