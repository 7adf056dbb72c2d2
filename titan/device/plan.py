"""From a manifest and the sizes of a launch to numbers: grid, arguments, tensor maps.

Plain arithmetic, no GPU. Everything that a launch could get wrong is refused here with its reason:
sizes below their minimum, broken constraints, shapes that a tensor map cannot describe.
Source: CUDA driver API, cuTensorMapEncodeTiled and cuLaunchKernelEx.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from titan.codegen.tile.manifest import (
    ALIGNMENT_BYTES,
    LaunchManifest,
    ManifestArgument,
    ManifestTensor,
)
from titan.codegen.tile.scalar_values import BadScalar, checked_scalars
from titan.device.expressions import BadExpression, evaluate
from titan.foundation.errors import UserError

BYTES = {
    "f32": 4,
    "bf16": 2,
    "f16": 2,
    "e4m3": 1,
    "e5m2": 1,
    "ue8m0": 1,
    "e2m1x2": 1,
    "i32": 4,
    "u32": 4,
}
GRID_MAX = 2**31 - 1
EXTENT_MAX = 2**32
STRIDE_MAX = 2**40
SWIZZLES = ("none", "32B", "64B", "128B")


class Unlaunchable(UserError):
    """The manifest or the sizes admit no launch; the text says why."""


@dataclass(frozen=True, slots=True)
class TensorShape:
    """An array in global memory: extents in elements, outermost first; `adds`: an output that the
    kernel adds to."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    output: bool
    adds: bool = False

    @property
    def bytes(self) -> int:
        """The size of the array in bytes."""
        size = BYTES[self.dtype]
        for extent in self.shape:
            size *= extent
        return size

    @property
    def beginning(self) -> int:
        """The byte that an output is full of before a launch: that of no number, or of zeros where
        the kernel adds to it."""
        return 0 if self.adds else 0xFF


@dataclass(frozen=True, slots=True)
class TensorMapArguments:
    """Arguments of cuTensorMapEncodeTiled; lists go from the innermost dimension outwards."""

    tensor: str
    dtype: str
    extents: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument that is the address of a tensor."""

    tensor: str


@dataclass(frozen=True, slots=True)
class Number:
    """An argument that is a 32-bit integer."""

    value: int


@dataclass(frozen=True, slots=True)
class ScalarNumber:
    """An argument that is a number of f32."""

    value: float


Argument = TensorMapArguments | Pointer | Number | ScalarNumber


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A launch in numbers: CTAs, threads of a CTA, CTAs of a cluster, dynamic shared memory.

    `dependent`: it may begin while the launch before it on the stream ends.
    """

    entry: str
    grid: int
    block: int
    cluster: int
    shared_bytes: int
    tensors: tuple[TensorShape, ...]
    arguments: tuple[Argument, ...]
    dependent: bool = False


def plan(
    manifest: LaunchManifest,
    sizes: Mapping[str, int],
    processors: int,
    scalars: Mapping[str, float] | None = None,
    strides: Mapping[str, tuple[int, ...]] | None = None,
) -> LaunchPlan:
    """The launch for `sizes` on a device of `processors` multiprocessors. Raises Unlaunchable.

    Scalar arguments that `scalars` does not give have the values of the manifest. Tensors that
    `strides` does not give are dense; it has bytes, from the innermost dimension outwards, of all
    but the innermost.
    """
    try:
        return _plan(manifest, sizes, processors, scalars or {}, strides or {})
    except (BadExpression, BadScalar) as error:
        raise Unlaunchable(str(error)) from None
    except (KeyError, TypeError, ValueError) as error:
        raise Unlaunchable(f"the manifest lacks or misuses {error}") from None


def _plan(
    manifest: LaunchManifest,
    sizes: Mapping[str, int],
    processors: int,
    given: Mapping[str, float],
    strides: Mapping[str, tuple[int, ...]],
) -> LaunchPlan:
    names = _parameters(manifest, sizes)
    dispensable = stride_constraints(manifest) if strides else frozenset()
    for constraint in manifest.get("constraints", ()):
        if constraint not in dispensable and not evaluate(constraint, names):
            raise Unlaunchable(f"the kernel needs {constraint}")
    tensors = tuple(_tensor(item, names) for item in manifest["tensors"])
    by_name = {tensor.name: tensor for tensor in tensors}
    launch = manifest["launch"]
    grid = evaluate(launch["grid"], {**names, "processors": processors})
    if not 1 <= grid <= GRID_MAX:
        raise Unlaunchable(f"a grid of {grid} CTAs")
    cluster = int(launch.get("cluster", 1))
    if grid % cluster:
        raise Unlaunchable(f"a grid of {grid} CTAs is not a multiple of the cluster's {cluster}")
    known = {item["name"]: item["value"] for item in manifest.get("scalars", ())}
    scalars = checked_scalars(known, given, manifest["entry"])
    arguments = tuple(
        _argument(item, by_name, names, scalars, strides) for item in manifest["arguments"]
    )
    return LaunchPlan(
        str(manifest["entry"]), grid, int(launch["block"]), cluster,
        int(launch["dynamic_shared_bytes"]), tensors, arguments,
        bool(launch.get("dependent", False)),
    )  # fmt: skip


def stride_constraints(manifest: LaunchManifest) -> frozenset[str]:
    """The constraints that say nothing but that dense rows of a tensor map are multiples of 16
    bytes, which `tensor_map` also examines, for the strides that each tensor has."""
    tensors = {item["name"]: item for item in manifest["tensors"]}
    mapped = [tensors[str(item["tensor"])] for item in manifest["arguments"] if "box" in item]
    return frozenset(
        f"{item['shape'][-1]} % {ALIGNMENT_BYTES // BYTES[item['dtype']]} == 0" for item in mapped
    )


def _parameters(manifest: LaunchManifest, sizes: Mapping[str, int]) -> dict[str, int]:
    names: dict[str, int] = {}
    known = {item["name"] for item in manifest["parameters"]}
    for name in sizes:
        if name not in known:
            raise Unlaunchable(f"the kernel has no size {name}")
    for item in manifest["parameters"]:
        name, least = str(item["name"]), int(item.get("minimum", 1))
        if name not in sizes:
            raise Unlaunchable(f"the size {name} is not given")
        if sizes[name] < least:
            raise Unlaunchable(f"{name} is {sizes[name]}, less than {least}")
        names[name] = int(sizes[name])
    return names


def _tensor(item: ManifestTensor, names: Mapping[str, int]) -> TensorShape:
    dtype = str(item["dtype"])
    if dtype not in BYTES:
        raise Unlaunchable(f"element type {dtype} has no array here")
    shape = tuple(evaluate(extent, names) for extent in item["shape"])
    if any(extent < 1 for extent in shape):
        raise Unlaunchable(f"{item['name']} would be empty: {list(shape)}")
    output, adds = bool(item.get("output", False)), bool(item.get("adds", False))
    return TensorShape(str(item["name"]), dtype, shape, output, adds)


def _argument(
    item: ManifestArgument,
    tensors: Mapping[str, TensorShape],
    names: Mapping[str, int],
    scalars: Mapping[str, float],
    strides: Mapping[str, tuple[int, ...]],
) -> Argument:
    match item["kind"]:
        case "size":
            return Number(names[str(item["name"])])
        case "scalar":
            return ScalarNumber(scalars[str(item["name"])])
        case "pointer":
            return Pointer(tensors[str(item["tensor"])].name)
        case "tensor_map":
            tensor = tensors[str(item["tensor"])]
            given = strides.get(tensor.name)
            return tensor_map(tensor, item["box"], str(item["swizzle"]), given)
    raise Unlaunchable(f"an argument of kind {item['kind']!r}")


def tensor_map(
    tensor: TensorShape, box: list[int], swizzle: str, strides: tuple[int, ...] | None = None
) -> TensorMapArguments:
    """A tensor as a map, dense and row-major where no strides are given (bytes, from the innermost
    dimension outwards). Raises Unlaunchable for what the driver refuses."""
    size = BYTES[tensor.dtype]
    extents = tuple(reversed(tensor.shape))
    if not 1 <= len(extents) <= 5 or len(box) != len(extents):
        raise Unlaunchable(f"{tensor.name}: a box of {len(box)} dimensions for {len(extents)}")
    if swizzle not in SWIZZLES:
        raise Unlaunchable(f"{tensor.name}: no swizzle {swizzle!r}")
    strides = dense_strides(tensor) if strides is None else strides
    if len(strides) != len(extents) - 1:
        raise Unlaunchable(f"{tensor.name}: {len(strides)} strides for {len(extents)} dimensions")
    for extent, side in zip(extents, box, strict=True):
        if not 1 <= side <= 256:
            raise Unlaunchable(f"{tensor.name}: a box of {side} elements in one dimension")
        if extent > EXTENT_MAX:
            raise Unlaunchable(f"{tensor.name}: {extent} elements in one dimension")
    for stride in strides:
        if stride % ALIGNMENT_BYTES:
            raise Unlaunchable(
                f"{tensor.name}: rows of {stride} bytes are not a multiple of {ALIGNMENT_BYTES}"
            )
        if not 0 <= stride < STRIDE_MAX:
            raise Unlaunchable(f"{tensor.name}: a stride of {stride} bytes")
    row_bytes = box[0] * size
    if row_bytes % ALIGNMENT_BYTES:
        raise Unlaunchable(f"{tensor.name}: a box row of {row_bytes} bytes")
    if swizzle != "none" and row_bytes > int(swizzle[:-1]):
        raise Unlaunchable(f"{tensor.name}: a box row of {row_bytes} bytes under swizzle {swizzle}")
    return TensorMapArguments(tensor.name, tensor.dtype, extents, strides, tuple(box), swizzle)


def dense_strides(tensor: TensorShape) -> tuple[int, ...]:
    """Bytes from the innermost dimension outwards, of all but the innermost."""
    found = []
    step = BYTES[tensor.dtype]
    for extent in reversed(tensor.shape[1:]):
        step *= extent
        found.append(step)
    return tuple(found)
