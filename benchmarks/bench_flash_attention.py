"""FlashAttention-3 and -4, forward, from their real PTX on the emulated device, against NumPy.

    python -m benchmarks.bench_flash_attention FOLDER [--write]

FOLDER holds `fa3_prefill_causal0.ptx` and `fa3_prefill_causal1.ptx` (docs/reference/real_code.md
says where from), and what `benchmarks/flash_attention_4.py` makes; what it lacks is left out.
Launches are those of `benchmarks/launches`, ragged ones with fewer queries and keys. Each runs
under adversarial schedules, and has to give numbers within the rounding of its output.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from titan.foundation.errors import UserError
from titan.foundation.source.span import whole_file
from titan.frontends.ptx.launch import completed, read_launch
from titan.isa.numbers.native import CoreOptions
from titan.isa.numbers.run import compute
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, Options
from titan.isa.simt.outcome import Ending
from titan.isa.simt.run import find_entry

Array = NDArray[Any]
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "flash_attention.json"
SCHEDULES = (("turn", "soon"), ("starve", "late"), ("ahead", "early"), ("mixed", "random"))
HEADS, DIMENSION = 4, 128
FOURTH = {  # FlashAttention-4: with its choice, and with an accumulator always or never rescaled
    "fa4_forward": "not causal", "fa4_forward_always": "not causal, always rescaled",
    "fa4_forward_never": "not causal, never rescaled", "fa4_forward_causal": "causal",
}  # fmt: skip
SCALE = 0.0883883
TOLERANCE = 2.0**-8  # of the largest number of the output: weights are rounded to 16 bits


@dataclass(frozen=True, slots=True)
class AttentionLaunch:
    """A launch with its arrays by address, of which `out` is compared with `wanted`; an array of
    integers of 16 bits holds bfloat16.
    """

    name: str
    text: str
    launch: Launch
    arrays: Mapping[int, Array]
    out: int
    wanted: Array


def attended(q: Array, k: Array, v: Array, causal: bool) -> Array:
    """(heads, queries, dimension) in binary64; the last query sees the last key."""
    scores = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k.astype(np.float64)) * SCALE
    if causal:
        queries, keys = scores.shape[1:]
        scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    found: Array = powers / powers.sum(axis=-1, keepdims=True) @ v.astype(np.float64)
    return found


def bfloat16(values: Array) -> Array:
    """The bits of numbers rounded to bfloat16."""
    bits = values.astype(np.float32).view(np.uint32)
    found: Array = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return found


def numbers(values: Array) -> Array:
    """The numbers of an array: of bfloat16 where it holds integers."""
    if values.dtype != np.uint16:
        return values
    found: Array = (values.astype(np.uint32) << 16).view(np.float32)
    return found


def recorded(folder: Path, name: str, launch_of: str = "") -> tuple[str, Launch]:
    """The PTX and its launch, or that of another kernel. Raises UserError."""
    text = (folder / f"{name}.ptx").read_text(encoding="utf-8")
    module, findings = parse(text, name)
    described, faults = read_launch(str(HERE / "launches" / f"{launch_of or name}.launch.yaml"))
    if module is None or described is None:
        raise UserError(f"{findings or faults}")
    entry, _ = find_entry(module, None)
    assert entry is not None
    launch, faults, _ = completed(described, entry, whole_file(name))
    if launch is None:
        raise UserError(f"{faults}")
    return text, launch


def flash_attention_3(folder: Path, causal: bool, queries: int, keys: int) -> AttentionLaunch:
    """f16, four heads of 128; a query and a key less than whole tiles where it is ragged."""
    text, launch = recorded(folder, f"fa3_prefill_causal{int(causal)}")
    random, sizes = np.random.default_rng(1), (queries, keys, keys)
    q, k, v = (
        random.standard_normal((HEADS, rows, DIMENSION)).astype(np.float16) for rows in sizes
    )
    maps = {
        name: replace(
            map_, dimensions=(DIMENSION, rows, HEADS),
            stride_bytes=(2 * DIMENSION, 2 * DIMENSION * rows),
        )
        for (name, map_), rows in zip(launch.tensor_maps.items(), sizes, strict=True)
    }  # fmt: skip
    mainloop, epilogue, problem = (bytearray(item.data) for item in launch.parameters)
    struct.pack_into("<i", epilogue, 8, queries)
    struct.pack_into("<i", epilogue, 52, queries)
    struct.pack_into("<ii", problem, 0, queries, keys)
    parameters = tuple(
        LaunchParameter(bytes(data), item.known)
        for data, item in zip((mainloop, epilogue, problem), launch.parameters, strict=True)
    )
    out, sums = struct.unpack_from("<Q", epilogue, 0)[0], struct.unpack_from("<Q", epilogue, 40)[0]
    arrays = dict(zip((map_.base for map_ in maps.values()), (q, k, v), strict=True))
    arrays[out] = np.zeros((queries, HEADS, DIMENSION), np.float16)
    arrays[sums] = np.zeros((HEADS, queries), np.float32)
    grid = (-(-queries // 128), HEADS, 1)
    ready = replace(launch, grid=grid, parameters=parameters, tensor_maps=maps)
    what = "causal" if causal else "not causal"
    shown = f"FlashAttention-3, {what}, {queries} queries, {keys} keys"
    wanted = attended(q, k, v, causal).transpose(1, 0, 2)
    return AttentionLaunch(shown, text, ready, arrays, out, wanted)


def flash_attention_4(folder: Path, name: str) -> AttentionLaunch:
    """bf16, one head of 128, 256 queries and 512 keys: the sizes that it is compiled for."""
    text, launch = recorded(folder, name, "fa4_forward")
    random, maps = np.random.default_rng(2), launch.maps()
    q, k, v = (bfloat16(random.standard_normal(map_.dimensions[::-1])) for map_ in maps[:3])
    factor = LaunchParameter(struct.pack("<f", SCALE * float(np.log2(np.e))))
    parameters = (*launch.parameters[:5], factor, *launch.parameters[6:])
    arrays = dict(zip((map_.base for map_ in maps), (q, k, v, np.zeros_like(q)), strict=True))
    (sums,) = struct.unpack("<Q", launch.parameters[0].data)
    arrays[sums] = np.zeros(len(q), np.float32)
    wanted = attended(*(numbers(item)[None] for item in (q, k, v)), "_causal" in name)[0]
    return AttentionLaunch(
        f"FlashAttention-4, {FOURTH[name]}, {len(q)} queries, {len(k)} keys", text,
        replace(launch, parameters=parameters), arrays, maps[3].base, wanted,
    )  # fmt: skip


def measured(given: AttentionLaunch) -> dict[str, object]:
    """The row of a launch. Raises UserError where it does not end well or is wrong."""
    module, findings = parse(given.text, given.name)
    assert module is not None, findings
    memory = {at: item.reshape(-1).view(np.uint8).data for at, item in given.arrays.items()}
    bounds = tuple(Allocation(at, item.nbytes) for at, item in given.arrays.items())
    launch = replace(given.launch, memory=memory, allocations=bounds)
    out, furthest, counts, seconds = given.arrays[given.out], 0.0, 0, 0.0
    for seed, (schedule, engines) in enumerate(SCHEDULES):
        out[...] = 0
        began = time.process_time()
        asked = CoreOptions(exact=False, schedule=schedule, engines=engines)
        made, faults = compute(module, launch, Options(seed=seed), asked=asked)
        seconds = max(seconds, time.process_time() - began)
        if made is None or made.run.outcome.ending is not Ending.FINISHED:
            raise UserError(f"{given.name}: {faults if made is None else made.run.outcome}")
        counts = made.run.instructions
        data, unknown = made.contents(given.out, out.nbytes)
        found = numbers(np.frombuffer(data, out.dtype).reshape(out.shape))
        far = float(np.abs(found.astype(np.float64) - given.wanted).max())
        if unknown or far > TOLERANCE * float(np.abs(given.wanted).max()):
            raise UserError(f"{given.name}, {schedule}, {engines}: {unknown} unknown, off by {far}")
        furthest = max(furthest, far)
    return {
        "kernel": given.name, "instructions": counts, "cpu_s": round(seconds, 2),
        "far": furthest, "largest": float(np.abs(given.wanted).max()), "schedules": len(SCHEDULES),
    }  # fmt: skip


def launches(folder: Path) -> Iterator[AttentionLaunch]:
    """Every launch of a kernel that is there."""
    for causal in (False, True):
        if (folder / f"fa3_prefill_causal{int(causal)}.ptx").exists():
            for queries, keys in ((512, 512), (300, 300), (300, 411)):
                yield flash_attention_3(folder, causal, queries, keys)
    for name in FOURTH:
        if (folder / f"{name}.ptx").exists():
            yield flash_attention_4(folder, name)


def main() -> None:
    """Print a line for each launch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = []
    for launch in launches(given.folder):
        rows.append(measured(launch))
        print(rows[-1], flush=True)
    if given.write:
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
