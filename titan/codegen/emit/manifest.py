"""What a launch needs to know of an emitted kernel: arguments, tensor maps, grid, constraints."""

from __future__ import annotations

from typing import cast

from titan.codegen.emit.expressions import product
from titan.codegen.emit.layout import EmissionLayout, Tile
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import DTYPE_BYTES, dtype, identifier, mangled, shown, spelled_scalar
from titan.codegen.emit.ranges import range_constraints
from titan.codegen.emit.sites import Tiles
from titan.codegen.tile.manifest import (
    Manifest,
    ManifestArgument,
    ManifestFilled,
    ManifestRing,
    ManifestRole,
    ManifestScalar,
    ManifestTensor,
)
from titan.codegen.tile.model import Tensor, TileOperation, TileProgram
from titan.codegen.tile.operations import VECTORS
from titan.sync import program as ir
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    binary,
    linear_form,
    substitute,
    to_text,
)

STRIDE_BYTES = 16  # global strides of a tensor map are multiples of it


def _multiple(number: Expression, of: int, up: bool) -> Expression:
    """The number, brought to a multiple."""
    if of == 1:
        return number
    more = binary("+", number, Constant(of - 1)) if up else number
    return binary("*", binary("//", more, Constant(of)), Constant(of))


def work_counts(tile: TileProgram, ctas: int) -> list[Expression]:
    """Extents of the work coordinates; the CTAs of a cluster have neighbours in the last one.

    Items beyond the last coordinate's end read zeros and write nothing.
    """
    counts = [dimension.count for dimension in tile.work]
    if ctas > 1 and not counts:
        raise EmissionRefused("a cluster without work coordinates")
    if counts and ctas > 1:
        _nothing_beyond(tile, ctas)
    if counts:
        counts[-1] = _multiple(counts[-1], ctas, up=True)
    return counts


def _nothing_beyond(tile: TileProgram, ctas: int) -> None:
    """Every store of an item beyond the end of the last coordinate lies outside of its tensor.

    So it does where one of its offsets is that coordinate times a step, and the count is the extent
    there divided by the step, rounded up. Raises EmissionRefused.
    """
    last, count = tile.work[-1].name, substitute_sizes(tile, tile.work[-1].count)
    if isinstance(count, Constant) and count.value % ctas == 0:
        return
    for operation in tile.operations:
        if operation.kind != "store" or operation.view is None:
            continue
        extents = [substitute_sizes(tile, one) for one in tensor_of(tile, operation).shape]
        offsets = [substitute_sizes(tile, one) for one in operation.view.offsets]
        if not any(
            _ends(count, last, offset, extent)
            for offset, extent in zip(offsets, extents, strict=True)
        ):
            what = mangled("v", operation.name, "a store")
            raise EmissionRefused(f"{what} of a CTA beyond the last {last} would lie in its tensor")


def substitute_sizes(tile: TileProgram, expression: Expression) -> Expression:
    """The expression with the fixed sizes of the program as numbers."""
    return substitute(expression, {name: Constant(value) for name, value in tile.sizes})


def _ends(count: Expression, last: str, offset: Expression, extent: Expression) -> bool:
    """Whether the coordinate at `count` and beyond puts an offset at the extent or beyond."""
    found, whole = linear_form(offset), linear_form(extent)
    if found is None or whole is None or set(found[0]) != {last} or found[1] < 0:
        return False
    step = found[0][last]
    if step == 1 and linear_form(count) == whole:
        return True
    if not (isinstance(count, Binary) and count.operator == "//" and count.right == Constant(step)):
        return False
    return step >= 1 and linear_form(count.left) == (whole[0], whole[1] + step - 1)


def tensor_of(tile: TileProgram, operation: TileOperation) -> Tensor:
    """The tensor that a load or store is of. Raises EmissionRefused."""
    if operation.view is None:
        raise EmissionRefused(f"{operation.name} names no tensor")
    return tensor_named(tile, operation.view.tensor)


def tensor_named(tile: TileProgram, name: str) -> Tensor:
    """The tensor of a name. Raises EmissionRefused."""
    for tensor in tile.tensors:
        if tensor.name == name:
            return tensor
    raise EmissionRefused(f"there is no tensor {shown(name)}")


def mapped(
    tile: TileProgram, tiles: Tiles, layout: EmissionLayout
) -> list[tuple[TileOperation, Tensor, Tile]]:
    """Loads and stores that go through a tensor map, with the shared tile of each."""
    found = []
    for operation in tiles.operations.values():
        if operation.name in tiles.filled - tiles.copied:
            continue
        if operation.kind == "load":
            shared = layout.tiles.get(operation.name)
        elif operation.kind == "store":
            shared = layout.tiles.get(operation.name) or layout.tiles.get(operation.operands[0])
        else:
            continue
        if shared is None:
            if operation.kind == "load":
                raise EmissionRefused(f"{operation.name} has no buffer")
            continue
        tensor = tensor_of(tile, operation)
        rank = len(tensor.shape)
        if operation.view is None or len(operation.view.offsets) != rank or not 2 <= rank <= 4:
            raise EmissionRefused(f"{operation.name} has a view of another rank than its tensor")
        if dtype(tensor.dtype, tensor.name) != shared.dtype:
            raise EmissionRefused(f"{operation.name} has a buffer of another element type")
        found.append((operation, tensor, shared))
    return found


def pointed(tile: TileProgram, tiles: Tiles, layout: EmissionLayout) -> list[Tensor]:
    """Tensors that threads reach by themselves."""
    names = {lookup.view.tensor: tensor_named(tile, lookup.view.tensor) for lookup in tile.lookups}
    multiplied = {name for one in tiles.direct for name in tiles.operations[one].operands[:2]}
    for operation in tiles.operations.values():
        direct = (
            operation.kind in VECTORS
            or operation.name in multiplied
            or operation.name in tiles.filled
            or (
                operation.kind == "store"
                and operation.name not in layout.tiles
                and operation.operands[0] not in layout.tiles
            )
        )
        if direct:
            tensor = tensor_of(tile, operation)
            names.setdefault(tensor.name, tensor)
    return list(names.values())


def arguments(
    tile: TileProgram, tiles: Tiles, layout: EmissionLayout, program: ir.SyncProgram
) -> tuple[list[str], list[str]]:
    """The parameters of the kernel as C++ declares them, and the names of the tensor maps."""
    made, maps = [], []
    for operation, _, _ in mapped(tile, tiles, layout):
        name = mangled("map", operation.name, "a tensor map")
        maps.append(name)
        made.append(f"const TITAN_GRID_CONSTANT titan::TensorMap {name}")
    for tensor in pointed(tile, tiles, layout):
        constant = "" if tensor.output else "const "
        made.append(f"{constant}void* {mangled('data', tensor.name, 'a tensor')}")
    made += [f"int {mangled('n', p.name, 'a parameter')}" for p in tile.parameters]
    made += [f"float {spelled_scalar(scalar.name)}" for scalar in tile.scalars]
    return made, maps


def manifest(
    tile: TileProgram,
    program: ir.SyncProgram,
    layout: EmissionLayout,
    tiles: Tiles,
    name: str,
    ctas: int,
) -> Manifest:
    """The manifest as plain data; expressions are texts of the expression language."""
    sizes = {size: Constant(value) for size, value in tile.sizes}
    maps = mapped(tile, tiles, layout)
    pointers = pointed(tile, tiles, layout)
    work = product([substitute(count, sizes) for count in work_counts(tile, ctas)])
    persistent = any(parameter.name == "work" for parameter in program.parameters)
    grid = work
    if persistent and not tiles.answers:
        grid = Binary("min", work, _multiple(Name("processors"), ctas, up=False))
    filled = [layout.tiles[one] for one in sorted(tiles.filled - tiles.copied)]
    data = {
        "titan": "1",
        "kernel": name,
        "target": tile.target,
        "entry": f"titan_{name}",
        "source": "kernel.cu",
        "header": "titan_device.cuh",
        "parameters": [
            {"name": identifier(p.name, "a parameter"), "minimum": p.minimum}
            for p in tile.parameters
        ],
        **scalars_of_manifest(tile),
        "tensors": [_tensor(tensor, sizes, tensor.name in tile.sums) for tensor in tile.tensors],
        "arguments": [
            *(_map(operation, tensor, shared) for operation, tensor, shared in maps),
            *(_pointer(tensor) for tensor in pointers),
            *(_size(parameter) for parameter in tile.parameters),
            *scalar_arguments(tile),
        ],
        "constraints": [
            *_strides(maps, sizes),
            *range_constraints(tile, program, work),
        ],
        "launch": {
            "block": layout.threads,
            "grid": to_text(grid),
            "cluster": ctas,
            "dynamic_shared_bytes": layout.shared_bytes,
            **({"dependent": True} if tile.dependent_launch else {}),
            **({"asks": True} if tiles.answers else {}),
        },
        "work": to_text(work),
        "trip_count": to_text(substitute(tile.trip_count, sizes)),
        "roles": _roles(layout),
        "rings": _rings(program, layout),
        **({"filled": [_filled(tile, shared) for shared in filled]} if filled else {}),
        "resources": {
            "shared_bytes": layout.shared_bytes,
            "barriers": sum(barrier.stages for barrier in program.barriers),
            "named_barriers": sum(barrier.stages for barrier in program.named_barriers),
            "fences": sum(
                isinstance(operation, ir.Fence)
                for role in program.roles
                for operation in ir.walk(role.body)
            ),
            "registers_per_thread_max": max(
                group.registers or layout.entry_registers for group in layout.groups
            ),
        },
    }  # fmt: skip
    return cast(Manifest, data)  # `filled` and `scalars` stand between others, or not at all


def scalars_of_manifest(tile: TileProgram) -> dict[str, list[ManifestScalar]]:
    """The scalar arguments under their key; nothing where there are none."""
    found: list[ManifestScalar] = [
        {"name": identifier(item.name, "a scalar argument"), "value": item.value}
        for item in tile.scalars
    ]
    return {"scalars": found} if found else {}


def scalar_arguments(tile: TileProgram) -> list[ManifestArgument]:
    """The last arguments of the entry."""
    return [{"kind": "scalar", "name": item.name} for item in tile.scalars]


def _roles(layout: EmissionLayout) -> list[ManifestRole]:
    return [
        {
            "name": place.role.name, "first_thread": 32 * place.first_warp,
            "threads": 32 * place.warps * place.role.agents,
            "registers": place.registers or layout.entry_registers,
        }
        for place in layout.places
    ]  # fmt: skip


def _tensor(tensor: Tensor, sizes: dict[str, Constant], adds: bool) -> ManifestTensor:
    made: ManifestTensor = {
        "name": identifier(tensor.name, "a tensor"),
        "dtype": dtype(tensor.dtype, tensor.name),
        "shape": [to_text(substitute(extent, dict(sizes))) for extent in tensor.shape],
        "output": bool(tensor.output),
    }
    return {**made, "adds": True} if adds else made


def _map(operation: TileOperation, tensor: Tensor, shared: Tile) -> ManifestArgument:
    box = [shared.panel_columns, shared.part_rows] + [1] * (len(tensor.shape) - 2)
    return {
        "kind": "tensor_map", "name": f"map_{operation.name}", "tensor": tensor.name,
        "operation": operation.name, "box": box, "swizzle": _swizzle(shared),
        "dtype": shared.dtype,
    }  # fmt: skip


def _swizzle(shared: Tile) -> str:
    return f"{shared.panel_bytes}B" if shared.swizzled else "none"


def _pointer(tensor: Tensor) -> ManifestArgument:
    return {"kind": "pointer", "name": f"data_{tensor.name}", "tensor": tensor.name}


def _size(parameter: ir.Parameter) -> ManifestArgument:
    return {"kind": "size", "name": parameter.name}


def _filled(tile: TileProgram, shared: Tile) -> ManifestFilled:
    """A load that threads do, as the tile lies in shared memory."""
    return {
        "operation": shared.name, "tensor": tensor_of(tile, tile.operation(shared.name)).name,
        "swizzle": _swizzle(shared), "dtype": shared.dtype,
    }  # fmt: skip


def _strides(
    maps: list[tuple[TileOperation, Tensor, Tile]], sizes: dict[str, Constant]
) -> list[str]:
    """Strides of tensor maps are multiples of 16 bytes."""
    found: list[str] = []
    for _, tensor, _ in maps:
        if not tensor.aligned:
            raise EmissionRefused(
                f"rows of {tensor.name} may begin at any element: no tensor map describes it"
            )
        inner = substitute(tensor.shape[-1], dict(sizes))
        multiple = STRIDE_BYTES // DTYPE_BYTES[tensor.dtype]
        condition = binary("==", binary("%", inner, Constant(multiple)), Constant(0))
        if isinstance(condition, Constant):
            if not condition.value:
                raise EmissionRefused(
                    f"rows of {tensor.name} are not a multiple of {STRIDE_BYTES} bytes"
                )
            continue
        found.append(to_text(condition))
    return list(dict.fromkeys(found))


def _rings(program: ir.SyncProgram, layout: EmissionLayout) -> list[ManifestRing]:
    """Rings by their barriers `NAME_full`, with the bytes of one stage."""
    found: dict[str, ManifestRing] = {}
    for role in program.roles:
        for operation in ir.walk(role.body):
            if not isinstance(operation, ir.Arrive) or operation.transaction == Constant(0):
                continue
            name = operation.barrier.name
            if name.endswith("_full") and isinstance(operation.transaction, Constant):
                depth = next(b.stages for b in program.barriers if b.name == name)
                found[name] = {
                    "name": identifier(name.removesuffix("_full"), "a ring"), "depth": depth,
                    "bytes": operation.transaction.value,
                }  # fmt: skip
    return list(found.values())
