"""How long `titan gate` takes on 200 packages that are built here, cold and with kept verdicts.

    python -m benchmarks.bench_gate [COUNT]

The packages differ in name, tile, depth and epilogue; every eighth is persistent or an attention
kernel. Written to a temporary folder. Prints seconds and how many verdicts were recomputed.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path

from titan.codegen.emit.write import emit
from titan.codegen.pipeline.build import BuildLimits, build
from titan.codegen.tile.load import parse_tile
from titan.foundation.resources import root
from titan.package.gate import find, gate
from titan.package.write import write_package

GEMM = """\
titan: 1
tile: {name}
target: sm_90a
sizes: {{M: any, N: any, K: any, rows: 128, columns: {columns}, k_tile: 64}}
tensors:
  A: {{shape: [M, K], dtype: bf16}}
  B: {{shape: [N, K], dtype: bf16}}
  C: {{shape: [M, N], dtype: bf16, output: true}}
work: {{m: (M + rows - 1) // rows, n: (N + columns - 1) // columns}}
groups: 2
loop: {{k: (K + k_tile - 1) // k_tile}}
depth: {depth}
carried:
  acc: {{shape: [rows, columns], initial: 0, next: acc_next}}
body:
  - a: {{load: "A[m * rows, k * k_tile]", tile: [rows, k_tile]}}
  - b: {{load: "B[n * columns, k * k_tile]", tile: [columns, k_tile]}}
  - acc_next: {{mma: [a, b.T], add: acc}}
after:
{epilogue}
  - c: {{store: narrow, to: "C[m * rows, n * columns]"}}
"""
EPILOGUES = (
    "  - narrow: {convert: acc, to: bf16}",
    "  - active: {activation: acc, function: gelu}\n  - narrow: {convert: active, to: bf16}",
)


def texts(count: int) -> list[str]:
    """Tile programs, all with names of their own."""
    shapes = itertools.cycle(itertools.product((64, 128, 192), (2, 3, 4), EPILOGUES))
    library = [
        (root("protocols") / "tiles" / f"{name}.yaml").read_text(encoding="utf-8")
        for name in ("attention_forward", "gemm_bias_gelu")
    ]
    found = []
    for number in range(count):
        columns, depth, epilogue = next(shapes)
        if number % 8 == 7:
            found.append(library[number // 8 % len(library)])
        else:
            found.append(
                GEMM.format(name=f"gemm_{number}", columns=columns, depth=depth, epilogue=epilogue)
            )
    return found


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = {}
        for number, text in enumerate(texts(count)):
            if text not in made:
                built = build(parse_tile(text, target="sm_90a"), text, BuildLimits())
                made[text] = built, emit(built.tile, built.kernel, built.program)
            write_package(place / "packages" / f"{number:03}", *made[text])
        items = find((str(place / "packages"),))
        cache = str(place / "gate.sqlite")
        for what, path in (("cold", cache), ("kept", cache), ("cold, nothing kept", None)):
            begin = time.monotonic()
            judged = list(gate(items, cache=path))
            sources = [item.verdict for item in judged]
            told = ", ".join(f"{sources.count(s)} {s}" for s in dict.fromkeys(sources))
            failed = sum(not item.ok for item in judged)
            seconds = time.monotonic() - begin
            print(f"{what}: {len(judged)} packages, {failed} failed, {seconds:.1f} s; {told}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
