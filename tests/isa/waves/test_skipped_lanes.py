"""Arms whose lanes data choose: what a run knows behind them, against runs with contents."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.isa.waves.contents import Contents
from titan.isa.waves.events import LanesByData
from titan.isa.waves.machine import WaveMachine

SOURCE = 0x10_0000
HEAD = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v2, 2, v0
v_mov_b32_e32 v5, v0
v_mov_b32_e32 v6, 3
v_mov_b32_e32 v7, v2
s_mov_b32 s6, 5
s_waitcnt lgkmcnt(0)
global_load_dword v3, v2, s[4:5]
global_load_dword v4, v2, s[4:5] offset:256
s_waitcnt vmcnt(0)
"""
WORK = (
    "v_add_u32_e32 v{d}, v{a}, v{b}", "v_mov_b32_e32 v{d}, v{a}", "v_mul_lo_u32 v{d}, v{a}, v{b}",
    "v_xor_b32_e32 v{d}, v{a}, v{b}", "s_add_u32 s6, s6, 1", "s_nop 1",
    "v_mov_b32_dpp v{d}, v{a} row_shr:1 row_mask:0xf bank_mask:0xf", "v_readfirstlane_b32 s6, v{a}",
    "ds_bpermute_b32 v{d}, v2, v{a}\\ns_waitcnt lgkmcnt(0)",
    "ds_write_b32 v2, v{a}", "ds_write_b32 v2, v{a}", "ds_add_u32 v2, v{a}",
    "ds_read_b32 v{d}, v2\\ns_waitcnt lgkmcnt(0)",
    "v_cmp_gt_u32_e32 vcc, v{a}, v{b}\\ns_nop 1\\nv_cndmask_b32_e32 v{d}, v{a}, v{b}, vcc",
)  # fmt: skip


def loop_of(body, depth, name, compare):
    """A loop that lanes leave as data say."""
    count, mask = f"v{8 + depth}", f"s[{70 + 2 * depth}:{71 + 2 * depth}]"
    return (
        f"v_mov_b32_e32 {count}, 0\ns_mov_b64 {mask}, 0\n{name}l:\n{body}"
        f"v_add_u32_e32 {count}, 1, {count}\n{compare.format(count)}\ns_nop 1\n"
        f"s_or_b64 {mask}, vcc, {mask}\ns_andn2_b64 exec, exec, {mask}\n"
        f"s_cbranch_execnz {name}l\ns_or_b64 exec, exec, {mask}\n"
    )


class Program:
    """Nested conditions over data, as compilers write them; masks in pairs from s10 on."""

    def __init__(self, seed: int) -> None:
        self.chooser = random.Random(seed)
        self.labels = 0

    def work(self) -> str:
        choose = self.chooser.choice
        line = choose(WORK).format(d=choose((5, 6, 7)), a=choose((3, 4, 5, 6)), b=choose((4, 5, 6)))
        return line.replace("\\n", "\n") + "\n"

    def block(self, depth: int) -> str:
        lines = ""
        for _ in range(self.chooser.randrange(1, 4)):
            if depth < 3 and self.chooser.random() < 0.4:
                lines += self.condition(depth)
            else:
                lines += self.work()
        return lines

    def condition(self, depth: int) -> str:
        self.labels += 1
        name, low = f".L{self.labels}", 10 + 4 * depth
        mask, other = f"s[{low}:{low + 1}]", f"s[{low + 2}:{low + 3}]"
        a, b = self.chooser.sample((3, 4, 5, 6), 2)
        head = f"v_cmp_gt_u32_e64 {mask}, v{a}, v{b}\ns_nop 1\n"
        jump = f"s_cbranch_execz {name}\n" if self.chooser.random() < 0.7 else ""
        then = self.block(depth + 1)
        if self.chooser.random() < 0.3:
            compare = f"v_cmp_ge_u32_e32 vcc, {{}}, v{self.chooser.choice((3, 4))}"
            then = loop_of(then, depth, name, compare)
        if self.chooser.random() < 0.5:
            if self.chooser.random() < 0.3:  # fewer lanes up to the end of the arm
                a, b = self.chooser.sample((3, 4, 5, 6), 2)
                fewer = f"v_cmp_lt_u32_e32 vcc, v{a}, v{b}\ns_nop 1\ns_and_b64 exec, exec, vcc\n"
                then += f"{fewer}{jump}{self.block(depth + 1)}"
            return (
                f"{head}s_and_saveexec_b64 {other}, {mask}\n{jump}{then}{name}:\n"
                f"s_or_b64 exec, exec, {other}\n"
            )
        return (
            f"{head}s_and_saveexec_b64 {other}, {mask}\ns_xor_b64 {mask}, exec, {other}\n"
            f"{jump}{then}{name}:\ns_andn2_saveexec_b64 {mask}, {mask}\n{self.block(depth + 1)}"
            f"s_or_b64 exec, exec, {mask}\n"
        )


def machine(lines: str, contents: Contents | None = None) -> WaveMachine:
    text = kernel(f"{HEAD}{lines}s_endpgm", "gfx942", threads=64)
    code, errors = parse_assembly(Source("k.s", text))
    assert not errors, errors
    given = (LaunchParameter(SOURCE.to_bytes(8, "little")), LaunchParameter(bytes(4)))
    launch = Launch(None, (1, 1, 1), (64, 1, 1), parameters=given)
    return WaveMachine(code, code.kernels[0], launch, 0, 5000, contents=contents)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_known_behind_the_arms_is_right(seed):
    """For data that send lanes into all arms, into some, and into none."""
    program = Program(seed)
    lines = program.work() + program.condition(0) + program.work() + program.condition(0)
    skipping = machine(lines)
    outcome = skipping.run().outcome
    if outcome.ending is Ending.REFUSED:
        assert "the execution mask" in outcome.reason
        return
    assert outcome.ending is Ending.FINISHED
    (wave,) = skipping.waves
    for data in (
        np.random.default_rng(seed).integers(0, 6, 128),
        np.zeros(128),
        np.arange(128) % 6,
    ):
        words = data.astype(np.uint32).view(np.uint8).copy()
        computing = machine(lines, Contents([(SOURCE, words)]))
        assert computing.run().outcome.ending is Ending.FINISHED
        (other,) = computing.waves
        assert wave.exec == other.exec == wave.lanes_all
        for register in (0, 2, 5, 6, 7, 8, 9):
            known = [lane for lane in range(64) if wave.known[register] >> lane & 1]
            assert (wave.vectors[register][known] == other.vectors[register][known]).all()
        for register in (4, 5, 6, *range(10, 24)):
            value = wave.scalar(register)
            assert not isinstance(value, int) or value == other.scalar(register), register


def test_most_arms_are_skipped():
    skipped = 0
    for seed in range(60):
        program = Program(seed)
        lines = program.work() + program.condition(0) + program.work() + program.condition(0)
        found = machine(lines).run()
        if found.outcome.ending is Ending.FINISHED:
            skipped += any(isinstance(event, LanesByData) for event in found.events)
    assert skipped > 20


ARM = """v_cmp_gt_u32_e64 s[10:11], v3, v4
s_nop 1
s_and_saveexec_b64 s[12:13], s[10:11]
{head}
{inside}
.Lend:
{end}
"""
JUMP, JOIN = "s_cbranch_execz .Lend", "s_or_b64 exec, exec, s[12:13]"
REFUSED = {
    "a copy": "global_load_lds_dword v2, s[4:5]",
    "a flat load": "flat_load_dword v8, v[10:11]",
    "an atomic where data say": "global_atomic_add v3, v5, s[4:5]",
    "a store where data say": "global_store_dword v3, v5, s[4:5]",
    "a store by all lanes to one place": "global_store_dword v8, v0, s[4:5]",
    "a store of LDS by all lanes to one place": "v_mov_b32_e32 v8, 0\nds_write_b32 v8, v0",
    "a place in LDS that all lanes count": "ds_append v8",
    "the mask by what leaves it": "s_andn1_wrexec_b64 s[14:15], s[10:11]",
    "a barrier": "s_barrier",
    "the end": "s_endpgm",
    "a branch back": ".Lback:\nv_add_u32_e32 v5, v5, v6\ns_cbranch_execnz .Lback",
    "the mask by a comparison": "v_cmpx_gt_u32_e32 vcc, v5, v6",
    "the mask in part": "s_mov_b32 exec_lo, 5",
    "what restores the mask, written where no lane may come": "s_mov_b64 s[12:13], 0",
}


@pytest.mark.parametrize("name", REFUSED)
def test_arms_that_do_more_than_compute_are_not_skipped(name):
    text = ARM.format(head=JUMP, inside=REFUSED[name], end=f"{JOIN}\ns_barrier")
    found = machine(text).run()
    assert found.outcome.ending is Ending.REFUSED, found.outcome
    assert "the execution mask" in found.outcome.reason


def test_arms_that_do_not_end_are_not_skipped():
    arm = ARM.format(head=JUMP, inside="v_mov_b32_e32 v5, 1", end="")
    assert machine(f"{arm}s_barrier\n").run().outcome.ending is Ending.REFUSED
    assert machine(arm).run().outcome.ending is Ending.FINISHED  # the wave ends


def test_what_is_still_being_loaded_is_not_read_in_a_skipped_arm():
    text = "global_load_dword v8, v2, s[4:5]\n"
    text += ARM.format(head=JUMP, inside="v_mov_b32_e32 v5, v8", end=JOIN)
    assert machine(text).run().outcome.ending is Ending.REFUSED


def test_what_an_arm_writes_is_unknown_behind_it():
    text = ARM.format(head=JUMP, inside="v_mov_b32_e32 v5, 1\ns_mov_b32 s6, 7", end=JOIN)
    found = machine(text)
    assert found.run().outcome.ending is Ending.FINISHED
    (wave,) = found.waves
    assert wave.known[5] == 0
    assert wave.known[6] == wave.lanes_all
    assert not isinstance(wave.scalar(6), int)
    assert wave.exec == wave.lanes_all


def test_a_mask_that_only_one_way_changes_is_unknown():
    """Of a branch that all lanes take or none."""
    way = "s_load_dword s47, s[4:5], 0x0\ns_waitcnt lgkmcnt(0)\ns_cmp_gt_u32 s47, 2\n"
    way += "s_cbranch_scc0 .Lend\n{}.Lend:\ns_barrier\n"
    for lines, ending in (("s_and_b64 exec, exec, 5\n", Ending.REFUSED), ("", Ending.FINISHED)):
        assert machine(way.format(lines)).run().outcome.ending is ending


def test_lanes_that_leave_a_loop_come_back_only_if_they_are_noted():
    way = "s_load_dword s47, s[4:5], 0x0\ns_waitcnt lgkmcnt(0)\ns_cmp_gt_u32 s47, 2\n"
    way += "s_cbranch_scc0 .Lend\n{}.Lend:\ns_barrier\n"
    leaves = "v_cmp_gt_u32_e64 s[20:21], v4, v8\ns_and_b64 exec, exec, s[20:21]\n"
    for body, ending in ((leaves, Ending.REFUSED), ("s_nop 1\n", Ending.FINISHED)):
        lines = loop_of(body, 0, ".L", "v_cmp_ge_u32_e32 vcc, {}, v3")
        assert machine(way.format(lines)).run().outcome.ending is ending


def test_lanes_that_come_in_the_arms_are_unknown():
    """The arms begin with eight lanes, and others may be there in between."""
    text = "v_cmp_gt_u32_e64 s[10:11], v3, v4\ns_nop 1\ns_mov_b64 exec, 0xff\n"
    text += "s_mov_b64 exec, s[10:11]\nv_mov_b32_e32 v6, 1\ns_mov_b64 exec, -1\n"
    found = machine(text)
    assert found.run().outcome.ending is Ending.FINISHED
    (wave,) = found.waves
    assert wave.exec == wave.lanes_all
    assert wave.known[6] == 0
