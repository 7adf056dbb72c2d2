"""Leading dimensions that come as several: a batch of batches, the rows of a batch.

A size that leads every tensor which names it may come as several dimensions, in all of them alike:
[batch, sequence, K] for the rows of [M, K], [batch, heads, S, D] for [heads, S, D]. Memory stays
where it is, so the strides of these dimensions have to be those of one. A size that leads all
tensors may also be left out, and is then 1. Outputs get the dimensions that the inputs have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from titan.codegen.tile.manifest import LaunchManifest
from titan.runtime.arrays import ArrayFacts, CallError, Foreign

# The dimensions of a leading size, by its name; empty where it was left out.
LeadingDimensions = dict[str, tuple[Foreign, ...]]
_NAME = re.compile(r"[A-Za-z_]\w*")


def foldable(manifest: LaunchManifest) -> dict[str, bool]:
    """The sizes that may come as several dimensions, and whether they may be left out."""
    shapes = [item["shape"] for item in manifest["tensors"]]
    elsewhere = {
        name
        for shape in shapes
        for place, text in enumerate(shape)
        for name in _NAME.findall(text)
        if place or text != name
    }
    leading = [shape[0] for shape in shapes if shape and _NAME.fullmatch(shape[0])]
    # A vector has nothing behind its leading size: leaving that out would leave no dimension.
    whole = len(leading) == len(shapes) and min(map(len, shapes)) > 1
    return {
        name: whole and leading.count(name) == len(shapes)
        for name in dict.fromkeys(leading)
        if name not in elsewhere
    }


def leading_dimensions(
    manifest: LaunchManifest, shapes: Mapping[str, tuple[Foreign, ...]]
) -> LeadingDimensions:
    """The dimensions of each leading size, as the shapes by tensor have them; a shape whose rank
    fits no reading is left to others. Extents may be symbols. Raises CallError where two differ."""
    found: LeadingDimensions = {}
    given: dict[str, str] = {}
    sizes = foldable(manifest)
    for item in manifest["tensors"]:
        if item["name"] not in shapes or not item["shape"] or item["shape"][0] not in sizes:
            continue
        shape, size = shapes[item["name"]], item["shape"][0]
        count = len(shape) - len(item["shape"]) + 1
        if count < 0 or (count == 0 and not sizes[size]):
            continue
        dimensions = tuple(shape[:count])
        before = found.setdefault(size, dimensions)
        if (len(before) != 1 or len(dimensions) != 1) and before != dimensions:
            raise CallError(
                f"{size} is {_words(before)} by {given[size]} and {_words(dimensions)} by"
                f" {item['name']}"
            )
        given.setdefault(size, item["name"])
    return found


def unfolded(
    manifest: LaunchManifest, name: str, shape: tuple[Foreign, ...], leading: LeadingDimensions
) -> tuple[Foreign, ...]:
    """The shape of a tensor with the dimensions of its leading size as the call has them."""
    texts = next(item["shape"] for item in manifest["tensors"] if item["name"] == name)
    if not texts or texts[0] not in leading:
        return shape
    return (*leading[texts[0]], *shape[1:])


def folded(
    manifest: LaunchManifest, name: str, facts: ArrayFacts, leading: LeadingDimensions
) -> ArrayFacts:
    """The array with one leading dimension. Raises CallError where strides do not admit that."""
    texts = next(item["shape"] for item in manifest["tensors"] if item["name"] == name)
    if not texts or texts[0] not in leading:
        return facts
    count = len(leading[texts[0]])
    if count == 1 or len(facts.shape) != len(texts) - 1 + count:
        return facts
    extent, stride, empty = 1, 0, 0 in facts.shape
    for place in reversed(range(count)):
        size, step = facts.shape[place], facts.strides[place]
        if size != 1 and extent == 1:
            stride = step
        elif size != 1 and step != extent * stride and not empty:
            raise CallError(
                f"{name} has strides {list(facts.strides)} for shape {list(facts.shape)}: its first"
                f" {count} dimensions cannot be taken as one ({texts[0]})"
            )
        extent *= size
    return replace(
        facts, shape=(extent, *facts.shape[count:]), strides=(stride, *facts.strides[count:])
    )


def _words(dimensions: tuple[Foreign, ...]) -> str:
    return f"[{', '.join(map(str, dimensions))}]"
