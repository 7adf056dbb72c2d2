"""Packages for tests, built once: a small GEMM without and with persistence."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from titan.codegen.emit.write import Emitted, emit
from titan.codegen.pipeline.build import BuildLimits, build
from titan.codegen.pipeline.model import Built
from titan.codegen.tile.load import parse_tile
from titan.package import contents
from titan.package.certificate import digests, sealed

GEMM = """\
titan: 1
tile: small_gemm
target: sm_90a
sizes: {M: any, N: any, K: any, rows: 128, columns: 64, k_tile: 64}
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, output: true}
work: {m: (M + rows - 1) // rows, n: (N + columns - 1) // columns}
groups: 2
loop: {k: (K + k_tile - 1) // k_tile}
depth: 2
carried:
  acc: {shape: [rows, columns], initial: 0, next: acc_next}
body:
  - a: {load: "A[m * rows, k * k_tile]", tile: [rows, k_tile]}
  - b: {load: "B[n * columns, k * k_tile]", tile: [columns, k_tile]}
  - acc_next: {mma: [a, b.T], add: acc}
after:
  - narrow: {convert: acc, to: bf16}
  - c: {store: narrow, to: "C[m * rows, n * columns]"}
"""


@cache
def built(text: str = GEMM) -> tuple[Built, Emitted]:
    made = build(parse_tile(text), text, BuildLimits())
    return made, emit(made.tile, made.kernel, made.program)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def forged(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with every digest of the certificate made anew: a forger who knows the format."""
    data: dict[str, Any] = json.loads(files[contents.CERTIFICATE])
    others = {name: raw for name, raw in files.items() if name != contents.CERTIFICATE}
    data["files"] = digests(others)
    return {**others, contents.CERTIFICATE: contents.to_json(sealed(data))}
