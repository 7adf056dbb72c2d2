"""Scalar arguments: f32 numbers that a launch may bring, such as the scale of an attention.

A scalar is positive and finite in f32, so that it moves no maximum and makes no NaN of an infinity
that a mask filled in. It enters arithmetic alone: no address, extent or trip count depends on one,
hence no verdict. Each has a value for launches that bring none; whatever runs a tile program runs
it with these values, and `with_scalars` gives the program that has others.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace

from titan.codegen.tile.model import ScalarArgument, TileOperation, TileProgram
from titan.foundation.diagnostics.wording import suggestion
from titan.foundation.errors import UserError


class BadScalar(UserError):
    """A scalar that the program does not have, or a number that none takes."""


def scalar_fault(value: float) -> str:
    """Why a number is no scalar argument; empty where it is one."""
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except (OverflowError, struct.error):
        return f"{value!r} is no number of f32"
    return "" if 0 < single < float("inf") else f"{value!r} is not positive and finite in f32"


def checked_scalars(
    known: Mapping[str, float], given: Mapping[str, float], kernel: str
) -> dict[str, float]:
    """The value of each scalar, as given or else as in `known`. Raises BadScalar."""
    faults = []
    for name, value in given.items():
        if name not in known:
            words = "; ".join(suggestion(name, known))
            faults.append(f"{kernel} has no scalar {name}" + (f"; {words}" if words else ""))
        elif fault := scalar_fault(value):
            faults.append(f"the scalar {name}: {fault}")
    if faults:
        raise BadScalar("; ".join(faults))
    return {name: float(given.get(name, value)) for name, value in known.items()}


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
