"""Numbers of what lanes compute, against runs of random programs with contents in two waves.

Where two numbers are equal, of any lanes of any registers of any waves, the words are equal. Moves
of lanes, which that run does not compute, are computed here, lane by lane.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.module import AssemblyInstruction, Registers
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.isa.waves.contents import Contents
from titan.isa.waves.lane_values import LaneValues
from titan.isa.waves.machine import WaveMachine
from titan.isa.waves.moved_lanes import dpp_lanes, dpp_written, swap_rows, swizzle_lanes

SOURCE, RESULT = 0x10_0000, 0x20_0000
PROGRAMS = 120
REGISTERS = range(4, 10)
# v2: 4 bytes a lane, the same in both waves; v3: of other lanes; v10: of the wave s6 alone.
HEAD = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshrrev_b32_e32 v1, 6, v0
v_and_b32_e32 v11, 63, v0
v_lshlrev_b32_e32 v2, 2, v11
v_xor_b32_e32 v3, 0x54, v2
s_mov_b32 s8, 0x200000
s_mov_b32 s9, 0
v_mov_b32_e32 v9, 0
v_readfirstlane_b32 s6, v1
s_lshl_b32 s7, s6, 8
v_add_u32_e32 v10, s7, v2
s_waitcnt lgkmcnt(0)
global_load_dword v4, v2, s[4:5]
global_load_dword v5, v2, s[4:5] offset:256
global_load_dword v6, v10, s[4:5]
global_load_dword v7, v9, s[4:5]
v_mov_b32_e32 v8, 7
s_waitcnt vmcnt(0)
v_mov_b32_e32 v9, v4
"""
STEPS = (
    "v_add_u32_e32 v{d}, v{a}, v{b}", "v_sub_u32_e32 v{d}, v{a}, v{b}",
    "v_mul_lo_u32 v{d}, v{a}, v{b}", "v_xor_b32_e32 v{d}, v{a}, v{b}",
    "v_and_or_b32 v{d}, v{a}, v{b}, v7", "v_max_u32_e32 v{d}, v{a}, v{b}",
    "v_lshrrev_b32_e32 v{d}, {n}, v{a}", "v_mov_b32_e32 v{d}, v{a}", "v_mov_b32_e32 v{d}, {n}",
    "v_add_u32_e32 v{d}, s6, v{a}", "v_accvgpr_write_b32 a{n}, v{a}",
    "v_readlane_b32 s12, v{a}, {n}\ns_nop 3\nv_mov_b32_e32 v{d}, s12",
    "v_readfirstlane_b32 s12, v{a}\ns_nop 3\ns_add_u32 s13, s12, {n}\nv_mov_b32_e32 v{d}, s13",
    "v_writelane_b32 v{d}, s7, {n}", "v_cmp_gt_u32_e32 vcc, v{a}, v{b}\ns_nop 1\n"
    "v_cndmask_b32_e32 v{d}, v{a}, v{b}, vcc",
    "v_cmp_gt_u32_e32 vcc, v{a}, v{b}\nv_cmp_lt_u32_e64 s[12:13], v{b}, v7\n"
    "s_and_b64 s[14:15], vcc, s[12:13]\nv_cndmask_b32_e64 v{d}, v{b}, v{a}, s[14:15]",
    "v_add_co_u32_e32 v{d}, vcc, v{a}, v{b}\nv_addc_co_u32_e32 v{a}, vcc, v{b}, v7, vcc",
    "ds_write_b32 v2, v{a} offset:{w}", "ds_write_b32 v3, v{a} offset:{w}",
    "ds_write_b32 v10, v{a} offset:{w}", "ds_write_b8 v3, v{a} offset:{w}",
    "ds_write_b16 v2, v{a} offset:{w}", "ds_write_b16_d16_hi v2, v{a} offset:{w}",
    "ds_read_b32 v{d}, v2 offset:{w}", "ds_read_b32 v{d}, v3 offset:{w}",
    "ds_read_u8 v{d}, v3 offset:{w}", "ds_read_u16 v{d}, v2 offset:{w}",
    "ds_bpermute_b32 v{d}, v3, v{a}", "s_mov_b64 exec, {m}", "s_mov_b64 exec, -1",
    "s_mov_b64 exec, -1", "s_cmp_eq_u32 s6, {g}\ns_cselect_b32 exec_lo, {m}, -1",
    "global_load_dword v{d}, v2, s[4:5] offset:{w}",
    "global_load_dword v{d}, v10, s[8:9] offset:{w}",
    "global_store_dword v2, v{a}, s[8:9] offset:{w}", "s_barrier",
    "global_load_ushort v{d}, v2, s[4:5] offset:{w}", "v_lshl_add_u32 v{d}, v{a}, {n}, v{b}",
    "v_perm_b32 v{d}, v{a}, v{b}, v7", "v_alignbit_b32 v{d}, v{a}, v{b}, {n}",
    "v_cvt_pk_bf16_f32 v{d}, v{a}, v{b}", "v_cvt_pk_bf16_f32 v{d}, v{a}, s6",
    "v_cvt_f16_f32_e32 v{d}, v{a}\nds_write_b16 v2, v{d} offset:{w}",
    "v_cvt_f16_f32_e32 v{d}, v{a}\nds_write_b16_d16_hi v3, v{d} offset:{w}",
    "v_cvt_f16_f32_e32 v{d}, v{a}\nv_pack_b32_f16 v{a}, v{d}, v{b}",
    "v_pack_b32_f16 v{d}, v{a}, v{b}", "v_cvt_f32_f16_e32 v{d}, v{a}",
    "v_add_f16_e32 v{d}, v{a}, v{b}", "v_mul_lo_u16_e32 v{d}, v{a}, v{b}",
    "v_pack_b32_f16 v{d}, v{a}, v{b} op_sel:[1,0,0]",
    "v_max3_u32 v{d}, v{a}, v{b}, v7", "v_add3_u32 v{d}, v7, v{a}, v{b}",
    "v_cvt_pk_bf16_f32 v{d}, v{a}, v{b}\nds_write_b16 v2, v{d} offset:{w}\n"
    "v_cvt_pk_f16_f32 v{d}, v{b}, v{a}\nds_write_b16_d16_hi v3, v{d} offset:{w}\n"
    "ds_read_u16 v{d}, v3 offset:{w}",
    "v_mov_b32_dpp v{d}, v{a} {dpp}", "v_add_u32_dpp v{d}, v{a}, v{b} {dpp}",
    "v_mov_b32_dpp v{d}, v{a} {dpp}", "v_sub_u32_dpp v{d}, v{a}, v{b} {dpp}",
    "v_mov_b64_dpp v[{p}:{p1}], v[{q}:{q1}] row_newbcast:{k} row_mask:0xf bank_mask:0xf",
)  # fmt: skip
CONTROLS = (
    "quad_perm:[1,0,3,2]", "quad_perm:[2,3,0,1]", "row_shl:1", "row_shr:1", "row_shr:4",
    "row_ror:8", "row_mirror", "row_half_mirror", "row_newbcast:{k}", "wave_shl:1", "wave_ror:1",
)  # fmt: skip
MASKS = (
    "row_mask:0xf bank_mask:0xf", "row_mask:0xf bank_mask:0xf", "row_mask:0xa bank_mask:0xf",
    "row_mask:0xf bank_mask:0x3", "row_mask:0xf bank_mask:0xf bound_ctrl:0",
)  # fmt: skip


def _random(seed):
    chooser = random.Random(seed)
    lines = HEAD
    for register in REGISTERS:  # LDS that all have written
        lines += f"ds_write_b32 v2, v{register} offset:{256 * (register - 4)}\n"
    for number in range(chooser.randrange(4, 20)):
        pairs = [chooser.choice((4, 6, 8)) for _ in range(2)]
        row = chooser.randrange(16)
        dpp = f"{chooser.choice(CONTROLS).format(k=row)} {chooser.choice(MASKS)}"
        step = chooser.choice(STEPS).format(
            dpp=dpp, p=pairs[0], p1=pairs[0] + 1, q=pairs[1], q1=pairs[1] + 1, k=row,
            d=chooser.choice(REGISTERS), a=chooser.choice(REGISTERS), b=chooser.choice(REGISTERS),
            n=chooser.randrange(32), w=256 * chooser.randrange(6), g=chooser.randrange(2),
            m=hex(chooser.choice((0xFF, 0xFFFF0000, 1, 0xFFFFFFFF))),
        )  # fmt: skip
        if step != "s_barrier" and chooser.random() < 0.25:  # one wave leaves it out
            around = f"s_cmp_eq_u32 s6, {chooser.randrange(2)}\ns_cbranch_scc1 .Lx{number}\n"
            step = f"{around}{step}\n.Lx{number}:"
        lines += step + "\n"
    code, errors = parse_assembly(Source("k.s", kernel(lines + "s_endpgm", "gfx950", threads=128)))
    assert not errors, errors
    return code


class MovedLanes:
    """Computes what data parallel primitives do, as the manual of CDNA3 has them."""

    def before(self, wave, code):
        self.rows = {
            at: (wave.vectors[at].copy(), wave.known[at]) for at in code.touches if at < 512
        }

    def after(self, wave, code):
        item = code.item
        if not item.opcode.endswith("_dpp"):
            return
        (_, first), (_, source), *rest = [
            (one, one.first) for one in item.operands if isinstance(one, Registers)
        ]
        for word in range(2 if item.base.endswith("64") else 1):
            old, known = self.rows[first + word]
            words, mask = old.copy(), known
            for lane in range(64):
                taken = self.lane(item.options, lane)
                valid = taken is not None and bool(wave.exec >> taken & 1)
                written = wave.exec >> lane & 1 and self.written(item, lane)
                if not written or not (valid or "bound_ctrl" in item.options):
                    continue
                values, has = self.rows[source + word]
                value = int(values[taken]) if valid else 0
                good = not valid or bool(has >> taken & 1)
                if rest:
                    more, also = self.rows[rest[0][1]]
                    sign = -1 if item.base == "v_sub_u32" else 1
                    value, good = value + sign * int(more[lane]), good and bool(also >> lane & 1)
                words[lane] = value & 0xFFFF_FFFF
                mask = mask & ~(1 << lane) | good << lane
            wave.vectors[first + word], wave.known[first + word] = words, mask

    def written(self, item, lane):
        rows, banks = (int(item.options[name], 0) for name in ("row_mask", "bank_mask"))
        return rows >> lane // 16 & 1 and banks >> lane % 16 // 4 & 1

    def lane(self, options, lane):
        """The lane that a lane reads; None where there is none."""
        row, at = lane - lane % 16, lane % 16
        if "quad_perm" in options:
            return lane - lane % 4 + int(options["quad_perm"][1 + 2 * (lane % 4)])
        if "row_newbcast" in options:
            return row + int(options["row_newbcast"])
        if "row_mirror" in options:
            return row + 15 - at
        if "row_half_mirror" in options:
            return row + at - at % 8 + 7 - at % 8
        if "row_ror" in options:
            return row + (at + 16 - int(options["row_ror"])) % 16
        if "wave_ror" in options:
            return (lane + 63) % 64
        if "wave_shl" in options:
            return lane + 1 if lane < 63 else None
        moved = (
            at + int(options["row_shl"]) if "row_shl" in options else at - int(options["row_shr"])
        )
        return row + moved if 0 <= moved < 16 else None


def _machine(code, contents=None):
    given = (LaunchParameter(SOURCE.to_bytes(8, "little")), LaunchParameter(bytes(4)))
    launch = Launch(None, (1, 1, 1), (128, 1, 1), parameters=given)
    return WaveMachine(code, code.kernels[0], launch, 0, 1000, contents=contents)


def _found(seed):
    """Number and word of each lane of each register of each wave; None where some word is not
    known to the run that computes."""
    code = _random(seed)
    machine = _machine(code)
    values = machine.numbering = machine.group.values = LaneValues(machine.group)
    assert machine.run().outcome.ending is Ending.FINISHED
    source = np.random.default_rng(5).integers(0, 256, 4096).astype(np.uint8)
    parts = [(SOURCE, source), (RESULT, np.arange(4096).astype(np.uint8))]
    other = _machine(code, Contents(parts))
    other.follower = MovedLanes()
    if other.run().outcome.ending is not Ending.FINISHED:
        return None
    found = []
    for one, computed in zip(machine.waves, other.waves, strict=True):
        for register in REGISTERS:
            if computed.known[register] != computed.lanes_all:
                continue  # lanes that nothing has written
            numbers = values.row(one, register)
            for lane in range(64):
                word = int(computed.vectors[register][lane])
                found.append(((one.number, register, lane), numbers[lane].tobytes(), word))
    return found


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_equal_numbers_are_equal_words(seed):
    known = {}
    for place, number, word in _found(seed) or ():
        before = known.setdefault(number, (word, place))
        assert before[0] == word, (before[1], place)


def test_many_equal_words_have_equal_numbers():
    equal = shown = 0
    for seed in range(PROGRAMS):
        first, second = {}, {}
        for (wave, register, lane), number, word in _found(seed) or ():
            (second if wave else first)[register, lane] = number, word
        for place in first.keys() & second.keys():
            equal += first[place][1] == second[place][1]
            shown += first[place][0] == second[place][0]
    assert equal > 20_000 and 3 * equal // 4 < shown < equal


def _item(**options):
    return AssemblyInstruction("v_mov_b32_dpp", "v_mov_b32", (), options, -1, 1, 1)


def test_moved_lanes_by_hand():
    assert list(dpp_lanes(_item(quad_perm="[1,0,3,2]"))[:6]) == [1, 0, 3, 2, 5, 4]
    assert list(dpp_lanes(_item(row_shr="1"))[14:19]) == [13, 14, -1, 16, 17]
    assert list(dpp_lanes(_item(row_shl="2"))[12:18]) == [14, 15, -1, -1, 18, 19]
    assert list(dpp_lanes(_item(row_ror="4"))[:6]) == [12, 13, 14, 15, 0, 1]
    assert list(dpp_lanes(_item(row_mirror=""))[16:19]) == [31, 30, 29]
    assert list(dpp_lanes(_item(row_half_mirror=""))[6:10]) == [1, 0, 15, 14]
    assert list(dpp_lanes(_item(row_newbcast="3"))[15:18]) == [3, 19, 19]
    assert list(dpp_lanes(_item(row_bcast="15"))[[0, 16, 31, 32, 63]]) == [-1, 15, 15, 31, 47]
    assert list(dpp_lanes(_item(row_bcast="31"))[[0, 31, 32, 63]]) == [-1, -1, 31, 31]
    assert list(dpp_lanes(_item(wave_shl="1"))[[0, 15, 62, 63]]) == [1, 16, 63, -1]
    assert list(dpp_lanes(_item(wave_shr="1"))[[0, 16, 63]]) == [-1, 15, 62]
    assert list(dpp_lanes(_item(wave_rol="1"))[[0, 31, 63]]) == [1, 32, 0]
    assert list(dpp_lanes(_item(wave_ror="1"))[[0, 32, 63]]) == [63, 31, 62]
    assert list(dpp_lanes(_item(row_share="1"))[[0, 15, 16, 63]]) == [1, 1, 17, 49]
    assert list(dpp_lanes(_item(row_xmask="5"))[[0, 1, 16, 63]]) == [5, 4, 21, 58]
    assert dpp_lanes(_item(row_unheard="1")) is None
    written = dpp_written(_item(row_mask="0xa", bank_mask="0x1"))
    assert np.flatnonzero(written).tolist() == [16, 17, 18, 19, 48, 49, 50, 51]
    assert np.flatnonzero(swap_rows("v_permlane16_swap_b32"))[[0, 15, 16]].tolist() == [16, 31, 48]
    assert list(swizzle_lanes(_item(offset="swizzle(SWAP,16)"))[[0, 16, 40]]) == [16, 0, 56]
    assert swizzle_lanes(_item(offset='swizzle(BITMASK_PERM,"00p11")')) is None


def _numbered(lines):
    """The numbers after some instructions, and the first wave."""
    text = kernel(f"{HEAD}{lines}s_endpgm", "gfx950", threads=128)
    code, errors = parse_assembly(Source("k.s", text))
    assert not errors, errors
    machine = _machine(code)
    values = machine.numbering = machine.group.values = LaneValues(machine.group)
    assert machine.run().outcome.ending is Ending.FINISHED
    return values, machine.waves[0]


@pytest.mark.parametrize("name", ["v_max3_f32", "v_min3_f32", "v_max3_i32", "v_add3_u32"])
def test_the_order_of_three_does_not_matter(name):
    """As in a maximum over lanes: each has its own number and those of others at other places."""
    orders = ("v4, v5, v6", "v4, v6, v5", "v5, v4, v6", "v5, v6, v4", "v6, v4, v5", "v6, v5, v4")
    lines = "".join(f"{name} v{20 + at}, {order}\n" for at, order in enumerate(orders))
    values, wave = _numbered(lines)
    first, *others = (values.row(wave, 20 + at) for at in range(len(orders)))
    assert all((first == other).all() for other in others)
    assert not (first == values.row(wave, 4)).all()


def test_the_lower_half_of_a_conversion_does_not_depend_on_what_was_there():
    """Two registers with different words get the same half; the upper ones are not shown equal."""
    lines = "v_mov_b32_e32 v20, v5\nv_mov_b32_e32 v21, v6\nv_cvt_f16_f32_e32 v20, v4\n"
    lines += "v_cvt_f16_f32_e32 v21, v4\n"
    for at, (word, register) in enumerate((w, r) for w in ("b16", "b16_d16_hi") for r in (20, 21)):
        lines += f"ds_write_{word} v2, v{register} offset:{256 * at}\n"
    lines += "s_waitcnt lgkmcnt(0)\n"
    lines += "".join(f"ds_read_u16 v{22 + at}, v2 offset:{256 * at}\n" for at in range(4))
    values, wave = _numbered(lines)
    rows = [values.row(wave, register) for register in range(22, 26)]
    assert (rows[0] == rows[1]).all()
    assert not (rows[2] == rows[3]).all()
