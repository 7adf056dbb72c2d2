"""Two packages one after the other that compute what a third does: parts first, then their sum.

A product of few tiles and a large K leaves most multiprocessors idle. `gemm_split_k` computes it in
parts, each over its share of K, and `sum_parts` adds them up in their order, so that the result is
the same in every run; `attention_decode_paged_parts` and `attention_combine_parts` do so with the
keys of few sequences. A chain is found, not declared: the second package reads all that the first
writes, one size is left open (how many parts), and the two give the numbers of the package that was
asked for (`correspondence`: a test and no proof, as between single packages). What lies between are
workspaces in global memory, made for the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

from titan.codegen.tile.manifest import Manifest, ManifestTensor, sizes_by_name
from titan.runtime.arrays import ArrayFacts, Foreign
from titan.runtime.binding import input_names, output_names, scalar_names
from titan.runtime.correspondence import (
    Computation,
    Correspondence,
    computation_of,
    correspondences,
    renamed,
)
from titan.runtime.frameworks import framework_of
from titan.runtime.loaded import LoadedKernel, output_facts

if TYPE_CHECKING:
    from titan.codegen.tile.semantics import Array

TRIED_PARTS = 3  # of the random problems: more than their iterations, as many, and fewer
WAVES_MOST = 4  # of parts that are considered
_WORD = re.compile(r"\w+")
Links = tuple[tuple[str, str], ...]
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """`first` writes workspaces, in `parts` of its parts, which `second` reads: `links` has the
    names of each in both.

    `how` says which tensors of the package that was asked for the two take. Scalar arguments are
    those of the first.
    """

    first: LoadedKernel
    second: LoadedKernel
    links: Links
    parts: str
    how: Correspondence

    @property
    def name(self) -> str:
        """Both packages."""
        return f"{self.first.name}, {self.second.name}"

    @property
    def workspaces(self) -> list[ManifestTensor]:
        """What lies between, as the first package writes it."""
        return [tensor_named(self.first.manifest, written) for written, _ in self.links]

    def of_first(
        self, arrays: Mapping[str, ArrayFacts], between: Sequence[ArrayFacts]
    ) -> dict[str, ArrayFacts]:
        """The arrays of the first launch; `between` are the workspaces."""
        names = (written for written, _ in self.links)
        return _arrays(self.first.manifest, arrays, dict(zip(names, between, strict=True)))

    def of_second(
        self, arrays: Mapping[str, ArrayFacts], between: Sequence[ArrayFacts]
    ) -> dict[str, ArrayFacts]:
        """The arrays of the second launch."""
        names = (read for _, read in self.links)
        return _arrays(self.second.manifest, arrays, dict(zip(names, between, strict=True)))

    def launch(
        self, arrays: Mapping[str, ArrayFacts], shapes: Shapes, count: int,
        keywords: Mapping[str, Foreign], held: tuple[Foreign, ...],
    ) -> None:  # fmt: skip
        """Both launches, on the stream of the arrays that are `held`; `shapes` are those of the
        workspaces, and `keywords` has scalar arguments. Raises what a call raises."""
        like = next(iter(arrays.values()))
        made, between = [], []
        for item, shape in zip(self.workspaces, shapes, strict=True):
            array = framework_of(held[0]).empty(shape, item["dtype"], held[0])
            made.append(array)
            between.append(output_facts(item["name"], array, (shape, item["dtype"]), like))
        here = (*held, *made)
        self.first.launch(self.of_first(arrays, between), {**keywords, self.parts: count}, here)
        self.second.launch(self.of_second(arrays, between), {}, here)


def chains(wanted: LoadedKernel, kernels: Iterable[LoadedKernel]) -> list[Chain]:
    """The pairs of these packages that compute what the wanted one does."""
    every = list(kernels)
    target = wanted.manifest["target"]
    found = []
    for first in every:
        free = sizes_by_name(first.manifest)
        if len(free) != 1 or first.manifest["target"] != target:
            continue
        for second in every:
            if second.manifest["target"] != target or sizes_by_name(second.manifest):
                continue
            for links, together in _joined(first.manifest, second.manifest, free[0]):
                found += [
                    Chain(first, second, links, free[0], how)
                    for how in correspondences(wanted.manifest, together)
                ]
    return found


def _joined(first: Manifest, second: Manifest, free: str) -> Iterator[tuple[Links, Computation]]:
    """The two as one computation, for each choice of inputs of the second that the first may
    write."""
    outputs = output_names(first)
    between = [tensor_named(first, name) for name in outputs]
    if any(one.get("adds") for one in (*first["tensors"], *second["tensors"])):
        return  # what is between them would have to begin with zeros
    if scalar_names(second) or not all(
        free in _WORD.findall(" ".join(one["shape"])) for one in between
    ):
        return
    for reads in permutations(input_names(second), len(outputs)):
        names: dict[str, str] | None = {}
        for one, name in zip(between, reads, strict=True):
            read = tensor_named(second, name)
            if names is not None and read["dtype"] == one["dtype"]:
                names = renamed(read["shape"], one["shape"], names)
            else:
                names = None
        if names is None or not {item["name"] for item in second["parameters"]} <= set(names):
            continue
        inputs = [one for one in first["tensors"] if not one["output"]]
        rest = [_with_names(one, names) for one in second["tensors"] if one["name"] not in reads]
        whole = (*inputs, *rest)
        shapes = [text for one in rest for text in one["shape"]]
        if len({one["name"] for one in whole}) < len(whole) or free in shapes:
            continue
        links = tuple(zip(outputs, reads, strict=True))
        yield links, _Joined(first, second, links, names, free).computation(whole)


@dataclass(frozen=True, slots=True)
class _Joined:
    """Two tile programs, what goes from one to the other, and the second one's sizes by those of
    the first."""

    first: Manifest
    second: Manifest
    links: Links
    names: Mapping[str, str]
    free: str

    def computation(self, tensors: tuple[ManifestTensor, ...]) -> Computation:
        """Both as one, which a call gives no size by name."""
        sizes = frozenset(item["name"] for item in self.first["parameters"]) - {self.free}
        scalars = tuple(scalar_names(self.first))
        return Computation(tensors, sizes, (), scalars, self.compute)

    def compute(self, inputs: dict[str, Array], sizes: dict[str, int]) -> dict[str, Array] | None:
        """The outputs of the second for a few parts."""
        known = {**sizes, self.free: TRIED_PARTS}
        mine = {name: inputs[name] for name in input_names(self.first)}
        made = computation_of(self.first).compute(mine, known)
        if made is None:
            return None
        given = {read: made[written] for written, read in self.links}
        theirs = {name: inputs[name] for name in input_names(self.second) if name not in given}
        theirs |= given
        of_second = {name: known[to] for name, to in self.names.items()}
        return computation_of(self.second).compute(theirs, of_second)


def counts_of_parts(items: int, iterations: int, processors: int) -> list[int]:
    """How many parts to consider: powers of two, and as many as fill one wave of CTAs, two, ...;
    each part has an iteration of its own."""
    waves = {count * processors // max(1, items) for count in range(1, WAVES_MOST + 1)}
    powers = {1 << place for place in range(1, max(waves).bit_length())}
    return sorted({min(one, iterations) for one in waves | powers if min(one, iterations) > 1})


def tensor_named(manifest: Manifest, name: str) -> ManifestTensor:
    """The tensor of a name. Raises KeyError."""
    for item in manifest["tensors"]:
        if item["name"] == name:
            return item
    raise KeyError(name)


def _arrays(
    manifest: Manifest, arrays: Mapping[str, ArrayFacts], between: Mapping[str, ArrayFacts]
) -> dict[str, ArrayFacts]:
    known = {**arrays, **between}
    return {item["name"]: known[item["name"]] for item in manifest["tensors"]}


def _with_names(tensor: ManifestTensor, names: Mapping[str, str]) -> ManifestTensor:
    shape = [
        _WORD.sub(lambda found: names.get(found.group(), found.group()), text)
        for text in tensor["shape"]
    ]
    return {**tensor, "shape": shape}
