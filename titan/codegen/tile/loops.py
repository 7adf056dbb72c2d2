"""The loop that a tile program puts before the schedulers."""

from __future__ import annotations

from titan.codegen.tile.cost import Builder, Origin, parts_of, products_of
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.rates import rates
from titan.codegen.tile.tensor_cost import AttentionBuilder, ProductsBuilder
from titan.scheduling.loop.model import Loop
from titan.target.model import Machine


def loop_of(tile: TileProgram, machine: Machine, depth: int) -> Loop:
    """The loop of a tile program with rings of `depth` stages.

    Raises KeyError for a machine without rates, CostError for what it cannot run.
    """
    return _builder(tile, machine, depth).loop()


def origins(tile: TileProgram, machine: Machine) -> dict[str, Origin]:
    """What each operation of `loop_of` is, by its name."""
    builder = _builder(tile, machine, 1)
    builder.loop()
    return builder.origins


def _builder(tile: TileProgram, machine: Machine, depth: int) -> Builder:
    parts = parts_of(tile, rates(machine.name))
    if parts is not None:
        return AttentionBuilder(tile, machine, depth, parts)
    products = products_of(tile, rates(machine.name))
    if products is not None:
        return ProductsBuilder(tile, machine, depth, products)
    return Builder(tile, machine, depth)
