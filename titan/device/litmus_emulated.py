"""A litmus test rendered as a CUDA kernel, run in bulk on the emulated device: no GPU is needed.

nvcc makes the PTX. Batches differ in seed, delays, placement and in the schedule of warps, clusters
and engines. The emulated memory is coherent and in order, which is stronger than the model: an
outcome that the model forbids is a fault of the emulation, of the rendering or of the model, and
that an outcome was not seen says nothing of a device. Memory that is mapped twice, textures and
surfaces are not emulated; such tests are reported as not run. Runs in a child process.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from titan.device.litmus_batches import BatchRunner
from titan.device.litmus_plan import LitmusPlan, NotRun, map_arguments
from titan.device.manifests import LitmusManifest, SetupStep
from titan.device.records import BatchCounts, Job
from titan.emulated.checking import LaunchChecker
from titan.emulated.faults import LaunchFault
from titan.emulated.machine import LaunchQueue
from titan.emulated.memory import OwnMemory
from titan.emulated.modules import load
from titan.emulated.parameters import Maps, map_over, name_map
from titan.emulated.settings import CheckMode, EmulationSettings
from titan.isa.numbers.device import LaunchError, LaunchShape
from titan.isa.numbers.native import CoreOptions
from titan.validate.compare.compile import ptx_of

SUPPORTED = ("encode tensor map",)
DEVICES = {"sm_90a": "h100", "sm_100a": "b200"}
PLACEMENTS = ((4, 0, 0), (8, 1, 0))  # as litmus_plan.PLACEMENTS; each has to be compiled
INSTANCES = 1 / 128  # of those that fill a GPU
POLLS_MAX = 1 << 17  # more than the patience of a test, whose waits are bounded
OTHERS_CTAS = 2  # of the kernels that prepare and collect
# Of warps and clusters, of engines: one pair for each batch, in turn.
SCHEDULES = (("mixed", "random"), ("mixed", "late"), ("starve", "random"), ("ahead", "early"),
             ("turn", "soon"), ("mixed", "early"))  # fmt: skip
RUNNER = BatchRunner(SUPPORTED, "is not emulated", len(PLACEMENTS), PLACEMENTS, len(SCHEDULES))


def batches(source: Path, manifest: LitmusManifest, job: Job) -> Iterator[BatchCounts]:
    """Counts of batches, one of each placement and schedule at least.

    The job is that of `litmus_gpu.batches`. Raises NotRun, LaunchFault and LaunchError.
    """
    if manifest["language"] != "cuda":
        raise NotRun("the emulated device runs PTX")
    return RUNNER.batches(manifest, job, lambda options: _Test(source, manifest, options, job))


class _Test:
    """One compiled test with its memory."""

    def __init__(
        self, source: Path, manifest: LitmusManifest, options: Mapping[str, int], job: Job
    ) -> None:
        self.manifest = manifest
        self.plan = LitmusPlan.of(manifest, options, INSTANCES * job.get("scale", 1.0))
        name = "+".join(["test", *(f"{value}" for _, value in sorted(options.items()))]) + ".ptx"
        ready = Path(job["binaries"]) / name if job.get("binaries") else None
        if ready is not None and ready.is_file():
            text = ready.read_text(encoding="utf-8")
        else:
            lines = [f"#define {name} {value}\n" for name, value in options.items()]
            files = {"kernel.cu": "".join(lines) + source.read_text(encoding="utf-8")}
            text = ptx_of(files, str(manifest["target"]))
        if job.get("keep"):
            (Path(job["keep"]) / name).write_text(text, encoding="utf-8")
        self.loaded = load(text, name)
        self.memory, self.maps = OwnMemory(), Maps()
        self.pointers: dict[str, int] = {}
        for item in manifest["buffers"]:
            size = self.plan.buffer_bytes(item)
            if item["parameter"] == "scratch" and not options["TITAN_STRESS_WARPS"]:
                size = 4
            self.pointers[item["parameter"]] = self.memory.allocate(size, bytes(size))
        for step in manifest["setup"]:
            self._tensor_map(step)

    def _tensor_map(self, step: SetupStep) -> None:
        item, place = map_arguments(step), step["address"]
        base = self.pointers[place["parameter"]] + int(place["offset_bytes"])
        map_ = map_over(base, item.dtype, item.extents, item.strides_bytes, item.box, item.swizzle)
        target = self.pointers[step["parameter"]] + int(step["offset_bytes"])
        self.memory.write(target, name_map(map_, self.maps))

    def batch(self, seed: int, number: int) -> BatchCounts:
        """One round: prepare, run, collect. Raises LaunchFault, and NotRun for what the emulation
        does not compute."""
        schedule, engines = SCHEDULES[number % len(SCHEDULES)]
        settings = EmulationSettings(
            CheckMode.OFF, DEVICES[str(self.manifest["target"])], seed,
            core=CoreOptions(False, schedule=schedule, engines=engines, polls_max=POLLS_MAX),
        )  # fmt: skip
        queue = LaunchQueue(settings, LaunchChecker(settings))
        values = self.plan.values(seed, number)
        histogram = self.pointers["histogram"]
        size = int(self.manifest["outcomes"]["incomplete_bucket"]) + 1
        self.memory.write(histogram, bytes(8 * size))
        parameters = [
            struct.pack("<Q", self.pointers[item["name"]])
            if item["name"] in self.pointers
            else struct.pack("<I", values[item["role"]])
            for item in self.manifest["parameters"]
        ]
        begin = time.monotonic()
        for name, ctas, threads in self.plan.launches(OTHERS_CTAS):
            entry = self.loaded.entry(name)
            required = entry.performance.get("reqnctapercluster", ())
            cluster = (*required, 1, 1, 1)[:3]
            shape = LaunchShape((ctas, 1, 1), (threads, 1, 1), (cluster[0], cluster[1], cluster[2]))
            try:
                queue.run(self.loaded, entry, shape, parameters, self.maps, self.memory)
            except LaunchFault:
                raise
            except LaunchError as error:
                raise NotRun(str(error).splitlines()[0]) from None
        counts = struct.unpack(f"<{size}Q", self.memory.read(histogram, 8 * size))
        return {
            "kind": "counts",
            "histogram": list(counts),
            "seed": seed,
            "spread": values["spread"],
            "seconds": time.monotonic() - begin,
        }
