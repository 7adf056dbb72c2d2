"""What becomes of numbers that grow with the trips, beside the machine of waves on the numbers."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

np = pytest.importorskip("numpy")

from tests.frontends.gcn.texts import kernel  # noqa: E402
from tests.sampling import part  # noqa: E402
from titan.foundation.source.span import Source  # noqa: E402
from titan.isa.gcn.assembly import parse_assembly  # noqa: E402
from titan.isa.gcn.opcodes import OpcodeKind  # noqa: E402
from titan.isa.simt.growth import ENDLESS, FIXED, Growth  # noqa: E402
from titan.isa.simt.lane_growths import of_lane  # noqa: E402
from titan.isa.simt.operations import Kind, Op  # noqa: E402
from titan.isa.simt.values import lanes_of  # noqa: E402
from titan.isa.waves import grown  # noqa: E402
from titan.isa.waves.decode import SCALAR_BASE, decoded  # noqa: E402
from titan.isa.waves.followed import CONDITION, followed, sets_condition  # noqa: E402
from titan.isa.waves.grown import _chooser, results  # noqa: E402
from titan.isa.waves.growth_rules import BY_WORDS, SCALAR, VECTOR  # noqa: E402
from titan.isa.waves.growth_steps import (  # noqa: E402
    GrowingNumber,
    comparison,
    extreme,
    shift_sum,
    sum_of,
)
from titan.isa.waves.scalar_steps import scalar_step  # noqa: E402
from titan.isa.waves.state import FULL, OpaqueWord, Wave  # noqa: E402
from titan.isa.waves.vector_steps import vector_step  # noqa: E402

WORD = 0xFFFFFFFF
THREE = (
    "lshl_add_u32", "add_lshl_u32", "add3_u32", "xad_u32", "lshl_or_b32", "and_or_b32", "or3_b32",
    "bfe_u32", "bfe_i32", "mad_u32_u24", "mad_u16", "mad_legacy_u16", "min3_u32", "max3_u32",
    "min3_i32", "max3_i32",
)  # fmt: skip


def texts():
    """Each instruction that has a rule, with registers for all operands."""
    for name in sorted(SCALAR) + sorted(n for n in BY_WORDS if n.startswith("s_")):
        if name.startswith(("s_cmpk", "s_addk", "s_mulk", "s_cmovk")):
            yield f"{name} s10, 0x28"
            yield f"{name} s10, -3"
        elif name == "s_movk_i32":
            continue  # of a constant
        elif name.startswith(("s_cmp", "s_bitcmp")):
            wide = "b64" in name or "u64" in name
            second = "s12" if "bitcmp" in name else "s[12:13]"
            yield f"{name} s[10:11], {second}" if wide else f"{name} s10, s12"
        elif name.startswith(("s_mov_b32", "s_not_b32", "s_sext", "s_cmov")):
            yield f"{name} s14, s10"
        elif name in ("s_mov_b64", "s_not_b64"):
            yield f"{name} s[14:15], s[10:11]"
        elif name in BY_WORDS:
            yield f"{name} s[14:15], s[10:11], s[12:13]"
        elif name.endswith(("b64", "i64", "u64")):
            yield f"{name} s[14:15], s[10:11], s12"
        else:
            yield f"{name} s14, s10, s12"
    yield "s_bfe_u32 s14, s10, 0x30005"
    yield "s_bfe_i32 s14, s10, 0x80004"
    yield "s_lshl_b32 s14, s10, 3"
    yield "s_and_b32 s14, s10, 63"
    for name in sorted(VECTOR):
        if name.startswith("v_cmpx"):
            continue  # decides the execution mask
        if name.startswith("v_cmp"):
            wide = name.endswith("64")
            yield f"{name}_e64 s[14:15], " + ("v[10:11], v[12:13]" if wide else "v10, v12")
        elif name.startswith("v_cndmask"):
            yield f"{name}_e64 v14, v10, v12, s[12:13]"
        elif "_co_" in name:
            more = ", s[12:13]" if name.startswith(("v_addc", "v_subb_", "v_subbrev")) else ""
            yield f"{name}_e64 v14, s[14:15], v10, v12{more}"
        elif name.startswith("v_mad_") and name.endswith(("u64_u32", "i64_i32")):
            yield f"{name} v[14:15], s[14:15], v10, v12, v[16:17]"
        elif name == "v_lshl_add_u64":
            yield f"{name} v[14:15], v[10:11], 3, v[16:17]"
        elif name.endswith(("b64", "i64")):
            yield f"{name} v[14:15], v10, v[12:13]"
        elif name.removeprefix("v_") in THREE:
            yield f"{name} v14, v10, v12, v16"
            yield f"{name} v14, v10, 5, s12"
        elif name.startswith("v_accvgpr"):
            if "write" in name:  # the others read what is no operand here
                yield f"{name} a14, v10"
        elif name.startswith(("v_mov", "v_not")):
            yield f"{name} v14, v10"
        else:
            yield f"{name}_e64 v14, v10, v12" if name.count("_") < 4 else f"{name} v14, v10, v12"
    yield "v_add_u32_e32 v14, s10, v12"
    yield "v_lshlrev_b32_e32 v14, 4, v12"
    yield "v_bfe_u32 v14, v10, 5, 3"
    yield "v_bfe_i32 v14, v10, 4, 8"
    yield "v_readfirstlane_b32 s14, v10"
    yield "v_readlane_b32 s14, v10, 7"
    yield "v_writelane_b32 v14, s10, 7"
    yield "v_mov_b64_e32 v[14:15], v[10:11]"
    yield "v_ffbl_b32_e32 v14, v10"
    yield "v_perm_b32 v14, v10, v12, v16"
    yield "v_swap_b32 v10, v12"
    yield "s_ff1_i32_b32 s14, s10"
    yield "s_abs_i32 s14, s10"
    yield "s_bitset1_b32 s10, s12"


def instructions():
    found = {}
    for wanted in texts():
        text = wanted
        assembly, errors = parse_assembly(Source("k.s", kernel(f"\t{text}\n\ts_endpgm\n")))
        if assembly is None or errors:
            text = wanted.replace("_e64 ", " ")
            assembly, errors = parse_assembly(Source("k.s", kernel(f"\t{text}\n\ts_endpgm\n")))
        assert assembly is not None and not errors, (text, errors)
        code = decoded(0, assembly.instructions[0])
        scalar = code.opcode.kind is OpcodeKind.SCALAR
        found[text] = followed(code), (scalar_step if scalar else vector_step)(code)
    return found


KNOWN = instructions()
SCALARS, ROWS = (10, 11, 12, 13, 14), (10, 11, 12, 13, 14, 15, 16, 17)
EDGES = (0, 1 << 5, 1 << 7, 1 << 8, 1 << 11, 1 << 15, 1 << 16, 1 << 23, 1 << 24, 1 << 31, 1 << 32)
SLOPES = (1, -1, 2, 3, -9, 4, 12, 64, -64, 256, 1 << 12, 1 << 16, 1 << 24, 1 << 30)
POINTS = ((0, 0), (0, 1), (1, 1), (2, 5), (40, 77), (1 << 13, 1 << 14))
AT_LIMIT = ((1, 1), (0, 1), (1, 2))  # shares of the limit that is found
STILL = Growth(0, 0)


class Sample:
    """Numbers with their growths: for scalar registers, and in all lanes for rows of vectors.

    Beyond the limit of its growth an operand is any number. Of many samples something is known of
    the result: few operands grow, slopes are small, few lanes take part, and numbers lie near one
    place where something turns over, or are masks and multiples of powers of two.
    """

    def __init__(self, one, seed):
        self.random = random.Random(seed)
        self.alike = not self.random.randrange(4)
        self.mask = self.random.choice((FULL, 1 << 7, 1 << 7 | 1 << 40))
        self.edge = self.random.choice((None, *EDGES))
        self.calm = self.random.randrange(2)
        self.still = self.random.randrange(2, 6)
        self.powers = not self.random.randrange(3)
        self.one = one
        self.condition = self.random.randrange(2)
        self.scalars = {at: self.one_of(SCALAR_BASE + at) for at in SCALARS}
        self.rows = {}
        for row in one.reads & frozenset(ROWS):
            items = [self.one_of(row) for _ in range(64)]
            if self.alike:
                items = [(value, items[0][1]) for value, _ in items]
            self.rows[row] = items
        self.parts = {
            row: np.array([(v, g.a, g.b, min(g.limit, 1 << 40)) for v, g in items], np.int64).T
            for row, items in self.rows.items()
        }

    def one_of(self, register):
        """A number and its growth; 1 and still where the instruction does not read it."""
        if register not in self.one.reads:
            return 1, STILL
        choose = self.random
        edge = choose.choice(EDGES) if self.edge is None else self.edge
        value = edge + choose.randrange(-40, 41)
        if self.powers:
            power = 1 << choose.randrange(32)
            value = choose.choice((power - 1, power, -power, power * choose.randrange(9)))
        elif not choose.randrange(6):
            value = choose.getrandbits(32)
        growth = STILL
        if not choose.randrange(self.still):
            slope = choose.choice(SLOPES[:4] if self.calm else SLOPES)
            a, b = choose.choice(((slope, 0), (0, slope), (slope, slope), (slope, 1), (0, 0)))
            limit = choose.choice((ENDLESS, choose.randrange(1, 60)))
            growth = Growth(a, b, limit, -1 if limit == ENDLESS else 3)
        return value & WORD, growth

    def table(self):
        """The growths as the rules take them."""
        found = {SCALAR_BASE + at: growth for at, (_, growth) in self.scalars.items()}
        for row, items in self.rows.items():
            growths = [growth for _, growth in items]
            found[row] = growths[0] if self.alike else growths
        return {
            register: growth
            for register, growth in found.items()
            if growth not in (STILL, FIXED) and growth != [STILL] * 64
        }

    def wave(self, points):
        """A wave with what registers hold at (j, k) of each lane; scalar ones at that of lane 0."""
        wave = Wave(0, self.mask)
        for at, (value, growth) in self.scalars.items():
            wave.set_scalar(at, moved(value, growth, points[0]))
        j, k = np.array(points, np.int64).T
        for row, (value, a, b, limit) in self.parts.items():
            there = np.where(k > limit, value * 0x9E3779B1 + 77, value) + a * j + b * k
            wave.vectors[row] = there & WORD
        for row in ROWS:
            wave.known[row] = FULL
        wave.condition = self.condition
        return wave


def scalar_alone(one):
    """Whether an instruction reads no vector register."""
    return all(register >= SCALAR_BASE for register in one.reads)


def moved(value, growth, point):
    j, k = point
    if k > growth.limit:
        value = value * 0x9E3779B1 + 77  # any other number
    return value + growth.a * j + growth.b * k & WORD


def read(wave, register, lane):
    """A register in one lane."""
    if register == CONDITION:
        return wave.condition
    if register >= SCALAR_BASE:
        return wave.scalar(register - SCALAR_BASE)
    return int(wave.vectors[register][lane])


def compared(text, one, step, seed):
    """The first result that is not of the form which is claimed, or None; how many were claimed.

    A claim says something where an operand grows, and the result is known beyond the launch.
    """
    sample = Sample(one, seed)
    table, start = sample.table(), sample.wave([(0, 0)] * 64)
    made = results(start, one, table)
    step(start)
    scalar = scalar_alone(one)
    targets = [register for register in one.writes if not SCALAR_BASE + 126 <= register < CONDITION]
    claims = 0
    for register in targets:
        lanes = (0,) if scalar or register >= SCALAR_BASE else lanes_of(sample.mask)
        if text.startswith("v_writelane"):
            lanes = (7,)
        found = {lane: of_lane(made.get(register, FIXED), lane) for lane in lanes}
        first = {lane: read(start, register, lane) for lane in lanes}
        if not lanes or any(isinstance(value, OpaqueWord) for value in first.values()):
            continue
        claims += sum(item.limit > 0 for item in found.values()) if table else 0
        least = min(item.limit for item in found.values())
        for share in (*POINTS, *AT_LIMIT):
            points = [point_of(share, found.get(lane), least, sample.scalars) for lane in range(64)]
            other = sample.wave(points)
            step(other)
            size = 1 if register == CONDITION else WORD
            for lane in lanes:
                (j, k), item = points[lane], found[lane]
                expected = first[lane] + item.a * j + item.b * k & size
                if read(other, register, lane) != expected:
                    return (text, seed, register, lane, (j, k), item), claims
    return None, claims


def point_of(share, found, least, scalars):
    """The place of a point or of a share of the limit, none beyond what is claimed.

    Where scalar registers grow they are at one place for all lanes.
    """
    moving = any(growth != STILL for _, growth in scalars.values())
    limit = least if moving or found is None else found.limit
    if share in AT_LIMIT and share is not POINTS[1]:
        over, under = share
        k = min(limit, 1 << 40) // under
        return (k if over else 0), k
    j, k = share
    return (j, k) if k <= limit else (0, 0)


def seeds(one, of=12):
    """One sample of a vector instruction has 64 lanes, of a scalar one a single number."""
    return range(part(1600, of) if scalar_alone(one) else part(240, of))


@pytest.mark.parametrize("text", sorted(KNOWN))
def test_a_result_is_of_its_form_up_to_its_limit(text):
    one, step = KNOWN[text]
    claims = 0
    for seed in seeds(one):
        wrong, more = compared(text, one, step, seed)
        assert wrong is None
        claims += more
    assert claims, "nothing is claimed of any result"


def _unmasked(steps, given):
    return (steps.do(Op.MUL_LOW, 32, given[0], given[1]),)


def _shifted_by_all(steps, given):
    return (steps.do(Op.SHL, 32, given[0], given[1]),)


def _carry_of_equal(steps, given):
    total = steps.do(Op.SUB, 32, given[0], given[1])
    return total, steps.compare("ge", steps.wide(given[1]), steps.wide(given[0]), 64)


def _no_carry(steps, given):
    found = steps.add(given[0], given[1])
    return found, GrowingNumber(0, FIXED)


def sum_of_two(steps, given):
    return sum_of(steps, given[:2])


def _overflow_above(steps, given):
    wide = steps.do(Op.ADD, 64, *(steps.wide(item, Kind.SIGNED) for item in given))
    high = steps.compare("gt", wide, GrowingNumber((1 << 31) - 1, FIXED), 64, Kind.SIGNED)
    return steps.add(given[0], given[1]), high


def _test_of_first(steps, given):
    found = steps.do(Op.AND, 32, *given)
    return found, steps.set_unless_zero(given[0])


def _unsigned_field(steps, given):
    moved = steps.do(Op.SHL, 32, given[0], GrowingNumber(20, FIXED))
    return (steps.do(Op.SHR, 32, moved, GrowingNumber(24, FIXED)),)


def _wide_field(steps, given):
    return (steps.do(Op.SHR, 32, given[0], GrowingNumber(5, FIXED)),)


def _first(steps, given):
    return (given[0],)


def _swapped(steps, given):
    return (steps.choose(given[2], given[0], given[1]),)


def _as_if_linear(steps, given):
    return (steps.add(given[0], given[1]),)


def _signed_product(steps, given):
    return (steps.do(Op.MUL_HIGH, 32, *given, kind=Kind.SIGNED),)


# Rules with a fault each, of which the samples have to find every one.
PLANTED = {
    "v_mul_u32_u24_e64 v14, v10, v12": _unmasked,
    "v_mul_lo_u16_e64 v14, v10, v12": _unmasked,
    "v_lshlrev_b32_e64 v14, v10, v12": lambda steps, given: _shifted_by_all(steps, given[::-1]),
    "s_lshl_b32 s14, s10, s12": lambda steps, given: (
        *_shifted_by_all(steps, given), steps.set_unless_zero(_shifted_by_all(steps, given)[0])
    ),
    "s_sub_u32 s14, s10, s12": _carry_of_equal,
    "v_sub_co_u32_e64 v14, s[14:15], v10, v12": _carry_of_equal,
    "s_add_u32 s14, s10, s12": _no_carry,
    "v_add_co_u32_e64 v14, s[14:15], v10, v12": _no_carry,
    "v_addc_co_u32_e64 v14, s[14:15], v10, v12, s[12:13]": sum_of_two,
    "s_addc_u32 s14, s10, s12": sum_of_two,
    "s_add_i32 s14, s10, s12": _overflow_above,
    "s_addk_i32 s10, -3": _overflow_above,
    "s_and_b32 s14, s10, s12": _test_of_first,
    "v_bfe_i32 v14, v10, 4, 8": _unsigned_field,
    "v_bfe_u32 v14, v10, 5, 3": _wide_field,
    "v_min_u32_e64 v14, v10, v12": _first,
    "v_max_i32_e64 v14, v10, v12": _first,
    "v_cndmask_b32_e64 v14, v10, v12, s[12:13]": _swapped,
    "s_cselect_b32 s14, s10, s12": lambda steps, given: (steps.choose(given[2], *given[1::-1]),),
    "v_or_b32_e64 v14, v10, v12": _as_if_linear,
    "v_xor_b32_e64 v14, v10, v12": _as_if_linear,
    "v_mul_hi_u32_e64 v14, v10, v12": _signed_product,
    "s_mul_hi_u32 s14, s10, s12": _signed_product,
    "v_add_u16_e64 v14, v10, v12": _as_if_linear,
    "v_cmp_lt_i16_e64 s[14:15], v10, v12": comparison("lt", 32, Kind.SIGNED),
    "v_cmp_lt_u32_e64 s[14:15], v10, v12": comparison("le", 32, Kind.UNSIGNED),
    "v_cmp_lt_i32_e64 s[14:15], v10, v12": comparison("lt", 32, Kind.UNSIGNED),
    "s_cmp_le_i32 s10, s12": comparison("lt", 32, Kind.SIGNED),
    "s_cmp_gt_u32 s10, s12": comparison("gt", 32, Kind.SIGNED),
    "s_bitcmp1_b32 s10, s12": lambda steps, given: (steps.both(given[0], 1),),
    "s_lshl4_add_u32 s14, s10, s12": shift_sum(3),
    "s_min_i32 s14, s10, s12": extreme(Op.MIN, Kind.UNSIGNED),
}  # fmt: skip


@pytest.mark.parametrize("text", PLANTED)
def test_a_fault_in_a_rule_is_found(text):
    one, step = KNOWN[text]
    faulty = replace(one, rule=PLANTED[text], linear=False)
    assert any(compared(text, faulty, step, seed)[0] is not None for seed in seeds(one, 1))


def _lane_beside(register, mask, lane, table):
    return _chooser(register, mask, lane ^ 32, table)


def _fixed_whatever_is_read(wave, one, table):
    return FIXED


def _lanes_fixed(items, steps):
    return FIXED


@pytest.mark.parametrize(
    ("text", "name", "fault"),
    [
        ("v_cndmask_b32_e64 v14, v10, v12, s[12:13]", "_chooser", _lane_beside),
        ("v_ffbl_b32_e32 v14, v10", "any_of", _fixed_whatever_is_read),
        ("s_ff1_i32_b32 s14, s10", "any_of", _fixed_whatever_is_read),
        ("v_cmp_lt_u32_e64 s[14:15], v10, v12", "_together", _lanes_fixed),
        ("v_readlane_b32 s14, v10, 7", "_lane_named", lambda *_: 6),
        ("v_writelane_b32 v14, s10, 7", "_lane_named", lambda *_: 6),
    ],
)
def test_a_fault_beside_the_rules_is_found(text, name, fault, monkeypatch):
    monkeypatch.setattr(grown, name, fault)
    one, step = KNOWN[text]
    assert any(compared(text, one, step, seed)[0] is not None for seed in seeds(one, 1))


def test_rules_hold_beyond_a_few_numbers_where_compilers_need_them():
    """Sums, shifts and fields of a trip counter are known for many trips."""
    for text, limit in (
        ("s_add_u32 s14, s10, s12", 1 << 40), ("s_lshl_b32 s14, s10, 3", 1 << 40),
        ("s_cmp_lt_u32 s10, s12", 900), ("v_add_u32_e32 v14, s10, v12", 1 << 40),
        ("s_and_b32 s14, s10, 63", 60), ("s_bfe_u32 s14, s10, 0x30005", 25),
    ):  # fmt: skip
        one, _ = KNOWN[text]
        wave = Wave(0, FULL)
        wave.set_scalar(10, 3)
        wave.set_scalar(12, 1000)
        wave.vectors[12], wave.known[12], wave.condition = range(64), FULL, 0
        made = results(wave, one, {SCALAR_BASE + 10: Growth(1, 0)})
        register = CONDITION if "cmp" in text else SCALAR_BASE + 14 if text[0] == "s" else 14
        assert of_lane(made.get(register, FIXED), 0).limit >= limit, (text, made)


def test_each_scalar_instruction_says_whether_it_sets_the_condition():
    for text, (one, step) in KNOWN.items():
        if not text.startswith("s_"):
            continue
        changes = set()
        for condition in (0, 1):
            for low in (0, 5, WORD):
                wave = Wave(0, FULL)
                for register, value in {10: low, 11: low, 12: 1, 13: 0, 14: 0}.items():
                    wave.set_scalar(register, value)
                wave.condition = condition
                step(wave)
                changes.add(wave.condition != condition)
        if True in changes:
            assert sets_condition(one.code.item.base) and CONDITION in one.writes, text
