"""What becomes of LDS that nothing has written, against runs that find other bytes there."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.isa.waves.contents import Contents
from titan.isa.waves.machine import WaveMachine
from titan.isa.waves.undefined import undefined_uses
from titan.isa.waves.unwritten_reads import unwritten_lds_reads

RESULT = 0x20_0000
PROGRAMS = 240
START = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_lshlrev_b32_e32 v2, 3, v0
v_mov_b32_e32 v4, 1
v_mov_b32_e32 v5, v0
v_mov_b32_e32 v6, 3
v_mov_b32_e32 v7, 4
s_waitcnt lgkmcnt(0)
"""
WAIT = "s_waitcnt lgkmcnt(0)"
LAUNCH = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"


class _Patterned(Contents):
    """LDS starts with other bytes."""

    def __init__(self, parts, seed):
        super().__init__(parts)
        self.seed = seed

    def begin_group(self, lds_bytes):
        random_bytes = np.random.default_rng(self.seed)
        self.lds = random_bytes.integers(0, 256, lds_bytes + 16, dtype=np.uint8)


def assembled(lines):
    code, errors = parse_assembly(Source("k.s", kernel("\n".join([START, *lines]))))
    assert not errors, errors
    return code


LAUNCHED = Launch(
    None, (1, 1, 1), (64, 1, 1),
    parameters=(LaunchParameter(RESULT.to_bytes(8, "little")), LaunchParameter(bytes(4))),
)  # fmt: skip


def used(code):
    run = WaveMachine(code, code.kernels[0], LAUNCHED, 0, 10_000).run()
    assert run.outcome.ending is Ending.FINISHED, run.outcome.reason
    uses = undefined_uses(code, code.kernels[0], run)
    assert uses is not None
    assert uses.reads <= set(unwritten_lds_reads(run))
    return uses.reads


def left(code, seed):
    result = np.zeros(1024, np.uint8)
    contents = _Patterned([(RESULT, result)], seed)
    run = WaveMachine(code, code.kernels[0], LAUNCHED, 0, 10_000, contents=contents).run()
    assert run.outcome.ending is Ending.FINISHED, run.outcome.reason
    return result


def drawn(chooser, to):
    """One instruction or two, on v4 to v7; those with a result write `to`, or a pair."""
    one, other = (f"v{chooser.randrange(4, 8)}" for _ in range(2))
    offset, below = 4 * chooser.randrange(0, 80), chooser.randrange(0, 65)
    pair = chooser.choice(["v[4:5]", "v[6:7]"])
    return chooser.choice(
        [
            f"ds_write_b32 v1, {one} offset:{offset}\n{WAIT}",
            f"ds_write_b64 v2, {pair} offset:{2 * offset}\n{WAIT}",
            f"v_cmp_gt_u32_e32 vcc, {below}, v0\ns_and_saveexec_b64 s[10:11], vcc\n"
            f"ds_write_b32 v1, {one} offset:{offset}\ns_mov_b64 exec, s[10:11]\n{WAIT}",
            f"ds_read_b32 {to}, v1 offset:{offset}\n{WAIT}",
            f"ds_read_b64 {pair}, v2 offset:{2 * offset}\n{WAIT}",
            f"ds_read_u16 {to}, v1 offset:{offset}\n{WAIT}",
            f"ds_read2_b32 {pair}, v1 offset0:{offset // 4} offset1:{below}\n{WAIT}",
            f"v_add_u32_e32 {to}, {one}, {other}",
            f"v_cmp_gt_u32_e32 vcc, {below}, v0\nv_cndmask_b32_e32 {to}, {one}, {other}, vcc",
            f"v_cmp_gt_i32_e64 s[12:13], {one}, {other}\n"
            f"v_cndmask_b32_e64 {to}, 0, {one}, s[12:13]",
            f"v_cmp_gt_i32_e64 s[12:13], {one}, 7\ns_andn2_b64 s[14:15], s[12:13], vcc\n"
            f"v_cndmask_b32_e64 {to}, 0, 1, s[14:15]",
            f"v_readfirstlane_b32 s16, {one}\nv_add_u32_e32 {to}, s16, {other}",
            f"v_readlane_b32 s16, {one}, {chooser.randrange(64)}\nv_xor_b32_e32 {to}, s16, {other}",
            f"v_mov_b32_e32 {to}, {one}",
        ]
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_what_other_bytes_change_is_used(seed):
    chooser = random.Random(seed)
    below = chooser.randrange(0, 65)
    lines = ["v_cmp_gt_u32_e32 vcc, 9, v0"]
    written = [f"v{chooser.randrange(4, 8)}" for _ in range(chooser.randrange(3, 12))]
    lines += [drawn(chooser, to) for to in written]
    lines += [
        f"v_cmp_gt_u32_e32 vcc, {below}, v0",
        "s_and_saveexec_b64 s[10:11], vcc",
        f"global_store_dword v1, {written[-1]}, s[4:5]",
        "s_mov_b64 exec, s[10:11]",
    ]
    code = assembled(lines)
    differs = any((left(code, 1) != left(code, other)).any() for other in (2, 3))
    assert used(code) or not differs, "\n".join(lines)


READ = f"ds_read_b32 v4, v1\n{WAIT}"
KEEP = "global_store_dword v1, v5, s[4:5]"
MASK = "v_cmp_gt_i32_e64 s[12:13], v4, 0"
CHOOSE = "v_cndmask_b32_e64 v5, 0, 1, s[14:15]"
UPPER = "v_cmp_lt_u32_e32 vcc, 39, v0"  # lanes 40 to 63
WITHIN = "s_and_saveexec_b64 s[10:11], vcc"
WHOLE = "s_mov_b64 exec, s[10:11]"


@pytest.mark.parametrize(
    ("lines", "is_used"),
    [
        # The bits of a mask, in lanes of the upper half alone, and of the lower one alone.
        ([READ, MASK, "s_not_b64 s[14:15], s[12:13]", CHOOSE, UPPER, WITHIN, KEEP], True),
        ([READ, MASK, UPPER, "s_andn2_b64 s[14:15], s[12:13], vcc", CHOOSE, KEEP], True),
        ([UPPER, WITHIN, READ, MASK, WHOLE, "s_mov_b64 s[14:15], s[12:13]", CHOOSE,
          "v_cmp_gt_u32_e32 vcc, 40, v0", WITHIN, KEEP], False),
        ([UPPER, WITHIN, READ, MASK, WHOLE, "s_mov_b64 s[14:15], s[12:13]", CHOOSE, KEEP], True),
        # One lane's value, for all lanes.
        ([READ, "v_readlane_b32 s16, v4, 33", "v_add_u32_e32 v5, s16, v0", KEEP], True),
        ([READ, "v_readfirstlane_b32 s16, v4", "v_mov_b32_e32 v5, v0", KEEP], False),
        ([READ, "v_readfirstlane_b32 s16, v4", "s_add_u32 s17, s16, 1", "v_mov_b32_e32 v5, s17",
          KEEP], True),
        # Parts of a word.
        ([f"ds_write_b16 v1, v0\n{WAIT}", READ, "v_mov_b32_e32 v5, v4", KEEP], True),
        ([f"ds_write_b16 v1, v0\n{WAIT}", f"ds_read_u16 v5, v1\n{WAIT}", KEEP], False),
        ([f"ds_write_b8 v1, v0\n{WAIT}", f"ds_read_u16 v5, v1\n{WAIT}", KEEP], True),
        # Two words of one load, at two places of one.
        ([f"ds_write_b32 v2, v0\n{WAIT}", f"ds_read_b64 v[4:5], v2\n{WAIT}", KEEP], True),
        ([f"ds_write_b32 v2, v0 offset:4\n{WAIT}", f"ds_read_b64 v[4:5], v2\n{WAIT}", KEEP], False),
        ([f"ds_write_b32 v1, v0\n{WAIT}", f"ds_read2_b32 v[4:5], v1 offset0:64\n{WAIT}", KEEP],
         False),
        ([f"ds_write_b32 v1, v0\n{WAIT}", f"ds_read2_b32 v[4:5], v1 offset1:64\n{WAIT}", KEEP],
         True),
        # Through LDS, and written anew.
        ([READ, f"ds_write_b32 v1, v4 offset:256\n{WAIT}",
          f"ds_read_b32 v5, v1 offset:256\n{WAIT}", KEEP], True),
        ([READ, f"ds_write_b32 v1, v4 offset:256\n{WAIT}",
          f"ds_write_b32 v1, v0 offset:256\n{WAIT}", f"ds_read_b32 v5, v1 offset:256\n{WAIT}",
          KEEP], False),
    ],
)  # fmt: skip
def test_a_value_is_followed(lines, is_used):
    code = assembled(lines)
    assert any((left(code, 1) != left(code, other)).any() for other in (2, 3)) == is_used
    assert bool(used(code)) == is_used


@pytest.mark.parametrize(
    ("moved", "is_used"),
    [
        ("v_mov_b32_dpp v5, v4 row_shr:1 row_mask:0xf bank_mask:0xf", False),
        ("v_mov_b32_dpp v5, v4 row_shl:1 row_mask:0xf bank_mask:0xf", True),
        ("v_mov_b32_dpp v5, v4 row_shl:1 row_mask:0x3 bank_mask:0xf", False),
        ("v_mov_b32_dpp v5, v4 row_half_mirror row_mask:0xf bank_mask:0xf", False),
        ("v_mov_b32_dpp v5, v4 row_mirror row_mask:0xf bank_mask:0xf", True),
        ("ds_bpermute_b32 v5, v1, v4", False),
        ("ds_bpermute_b32 v5, v1, v4 offset:4", True),
        ("ds_permute_b32 v5, v1, v4", False),
        ("ds_permute_b32 v5, v1, v4 offset:128", True),
        ("ds_swizzle_b32 v5, v4 offset:swizzle(SWAP,4)", False),
        ("ds_swizzle_b32 v5, v4 offset:swizzle(SWAP,8)", True),
        ("v_mov_b32_e32 v5, v4\ns_nop 1\nv_permlane32_swap_b32 v4, v5", True),
        ("v_mov_b32_e32 v5, v0\ns_nop 1\nv_permlane32_swap_b32 v4, v5", True),
        ("v_mov_b32_e32 v5, v0\ns_nop 1\nv_permlane16_swap_b32 v5, v4", False),
    ],
)
def test_lanes_get_what_others_had(moved, is_used):
    lower = "v_cmp_gt_u32_e32 vcc, 40, v0"
    upper = "v_cmp_lt_u32_e32 vcc, 39, v0"
    begin = ["v_mov_b32_e32 v4, v0", upper, WITHIN, READ, WHOLE, "s_nop 4"]
    code = assembled([*begin, moved, WAIT, lower, WITHIN, KEEP])
    assert any((left(code, 1) != left(code, other)).any() for other in (2, 3)) == is_used
    assert bool(used(code)) == is_used
    assert not used(assembled([moved, WAIT, KEEP]))


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["ds_read_b32 v4, v1", WAIT, "global_store_dword v1, v4, s[4:5]"], Verdict.UNDECIDED),
        (["ds_read_b32 v4, v1", WAIT], Verdict.VERIFIED),
        (["ds_write_b32 v1, v0", WAIT, "ds_read_b32 v4, v1", WAIT,
          "global_store_dword v1, v4, s[4:5]"], Verdict.VERIFIED),
        (["ds_write_b16 v1, v0", WAIT, "ds_read_b32 v4, v1", WAIT,
          "global_store_dword v1, v4, s[4:5]"], Verdict.UNDECIDED),
        (["ds_read_b32 v4, v1", WAIT, "v_cmp_gt_u32_e32 vcc, 32, v0", "s_nop 4",
          "v_cndmask_b32_e32 v4, 0, v4, vcc", "global_store_dword v1, v4, s[4:5]"],
         Verdict.UNDECIDED),
        (["v_cmp_gt_u32_e32 vcc, 32, v0", "s_and_saveexec_b64 s[10:11], vcc",
          "ds_write_b32 v1, v0", "s_mov_b64 exec, s[10:11]", WAIT, "ds_read_b32 v4, v1", WAIT,
          "v_cndmask_b32_e32 v4, 0, v4, vcc", "global_store_dword v1, v4, s[4:5]"],
         Verdict.VERIFIED),
        (["ds_add_u32 v1, v0", WAIT, "ds_read_b32 v4, v1", WAIT,
          "global_store_dword v1, v4, s[4:5]"], Verdict.UNDECIDED),
    ],
)  # fmt: skip
def test_the_verdict(lines, verdict):
    found = judged(kernel("\n".join([START, *lines])), LAUNCH)
    assert found.verdict is verdict, found.notes
    if verdict is Verdict.UNDECIDED:
        assert any("that nothing has written" in note for note in found.notes), found.notes
