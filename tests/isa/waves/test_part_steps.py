"""What runs that compute do with parts of words, words of other lanes, and atomics, by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.gcn.texts import kernel
from tests.isa.waves.test_lane_values import CONTROLS, MASKS, MovedLanes, _machine, _random
from tests.isa.waves.test_numbers import LOAD, RESULT, SOURCE, computed
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.module import Registers
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.isa.waves.contents import Contents
from titan.isa.waves.machine import WaveMachine

RANDOM = np.random.default_rng(3)
WORDS = RANDOM.integers(0, 1 << 32, (64, 4), dtype=np.uint64).astype(np.uint32)
HALVES = np.array([1.5, -2.25, 0.0, 65504.0], np.float16)


# ------------------------------------------------------------------------------------ DPP


class Compared(MovedLanes):
    """Looks whether what the machine did is what the manual says, as `MovedLanes` has it."""

    count = 0

    def after(self, wave, code):
        if not code.item.opcode.endswith("_dpp") or code.item.base.endswith("64"):
            return
        registers = [one for one in code.item.operands if isinstance(one, Registers)]
        first = registers[0].first
        made, known = wave.vectors[first].copy(), wave.known[first]
        super().after(wave, code)
        if known & wave.exec:  # else the form is not computed
            Compared.count += 1
            lanes = [lane for lane in range(64) if known >> lane & 1]
            assert known == wave.known[first]
            assert (made[lanes] == wave.vectors[first][lanes]).all(), code.item


@pytest.mark.parametrize("seed", range(60))
def test_moves_of_lanes_are_those_of_the_manual(seed):
    code = _random(seed)
    source = np.random.default_rng(5).integers(0, 256, 4096).astype(np.uint8)
    parts = [(SOURCE, source), (RESULT, np.arange(4096).astype(np.uint8))]
    machine = _machine(code, Contents(parts))
    machine.follower = Compared()
    machine.run()


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("control", [one for one in CONTROLS if not one.startswith("wave")])
def test_a_sum_with_a_word_of_another_lane(control, mask):
    """Every control with every mask; what is not written keeps its word."""
    move = control.format(k=5)
    lines = f"v_mov_b32_e32 v8, v6\ns_nop 1\nv_add_u32_dpp v8, v4, v5 {move} {mask}\n"
    options = dict(one.partition(":")[::2] for one in f"{move} {mask}".split())
    manual = MovedLanes()
    wanted = WORDS[:, 2].copy()
    for lane in range(64):
        taken = manual.lane(options, lane)
        item = type("Item", (), {"options": options})
        if manual.written(item, lane) and (taken is not None or "bound_ctrl" in options):
            value = int(WORDS[taken, 0]) if taken is not None else 0
            wanted[lane] = value + int(WORDS[lane, 1]) & 0xFFFF_FFFF
    assert (computed(lines, WORDS) == wanted).all()


# ----------------------------------------------------------------------------------- SDWA


@pytest.mark.parametrize("part", [0, 1])
def test_a_half_of_a_word_is_converted(part):
    words = np.zeros((64, 4), np.uint32)
    halves = RANDOM.choice(HALVES, (64, 2))
    words[:, 0] = halves.view(np.uint32).ravel()
    lines = f"v_cvt_f32_f16_sdwa v8, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_{part}"
    assert (computed(lines, words).view(np.float32) == halves[:, part].astype(np.float32)).all()


@pytest.mark.parametrize("rest", ["UNUSED_PAD", "UNUSED_PRESERVE"])
@pytest.mark.parametrize("place", ["BYTE_0", "BYTE_3", "WORD_0", "WORD_1", "DWORD"])
def test_a_result_goes_to_a_part_of_a_word(place, rest):
    lines = "v_mov_b32_e32 v8, v6\n"
    lines += f"v_add_u32_sdwa v8, v4, v5 dst_sel:{place} dst_unused:{rest}"
    lines += " src0_sel:BYTE_1 src1_sel:WORD_1"
    total = (WORDS[:, 0] >> 8 & 0xFF) + (WORDS[:, 1] >> 16)
    bits = {"BYTE": 8, "WORD": 16}.get(place.partition("_")[0], 32)
    shift = bits * int(place.partition("_")[2] or 0)
    inside = np.uint32((1 << bits) - 1 << shift)
    wanted = total << np.uint32(shift) & inside
    if rest == "UNUSED_PRESERVE":
        wanted = wanted | WORDS[:, 2] & ~inside
    assert (computed(lines, WORDS) == wanted).all()


@pytest.mark.parametrize("width", [16, 32])
def test_rows_are_exchanged(width):
    lines = "v_mov_b32_e32 v8, v4\nv_mov_b32_e32 v9, v5\ns_nop 1\n"
    lines += f"v_permlane{width}_swap_b32_e32 v8, v9\ns_nop 1\nv_sub_u32_e32 v8, v8, v9"
    one, other = WORDS[:, 0].copy(), WORDS[:, 1].copy()
    for low in range(0, 64, 2 * width):
        odd, even = slice(low + width, low + 2 * width), slice(low, low + width)
        one[odd], other[even] = WORDS[even, 1], WORDS[odd, 0]
    assert (computed(lines, WORDS, "gfx950") == one - other).all()


def test_the_lower_word_of_a_sum_needs_no_upper_one():
    """Compilers add pairs of which nobody wrote the upper word."""
    lines = "v_mov_b32_e32 v12, v6\nv_mad_u64_u32 v[8:9], s[10:11], v4, v5, v[12:13]"
    wanted = (WORDS[:, 0].astype(np.uint64) * WORDS[:, 1] + WORDS[:, 2]).astype(np.uint32)
    assert (computed(lines, WORDS) == wanted).all()


# --------------------------------------------------------------------------------- atomics

ATOMICS = {
    "add": lambda a, b: a + b & 0xFFFF_FFFF,
    "sub": lambda a, b: a - b & 0xFFFF_FFFF,
    "swap": lambda a, b: b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "umax": max,
    "umin": min,
    "smax": lambda a, b: max(a, b, key=lambda v: v - (v >> 31 << 32)),
    "smin": lambda a, b: min(a, b, key=lambda v: v - (v >> 31 << 32)),
    "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_are_done_lane_after_lane(name):
    """Two lanes share a word; each gets what was there before it."""
    lines = "v_and_b32_e32 v12, 0x7c, v2\n"
    lines += f"global_atomic_{name} v8, v12, v4, s[4:5] sc0\ns_waitcnt vmcnt(0)"
    memory = WORDS.ravel().copy()
    wanted = []
    for lane in range(64):
        place = lane * 4 % 128 // 4
        wanted.append(int(memory[place]))
        memory[place] = ATOMICS[name](int(memory[place]), int(WORDS[lane, 0]))
    assert computed(lines, WORDS).tolist() == wanted


def test_a_comparing_exchange_takes_the_second_word_for_what_it_expects():
    lines = "v_mov_b32_e32 v12, 0\nv_mov_b32_e32 v13, v0\n"
    lines += "v_add_u32_e32 v10, 1, v0\nv_mov_b32_e32 v11, v0\n"
    lines += "global_atomic_cmpswap v8, v12, v[10:11], s[4:5] offset:16 sc0\ns_waitcnt vmcnt(0)"
    words = np.zeros((64, 4), np.uint32)
    assert computed(lines, words).tolist() == list(range(64))


@pytest.mark.parametrize("kind", ["f32", "f64", "pk_f16"])
def test_sums_of_floating_point_numbers(kind):
    name = {"f32": "add_f32", "f64": "add_f64", "pk_f16": "pk_add_f16"}[kind]
    data = "v[4:5]" if kind == "f64" else "v4"
    text = kernel(LOAD + f"v_mov_b32_e32 v12, 0\nglobal_atomic_{name} v12, {data}, s[8:9]")
    code, errors = parse_assembly(Source("k.s", text))
    assert not errors, errors
    dtype = {"f32": np.float32, "f64": np.float64, "pk_f16": np.float16}[kind]
    count = 2 if kind == "pk_f16" else 1
    given = RANDOM.integers(-8, 9, (64, count)).astype(dtype)
    words = np.zeros((64, 16), np.uint8)
    words[:, : given[0].nbytes] = given.view(np.uint8).reshape(64, -1)
    result = np.zeros(256, np.uint8)
    parts = [(SOURCE, words.ravel().copy()), (RESULT, result)]
    parameters = (LaunchParameter(SOURCE.to_bytes(8, "little")), LaunchParameter(bytes(4)))
    launch = Launch(None, (1, 1, 1), (64, 1, 1), parameters=parameters)
    run = WaveMachine(code, code.kernels[0], launch, 0, 1000, contents=Contents(parts)).run()
    assert run.outcome.ending is Ending.FINISHED, run.outcome.reason
    assert result.view(dtype)[:count].tolist() == given.astype(np.float64).sum(0).tolist()
