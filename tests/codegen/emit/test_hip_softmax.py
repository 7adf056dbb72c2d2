"""Softmax between two products on AMD: masks behind a branch, rounding where an operand is made."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import titan.validate.hip
from benchmarks.amd_code import judged, launch_of_manifest
from tests.codegen.emit.hip_kernels import HEADER, SOURCE, make, needs_clang, shape
from tests.codegen.emit.test_hip_across import ATTENTION, CAUSAL, DKV, furthest, tile_of
from tests.sampling import sampled
from titan.codegen.emit.hip_values import values_of
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.validate.compare.gcn_compile import hip_assembly
from titan.validate.hip.run import KernelFault

NATIVE = Path(titan.validate.hip.__file__).parent / "native"
FOLDER = root("backends") / "gfx942"
needs_gpp = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


@needs_gpp
@pytest.mark.parametrize("name", sampled([CAUSAL, ATTENTION], every=2))
def test_a_tile_is_left_unmasked_where_all_of_it_is_kept(name):
    """A branch that says so of a tile that is not kept as a whole shows in the numbers."""
    made = make(tile_of(name, "gfx942"), shape(2))
    text = made.emitted.files[SOURCE]
    branches = re.findall(r"if \(!\((.*)\)\)\n\s+titan::mask", text)
    assert len(branches) == 1
    assert furthest(made, "source") <= 1
    with suppress(KernelFault):
        assert not furthest(made.edited(branches[0], "true"), "source") <= 1


def test_what_is_rounded_for_a_product_alone_has_no_variable():
    assert values_of(tile_of(ATTENTION, "gfx942")).rounded == {"p16": ("p", True)}
    assert values_of(tile_of(DKV, "gfx942")).rounded == {
        "p16": ("p", True), "ds16": ("ds", False)
    }  # fmt: skip
    assert "v_p16;" not in make(tile_of(ATTENTION, "gfx942"), shape(2)).emitted.files[SOURCE]


PROGRAM = """
#include <cmath>
#include <cstdio>
#include "titan_emulation_hip.h"
#include "titan_device.hip.h"
using namespace titan;
static bool nan16(u32 half) { return (half & 0x7fffu) > 0x7f80u; }
static double number(u32 half) {
    return half == 0x7f80u ? std::ldexp(1.0, 128) : double(__builtin_bit_cast(float, half << 16));
}
static u32 nearest(u32 bits) {  // a number that is not below zero, ties to even
    double x = bits == 0x7f800000u ? number(0x7f80u) : double(__builtin_bit_cast(float, bits));
    u32 down = bits >> 16, up = bits == 0x7f800000u ? down : down + 1;
    double below = x - number(down), above = number(up) - x;
    return below < above || (below == above && down % 2 == 0) ? down : up;
}
int main() {
    const u32 some[] = {0u, 1u, 0x3f800000u, 0x3f808000u, 0x3f818000u, 0x3f80ffffu, 0x7f7fffffu,
                        0x7f800000u, 0x00017fffu, 0x7f7f8000u, 0x3f7f7fffu};
    const u32 odd[] = {0x7fffffffu, 0xffffffffu, 0x7fff8000u, 0xffff8000u, 0x7fc00000u,
                       0x7f800001u};
    u64 random = 88172645463325252ull;
    int wrong = 0, with = 0;
    for (int round = 0; round < 4000; ++round) {
        Fragment<32, 64, 32> x;
        bool any = false;
        for (int c = 0; c < 2; ++c)
            for (int i = 0; i < 16; ++i) {
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                u32 bits = random % 3 ? some[random / 3 % 11] : u32(random >> 33) & 0x7f7fffffu;
                if (round % 2 && random / 64 % 32 == 0) bits = odd[random / 4096 % 6], any = true;
                x.d[0][c][i] = __builtin_bit_cast(float, bits);
            }
        Operand<1, 8> fast, exact;
        rounded_operand_of<bf16, true>(fast, x);
        rounded_operand_of<bf16, false>(exact, x);
        bool seen = false, differs = false;
        for (int step = 0; step < 8; ++step)
            for (int half = 0; half < 2; ++half) {
                u32 one = fast.d[0][step][half];
                seen |= nan16(one) || nan16(one >> 16);
                int at = 4 * (step % 4) + 2 * half;
                auto bits = [&](int i) { return __builtin_bit_cast(u32, x.d[0][step / 4][i]); };
                u32 meant = any ? 0 : nearest(bits(at)) | nearest(bits(at + 1)) << 16;
                differs |= one != meant || exact.d[0][step][half] != meant;
            }
        with += any;
        wrong += any ? !seen : differs;
    }
    std::printf("%d %d\\n", wrong, with);
}
"""


def ran(header: str, folder: Path) -> tuple[int, int]:
    (folder / "titan_device.hip.h").write_text(header)
    (folder / "main.cpp").write_text(PROGRAM)
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-w", f"-I{folder}", f"-I{NATIVE}", "main.cpp", "-o", "main"],
        cwd=folder, check=True,
    )  # fmt: skip
    words = subprocess.run([folder / "main"], check=True, capture_output=True).stdout.split()
    return int(words[0]), int(words[1])


@needs_gpp
def test_rounding_of_what_is_not_below_zero_keeps_a_nan_in_each_row(tmp_path):
    header = (FOLDER / "titan_device.hip.h").read_text()
    wrong, with_nan = ran(header, tmp_path)
    assert wrong == 0
    assert with_nan > 500
    for old, new in (
        ("total != total ? 0x7fffu", "false ? 0x7fffu"),
        ("0x7fffu + (bits >> 16 & 1u)", "0x8000u"),
        ("upper_halves(bits[2], bits[3])}", "upper_halves(bits[3], bits[2])}"),
    ):
        assert old in header
        assert ran(header.replace(old, new), tmp_path)[0] > 0


def verdict_of_assembly(made, folder):
    for name, text in made.emitted.files.items():
        (folder / name).write_text(text)
    text = hip_assembly(folder / SOURCE, made.tile.target)
    return judged(text, launch_of_manifest(made.emitted.manifest)).verdict


@needs_clang
def test_reads_are_waited_for_behind_a_wait_for_loads(tmp_path):
    """Told of a wait for loads by an instruction that it knows, with all other counters at their
    most, the compiler takes all but the last 15 accesses of LDS for done, and waits for none."""
    made = make(tile_of(DKV, "gfx950"), shape(2, staged=True))
    known = "__builtin_amdgcn_s_waitcnt(0x0f70 | (N & 15) | N >> 4 << 14);"
    wait = 'asm volatile("s_waitcnt vmcnt(%0)" ::"n"(N) : "memory");'
    assert verdict_of_assembly(made, tmp_path) is Verdict.VERIFIED
    assert verdict_of_assembly(made.edited(wait, known, HEADER), tmp_path) is Verdict.REFUTED
