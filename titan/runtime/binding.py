"""Arguments of a call against the manifest: names, shapes, element types, and the sizes they give.

A size of the kernel is what the arrays have at its place; every other extent has to agree with it.
All faults of a call are reported at once. Tensors that a kernel reaches through tensor maps alone
may have any strides that a map describes: rows without gaps within, at multiples of 16 bytes, in
any order, repeated where they are read only. A leading dimension may come as several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from titan.codegen.tile.manifest import (
    ALIGNMENT_BYTES,
    Manifest,
    ManifestTensor,
    address_multiples_bytes,
    signature,
    sizes_by_name,
)
from titan.codegen.tile.scalar_values import scalar_fault
from titan.device.expressions import evaluate
from titan.device.plan import BYTES, LaunchPlan, Unlaunchable, plan
from titan.runtime.arrays import ArrayFacts, CallError
from titan.runtime.leading import LeadingDimensions, folded, leading_dimensions, unfolded


def input_names(manifest: Manifest) -> list[str]:
    """The tensors that a call gives, in the order of the manifest."""
    return [item["name"] for item in manifest["tensors"] if not item["output"]]


def scalar_names(manifest: Manifest) -> list[str]:
    """The numbers that a call may give, in the order of the manifest."""
    return [item["name"] for item in manifest.get("scalars", ())]


def usual_scalars(manifest: Manifest) -> dict[str, float]:
    """What a launch takes where a call gives no number, by name."""
    return {item["name"]: item["value"] for item in manifest.get("scalars", ())}


def scalars_of(manifest: Manifest, keywords: Mapping[str, object]) -> dict[str, float]:
    """The scalar arguments among the keywords of a call. Raises CallError."""
    found: dict[str, float] = {}
    for name in scalar_names(manifest):
        value = keywords.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Real):  # those of NumPy are Real
            raise CallError(f"{name} is a {type(value).__name__}, and a number is taken")
        number = float(value)
        if fault := scalar_fault(number):
            raise CallError(f"{name}: {fault}")
        found[name] = number
    return found


def output_names(manifest: Manifest) -> list[str]:
    """The tensors that the kernel writes."""
    return [item["name"] for item in manifest["tensors"] if item["output"]]


def named(
    manifest: Manifest, positional: Sequence[object], keywords: Mapping[str, object]
) -> dict[str, object]:
    """The inputs by name; scalar arguments among the keywords are left out. Raises CallError."""
    names = input_names(manifest)
    sizes = sizes_by_name(manifest)
    if len(positional) > len(names):
        raise CallError(f"{len(positional)} inputs for {signature(manifest)}")
    found = dict(zip(names, positional, strict=False))
    scalars = scalar_names(manifest)
    for name, value in keywords.items():
        if name in scalars or name in sizes:
            continue
        if name not in names:
            raise CallError(f"{manifest['kernel']} has no input {name}: {signature(manifest)}")
        if name in found:
            raise CallError(f"the input {name} is given twice")
        found[name] = value
    missing = [name for name in names if name not in found]
    if missing:
        raise CallError(f"the input {missing[0]} is not given: {signature(manifest)}")
    return found


def sizes_given(manifest: Manifest, keywords: Mapping[str, object]) -> dict[str, int]:
    """The sizes among the keywords of a call. Raises CallError."""
    found = {}
    for name in sizes_by_name(manifest):
        value = keywords.get(name)
        if value is None:
            raise CallError(f"the size {name} is not given: {signature(manifest)}")
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise CallError(f"{name} is {value!r}, and a size is taken")
        found[name] = int(value)
    return found


def sizes_of(
    manifest: Manifest,
    arrays: Mapping[str, ArrayFacts],
    keywords: Mapping[str, object] | None = None,
    any_strides: bool = False,
) -> dict[str, int]:
    """The sizes of the kernel, as the shapes of the arrays give them, or the keywords of the call
    where no shape names them. Raises CallError, for strides too unless any are taken."""
    faults: list[str] = []
    sizes = sizes_given(manifest, keywords or {})
    given: dict[str, str] = {}
    parameters = {item["name"] for item in manifest["parameters"]}
    tensors = [item for item in manifest["tensors"] if item["name"] in arrays]
    dense = dense_names(manifest)
    for item in tensors:
        facts = arrays[item["name"]]
        faults += _form(item, facts)
        fault = strides_fault(item["name"], facts, item["name"] in dense, item["output"])
        faults += [fault] if fault and not any_strides else []
        if len(facts.shape) != len(item["shape"]):
            continue
        for extent, text in zip(facts.shape, item["shape"], strict=True):
            if text in parameters:
                where = item["name"]
                if sizes.setdefault(text, extent) != extent:
                    faults.append(
                        f"{text} is {sizes[text]} by {given[text]} and {extent} by {where}"
                    )
                given.setdefault(text, where)
    for item in tensors:
        facts = arrays[item["name"]]
        for extent, text in zip(facts.shape, item["shape"], strict=False):
            _solved(text, extent, sizes, parameters)
    unknown = sorted(parameters - set(sizes))
    if not faults and unknown:
        faults.append(f"no array has the size {unknown[0]} as its extent")
    if not faults:
        faults += [fault for item in tensors for fault in _extents(item, arrays, sizes)]
    if faults:
        raise CallError(f"{signature(manifest)}: " + "; ".join(faults))
    return sizes


def _solved(text: str, extent: int, sizes: dict[str, int], parameters: set[str]) -> None:
    """Notes the unknown of an extent `unknown + number` or `known * unknown`; that the product
    divides is checked with the extents."""
    name, plus, number = text.partition(" + ")
    if plus and number.isdecimal() and name in parameters - set(sizes):
        sizes[name] = max(1, extent - int(number))
    names = [name.strip() for name in text.split("*")]
    if len(names) == 2 and set(names) <= parameters:
        known = [sizes[name] for name in names if name in sizes]
        unknown = [name for name in names if name not in sizes]
        if len(known) == len(unknown) == 1 and known[0] > 0:
            sizes[unknown[0]] = max(1, extent // known[0])


def dense_names(manifest: Manifest) -> set[str]:
    """The tensors that threads reach by pointers, so that their elements lie without gaps."""
    by_map = {item["tensor"] for item in manifest["arguments"] if item["kind"] == "tensor_map"}
    by_pointer = {item["tensor"] for item in manifest["arguments"] if item["kind"] == "pointer"}
    return {item["name"] for item in manifest["tensors"]} - (by_map - by_pointer)


def strides_fault(name: str, facts: ArrayFacts, dense: bool, output: bool = False) -> str:
    """What is wrong with the strides of an array; empty where the kernel takes them."""
    if facts.dense:
        return ""
    words = f"{name} has strides {list(facts.strides)} for shape {list(facts.shape)}"
    if dense:
        return f"{words}: its rows have to lie one behind the other (contiguous)"
    if not facts.row_strided:
        return f"{words}: the last dimension has to be contiguous, the others not negative"
    if output and not facts.apart:
        return f"{words}: elements of an output share memory"
    return ""


def strides_of(manifest: Manifest, arrays: Mapping[str, ArrayFacts]) -> dict[str, tuple[int, ...]]:
    """Bytes between neighbours for the tensor maps of arrays that are not contiguous, from the
    innermost dimension outwards, without it. Raises CallError for what no map describes."""
    found: dict[str, tuple[int, ...]] = {}
    multiples = address_multiples_bytes(manifest, BYTES)
    mapped = {item["tensor"] for item in manifest["arguments"] if item["kind"] == "tensor_map"}
    for item in manifest["tensors"]:
        name = item["name"]
        if name not in arrays:
            continue
        facts, size = arrays[name], BYTES[item["dtype"]]
        if 0 in facts.shape:
            continue  # the launch names the size that is 0
        if facts.address % multiples[name]:
            who = "a tensor map" if name in mapped else "the kernel"
            raise CallError(
                f"{name} begins at {facts.address:#x}: {who} takes multiples of {multiples[name]}"
                " bytes"
            )
        if name not in mapped:
            continue
        strides = _map_strides(facts, size)
        if strides == _contiguous(facts, size):
            continue  # the launch examines dense rows, and names the size that is at fault
        if any(one % ALIGNMENT_BYTES for one in strides):
            raise CallError(
                f"{name} has strides of {strides} bytes: a tensor map takes multiples of"
                f" {ALIGNMENT_BYTES}"
            )
        found[name] = strides
    return found


def _map_strides(facts: ArrayFacts, size: int) -> tuple[int, ...]:
    """A dimension of one element, whose stride frameworks leave open, has that of what it holds."""
    found: list[int] = []
    within = size
    for place in reversed(range(len(facts.shape))):
        extent, stride = facts.shape[place], facts.strides[place] * size
        if extent == 1:
            stride = -(-within // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        within = max(within, extent * stride)
        found.append(stride)
    return tuple(found[1:])


def _form(item: ManifestTensor, facts: ArrayFacts) -> list[str]:
    """Rank and element type."""
    name, faults = item["name"], []
    if len(facts.shape) != len(item["shape"]):
        faults.append(
            f"{name} has shape {list(facts.shape)}, and [{', '.join(item['shape'])}] is taken"
        )
    if not facts.holds(item["dtype"]):
        faults.append(f"{name} holds {facts.dtype}, and {item['dtype']} is taken")
    return faults


def _extents(
    item: ManifestTensor, arrays: Mapping[str, ArrayFacts], sizes: Mapping[str, int]
) -> list[str]:
    """Extents that are numbers or expressions."""
    faults = []
    for extent, text in zip(arrays[item["name"]].shape, item["shape"], strict=True):
        wanted = evaluate(text, sizes)
        if wanted != extent:
            word = text if text.isdecimal() else f"{text} = {wanted}"
            faults.append(f"{item['name']} has the extent {extent} where {word} is taken")
    return faults


def _contiguous(facts: ArrayFacts, size: int) -> tuple[int, ...]:
    found = []
    for extent in reversed(facts.shape[1:]):
        size *= extent
        found.append(size)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """The arrays of a call as the kernel's tensors, its sizes, and the dimensions of each leading
    size as the call has them."""

    arrays: dict[str, ArrayFacts]
    sizes: dict[str, int]
    leading: LeadingDimensions


def bound(
    manifest: Manifest,
    given: Mapping[str, ArrayFacts],
    keywords: Mapping[str, object] | None = None,
    any_strides: bool = False,
) -> BoundCall:
    """What a call gives, its outputs among it or not; strides are not examined where another
    kernel is to read the arrays. Raises CallError."""
    places = {(facts.place, facts.number) for facts in given.values()}
    if len(places) > 1:
        words = ", ".join(
            f"{name} on {facts.place.value} {facts.number}" for name, facts in given.items()
        )
        raise CallError(f"{manifest['kernel']}: the arrays are on several devices: {words}")
    try:
        leading = leading_dimensions(manifest, {name: one.shape for name, one in given.items()})
        arrays = {name: folded(manifest, name, one, leading) for name, one in given.items()}
    except CallError as fault:
        raise CallError(f"{signature(manifest)}: {fault}") from None
    return BoundCall(arrays, sizes_of(manifest, arrays, keywords, any_strides), leading)


def launch_of(
    manifest: Manifest, call: BoundCall, processors: int, scalars: Mapping[str, float] | None = None
) -> LaunchPlan:
    """The launch of a call, with the strides of its arrays. Raises CallError."""
    strides = strides_of(manifest, call.arrays)
    try:
        return plan(manifest, call.sizes, processors, scalars, strides)
    except Unlaunchable as reason:
        raise CallError(f"{signature(manifest)}: {reason}") from None


def output_shapes(manifest: Manifest, call: BoundCall) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and element type of each output, as the inputs of a call give them."""
    return {
        item["name"]: (
            unfolded(
                manifest, item["name"],
                tuple(evaluate(text, call.sizes) for text in item["shape"]), call.leading,
            ),
            item["dtype"],
        )
        for item in manifest["tensors"]
        if item["output"]
    }  # fmt: skip
