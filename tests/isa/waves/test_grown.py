"""What becomes of numbers that grow with the trips, beside the machine of waves on the numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy")

from tests.frontends.gcn.texts import kernel  # noqa: E402
from tests.sampling import part  # noqa: E402
from titan.foundation.source.span import Source  # noqa: E402
from titan.isa.gcn.assembly import parse_assembly  # noqa: E402
from titan.isa.gcn.opcodes import OpcodeKind  # noqa: E402
from titan.isa.simt.growth import FIXED, Growth  # noqa: E402
from titan.isa.simt.lane_growths import of_lane  # noqa: E402
from titan.isa.waves.decode import SCALAR_BASE, decoded  # noqa: E402
from titan.isa.waves.followed import CONDITION, followed, sets_condition  # noqa: E402
from titan.isa.waves.grown import results  # noqa: E402
from titan.isa.waves.growth_rules import BY_WORDS, SCALAR, VECTOR  # noqa: E402
from titan.isa.waves.scalar_steps import scalar_step  # noqa: E402
from titan.isa.waves.state import FULL, OpaqueWord, Wave  # noqa: E402
from titan.isa.waves.vector_steps import vector_step  # noqa: E402

WORD = 0xFFFFFFFF
NUMBERS = st.one_of(
    st.integers(-70, 70), st.integers(0, WORD),
    st.sampled_from([0xAAAAAAAB, 1 << 31, WORD, 0x7FFFFFFF, 0xFFFF, 0x10000]),
)  # fmt: skip
SLOPES = st.one_of(st.integers(-9, 9), st.sampled_from([64, 256, 12, -64, 1 << 16, 1 << 30]))
POINTS = [(0, 0), (0, 1), (1, 1), (2, 5), (5, 5), (0, 9), (40, 77), (99, 99), (1 << 13, 1 << 14)]
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
        elif name.startswith(("v_mov", "v_not", "v_accvgpr")):
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
SCALARS, ROWS, LANES = (10, 11, 12, 13, 14), (10, 11, 12, 13, 14, 15, 16, 17), (0, 1, 7, 33)


def wave_of(numbers, condition):
    wave = Wave(0, sum(1 << lane for lane in LANES))
    for register, value in numbers.items():
        if isinstance(register, tuple):
            wave.vectors[register[0]][register[1]] = value & WORD
            wave.known[register[0]] = FULL
        else:
            wave.set_scalar(register, value & WORD)
    wave.condition = condition
    return wave


def moved(numbers, growths, j, k):
    return {key: value + growths[key].a * j + growths[key].b * k for key, value in numbers.items()}


def read(wave, register, lane):
    """A register, or the bit of a mask for one lane."""
    if register == CONDITION:
        return wave.condition
    if register >= SCALAR_BASE:
        return wave.scalar(register - SCALAR_BASE)
    return int(wave.vectors[register][lane])


@settings(max_examples=part(6000, 6), deadline=None)
@given(st.sampled_from(sorted(KNOWN)), st.data())
def test_a_result_is_of_its_form_up_to_its_limit(text, data):
    one, step = KNOWN[text]
    alike = data.draw(st.booleans())
    keys = [*SCALARS, *((row, lane) for row in ROWS for lane in LANES)]
    named = {
        key
        for key in keys
        if (key if isinstance(key, int) else key[0] - SCALAR_BASE) + SCALAR_BASE in one.reads
    }
    numbers, growths = {}, {}
    for key in keys:
        numbers[key] = data.draw(NUMBERS) if key in named else 1
        first = (key[0], LANES[0]) if isinstance(key, tuple) else key
        if alike and first in growths:
            growths[key] = growths[first]
            continue
        still = key not in named or data.draw(st.booleans())
        growths[key] = FIXED if still else Growth(data.draw(SLOPES), data.draw(SLOPES))
    condition = data.draw(st.integers(0, 1))
    table = {SCALAR_BASE + key: growths[key] for key in SCALARS if growths[key] != FIXED}
    for row in ROWS:
        items = [FIXED] * 64
        for lane in LANES:
            items[lane] = growths[row, lane]
        found = items[0] if alike else items
        if found != FIXED and any(item != FIXED for item in items):
            table[row] = found
    start = wave_of(numbers, condition)
    made = results(start, one, table)
    step(start)
    targets = [register for register in one.writes if not SCALAR_BASE + 126 <= register < CONDITION]
    for register in targets:
        for lane in LANES if register < SCALAR_BASE else (0,):
            if text.startswith("v_writelane") and lane != 7:
                continue
            found = of_lane(made.get(register, FIXED), lane)
            first = read(start, register, lane)
            if isinstance(first, OpaqueWord):
                continue
            for j, k in [*POINTS, (found.limit, found.limit), (0, found.limit)]:
                if k > found.limit or k >= 1 << 40:
                    continue
                other = wave_of(moved(numbers, growths, j, k), condition)
                step(other)
                size = 1 if register == CONDITION else WORD
                expected = first + found.a * j + found.b * k & size
                assert read(other, register, lane) == expected, (register, lane, j, k, found)


def test_rules_hold_beyond_a_few_numbers_where_compilers_need_them():
    """Sums, shifts and fields of a trip counter are known for many trips."""
    for text, limit in (
        ("s_add_u32 s14, s10, s12", 1 << 40), ("s_lshl_b32 s14, s10, 3", 1 << 40),
        ("s_cmp_lt_u32 s10, s12", 900), ("v_add_u32_e32 v14, s10, v12", 1 << 40),
        ("s_and_b32 s14, s10, 63", 60), ("s_bfe_u32 s14, s10, 0x30005", 25),
    ):  # fmt: skip
        one, _ = KNOWN[text]
        wave = wave_of({10: 3, 12: 1000, **{(12, lane): lane for lane in range(64)}}, 0)
        wave.known[12] = FULL
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
                numbers = {10: low, 11: low, 12: 1, 13: 0, 14: 0}
                wave = wave_of(numbers, condition)
                step(wave)
                changes.add(wave.condition != condition)
        if True in changes:
            assert sets_condition(one.code.item.base) and CONDITION in one.writes, text
