"""How much a launch computes and moves, from the tile program alone; what a rate is measured in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from titan.codegen.tile.model import TileProgram

FAMILIES: dict[str, list[dict[str, int]]] = {
    "gemm": [
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 128},
        {"M": 512, "N": 512, "K": 512},
        {"M": 128, "N": 8192, "K": 8192},
    ],
    "attention": [
        {"heads": 16, "queries": 16384, "keys": 16384},
        {"heads": 64, "queries": 4096, "keys": 4096},
        {"heads": 256, "queries": 1024, "keys": 1024},
    ],
    "memory": [
        {"M": 8192, "N": 8192},
        {"M": 65536, "N": 1024},
        {"heads": 16, "queries": 16384},
    ],
}


def family(tile: TileProgram) -> str:
    """gemm, attention or memory: by the multiplications of one iteration."""
    count = sum(operation.kind == "mma" for operation in tile.body)
    return "memory" if count == 0 else "gemm" if count == 1 else "attention"


def operations(tile: TileProgram, sizes: dict[str, int]) -> int:
    """Multiplications and additions of the matrix products, whole tiles as they are computed."""
    from titan.codegen.tile.semantics import trips_of_items

    names = {**dict(tile.sizes), **sizes}
    places = {operation.name: operation.result for operation in tile.operations}
    each = 0
    for operation in tile.body:
        if operation.kind == "mma":
            left = places[operation.operands[0]]
            result = operation.result
            if left is None or result is None:
                raise ValueError(f"the product {operation.name} has no shape")
            inner = left.rows if operation.transpose[:1] == (True,) else left.columns
            each += 2 * result.rows * result.columns * inner
    if not each:
        return 0
    return each * sum(trips_of_items(tile, names))


def bytes_moved(tile: TileProgram, sizes: dict[str, int]) -> int:
    """Every tensor once: the least that a launch can move."""
    from titan.codegen.tile.dtypes import bytes_of
    from titan.codegen.tile.semantics import shape_of

    names = {**dict(tile.sizes), **sizes}
    total = 0
    for tensor in tile.tensors:
        size = bytes_of(tensor.dtype)
        for extent in shape_of(tensor, names):
            size *= extent
        total += size
    return total


def iterations_of_one(tile: TileProgram, sizes: dict[str, int], processors: int) -> int:
    """Iterations that the busiest multiprocessor runs, one CTA on each at a time."""
    from titan.codegen.tile.semantics import trips_of_items

    names = {**dict(tile.sizes), **sizes}
    counts = trips_of_items(tile, names)
    return max(sum(counts[first::processors]) for first in range(min(processors, len(counts))))


def idle_share(tile: TileProgram, sizes: dict[str, int], processors: int) -> float:
    """The part of the multiprocessors' time that is idle because work items do not come out even.

    One item on each at a time, the next when one is done; items count by their iterations.
    """
    from titan.codegen.tile.semantics import trips_of_items

    names = {**dict(tile.sizes), **sizes}
    counts = trips_of_items(tile, names)
    if not sum(counts):
        return 0.0
    longest = iterations_of_one(tile, sizes, processors)
    return 1.0 - sum(counts) / (longest * processors)
