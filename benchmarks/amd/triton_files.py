"""Writes the AMD assembly that Triton makes of a GEMM, an attention and a softmax, with launches.

    PYTHON benchmarks/amd/triton_files.py FOLDER [--wide] [--gfx1250]

`--gfx1250`: for that target alone. `--wide`: also attention of head dimension 128, and attention in
bf16, which `bench_amd_loops.py` counts.
PYTHON has Triton; no GPU is needed. `python -m benchmarks.amd_code FOLDER` judges the files.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = ("gfx942", "gfx950")
LATER = "gfx1250"


@triton.jit
def gemm(a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr):
    """c = a @ b by pointers; with eight warps Triton makes halves that alternate."""
    across = tl.cdiv(n, COLUMNS)
    place = tl.program_id(0)
    rows = place // across * ROWS + tl.arange(0, ROWS)
    columns = place % across * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, INNER)
    left = a + (rows % m)[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + (columns % n)[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, k, INNER):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += INNER
        right += INNER * n
    whole = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16), mask=whole)


@triton.jit
def attention(q, k, v, o, keys, scale, WIDTH: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr):
    """Softmax of q @ k.T, times v, over one block of queries."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    width, tile = tl.arange(0, WIDTH), tl.arange(0, TILE)
    queries = tl.load(q + rows[:, None] * WIDTH + width[None, :])
    largest = tl.full([ROWS], float("-inf"), dtype=tl.float32)
    weight = tl.zeros([ROWS], dtype=tl.float32)
    total = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    for at in range(0, keys, TILE):
        left = tl.load(k + (at + tile)[None, :] * WIDTH + width[:, None])
        scores = tl.dot(queries, left) * scale
        new = tl.maximum(largest, tl.max(scores, 1))
        parts = tl.math.exp2(scores - new[:, None])
        shrink = tl.math.exp2(largest - new)
        weight = weight * shrink + tl.sum(parts, 1)
        values = tl.load(v + (at + tile)[:, None] * WIDTH + width[None, :])
        total = tl.dot(parts.to(values.dtype), values, total * shrink[:, None])
        largest = new
    done = (total / weight[:, None]).to(o.dtype.element_ty)
    tl.store(o + rows[:, None] * WIDTH + width[None, :], done)


@triton.jit
def softmax(source, to, n, WIDTH: tl.constexpr):
    """One row a work-group."""
    row, columns = tl.program_id(0), tl.arange(0, WIDTH)
    inside = columns < n
    values = tl.load(source + row * n + columns, mask=inside, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(to + row * n + columns, values / tl.sum(values, 0), mask=inside)


class Wanted(NamedTuple):
    """A kernel to compile, and its launch; `values` in the order of the parameters."""

    name: str
    kernel: object
    constants: Mapping[str, int]
    values: Mapping[str, str | int | float]
    grid: int
    warps: int = 4
    stages: int = 2


def _wanted(wide: bool) -> list[Wanted]:
    tiles = {"ROWS": 128, "COLUMNS": 128, "INNER": 64}
    arrays = dict.fromkeys("abc", "*fp16")
    sizes = {"m": 256, "n": 256, "k": 320}
    found = [
        Wanted(f"gemm_{stages}_stages", gemm, tiles, arrays | sizes, 4, stages=stages)
        for stages in (1, 2, 3, 4)
    ]
    squares = {"ROWS": 256, "COLUMNS": 256, "INNER": 64}
    twice = {"m": 512, "n": 512, "k": 320}
    found.append(Wanted("gemm_8_waves", gemm, squares, arrays | twice, 4, warps=8))
    block = {"WIDTH": 64, "ROWS": 128, "TILE": 64}
    rest = dict.fromkeys("qkvo", "*fp16") | {"keys": 320, "scale": 0.125}
    found += [
        Wanted(f"attention_{stages}_stages", attention, block, rest, 2, stages=stages)
        for stages in (1, 2, 3)
    ]
    if wide:
        other = dict.fromkeys("qkvo", "*bf16") | {"keys": 320, "scale": 0.125}
        large = block | {"WIDTH": 128}
        found += [
            Wanted("attention_128_2_stages", attention, large, rest, 2),
            Wanted("attention_128_bf16_2_stages", attention, large, other, 2),
            Wanted("attention_bf16_2_stages", attention, block, other, 2),
        ]
    values = {"source": "*fp32", "to": "*fp32", "n": 400}
    found.append(Wanted("softmax", softmax, {"WIDTH": 512}, values, 4))
    return found


def _write(folder: Path, wanted: Wanted, target: str) -> None:
    kinds = {int: "i32", float: "fp32"}
    signature = {
        name: value if isinstance(value, str) else kinds[type(value)]
        for name, value in wanted.values.items()
    }
    attributes = {
        (at,): [["tt.divisibility", 16]]
        for at, value in enumerate(wanted.values.values())
        if isinstance(value, str) or value % 16 == 0
    }
    source = ASTSource(
        fn=wanted.kernel,
        signature=signature | dict.fromkeys(wanted.constants, "constexpr"),
        constexprs=dict(wanted.constants),
        attrs=attributes,
    )
    options = {"num_warps": wanted.warps, "num_stages": wanted.stages}
    lanes = 32 if target == LATER else 64
    made = triton.compile(source, target=GPUTarget("hip", target, lanes), options=options)
    given = ["pointer" if isinstance(one, str) else str(one) for one in wanted.values.values()]
    launch = (
        f"grid: {wanted.grid}\nblock: {lanes * wanted.warps}\n"
        f"dynamic_shared: {made.metadata.shared}\n"
        f"parameters: [{', '.join([*given, 'pointer', 'pointer'])}]\n"
    )
    place = folder / f"{wanted.name}_{target}.s"
    place.write_text(made.asm["amdgcn"], encoding="utf-8")
    place.with_suffix(".launch.yaml").write_text(launch, encoding="utf-8")


def main() -> None:
    """Write the files into the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for wanted in _wanted("--wide" in sys.argv[2:]):
        for target in (LATER,) if "--gfx1250" in sys.argv[2:] else TARGETS:
            _write(folder, wanted, target)


if __name__ == "__main__":
    main()
