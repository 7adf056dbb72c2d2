"""Values of scalar arguments: which numbers are one, and which a launch has.

A scalar is positive and finite in f32, so that it moves no maximum and makes no NaN of an infinity
that a mask filled in. What runs on a device reads this, so it imports next to nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

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
            has = f"; it has {', '.join(known)}" if known else ""
            faults.append(f"{kernel} has no scalar {name}{has}")
        elif fault := scalar_fault(value):
            faults.append(f"the scalar {name}: {fault}")
    if faults:
        raise BadScalar("; ".join(faults))
    return {name: float(given.get(name, value)) for name, value in known.items()}
