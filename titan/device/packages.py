"""Packages on a device: run with random inputs and compared. Runs in a child process.

The inputs are made here from a seed; what is right comes from the tile program that the manifest
holds (`titan/codegen/tile/semantics.py`, plain NumPy). The CPU back end is the emulation of the
emitted source under an adversarial scheduler, so that everything but the device can be tried
without one.
"""

from __future__ import annotations

import json
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from titan.codegen.tile.manifest import Manifest
from titan.device import hooks
from titan.device.plan import LaunchPlan, plan
from titan.device.platforms import platform_of
from titan.device.records import BeginRecord, CompiledRecord, CupyArray, Job, RunCase, RunRecord
from titan.device.variants import SAFE, variants
from titan.foundation.errors import Refusal

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from titan.device.emulated import EmulatedPackage
    from titan.device.gpu import GpuModule, SharedFile

    Arrays = Mapping[str, NDArray[numpy.float64]]
    Outputs = Mapping[str, NDArray[numpy.floating]]

EMULATED = "emulated"  # the program of the CPU back end, among the binaries of a finding
NOT_RUN = "not run"  # the state of a kernel that could not be started: no verdict on it


class NoVariant(Refusal):
    """The kernel has nothing that this variant would break."""


def read(folder: Path, variant: str) -> tuple[Manifest, dict[str, str]]:
    """The manifest of a package and its sources, the kernel in the variant asked for.

    Raises NoVariant.
    """
    manifest: Manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
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
    folder = Path(job["folder"])
    manifest, files = read(folder, job.get("variant", SAFE))
    backend = job["backend"]
    device = CompiledPackage(manifest, files, job) if backend == "gpu" else None
    references = References(manifest)
    emulated: EmulatedPackage | None = None
    if backend == "emulated":
        from titan.device.emulated import EmulatedPackage

        emulated = EmulatedPackage(manifest, files)
    for case in job.get("cases") or _same_case(job):
        yield {"kind": "begin", "sizes": case["sizes"]}
        if emulated is not None:
            yield emulated_run(emulated, references, case)
        elif device is None:
            yield _on_cpu(manifest, files, case, job.get("keep"))
        else:
            yield _on_gpu(device, references, case)


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
        from titan.codegen.tile.semantics import run as meaning
        from titan.validate.emulate.compare import sample_inputs

        key = (*sorted(sizes.items()), seed)
        if key not in self.known:
            inputs = sample_inputs(self.tile, sizes, seed)
            right = meaning(self.tile, inputs, {**dict(self.tile.sizes), **sizes})
            while len(self.known) >= self.KEPT:
                del self.known[next(iter(self.known))]
            self.known[key] = inputs, right
        return self.known[key]


def _on_cpu(
    manifest: Manifest, files: dict[str, str], case: RunCase, keep: str | None
) -> RunRecord:
    from titan.codegen.tile.stored import from_data
    from titan.validate.emulate.compare import compare
    from titan.validate.emulate.compile import EmulationError
    from titan.validate.emulate.run import KernelFault

    tile = from_data(manifest["program"])
    begin = time.monotonic()
    try:
        found = compare(
            tile, files, manifest, case["sizes"],
            seed=case["seed"], policy=case["policy"],
        )  # fmt: skip
    except KernelFault as fault:
        text = str(fault).splitlines()
        record = _run_record(case, "fault", text[0][:300] if text else "")
    except EmulationError as error:  # says nothing of the kernel
        return _run_record(case, NOT_RUN, str(error)[:300])
    else:
        record = _run_record(case, "correct" if found.same else "wrong")
        record["message"] = "" if found.same else found.describe()
        record["error"] = _finite(found.error)
    if keep:
        _keep_emulated(manifest, files, Path(keep))
    record["seconds"] = _since(begin)
    return record


def emulated_run(package: EmulatedPackage, references: References, case: RunCase) -> RunRecord:
    """The record of one case on the emulated device, compared with what the program means."""
    from titan.validate.emulate.compare import difference

    inputs, right = references.of(case["sizes"], int(case["seed"]))
    record, outputs = package.run(case, inputs)
    if outputs:
        worst = max(
            (difference(references.tile, name, outputs[name], right[name]) for name in right),
            key=lambda found: found.error,
        )
        record["state"] = "correct" if worst.same else "wrong"
        record["message"] = "" if worst.same else worst.describe()
        record["error"] = _finite(worst.error)
    return record


def _run_record(case: RunCase, state: str, message: str = "") -> RunRecord:
    return {
        "kind": "run",
        "sizes": case["sizes"],
        "state": state,
        "message": message,
        "seconds": 0.0,
    }


def _keep_emulated(manifest: Manifest, files: dict[str, str], folder: Path) -> None:
    """The program that was run, which the emulation keeps under a digest."""
    from titan.validate.emulate.compile import build

    if str(manifest["source"]).endswith(".cu") and not (folder / EMULATED).exists():
        shutil.copyfile(build(files, manifest), folder / EMULATED)


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
                raw = numpy.full(tensor.bytes, 0xFF, dtype=numpy.uint8)
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
    from titan.validate.emulate.compare import difference

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
    worst = max(
        (difference(references.tile, name, outputs[name], right[name]) for name in right),
        key=lambda found: found.error,
    )
    found = _run_record(case, "correct" if worst.same else "wrong")
    found["message"] = "" if worst.same else worst.describe()
    found["error"], found["seconds"] = _finite(worst.error), seconds
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
