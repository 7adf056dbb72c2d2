"""Pairs of instructions in the machine code form of LLVM, and what its compiler puts between them.

`llc` runs its hazard recogniser on two instructions at a time and prints assembly; the `s_nop`
between them is how many wait states LLVM takes them to need. It shares nothing with our rules.
"""

from __future__ import annotations

import re
import subprocess

LLC = "llc-22"
PLAIN = "implicit $mode, implicit $exec"
EXEC = "implicit $exec"
EVERY = ("gfx90a", "gfx942", "gfx950")
CDNA3 = ("gfx942", "gfx950")


def vectors(first, count):
    """`$vgpr4_vgpr5`."""
    return "$" + "_".join(f"vgpr{at}" for at in range(first, first + count))


# LLVM's name: registers of the result, of a factor, and the targets that have it.
PRODUCTS = {
    "V_MFMA_F32_4X4X4F16": (4, 2, EVERY),
    "V_MFMA_F32_16X16X16F16": (4, 2, EVERY),
    "V_MFMA_F32_32X32X8F16": (16, 2, EVERY),
    "V_MFMA_F32_32X32X4F16": (32, 2, EVERY),
    "V_MFMA_F32_16X16X4F16": (16, 2, EVERY),
    "V_MFMA_F32_16X16X4F32": (4, 1, EVERY),
    "V_MFMA_F32_32X32X1F32": (32, 1, EVERY),
    "V_MFMA_F32_4X4X1F32": (4, 1, EVERY),
    "V_MFMA_F64_16X16X4F64": (8, 2, EVERY),
    "V_MFMA_F64_4X4X4F64": (2, 2, EVERY),
    "V_MFMA_F32_32X32X8BF16_1K": (16, 2, EVERY),
    "V_MFMA_F32_16X16X8XF32": (4, 2, ("gfx942",)),
    "V_MFMA_F32_32X32X4XF32": (16, 2, ("gfx942",)),
    "V_MFMA_I32_32X32X16I8": (16, 2, CDNA3),
    "V_MFMA_F32_16X16X32_FP8_FP8": (4, 2, CDNA3),
    "V_MFMA_F32_32X32X16_F16": (16, 4, ("gfx950",)),
    "V_MFMA_F32_16X16X32_F16": (4, 4, ("gfx950",)),
    "V_MFMA_I32_16X16X64_I8": (4, 4, ("gfx950",)),
    "V_MFMA_I32_32X32X32_I8": (16, 4, ("gfx950",)),
}
NARROW = {"f8": (8, 0), "f6": (6, 2), "f4": (4, 4)}  # registers of a factor, its code
READERS = (
    "$vgpr100 = V_MOV_B32_e32 {last}, implicit $exec",
    "{last} = V_MOV_B32_e32 $vgpr100, implicit $exec",
    "$vgpr64 = V_MOV_B32_e32 $vgpr100, implicit $exec",  # what the product adds to
    "$vgpr64_vgpr65 = GLOBAL_LOAD_DWORDX2 $vgpr100_vgpr101, 0, 0, implicit $exec",
    "GLOBAL_STORE_DWORD $vgpr100_vgpr101, $vgpr0, 0, 0, implicit $exec",
    "DS_WRITE_B32_gfx9 $vgpr100, $vgpr0, 0, 0, implicit $exec",
    "$vgpr0 = DS_READ_B32_gfx9 $vgpr100, 0, 0, implicit $exec",
)


def product(name, result, first, added):
    """A product into the registers from `result` on, of those from `first` on."""
    count, factor, _ = PRODUCTS[name]
    factors = f"{vectors(first, factor)}, {vectors(first + factor, factor)}"
    return (
        f"{vectors(result, count)} = {name}_vgprcd_e64 {factors}, "
        f"{vectors(added, count)}, 0, 0, 0, {PLAIN}"
    )


def product_pairs(target):
    """Each product, then what uses it: vector unit, memory, and all other products."""
    known = [name for name, (*_, targets) in PRODUCTS.items() if target in targets]
    for name in known:
        count = PRODUCTS[name][0]
        first = product(name, 0, 40, 64)
        for reader in READERS:
            yield first, reader.format(last=f"$vgpr{count - 1}")
        for other in known:
            yield first, product(other, 100, 140, 0)  # adds to the result
            yield first, product(other, 100, 140, count - 2)  # to a part of it
            yield first, product(other, 100, 0, 150)  # multiplies it


_COMPARE = f"$vcc = V_CMP_EQ_U32_e64 $vgpr1, $vgpr2, {EXEC}"
_TO_SCALAR = f"$sgpr4 = V_READFIRSTLANE_B32 $vgpr1, {EXEC}"
_ADD = f"$vgpr1 = V_ADD_F32_e32 $vgpr2, $vgpr3, {PLAIN}"
_EXEC = f"V_CMPX_EQ_U32_nosdst_e32 $vgpr1, $vgpr2, implicit-def $exec, {EXEC}"
_DPP = f"$vgpr5 = V_MOV_B32_dpp $vgpr5, $vgpr1, 280, 15, 15, 0, {EXEC}"
_M0 = "$m0 = S_MOV_B32 $sgpr5"
_DOT = f"$vgpr1 = V_DOT4_I32_I8 8, $vgpr2, 8, $vgpr3, 8, $vgpr4, 0, 0, 0, {EXEC}"
_LOAD = "$vgpr8 = GLOBAL_LOAD_DWORD_SADDR $sgpr4_sgpr5, $vgpr9, 0, 0, implicit $exec"
OTHERS = (
    (_TO_SCALAR, _LOAD, EVERY),
    (_TO_SCALAR, "$sgpr6 = S_MOV_B32 $sgpr4", EVERY),
    (_TO_SCALAR, f"$vgpr3 = V_MOV_B32_e32 $sgpr4, {EXEC}", EVERY),
    (_TO_SCALAR, "$sgpr6 = V_READLANE_B32 $vgpr3, $sgpr4", EVERY),
    (_TO_SCALAR, "$vgpr3 = V_WRITELANE_B32 1, $sgpr4, $vgpr3", EVERY),
    (_COMPARE, f"$vgpr3 = V_CNDMASK_B32_e64 0, $vgpr4, 0, $vgpr5, $vcc, {EXEC}", EVERY),
    (_COMPARE, f"$vgpr3 = V_DIV_FMAS_F32_e64 0, $vgpr4, 0, $vgpr5, 0, $vgpr6, 0, 0, "
     f"implicit $vcc, {PLAIN}", EVERY),
    (_ADD, _DPP, EVERY),
    (_ADD, f"$vgpr5 = V_MOV_B32_dpp $vgpr5, $vgpr7, 280, 15, 15, 0, {EXEC}", EVERY),
    (_ADD, f"$sgpr4 = V_READFIRSTLANE_B32 $vgpr1, {EXEC}", EVERY),
    (_ADD, f"$vgpr5 = V_ADD_F32_e32 $vgpr1, $vgpr7, {PLAIN}", EVERY),
    (_ADD, "GLOBAL_STORE_DWORD $vgpr100_vgpr101, $vgpr1, 0, 0, implicit $exec", EVERY),
    (_ADD, product("V_MFMA_F32_16X16X16F16", 0, 0, 64), EVERY),
    (_ADD, product("V_MFMA_F32_16X16X16F16", 20, 40, 0), EVERY),
    (f"$vgpr1 = V_EXP_F32_e32 $vgpr2, {PLAIN}",
     f"$vgpr5 = V_ADD_F32_e32 $vgpr1, $vgpr7, {PLAIN}", EVERY),
    (f"$vgpr1 = V_EXP_F32_e32 $vgpr2, {PLAIN}", f"$vgpr5 = V_RCP_F32_e32 $vgpr1, {PLAIN}", EVERY),
    (_DOT, f"$vgpr5 = V_MOV_B32_e32 $vgpr1, {EXEC}", EVERY),
    (_DOT, f"$vgpr1 = V_MOV_B32_e32 $vgpr5, {EXEC}", EVERY),
    (_DOT, _DOT.replace("$vgpr1 =", "$vgpr6 =").replace("$vgpr4", "$vgpr1"), EVERY),
    (_DOT, _DOT.replace("$vgpr1 =", "$vgpr6 =").replace("$vgpr3", "$vgpr1"), EVERY),
    (f"GLOBAL_STORE_DWORDX4 $vgpr10_vgpr11, $vgpr0_vgpr1_vgpr2_vgpr3, 0, 0, {EXEC}", _ADD, EVERY),
    (f"GLOBAL_STORE_DWORDX2 $vgpr10_vgpr11, $vgpr0_vgpr1, 0, 0, {EXEC}", _ADD, EVERY),
    ("BUFFER_STORE_DWORDX4_OFFSET $vgpr0_vgpr1_vgpr2_vgpr3, $sgpr0_sgpr1_sgpr2_sgpr3, 0, 0, 0, 0, "
     f"{EXEC}", _ADD, EVERY),
    ("BUFFER_STORE_DWORDX4_OFFSET $vgpr0_vgpr1_vgpr2_vgpr3, $sgpr0_sgpr1_sgpr2_sgpr3, $sgpr7, 0, "
     f"0, 0, {EXEC}", _ADD, EVERY),
    (_M0, "S_SENDMSG 1, implicit $exec, implicit $m0", EVERY),
    (_M0, "GLOBAL_LOAD_LDS_DWORD $vgpr10_vgpr11, 0, 0, implicit $m0, implicit $exec", CDNA3),
    (_M0, f"BUFFER_LOAD_DWORD_LDS_OFFSET $sgpr0_sgpr1_sgpr2_sgpr3, 0, 0, 0, 0, {EXEC}, "
     "implicit $m0", EVERY),
    (_M0, "$vgpr8 = DS_READ_ADDTID_B32 0, 0, implicit $m0, implicit $exec", EVERY),
    (_M0, "$sgpr6 = S_MOV_B32 $sgpr7", EVERY),
    ("S_SETREG_B32 $sgpr3, 2177, implicit-def $mode, implicit $mode",
     "$sgpr6 = S_GETREG_B32 2177, implicit $mode", EVERY),
    ("S_SETREG_B32 $sgpr3, 2177, implicit-def $mode, implicit $mode",
     "$sgpr6 = S_GETREG_B32 2178, implicit $mode", EVERY),
    (f"$vgpr1 = V_ADD_U16_sdwa 0, $vgpr2, 0, $vgpr3, 0, 1, 0, 0, 0, {EXEC}", _ADD.replace(
        "$vgpr2", "$vgpr1"), EVERY),
    (f"$vgpr1 = V_CVT_PK_FP8_F32_e64 8, $vgpr2, 0, $vgpr3, $vgpr1, 0, {PLAIN}", _ADD.replace(
        "$vgpr2", "$vgpr1"), CDNA3),
    (_ADD, f"$vgpr1, $vgpr6 = V_PERMLANE16_SWAP_B32_e32 $vgpr1, $vgpr6, {EXEC}", ("gfx950",)),
)  # fmt: skip


def narrow_pairs():
    """Products of 8, 6 and 4 bits, whose passes depend on the format; and sparse ones."""
    for shape, count in (("16X16X128", 4), ("32X32X64", 16)):
        for one, other in (("f8", "f8"), ("f4", "f4"), ("f8", "f4"), ("f6", "f6"), ("f6", "f8")):
            (left, code), (right, also) = NARROW[one], NARROW[other]
            first = (
                f"{vectors(0, count)} = V_MFMA_F32_{shape}_F8F6F4_{one}_{other}_vgprcd_e64 "
                f"{vectors(40, left)}, {vectors(48, right)}, {vectors(64, count)}, {code}, {also}, "
                f"{PLAIN}"
            )
            for reader in READERS:
                yield first, reader.format(last="$vgpr0")
    for index in ("$vgpr60", "$vgpr0"):
        sparse = (
            f"{vectors(0, 4)} = V_SMFMAC_F32_16X16X32_F16_e64 {vectors(40, 2)}, {vectors(48, 4)}, "
            f"{{}}, 0, 0, {vectors(0, 4)}, {PLAIN}"
        )
        yield sparse.format("$vgpr60"), sparse.format(index)
    for reader in READERS:
        yield sparse.format("$vgpr60"), reader.format(last="$vgpr3")


def pairs_of(target):
    """All pairs for a target."""
    found = list(product_pairs(target))
    if target == "gfx950":
        found += narrow_pairs()
    return found + [(first, second) for first, second, targets in OTHERS if target in targets]


def printed(pairs, target, folder):
    """For each pair its two lines of assembly, and the wait states that LLVM puts between."""
    place = folder / "pairs.mir"
    place.write_text(
        "".join(
            f"---\nname: f{at}\nbody: |\n  bb.0:\n    {first}\n    {second}\n    S_ENDPGM 0\n...\n"
            for at, (first, second) in enumerate(pairs)
        )
    )
    command = [LLC, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-filetype=asm"]
    made = subprocess.run(
        [*command, "-start-before=post-RA-hazard-rec", str(place), "-o", "-"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = []
    for body in re.findall(r"^; %bb\.0:\n(.*?)\ts_endpgm", made.stdout, re.S | re.M):
        lines = [line.strip() for line in body.split("\n") if line.strip()]
        nops = [line for line in lines if line.startswith("s_nop")]
        first, second = (line for line in lines if not line.startswith("s_nop"))
        found.append((first, second, sum(int(line.split()[1]) + 1 for line in nops)))
    return found
