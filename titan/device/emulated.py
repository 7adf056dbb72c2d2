"""Packages on the emulated device: the PTX of their kernels, run with numbers under seeds.

The back end beside a GPU: it runs what nvcc made of the source, warps and asynchronous operations
in an order that the seed chooses. Under the policies of `ADVERSARIAL` a warp starves, runs ahead,
or clusters take turns, while engines finish late, early or at random; under "checked" each launch
is decided in all interleavings before, by the stricter reading of fences that packages are built
for. What the machine or the checker finds (out of bounds, a hang, a race, a misused barrier, a
register read in flight) is a fault; bytes of an output that are unknown, as of operands that were
not waited for, are wrong numbers. Packages for AMD run as `emulated_hip` says.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from titan.codegen.tile.manifest import Manifest
from titan.device.emulated_hip import EmulatedHipPackage
from titan.device.plan import LaunchPlan, Number, Pointer, ScalarNumber, TensorMapArguments, plan
from titan.device.platforms import AMD_TARGETS
from titan.device.records import MESSAGE_CHARACTERS, NOT_RUN, RunCase, RunRecord
from titan.emulated.faults import LaunchFault, NotComputed
from titan.emulated.machine import Emulated
from titan.emulated.settings import BINARY32_SUMS, CheckMode, EmulationSettings
from titan.foundation.errors import Refusal
from titan.isa.numbers.device import Argument, DeviceArray, LaunchError, LaunchShape, TiledMap
from titan.validate.compare.compile import ptx_of
from titan.validate.hip.run import EmulationError, KernelFault

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[numpy.float64]]
    Outputs = dict[str, NDArray[numpy.float32]]

CHECKED = "checked"  # the policy that decides each launch in all interleavings, too
# Schedule of warps and of engines by policy.
ADVERSARIAL = {
    "starved": ("starve", "late"),
    "ahead": ("ahead", "early"),
    "mixed": ("mixed", "random"),
}
POLICIES = ("shuffled", *ADVERSARIAL, CHECKED)
PROCESSORS = 2
TARGETS = {"sm_90a": "h100", "sm_100a": "b200"}


class NotEmulated(Refusal):
    """The kernel is for another machine."""


class EmulatedPackage:
    """A package's PTX, compiled or as it was kept, on so many multiprocessors.

    Raises NotEmulated, ToolchainMissing and CannotCompile.
    """

    def __init__(
        self, manifest: Manifest, files: Mapping[str, str], text: str | None = None,
        processors: int = PROCESSORS,
    ) -> None:  # fmt: skip
        self.manifest, target = manifest, str(manifest["target"])
        if target not in TARGETS:
            raise NotEmulated(f"the emulated device does not run {target}")
        source = Path(manifest["source"]).name
        renamed = {"kernel.cu" if name == source else name: text for name, text in files.items()}
        self.text = ptx_of(renamed, target) if text is None else text
        self.device, self.processors = TARGETS[target], processors

    def outputs(self, case: RunCase, inputs: Arrays) -> Outputs:
        """What the kernel writes. Raises LaunchFault, LaunchError, Unlaunchable."""
        import numpy

        from titan.codegen.tile.dtypes import bytes_of, decode, encode

        check = CheckMode.ALL if case["policy"] == CHECKED else CheckMode.OFF
        seed = 1 + int(case["seed"])  # 0 would be the order of the program
        core = BINARY32_SUMS
        if case["policy"] in ADVERSARIAL:
            schedule, engines = ADVERSARIAL[case["policy"]]
            core = replace(core, schedule=schedule, engines=engines)
        settings = EmulationSettings(check, self.device, seed, policies=(), core=core)
        device = Emulated(settings)
        launch = plan(self.manifest, case["sizes"], self.processors)
        arrays: dict[str, DeviceArray] = {}
        for tensor in launch.tensors:
            if tensor.output:
                raw = numpy.full(tensor.bytes, tensor.beginning, dtype=numpy.uint8)
            else:
                patterns = numpy.ascontiguousarray(encode(inputs[tensor.name], tensor.dtype))
                raw = numpy.resize(patterns.reshape(-1).view(numpy.uint8), tensor.bytes)
            arrays[tensor.name] = device.array(raw)
        device.launch(self.text, shape_of(launch), arguments_of(launch, arrays), launch.entry)
        kinds = {1: numpy.uint8, 2: numpy.uint16, 4: numpy.uint32}
        found = {}
        for tensor in launch.tensors:
            if tensor.output:
                raw = arrays[tensor.name].values.view(kinds[bytes_of(tensor.dtype)])
                found[tensor.name] = decode(raw, tensor.dtype).reshape(tensor.shape)
        return found


class RunnablePackage(Protocol):
    """A package that runs without a GPU; `outputs` raises what the run shows."""

    def outputs(self, case: RunCase, inputs: Arrays) -> Outputs:
        """What the kernel writes, by tensor."""


def runnable(
    manifest: Manifest, files: Mapping[str, str], text: str | None = None
) -> RunnablePackage:
    """A package as it runs without a GPU; `text`: its PTX, where it was kept.

    Raises NotEmulated, ToolchainMissing and CannotCompile.
    """
    if str(manifest["target"]).startswith(AMD_TARGETS):
        return EmulatedHipPackage(manifest, files)
    return EmulatedPackage(manifest, files, text)


def run_case(package: RunnablePackage, case: RunCase, inputs: Arrays) -> tuple[RunRecord, Outputs]:
    """The record of a run, and the outputs where it came to its end."""
    begin = time.monotonic()
    record: RunRecord = {
        "kind": "run", "sizes": case["sizes"], "state": "correct", "message": "",
        "seconds": 0.0,
    }  # fmt: skip
    outputs: Outputs = {}
    message = ""
    try:
        outputs = package.outputs(case, inputs)
    except LaunchFault as fault:
        record["state"] = "hung" if fault.hung else "fault"
        message = fault.findings[0].headline if fault.findings else fault.headline
    except NotComputed as error:
        record["state"], message = "wrong", str(error)
    except LaunchError as error:
        record["state"], message = NOT_RUN, str(error)
    except KernelFault as fault:
        record["state"], message = "fault", str(fault)
    except EmulationError as error:  # says nothing of the kernel
        record["state"], message = NOT_RUN, str(error)
    record["message"] = message.partition("\n")[0][:MESSAGE_CHARACTERS]
    record["seconds"] = round(time.monotonic() - begin, 4)
    return record, outputs


def shape_of(launch: LaunchPlan) -> LaunchShape:
    """Grid, block and cluster of a planned launch, in one dimension."""
    return LaunchShape(
        (launch.grid, 1, 1), (launch.block, 1, 1), (launch.cluster, 1, 1), launch.shared_bytes
    )


def arguments_of(launch: LaunchPlan, arrays: Mapping[str, DeviceArray]) -> list[Argument]:
    """The arguments of a planned launch, its tensors being these arrays of the device."""
    found: list[Argument] = []
    for item in launch.arguments:
        match item:
            case TensorMapArguments():
                found.append(
                    TiledMap(arrays[item.tensor], item.dtype, item.extents, item.strides_bytes,
                             item.box, item.swizzle)
                )  # fmt: skip
            case Pointer():
                found.append(arrays[item.tensor])
            case Number() | ScalarNumber():
                found.append(item.value)
    return found
