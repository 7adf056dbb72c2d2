"""Which bits of a result are undefined, as some bits of the operands are.

A bit of a result is undefined where it may change with an undefined bit of an operand: sums carry
upwards, shifts and selections of bytes move bits, masks that are known cut them off. Where an
operation is not in the table all bits of its result are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from titan.isa.simt.arithmetic import select_bytes
from titan.isa.simt.operations import DecodedStep, Kind, Op
from titan.isa.simt.values import Scalar

ALL_BITS = (1 << 128) - 1
# Operations that move bits, with the operands that say where to.
_MOVING: dict[Op, tuple[int, ...]] = {
    **dict.fromkeys((Op.MOV, Op.PACK, Op.UNPACK, Op.CVT, Op.NOT, Op.XOR, Op.BREV), ()),
    **dict.fromkeys((Op.SHL, Op.SHR), (1,)),
    **dict.fromkeys((Op.FUNNEL, Op.PRMT), (2,)),
    Op.BFE: (1, 2),
    Op.BFI: (2, 3),
}
_ADDING = frozenset({Op.ADD, Op.SUB, Op.NEG, Op.TO_GENERIC, Op.FROM_GENERIC})
_PAIRS = {
    "f16x2": 16,
    "bf16x2": 16,
    "s16x2": 16,
    "u16x2": 16,
    "f32x2": 32,
    "e4m3x2": 8,
    "e5m2x2": 8,
}
Masks = Sequence[int]
Values = Sequence[Scalar]


def undefined_bits(
    step: DecodedStep, modifiers: Sequence[str], masks: Masks, values: Values, place: int
) -> int:
    """The undefined bits of a result from those of the operands, of which `values` are known."""
    if not any(masks):
        return 0
    maker = _MAKERS.get(step.op)
    found = None if maker is None else maker(step, masks, values, place)
    if found is None and step.op is Op.OPAQUE and len(step.out) == 1:
        found = _of_parts(modifiers, masks)
    return ALL_BITS if found is None else found


def surely_changes(step: DecodedStep, masks: Masks, values: Values) -> bool:
    """Whether the undefined bits of a result change with those of one operand, whatever unknown
    data are: bits are moved as is known, or a whole number is added to."""
    if step.op in (Op.AND, Op.OR):
        return all(
            mask or isinstance(value, int) for mask, value in zip(masks, values, strict=True)
        )
    if step.op is Op.CVT and step.flags[2]:
        return False  # saturates
    if step.op in _MOVING:
        return all(isinstance(values[number], int) for number in _MOVING[step.op])
    whole = _ones(step.bits)
    return step.op in _ADDING and all(mask & whole in (0, whole) for mask in masks)


def stretched(mask: int, bits: int, width: int) -> int:
    """The mask of a number of `bits` bits that is extended to `width` bits with its sign."""
    mask &= _ones(bits)
    return mask | (_ones(width) & ~_ones(bits) if mask >> (bits - 1) & 1 else 0)


def _ones(bits: int) -> int:
    return (1 << bits) - 1


def _carried(mask: int, bits: int) -> int:
    """What a carry reaches: all bits from the lowest one on."""
    mask &= _ones(bits)
    return -(mask & -mask) & _ones(bits) if mask else 0


def _union(masks: Masks) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _same(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    return _union(masks)


def _sum(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    if step.kind in (Kind.FLOAT, Kind.BFLOAT):
        return None
    wide = step.op in (Op.MUL_WIDE, Op.MAD_WIDE)
    return _carried(_union(masks), 2 * step.bits if wide else step.bits)


def _and(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    found = _union(masks) & _ones(step.bits)
    for value in values:
        found &= value if isinstance(value, int) else -1
    return found


def _or(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    found = _union(masks) & _ones(step.bits)
    for value in values:
        found &= ~value if isinstance(value, int) else -1
    return found


def _shift(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    amount, bits = values[1], step.bits
    if not isinstance(amount, int):
        return None
    if step.op is Op.SHL:
        return masks[0] << amount & _ones(bits) if amount < bits else 0
    if step.kind is Kind.SIGNED:
        return stretched(masks[0], bits, 2 * bits) >> min(amount, bits - 1) & _ones(bits)
    return (masks[0] & _ones(bits)) >> amount


def _funnel(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    (right, clamp), amount = step.flags, values[2]
    if not isinstance(amount, int):
        return None
    amount = min(amount, 32) if clamp else amount & 31
    both = (masks[1] & _ones(32)) << 32 | masks[0] & _ones(32)
    return (both >> amount if right else both << amount >> 32) & _ones(32)


def _extract(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    first, length = values[1], values[2]
    if not isinstance(first, int) or not isinstance(length, int):
        return None
    first, length = first & 255, length & 255
    if not length:
        return 0
    field = (masks[0] & _ones(step.bits)) >> first & _ones(length)
    if step.kind is not Kind.SIGNED:
        return field
    last = max(min(length, step.bits - first), 1)
    return stretched(field, last, step.bits) if first < step.bits else None


def _insert(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    first, length = values[2], values[3]
    if not isinstance(first, int) or not isinstance(length, int):
        return None
    field = _ones(length & 255) << (first & 255) & _ones(step.bits)
    return masks[1] & ~field & _ones(step.bits) | masks[0] << (first & 255) & field


def _permute(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    if not isinstance(values[2], int):
        return None
    both, found = (masks[1] & _ones(32)) << 32 | masks[0] & _ones(32), 0
    for to, selector in enumerate(select_bytes(step.flags[0], values[2])):
        byte = both >> 8 * (selector & 7) & 255
        if selector & 8:
            byte = 255 if byte & 128 else 0
        found |= byte << 8 * to
    return found


def _convert(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    from_kind, from_bits, saturate, register = step.flags
    mask, width = masks[0] & _ones(from_bits), max(step.bits, register)
    if saturate:
        return _ones(width) if mask else 0
    if from_kind == Kind.SIGNED:
        mask = stretched(mask, from_bits, max(from_bits, step.bits))
    mask &= _ones(step.bits)
    return stretched(mask, step.bits, width) if step.kind is Kind.SIGNED else mask


def _pack(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    (part,) = step.flags
    return _union([(mask & _ones(part)) << part * at for at, mask in enumerate(masks)])


def _unpack(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    (part,) = step.flags
    return masks[0] >> part * place & _ones(part)


def _halves(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    found, mask = 0, _union(masks)
    adds = step.flags[0] == Op.ADD and not step.flags[1]
    for low in (0, 16):
        half = mask >> low & _ones(16)
        found |= (_carried(half, 16) if adds else _ones(16) if half else 0) << low
    return found


def _selected(step: DecodedStep, masks: Masks, values: Values, place: int) -> int | None:
    """The predicate is not known, but defined."""
    return None if masks[2] & 1 else masks[0] | masks[1]


def _of_parts(modifiers: Sequence[str], masks: Masks) -> int | None:
    """Instructions on packed numbers: each part of the result is made of the same part of the
    operands; a conversion of two numbers has the first one in the upper part."""
    words = [word for word in modifiers if word in _PAIRS]
    if not words:
        return None
    part, size = _PAIRS[words[0]], _PAIRS.get(modifiers[-1], 0)
    if size:
        low = _union([mask & _ones(size) for mask in masks])
        high = _union([mask >> size & _ones(size) for mask in masks])
    elif len(masks) == 2:
        high, low = masks
    else:
        return None
    return (_ones(part) if low else 0) | (_ones(part) << part if high else 0)


_MAKERS: dict[Op, Callable[[DecodedStep, Masks, Values, int], int | None]] = {
    **dict.fromkeys((Op.MOV, Op.XOR, Op.NOT, Op.LOP3), _same),
    **dict.fromkeys(
        (Op.ADD, Op.SUB, Op.MUL_LOW, Op.MAD_LOW, Op.MUL_WIDE, Op.MAD_WIDE, Op.NEG), _sum
    ),
    **dict.fromkeys((Op.SHL, Op.SHR), _shift),
    Op.AND: _and, Op.OR: _or, Op.FUNNEL: _funnel, Op.BFE: _extract, Op.BFI: _insert,
    Op.PRMT: _permute, Op.CVT: _convert, Op.PACK: _pack, Op.UNPACK: _unpack, Op.HALVES: _halves,
    Op.SELP: _selected,
}  # fmt: skip
