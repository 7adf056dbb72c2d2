"""What becomes of registers that nothing has written, against runs with other numbers there."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.isa.waves.test_undefined import LAUNCHED, RESULT, WAIT, assembled
from titan.isa.simt.outcome import Ending
from titan.isa.waves.contents import Contents
from titan.isa.waves.decode import SCALAR_BASE
from titan.isa.waves.machine import WaveMachine
from titan.isa.waves.state import FULL
from titan.isa.waves.undefined import undefined_uses
from titan.isa.waves.unwritten_registers import unwritten_at_start

PROGRAMS = 240
PATTERNS = (1, 2, 3)
# `{to}` is written, `{a}` to `{c}` are registers that may be unwritten, `{n}` a small number.
# Lines of one form are divided by semicolons.
TEXT = """v_mov_b32_e32 {to}, {a}
v_not_b32_e32 {to}, {a}
v_add_u32_e32 {to}, {a}, {b}
v_sub_u32_e32 {to}, {a}, {b}
v_subrev_u32_e32 {to}, {a}, {b}
v_xor_b32_e32 {to}, {a}, {b}
v_and_b32_e32 {to}, 0xff, {a}
v_and_b32_e32 {to}, {a}, v0
v_or_b32_e32 {to}, 0xffff0000, {a}
v_or_b32_e32 {to}, {a}, {b}
v_or3_b32 {to}, {a}, {b}, v0
v_lshlrev_b32_e32 {to}, {n}, {a}
v_lshrrev_b32_e32 {to}, {n}, {a}
v_ashrrev_i32_e32 {to}, {n}, {a}
v_lshlrev_b32_e32 {to}, v0, {a}
v_lshl_or_b32 {to}, {a}, {n}, v0
v_lshl_or_b32 {to}, v0, {n}, {a}
v_and_or_b32 {to}, {a}, 15, {b}
v_lshl_add_u32 {to}, {a}, {n}, {b}
v_add_lshl_u32 {to}, {a}, {b}, {n}
v_add3_u32 {to}, {a}, {b}, {c}
v_bfe_u32 {to}, {a}, {n}, 5
v_bfe_i32 {to}, {a}, {n}, 5
v_bfi_b32 {to}, s20, {a}, {b}
v_perm_b32 {to}, {a}, {b}, s21
v_alignbit_b32 {to}, {a}, {b}, {n}
v_alignbyte_b32 {to}, {a}, {b}, 1
v_mul_lo_u32 {to}, {a}, {b}
v_mul_u32_u24_e32 {to}, {a}, {b}
v_mad_u32_u24 {to}, {a}, {b}, {c}
v_max_u32_e32 {to}, {a}, {b}
v_min_i32_e32 {to}, {a}, {b}
v_cndmask_b32_e32 {to}, {a}, {b}, vcc
v_cndmask_b32_e64 {to}, {a}, {b}, s[22:23]
v_mov_b32_dpp {to}, {a} row_shr:1 row_mask:0xf bank_mask:0xf
v_mov_b32_dpp {to}, {a} row_shl:3 row_mask:0xf bank_mask:0xf bound_ctrl:0
v_mov_b32_dpp {to}, {a} quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
v_mov_b32_dpp {to}, {a} row_bcast:15 row_mask:0xa bank_mask:0xf
v_add_u32_dpp {to}, {a}, {b} row_ror:4 row_mask:0xf bank_mask:0xf
v_mov_b32_sdwa {to}, {a} dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0
v_mov_b32_sdwa {to}, {a} dst_sel:WORD_0 dst_unused:UNUSED_PAD src0_sel:WORD_1
v_add_u32_sdwa {to}, {a}, {b} dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_0
v_add_u16_e32 {to}, {a}, {b}
v_mad_u16 {to}, {a}, {b}, {c}
v_lshlrev_b16_e32 {to}, 3, {a}
v_pk_add_u16 {to}, {a}, {b}
v_pk_add_u16 {to}, {a}, {b} op_sel:[1,0] op_sel_hi:[0,1]
v_pack_b32_f16 {to}, {a}, {b}
v_cvt_f32_ubyte0_e32 {to}, {a}
v_cvt_f32_ubyte2_e32 {to}, {a}
v_readfirstlane_b32 s16, {a} ; s_nop 4 ; v_add_u32_e32 {to}, s16, {b}
v_readlane_b32 s16, {a}, {n} ; s_nop 4 ; v_xor_b32_e32 {to}, s16, {b}
v_readlane_b32 s16, {a}, {n} ; s_and_b32 s17, s16, 0xff ; s_nop 4 ; v_mov_b32_e32 {to}, s17
v_readlane_b32 s16, {a}, {n} ; s_lshr_b32 s17, s16, 20 ; s_nop 4 ; v_mov_b32_e32 {to}, s17
v_writelane_b32 {to}, s20, {n}
v_writelane_b32 {to}, s40, {n}
v_mov_b32_e32 {to}, s40
s_pack_ll_b32_b16 s17, s20, s41 ; v_mov_b32_e32 {to}, s17
s_or_b32 s17, s41, 0xffffff00 ; v_mov_b32_e32 {to}, s17
s_andn2_b32 s17, s20, s41 ; v_mov_b32_e32 {to}, s17
s_cselect_b32 s17, s20, s40 ; v_mov_b32_e32 {to}, s17
s_cmp_eq_u32 s20, s21 ; s_cselect_b32 s17, s20, s40 ; v_mov_b32_e32 {to}, s17
s_cmp_lt_u32 s40, s21 ; s_cselect_b32 s17, s20, s21 ; v_mov_b32_e32 {to}, s17
s_add_u32 s17, s20, s40 ; s_addc_u32 s18, s20, 0 ; v_mov_b32_e32 {to}, s18
s_bfe_u32 s17, s40, 0x80004 ; v_mov_b32_e32 {to}, s17
v_cmp_gt_i32_e64 s[24:25], {a}, {b} ; s_nop 1 ; v_cndmask_b32_e64 {to}, 0, 1, s[24:25]
v_cmp_gt_i32_e64 s[24:25], {a}, 7 ; s_andn2_b64 s[26:27], vcc, s[24:25] ; s_nop 1 ; {mask}, s[26:27]
v_cmp_eq_u16_e64 s[24:25], {a}, {b} ; s_nop 1 ; v_cndmask_b32_e64 {to}, 0, 1, s[24:25]
v_add_co_u32_e64 v20, s[24:25], {a}, {b} ; s_nop 1 ; {carry}
v_mad_u64_u32 v[20:21], s[24:25], v0, v0, v[22:23] ; v_mov_b32_e32 {to}, v20
v_lshlrev_b64 v[20:21], 3, v[22:23] ; v_add_u32_e32 {to}, v20, v20
v_swap_b32 {to}, {a}
ds_write_b32 v1, {a} ; WAIT ; ds_read_b32 {to}, v1 ; WAIT
ds_write_b16 v1, {a} ; WAIT ; ds_read_u16 {to}, v1 ; WAIT
ds_write_b16 v1, {a} ; ds_write_b16_d16_hi v1, {b} offset:2 ; WAIT ; ds_read_b32 {to}, v1 ; WAIT
ds_write_b32 v1, {a} ; WAIT ; ds_read_u8 {to}, v1 offset:1 ; WAIT
ds_write_b32 v1, v0 ; WAIT ; ds_read_u16_d16_hi {to}, v1 ; WAIT
ds_write_b32 v1, v0 ; WAIT ; ds_read_u16_d16 {to}, v1 ; WAIT
ds_bpermute_b32 {to}, v1, {a} offset:4 ; WAIT
ds_swizzle_b32 {to}, {a} offset:swizzle(SWAP,8) ; WAIT
s_mov_b64 exec, s[28:29] ; v_mov_b32_e32 {to}, v0 ; s_mov_b64 exec, -1 ; s_nop 4
s_mov_b64 exec, s[28:29] ; v_mov_b32_e32 {to}, {a} ; s_mov_b64 exec, -1 ; s_nop 4
v_permlane32_swap_b32 {to}, {a}
v_fma_mix_f32 {to}, {a}, {b}, v0 op_sel_hi:[1,0,0]
v_fma_mix_f32 {to}, {a}, v0, v0 op_sel:[1,0,0] op_sel_hi:[1,0,0]
v_fma_mixlo_f16 {to}, {a}, v0, v0 op_sel_hi:[1,0,0]
v_fma_mixhi_f16 {to}, {a}, v0, v0 op_sel_hi:[1,0,0]
v_cvt_f32_f16_e32 {to}, {a}
v_cvt_f32_f16_sdwa {to}, {a} dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1
v_cvt_f16_f32_e32 {to}, {a}
v_cvt_pk_bf16_f32 {to}, {a}, {b}
v_cvt_pk_fp8_f32 {to}, v0, {a}
v_cvt_pk_fp8_f32 {to}, {a}, v0 op_sel:[0,0,1]
v_cvt_f32_fp8_sdwa {to}, {a} src0_sel:BYTE_2
v_cvt_pk_f32_fp8_sdwa v[20:21], {a} src0_sel:WORD_1 ; v_mov_b32_e32 {to}, v21
v_add_f16_e32 {to}, {a}, {b}
v_pk_add_f16 {to}, {a}, {b}
v_pk_fma_f16 {to}, {a}, {b}, {c} op_sel_hi:[0,1,1]
v_mul_lo_u16_e32 {to}, {a}, {b}
v_max3_i16 {to}, {a}, {b}, v0
v_max3_i16 {to}, {a}, v0, v0 op_sel:[1,0,0,1]
v_med3_f16 {to}, {a}, {b}, v0 op_sel:[0,0,0,1]
v_add_u16_sdwa {to}, {a}, {b} dst_sel:WORD_1 src0_sel:WORD_0 src1_sel:WORD_1
v_or_b32_sdwa {to}, {a}, {b} dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:DWORD
v_mul_f32_e32 {to}, {a}, {b}
v_fmac_f32_e32 {to}, {a}, {b}
v_mad_i32_i16 {to}, {a}, {b}, {c}
v_lshl_add_u64 v[20:21], v[22:23], 3, v[24:25] ; v_add_u32_e32 {to}, v20, v20
v_pk_mov_b32 v[20:21], v[22:23], v[24:25] op_sel:[1,0] ; v_mov_b32_e32 {to}, v20
v_pk_mul_f32 v[20:21], v[22:23], v[24:25] op_sel_hi:[0,1] ; v_mov_b32_e32 {to}, v21
v_bitop3_b32 {to}, {a}, {b}, {c} bitop3:0x96
v_mbcnt_lo_u32_b32 {to}, {a}, v0
v_bcnt_u32_b32 {to}, {a}, v0
v_ffbh_u32_e32 {to}, {a}
v_xad_u32 {to}, {a}, v0, {b}
v_cvt_f32_i32_e32 {to}, {a}
v_cvt_f64_f32_e32 v[20:21], {a} ; v_mov_b32_e32 {to}, v21
v_sub_co_u32_e32 {to}, vcc, {a}, {b} ; v_cmp_gt_u32_e32 vcc, 9, v0
s_mul_i32 s17, s40, s20 ; v_mov_b32_e32 {to}, s17
s_lshl_b32 s17, s40, 12 ; v_mov_b32_e32 {to}, s17
s_xor_b64 s[16:17], s[40:41], s[20:21] ; v_mov_b32_e32 {to}, s17
s_or_saveexec_b64 s[16:17], -1 ; s_mov_b64 exec, -1 ; s_nop 4 ; v_mov_b32_e32 {to}, s17
s_bitset1_b32 s40, 3 ; v_mov_b32_e32 {to}, s40
s_cmov_b32 s40, s20 ; v_mov_b32_e32 {to}, s40
s_addk_i32 s40, 5 ; v_mov_b32_e32 {to}, s40
s_ff1_i32_b32 s17, s40 ; v_mov_b32_e32 {to}, s17
v_readlane_b32 s16, v0, 3 ; s_nop 4 ; v_readlane_b32 s17, {a}, s16 ; v_mov_b32_e32 {to}, s17
ds_read2_b32 v[20:21], v1 offset1:1 ; WAIT ; v_mov_b32_e32 {to}, v20
v_mov_b64_e32 v[20:21], v[22:23] ; v_mov_b32_e32 {to}, v21"""
SHORT = {
    "WAIT": WAIT,
    "{mask}": "v_cndmask_b32_e64 {to}, 0, 1",
    "{carry}": "v_addc_co_u32_e64 {to}, s[24:25], v0, v0, s[24:25]",
    " ; ": "\n",
}
FORMS = TEXT.splitlines()
for short, long in SHORT.items():
    FORMS = [form.replace(short, long) for form in FORMS]
# Numbers that differ, and whose results may be the same all the same.
LOOSE = ("v_mul", "v_mad_", "BYTE_1", "ubyte", "v_cmp", "_co_", "s_cmp_lt", "s_addc", "_f32_f",
         "cnt_", "v_ffbh", "s_ff1")  # fmt: skip
STORES = (
    "global_store_dword v1, {a}, s[4:5]",
    "global_store_short v1, {a}, s[4:5]",
    "global_store_byte v1, {a}, s[4:5]",
    "global_store_short_d16_hi v1, {a}, s[4:5]",
)
BEGIN = [
    "v_mov_b32_e32 v22, v0", "s_mov_b32 s20, 0xff0f0", "s_mov_b32 s21, 0x0c050204",
    "s_mov_b64 s[22:23], 0xf0f0f0f", "s_mov_b32 s28, 0xffff00", "s_mov_b32 s29, 0xff00ff",
    "v_cmp_gt_u32_e32 vcc, 9, v0", "s_cmp_eq_u32 s20, s20",
]  # fmt: skip


def left(code, seed):
    """What a launch leaves where unwritten registers have other numbers."""
    result = np.zeros(1024, np.uint8)
    contents = Contents([(RESULT, result)])
    machine = WaveMachine(code, code.kernels[0], LAUNCHED, 0, 10_000, contents=contents)
    numbers = np.random.default_rng(seed)
    for wave in machine.waves:
        for register in unwritten_at_start(wave):
            if register >= SCALAR_BASE:
                wave.scalars[register - SCALAR_BASE] = int(numbers.integers(0, 1 << 32))
            else:
                wave.vectors[register] = numbers.integers(0, 1 << 32, 64, dtype=np.uint32)
                wave.known[register] = FULL
        wave.condition = int(numbers.integers(0, 2))
    run = machine.run()
    assert run.outcome.ending is Ending.FINISHED, run.outcome.reason
    return result


def uses_of(code):
    run = WaveMachine(code, code.kernels[0], LAUNCHED, 0, 10_000).run()
    assert run.outcome.ending is Ending.FINISHED, run.outcome.reason
    uses = undefined_uses(code, code.kernels[0], run)
    assert uses is not None
    if uses.registers:
        assert run.reads_unwritten
    return uses.registers


def drawn(chooser, lines):
    """Lines that write v8 to v11, of which some are unwritten, and the last one written."""
    program = [*BEGIN]

    def one():
        return f"v{chooser.randrange(8, 12)}"

    for number in range(8, 12):
        if chooser.random() < 0.5:
            program.append(f"v_lshlrev_b32_e32 v{number}, {number}, v0")
    to = "v8"
    for _ in range(lines):
        to, form = one(), chooser.choice(FORMS)
        program.append(form.format(to=to, a=one(), b=one(), c=one(), n=chooser.randrange(1, 16)))
        program.append("s_nop 4")
    below = chooser.choice([64, 64, 20, 33])
    program += [
        f"v_cmp_gt_u32_e32 vcc, {below}, v0", "s_and_saveexec_b64 s[10:11], vcc",
        chooser.choice(STORES).format(a=to), "s_mov_b64 exec, s[10:11]",
    ]  # fmt: skip
    return program


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_what_other_numbers_change_is_used(seed):
    chooser = random.Random(seed)
    program = drawn(chooser, chooser.randrange(1, 5))
    code = assembled(program)
    first = left(code, PATTERNS[0])
    differs = any((first != left(code, other)).any() for other in PATTERNS[1:])
    found = uses_of(code)
    assert found or not differs, "\n".join(program)
    if any(use.certain for use in found):
        assert differs, "\n".join(program)


@pytest.mark.parametrize("form", FORMS)
def test_of_one_instruction_what_is_used_changes(form):
    """Nothing is said to be used that other numbers do not change, but for what `LOOSE` names."""
    chooser = random.Random(form)
    used = changed = 0
    for _ in range(12):
        program = drawn(chooser, 0)[:-4]
        program += [form.format(to="v8", a="v9", b="v10", c="v11", n=chooser.randrange(1, 16))]
        program += ["s_nop 4", chooser.choice(STORES).format(a="v8")]
        code = assembled(program)
        first = left(code, PATTERNS[0])
        differs = any((first != left(code, other)).any() for other in PATTERNS[1:])
        used += bool(uses_of(code))
        changed += differs
    assert used == changed or (used > changed and any(word in form for word in LOOSE))


# A product, with the registers of its factors and of its result.
PRODUCTS = {
    "v_mfma_f32_16x16x16_f16 v[40:43], v[24:25], v[26:27], {sums}": 4,
    "v_mfma_f32_32x32x8_f16 v[40:55], v[24:25], v[26:27], {sums}": 16,
    "v_mfma_f32_16x16x4_f32 v[40:43], v24, v26, {sums}": 4,
    "v_mfma_f64_16x16x4_f64 v[40:47], v[24:25], v[26:27], {sums}": 8,
    "v_mfma_i32_16x16x64_i8 v[40:43], v[24:27], v[28:31], {sums}": 4,
}


@pytest.mark.parametrize("form", PRODUCTS)
def test_rows_and_columns_go_through_products(form):
    """Some lanes of the factors and of the sums are written; some lanes of a result are stored."""
    chooser, count, found = random.Random(form), PRODUCTS[form], set()
    for _ in range(24):
        unwritten = chooser.choice((24, 26, 28, 60))
        first, length = chooser.randrange(64), chooser.choice([1, 4, 16])
        lanes = ((1 << length) - 1 << first) & FULL
        program = [f"s_mov_b32 exec_lo, {~lanes & 0xFFFFFFFF:#x}",
                   f"s_mov_b32 exec_hi, {~lanes >> 32 & 0xFFFFFFFF:#x}"]  # fmt: skip
        written = [*range(24, 32), *range(60, 60 + count)]
        program += [f"v_mov_b32_e32 v{at}, 1.0" for at in written if at == unwritten]
        program.append("s_mov_b64 exec, -1")
        program += [f"v_mov_b32_e32 v{at}, 1.0" for at in written if at != unwritten]
        sums = chooser.choice(["0", f"v[60:{59 + count}]"])
        result = 40 + chooser.randrange(count)
        stored = chooser.choice([0xFFFF, 0xFF << 20, 0x1, 0xF0F0 << 32])
        program += [
            form.format(sums=sums), "s_nop 15", "s_nop 15",
            f"s_mov_b32 exec_lo, {stored & 0xFFFFFFFF:#x}", f"s_mov_b32 exec_hi, {stored >> 32:#x}",
            f"global_store_dword v1, v{result}, s[4:5]", "s_mov_b64 exec, -1",
        ]  # fmt: skip
        code = assembled(program)
        before = left(code, PATTERNS[0])
        differs = any((before != left(code, other)).any() for other in PATTERNS[1:])
        used = bool(uses_of(code))
        assert used == differs or (used and "_f64_" in form), "\n".join(program)
        found.add(differs)
    assert found == {False, True}
