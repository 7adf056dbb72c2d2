"""Packages on a device: run with random inputs and compared, or timed. Runs in a child process.

The inputs are made here from a seed; what is right comes from the tile program that the manifest
holds (`titan/tile/semantics.py`, plain NumPy). The CPU back end is the emulation of the emitted
source under a hostile scheduler, so that everything but the device can be tried without one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from titan.device.plan import Launch, plan
from titan.device.variants import SAFE, variants

L2_FLUSH_BYTES = 256 << 20
Record = dict[str, Any]


class NoVariant(Exception):
    """The kernel has nothing that this variant would break."""


def read(folder: Path, variant: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The manifest of a package and its sources, the kernel in the variant asked for."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    names = [Path(str(manifest[key])).name for key in ("source", "header")]
    files = {name: (folder / name).read_text(encoding="utf-8") for name in names}
    known = variants(files[names[0]])
    if variant not in known:
        raise NoVariant(f"no variant {variant!r} of this kernel")
    return manifest, {**files, names[0]: known[variant]}


def check(job: Mapping[str, Any]) -> Iterator[Record]:
    """One record for each size: how far the outputs are from what they should be."""
    folder = Path(job["folder"])
    manifest, files = read(folder, job.get("variant", SAFE))
    run = _on_cpu if job["backend"] == "cpu" else _on_gpu
    for sizes in job["sizes"]:
        yield {"kind": "begin", "sizes": sizes}
        yield {"kind": "run", "sizes": sizes, **run(manifest, files, sizes, job)}


def _on_cpu(
    manifest: Mapping[str, Any], files: dict[str, str], sizes: dict[str, int], job: Any
) -> Record:
    from titan.emulate.compare import compare
    from titan.emulate.run import KernelFault
    from titan.tile.stored import from_data

    tile = from_data(manifest["program"])
    begin = time.monotonic()
    try:
        found = compare(
            tile, files, manifest, sizes, seed=int(job["seed"]), policy=str(job["policy"])
        )
    except KernelFault as fault:
        text = str(fault).splitlines()
        return {"state": "fault", "told": text[0][:300] if text else "", "seconds": _since(begin)}
    state = "correct" if found.same else "wrong"
    told = "" if found.same else found.told()
    return {"state": state, "error": _finite(found.error), "told": told, "seconds": _since(begin)}


def _since(begin: float) -> float:
    return round(time.monotonic() - begin, 4)


def _finite(number: float) -> float | str:
    return number if abs(number) < float("inf") else "infinite"


# ------------------------------------------------------------------------------------ the GPU


class OnGpu:
    """A compiled kernel with its tensors for one size."""

    def __init__(
        self, manifest: Mapping[str, Any], files: Mapping[str, str], sizes: Mapping[str, int],
        inputs: Mapping[str, Any], defines: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        import tempfile

        import numpy

        from titan.device.gpu import Module, Prepared, facts, library
        from titan.tile.dtypes import encode

        self.cupy = library()
        processors = int(facts()["multiprocessors"])
        self.launch: Launch = plan(manifest, sizes, processors)
        with tempfile.TemporaryDirectory(prefix="titan-") as folder:
            for name, text in files.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
            source = Path(folder) / str(manifest["source"])
            module = Module(source, str(manifest["target"]), (), defines)
            function = module.function(self.launch.entry, self.launch.shared_bytes)
        self.module = module
        self.arrays: dict[str, Any] = {}
        for tensor in self.launch.tensors:
            if tensor.output:
                raw = numpy.full(tensor.bytes, 0xFF, dtype=numpy.uint8)
            else:
                patterns = numpy.ascontiguousarray(encode(inputs[tensor.name], tensor.dtype))
                raw = patterns.reshape(-1).view(numpy.uint8)
            assert raw.nbytes == tensor.bytes, tensor.name
            self.arrays[tensor.name] = self.cupy.asarray(raw)
        pointers = {name: int(array.data.ptr) for name, array in self.arrays.items()}
        self.prepared = Prepared(function, self.launch, pointers)

    def run(self) -> None:
        self.prepared.run(self.cupy.cuda.get_current_stream().ptr)

    def outputs(self) -> dict[str, Any]:
        """What the kernel has written, as numbers."""
        import numpy

        from titan.tile.dtypes import bytes_of, decode

        kinds = {1: numpy.uint8, 2: numpy.uint16, 4: numpy.uint32}
        self.cupy.cuda.Device().synchronize()
        found = {}
        for tensor in self.launch.tensors:
            if tensor.output:
                raw = self.arrays[tensor.name].get().view(kinds[bytes_of(tensor.dtype)])
                found[tensor.name] = decode(raw, tensor.dtype).reshape(tensor.shape)
        return found


def _on_gpu(
    manifest: Mapping[str, Any], files: dict[str, str], sizes: dict[str, int], job: Any
) -> Record:
    from titan.emulate.compare import difference, sample_inputs
    from titan.tile.semantics import run as meaning
    from titan.tile.stored import from_data

    tile = from_data(manifest["program"])
    inputs = sample_inputs(tile, sizes, int(job["seed"]))
    begin = time.monotonic()
    made = OnGpu(manifest, files, sizes, inputs, tuple(job.get("defines", ())))
    made.run()
    outputs = made.outputs()
    seconds = _since(begin)
    right = meaning(tile, inputs, {**dict(tile.sizes), **sizes})
    worst = max(
        (difference(tile, name, outputs[name], right[name]) for name in right),
        key=lambda found: found.error,
    )
    state = "correct" if worst.same else "wrong"
    told = "" if worst.same else worst.told()
    return {"state": state, "error": _finite(worst.error), "told": told, "seconds": seconds}


def measure(job: Mapping[str, Any]) -> Iterator[Record]:
    """The median time of a launch with cold inputs, for each size."""
    import statistics

    from titan.emulate.compare import sample_inputs
    from titan.tile.stored import from_data

    manifest, files = read(Path(job["folder"]), SAFE)
    tile = from_data(manifest["program"])
    for sizes in job["sizes"]:
        yield {"kind": "begin", "sizes": sizes}
        made = OnGpu(manifest, files, sizes, sample_inputs(tile, sizes, 0))
        cupy = made.cupy
        flush = cupy.empty(L2_FLUSH_BYTES, dtype="uint8")
        for _ in range(3):
            made.run()
        times = []
        for _ in range(int(job.get("launches", 20))):
            flush.fill(0)
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            made.run()
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end) / 1000)
        yield {
            "kind": "time",
            "sizes": sizes,
            "median_seconds": statistics.median(times),
            "least_seconds": min(times),
            "launches": len(times),
        }
