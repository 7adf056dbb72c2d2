"""What the emitted kernels for sm_90a might reach beside cuBLAS and FlashAttention-3: an estimate.

    python benchmarks/bench_estimate.py [--page docs/reference/sass.md]

Nothing is measured. Both sides are put into one model (titan/codegen/tile/roofline.py): ours with
our tiles and instructions, the peer with its own. cuBLAS publishes no code: the strongest kernel of
CUTLASS for the problem stands in for it, tiles of 128 x 256, pairs of CTAs, persistent, with the
instructions of its main loop that were counted (benchmarks/results/sass.json). Two bounds: all
resources overlap, or no instruction is issued while the tensor cores work; to both the time of the
epilogue is added where the next tile does not overlap it. What both sides have alike (clocks under
load, misses of the L2 cache, launches) cancels in the ratio; what one of them has alone is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from bench_roofline import ATTENTION, GEMM, STORED, TARGET, bounds  # noqa: E402
from pages import write_between  # noqa: E402

from titan.codegen.tile.alternation import may_alternate  # noqa: E402
from titan.codegen.tile.load import load_tile  # noqa: E402
from titan.codegen.tile.roofline import TENSOR_CORES, Roofline  # noqa: E402

SHORT = {**GEMM, "K": 512}  # a long way to the end of a tile beside its iterations
BEGIN, END = "<!-- estimate -->\n", "<!-- end of estimate -->\n"
ISSUE = "issue slots"


@dataclass(frozen=True, slots=True)
class EstimatedKernel:
    """A kernel in the model: a tile program that has its tiles, the row of counts that has its
    instructions, and whether the next tile overlaps its epilogue (ping-pong)."""

    name: str
    tile: str
    counted: str
    overlapped: bool = False


CUBLAS = EstimatedKernel("cuBLAS", "gemm_large", "CUTLASS 128x128x64, cluster 2", overlapped=True)
FLASH = EstimatedKernel("FlashAttention-3", "attention_forward", "FlashAttention-3 (FlashInfer)")
FLASH_DSL = EstimatedKernel(
    "FlashAttention in CuTe DSL", "attention_forward", "FlashAttention (CuTe DSL)"
)
LONG = "16 heads of 128, 16384 queries and keys, bf16"
PROBLEMS = (
    *(("8192 x 8192 x 8192, bf16", GEMM, name, CUBLAS)
      for name in ("gemm", "gemm_cluster2", "gemm_persistent", "gemm_large", "gemm_ping_pong")),
    *(("8192 x 8192 x 512, bf16", SHORT, name, CUBLAS)
      for name in ("gemm_persistent", "gemm_large", "gemm_ping_pong")),
    *((LONG, ATTENTION, "attention_forward", peer) for peer in (FLASH, FLASH_DSL)),
)  # fmt: skip


def ends_hidden(name: str) -> bool:
    """Whether the products of the next tile run beside the end of one."""
    return may_alternate(load_tile(ROOT / "protocols" / "tiles" / f"{name}.yaml", target=TARGET))


def least_of(counted: str, problem: str) -> tuple[float, int]:
    """Instructions for each tensor-core instruction on the shortest way, and how many of these the
    main loop has."""
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    row = next(r for r in rows if r["kernel"] == counted and r["problem"].startswith(problem))
    return row["least"] / row["tensor"], row["tensor"]


def in_model(kernel: EstimatedKernel, sizes: dict[str, int], problem: str) -> Roofline:
    """The kernel's bounds; instructions by those of its products that the tile program has."""
    _, products = least_of(f"`{kernel.tile}`, after", problem)
    each, _ = least_of(kernel.counted, problem)
    return bounds(kernel.tile, sizes, round(each * products))


def share(kernel: EstimatedKernel, model: Roofline, apart: bool) -> float:
    """The share of the tensor cores' peak; `apart`: nothing is issued while they work."""
    cycles = dict(model.cycles)
    if apart:
        cycles[TENSOR_CORES + " and issue"] = cycles[TENSOR_CORES] + cycles[ISSUE]
    return replace(model, cycles=cycles, persistent=kernel.overlapped).share


def table() -> str:
    """The estimates as Markdown."""
    lines = [
        "| problem | kernel | beside | of peak, all overlapped: ours / theirs |"
        " of peak, issue apart: ours / theirs | estimate, of theirs |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for words, sizes, name, peer in PROBLEMS:
        problem = "attention 128" if sizes is ATTENTION else "gemm"
        ours = EstimatedKernel(name, name, f"`{name}`, after", ends_hidden(name))
        pairs = []
        for apart in (False, True):
            pairs.append([share(one, in_model(one, sizes, problem), apart) for one in (ours, peer)])
        cells = [f"{100 * one:.0f} / {100 * two:.0f} %" for one, two in pairs]
        ratios = sorted(100 * one / two for one, two in pairs)
        lines.append(
            f"| {words} | `{name}` | {peer.name} | {cells[0]} | {cells[1]} |"
            f" {ratios[0]:.0f} to {ratios[1]:.0f} % |"
        )
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
