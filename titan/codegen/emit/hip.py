"""From a verified CDNA pipeline and its tile program to a HIP kernel, its header and its manifest.

`emit(tile, kernel, program)`: `program` is lowered with computations. All waves run one role; waits
and barriers stand where the program has them. Raises EmissionRefused for whatever has no faithful
spelling. The output depends on the arguments alone, byte for byte.
Sources: HARDWARE A11 to A25; CDNA3 instruction set architecture, MFMA register layouts.
"""

from __future__ import annotations

from typing import cast

from titan.codegen.emit.conforms import check
from titan.codegen.emit.hip_operations import Places
from titan.codegen.emit.hip_program import TILES, Walk
from titan.codegen.emit.hip_tiles import LdsTile, buffers_of
from titan.codegen.emit.hip_values import LANES, HipValues, values_of
from titan.codegen.emit.host import launch_header
from titan.codegen.emit.manifest import scalar_arguments, scalars_of_manifest
from titan.codegen.emit.model import EmissionRefused, Emitted
from titan.codegen.emit.names import identifier, mangled, spelled_scalar
from titan.codegen.emit.ranges import EXTENT_MAX, range_constraints
from titan.codegen.tile.manifest import LAUNCH_HEADER, Manifest, ManifestArgument
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.rates import rates
from titan.foundation.resources import root, template
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression, binary, names_of, to_text
from titan.target.completion import Vendor
from titan.target.description import generated_targets

SOURCE = "kernel.hip.cpp"
HEADER = "titan_device.hip.h"
BACKEND = "gfx942"  # gfx950 has the same header and template
THREADS_MAX = 2**32 - 1  # of a launch (HIP runtime API, hipModuleLaunchKernel)
REGISTERS_OF_LANE = 512  # VGPRs and AGPRs; waves of one SIMD share the file


def emit(tile: TileProgram, kernel: Kernel, program: ir.SyncProgram) -> Emitted:
    """Source, device header and manifest. Raises EmissionRefused."""
    _check(tile, kernel, program)
    values = values_of(tile)
    buffers = buffers_of(kernel, program, values)
    places = Places(tile)
    walk = Walk(kernel, program, values, buffers, places)
    body = walk.run()
    source = _source(tile, values, buffers, places, body, bool(walk.direct))
    folder = root("backends") / BACKEND
    header = (folder / HEADER).read_text(encoding="utf-8")
    manifest = _manifest(tile, kernel, buffers, places, walk)
    notes = ["workgroups compute one work item each"] if tile.persistent else []
    files = {SOURCE: source, HEADER: header, LAUNCH_HEADER: launch_header(manifest)}
    return Emitted(files, manifest, tuple(notes))


def _check(tile: TileProgram, kernel: Kernel, program: ir.SyncProgram) -> None:
    identifier(tile.name, "the tile program")
    targets = {tile.target, kernel.target, program.target}
    if targets != {tile.target} or tile.target not in generated_targets(Vendor.AMD):
        raise EmissionRefused(f"no HIP is emitted for {sorted(map(ascii, targets))[0]}")
    if tile.lookups or any(item.below is not None for item in tile.operations):
        raise EmissionRefused("lookups and `below` have no form in HIP")
    if tile.dependent_launch or any(item.evict for item in tile.operations):
        raise EmissionRefused("dependent launches and `evict` have no form in HIP")
    if tile.sums or any(item.kind == "share" for item in tile.operations):
        raise EmissionRefused("sums onto tensors and shared fragments have no form in HIP")
    if any(item.writes_transposed for item in tile.operations):
        raise EmissionRefused("stores that transpose have no form in HIP")
    if tile.cluster != 1 or kernel.ctas != 1:
        raise EmissionRefused("there are no clusters")
    if [parameter.name for parameter in program.parameters] != [TILES]:
        raise EmissionRefused("the pipeline has the number of tiles as its one parameter")
    if program.parameters[0].minimum > 1 or program.parameters[0].value is not None:
        raise EmissionRefused("the pipeline is not verified from one tile upwards")
    if program.barriers or program.pools:
        raise EmissionRefused("there are no mbarriers and no pools")
    check(kernel, program)
    if any(parameter.minimum > 1 for parameter in tile.parameters):
        raise EmissionRefused("a parameter is at least 1, no more is known")


def work_items(tile: TileProgram) -> Expression:
    """The number of work items."""
    total: Expression = Constant(1)
    for dimension in tile.work:
        total = binary("*", total, dimension.count)
    return total


def neighbours_share(tile: TileProgram) -> bool:
    """Whether work items that differ in the last coordinate alone load the same tiles in the loop,
    as all queries of one head do, so that they should be on one die. Where that coordinate decides
    how long the loop is, dies would have more to do than others."""
    last = tile.work[-1].name
    loads = [operation for operation in tile.body if operation.kind == "load"]
    used = {
        name
        for operation in loads
        for offset in operation.tensor_view.offsets
        for name in names_of(offset)
    }
    used |= set(names_of(tile.trip_count))
    return bool(loads) and len(tile.work) > 1 and last not in used


def _source(
    tile: TileProgram,
    values: HipValues,
    buffers: dict[str, LdsTile],
    places: Places,
    body: list[str],
    direct: bool,
) -> str:
    arguments = [
        f"{'' if tensor.output else 'const '}void *{mangled('g', tensor.name, 'a tensor')}"
        for tensor in tile.tensors
    ]
    arguments += [f"int {mangled('p', item.name, 'a parameter')}" for item in tile.parameters]
    arguments += [f"float {spelled_scalar(item.name)}" for item in tile.scalars]
    coordinates = [
        (mangled("w", item.name, "a work coordinate"), places.text(item.count, places.outside))
        for item in tile.work
    ]
    passing = [
        f"titan::Passing<{item.copies}, {item.unit}> {item.passing};"
        for item in buffers.values()
        if not item.width
    ]
    tiles = [
        (item.load.name, item.rows, item.columns, item.dtype, item.stages, item.offset)
        for item in buffers.values()
    ]
    return template(BACKEND, "kernel.hip.cpp.j2").render(
        name=tile.name,
        target=tile.target,
        entry=mangled("titan", tile.name, "the kernel"),
        threads=LANES * tile.groups,
        arguments=arguments,
        tiles=tiles,
        coordinates=coordinates,
        dies=rates(tile.target).dies if neighbours_share(tile) else 1,
        items=places.text(work_items(tile), places.outside),
        trip_count=places.text(tile.trip_count, places.outside),
        declarations=[*values.declarations(), *passing],
        direct=direct,
        split=values.split,
        body=body,
    )


def _manifest(
    tile: TileProgram,
    kernel: Kernel,
    buffers: dict[str, LdsTile],
    places: Places,
    walk: Walk,
) -> Manifest:
    items = places.plain(work_items(tile))
    waves = tile.groups
    items_max = min(EXTENT_MAX, THREADS_MAX // (LANES * waves))
    ranges = range_constraints(tile, walk.program, work_items(tile), items_max, walk.ahead)
    shared = max(item.offset + item.stages * item.stage_bytes for item in buffers.values())
    threads = LANES * waves
    pointers: list[ManifestArgument] = [
        {"kind": "pointer", "name": mangled("g", item.name, "a tensor"), "tensor": item.name}
        for item in tile.tensors
    ]
    sizes: list[ManifestArgument] = [
        {"kind": "size", "name": item.name} for item in tile.parameters
    ]
    data = {
        "titan": "1",
        "kernel": tile.name,
        "target": tile.target,
        "entry": mangled("titan", tile.name, "the kernel"),
        "source": SOURCE,
        "header": HEADER,
        "parameters": [{"name": item.name, "minimum": 1} for item in tile.parameters],
        **scalars_of_manifest(tile),
        "tensors": [
            {
                "name": item.name,
                "dtype": item.dtype,
                "shape": [places.plain(extent) for extent in item.shape],
                "output": item.output,
                **_together(places, item.name),
            }
            for item in tile.tensors
        ],
        "arguments": [*pointers, *sizes, *scalar_arguments(tile)],
        "constraints": [*ranges, *places.constraints],
        "launch": {"block": threads, "grid": items, "cluster": 1, "dynamic_shared_bytes": shared},
        "work": items,
        "trip_count": to_text(binary("max", Constant(1), _plain(places, tile.trip_count))),
        "roles": [{"name": walk.role.name, "first_thread": 0, "threads": threads, "registers": 0}],
        "rings": [
            {"name": item.load.name, "depth": item.stages, "bytes": item.stage_bytes}
            for item in buffers.values()
        ],
        "copies": {item.load.name: item.copies for item in buffers.values() if item.width},
        "resources": {
            "shared_bytes": shared,
            "barriers": 0,
            "named_barriers": 1,
            "fences": 0,
            "registers_per_thread_max": REGISTERS_OF_LANE // max(1, -(-waves // 4)),
        },
    }
    return cast(Manifest, data)  # `scalars` stands between two others, or not at all


def _together(places: Places, tensor: str) -> dict[str, int]:
    found = places.together_bytes.get(tensor)
    return {} if found is None else {"together_bytes": found}


def _plain(places: Places, expression: Expression) -> Expression:
    from titan.sync.expression import substitute

    places.text(expression)
    return substitute(expression, places.sizes)
