"""A litmus test rendered as a kernel in CUDA or HIP, run in bulk on a GPU as its manifest asks.

Batches differ in seed, delays, placement (lanes, groups, threads together in a warp) and in how
many warps only disturb. Supports set-up by nothing, tensor maps, a constant symbol and a second
mapping of the same memory; tests that need textures or surfaces are reported as not run. Runs in a
child process. Source: docs/reference/litmus_kernels.md; CUDA driver API.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from titan.device.driver import (
    AccessDescription,
    AllocationProperties,
    DeviceError,
    NoDevice,
    call,
)
from titan.device.gpu import CType, encode
from titan.device.litmus_batches import BatchRunner
from titan.device.litmus_plan import LitmusPlan, NotRun, map_arguments, placements_of
from titan.device.manifests import KernelParameter, LitmusManifest, SetupStep
from titan.device.platforms import platform_of, target_here
from titan.device.records import BatchCounts, CompiledRecord, CupyArray, Job

SUPPORTED = ("encode tensor map", "constant symbol", "map again")
ALIGNMENT_BYTES = 128
PLACEMENTS_MOST = 6
RUNNER = BatchRunner(SUPPORTED, "has no host code", PLACEMENTS_MOST)


def batches(source: Path, manifest: LitmusManifest, job: Job) -> Iterator[BatchCounts]:
    """Counts of batches on the GPU that is there (`BatchRunner.batches`).

    The job also has `scale`; `keep`: a folder for what was compiled; `binaries`: one with what is
    ready. Raises NotRun and DeviceError.
    """
    return RUNNER.batches(manifest, job, lambda options: _Test(source, manifest, options, job))


def compile_ahead(job: Job) -> Iterator[CompiledRecord]:
    """Machine code for the cache, of all placements that are tried. Needs no device.

    What this compiler does not take, as a target that it is too old for, is left to the run.
    """
    import json

    for name in job["manifests"]:
        path = Path(name)
        manifest = json.loads(path.read_text(encoding="utf-8"))
        source = path.parent / Path(str(manifest["source"])).name
        try:
            RUNNER.check(manifest)
            platform = platform_of(str(manifest["target"]))
            target = target_here(manifest)
            for options in placements_of(manifest, int(job["most"])):
                defines = [f"{name}={value}" for name, value in options]
                platform.machine_code(source, target, defines, Path(job["cache"]))
        except NotRun:
            continue
        except NoDevice:
            raise
        except DeviceError:
            continue
        yield {"kind": "compiled", "manifest": name}


class _Test:
    """One compiled test with its memory."""

    def __init__(
        self, source: Path, manifest: LitmusManifest, options: Mapping[str, int], job: Job,
    ) -> None:  # fmt: skip
        self.manifest = manifest
        platform, target = platform_of(str(manifest["target"])), target_here(manifest)
        self.cupy = platform.library()
        xcds = int(platform.facts().get("xcds", 1))
        self.plan = LitmusPlan.of(manifest, options, job.get("scale", 1.0), xcds)
        defines = [f"{name}={value}" for name, value in options.items()]
        name = "+".join(["test", *(f"{value}" for _, value in sorted(options.items()))]) + ".cubin"
        ready = Path(job["binaries"]) / name if job.get("binaries") else None
        cubin = ready.read_bytes() if ready is not None and ready.is_file() else None
        cache = Path(job["cache"]) if job.get("cache") else None
        self.module = platform.module(source, target, defines, cubin, cache)
        if job.get("keep"):
            (Path(job["keep"]) / name).write_bytes(self.module.cubin)
        self.kernels = {name: self.module.function(name, 0) for name in manifest["kernels"]}
        self.buffers: dict[str, CupyArray] = {}
        self.mapped: dict[str, _Mapped] = {}
        self.pointers: dict[str, int] = {}
        views = [step for step in manifest["setup"] if step["step"] == "map again"]
        twice = {step["alias_of"] for step in views}
        for item in manifest["buffers"]:
            name, size = item["parameter"], self.plan.buffer_bytes(item)
            if name in twice:
                self.mapped[name] = _Mapped(size)
                self.pointers[name] = self.mapped[name].map()
            else:
                size += ALIGNMENT_BYTES
                if item.get("fine_grained"):
                    made = self.cupy.zeros(size, dtype="uint8", fine_grained=True)
                else:
                    made = self.cupy.zeros(size, dtype="uint8")
                self.buffers[name] = made
                at = self.buffers[name].data.ptr
                self.pointers[name] = at + -at % ALIGNMENT_BYTES
        for step in manifest["setup"]:
            self._set_up(step)

    def _set_up(self, step: SetupStep) -> None:
        match step["step"]:
            case "map again":
                self.pointers[step["parameter"]] = self.mapped[step["alias_of"]].map()
            case "constant symbol":
                self.pointers[step["parameter"]] = self.module.address(str(step["symbol"]))
            case "encode tensor map":
                self._tensor_map(step)

    def _tensor_map(self, step: SetupStep) -> None:
        place = step["address"]
        base = self.pointers[place["parameter"]] + int(place["offset_bytes"])
        encoded = encode(map_arguments(step), base)
        target = self.pointers[step["parameter"]] + int(step["offset_bytes"])
        call("cuMemcpyHtoD_v2", target, encoded, len(encoded), what="tensor map")

    def batch(self, seed: int, number: int) -> BatchCounts:
        """One round: prepare, run, collect."""
        values = self.plan.values(seed, number)
        arguments = [self._argument(item, values) for item in self.manifest["parameters"]]
        histogram = self.buffers["histogram"]
        histogram.fill(0)
        stream = self.cupy.cuda.get_current_stream().ptr
        self.cupy.cuda.Device().synchronize()
        begin = time.monotonic()
        for name, blocks, size in self.plan.launches():
            self.kernels[name].launch(blocks, size, arguments, stream=stream)
        self.cupy.cuda.Device().synchronize()
        seconds = time.monotonic() - begin
        size = int(self.manifest["outcomes"]["incomplete_bucket"]) + 1
        offset = self.pointers["histogram"] - histogram.data.ptr
        counts = histogram[offset : offset + 8 * size].view("uint64").get()
        return {
            "kind": "counts",
            "histogram": [int(count) for count in counts],
            "seed": seed,
            "spread": values["spread"],
            "seconds": seconds,
        }

    def _argument(self, item: KernelParameter, values: Mapping[str, int]) -> CType:
        if item["name"] in self.pointers:
            return ctypes.c_uint64(self.pointers[item["name"]])
        return ctypes.c_uint32(values[item["role"]])


class _Mapped:
    """Physical memory that can be mapped at several addresses (cuMemCreate, cuMemMap)."""

    def __init__(self, size: int) -> None:
        properties = ctypes.byref(AllocationProperties(type=1, location_type=1))
        granularity = ctypes.c_size_t()
        call("cuMemGetAllocationGranularity", ctypes.byref(granularity), properties, 0)
        self.size = -(-size // granularity.value) * granularity.value
        self.handle = ctypes.c_uint64()
        call("cuMemCreate", ctypes.byref(self.handle), self.size, properties, 0)

    def map(self) -> int:
        """A further address of the memory, filled with zeros."""
        address = ctypes.c_uint64()
        call("cuMemAddressReserve", ctypes.byref(address), self.size, 0, 0, 0)
        call("cuMemMap", address, self.size, 0, self.handle, 0)
        access = AccessDescription(location_type=1, flags=3)
        call("cuMemSetAccess", address, self.size, ctypes.byref(access), 1)
        call("cuMemsetD8_v2", address, 0, self.size)
        return int(address.value)
