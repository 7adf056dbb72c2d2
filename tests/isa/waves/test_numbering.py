"""Numbers of values that are not known, against what random programs compute in two work-groups.

Where the numbers of two stores are equal, the bytes that a run with contents stores are equal;
where they are surely different, the bytes are.
"""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.isa.simt.stored import surely_different
from titan.isa.waves.contents import Contents
from titan.isa.waves.machine import WaveMachine
from titan.isa.waves.numbering import Numbering

SOURCE, RESULT, RESULT_BYTES = 0x10_0000, 0x20_0000, 256 * 8
PROGRAMS, GROUPS = 80, 3
REGISTERS = range(4, 10)
# s2 is the number of the work-group; half of the loads depend on it.
HEAD = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v2, 2, v0
v_xor_b32_e32 v3, 0x54, v2
s_mov_b32 s8, 0x200000
s_mov_b32 s9, 0
s_lshl_b32 s7, s2, 3
v_add_u32_e32 v10, s7, v2
s_waitcnt lgkmcnt(0)
global_load_dword v4, v2, s[4:5]
global_load_dword v5, v2, s[4:5] offset:256
global_load_dword v6, v10, s[4:5]
v_mov_b32_e32 v7, 7
v_mov_b32_e32 v8, s2
v_mov_b32_e32 v9, v0
s_waitcnt vmcnt(0)
"""
STEPS = (
    "v_add_u32_e32 v{d}, v{a}, v{b}", "v_mul_lo_u32 v{d}, v{a}, v{b}",
    "v_xor_b32_e32 v{d}, v{a}, v{b}", "v_and_b32_e32 v{d}, 0x{n:x}, v{a}",
    "v_mov_b32_e32 v{d}, v{a}", "v_lshrrev_b32_e32 v{d}, {n}, v{a}", "v_mov_b32_e32 v{d}, {n}",
    "v_add_u32_e32 v{d}, s2, v{a}", "v_readlane_b32 s12, v{a}, {n}\nv_mov_b32_e32 v{d}, s12",
    "v_readfirstlane_b32 s12, v{a}\nv_mov_b32_e32 v{d}, s12",
    "v_writelane_b32 v{d}, s7, {n}", "v_cmp_gt_u32_e32 vcc, v{a}, v{b}\n"
    "v_cndmask_b32_e32 v{d}, v{a}, v{b}, vcc",
    "ds_write_b32 v2, v{a} offset:{w}", "ds_write_b32 v3, v{a} offset:{w}",
    "ds_write_b8 v3, v{a} offset:{w}", "ds_write_b16 v2, v{a} offset:{w}",
    "ds_read_b32 v{d}, v2 offset:{w}", "ds_read_b32 v{d}, v3 offset:{w}",
    "ds_read_u8 v{d}, v3 offset:{w}", "ds_bpermute_b32 v{d}, v3, v{a}",
    "s_mov_b64 exec, {m}", "s_mov_b64 exec, -1", "s_mov_b64 exec, -1",
    "s_cmp_eq_u32 s2, {g}\ns_cselect_b32 exec_lo, {m}, -1",
    "global_load_dword v{d}, v2, s[8:9] offset:{w}",
    "global_store_dword v2, v{a}, s[8:9] offset:{w}",
    "global_load_short_d16_hi v{d}, v2, s[4:5] offset:{w}", "v_lshl_add_u32 v{d}, v{a}, {n}, v{b}",
    "v_perm_b32 v{d}, v{a}, v{b}, v7", "v_alignbit_b32 v{d}, v{a}, v{b}, {n}",
    "s_cmp_lt_u32 s2, {n}\ns_cselect_b32 s12, 3, s7\nv_mov_b32_e32 v{d}, s12",
    "s_cmp_lt_u32 s2, {n}\ns_cmov_b32 s12, s7\nv_mov_b32_e32 v{d}, s12",
)  # fmt: skip


def _random(seed):
    chooser = random.Random(seed)
    lines = HEAD + "s_mov_b32 s12, 5\n"
    for register in REGISTERS:  # LDS that all have written
        lines += f"ds_write_b32 v2, v{register} offset:{256 * (register - 4)}\n"
    for number in range(chooser.randrange(2, 14)):
        step = chooser.choice(STEPS).format(
            d=chooser.choice(REGISTERS), a=chooser.choice(REGISTERS), b=chooser.choice(REGISTERS),
            n=chooser.randrange(32), w=256 * chooser.randrange(6), g=chooser.randrange(GROUPS),
            m=hex(chooser.choice((0xFF, 0xFFFF0000, 1, 0xFFFFFFFF))),
        )  # fmt: skip
        if chooser.random() < 0.4:  # one work-group leaves it out
            around = f"s_cmp_eq_u32 s2, {chooser.randrange(GROUPS)}\ns_cbranch_scc1 .Lx{number}\n"
            step = f"{around}{step}\n.Lx{number}:"
        lines += step + "\n"
    lines += "s_mov_b64 exec, -1\n"
    for register in REGISTERS:
        lines += f"global_store_dword v2, v{register}, s[8:9] offset:{256 * (register - 4)}\n"
    code, errors = parse_assembly(Source("k.s", kernel(lines, "gfx942")))
    assert not errors, errors
    return code


def _machine(code, group, contents=None):
    given = (LaunchParameter(SOURCE.to_bytes(8, "little")), LaunchParameter(bytes(4)))
    launch = Launch(None, (GROUPS, 1, 1), (64, 1, 1), parameters=given)
    return WaveMachine(code, code.kernels[0], launch, group, 1000, contents=contents)


def _numbers(code, group):
    machine = _machine(code, group)
    machine.numbering = Numbering(machine.group)
    assert machine.run().outcome.ending is Ending.FINISHED
    return list(machine.numbering.stored.values())[-len(REGISTERS) :]


def _bytes(code, group):
    source = np.random.default_rng(5).integers(0, 256, 4096).astype(np.uint8)
    result = np.arange(RESULT_BYTES).astype(np.uint8)
    parts = [(SOURCE, source), (RESULT, result)]
    run = _machine(code, group, Contents(parts)).run()
    if run.outcome.ending is Ending.REFUSED:  # inactive lanes that others pull from
        assert "stores depends on" in run.outcome.reason
        return None
    assert run.outcome.ending is Ending.FINISHED, run.outcome.reason
    return result.reshape(8, 256)[: len(REGISTERS)]


def _compared(seed):
    """For each pair of stores of two work-groups: equal numbers, surely different, equal bytes."""
    code = _random(seed)
    numbers = [_numbers(code, group) for group in range(GROUPS)]
    stored = [_bytes(code, group) for group in range(GROUPS)]
    if any(rows is None for rows in stored):
        return []
    return [
        (a == b, surely_different(a, b), bool((x == y).all()))
        for one, other in combinations(range(GROUPS), 2)
        for a, b, x, y in zip(numbers[one], numbers[other], stored[one], stored[other], strict=True)
    ]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_equal_numbers_are_equal_values(seed):
    for equal, different, same in _compared(seed):
        assert same or not equal
        assert not (same and different)


def test_all_answers_occur():
    found = [one for seed in range(PROGRAMS) for one in _compared(seed)]
    equal = sum(equal for equal, _, _ in found)
    same = sum(same for _, _, same in found)
    assert sum(different for _, different, _ in found) > 20
    assert 3 * same // 4 < equal < len(found) // 2 + len(found) // 4  # few are missed


WITHIN = "s_mov_b64 exec, 0xff\n{}\ns_mov_b64 exec, -1\n"
COMMON = {
    "half of a load, which writes zeros to the other": (
        "global_load_short_d16_hi v6, v2, s[4:5]\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v4, v6"
    ),
    # v6 is loaded from a place of its own; what v4 then holds is the same in all
    "loaded": "",
    "overwritten": "v_mov_b32_e32 v6, v4\nv_mov_b32_e32 v4, v6",
    "overwritten in LDS": (
        "ds_write_b32 v2, v6 offset:2048\nds_write_b32 v2, v5 offset:2048\n"
        "ds_read_b32 v4, v2 offset:2048"
    ),
    "beside in LDS": (
        "ds_write_b32 v2, v6 offset:2304\nds_write_b32 v2, v5 offset:2048\n"
        "ds_read_b32 v4, v3 offset:2048"
    ),
    "written as far as it is read": WITHIN.format(
        "v_mov_b32_e32 v20, v5\nv_add_u32_e32 v4, v20, v5"
    ),
    "another lane": "v_readlane_b32 s12, v5, 40\nv_mov_b32_e32 v4, s12",
    "its number is not used": "v_mul_lo_u32 v6, v6, s2",
}
OWN = {
    "stored and loaded": (
        "global_store_dword v2, v6, s[8:9] offset:1024\n"
        "global_load_dword v4, v2, s[8:9] offset:1024"
    ),
    "stored and loaded at an address that is not known": (
        "global_store_dword v2, v6, s[8:9] offset:1024\nv_and_b32_e32 v5, 0xfc, v5\n"
        "global_load_dword v4, v5, s[8:9] offset:1024"
    ),
    "a byte of LDS": (
        "ds_write_b32 v2, v6 offset:2048\nds_write_b8 v2, v5 offset:2048\n"
        "ds_read_b32 v4, v2 offset:2048"
    ),
    "LDS that nobody has written": "ds_read_b32 v4, v2 offset:3072",
    "LDS at an address that is not known": (
        "ds_write_b32 v2, v6 offset:2048\nv_and_b32_e32 v5, 0xfc, v5\n"
        "ds_read_b32 v4, v5 offset:2048"
    ),
    "a register that nobody has written": "v_mov_b32_e32 v4, v20",
    "lanes that nobody has written": (
        WITHIN.format("v_mov_b32_e32 v20, v5") + "v_mov_b32_e32 v4, v20"
    ),
    "lanes that are kept": WITHIN.format("v_mov_b32_e32 v6, v5") + "v_mov_b32_e32 v4, v6",
    "a lane that takes no part": WITHIN.format(
        "v_mov_b32_e32 v6, v5\nv_readlane_b32 s12, v6, 40\nv_mov_b32_e32 v4, s12"
    ),
    "a lane that nobody has written": WITHIN.format(
        "v_mov_b32_e32 v20, v5\nv_readlane_b32 s12, v20, 40\nv_mov_b32_e32 v4, s12"
    ),
    "lanes that one moves": "s_cmp_eq_u32 s2, 0\ns_cselect_b32 exec_lo, 0xff, -1\n"
    "v_mov_b32_e32 v4, v5\ns_mov_b64 exec, -1",
    "a scalar that is kept": (
        "v_readlane_b32 s12, v6, 1\nv_readlane_b32 s13, v5, 1\ns_cmp_eq_u32 s8, 1\n"
        "s_cmov_b32 s12, s13\nv_mov_b32_e32 v4, s12"
    ),
    "one of two scalars": (
        "v_readlane_b32 s12, v4, 1\nv_readlane_b32 s13, v5, 1\ns_cmp_eq_u32 s2, 0\n"
        "s_cselect_b32 s12, s12, s13\nv_mov_b32_e32 v4, s12"
    ),
    "half a register": "v_add_u16_e32 v6, v4, v5\nv_mov_b32_e32 v4, v6",
    "half a register by its name": (
        "v_add_u32_sdwa v6, v4, v5 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD "
        "src1_sel:DWORD\nv_mov_b32_e32 v4, v6"
    ),
    "lanes that get nothing": (
        "v_mov_b32_dpp v6, v4 row_shr:1 row_mask:0xf bank_mask:0xf\nv_mov_b32_e32 v4, v6"
    ),
    "one lane": "v_writelane_b32 v6, s8, 3\nv_mov_b32_e32 v4, v6",
    "a mode": "s_setreg_b32 hwreg(HW_REG_MODE), s2\nv_mul_f32_e32 v4, v4, v5",
    "the place of a copy": (
        "ds_write_b32 v2, v5 offset:2048\nds_write_b32 v2, v5 offset:2304\n"
        "s_lshl_b32 m0, s2, 2\ns_nop 0\nglobal_load_lds_dword v2, s[4:5] offset:2048\n"
        "s_waitcnt vmcnt(0)\ns_mov_b64 exec, 2\nds_read_b32 v4, v2 offset:2048\n"
        "s_mov_b64 exec, -1"
    ),
    "a clock": "s_memtime s[12:13]\nv_mov_b32_e32 v4, s12",
    "where it runs": "s_getreg_b32 s12, hwreg(HW_REG_HW_ID)\nv_mov_b32_e32 v4, s12",
    "what an atomic returns": "global_atomic_add v4, v2, v5, s[8:9] sc0",
    "where an atomic was": ("global_atomic_add v2, v5, s[8:9]\nglobal_load_dword v4, v2, s[8:9]"),
    "what the device shares": "global_load_dword v4, v2, s[4:5] sc1",
    "an operand without a register": "s_mov_b64 s[12:13], src_shared_limit\nv_mov_b32_e32 v4, s13",
}


@pytest.mark.parametrize("name", [*COMMON, *OWN])
def test_a_number_by_hand(name):
    lines = COMMON[name] if name in COMMON else OWN[name]
    store = "\ns_nop 4\ns_waitcnt vmcnt(0) lgkmcnt(0)\nglobal_store_dword v2, v4, s[8:9]\n"
    code, errors = parse_assembly(Source("k.s", kernel(HEAD + lines + store, "gfx942")))
    assert not errors, errors
    first, second = (_numbers(code, group)[-1] for group in range(2))
    assert (first == second) is (name in COMMON)
