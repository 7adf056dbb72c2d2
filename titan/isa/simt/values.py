"""The domain of values "unknown": integers that are known, and opaque ones.

A register of a warp holds an int (all lanes the same), an `Opaque`, or a list of 32 of both. An
opaque value remembers where it came from, so that a refusal can say it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from titan.isa.simt.operations import DecodedStep, Op

LANES = 32
ALL = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Opaque:
    """`site`: the instruction that made it, or -1 for what was unknown at the start."""

    site: int


Scalar: TypeAlias = int | Opaque
Value: TypeAlias = int | Opaque | list[Scalar]

_SITES: dict[int, Opaque] = {}


def opaque_at(site: int) -> Opaque:
    """The opaque value of a site."""
    found = _SITES.get(site)
    if found is None:
        found = _SITES[site] = Opaque(site)
    return found


UNKNOWN = opaque_at(-1)


def any_opaque(values: Iterable[Value]) -> bool:
    """Whether some lane of some value is not known."""
    return any(
        isinstance(item, Opaque)
        for value in values
        for item in (value if isinstance(value, list) else (value,))
    )


def lanes_of(mask: int) -> list[int]:
    """The lanes of a mask, in order."""
    found = _LANES.get(mask)
    if found is None:
        found = [lane for lane in range(mask.bit_length()) if mask >> lane & 1]
        if len(_LANES) < 4096:
            _LANES[mask] = found
    return found


_LANES: dict[int, list[int]] = {}


def lane(value: Value, index: int) -> Scalar:
    """The scalar of one lane; a uniform value is that of every lane."""
    return value[index] if isinstance(value, list) else value


def uniform(value: Value, mask: int) -> Scalar | None:
    """The value that all lanes of `mask` have, or None if they differ."""
    if not isinstance(value, list):
        return value
    lanes = lanes_of(mask)
    first = value[lanes[0]]
    for index in lanes:
        if value[index] != first:
            return None
    return first


def apply(step: DecodedStep, function: Callable[..., int], values: tuple[Scalar, ...]) -> Scalar:
    """What one lane computes; opaque if it depends on something opaque."""
    for value in values:
        if isinstance(value, Opaque):
            return _partly(step, function, value, values)
    return function(*values)


def _partly(
    step: DecodedStep, function: Callable[..., int], first: Opaque, values: tuple[Scalar, ...]
) -> Scalar:
    """Some operands decide a result alone."""
    op = step.op
    if op is Op.AND and 0 in values:
        return 0
    if op is Op.OR and (1 << step.bits) - 1 in values:
        return (1 << step.bits) - 1
    if op is Op.SELP and isinstance(values[2], int):
        return values[0] if values[2] & 1 else values[1]
    if op is Op.SETP and len(values) == 3 and isinstance(values[2], int):
        third = bool(values[2]) != bool(step.flags[2])
        if step.flags[1] == 1 and not third:
            return 0
        if step.flags[1] == 2 and third:
            return 3
    known = sum(not isinstance(value, Opaque) for value in values[:2])
    if op is Op.SETP and len(values) == 3 and len(step.out) == 1 and known == 2:
        either = function(*values[:2], 0), function(*values[:2], 1)
        if not (either[0] ^ either[1]) & 1:
            return either[0]
    return first


def merge(old: Value, new: Value, mask: int) -> Value:
    """A register after a write by the lanes of `mask`."""
    merged = list(old) if isinstance(old, list) else [old] * LANES
    if isinstance(new, list):
        for index in lanes_of(mask):
            merged[index] = new[index]
    else:
        for index in lanes_of(mask):
            merged[index] = new
    return merged
