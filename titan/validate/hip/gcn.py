"""Runs an emitted HIP kernel from the assembly that clang makes of it, with its numbers.

The work-groups run one after the other, wave by wave from barrier to barrier, on the machine of
waves (`titan/isa/waves/`); in this order a kernel without races computes what it does in any other.
What the machine does not compute, or would have to guess, is a KernelFault with the instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from titan.codegen.tile.dtypes import bytes_of, decode, encode
from titan.codegen.tile.manifest import Manifest
from titan.foundation.scratch import scratch
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.module import AssemblyFile
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.sync.expression import evaluate, parse_expression
from titan.validate.compare.gcn_compile import hip_assembly
from titan.validate.hip.run import EmulationError, KernelFault, LaunchRefused, check_launch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

FIRST_ADDRESS = 0x7000_0000_0000
APART = 1 << 32  # from one tensor to the next
STEPS_MAX = 5_000_000  # of the waves of a work-group


def assembled(files: Mapping[str, str], manifest: Manifest) -> AssemblyFile:
    """The assembly of a package. Raises ToolchainMissing, CannotCompile, EmulationError."""
    with scratch("titan-gcn-") as folder:
        for name in (manifest["source"], manifest["header"]):
            (Path(folder) / Path(name).name).write_text(files[name], encoding="utf-8")
        text = hip_assembly(Path(folder) / Path(manifest["source"]).name, manifest["target"])
    found, errors = parse_assembly(Source("kernel.s", text))
    if found is None or errors:
        raise EmulationError(f"the assembly is not understood: {errors[0].headline}")
    return found


def emulate_gcn(
    code: AssemblyFile,
    manifest: Manifest,
    inputs: Mapping[str, ArrayLike],
    parameters: Mapping[str, int],
) -> dict[str, NDArray[np.float32]]:
    """The outputs of one launch; elements that are never written are NaN.

    Raises KernelFault, LaunchRefused.
    """
    import numpy as np

    from titan.isa.waves.contents import Contents
    from titan.isa.waves.machine import WaveMachine

    check_launch(manifest, parameters)
    arrays = _arrays(manifest, inputs, parameters)
    addresses = {name: FIRST_ADDRESS + at * APART for at, name in enumerate(arrays)}
    contents = Contents([(addresses[name], array) for name, array in arrays.items()])
    launch = _launch(manifest, addresses, parameters)
    kernel = next(one for one in code.kernels if one.name == manifest["entry"])
    for group in range(launch.ctas):
        machine = WaveMachine(code, kernel, launch, group, STEPS_MAX, contents=contents)
        outcome = machine.run().outcome
        if outcome.ending is not Ending.FINISHED:
            line = code.instructions[max(0, outcome.site)].line
            raise KernelFault(f"work-group {group}, line {line} of the assembly: {outcome.reason}")
    found = {}
    for tensor in manifest["tensors"]:
        if tensor["output"]:
            width = {1: np.uint8, 2: np.uint16, 4: np.uint32}[bytes_of(tensor["dtype"])]
            shape = _shape(tensor["shape"], parameters)
            patterns = arrays[tensor["name"]].view(width).reshape(shape)
            found[tensor["name"]] = decode(patterns, tensor["dtype"])
    return found


def _shape(texts: list[str], parameters: Mapping[str, int]) -> list[int]:
    return [evaluate(parse_expression(text), parameters) for text in texts]


def _arrays(
    manifest: Manifest, inputs: Mapping[str, ArrayLike], parameters: Mapping[str, int]
) -> dict[str, NDArray[np.uint8]]:
    """The bytes of every tensor; outputs are NaN."""
    import numpy as np

    found = {}
    for tensor in manifest["tensors"]:
        shape = _shape(tensor["shape"], parameters)
        if tensor["output"]:
            size = int(np.prod(shape)) * bytes_of(tensor["dtype"])
            found[tensor["name"]] = np.full(size, 0xFF, np.uint8)
            continue
        values = np.asarray(inputs[tensor["name"]])
        if list(values.shape) != shape:
            raise LaunchRefused(f"{tensor['name']} has the shape {values.shape}, not {shape}")
        patterns = np.ascontiguousarray(encode(values, tensor["dtype"]))
        found[tensor["name"]] = patterns.view(np.uint8).ravel().copy()
    return found


def _launch(
    manifest: Manifest, addresses: Mapping[str, int], parameters: Mapping[str, int]
) -> Launch:
    given = []
    for item in manifest["arguments"]:
        if item["kind"] == "pointer":
            given.append(LaunchParameter(addresses[item["tensor"]].to_bytes(8, "little")))
        elif item["kind"] == "size":
            given.append(LaunchParameter(parameters[item["name"]].to_bytes(4, "little")))
        else:
            raise LaunchRefused(f"an argument of the kind {item['kind']} is not given")
    settings = manifest["launch"]
    groups = evaluate(parse_expression(settings["grid"]), parameters)
    return Launch(
        None, (groups, 1, 1), (settings["block"], 1, 1),
        dynamic_shared_bytes=settings["dynamic_shared_bytes"], parameters=tuple(given),
    )  # fmt: skip
