"""What single threads of a kernel do that synchronises, out of runs of the machine of warps.

A cluster of a launch is run once, with unknown data; what the machine recorded is taken apart into
one list for each thread that is asked for. Shared addresses are offsets in the window of the
thread's CTA, those of other CTAs have their rank, from 1, in bits 24 and above. Columns of tensor
memory are counted so that what is allocated begins at `TENSOR_BASE`, beyond all of its columns.

A branch on data is refused, even where its arms do not synchronise: what is in them would be left
out. Allowed are arms that only correct what lies in tensor memory (`corrections.py`). A run that
hangs gives the threads as far as they come.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from titan.codegen.tile.dtypes import INDEX_TYPE
from titan.codegen.tile.manifest import Manifest, ascending
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import Refusal
from titan.foundation.source.span import Source
from titan.isa.ptx.module import Function, Instruction, Module
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.launch import Launch, LaunchParameter, LaunchTensorMap, Options
from titan.isa.simt.layout import entry_places, resolve
from titan.isa.simt.outcome import Ending, Outcome, Run
from titan.isa.simt.run import run
from titan.sync.expression import evaluate, parse_expression
from titan.validate.compare.dependent import grid_faults
from titan.validate.compare.thread_events import (
    CTA_SHIFT,
    NOTED,
    TENSOR_BASE,
    EventReader,
    ThreadEvent,
)

__all__ = [
    "CTA_SHIFT", "NOTED", "TENSOR_BASE", "EmittedKernel", "Ran", "ThreadEvent", "UnsupportedPtx",
    "parse_kernel", "run_cluster",
]  # fmt: skip

STEPS_MAX = 3_000_000  # warp instructions of one cluster
# A tensor large enough for all that small launches touch; data are not examined.
_EXTENT, _FIRST_STRIDE_BITS, _BASE_BITS = 1 << 16, 20, 44
_TYPES = {
    "u8": 0, "i8": 0, "e4m3": 0, "e5m2": 0, "ue8m0": 0, "e2m1x2": 0, "f16": 6,
    "f32": 7, "bf16": 9, "tf32": 11,
}  # fmt: skip
_SWIZZLES = {"none": 0, "32b": 1, "64b": 2, "128b": 3}


class UnsupportedPtx(Refusal):
    """The text holds something whose effect on the control flow is not known."""


@dataclass(frozen=True, slots=True)
class EmittedKernel:
    """One kernel of a PTX module."""

    module: Module
    source: Source
    function: Function

    def instructions(self) -> tuple[Instruction, ...]:
        """Those of the kernel itself, in the order of the text."""
        return self.module.instructions[self.function.start : self.function.end]


@dataclass(slots=True)
class Ran:
    """What the threads of a cluster did, by rank and number in the CTA.

    `ended`: threads that came to their end. `faults`: what the machine itself saw go wrong.
    """

    events: dict[tuple[int, int], list[ThreadEvent]] = field(default_factory=dict)
    ended: set[tuple[int, int]] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)  # lines of synchronising instructions
    faults: list[str] = field(default_factory=list)


def parse_kernel(text: str, entry: str | None = None) -> EmittedKernel:
    """The kernel called `entry`, or the only one. Raises UnsupportedPtx."""
    source = Source("kernel.ptx", text)
    module, findings = parse_source(source)
    if module is None:
        raise UnsupportedPtx(_first(findings))
    found = [item for item in module.entries() if entry in (None, item.name)]
    if len(found) != 1:
        raise UnsupportedPtx(f"the text holds {len(found)} kernels of that name")
    return EmittedKernel(module, source, found[0])


def _first(findings: list[Diagnostic]) -> str:
    span = findings[0].span
    return f"line {span.start_line if span else 0}: {findings[0].headline}"


def launch_of(
    kernel: EmittedKernel, manifest: Manifest, sizes: Mapping[str, int], grid: int
) -> Launch:
    """A launch with these sizes; maps have the boxes of the manifest, pointers lead anywhere.

    Integers that kernels look up are `ascending`: coordinates are not compared, and trip counts are
    bounded by the sizes.
    """
    shape = manifest["launch"]
    cluster = int(shape.get("cluster", 1))
    scalars = {item["name"]: item["value"] for item in manifest.get("scalars", ())}
    parameters: list[LaunchParameter] = []
    maps: dict[bytes, LaunchTensorMap] = {}
    memory: dict[int, bytes] = {}
    lookups = _bytes_of_lookups(manifest, sizes)
    for number, item in enumerate(manifest["arguments"]):
        places = kernel.function.parameters
        width = places[number].size_bytes if number < len(places) else 0
        if item["kind"] == "tensor_map":
            data = (number + 1).to_bytes(width, "little")
            maps[data] = _map(number, item)
        elif item["kind"] == "size":
            data = sizes[item["name"]].to_bytes(width, "little")
        elif item["kind"] == "scalar":
            data = struct.pack("<f", scalars[item["name"]])
        else:
            data = (number + 1 << _BASE_BITS).to_bytes(width, "little")
            if item["tensor"] in lookups:
                memory[number + 1 << _BASE_BITS] = lookups[item["tensor"]]
        parameters.append(LaunchParameter(data))
    return Launch(
        kernel.function.name,
        (-(-grid // cluster) * cluster, 1, 1),
        (int(shape["block"]), 1, 1),
        (cluster, 1, 1),
        int(shape.get("dynamic_shared_bytes", 0)),
        tuple(parameters),
        maps,
        memory,
    )


def _bytes_of_lookups(manifest: Manifest, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """The contents of each tensor of integers."""
    found = {}
    for item in manifest.get("tensors", ()):  # one written by hand may name none
        if item["dtype"] == INDEX_TYPE:
            extents = [evaluate(parse_expression(text), sizes) for text in item["shape"]]
            integers = ascending(math.prod(extents))
            found[item["name"]] = struct.pack(f"<{len(integers)}i", *integers)
    return found


def _map(number: int, item: object) -> LaunchTensorMap:
    assert isinstance(item, dict)
    box = tuple(int(extent) for extent in item["box"])
    strides = tuple(1 << _FIRST_STRIDE_BITS + 4 * place for place in range(len(box) - 1))
    swizzle = str(item.get("swizzle") or "none").lower()
    return LaunchTensorMap(
        _TYPES[item["dtype"]],
        number + 1 << _BASE_BITS,
        (_EXTENT,) * len(box),
        strides,
        box,
        (1,) * len(box),
        swizzle=_SWIZZLES[swizzle],
    )


def run_cluster(
    kernel: EmittedKernel, launch: Launch, cta: int, threads: Iterable[int], dependent: bool = False
) -> Ran:
    """What the given threads of each CTA do in the cluster of `cta`. Raises UnsupportedPtx.

    `dependent`: the launch may begin before the one in front of it has ended.
    """
    members = launch.cluster_members(cta)
    options = Options(members, steps_max=STEPS_MAX, highest_columns=True)
    made, findings = run(kernel.module, launch, options, kernel.source)
    if made is None:
        raise UnsupportedPtx(_first(findings))
    found = Ran()
    _ended(kernel, made, found)
    if made.outcome.ending is Ending.BUDGET:
        return found
    offsets = {at: n for n, (at, _) in enumerate(entry_places(kernel.function))}
    reader = EventReader(
        kernel.module.instructions,
        {member: rank for rank, member in enumerate(members)},
        launch.threads,
        lambda address: offsets.get(resolve(address)[1], -1),
    )
    lanes: dict[int, list[int]] = {}
    for thread in threads:
        lanes.setdefault(thread // 32, []).append(thread % 32)
    for rank in range(len(members)):
        for thread in (32 * warp + lane for warp, own in lanes.items() for lane in own):
            found.events[(rank, thread)] = []
    reader.read(made.events, lanes, found.events, found.ended)
    reader.waiting(made.outcome.waiters, lanes, found.events)
    if reader.skipped >= 0:
        line = kernel.module.instructions[reader.skipped].line
        raise UnsupportedPtx(f"line {line}: control depends on data")
    found.seen = reader.seen
    found.faults += reader.faults
    found.faults += grid_faults(made.events, kernel.module.instructions, dependent)
    return found


def _ended(kernel: EmittedKernel, made: Run, found: Ran) -> None:
    """How the run ended, where it is not by itself."""
    outcome: Outcome = made.outcome
    where = ""
    if 0 <= outcome.site < len(kernel.module.instructions):
        where = f"line {kernel.module.instructions[outcome.site].line}: "
    match outcome.ending:
        case Ending.REFUSED:
            raise UnsupportedPtx(f"{where}control depends on data: {outcome.reason}")
        case Ending.BUDGET:
            spent = f"{made.instructions} warp instructions"
            found.faults.append(f"the kernel has not ended after {spent}")
        case Ending.FAULT:
            found.faults.append(f"{where}{outcome.reason}")
        case Ending.HUNG:
            found.faults.append(f"{where}the kernel hangs: {outcome.reason}")
