"""How the results of one instruction of a wave grow with the trips, from its operands.

Growths are kept by register, one for all lanes or one for each (`lane_growths.py`); a register that
is not in the table is FIXED. Lanes whose result is not known have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from titan.isa.simt.growth import ENDLESS, FIXED, Growth, unknown
from titan.isa.simt.lane_growths import Growths, distinct, fixed_as, of_lane
from titan.isa.simt.values import lanes_of
from titan.isa.waves.decode import register_numbers
from titan.isa.waves.followed import FollowedInstruction, GrowingOperand
from titan.isa.waves.growth_steps import GrowingNumber, Results, Steps
from titan.isa.waves.rounds import CONDITION, is_uniform
from titan.isa.waves.sources import scalar_source
from titan.isa.waves.state import FULL, LANES, SCALARS, OpaqueWord, Wave

Table = Mapping[int, Growths]
Made = dict[int, Growths]
SCALAR_BASE = CONDITION - SCALARS


def results(wave: Wave, one: FollowedInstruction, table: Table) -> Made:
    """The growths of what an instruction writes, before it is executed; FIXED ones are left out."""
    if table.keys().isdisjoint(one.reads):
        return {}
    name = one.code.item.base
    if name in ("v_readfirstlane_b32", "v_readlane_b32"):
        return _one_lane(wave, one, table)
    if name == "v_writelane_b32":
        return _into_one_lane(wave, one, table)
    if name == "v_swap_b32":
        first, second = (register_numbers(item)[0] for item in one.code.item.operands[:2])
        return {first: table.get(second, FIXED), second: table.get(first, FIXED)}
    if one.rule is None:
        return dict.fromkeys(one.writes, any_of(wave, one, table))
    if all(is_uniform(register) for register in one.writes) and not one.code.item.base.startswith(
        "v_"
    ):
        return _scalar(wave, one, table)
    return _vector(wave, one, table)


def any_of(wave: Wave, one: FollowedInstruction, table: Table) -> Growth:
    """Of any function of all that is read: fixed as far as that is."""
    items = [
        item
        for register in one.reads & table.keys()
        for item in distinct(table[register], FULL if is_uniform(register) else wave.exec or FULL)
    ]
    if not items:
        return FIXED
    least = min(items, key=lambda item: item.limit)
    if all(item.fixed for item in items):
        return fixed_as(Growth(0, 0, least.limit, least.site))
    return unknown(one.code.number)


# --------------------------------------------------------------------------- scalar unit


def _scalar(wave: Wave, one: FollowedInstruction, table: Table) -> Made:
    steps = Steps(one.code.number)
    if not one.by_words:
        given = [_uniform_number(wave, item, table, steps) for item in one.operands]
        found = _applied(one, steps, given)
        if found is None:
            return dict.fromkeys(one.writes, any_of(wave, one, table))
        return _written(one, steps, found)
    made: Made = {}
    parts = []
    for word in (0, 1):
        given = [_word(wave, item, word, table) for item in one.operands]
        found = _applied(one, steps, given)
        if found is None:
            return dict.fromkeys(one.writes, any_of(wave, one, table))
        made[one.result[word]] = found[0].growth
        parts.append(found[0])
    if one.condition >= 0:
        tests = [steps.set_unless_zero(part) for part in parts]
        least = min((test.growth for test in tests), key=lambda item: item.limit)
        made[one.condition] = least
    return made


def _applied(
    one: FollowedInstruction, steps: Steps, given: list[GrowingNumber | None]
) -> Results | None:
    """What the rule makes; nothing where an operand is not known."""
    assert one.rule is not None
    known = [item for item in given if item is not None]
    return one.rule(steps, known) if len(known) == len(given) else None


def _written(one: FollowedInstruction, steps: Steps, found: Results) -> Made:
    made: Made = {}
    if len(one.result) == 2:
        for register, word in zip(one.result, steps.words(found[0]), strict=True):
            made[register] = word.growth
    elif one.result:
        made[one.result[0]] = found[0].growth
    if one.condition >= 0:
        made[one.condition] = found[-1].growth
    return made


def _uniform_number(
    wave: Wave, item: GrowingOperand, table: Table, steps: Steps
) -> GrowingNumber | None:
    if item.register < 0:
        return GrowingNumber(item.value, FIXED)
    if item.count == 1:
        return _word(wave, item, 0, table)
    low, high = _word(wave, item, 0, table), _word(wave, item, 1, table)
    return None if low is None or high is None else steps.pair(low, high)


def _word(wave: Wave, item: GrowingOperand, word: int, table: Table) -> GrowingNumber | None:
    """A word of an operand of the scalar unit; None if it is not known."""
    if item.register < 0:
        return GrowingNumber(item.value >> 32 * word & 0xFFFF_FFFF, FIXED)
    register = item.register + (word if item.register != CONDITION else 0)
    value = wave.condition if register == CONDITION else wave.scalar(register - SCALAR_BASE)
    if isinstance(value, OpaqueWord):
        return None
    return GrowingNumber(value, of_lane(table.get(register), 0))


# --------------------------------------------------------------------------- vector unit


class _Row:
    """A word of an operand in each lane: what is known of it, and how it grows."""

    def __init__(self, wave: Wave, item: GrowingOperand, word: int, table: Table) -> None:
        register = item.register + word
        self.growths: Growths = FIXED
        if item.register < 0:
            self.values, self.known = [item.value >> 32 * word & 0xFFFF_FFFF], FULL
            return
        self.growths = table.get(register, FIXED)
        if not is_uniform(register):
            self.values, self.known = wave.vectors[register].tolist(), wave.known[register]
            return
        value = wave.scalar(register - SCALAR_BASE)
        opaque = isinstance(value, OpaqueWord)
        self.values, self.known = [0 if isinstance(value, OpaqueWord) else value], FULL
        if opaque:
            self.known = 0

    def number(self, lane: int) -> GrowingNumber | None:
        """That of one lane; None if it is not known."""
        if not self.known >> lane & 1:
            return None
        value = self.values[lane if len(self.values) > 1 else 0]
        return GrowingNumber(value, of_lane(self.growths, lane))


def _vector(wave: Wave, one: FollowedInstruction, table: Table) -> Made:
    steps = Steps(one.code.number)
    rows = [[_Row(wave, item, word, table) for word in range(item.count)] for item in one.operands]
    flat = [row for parts in rows for row in parts]
    chooses = one.code.item.base.startswith("v_cndmask")
    lost = next(
        (row.growths for row in flat
         if isinstance(row.growths, Growth) and row.growths.limit == 0), None
    )  # fmt: skip
    if lost is not None and not chooses:
        return dict.fromkeys(one.writes, unknown(lost.site if lost.site >= 0 else steps.site))
    if one.linear and all(isinstance(row.growths, Growth) for row in flat):
        given = [GrowingNumber(row.values[0], of_lane(row.growths, 0)) for row in flat]
        assert one.rule is not None
        found = one.rule(steps, given)
        return {} if found is None else {one.result[0]: fixed_as(found[0].growth)}
    return _by_lane(wave, one, table, rows, steps)


def _by_lane(
    wave: Wave, one: FollowedInstruction, table: Table, rows: list[list[_Row]], steps: Steps
) -> Made:
    lanes: dict[int, list[Growth]] = {register: [FIXED] * LANES for register in one.result}
    conditions: list[Growth] = []
    cache: dict[tuple[GrowingNumber | None, ...], tuple[Growth, ...] | None] = {}
    mask = None if one.chooser < 0 else wave.scalar(one.chooser - SCALAR_BASE, 2)
    if isinstance(mask, OpaqueWord):
        return {}  # nor is the result known
    flat = [row for parts in rows for row in parts]
    seen: dict[
        tuple[object, ...], tuple[list[GrowingNumber | None], tuple[Growth, ...] | None]
    ] = {}
    alike = _alike(flat, mask)
    for lane in lanes_of(wave.exec):
        same = alike[lane] if mask is None else (*alike[lane], lane // 32)
        if same not in seen:
            given = [row.number(lane) for row in flat]
            if mask is not None:
                given.append(_chooser(one.chooser, mask, lane, table))
            key = tuple(given)
            if key not in cache:
                cache[key] = _of_one(one, given, steps)
            seen[same] = given, cache[key]
        given, found = seen[same]
        if found is None:
            if all(item is not None for item in given):
                return dict.fromkeys(one.writes, any_of(wave, one, table))
            continue  # a lane that is not known
        for register, growth in zip(one.result, found, strict=False):
            lanes[register][lane] = growth
        if one.condition >= 0:
            conditions.append(found[-1])
    made: Made = {register: list(items) for register, items in lanes.items()}
    if one.condition >= 0:
        made |= dict.fromkeys((one.condition, one.condition + 1), _together(conditions, steps))
    return made


def _alike(rows: list[_Row], mask: int | None) -> list[tuple[object, ...]]:
    """For each lane what its numbers are made of: lanes with equal ones have equal results."""
    columns: list[Iterable[object]] = []
    for row in rows:
        columns.append(row.values if len(row.values) > 1 else row.values * LANES)
        if isinstance(row.growths, list):
            columns.append(map(id, row.growths))
        if row.known != FULL:
            columns.append(row.known >> lane & 1 for lane in range(LANES))
    if mask is not None:
        columns.append(mask >> lane & 1 for lane in range(LANES))
    return list(zip(*columns, strict=True)) if columns else [()] * LANES


def _chooser(register: int, mask: int, lane: int, table: Table) -> GrowingNumber:
    growth = of_lane(table.get(register + lane // 32), 0)
    bit = Growth(0, 0, growth.limit, growth.site) if growth.fixed else unknown(growth.site)
    return GrowingNumber(mask >> lane & 1, fixed_as(bit))


def _of_one(
    one: FollowedInstruction, given: list[GrowingNumber | None], steps: Steps
) -> tuple[Growth, ...] | None:
    """The growths of one lane: of the words of the result, then of the carry."""
    chooses = one.code.item.base.startswith("v_cndmask")
    if chooses and given[-1] is not None:  # the other one decides nothing
        given = [GrowingNumber(0, FIXED) if item is None else item for item in given]
    if any(item is None for item in given):
        return None
    if all(item is None or item.growth is FIXED for item in given):
        return (FIXED,) * (len(one.result) + (one.condition >= 0))
    if one.by_words:
        return tuple(item.growth for item in given if item is not None)  # moves alone
    packed, at = list[GrowingNumber](), 0
    for item in one.operands:
        parts = [part for part in given[at : at + item.count] if part is not None]
        packed.append(parts[0] if item.count == 1 else steps.pair(parts[0], parts[1]))
        at += item.count
    packed += [part for part in given[at:] if part is not None]
    assert one.rule is not None
    found = one.rule(steps, packed)
    if found is None:
        return None
    made = _written(one, steps, found)
    growths = [of_lane(made[register], 0) for register in one.result]
    return (*growths, found[-1].growth) if one.condition >= 0 else tuple(growths)


def _together(items: list[Growth], steps: Steps) -> Growth:
    """That of a mask of bits, one a lane."""
    least = min(items, key=lambda item: item.limit, default=FIXED)
    if not all(item.fixed for item in items):
        return unknown(steps.site)
    return fixed_as(Growth(0, 0, least.limit, least.site if least.limit < ENDLESS else -1))


# ------------------------------------------------------------------------- single lanes


def _lane_named(wave: Wave, one: FollowedInstruction, table: Table, at: int) -> int | None:
    """The lane that an operand names, the same for all trips; None: it is not known."""
    operand = one.code.item.operands[at]
    value = scalar_source(operand, 1, one.code.number)(wave)
    grows = any(register in table for register in register_numbers(operand))
    return None if grows or isinstance(value, OpaqueWord) else value & (LANES - 1)


def _one_lane(wave: Wave, one: FollowedInstruction, table: Table) -> Made:
    operands = one.code.item.operands
    (target, *_), (source, *_) = (register_numbers(item) for item in operands[:2])
    if one.code.item.base == "v_readfirstlane_b32":
        lane: int | None = (wave.exec & -wave.exec).bit_length() - 1 if wave.exec else 0
    else:
        lane = _lane_named(wave, one, table, 2)
    made = unknown(one.code.number) if lane is None else of_lane(table.get(source), lane)
    return {target: made}


def _into_one_lane(wave: Wave, one: FollowedInstruction, table: Table) -> Made:
    target = register_numbers(one.code.item.operands[0])[0]
    source = register_numbers(one.code.item.operands[1])
    lane = _lane_named(wave, one, table, 2)
    if lane is None:
        return {target: unknown(one.code.number)}
    old = table.get(target, FIXED)
    items = list(old) if isinstance(old, list) else [old] * LANES
    items[lane] = of_lane(table.get(source[0]), 0) if source else FIXED
    return {target: items}


def is_known(wave: Wave, register: int) -> bool:
    """Whether a register with one value for all lanes is known."""
    if register == CONDITION:
        return not isinstance(wave.condition, OpaqueWord)
    return not isinstance(wave.scalar(register - SCALAR_BASE), OpaqueWord)


# ------------------------------------------------------------------------- upper halves


def upper_halves(wave: Wave, one: FollowedInstruction, table: Table, known: set[int]) -> set[int]:
    """Results of the scalar unit whose upper 16 bits are the same for all trips, whatever becomes
    of the lower ones; `known` are registers of which this holds."""
    name = one.code.item.base

    def holds(operand: GrowingOperand, word: int) -> bool:
        register = operand.register + word
        return operand.register < 0 or register in known or register not in table

    def is_zero(operand: GrowingOperand) -> bool:
        if operand.register in table:
            return False
        value = _word(wave, operand, 0, {})
        return value is not None and value.value >> 16 == 0

    if name in ("s_mov_b32", "s_mov_b64"):
        return {at for word, at in enumerate(one.result) if holds(one.operands[0], word)}
    cleared = name == "s_and_b32" and any(is_zero(item) for item in one.operands)
    kept = name in ("s_and_b32", "s_or_b32") and all(holds(item, 0) for item in one.operands)
    return set(one.result) if cleared or kept else set()
