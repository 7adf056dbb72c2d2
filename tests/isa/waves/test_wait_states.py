"""The rules on wait states against LLVM's hazard recogniser, pair by pair; and over whole code."""

from __future__ import annotations

import shutil

import pytest

from tests.frontends.gcn.texts import kernel
from tests.isa.waves.machine_pairs import EVERY, LLC, pairs_of, printed
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.waves.hazard_rules import NOTHING, facts_of, matrix_needs, other_needs
from titan.isa.waves.wait_states import close_pairs


def parsed(lines, target):
    found, errors = parse_assembly(Source("k.s", kernel("\n".join(lines), target=target)))
    assert not errors, errors
    return found


def needed(found, first, target):
    """What the rules say of the instruction at `first` and the next one."""
    one, other = (facts_of(at, found.instructions[at], target) for at in (first, first + 1))
    needs = matrix_needs(one, other, target, NOTHING) if one.matrix else other_needs(
        one, other, target
    )  # fmt: skip
    return max((need.states for need in needs), default=0)


@pytest.mark.skipif(shutil.which(LLC) is None, reason=f"{LLC} is not installed")
@pytest.mark.parametrize("target", EVERY)
def test_the_rules_are_those_of_llvm(target, tmp_path):
    pairs = printed(pairs_of(target), target, tmp_path)
    assert len(pairs) == len(pairs_of(target))
    found = parsed([line for first, second, _ in pairs for line in (first, second)], target)
    different = [
        (first, second, states, needed(found, 2 * at, target))
        for at, (first, second, states) in enumerate(pairs)
        if needed(found, 2 * at, target) != states
    ]
    assert not different
    assert {states for *_, states in pairs} >= {0, 1, 2, 3, 4, 5, 11}


PRODUCT = "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]"  # 8 passes
SMALL = "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[16:17], v[18:19], v[0:3]"  # 2 passes


def found_in(lines, target="gfx942"):
    code = parsed(lines.strip().split("\n"), target)
    return [
        (pair.first, pair.second, pair.needed, pair.passed, pair.register)
        for pair in close_pairs(code, code.kernels[0])
    ]


@pytest.mark.parametrize(("states", "target", "enough"), [
    (11, "gfx942", True), (10, "gfx942", False), (12, "gfx950", True), (11, "gfx950", False),
])  # fmt: skip
def test_wait_states_are_counted(states, target, enough):
    nops = f"s_nop 7\ns_nop {states - 9}"
    lines = f"{PRODUCT}\n{nops}\nv_mov_b32_e32 v20, v15"
    expected = [] if enough else [(0, 3, states + 1, states, "v15")]
    assert found_in(lines, target) == expected


def test_a_loop_brings_its_end_before_its_start():
    lines = f".Lagain:\nv_mov_b32_e32 v20, v0\ns_nop 7\n{PRODUCT}\ns_cbranch_scc1 .Lagain\n"
    code, errors = parse_assembly(
        Source("k.s", kernel(lines, target="gfx942").replace("\t.Lagain:", ".Lagain:"))
    )
    assert not errors
    (pair,) = close_pairs(code, code.kernels[0])
    assert (pair.first, pair.second, pair.needed, pair.passed) == (2, 0, 11, 1)


def test_the_nearest_product_counts():
    # The second product adds to the result of the first, in its registers, and is behind it.
    chain = f"{SMALL}\nv_nop\nv_nop\n{SMALL}\ns_nop 4\nv_mov_b32_e32 v20, v0"
    assert found_in(chain) == []
    assert found_in(chain.replace("v_nop\nv_nop", "v_nop")) == [(0, 2, 2, 1, "v0")]


def test_settings_are_told_apart():
    setting = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5"
    assert found_in(f"{setting}\ns_getreg_b32 s5, hwreg(HW_REG_MODE)")
    assert not found_in(f"{setting}\ns_getreg_b32 s5, hwreg(HW_REG_HW_ID)")
