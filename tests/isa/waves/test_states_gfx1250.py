"""The states behind products and transcendentals of gfx1250, pair by pair against LLVM 22's.

What changed in LLVM since is said here: some products run in half the time on the silicon that is
sold (LLVM changes 202522 and ROCm's 2915, 3197), transcendentals count behind products (186269),
and a result of a transcendental that is overwritten at once counts as well.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.frontends.gcn.texts import kernel
from tests.isa.waves.machine_pairs import LLC, vectors
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.waves.vector_states_gfx1250 import STATES_MAX, close_pairs_of_gfx1250

PLAIN = "implicit $mode, implicit $exec"
EXEC = "implicit $exec"
# LLVM's name: registers of the result, of the factors, and its operands by place.
PRODUCTS = {
    "WMMA_F32_16X16X32_F16": (8, 8, 8, "8, {a}, 8, {b}, 8, {c}, 0, 0, 0, 0"),
    "WMMA_F32_16X16X32_BF16": (8, 8, 8, "8, {a}, 8, {b}, 8, {c}, 0, 0, 0, 0"),
    "WMMA_F16_16X16X32_F16": (4, 8, 8, "8, {a}, 8, {b}, 8, {c}, 0, 0, 0, 0"),
    "WMMA_F32_16X16X4_F32": (8, 2, 2, "8, {a}, 8, {b}, 8, {c}, 0, 0, 0, 0"),
    "WMMA_I32_16X16X64_IU8": (8, 8, 8, "8, {a}, 8, {b}, {c}, 0, 0, 0, 0"),
    "WMMA_F32_16X16X64_FP8_FP8": (8, 8, 8, "{a}, {b}, 8, {c}, 0, 0, 0, 0"),
    "WMMA_F32_16X16X64_BF8_FP8": (8, 8, 8, "{a}, {b}, 8, {c}, 0, 0, 0, 0"),
    "WMMA_F32_16X16X128_FP8_FP8": (8, 16, 16, "{a}, {b}, 8, {c}, 0, 0, 0, 0"),
    "WMMA_F32_16X16X128_F8F6F4_f4_f4": (8, 8, 8, "{a}, {b}, 8, {c}, 4, 4, 0, 0"),
    "WMMA_F32_16X16X128_F8F6F4_f8_f4": (8, 16, 8, "{a}, {b}, 8, {c}, 1, 4, 0, 0"),
    "WMMA_F32_16X16X128_F8F6F4_f4_f8": (8, 8, 16, "{a}, {b}, 8, {c}, 4, 0, 0, 0"),
    "WMMA_F32_16X16X128_F8F6F4_f8_f8": (8, 16, 16, "{a}, {b}, 8, {c}, 0, 0, 0, 0"),
    "SWMMAC_F32_16X16X64_F16": (8, 8, 16, "8, {a}, 8, {b}, {c}, {index}, 0, 0, 0, 0, 0"),
    "SWMMAC_I32_16X16X128_IU8": (8, 8, 16, "8, {a}, 8, {b}, {c}, {index2}, 0, 0, 0, 0, 0"),
}
READERS = (
    f"$vgpr200 = V_MOV_B32_e32 {{}}, {EXEC}",
    f"{{}} = V_MOV_B32_e32 $vgpr200, {EXEC}",
    f"$vgpr201 = V_EXP_F32_e32 {{}}, {PLAIN}",
    f"{{}} = V_EXP_F32_e32 $vgpr201, {PLAIN}",
    f"$vcc_lo = V_CMP_EQ_U32_e64 {{}}, $vgpr200, {EXEC}",
    f"GLOBAL_STORE_DWORD $vgpr200_vgpr201, {{}}, 0, 0, {EXEC}",
    f"{{}} = DS_READ_B32_gfx9 $vgpr200, 0, 0, {EXEC}",
    f"GLOBAL_LOAD_ASYNC_TO_LDS_B32 {{}}, $vgpr202_vgpr203, 0, 0, implicit-def $asynccnt, {EXEC}, "
    "implicit $asynccnt",
)
BEHIND_PRODUCTS = tuple(one for one in READERS if "EXP" not in one)
EXPONENTIALS = (
    f"$vgpr0 = V_EXP_F32_e32 $vgpr1, {PLAIN}",
    f"$vgpr0 = V_SQRT_F32_e32 $vgpr1, {PLAIN}",
    f"$vgpr0 = V_TANH_F32_e32 $vgpr1, {PLAIN}",
    f"$vgpr0 = V_RCP_IFLAG_F32_e32 $vgpr1, {PLAIN}",
)


def product(name, result, factor, added, index=230):
    """A product; its index registers are of sparse ones only."""
    count, left, right, form = PRODUCTS[name]
    operands = form.format(
        a=vectors(factor, left), b=vectors(factor + left, right), c=vectors(added, count),
        index=vectors(index, 1), index2=vectors(index, 2),
    )  # fmt: skip
    return f"early-clobber {vectors(result, count)} = V_{name}_w32_twoaddr {operands}, {EXEC}"


def pairs():
    for name, (count, left, right, _) in PRODUCTS.items():
        first = product(name, 0, 40, 0)
        for reader in BEHIND_PRODUCTS:
            # LLVM takes the first operand of a copy for what it writes.
            factors = () if "ASYNC" in reader else (40, 40 + left + right - 1)
            for register in (count - 1, *factors, 39):
                yield first, reader.format(f"$vgpr{register}")
        for other, (wide, *_) in PRODUCTS.items():
            yield first, product(other, 100, 140, 100)
            yield first, product(other, 0, 140, 0)
            yield first, product(other, 100, count - 2, 100)  # multiplies a part of the result
            yield first, product(other, 40 + left + right - wide, 140, 40 + left + right - wide)
            if other.startswith("SWMMAC"):
                yield first, product(other, 100, 140, 100, index=count - 2)
    for first in EXPONENTIALS:
        for register in ("$vgpr0", "$vgpr1", "$vgpr2"):
            for reader in READERS:
                if register != "$vgpr1" or "ASYNC" not in reader:
                    yield first, reader.format(register)
        for name in PRODUCTS:
            yield first, product(name, 100, 0, 100)
            yield first, product(name, 0, 140, 0)
            yield first, product(name, 100, 140, 100)
            if name.startswith("SWMMAC"):
                yield first, product(name, 100, 140, 100, index=0)


def printed(wanted, folder):
    """For each pair its two lines of assembly, and how many `v_nop` LLVM puts between."""
    place = folder / "pairs.mir"
    place.write_text(
        "".join(
            f"---\nname: f{at}\nbody: |\n  bb.0:\n    {first}\n    {second}\n    S_ENDPGM 0\n...\n"
            for at, (first, second) in enumerate(wanted)
        )
    )
    command = [LLC, "-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx1250", "-filetype=asm"]
    made = subprocess.run(
        [*command, "-start-before=post-RA-hazard-rec", str(place), "-o", "-"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = []
    for body in re.findall(r"^; %bb\.0:.*?\n(.*?)\ts_endpgm", made.stdout, re.S | re.M):
        lines = [line.split(";")[0].strip() for line in body.split("\n")]
        states = lines.count("v_nop")
        first, second = (
            line for line in lines if line and not line.startswith(("v_nop", "s_delay_alu"))
        )
        found.append((first, second, states))
    return found


def since(first, second, states):
    """The states after what changed in LLVM since version 22."""
    formats = first.count("MATRIX_FMT_FP4")
    if first.startswith("v_wmma_f32_16x16x64_") or formats == 2:
        return {4: 1, 5: 2}.get(states, states)
    if "f8f6f4" in first:
        return {8: 4, 9: 5}.get(states, states)
    if "mma" not in first and second == "v_mov_b32_e32 v0, v200":
        return 1
    return states


def with_exponentials(made):
    """All pairs of LLVM; and `v_exp` for `v_mov` behind a product."""
    for first, second, printed_states in made:
        states = since(first, second, printed_states)
        yield first, second, states
        if "mma" in first and second.startswith("v_mov"):
            yield first, second.replace("v_mov_b32", "v_exp_f32"), states


@pytest.mark.skipif(shutil.which(LLC) is None, reason=f"{LLC} is not installed")
def test_the_states_are_those_of_llvm(tmp_path):
    wanted = list(pairs())
    found = printed(wanted, tmp_path)
    assert len(found) == len(wanted)
    made = list(with_exponentials(found))
    apart = ["v_nop"] * STATES_MAX
    lines = [line for first, second, _ in made for line in (first, second, *apart)]
    code, errors = parse_assembly(Source("k.s", kernel("\n".join(lines), target="gfx1250")))
    assert not errors, errors
    found = {pair.second: pair.needed for pair in close_pairs_of_gfx1250(code, code.kernels[0])}
    step = len(apart) + 2
    different = [
        (first, second, states, found.get(step * at + 1, 0))
        for at, (first, second, states) in enumerate(made)
        if found.get(step * at + 1, 0) != states
    ]
    assert not different, (len(different), different)
    assert {states for *_, states in made} >= {0, 1, 2, 3, 4, 5, 8, 9}


def close(*lines):
    code, errors = parse_assembly(Source("k.s", kernel("\n".join(lines), target="gfx1250")))
    assert not errors, errors
    return [
        (pair.register, pair.needed, pair.passed, pair.why)
        for pair in close_pairs_of_gfx1250(code, code.kernels[0])
    ]


PRODUCT = "v_wmma_f32_16x16x32_f16 v[0:7], v[40:47], v[48:55], v[60:67]"


def test_what_a_product_adds_to_is_kept_as_well():
    narrow = "v_wmma_bf16f32_16x16x32_bf16 v[0:3], v[40:47], v[48:55], v[60:67]"
    for product in (PRODUCT, narrow):
        assert close(product, "v_mov_b32_e32 v66, 0")[0][:3] == ("v66", 4, 0)
        assert not close(product, *["v_nop"] * 4, "v_mov_b32_e32 v66, 0")
        assert not close(product, "v_mov_b32_e32 v200, v66")


def test_only_vector_instructions_lie_between():
    read = "v_mov_b32_e32 v200, v7"
    for filler, states in (
        ("s_nop 0", 0), ("s_mov_b32 s4, 0", 0), ("v_exp_f32_e32 v201, v202", 1),
        ("global_load_async_to_lds_b32 v201, v[202:203], off", 0),
        ("v_dual_mov_b32 v201, 0 :: v_dual_mov_b32 v204, 0", 1), ("s_delay_alu 0", 0),
        ("v_wmma_f32_16x16x32_f16 v[70:77], v[80:87], v[88:95], v[70:77]", 1),
    ):  # fmt: skip
        for before in range(4):
            found = close(PRODUCT, *["v_nop"] * before, filler, read)
            assert bool(found) == (before + states < 4), (filler, before, found)
