"""Scalar arguments of a tile program: f32 numbers that a launch may bring, as an attention's scale.

A scalar enters arithmetic alone: no address, extent or trip count depends on one, hence no verdict.
Each has a value for launches that bring none; whatever runs a tile program runs it with these
values, and `with_scalars` gives the program that has others. Which numbers: `scalar_values.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from titan.codegen.tile.model import ScalarArgument, TileOperation, TileProgram
from titan.codegen.tile.scalar_values import checked_scalars


def with_scalars(tile: TileProgram, given: Mapping[str, float]) -> TileProgram:
    """The program whose scalars have these values. Raises BadScalar."""
    found = checked_scalars({item.name: item.value for item in tile.scalars}, given, tile.name)
    made = {name: ScalarArgument(name, value) for name, value in found.items()}

    def bound(operations: tuple[TileOperation, ...]) -> tuple[TileOperation, ...]:
        return tuple(
            replace(operation, scalar=made[operation.scalar.name])
            if operation.scalar is not None
            else operation
            for operation in operations
        )

    return replace(
        tile, scalars=tuple(made.values()), before=bound(tile.before), body=bound(tile.body),
        after=bound(tile.after),
    )  # fmt: skip
