"""Loops of well-known kernels as functions of their tile sizes, for Hopper and Blackwell.

Costs follow from sizes and the rates of one multiprocessor: multiply-accumulates a cycle of the
tensor core for 16-bit types, exponentials a cycle of the special function units, cycles a KiB of
the bulk copy engine (backends/*/rates.yaml has the sources of the numbers). `protocols/loops/` has
these and larger loops with every operation of the kernels they model.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.foundation.errors import UserError
from titan.scheduling.graph import DependenceGraph, Traits
from titan.scheduling.loop.model import Loop
from titan.target.model import WarpGroup


class BadTileSize(UserError):
    """A tile that the tensor core or the engine does not take in whole numbers."""


@dataclass(frozen=True, slots=True)
class TileRates:
    """Rates of one multiprocessor, and where the accumulator of the tensor core lies."""

    products: int  # multiply-accumulates a cycle, 16-bit types
    exponentials: int = 16
    copy_cycles_per_kib: int = 6
    copy_latency: int = 500
    tensor_memory: bool = False


RATES = {"sm_90a": TileRates(2048), "sm_100a": TileRates(4096, tensor_memory=True)}
ELEMENT_BYTES = 2


def simple_gemm_pipeline(
    target: str = "sm_90a", m: int = 128, n: int = 256, k: int = 64, depth: int = 4
) -> Loop:
    """C += A B for tiles of m x k and k x n, loaded ahead into rings of `depth` stages.

    On sm_90a two consumer groups take half of the rows each. Raises BadTileSize.
    """
    rates = RATES[target]
    parts = 1 if rates.tensor_memory else 2
    graph = DependenceGraph(f"gemm_{m}_{n}_{k}", target, _groups(parts))
    for name, rows in (("LA", m), ("LB", n)):
        _load(graph, rates, name, rows * k, depth)
    for part in range(parts):
        name = f"MMA{part}" if parts > 1 else "MMA"
        _product(graph, rates, name, _divided(m, parts), n, k)
        for load in ("LA", "LB"):
            graph.edge(load, name, delay=0, blocking=True)
            graph.edge(name, load, distance=depth, order=True)
        graph.edge(name, name, distance=1)
    return graph.loop()


def flash_attention_forward_simplified() -> Loop:
    """S = Q K, P = exp S, O += P V, every operation one cycle, one warp group for each unit."""
    groups = (WarpGroup("products", 4), WarpGroup("softmax", 4))
    graph = DependenceGraph("fa_simplified", {"TC": 1, "SFU": 1}, groups)
    graph.operation("S", Traits(warps=4), TC=1)
    graph.operation("P", Traits(warps=4), SFU=1)
    graph.operation("O", Traits(warps=4), TC=1)
    graph.edge("S", "P")
    graph.edge("P", "O")
    graph.edge("O", "O", distance=1)
    return graph.loop()


def flash_attention_forward(
    target: str = "sm_90a", rows: int = 64, keys: int = 128, head: int = 128, depth: int = 2
) -> Loop:
    """Attention of two sub-tiles of `rows` queries over tiles of `keys` keys of `head` numbers.

    The softmax is one operation, its exponentials. Raises BadTileSize.
    """
    rates = RATES[target]
    graph = DependenceGraph(f"attention_{rows}_{keys}_{head}", target, _groups(2))
    _load(graph, rates, "LK", keys * head, depth)
    _load(graph, rates, "LV", keys * head, depth)
    for part in range(2):
        s, p, o = f"S{part}", f"P{part}", f"O{part}"
        _product(graph, rates, s, rows, keys, head)
        exponentials = _divided(rows * keys, rates.exponentials)
        spill = _spill(graph, rows * keys // 2)
        traits = Traits(exponentials + 20, rows * keys // 2, warps=4, spill=spill)
        graph.operation(p, traits, SFU=exponentials)
        _product(graph, rates, o, rows, head, keys)
        graph.edge("LK", s, delay=0, blocking=True)
        graph.edge("LV", o, delay=0, blocking=True)
        graph.edge(s, p, blocking=True)
        graph.edge(p, o)
        graph.edge(o, o, distance=1)
        graph.edge(s, "LK", distance=depth, order=True)
        graph.edge(o, "LV", distance=depth, order=True)
    return graph.loop()


def flash_attention_forward_hopper(rows: int = 64, keys: int = 128, head: int = 128) -> Loop:
    """`flash_attention_forward` for sm_90a."""
    return flash_attention_forward("sm_90a", rows, keys, head)


def flash_attention_forward_blackwell(rows: int = 128, keys: int = 128, head: int = 128) -> Loop:
    """`flash_attention_forward` for sm_100a, products in tensor memory."""
    return flash_attention_forward("sm_100a", rows, keys, head)


def _groups(parts: int) -> tuple[WarpGroup, ...]:
    """A warp that loads, and warpgroups that compute."""
    consumers = [WarpGroup(f"consumer{n}", 4, 240) for n in range(parts)]
    return (WarpGroup("producer", 1, None, True), *consumers)


def _load(graph: DependenceGraph, rates: TileRates, name: str, elements: int, depth: int) -> None:
    size = elements * ELEMENT_BYTES
    cycles = _divided(size, 1024) * rates.copy_cycles_per_kib
    traits = Traits(
        cycles + rates.copy_latency, holds={"shared": size}, variable_latency=True, slots=depth
    )
    graph.operation(name, traits, TMA=cycles)


def _product(graph: DependenceGraph, rates: TileRates, name: str, m: int, n: int, k: int) -> None:
    cycles = _divided(m * n * k, rates.products)
    if rates.tensor_memory:
        traits = Traits(holds={"tensor": n}, issue=1)
    else:
        traits = Traits(registers=m * n, warps=4, spill=_spill(graph, m * n), issue=1)
    graph.operation(name, traits, TC=cycles)


def _spill(graph: DependenceGraph, words: int) -> int:
    return graph.machine.spill_cycles(words)


def _divided(amount: int, rate: int) -> int:
    if amount < 1 or amount % rate:
        raise BadTileSize(f"{amount} is not a positive multiple of {rate}")
    return amount // rate
