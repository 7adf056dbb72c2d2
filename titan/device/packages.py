"""Packages on a device: run with random inputs and compared, or timed. Runs in a child process.

The inputs are made here from a seed; what is right comes from the tile program that the manifest
holds (`titan/tile/semantics.py`, plain NumPy). The CPU back end is the emulation of the emitted
source under a hostile scheduler, so that everything but the device can be tried without one.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from titan.device import hooks
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
    """One record for each case: how far the outputs are from what they should be.

    A case has `sizes`, and `seed` and `policy` where they differ from the job's.
    """
    folder = Path(job["folder"])
    manifest, files = read(folder, job.get("variant", SAFE))
    cpu = job["backend"] == "cpu"
    device = None if cpu else Compiled(manifest, files, job.get("progress"))
    for case in job.get("cases") or [{"sizes": sizes} for sizes in job["sizes"]]:
        full = {**job, **case}
        yield {"kind": "begin", "sizes": case["sizes"]}
        found = (
            _on_cpu(manifest, files, case["sizes"], full)
            if device is None
            else _on_gpu(device, case["sizes"], full)
        )
        yield {"kind": "run", "sizes": case["sizes"], **found}


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


class Compiled:
    """A package's source, compiled once for each set of definitions."""

    def __init__(
        self, manifest: Mapping[str, Any], files: Mapping[str, str], progress: str | None = None
    ) -> None:
        self.manifest, self.files = manifest, files
        self.modules: dict[tuple[str, ...], Any] = {}
        self.progress = Path(progress) if progress else None
        self.shared: Any = None

    def module(self, defines: tuple[str, ...] = ()) -> Any:
        import tempfile

        from titan.device.gpu import Module

        if defines not in self.modules:
            with tempfile.TemporaryDirectory(prefix="titan-") as folder:
                for name, text in self.files.items():
                    (Path(folder) / name).write_text(text, encoding="utf-8")
                source = Path(folder) / str(self.manifest["source"])
                target = str(self.manifest["target"])
                self.modules[defines] = Module(source, target, (), defines)
        return self.modules[defines]

    def arm(self, level: hooks.Level, seed: int) -> Any:
        """The module of a level, its variables filled for the next launch."""
        from titan.device.gpu import SharedFile

        reports = self.progress is not None
        defines = tuple(name for name in level.defines if reports or name != hooks.PROGRESS)
        module = self.module(defines)
        if hooks.DISTURB in defines:
            words = level.disturbance(seed)
            module.write("titan_disturbance", struct.pack("<4I", *words))
        if hooks.MEASURE in defines:
            module.write("titan_waited", bytes(hooks.WAITED.size))
        if hooks.PROGRESS in defines and self.progress is not None:
            self.shared = self.shared or SharedFile(self.progress)
            self.shared.clear()
            module.write("titan_progress", struct.pack("<Q", self.shared.address))
            module.write("titan_progress_ctas", struct.pack("<I", hooks.CTAS))
            module.write("titan_turns", bytes(hooks.TURNS_BYTES))
        return module


class OnGpu:
    """A compiled kernel with its tensors for one size."""

    def __init__(
        self, manifest: Mapping[str, Any], module: Any, sizes: Mapping[str, int],
        inputs: Mapping[str, Any],
    ) -> None:  # fmt: skip
        import numpy

        from titan.device.gpu import Prepared, facts, library
        from titan.tile.dtypes import encode

        self.cupy = library()
        processors = int(facts()["multiprocessors"])
        self.launch: Launch = plan(manifest, sizes, processors)
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


def _on_gpu(compiled: Compiled, sizes: dict[str, int], job: Mapping[str, Any]) -> Record:
    from titan.emulate.compare import difference, sample_inputs
    from titan.tile.semantics import run as meaning
    from titan.tile.stored import from_data

    manifest = compiled.manifest
    tile = from_data(manifest["program"])
    inputs = sample_inputs(tile, sizes, int(job["seed"]))
    known = {level.name: level for level in hooks.levels(manifest)}
    level = known.get(str(job["policy"]), hooks.Level("quiet"))
    begin = time.monotonic()
    module = compiled.arm(level, int(job["seed"]))
    made = OnGpu(manifest, module, sizes, inputs)
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
    found: Record = {
        "state": state, "error": _finite(worst.error), "told": told, "seconds": seconds,
    }  # fmt: skip
    if hooks.MEASURE in level.defines:
        found["waits"] = hooks.waits(manifest, module.read("titan_waited", hooks.WAITED.size))
    return found


def measure(job: Mapping[str, Any]) -> Iterator[Record]:
    """The median time of a launch with cold inputs, for each size."""
    import statistics

    from titan.emulate.compare import sample_inputs
    from titan.tile.stored import from_data

    manifest, files = read(Path(job["folder"]), SAFE)
    tile = from_data(manifest["program"])
    module = Compiled(manifest, files).module()
    for sizes in job["sizes"]:
        yield {"kind": "begin", "sizes": sizes}
        made = OnGpu(manifest, module, sizes, sample_inputs(tile, sizes, 0))
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
