"""What the loops of products in tensor memory cost (sm_100a): a table of docs/reference/sass.md.

One thread issues products there, and copies of their scales; its loop is the one with the most
products of the tensor cores. All kernels of a problem have the same tile of a product.
`bench_sass.py` measures and writes it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from titan.foundation.errors import TitanError
from titan.inspect import machine
from titan.inspect.counts import count

BEGIN, END = "<!-- issuer -->", "<!-- end of issuer -->"
ONE, WIDE, PAIR = "128 x 128 by one CTA", "128 x 256 by one CTA", "256 x 256 by a pair"
ALONG_N = f"{PAIR}, rows of B along N"
DENSE = {
    "gemm": ("bf16", WIDE), "gemm_persistent": ("bf16", ONE), "gemm_launch_control": ("bf16", ONE),
    "gemm_large": ("bf16", PAIR), "gemm_large_nn": ("bf16", ALONG_N), "gemm_fp8": ("fp8", ONE),
}  # fmt: skip
SCALED = {
    f"gemm_{kind}{more}": (kind, product)
    for kind in ("mxf8", "mxf4", "nvf4")
    for more, product in (("", ONE), ("_wide", WIDE), ("_pair", PAIR))
}
OURS = DENSE | SCALED
PEERS = {
    "cutlass_bf16": ("bf16", WIDE),
    "cutlass_bf16_pair_along_n": ("bf16", ALONG_N),
    **{f"cutlass_{kind}_pair": (kind, PAIR) for kind in ("bf16", "mxf8", "mxf4", "nvf4")},
}
Row = dict[str, object]


def row_of(path: Path, problem: str, who: str, assembler: Path | None) -> Row | None:
    """The counts of the loop with the products; None where there is none."""
    compiler, figures, functions = machine.read(path, assembler)
    counted = [one for one in map(count, functions) if one.main is not None]
    if not counted or figures is None:
        return None
    kernel = max(counted, key=lambda one: one.main.tensor if one.main else 0)
    loop = kernel.main
    assert loop is not None
    return {
        "problem": problem, "kernel": who, "compiler": compiler, "tensor": loop.tensor,
        "instructions": loop.instructions, "least": loop.least,
        "fences": sum(sum(one.fences.values()) for one in kernel.loops),
        "registers": figures.registers, "spill_bytes": figures.spill_bytes,
        "whole": kernel.instructions,
    }  # fmt: skip


def rows(arguments: argparse.Namespace) -> list[Row]:
    """All rows, those of one problem together."""
    wanted: list[tuple[Path, str, str]] = []
    for text in arguments.packages:
        _, _, folder = text.partition("=")
        for name, problem in OURS.items():
            package = Path(folder) / f"{name}_sm_100a-sm_100a"
            wanted.append((package, ", ".join(problem), f"`{name}_sm_100a`"))
    if arguments.peers is not None:
        wanted += [
            (arguments.peers / f"{file}.ptx", ", ".join(problem), "CUTLASS")
            for file, problem in PEERS.items()
        ]
    order = list(dict.fromkeys(problem for _, problem, _ in wanted))
    found: list[Row] = []
    for path, problem, who in sorted(wanted, key=lambda one: order.index(one[1])):
        try:
            row = row_of(path, problem, who, arguments.ptxas) if path.exists() else None
        except TitanError as reason:
            print(f"{who}: {reason}", file=sys.stderr)
            continue
        if row is not None:
            found.append(row)
    return found


def table(found: list[Row]) -> str:
    """The table as Markdown."""
    lines = [
        "| problem | kernel | loop: instructions (shortest way) | products | instructions for each"
        " (shortest way) | costly fences | whole kernel | registers, spilled bytes |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        numbers = [row[name] for name in ("instructions", "least", "tensor")]
        every, least, tensor = (int(str(number)) for number in numbers)
        lines.append(
            f"| {row['problem']} | {row['kernel']} | {every} ({least}) | {tensor}"
            f" | {every / tensor:.1f} ({least / tensor:.1f}) | {row['fences']} | {row['whole']}"
            f" | {row['registers']}, {row['spill_bytes']} |"
        )
    compilers = ", ".join(dict.fromkeys(str(row["compiler"]) for row in found))
    return "\n".join([*lines, "", f"Assembled by {compilers}."]) + "\n"
