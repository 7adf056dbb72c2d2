"""The manifest of a kernel as types, and the call that it describes in words.

Emission fills a manifest; launches, checks and the runner read it.

Expressions (shapes, grids, constraints) are texts of the expression language over the parameters;
`grid` may name `processors`. Sizes are in bytes, extents in elements, innermost first in `box`.
Nothing else is imported: the runner on a machine with a GPU loads this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

# A work coordinate or lookup that bounds the iterations, in estimates: the item with the most.
COORDINATE_MOST = 1 << 20
INTEGER_MOST = 2**31 - 1
LAUNCH_HEADER = "launch.h"
ALIGNMENT_BYTES = 16  # of addresses and strides in a tensor map: CUDA, cuTensorMapEncodeTiled


class ManifestParameter(TypedDict):
    """A number that a launch brings, and its least value."""

    name: str
    minimum: int


class ManifestScalar(TypedDict):
    """A number of f32 that a launch may bring, positive and finite; `value` where it does not."""

    name: str
    value: float


class ManifestTensor(TypedDict):
    """A tensor in global memory, dense and row-major; `output`: the kernel writes it, or `adds` to
    what it holds; `together_bytes`: what a lane copies at once, where that is several elements."""

    name: str
    dtype: str
    shape: list[str]
    output: bool
    adds: NotRequired[bool]
    together_bytes: NotRequired[int]


class ManifestArgument(TypedDict):
    """An argument of the entry: `kind` is `tensor_map`, `pointer`, `size` or `scalar`.

    A tensor map has a box and a swizzle, and belongs to an operation of the tile program.
    """

    kind: str
    name: str
    tensor: NotRequired[str]
    operation: NotRequired[str]
    box: NotRequired[list[int]]
    swizzle: NotRequired[str]
    dtype: NotRequired[str]


class ManifestFilled(TypedDict):
    """A load that threads do, as the tile lies in shared memory."""

    operation: str
    tensor: str
    swizzle: str
    dtype: str


class ManifestLaunch(TypedDict):
    """Threads of a CTA, CTAs of a cluster, and the expression of the number of CTAs.

    `dependent`: the launch may begin while the one before it on the stream ends. `asks`: CTAs ask
    the hardware for work items, of which the grid has one for each.
    """

    block: int
    grid: str
    cluster: int
    dynamic_shared_bytes: int
    dependent: NotRequired[bool]
    asks: NotRequired[bool]


class ManifestRole(TypedDict):
    """The threads of a role; `registers` per thread, 0 where the compiler decides."""

    name: str
    first_thread: int
    threads: int
    registers: int


class ManifestRing(TypedDict):
    """A ring by its name, its stages and the bytes of one of them."""

    name: str
    depth: int
    bytes: int


class LaunchManifest(TypedDict):
    """What a launch needs to know of a kernel, be it of a package or of a probe."""

    target: str
    entry: str
    source: str
    parameters: list[ManifestParameter]
    scalars: NotRequired[list[ManifestScalar]]
    tensors: list[ManifestTensor]
    arguments: list[ManifestArgument]
    constraints: list[str]
    launch: ManifestLaunch


class Manifest(LaunchManifest):
    """What a launch and a check need to know of an emitted kernel."""

    titan: str
    kernel: str
    header: str
    work: str
    trip_count: str
    roles: list[ManifestRole]
    rings: list[ManifestRing]
    filled: NotRequired[list[ManifestFilled]]
    copies: NotRequired[dict[str, int]]  # AMD: copies of a tile that vmcnt counts, by load
    resources: dict[str, int]
    program: NotRequired[dict[str, object]]  # the tile program (stored.py), in packages


def ascending(count: int) -> list[int]:
    """Integers for lookups where none are at hand: large ones, far apart."""
    rising = range(COORDINATE_MOST, INTEGER_MOST, COORDINATE_MOST)[:count]
    return [*rising, *[INTEGER_MOST] * (count - len(rising))]


def name_space(kernel: str, target: str) -> str:
    """The C++ namespace of a package inside `titan`, in its `launch.h`."""
    return f"{kernel}_{target}"


def address_multiples_bytes(
    manifest: LaunchManifest, element_bytes: Mapping[str, int]
) -> dict[str, int]:
    """What the address of each tensor is a multiple of: what is read from there at once."""
    mapped = {item["tensor"] for item in manifest["arguments"] if item["kind"] == "tensor_map"}
    return {
        item["name"]: ALIGNMENT_BYTES
        if item["name"] in mapped
        else item.get("together_bytes", element_bytes[item["dtype"]])
        for item in manifest["tensors"]
    }


def sizes_by_name(manifest: Manifest) -> list[str]:
    """The sizes that the shapes of the inputs do not give, so that a call does: those that no
    extent names, and the last of a product of which no factor is known otherwise."""
    names = [item["name"] for item in manifest["parameters"]]
    extents = [text for item in manifest["tensors"] if not item["output"] for text in item["shape"]]
    known = set(extents) & set(names)
    for text in extents:
        name, plus, number = text.partition(" + ")
        if plus and number.isdecimal():
            known |= {name} & set(names)
    asked = set()
    for text in extents:
        factors = [name.strip() for name in text.split("*")]
        if len(factors) == 2 and set(factors) <= set(names):
            asked |= set() if known & set(factors) else {factors[-1]}
            known |= set(factors)
    return [name for name in names if name in asked or name not in known]


def signature(manifest: Manifest) -> str:
    """The call in words: `gemm(A: bf16[M, K], B: bf16[N, K]) -> C: bf16[M, N]`."""

    def words(outputs: bool) -> str:
        return ", ".join(
            f"{item['name']}: {item['dtype']}[{', '.join(item['shape'])}]"
            for item in manifest["tensors"]
            if item["output"] is outputs
        )

    inputs = [words(False)]
    inputs += [f"{name}: int" for name in sizes_by_name(manifest)]
    inputs += [f"{item['name']}: f32 = {item['value']:.9g}" for item in manifest.get("scalars", ())]
    return f"{manifest['kernel']}({', '.join(inputs)}) -> {words(True)}"
