"""Runs a launch of a module: decode, lay out, execute."""

from __future__ import annotations

from dataclasses import replace

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.foundation.source.span import Source, whole_file
from titan.isa.ptx.module import Function, Module
from titan.isa.simt.decode import decode
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.launch import Launch, LaunchTensorMap, Options
from titan.isa.simt.layout import MemoryLayout, lay_out
from titan.isa.simt.native import Native, core
from titan.isa.simt.native_events import RecordingBefore
from titan.isa.simt.operations import DecodedCode
from titan.isa.simt.outcome import PreparedLaunch, Run
from titan.isa.simt.tensor_maps import ELEMENT_BITS

SHARED_MAX = 1 << 20
LOCAL_MAX = 1 << 22
PARAMETER_MAX = 1 << 16
CONSTANT_MAX = 1 << 20
CTAS_MAX = 1 << 24  # of the grid
RUN_MAX = 1 << 20  # CTAs of one run


def find_entry(module: Module, name: str | None) -> tuple[Function | None, list[Diagnostic]]:
    """The entry called `name`, or the only one."""
    entries = [entry for entry in module.entries() if not entry.declared]
    names = [entry.name for entry in entries]
    place = whole_file(module.path)
    if name is None:
        if len(entries) == 1:
            return entries[0], []
        headline = f"the module has {len(entries)} entries, and none is named"
        helps = tuple(f"there is {quoted(found)}" for found in names[:8])
        return None, [diagnostic("TTN010", headline, place, helps=helps)]
    for entry in entries:
        if entry.name == name:
            return entry, []
    headline = f"the module has no entry {quoted(name)}"
    return None, [diagnostic("TTN010", headline, place, helps=suggestion(name, names))]


def run(
    module: Module,
    launch: Launch,
    options: Options | None = None,
    source: Source | None = None,
    *,
    native: bool | None = None,
) -> tuple[Run | None, list[Diagnostic]]:
    """The run of a launch, or why there is none: no such entry, unknown instructions, a launch that
    does not fit (grid not in whole clusters, too many threads).

    `native` None takes the native machine where it is built, else the Python one, with the same
    result.
    """
    options = Options() if options is None else options
    ready, findings = prepare(module, launch, options, source)
    if ready is None:
        return None, findings
    code, layout, places = ready
    if native or (native is None and core() is not None):
        found = Native(code, layout, launch, options).run(places)
    else:
        machine = SimtExecution(code, layout, launch, options)
        machine.load_parameters(places)
        found = machine.run()
    made = PreparedLaunch(code, layout, launch, options, tuple(places), module.instructions)
    return replace(found, prepared=made), []


def run_again(made: PreparedLaunch, *, strong_as_plain: bool) -> Run:
    """The run of a prepared launch, made again with that option."""
    options = replace(made.options, strong_as_plain=strong_as_plain)
    places = list(made.parameters)
    if core() is not None:
        found = Native(made.code, made.layout, made.launch, options).run(places)
    else:
        machine = SimtExecution(made.code, made.layout, made.launch, options)
        machine.load_parameters(places)
        found = machine.run()
    return replace(found, prepared=replace(made, options=options))


def run_prepared(
    made: PreparedLaunch,
    reads: tuple[tuple[int, int], ...] = (),
    before: RecordingBefore | None = None,
) -> tuple[Run, list[bytes | None]]:
    """The run of a prepared launch, and what it leaves in ranges of global memory, if known.

    `before`: as of `Native.run`.
    """
    places = list(made.parameters)
    if core() is not None:
        native = Native(made.code, made.layout, made.launch, made.options)
        found = native.run(places, tuple((low, high - low) for low, high in reads), before)
        left = native.read if reads else []
    else:
        machine = SimtExecution(made.code, made.layout, made.launch, made.options)
        machine.load_parameters(places)
        found = machine.run()
        left = [machine.memory.bytes_at(low, high - low) for low, high in reads]
    return replace(found, prepared=made), left


Prepared = tuple[DecodedCode, MemoryLayout, list[tuple[int, int]]]


def prepare(
    module: Module, launch: Launch, options: Options, source: Source | None = None
) -> tuple[Prepared | None, list[Diagnostic]]:
    """The decoded code of the entry, the layout of memory, and (offset, bytes) of its parameters;
    or why there is no run.
    """
    entry, findings = find_entry(module, launch.entry)
    if entry is None:
        return None, findings
    findings = _check(module, launch, options)
    if findings:
        return None, findings
    layout = lay_out(module, entry, launch.dynamic_shared_bytes, launch.module)
    findings = [
        diagnostic("TTN009", f"{size} bytes of {what} memory", whole_file(module.path))
        for what, size, limit in (
            ("shared", layout.shared_bytes, SHARED_MAX),
            ("local", layout.local_bytes, LOCAL_MAX),
            ("parameter", _declared_bytes(entry), PARAMETER_MAX),
            ("constant", layout.constant_bytes, CONSTANT_MAX),
        )
        if size > limit
    ]
    if findings:
        return None, findings
    places = list(layout.parameters)
    code, findings = decode(module, entry, layout, source, _zero_bytes(launch, places))
    if code is None:
        return None, findings
    return (code, layout, places), []


def _declared_bytes(entry: Function) -> int:
    """The end of the parameters, as they are declared."""
    last = entry.parameters[-1] if entry.parameters else None
    return 0 if last is None else last.offset + last.size_bytes


def _zero_bytes(launch: Launch, places: list[tuple[int, int]]) -> set[int]:
    """The bytes of the parameters that are known to be zero, by their offsets."""
    found: set[int] = set()
    for (start, size), parameter in zip(places, launch.parameters, strict=False):
        known = parameter.known or bytes([1]) * len(parameter.data)
        for n, (byte, is_known) in enumerate(zip(parameter.data, known, strict=False)):
            if not byte and is_known and n < size:
                found.add(start + n)
    return found


def _map(map_: LaunchTensorMap) -> str:
    """What is wrong with a tensor map, or nothing."""
    rank = map_.rank
    if not 1 <= rank <= 5 or len(map_.stride_bytes) != rank - 1:
        return f"{rank} dimensions, {len(map_.stride_bytes)} strides"
    if not 0 <= map_.data_type < len(ELEMENT_BITS):
        return f"data type {map_.data_type}"
    numbers = (map_.base, *map_.dimensions, *map_.stride_bytes)
    if not all(0 <= number < 1 << 57 for number in numbers):
        return "an address"
    large = any(size > 1 << 32 for size in map_.dimensions)
    if large or any(stride >= 1 << 40 for stride in map_.stride_bytes):  # CUDA's own bounds
        return "an extent"
    if len(map_.element_strides) != rank or min(map_.element_strides) < 1:
        return "element strides"
    if map_.pixels:
        corners = len(map_.lower) == len(map_.upper) == rank - 2 >= 1
        return "" if corners and 0 < map_.pixels <= 1024 else "an im2col box"
    if len(map_.box) != rank or not all(1 <= size <= 256 for size in map_.box):
        return "box"
    return ""


def _check(module: Module, launch: Launch, options: Options) -> list[Diagnostic]:
    place = whole_file(module.path)
    wrong: list[str] = []
    for axis, count, size in zip("xyz", launch.grid, launch.cluster, strict=True):
        if count < 1 or size < 1 or count % size:
            wrong.append(
                f"grid of {count} CTAs in {axis} is not a multiple of the cluster's {size}"
            )
    if not 1 <= launch.threads <= 1024 or min(launch.block) < 1:
        wrong.append(f"a block of {launch.threads} threads")
    if not 0 <= launch.dynamic_shared_bytes <= 1 << 20:
        wrong.append(f"{launch.dynamic_shared_bytes} bytes of dynamic shared memory")
    if launch.cluster_size > 16:
        wrong.append(f"a cluster of {launch.cluster_size} CTAs")
    if launch.ctas > CTAS_MAX:
        wrong.append(f"a grid of {launch.ctas} CTAs")
    count = launch.ctas if options.ctas is None else len(options.ctas)
    if count > RUN_MAX:
        wrong.append(f"{count} CTAs to run at once")
    if not all(0 <= cta < launch.ctas for cta in options.ctas or ()):
        wrong.append("a CTA to run that is not in the grid")
    wrong += [f"a tensor map that is none: {text}" for text in map(_map, launch.maps()) if text]
    return [diagnostic("TTN009", f"the launch has {text}", place) for text in wrong]
