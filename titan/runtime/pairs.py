"""Chains of a table of packages: two launches and their workspaces, as expressions of C++.

Which pairs there are is what `chains` finds for `titan.Library`. Here a pair becomes functions of
the sizes and arrays of the package that was asked for: sizes and arrays of both launches, and how
many bytes each workspace between them takes. Pairs that read an array in another way than the
package that was asked for (a transposed one) are left out: the table takes arrays as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.codegen.emit.host import number
from titan.codegen.tile.manifest import ManifestTensor
from titan.device.plan import BYTES
from titan.runtime.binding import usual_scalars
from titan.runtime.chains import Chain, tensor_named
from titan.runtime.correspondence import renamed
from titan.runtime.library import Library
from titan.runtime.loaded import LoadedKernel

Pair = dict[str, object]
PARTS = "Number(parts)"


def pairs_of(
    library: Library, kernels: Sequence[LoadedKernel], computations: Sequence[int]
) -> list[Pair]:
    """The pairs among the packages of a table; `computations`: what each package computes."""
    rows = {kernel.folder: row for row, kernel in enumerate(kernels)}
    asked: set[tuple[int, str]] = set()
    found = []
    for kernel, computation in zip(kernels, computations, strict=True):
        key = (computation, str(kernel.manifest["target"]))
        if key in asked:
            continue
        asked.add(key)
        for chain in library.chains(kernel):
            if usual_scalars(chain.first.manifest) != usual_scalars(kernel.manifest):
                continue  # the table launches with usual values
            if chain.how.as_it_is and {chain.first.folder, chain.second.folder} <= set(rows):
                row = {"first": rows[chain.first.folder], "second": rows[chain.second.folder]}
                found.append({**row, "computation": computation, **_functions(kernel, chain)})
    return found


def _functions(wanted: LoadedKernel, chain: Chain) -> Pair:
    """Sizes, arrays and workspaces of a pair, by what was asked for."""
    order = [item["name"] for item in wanted.manifest["parameters"]]
    given = {name: f"Number(sizes[{place}])" for place, name in enumerate(order)}
    of_first = {name: given[to] for name, to in chain.how.sizes} | {chain.parts: PARTS}
    names: dict[str, str] = {}
    workspaces = []
    for written, reading in chain.links:
        between = tensor_named(chain.first.manifest, written)
        read = tensor_named(chain.second.manifest, reading)
        joined = renamed(read["shape"], between["shape"], names)
        assert joined is not None, "a chain joins tensors of one shape"
        names = joined
        extents = " * ".join(number(text, of_first) for text in between["shape"])
        workspaces.append(f"{extents} * Number({BYTES[between['dtype']]})")
    of_second = {name: of_first[to] for name, to in names.items()}
    return {
        "first_sizes": _sizes(chain.first, of_first),
        "second_sizes": _sizes(chain.second, of_second),
        "first_arrays": _arrays(wanted, chain, chain.first, [one for one, _ in chain.links]),
        "second_arrays": _arrays(wanted, chain, chain.second, [one for _, one in chain.links]),
        "workspaces": workspaces,
        "given": len(wanted.manifest["tensors"]),
    }


def _sizes(kernel: LoadedKernel, spelled: dict[str, str]) -> list[str]:
    return [number(item["name"], spelled) for item in kernel.manifest["parameters"]]


def _arrays(
    wanted: LoadedKernel, chain: Chain, kernel: LoadedKernel, workspaces: Sequence[str]
) -> list[int]:
    """For each array of a launch its place among those that were asked for, and behind these among
    the workspaces."""
    tensors: list[ManifestTensor] = wanted.manifest["tensors"]
    places = {item["name"]: place for place, item in enumerate(tensors)}
    of = {item.other: places[item.name] for item in chain.how.tensors}
    of |= {name: len(tensors) + place for place, name in enumerate(workspaces)}
    return [of[item["name"]] for item in kernel.manifest["tensors"]]
