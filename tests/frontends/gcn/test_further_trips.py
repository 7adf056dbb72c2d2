"""Further trips of assembly: shown to be the same, or launched where they may be others.

Each fault comes after more trips than any launch has that a file is folded from or compared with.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.gcn.test_verify_assembly import LAUNCH, judged
from tests.frontends.gcn.texts import RING
from tests.sampling import part, sampled
from titan.foundation.source.span import Source, whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code import AssemblyCode, WaveRunner, launched
from titan.frontends.lift.further_trips import FurtherTrips, further_trips
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.sweep import Driver, ParameterWord
from titan.isa.gcn.assembly import parse_assembly

pytest.importorskip("numpy")
WAIT = "s_waitcnt vmcnt(1)\n"


def lines(text: str) -> str:
    return "".join(f"{part.strip()}\n" if part.strip().endswith(":") else f"\t{part.strip()}\n"
                   for part in text.split(";") if part.strip())  # fmt: skip


def counting(before: str = "") -> str:
    """The ring with a counter of its trips, s20, and their number, s26; `before`: the loop."""
    text = RING.replace(
        "\ts_sub_i32 s6, s6, 1\n", "\ts_add_i32 s20, s20, 1\n\ts_sub_i32 s6, s6, 1\n"
    )
    text = text.replace("\ts_mov_b32 s8, 0\n", "\ts_mov_b32 s8, 0\n\ts_mov_b32 s20, 0\n" + before)
    return text.replace("\ts_cmp_lt_i32 s6, 1\n", "\ts_mov_b32 s26, s6\n\ts_cmp_lt_i32 s6, 1\n")


def without_wait(when: str, before: str = "") -> str:
    """The ring without its wait once `when` sets the condition code."""
    text = counting(lines(before))
    assert text.count(WAIT) == 1
    skipped = f"{lines(when)}\ts_cbranch_scc1 .Lskip\n\t{WAIT}.Lskip:\n"
    return text.replace(f"\t{WAIT}", skipped)


def shown_for(text: str) -> FurtherTrips:
    """What is shown of the ring, whose two stages come round after two trips."""
    source = Source("k.s", text)
    assembly, errors = parse_assembly(source)
    assert assembly is not None and not errors
    code = AssemblyCode(assembly, source, assembly.kernels[0])
    described, wrong = read_launch_text(LAUNCH, "k.yaml")
    assert wrong == []
    launch, _, _ = launched(code, described, whole_file("k.s"))
    assert launch is not None
    from titan.frontends.gcn.wave_rounds import WaveRounds

    driver = Driver((ParameterWord(1, 0, 4, 5),), 1, 2)
    return further_trips(WaveRounds(WaveRunner(code, 400_000), launch, driver, 0), driver, 4)


# What sets the condition code, and the first number of trips in which it is set.
FAR = {
    "one trip": ("s_cmp_eq_u32 s20, 40", 41),
    "what is left": ("s_cmp_eq_u32 s6, 70", 70),
    "from one trip on": ("s_cmp_gt_i32 s20, 50", 52),
    "a constant of 16 bits": ("s_cmpk_eq_u32 s20, 0x28", 41),
    "the last of 64": ("s_and_b32 s21, s20, 63; s_cmp_eq_u32 s21, 63", 64),
    "the condition of an AND": ("s_and_b32 s21, s20, 64", 65),
    "one bit": ("s_bitcmp1_b32 s20, 6", 65),
    "a field of bits": ("s_bfe_u32 s21, s20, 0x30005; s_cmp_eq_u32 s21, 1", 33),
    "a field with a sign": ("s_bfe_i32 s22, s20, 0x60000; s_cmp_lt_i32 s22, 0", 33),
    "the condition of a shift": ("s_lshr_b32 s21, s20, 6", 65),
    "a carry": ("s_mul_i32 s21, s20, 0x4000000; s_add_u32 s21, s21, 0x8000000", 63),
    "32 bits that wrap": (
        "s_mul_i32 s21, s20, 0x4000000; s_cmp_eq_u32 s21, 0; s_cselect_b32 s22, 1, 0;"
        "s_cmp_gt_u32 s20, 0; s_cselect_b32 s22, s22, 0; s_cmp_lg_u32 s22, 0", 65,
    ),
    "a high half": ("s_mul_hi_u32 s21, s20, 0x8000000; s_cmp_lg_u32 s21, 0", 33),
    "the least": ("s_min_u32 s21, s20, 45; s_cmp_eq_u32 s21, 45", 46),
    "all lanes": (
        "v_mov_b32_e32 v20, s20; v_cmp_eq_u32_e32 vcc, 40, v20; s_nop 4; s_cmp_lg_u64 vcc, 0", 41,
    ),
    "one lane of one wave": (
        "v_add_u32_e32 v20, s20, v0; v_cmp_eq_u32_e32 vcc, 200, v20; s_nop 4; s_cmp_lg_u64 vcc, 0",
        74,
    ),
    "16 bits that wrap": (
        "v_mov_b32_e32 v20, s20; v_mul_lo_u16_e32 v20, 0x400, v20; v_cmp_eq_u16_e32 vcc, 0, v20;"
        "s_nop 4; v_cndmask_b32_e64 v21, 0, 1, vcc; v_mov_b32_e32 v22, s20;"
        "v_min_u32_e32 v22, 1, v22; v_and_b32_e32 v21, v21, v22; s_nop 4;"
        "v_readfirstlane_b32 s21, v21; s_nop 4; s_cmp_eq_u32 s21, 1", 65,
    ),
    "a lane that is written": (
        "v_writelane_b32 v21, s20, 5; s_nop 4; v_readlane_b32 s21, v21, 5; s_nop 4;"
        "s_cmp_eq_u32 s21, 40", 41,
    ),
    "a move on a condition": (
        "s_mov_b32 s22, 0; s_cmp_eq_u32 s20, 40; s_cmov_b32 s22, 1; s_cmp_eq_u32 s22, 1", 41,
    ),
    "so many trips": ("s_cmp_ge_u32 s26, 80", 80),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(FAR, 5))
def test_what_changes_after_many_trips_is_launched(name):
    when, first = FAR[name]
    before = "v_mov_b32_e32 v21, 0" if "v21" in when else ""
    finding = judged(without_wait(when, before), require="any")
    assert finding.verdict is Verdict.REFUTED, finding.narrowing
    assert {item.code for item in finding.diagnostics} == {"TTN203"}
    assert f"found with parameter 1 = {first} ({first} trips), CTA (0, 0, 0)" in finding.notes


# Other things than a wait that change far out, in the text of the ring.
PLACES = {
    "the execution mask": (
        f"\t{WAIT}",
        lines("v_mov_b32_e32 v20, s20; v_cmp_ne_u32_e32 vcc, 40, v20;"
              "s_and_saveexec_b64 s[24:25], vcc; s_cbranch_execz .Lskip; s_waitcnt vmcnt(1);"
              ".Lskip:; s_mov_b64 exec, s[24:25]"),
    ),
    "the place of a copy": (
        "\ts_add_i32 m0, s7, s9\n",
        lines("s_lshr_b32 s22, s20, 5; s_lshl_b32 s22, s22, 11; s_xor_b32 s22, s22, s9;"
              "s_add_i32 m0, s7, s22"),
    ),
    "an address in LDS": (
        "\tv_add_u32_e32 v4, s8, v3\n",
        lines("s_lshr_b32 s22, s20, 5; s_lshl_b32 s22, s22, 11; s_xor_b32 s22, s22, s8;"
              "s_and_b32 s22, s22, 0x800; v_add_u32_e32 v4, s22, v3"),
    ),
    "a barrier": (
        "\ts_barrier\n\tv_add_u32",
        lines("s_cmp_eq_u32 s20, 47; s_cbranch_scc1 .Lskip; s_barrier; .Lskip:") + "\tv_add_u32",
    ),
    "one copy more": (
        f"\t{WAIT}",
        lines("s_cmp_lt_u32 s20, 47; s_cbranch_scc1 .Lskip; s_add_i32 m0, s7, s9; s_nop 0;"
              "global_load_lds_dwordx4 v2, s[4:5]; .Lskip:") + f"\t{WAIT}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(PLACES, 2))
def test_whatever_changes_far_out_is_not_verified(name):
    old, new = PLACES[name]
    text = counting()
    assert text.count(old) in (1, 2)
    changed = text.replace(old, new) if text.count(old) == 1 else new.join(text.rsplit(old, 1))
    assert shown_for(changed).first in range(17, 50)
    assert judged(changed, require="any").verdict is not Verdict.VERIFIED


# What is not followed from round to round.
UNFOLLOWED = {
    "words of LDS": (
        "ds_read_b32 v21, v22; s_waitcnt lgkmcnt(0); v_add_u32_e32 v21, 1, v21;"
        "ds_write_b32 v22, v21; s_waitcnt lgkmcnt(0); v_readfirstlane_b32 s21, v21; s_nop 4;"
        "s_cmp_eq_u32 s21, 60",
        "v_lshrrev_b32_e32 v22, 6, v0; v_lshlrev_b32_e32 v22, 2, v22;"
        "v_add_u32_e32 v22, 0x1000, v22;"
        "v_mov_b32_e32 v21, 0; ds_write_b32 v22, v21; s_waitcnt lgkmcnt(0)",
    ),
    "a register that is doubled": (
        "s_lshl_b64 s[22:23], s[22:23], 1; s_lshr_b32 s24, s23, 30; s_cmp_lg_u32 s24, 0",
        "s_mov_b64 s[22:23], 1",
    ),
    "the square of a trip": ("s_mul_i32 s21, s20, s20; s_cmp_gt_u32 s21, 4000", ""),
    "a conversion": (
        "v_mov_b32_e32 v20, s20; v_cvt_f32_u32_e32 v20, v20; v_cvt_u32_f32_e32 v20, v20; s_nop 4;"
        "v_readfirstlane_b32 s21, v20; s_nop 4; s_cmp_eq_u32 s21, 60", "",
    ),
    "another lane": (
        "v_mov_b32_e32 v20, s20; v_mov_b32_e32 v22, 0; ds_bpermute_b32 v21, v22, v20;"
        "s_waitcnt lgkmcnt(0); v_readfirstlane_b32 s21, v21; s_nop 4; s_cmp_eq_u32 s21, 60", "",
    ),
    "a number that jumps": (
        "s_mul_i32 s22, s22, 0x19660d; s_add_u32 s22, s22, 0x3c6ef35f; s_lshr_b32 s23, s22, 26;"
        "s_cmp_eq_u32 s23, 9", "s_mov_b32 s22, 1",
    ),
    "many trips later": ("s_cmp_eq_u32 s20, 100000", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(UNFOLLOWED, 4))
def test_what_is_not_shown_is_not_verified_for_any_number(name):
    when, before = UNFOLLOWED[name]
    text = without_wait(when, before).replace("segment_fixed_size 4096", "segment_fixed_size 8192")
    finding = judged(text, require="any")
    assert finding.verdict is Verdict.UNDECIDED, finding.notes
    assert finding.narrowing is not None and "trips and more" in finding.narrowing.because


def test_a_counter_in_private_memory_is_followed():
    """Words of private memory are taken as registers of their wave."""
    when = (
        "scratch_load_dword v21, off, off offset:16; s_waitcnt vmcnt(0); v_add_u32_e32 v21, 1, v21;"
        "scratch_store_dword off, v21, off offset:16; v_readfirstlane_b32 s21, v21; s_nop 4;"
        "s_cmp_eq_u32 s21, 40"
    )
    before = "v_mov_b32_e32 v21, 0; scratch_store_dword off, v21, off offset:16"
    assert shown_for(without_wait(when, before)).first == 40


HARMLESS = {
    "no change": "",
    "a number that nothing uses": "s_and_b32 s21, s20, 63",
    "a pointer that carries": "s_add_u32 s22, s22, 0x40000000; s_addc_u32 s23, s23, 0",
    "a branch that is never taken": "s_cmp_lt_i32 s20, 0; s_cbranch_scc1 .Lend",
    "a sum of what is past and what is left": (
        "s_add_i32 s21, s20, s6; s_cmp_lg_u32 s21, s26; s_cbranch_scc1 .Lend"
    ),
    "private memory that stays": (
        "scratch_store_dword off, v2, off offset:16; scratch_load_dword v21, off, off offset:16"
    ),
}


@pytest.mark.parametrize("name", sampled(HARMLESS, 2))
def test_what_changes_nothing_is_shown(name):
    text = counting(lines("s_mov_b64 s[22:23], 0"))
    text = text.replace(f"\t{WAIT}", lines(HARMLESS[name]) + f"\t{WAIT}")
    if "private" in name:
        text = text.replace(WAIT, "s_waitcnt vmcnt(0)\n")
    assert shown_for(text).first is None
    finding = judged(text, require="any")
    assert finding.verdict is Verdict.VERIFIED, (finding.narrowing, finding.diagnostics)
    assert any("shown to continue so for all further ones" in note for note in finding.notes)


@pytest.mark.parametrize(("mask", "shown"), [("0xffff", True), ("0x3ffff", False)])
def test_a_resource_may_move_on_but_not_how_it_makes_addresses(mask, shown):
    """The carry of a pointer goes to the low half of its word; the high half has the stride."""
    load = (
        "s_add_u32 s22, s22, 0x40000000; s_addc_u32 s23, s23, 0; s_mov_b32 s36, s22;"
        f"s_and_b32 s37, s23, {mask}; s_mov_b32 s38, -1; s_mov_b32 s39, 0x20000;"
        "buffer_load_dword v31, v2, s[36:39], 0 offen; s_waitcnt vmcnt(0)"
    )
    text = counting(lines("s_mov_b64 s[22:23], 0")).replace(f"\t{WAIT}", lines(load))
    assert (shown_for(text).first is None) is shown


def test_loads_that_gather_from_round_to_round_are_not_shown():
    """Registers that are loaded and never waited for are in flight at the second head alone."""
    text = counting().replace(
        "\tv_add_f32", "\tv_mov_b32_e32 v30, 0\n\tglobal_load_dword v31, v30, s[4:5]\n\tv_add_f32"
    )
    assert "look back" in shown_for(text).why or shown_for(text).first is None


GUARDS = st.sampled_from(["eq", "ge", "gt"])
FORMS = st.sampled_from(["s20", "s21", "s22"])  # the trip, 3 t + 5, 2 n - t


@settings(max_examples=part(60, 6), deadline=None)
@given(GUARDS, FORMS, st.booleans(), st.integers(20, 300))
def test_no_trip_is_called_shown_in_which_the_code_goes_another_way(word, form, vector, constant):
    """Against what the numbers are, trip by trip, for all numbers of trips up to 320."""
    holds = {"eq": int.__eq__, "ge": int.__ge__, "gt": int.__gt__}[word]

    def goes(trips: int) -> bool:
        values = {"s20": lambda t: t, "s21": lambda t: 3 * t + 5, "s22": lambda t: 2 * trips - t}
        return any(holds(values[form](trip), constant) for trip in range(trips))

    when = (
        "s_mul_i32 s21, s20, 3; s_add_i32 s21, s21, 5; s_lshl_b32 s22, s26, 1;"
        "s_sub_i32 s22, s22, s20;"
    )
    if vector:
        when += (
            f"v_mov_b32_e32 v20, {form}; v_mov_b32_e32 v21, {constant};"
            f"v_cmp_{word}_u32_e64 s[24:25], v20, v21; s_nop 4; s_cmp_lg_u64 s[24:25], 0"
        )
    else:
        when += f"s_cmp_{word}_u32 {form}, {constant}"
    further = shown_for(without_wait(when))
    if any(goes(trips) for trips in range(further.launched)):
        return  # the launches say so
    other = next((trips for trips in range(further.launched, 321) if goes(trips)), None)
    assert further.first is not None
    if other is not None:
        assert further.first <= other
    if word != "eq":  # which is also false again behind the constant
        assert further.first == other
