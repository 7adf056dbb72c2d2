"""Arguments of a call against the manifest: names, shapes, element types, and the sizes they give.

A size of the kernel is what the arrays have at its place; every other extent has to agree with it.
All faults of a call are reported at once. Tensors that a kernel reaches through tensor maps alone
may have any strides that a map describes: rows without gaps within, at multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from titan.codegen.tile.manifest import Manifest, ManifestTensor, signature, sizes_by_name
from titan.codegen.tile.scalar_values import scalar_fault
from titan.device.expressions import evaluate
from titan.device.plan import (
    ALIGNMENT_BYTES,
    BYTES,
    Argument,
    LaunchPlan,
    TensorMapArguments,
    Unlaunchable,
    plan,
)
from titan.runtime.arrays import ArrayFacts, CallError, facts_of


def input_names(manifest: Manifest) -> list[str]:
    """The tensors that a call gives, in the order of the manifest."""
    return [item["name"] for item in manifest["tensors"] if not item["output"]]


def scalar_names(manifest: Manifest) -> list[str]:
    """The numbers that a call may give, in the order of the manifest."""
    return [item["name"] for item in manifest.get("scalars", ())]


def scalars_of(manifest: Manifest, keywords: Mapping[str, object]) -> dict[str, float]:
    """The scalar arguments among the keywords of a call. Raises CallError."""
    found: dict[str, float] = {}
    for name in scalar_names(manifest):
        value = keywords.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CallError(f"{name} is a {type(value).__name__}, and a number is taken")
        if fault := scalar_fault(value):
            raise CallError(f"{name}: {fault}")
        found[name] = float(value)
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
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise CallError(f"{name} is {value!r}, and a size is taken")
        found[name] = value
    return found


def sizes_of(
    manifest: Manifest,
    arrays: Mapping[str, ArrayFacts],
    keywords: Mapping[str, object] | None = None,
) -> dict[str, int]:
    """The sizes of the kernel, as the shapes of the arrays give them, or the keywords of the call
    where no shape names them. Raises CallError."""
    faults: list[str] = []
    sizes = sizes_given(manifest, keywords or {})
    given: dict[str, str] = {}
    parameters = {item["name"] for item in manifest["parameters"]}
    tensors = [item for item in manifest["tensors"] if item["name"] in arrays]
    dense = dense_names(manifest)
    for item in tensors:
        facts = arrays[item["name"]]
        faults += _form(item, facts, item["name"] in dense)
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


def strides_fault(name: str, facts: ArrayFacts, dense: bool) -> str:
    """What is wrong with the strides of an array; empty where the kernel takes them."""
    if facts.dense:
        return ""
    words = f"{name} has strides {list(facts.strides)} for shape {list(facts.shape)}"
    if dense:
        return f"{words}: its rows have to lie one behind the other (contiguous)"
    if not facts.row_strided:
        return f"{words}: the last dimension has to be contiguous"
    return ""


def with_strides(launch: LaunchPlan, arrays: Mapping[str, ArrayFacts]) -> LaunchPlan:
    """The launch with the strides of the arrays in its tensor maps. Raises CallError."""
    made: list[Argument] = []
    for argument in launch.arguments:
        if isinstance(argument, TensorMapArguments) and argument.tensor in arrays:
            facts = arrays[argument.tensor]
            size = BYTES[argument.dtype]
            strides = tuple(stride * size for stride in reversed(facts.strides[:-1]))
            if facts.address % ALIGNMENT_BYTES or any(one % ALIGNMENT_BYTES for one in strides):
                raise CallError(
                    f"{argument.tensor} begins at {facts.address:#x} with strides of {strides}"
                    f" bytes: a tensor map takes multiples of {ALIGNMENT_BYTES}"
                )
            made.append(argument if facts.dense else replace(argument, strides_bytes=strides))
        else:
            made.append(argument)
    return replace(launch, arguments=tuple(made))


def _form(item: ManifestTensor, facts: ArrayFacts, dense: bool) -> list[str]:
    """Rank, element type and strides."""
    name, faults = item["name"], []
    if len(facts.shape) != len(item["shape"]):
        faults.append(
            f"{name} has shape {list(facts.shape)}, and [{', '.join(item['shape'])}] is taken"
        )
    if not facts.holds(item["dtype"]):
        faults.append(f"{name} holds {facts.dtype}, and {item['dtype']} is taken")
    fault = strides_fault(name, facts, dense)
    return [*faults, fault] if fault else faults


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


def bound(
    manifest: Manifest,
    arguments: Mapping[str, object],
    processors: int,
    scalars: Mapping[str, float] | None = None,
    keywords: Mapping[str, object] | None = None,
) -> tuple[dict[str, ArrayFacts], dict[str, int], LaunchPlan]:
    """Facts of the inputs, sizes and launch. Raises CallError."""
    arrays = {name: facts_of(value, name) for name, value in arguments.items()}
    places = {(facts.place, facts.number) for facts in arrays.values()}
    if len(places) > 1:
        words = ", ".join(
            f"{name} on {facts.place.value} {facts.number}" for name, facts in arrays.items()
        )
        raise CallError(f"{manifest['kernel']}: the arrays are on several devices: {words}")
    sizes = sizes_of(manifest, arrays, keywords)
    try:
        return arrays, sizes, plan(manifest, sizes, processors, scalars)
    except Unlaunchable as reason:
        raise CallError(f"{signature(manifest)}: {reason}") from None
