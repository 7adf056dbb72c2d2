"""Numbers and speed of vendors' kernels on the emulated device.

`python -m benchmarks.bench_numbers FOLDER [NAME ...] [--json FILE] [--seed N] [--size N]`, where
FOLDER holds `NAME.ptx` with `NAME.json` (docs/reference/real_code.md says how it is made). Each
kernel runs whole and is compared with NumPy; products are of small multiples of 1/4, whose sums
are exact. `--size`: rows, columns and depth of the products of Triton, queries of attention.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from titan.foundation.errors import UserError
from titan.foundation.source.span import whole_file
from titan.frontends.ptx.launch import completed, read_launch
from titan.isa.numbers.device import (
    SWIZZLES,
    Argument,
    DeviceArray,
    EmulatedDevice,
    LaunchShape,
    TiledMap,
)
from titan.isa.numbers.native import CoreOptions
from titan.isa.numbers.run import Computed, compute
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Allocation, Options
from titan.isa.simt.outcome import Ending
from titan.isa.simt.run import find_entry

Array = NDArray[Any]
SWIZZLE_NAMES = {number: name for name, number in SWIZZLES.items()}
# Kernels with a planted fault: they hang or give other numbers.
PLANTED = tuple(f"seeded{number}" for number in range(1, 10))


@dataclass(frozen=True, slots=True)
class Kernel:
    """A recorded kernel: its PTX, the launch that was seen, and the size that is asked for."""

    name: str
    text: str
    launch: dict[str, Any]
    size: int | None

    @property
    def shape(self) -> LaunchShape:
        """Grid, block and cluster as recorded."""
        given = self.launch
        return LaunchShape(tuple(given["grid"]), tuple(given["block"]), tuple(given["cluster"]),
                           given["dynamic_shared"])  # fmt: skip

    def word(self, place: int) -> int:
        """An integer parameter."""
        return int.from_bytes(bytes.fromhex(self.launch["parameters"][place]["bytes"]), "little")

    def numbers(self) -> list[Argument]:
        """All parameters as integers; maps and pointers are put in by the caller."""
        return [self.word(place) for place in range(len(self.launch["parameters"]))]


@dataclass(frozen=True, slots=True)
class Measured:
    """`far`: the largest difference from NumPy; `largest`: the largest number of the result."""

    name: str
    shape: str
    instructions: int
    wall_s: float
    cpu_s: float
    far: float
    largest: float

    def line(self) -> str:
        """One line of the table."""
        speed = self.instructions / max(self.wall_s, 1e-9) / 1e6
        return (
            f"{self.name}: {self.shape}, {self.instructions} warp instructions, "
            f"{self.wall_s:.2f} s "
            f"({self.cpu_s:.2f} of CPU, {speed:.1f} million a second), off by {self.far:.3g} of "
            f"{self.largest:.3g}"
        )


def _random(rows: int, columns: int, seed: int) -> Array:
    values = np.random.default_rng(seed).integers(-4, 5, size=(rows, columns)) / 4
    return values.astype(np.float16)


def _tiled(kernel: Kernel, place: int, array: DeviceArray, dtype: str = "f16") -> TiledMap:
    """A map over an array of rows with the box and swizzle that was recorded."""
    given = kernel.launch["tensor_maps"][place]
    rows, columns = array.values.shape
    return TiledMap(array, dtype, (columns, rows), (2 * columns,), tuple(given["box"]),
                    SWIZZLE_NAMES[given["swizzle"]])  # fmt: skip


def _timed(
    kernel: Kernel, device: EmulatedDevice, shape: LaunchShape, arguments: list[Argument]
) -> tuple[Computed, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    computed = device.launch(kernel.text, shape, arguments, kernel.launch.get("entry"))
    return computed, time.perf_counter() - wall, time.process_time() - cpu


def gemm(kernel: Kernel, device: EmulatedDevice) -> Measured:
    """Triton's products through tensor maps: A (M, K), B (N, K), C (M, N) of f16."""
    maps = kernel.launch["tensor_maps"]
    (k, m), (_, n) = maps[0]["dimensions"], maps[1]["dimensions"]
    if kernel.size:
        m = n = k = kernel.size
    a, b, c = (device.array(_random(*shape, seed)) for seed, shape in enumerate(
        ((m, k), (n, k), (m, n))))  # fmt: skip
    arguments = kernel.numbers()
    for place, (array, rows, columns) in enumerate(((a, m, k), (b, n, k), (c, m, n))):
        at = 5 * place
        arguments[at : at + 4] = [_tiled(kernel, place, array), rows, columns, columns]
    arguments[15:18] = [m, n, k]
    recorded = kernel.shape
    tile_rows, tile_columns = maps[0]["box"][1], maps[1]["box"][1]
    tiles = -(-m // tile_rows) * -(-n // tile_columns)
    grid = recorded.grid if "persistent" in kernel.name else (tiles, 1, 1)
    shape = LaunchShape(grid, recorded.block, recorded.cluster, recorded.dynamic_shared_bytes)
    computed, wall, cpu = _timed(kernel, device, shape, arguments)
    wanted = (a.values.astype(np.float32) @ b.values.astype(np.float32).T).astype(np.float16)
    return _measured(kernel, f"{m}x{n}x{k}", computed, wall, cpu, c.values, wanted)


def pointers(kernel: Kernel, device: EmulatedDevice) -> Measured:
    """Triton's product through pointers: A (M, K), B (K, N), C (M, N)."""
    m, n, k = (
        (kernel.size,) * 3 if kernel.size else (kernel.word(3), kernel.word(4), kernel.word(5))
    )
    a, b = device.array(_random(m, k, 0)), device.array(_random(k, n, 1))
    c = device.array(np.zeros((m, n), np.float16))
    arguments = [a, b, c, m, n, k, k, n, n, *kernel.numbers()[9:]]
    recorded = kernel.shape
    tiles = recorded.grid[0] * m * n // (kernel.word(3) * kernel.word(4))
    shape = LaunchShape((tiles, 1, 1), recorded.block, recorded.cluster,
                        recorded.dynamic_shared_bytes)  # fmt: skip
    computed, wall, cpu = _timed(kernel, device, shape, arguments)
    wanted = (a.values.astype(np.float32) @ b.values.astype(np.float32)).astype(np.float16)
    return _measured(kernel, f"{m}x{n}x{k}", computed, wall, cpu, c.values, wanted)


def split_k(kernel: Kernel, device: EmulatedDevice) -> Measured:
    """A product whose parts along K are added by atomics."""
    m, n, k = kernel.word(3), kernel.word(4), kernel.word(5)
    a, b = device.array(_random(m, k, 0)), device.array(_random(k, n, 1))
    c = device.array(np.zeros((m, n), np.float32))
    computed, wall, cpu = _timed(
        kernel, device, kernel.shape, [a, b, c, m, n, k, *kernel.numbers()[6:]]
    )
    wanted = a.values.astype(np.float32) @ b.values.astype(np.float32)
    return _measured(kernel, f"{m}x{n}x{k}", computed, wall, cpu, c.values, wanted)


def attention(kernel: Kernel, device: EmulatedDevice) -> Measured:
    """Triton's attention of some heads, not causal."""
    heads, queries = kernel.word(20), kernel.size or kernel.word(21)
    columns = kernel.launch["tensor_maps"][0]["dimensions"][0]
    random = np.random.default_rng(5)
    q, k, v = (
        device.array(random.standard_normal((heads * queries, columns)).astype(np.float16))
        for _ in range(3)
    )
    o = device.array(np.zeros((heads * queries, columns), np.float16))
    arguments = kernel.numbers()
    for place, array in enumerate((q, k, v, o)):
        at = 5 * place
        arguments[at : at + 4] = [_tiled(kernel, place, array), heads * queries, columns, columns]
    scale = struct.unpack("<f", bytes.fromhex(kernel.launch["parameters"][22]["bytes"]))[0]
    arguments[21] = queries
    recorded = kernel.shape
    blocks = -(-queries // kernel.launch["tensor_maps"][0]["box"][1])
    shape = LaunchShape((blocks, heads, 1), recorded.block, recorded.cluster,
                        recorded.dynamic_shared_bytes)  # fmt: skip
    computed, wall, cpu = _timed(kernel, device, shape, arguments)
    wanted = np.concatenate([
        _attended(*(x.values[head * queries : (head + 1) * queries].astype(np.float32)
                    for x in (q, k, v)), scale)
        for head in range(heads)
    ])  # fmt: skip
    shown = f"{heads} heads of {queries} x {columns}"
    return _measured(kernel, shown, computed, wall, cpu, o.values, wanted)


def _attended(q: Array, k: Array, v: Array, scale: float) -> Array:
    scores = q @ k.T * scale
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Array = weights / weights.sum(axis=1, keepdims=True) @ v
    return found


def softmax(kernel: Kernel, device: EmulatedDevice) -> Measured:
    """Rows of binary32."""
    rows, columns = kernel.launch["grid"][0], kernel.word(2)
    values = np.random.default_rng(6).standard_normal((rows, columns)).astype(np.float32)
    x, y = device.array(values), device.array(np.zeros_like(values))
    arguments = [x, y, columns, *kernel.numbers()[3:]]
    computed, wall, cpu = _timed(kernel, device, kernel.shape, arguments)
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    wanted = powers / powers.sum(axis=1, keepdims=True)
    return _measured(kernel, f"{rows}x{columns}", computed, wall, cpu, y.values, wanted)


def layer_norm(kernel: Kernel, device: EmulatedDevice) -> Measured:
    """Rows and weights of binary16."""
    rows, columns = kernel.launch["grid"][0], kernel.word(3)
    random = np.random.default_rng(7)
    x = device.array(random.standard_normal((rows, columns)).astype(np.float16))
    w = device.array(random.standard_normal(columns).astype(np.float16))
    y = device.array(np.zeros((rows, columns), np.float16))
    epsilon = struct.unpack("<f", bytes.fromhex(kernel.launch["parameters"][4]["bytes"]))[0]
    arguments: list[Argument] = [x, w, y, columns, epsilon, *kernel.numbers()[5:]]
    computed, wall, cpu = _timed(kernel, device, kernel.shape, arguments)
    given = x.values.astype(np.float64)
    centred = given - given.mean(axis=1, keepdims=True)
    wanted = centred / np.sqrt(centred.var(axis=1, keepdims=True) + epsilon) * w.values
    return _measured(kernel, f"{rows}x{columns}", computed, wall, cpu, y.values, wanted)


def histogram(kernel: Kernel, device: EmulatedDevice) -> Measured:
    """Counts of bytes by atomics."""
    count = kernel.word(2)
    x = device.array(np.random.default_rng(8).integers(0, 256, count).astype(np.int32))
    h = device.array(np.zeros(256, np.int32))
    computed, wall, cpu = _timed(kernel, device, kernel.shape, [x, h, count, *kernel.numbers()[3:]])
    wanted = np.bincount(x.values, minlength=256)
    return _measured(kernel, str(count), computed, wall, cpu, h.values, wanted)


def _measured(
    kernel: Kernel, shape: str, computed: Computed, wall: float, cpu: float, found: Array,
    wanted: Array,
) -> Measured:  # fmt: skip
    far = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
    return Measured(kernel.name, shape, computed.run.instructions, wall, cpu, float(far),
                    float(np.abs(wanted).max()))  # fmt: skip


FAMILIES: tuple[tuple[str, Callable[[Kernel, EmulatedDevice], Measured]], ...] = (
    ("triton_gemm_pointers", pointers), ("triton_gemm", gemm), ("triton_split_k", split_k),
    ("triton_attention", attention), ("triton_softmax", softmax),
    ("triton_layernorm", layer_norm), ("triton_histogram", histogram),
)  # fmt: skip


def recorded_product(kernel: Kernel, folder: Path, seed: int) -> Measured:
    """A product launched as recorded: the first three arrays under maps are A, B and C of f16."""
    module, findings = parse(kernel.text, kernel.name)
    described, faults = read_launch(str(folder / f"{kernel.name}.json"))
    if module is None or described is None:
        raise UserError(f"{findings or faults}")
    entry, _ = find_entry(module, None)
    assert entry is not None
    launch, faults, _ = completed(described, entry, whole_file(kernel.name))
    if launch is None:
        raise UserError(f"{faults}")
    arrays: dict[int, Array] = {}
    for number, item in enumerate(launch.maps()):
        shape = tuple(reversed(item.dimensions))
        arrays.setdefault(item.base, _random(int(np.prod(shape[:-1])), shape[-1], number))
    if len(arrays) < 3:
        raise UserError("the arrays are not known")
    memory = {base: values.reshape(-1).view(np.uint8).data for base, values in arrays.items()}
    bounds = tuple(Allocation(base, values.nbytes) for base, values in arrays.items())
    grid = launch.grid if not kernel.name.startswith("gluon") else (launch.ctas, 1, 1)
    ready = replace(launch, grid=grid, memory=memory, allocations=bounds)
    wall, cpu = time.perf_counter(), time.process_time()
    computed, faults = compute(module, ready, Options(seed=seed), asked=CoreOptions(exact=False))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if computed is None or computed.run.outcome.ending is not Ending.FINISHED:
        raise UserError(str(faults if computed is None else computed.run.outcome))
    (a, b, c), base = list(arrays.values())[:3], list(arrays)[2]
    data, unknown = computed.contents(base, c.nbytes)
    if unknown:
        raise UserError(f"{unknown} bytes are not known")
    found = np.frombuffer(data, np.float16).reshape(c.shape)
    wanted = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    shown = f"{c.shape[0]}x{c.shape[1]}x{a.shape[1]}"
    return _measured(kernel, shown, computed, wall, cpu, found, wanted)


def measured(folder: Path, name: str, seed: int = 0, size: int | None = None) -> Measured:
    """Run one kernel. Raises LaunchError where it does not end well."""
    text = (folder / f"{name}.ptx").read_text(encoding="utf-8")
    launch = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    kernel = Kernel(name, text, launch, size)
    run = next((run for stem, run in FAMILIES if name.startswith(stem)), None)
    if run is None:
        return recorded_product(kernel, folder, seed)
    return run(kernel, EmulatedDevice(seed))


def main() -> None:
    """Print a line for each kernel, and write all to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int)
    given = parser.parse_args()
    names = given.names or sorted(
        path.stem
        for path in given.folder.glob("*.json")
        if not path.stem.endswith(PLANTED) and (given.folder / f"{path.stem}.ptx").is_file()
    )
    rows = []
    for name in names:
        try:
            row = measured(given.folder, name, given.seed, given.size)
        except UserError as error:
            print(f"{name}: {error}", flush=True)
            rows.append({"name": name, "error": str(error)})
            continue
        print(row.line(), flush=True)
        rows.append({field: getattr(row, field) for field in Measured.__slots__})
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.exit(any("error" in row for row in rows))


if __name__ == "__main__":
    main()
