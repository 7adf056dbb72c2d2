"""Which package computes what another does on the same memory, its tensors in another order.

`gemm` takes B as [N, K], `gemm_nn` as [K, N]: a transposed view for one is plain for the other. A
correspondence gives each tensor of the other package one of the first, with its dimensions in some
order, so that the shapes agree but for the names of sizes. What corresponds has to give the same
numbers on random small problems, too: that is a test and no proof, and keeps causal attention from
answering for plain attention.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations
from typing import TYPE_CHECKING

from titan.codegen.tile.dtypes import INDEX_TYPE
from titan.codegen.tile.manifest import Manifest, ManifestTensor, sizes_by_name
from titan.codegen.tile.scalars import with_scalars
from titan.codegen.tile.stored import BadProgram, from_data
from titan.device.plan import Unlaunchable, plan
from titan.runtime.arrays import ArrayFacts
from titan.runtime.binding import scalar_names
from titan.runtime.leading import foldable

if TYPE_CHECKING:
    from titan.codegen.tile.semantics import Array

TRIED_SIZES = (8, 72, 136)  # given to the sizes of a kernel in turn, to compare two of them
TRIED_BATCH = 2  # for the size of a batch, which every tensor has in front
TRIED_INDEX = 3  # and more, for sizes along which tiles have one index: heads, pages
TRIED_SCALAR = 0.37
TOLERANCE = 0.02  # of the largest number: sums in another order, rounded once
CORRESPONDENCES_MOST = 32  # tried by numbers for two packages
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ReadTensor:
    """A tensor of the other package is `name` of the first, with dimensions in the order `axes`."""

    other: str
    name: str
    axes: tuple[int, ...]

    @property
    def as_it_is(self) -> bool:
        """Whether it is the tensor of this name, and nothing changes places."""
        return self.other == self.name and self.axes == tuple(range(len(self.axes)))


@dataclass(frozen=True, slots=True)
class Correspondence:
    """All tensors of the other package, and the first one's size for each of its sizes."""

    tensors: tuple[ReadTensor, ...]
    sizes: tuple[tuple[str, str], ...]

    @property
    def as_it_is(self) -> bool:
        """Whether both packages take the same arrays in the same way."""
        return all(item.as_it_is for item in self.tensors)

    def arrays(self, given: dict[str, ArrayFacts]) -> dict[str, ArrayFacts]:
        """Arrays of the first package as those of the other; nothing is copied."""
        return {
            item.other: replace(
                given[item.name],
                shape=tuple(given[item.name].shape[axis] for axis in item.axes),
                strides=tuple(given[item.name].strides[axis] for axis in item.axes),
            )
            for item in self.tensors
            if item.name in given
        }


@dataclass(frozen=True, slots=True)
class Computation:
    """What is computed: tensors, the sizes that a launch brings, those of them that a call gives
    by name, the names of scalar arguments, and `compute(inputs, sizes)` for numbers.

    `compute` gives None where there is no tile program.
    """

    tensors: tuple[ManifestTensor, ...]
    sizes: frozenset[str]
    by_name: tuple[str, ...]
    scalars: tuple[str, ...]
    compute: Callable[[dict[str, Array], dict[str, int]], dict[str, Array] | None]


def computation_of(manifest: Manifest) -> Computation:
    """What a package computes."""

    def compute(inputs: dict[str, Array], sizes: dict[str, int]) -> dict[str, Array] | None:
        from titan.codegen.tile.semantics import run

        try:
            program = from_data(manifest["program"])
        except (KeyError, BadProgram):
            return None
        values = {item.name: TRIED_SCALAR for item in program.scalars}
        return run(with_scalars(program, values), inputs, sizes)

    return Computation(
        tuple(manifest["tensors"]),
        frozenset(item["name"] for item in manifest["parameters"]),
        tuple(sizes_by_name(manifest)),
        tuple(scalar_names(manifest)),
        compute,
    )


def correspondences(one: Manifest, other: Manifest | Computation) -> list[Correspondence]:
    """How the other package computes what the first does; the plain way is first where it is."""
    wanted = computation_of(one)
    theirs = other if isinstance(other, Computation) else computation_of(other)
    if sorted(wanted.scalars) != sorted(theirs.scalars):
        return []
    if len(wanted.tensors) != len(theirs.tensors):
        return []
    # Sizes that a call gives by name have to mean the same in both.
    if wanted.by_name != theirs.by_name:
        return []
    shaped = islice(
        _unified(theirs.tensors, wanted.tensors, {name: name for name in wanted.by_name}),
        CORRESPONDENCES_MOST,
    )
    found = [item for item in shaped if _same_numbers(one, wanted, theirs, item)]
    return sorted(found, key=lambda item: not item.as_it_is)


def _unified(
    theirs: Sequence[ManifestTensor], ours: Sequence[ManifestTensor], sizes: dict[str, str]
) -> Iterator[Correspondence]:
    if not theirs:
        yield Correspondence((), tuple(sorted(sizes.items())))
        return
    first = theirs[0]
    for item in sorted(ours, key=lambda one: one["name"] != first["name"]):
        if _role(item) != _role(first):
            continue
        for axes in permutations(range(len(item["shape"]))):
            shape = [item["shape"][axis] for axis in axes]
            known = renamed(first["shape"], shape, sizes)
            if known is None:
                continue
            left = [one for one in ours if one is not item]
            for rest in _unified(theirs[1:], left, known):
                tensors = (ReadTensor(first["name"], item["name"], axes), *rest.tensors)
                yield Correspondence(tensors, rest.sizes)


def _role(item: ManifestTensor) -> tuple[str, bool, bool]:
    return item["dtype"], item["output"], item.get("adds", False)


def renamed(theirs: list[str], ours: list[str], sizes: dict[str, str]) -> dict[str, str] | None:
    """`sizes` with the names that make one shape the other, or None: different names stay so."""
    if len(theirs) != len(ours):
        return None
    known = dict(sizes)
    for one, two in zip(theirs, ours, strict=True):
        if _WORD.sub("_", one) != _WORD.sub("_", two):
            return None
        for left, right in zip(_WORD.findall(one), _WORD.findall(two), strict=True):
            if left.isdecimal() or right.isdecimal():
                if left != right:
                    return None
            elif known.setdefault(left, right) != right:
                return None
    return known if len(set(known.values())) == len(known) else None


def _index_sizes(tensors: Sequence[ManifestTensor]) -> set[str]:
    """The sizes that no tensor of numbers has as its rows or columns: tiles have one index there,
    so that few suffice."""

    def named(one: ManifestTensor, last: int) -> set[str]:
        return {name for text in one["shape"][-last:] for name in _WORD.findall(text)}

    every = set().union(*(named(one, len(one["shape"])) for one in tensors))
    numbers = [one for one in tensors if one["dtype"] != INDEX_TYPE]
    return every.difference(*(named(one, 2) for one in numbers))


def _same_numbers(
    manifest: Manifest, one: Computation, other: Computation, how: Correspondence
) -> bool:
    """Whether the tile programs agree on random problems of small sizes, read in this way."""
    import numpy

    from titan.codegen.tile.dtypes import rounded
    from titan.codegen.tile.outputs import sample_numbers

    names = sorted(one.sizes)
    indices = _index_sizes(one.tensors)
    of = dict(how.sizes)
    if {of.get(name) for name in other.sizes} != set(names):
        return False
    for turn in range(len(TRIED_SIZES) - 1):
        sizes = {
            name: TRIED_INDEX + place + turn
            if name in indices
            else TRIED_SIZES[(place + turn) % len(TRIED_SIZES)]
            for place, name in enumerate(names)
        }
        sizes |= {name: TRIED_BATCH + turn for name, whole in foldable(manifest).items() if whole}
        try:
            tensors = plan(manifest, sizes, 1).tensors
        except Unlaunchable:
            return False
        random = numpy.random.default_rng(turn)
        inputs = {
            item.name: rounded(sample_numbers(random, item.dtype, item.shape), item.dtype)
            for item in tensors
            if not item.output
        }
        theirs = {
            item.other: inputs[item.name].transpose(item.axes)
            for item in how.tensors
            if item.name in inputs
        }
        first = one.compute(inputs, sizes)
        second = other.compute(theirs, {name: sizes[to] for name, to in how.sizes})
        if first is None or second is None:
            return False
        for item in how.tensors:
            if item.name not in first:
                continue
            values = first[item.name].transpose(item.axes)
            scale = float(numpy.abs(values).max()) or 1.0
            if not float(numpy.abs(values - second[item.other]).max()) <= TOLERANCE * scale:
                return False
    return True
