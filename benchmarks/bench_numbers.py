"""Numbers of vendors' GEMMs on the emulated device.

`python -m benchmarks.bench_numbers FOLDER [NAME ...]`, where FOLDER holds `NAME.ptx` with
`NAME.json` (docs/reference/real_code.md says how it is made). The first CTA, or its cluster, of
each kernel multiplies matrices of small multiples of 1/4, whose sums are exact; the part of C that
it writes is compared with NumPy's product.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from titan.foundation.source.span import whole_file
from titan.frontends.ptx.launch import completed, read_launch
from titan.isa.numbers.run import compute
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Options
from titan.isa.simt.run import find_entry

NAMES = (
    "triton_gemm_sm90_128x128x64_w4_ws0_s3", "triton_gemm_sm90_64x128x64_w4_ws1_s3",
    "gluon_ws_gemm_sm90_d3_seeded0", "cutlass_ws", "cutlass_pingpong",
    "cutlass_cooperative_cluster2",
)  # fmt: skip


def measured(folder: Path, name: str) -> str:
    """One line of the table."""
    path = folder / f"{name}.ptx"
    module, findings = parse(path.read_text(encoding="utf-8"), path.name)
    described, faults = read_launch(str(folder / f"{name}.json"))
    if module is None or described is None:
        return f"{name}: {findings or faults}"
    entry, _ = find_entry(module, None)
    assert entry is not None
    launch, faults, _ = completed(described, entry, whole_file(path.name))
    if launch is None:
        return f"{name}: {faults}"
    random = np.random.default_rng(0)
    arrays = {}
    for item in launch.maps():
        shape = tuple(reversed(item.dimensions))
        values = (random.integers(-4, 5, size=shape) / 4).astype(np.float16)
        arrays.setdefault(item.base, values.reshape(-1, shape[-1]))
    memory = {base: values.tobytes() for base, values in arrays.items()}
    start = time.process_time()
    ready = replace(launch, memory=memory, allocations=())
    computed, faults = compute(module, ready, Options(ctas=(0,)))
    seconds = time.process_time() - start
    if computed is None:
        return f"{name}: {faults}"
    (a, b, c), bases = list(arrays.values())[:3], list(arrays)
    data, unknown = computed.contents(bases[2], c.nbytes)
    if unknown:
        return f"{name}: {unknown} bytes are unknown"
    found = np.frombuffer(data, np.float16).reshape(c.shape).astype(np.float64)
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    rows, columns = np.where(found != c)
    tile = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    far = np.abs(found[tile] - wanted[tile].astype(np.float16)).max()
    size = "x".join(str(extent) for extent in found[tile].shape)
    return (
        f"{name}: {size}, {computed.run.instructions} instructions, {seconds:.1f} s, off by {far}"
    )


def main() -> None:
    """Print a line for each kernel."""
    folder, *names = sys.argv[1:]
    for name in names or NAMES:
        print(measured(Path(folder), name), flush=True)


if __name__ == "__main__":
    main()
