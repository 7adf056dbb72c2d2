"""Packages on a device: run with random inputs and compared. Runs in a child process.

The inputs are made here from a seed; what is right comes from the tile program that the manifest
holds (`titan/codegen/tile/semantics.py`, plain NumPy). Without a GPU packages run as
`titan/device/emulated.py` says, under adversarial schedules, so that everything but the device can
be tried without one.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from titan.codegen.tile.manifest import Manifest
from titan.device import hooks
from titan.device.package_files import read_manifest
from titan.device.plan import LaunchPlan, plan
from titan.device.platforms import platform_of
from titan.device.records import (
    MESSAGE_CHARACTERS,
    NOT_RUN,
    BeginRecord,
    CompiledRecord,
    CupyArray,
    Job,
    RunCase,
    RunRecord,
)
from titan.device.variants import SAFE, variants
from titan.foundation.errors import Refusal

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from titan.device.emulated import RunnablePackage
    from titan.device.gpu import GpuModule, SharedFile

    Arrays = Mapping[str, NDArray[numpy.float64]]
    Outputs = Mapping[str, NDArray[numpy.floating]]

PTX = "kernel.ptx"  # what the emulated device runs, among the binaries of a finding


class NoVariant(Refusal):
    """The kernel has nothing that this variant would break."""


def read(folder: Path, variant: str) -> tuple[Manifest, dict[str, str]]:
    """The manifest of a package and its sources, the kernel in the variant asked for.

    Raises NoVariant and BadPackage.
    """
    manifest = read_manifest(folder)
    names = [Path(manifest["source"]).name, Path(manifest["header"]).name]
    files = {name: (folder / name).read_text(encoding="utf-8") for name in names}
    known = variants(files[names[0]])
    if variant not in known:
        raise NoVariant(f"no variant {variant!r} of this kernel")
    return manifest, {**files, names[0]: known[variant]}


def check(job: Job) -> Iterator[BeginRecord | RunRecord]:
    """One record for each case: how far the outputs are from what they should be.

    A case has `sizes`, and `seed` and `policy` where they differ from the job's. What was compiled
    is left in the folder `keep`, if there is one; ready machine code is taken from `binaries`.
    """
    manifest, files = read(Path(job["folder"]), job.get("variant", SAFE))
    run = _runner(manifest, files, job)
    for case in job.get("cases") or _same_case(job):
        yield {"kind": "begin", "sizes": case["sizes"]}
        yield run(case)


def _runner(manifest: Manifest, files: dict[str, str], job: Job) -> Callable[[RunCase], RunRecord]:
    """What runs one case of a job, on the GPU or without one."""
    references = References(manifest)
    if job["backend"] == "gpu":
        device = CompiledPackage(manifest, files, job)
        return lambda case: _on_gpu(device, references, case)
    from titan.device.emulated import EmulatedPackage, runnable
    from titan.validate.compare.toolchain import CannotCompile, ToolchainMissing

    kept = Path(job["binaries"]) / PTX if job.get("binaries") else None
    text = kept.read_text(encoding="utf-8") if kept is not None and kept.is_file() else None
    try:
        package = runnable(manifest, files, text)
    except (CannotCompile, ToolchainMissing) as error:  # says nothing of the kernel
        reason = str(error)[:MESSAGE_CHARACTERS]
        return lambda case: _run_record(case, NOT_RUN, reason)
    if job.get("keep") and isinstance(package, EmulatedPackage):
        (Path(job["keep"]) / PTX).write_text(package.text, encoding="utf-8")
    return lambda case: emulated_run(package, references, case)


def _same_case(job: Job) -> list[RunCase]:
    """The sizes of a job with its one seed and policy."""
    seed, policy = int(job["seed"]), str(job["policy"])
    return [{"sizes": sizes, "seed": seed, "policy": policy} for sizes in job["sizes"]]


class References:
    """Inputs and what is right for them, by sizes and seed; the last ones are kept."""

    KEPT = 32

    def __init__(self, manifest: Manifest) -> None:
        from titan.codegen.tile.stored import from_data

        self.tile = from_data(manifest["program"])
        self.known: dict[tuple[object, ...], tuple[Arrays, Outputs]] = {}

    def of(self, sizes: Mapping[str, int], seed: int) -> tuple[Arrays, Outputs]:
        """Inputs by tensor, and what the outputs should be."""
        from titan.codegen.tile.outputs import sample_inputs
        from titan.codegen.tile.semantics import run as meaning

        key = (*sorted(sizes.items()), seed)
        if key not in self.known:
            inputs = sample_inputs(self.tile, sizes, seed)
            right = meaning(self.tile, inputs, {**dict(self.tile.sizes), **sizes})
            while len(self.known) >= self.KEPT:
                del self.known[next(iter(self.known))]
            self.known[key] = inputs, right
        return self.known[key]


def emulated_run(package: RunnablePackage, references: References, case: RunCase) -> RunRecord:
    """The record of one case without a GPU, compared with what the program means."""
    from titan.device.emulated import run_case

    inputs, right = references.of(case["sizes"], int(case["seed"]))
    record, outputs = run_case(package, case, inputs)
    if outputs:
        _judge(record, references, outputs, right)
    return record


def _judge(record: RunRecord, references: References, got: Outputs, right: Outputs) -> None:
    """Put into a record how far outputs are from what they should be."""
    from titan.codegen.tile.outputs import furthest

    worst = furthest(references.tile, got, right)
    record["state"] = "correct" if worst.same else "wrong"
    record["message"] = "" if worst.same else worst.describe()
    record["error"] = _finite(worst.error)


def _run_record(case: RunCase, state: str, message: str = "") -> RunRecord:
    return {
        "kind": "run",
        "sizes": case["sizes"],
        "state": state,
        "message": message,
        "seconds": 0.0,
    }


def _since(begin: float) -> float:
    return round(time.monotonic() - begin, 4)


def _finite(number: float) -> float | str:
    return number if abs(number) < float("inf") else "infinite"


# ------------------------------------------------------------------------------------ the GPU


class CompiledPackage:
    """A package's source, compiled once for each set of definitions."""

    def __init__(self, manifest: Manifest, files: Mapping[str, str], job: Job) -> None:
        self.manifest, self.files = manifest, files
        self.modules: dict[tuple[str, ...], GpuModule] = {}
        self.progress = Path(job["progress"]) if job.get("progress") else None
        self.keep = Path(job["keep"]) if job.get("keep") else None
        self.binaries = Path(job["binaries"]) if job.get("binaries") else None
        self.cache = Path(job["cache"]) if job.get("cache") else None
        self.without = ""
        self.shared: SharedFile | None = None

    def module(self, defines: tuple[str, ...] = ()) -> GpuModule:
        """The machine code with these definitions, compiled or as it was kept."""
        if defines in self.modules:
            return self.modules[defines]
        name = binary_name(defines)
        ready = self.binaries / name if self.binaries is not None else None
        cubin = ready.read_bytes() if ready is not None and ready.is_file() else None
        target = str(self.manifest["target"])
        with unpacked(self.manifest, self.files) as source:
            module = platform_of(target).module
            made: GpuModule = module(source, target, defines, cubin, self.cache)
        if self.keep is not None:
            (self.keep / name).write_bytes(made.cubin)
        self.modules[defines] = made
        return made

    def arm(self, level: hooks.Level, seed: int) -> GpuModule:
        """The module of a level, its variables filled for the next launch.

        Where the driver cannot map the file of progress there is none, and `without` says why.
        """
        from titan.device.driver import DeviceError

        if self.progress is not None and self.shared is None and hooks.PROGRESS in level.defines:
            try:
                platform = platform_of(str(self.manifest["target"]))
                self.shared = platform.shared_file(self.progress)
            except DeviceError as error:
                self.progress, self.without = None, str(error)
        reports = self.progress is not None
        defines = tuple(name for name in level.defines if reports or name != hooks.PROGRESS)
        module = self.module(defines)
        if hooks.DISTURB in defines:
            words = level.disturbance(seed)
            module.write("titan_disturbance", struct.pack("<4I", *words))
        if hooks.DELAY in defines:
            module.write("titan_delay", struct.pack("<4I", *level.delay(self.manifest)))
        if hooks.MEASURE in defines:
            module.write("titan_waited", bytes(hooks.WAITED.size))
            module.write("titan_delayed", bytes(hooks.WAITED.size))
            module.write("titan_span", bytes(hooks.SPAN.size))
        if hooks.PROGRESS in defines and self.shared is not None:
            self.shared.clear()
            module.write("titan_progress", struct.pack("<Q", self.shared.address))
            module.write("titan_progress_ctas", struct.pack("<I", hooks.CTAS))
            module.write("titan_turns", bytes(hooks.TURNS_BYTES))
        return module


@contextmanager
def unpacked(manifest: Manifest, files: Mapping[str, str]) -> Iterator[Path]:
    """The source of a package in a folder with its header, for the compiler."""
    with tempfile.TemporaryDirectory(prefix="titan-") as folder:
        for file, text in files.items():
            (Path(folder) / file).write_text(text, encoding="utf-8")
        yield Path(folder) / Path(str(manifest["source"])).name


def compile_ahead(job: Job) -> Iterator[CompiledRecord]:
    """Machine code for the cache: of packages in variants, with all sets of definitions of their
    levels. Needs no device; says for each how many there are now.
    """
    for folder, variant in job["tasks"]:
        manifest, files = read(Path(folder), variant)
        names = job.get("policies")
        source = files[str(manifest["source"])]
        levels = [x for x in hooks.levels(manifest, source) if names is None or x.name in names]
        sets = dict.fromkeys(level.defines for level in levels)
        with unpacked(manifest, files) as path:
            for defines in sets:
                target = str(manifest["target"])
                platform_of(target).machine_code(path, target, defines, Path(job["cache"]))
        yield {"kind": "compiled", "folder": folder, "variant": variant, "count": len(sets)}


def binary_name(defines: tuple[str, ...]) -> str:
    """Of the machine code with these definitions: `kernel+delay+measure.cubin`."""
    parts = [define.removeprefix("TITAN_").lower() for define in defines]
    return "+".join(["kernel", *parts]) + ".cubin"


class OnGpu:
    """A compiled kernel with its tensors for one size; `alone` lets no CTA share its processor."""

    def __init__(
        self, manifest: Manifest, module: GpuModule, sizes: Mapping[str, int],
        inputs: Arrays, alone: bool = False,
    ) -> None:  # fmt: skip
        import numpy

        from titan.codegen.tile.dtypes import encode
        from titan.device.driver import STATIC_SHARED
        from titan.device.gpu import Prepared

        platform = platform_of(str(manifest["target"]))
        self.cupy = platform.library()
        device = platform.facts()
        self.launch: LaunchPlan = plan(manifest, sizes, int(device["multiprocessors"]))
        shared = self.launch.shared_bytes
        if alone:
            fixed = module.function(self.launch.entry, 0).attribute(STATIC_SHARED)
            shared = int(device["shared_bytes_per_block"]) - fixed
        self.function = module.function(self.launch.entry, shared)
        self.arrays: dict[str, CupyArray] = {}
        for tensor in self.launch.tensors:
            if tensor.output:
                raw = numpy.full(tensor.bytes, tensor.beginning, dtype=numpy.uint8)
            else:
                patterns = numpy.ascontiguousarray(encode(inputs[tensor.name], tensor.dtype))
                raw = numpy.resize(patterns.reshape(-1).view(numpy.uint8), tensor.bytes)
            assert raw.nbytes == tensor.bytes, tensor.name
            self.arrays[tensor.name] = self.cupy.asarray(raw)
        pointers = {name: int(array.data.ptr) for name, array in self.arrays.items()}
        self.prepared = Prepared(self.function, self.launch, pointers)

    def run(self) -> None:
        """One launch on the current stream. Raises DeviceError."""
        self.prepared.run(self.cupy.cuda.get_current_stream().ptr)

    def outputs(self) -> dict[str, NDArray[numpy.float32]]:
        """What the kernel has written, as numbers."""
        import numpy

        from titan.codegen.tile.dtypes import bytes_of, decode

        kinds = {1: numpy.uint8, 2: numpy.uint16, 4: numpy.uint32}
        self.cupy.cuda.Device().synchronize()
        found = {}
        for tensor in self.launch.tensors:
            if tensor.output:
                raw = self.arrays[tensor.name].get().view(kinds[bytes_of(tensor.dtype)])
                found[tensor.name] = decode(raw, tensor.dtype).reshape(tensor.shape)
        return found


def _on_gpu(compiled: CompiledPackage, references: References, case: RunCase) -> RunRecord:
    manifest = compiled.manifest
    seed = int(case["seed"])
    inputs, right = references.of(case["sizes"], seed)
    known = {level.name: level for level in hooks.levels(manifest)}
    level = known.get(str(case["policy"]), hooks.Level("quiet"))
    module = compiled.arm(level, seed)
    begin = time.monotonic()
    made = OnGpu(manifest, module, case["sizes"], inputs, level.alone)
    made.run()
    outputs = made.outputs()
    seconds = _since(begin)
    found = _run_record(case, "correct")
    _judge(found, references, outputs, right)
    found["seconds"] = seconds
    found["launch"] = {
        "grid": made.launch.grid, "block": made.launch.block, "cluster": made.launch.cluster,
        "shared_bytes": made.function.shared_bytes,
    }  # fmt: skip
    if compiled.without:
        found["without_progress"] = compiled.without
    if hooks.MEASURE in level.defines:
        size = hooks.WAITED.size
        delay = module.read("titan_delayed", size) if hooks.DELAY in level.defines else None
        found["waits"] = hooks.waits(manifest, module.read("titan_waited", size), delay)
    return found
