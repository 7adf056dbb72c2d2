"""Chains of a table of packages: two launches and a workspace, as expressions of C++.

Which pairs there are is what `chains` finds for `titan.Library`. Here a pair becomes functions of
the sizes and arrays of the package that was asked for: sizes and arrays of both launches, and how
many bytes the workspace between them takes. Pairs that read an array in another way than the
package that was asked for (a transposed one) are left out: the table takes arrays as they are; so
are those with several workspaces.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.codegen.emit.host import number
from titan.codegen.tile.manifest import ManifestTensor
from titan.device.plan import BYTES
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
            if len(chain.links) > 1:
                continue  # one workspace is what `run` of the table takes
            if chain.how.as_it_is and {chain.first.folder, chain.second.folder} <= set(rows):
                row = {"first": rows[chain.first.folder], "second": rows[chain.second.folder]}
                found.append({**row, "computation": computation, **_functions(kernel, chain)})
    return found


def _functions(wanted: LoadedKernel, chain: Chain) -> Pair:
    """Sizes, arrays and the workspace of a pair, by what was asked for."""
    order = [item["name"] for item in wanted.manifest["parameters"]]
    given = {name: f"Number(sizes[{place}])" for place, name in enumerate(order)}
    of_first = {name: given[to] for name, to in chain.how.sizes} | {chain.parts: PARTS}
    ((written, reading),) = chain.links
    between = tensor_named(chain.first.manifest, written)
    read = tensor_named(chain.second.manifest, reading)
    names = renamed(read["shape"], between["shape"], {})
    assert names is not None, "a chain joins tensors of one shape"
    of_second = {name: of_first[to] for name, to in names.items()}
    extents = " * ".join(number(text, of_first) for text in between["shape"])
    return {
        "first_sizes": _sizes(chain.first, of_first),
        "second_sizes": _sizes(chain.second, of_second),
        "first_arrays": _arrays(wanted, chain, chain.first, written),
        "second_arrays": _arrays(wanted, chain, chain.second, reading),
        "bytes": f"{extents} * Number({BYTES[between['dtype']]})",
    }


def _sizes(kernel: LoadedKernel, spelled: dict[str, str]) -> list[str]:
    return [number(item["name"], spelled) for item in kernel.manifest["parameters"]]


def _arrays(wanted: LoadedKernel, chain: Chain, kernel: LoadedKernel, workspace: str) -> list[int]:
    """For each array of a launch its place among those that were asked for; -1: the workspace."""
    tensors: list[ManifestTensor] = wanted.manifest["tensors"]
    places = {item["name"]: place for place, item in enumerate(tensors)}
    of = {item.other: places[item.name] for item in chain.how.tensors}
    names = [item["name"] for item in kernel.manifest["tensors"]]
    return [-1 if name == workspace else of[name] for name in names]
