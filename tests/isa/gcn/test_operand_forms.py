"""What an assembler refuses is refused: operands, numbers, words. Compared with that of LLVM."""

from __future__ import annotations

import random
import re
import shutil
import subprocess

import pytest

from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.opcodes import ONLY_GFX1250, OPCODES, OpcodeKind, base_name
from titan.isa.gcn.operand_forms import FORMS, forms_of
from titan.isa.gcn.targets import ABSENT

ASSEMBLER = "llvm-mc-22"
HEAD = '\t.amdgcn_target "amdgcn-amd-amdhsa--{}"\nk:\n'
TAIL = "\ns_endpgm\n\t.amdhsa_kernel k\n\t.end_amdhsa_kernel\n"
needs_assembler = pytest.mark.skipif(
    shutil.which(ASSEMBLER) is None, reason=f"{ASSEMBLER} is not installed"
)
REFUSED = """
s_waitcnt vmcnt(64)
s_waitcnt vmcnt(0) & foocnt(0)
s_waitcnt lgkmcnt(16)
v_mov_b32_e32 v2, v9 clamp
s_movk_i32 s9, 0x12345
s_mov_b64 s[11:12], 0
s_load_dwordx4 s[14:17], s[4:5], 0x0
global_load_dwordx2 v[11:12], v1, s[4:5]
global_load_dwordx2 v[10:12], v1, s[4:5]
global_load_dwordx4 v10, v1, s[4:5]
global_store_dwordx4 v1, v10, s[4:5]
ds_read_b128 v10, v9
v_mfma_f32_16x16x16_f16 v[20:21], v[10:11], v[12:13], v[20:21]
v_mfma_f32_16x16x16_f16 a[20:23], v[10:11], v[12:13], v[20:23]
ds_write_b32 v1, v9 offset:65536
ds_write2_b32 v1, v9, v9 offset0:0 offset1:256
global_store_dword v1, v9, s[4:5] offset:4096
buffer_store_dword v9, v1, s[12:15], 0
buffer_store_dword v9, v1, s[12:15], 0 idxen offen
global_store_dword v1, v9, s[4:5] bogus
global_store_dword v1, v9, s[4:5] offse:16
s_mov_b32 5, s9
s_mov_b32 s9, 0x123456789
v_lshl_add_u32 v2, v1, 0x12345, v9
v_add_u32_e64 v2, s4, s5
v_add_u32_e32 v2, v1
v_add_u32_e32 v2, v1, v9, v9
v_add_u32_e32 v2, a1, v9
v_add_u32_e32 v2, v9, s4
v_add_f16_e32 v2, 0x3f800000, v9
s_add_u32 s4, 0x12345, 0x54321
v_mfma_f32_16x16x16_f16 v[20:23], v[10:11], v[12:13], v[20:23] cbsz:8
ds_write2_b32 v1, a2, v3
ds_read_b32 v1, v2 glc
buffer_inv v1
v_accvgpr_write_b32 v1, v2
v_readfirstlane_b32 v1, v2
s_add_u32 s1, v2, s3
""".strip().split("\n")
TAKEN = """
s_waitcnt vmcnt(0) lgkmcnt(0)
s_waitcnt vmcnt(0) & lgkmcnt(0)
s_waitcnt vmcnt_sat(64)
s_waitcnt 0x3f70
s_movk_i32 s9, -1
s_mov_b64 s[10:11], 0x12345678
s_load_dword s6, s[0:1], s3 offset:0x10
v_mov_b32 v[3], s[4]
v_mov_b32_dpp v2, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:0
v_add_u32_sdwa v2, v1, v9 dst_sel:DWORD src0_sel:BYTE_0 src1_sel:WORD_1
v_add_u32 v2, 0x12345, v9
v_add_f16_e32 v2, 1.5, v9
v_cndmask_b32_e64 v2, -v1, |v9|, s[4:5]
v_cmp_lt_f32_e32 vcc, 0x40490fdb, v9
v_mfma_f32_16x16x16_f16 v[20:23], v[10:11], a[12:13], 0 cbsz:1 abid:3 blgp:2
v_accvgpr_write_b32 a1, 1.0
buffer_store_dword v9, v[2:3], s[12:15], s5 idxen offen offset:4095
buffer_load_dword off, s[12:15], 0 lds
buffer_load_dword v1, s[12:15], 0 offen lds
global_store_dword v1, v9, s[4:5] offset:-4096
global_store_dwordx2 v[2:3], v[4:5], off
ds_read2st64_b64 v[4:7], v1 offset0:1 offset1:255
ds_swizzle_b32 v1, v2 offset:swizzle(SWAP,16)
ds_write_b32 v1, a2
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1
s_getreg_b32 s4, hwreg(HW_REG_MODE)
s_mov_b64 s[4:5], src_shared_base
v_writelane_b32 v1, s2, m0
s_cselect_b64 vcc, -1, 0
buffer_wbl2 sc1
buffer_inv sc0 sc1
s_nop 7
s_sleep 0x7f
""".strip().split("\n")


def faults(lines, target):
    """The numbers of the lines that are refused, from 0 on."""
    text = HEAD.format(target) + "\n".join(lines) + TAIL
    found, errors = set(), []
    for start in range(0, len(lines), 90):  # the reader gives up after a hundred faults
        part = lines[start : start + 90]
        text = HEAD.format(target) + "\n".join(part) + TAIL
        _, errors = parse_assembly(Source("k.s", text))
        found |= {start + error.span.start_line - 3 for error in errors}
    return {number for number in found if number < len(lines)}


def refused(lines, target):
    """Those that the assembler refuses."""
    made = subprocess.run(
        [ASSEMBLER, "-triple=amdgcn", f"-mcpu={target}"],
        input="\n".join(lines), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {int(line) - 1 for line in re.findall(r"<stdin>:(\d+):\d+: error", made.stderr)}


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_no_such_operands_or_words(target):
    assert faults(REFUSED, target) == set(range(len(REFUSED)))
    assert faults(TAKEN, target) == set()


@needs_assembler
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_the_assembler_agrees_about_the_lists(target):
    assert refused(REFUSED, target) == set(range(len(REFUSED)))
    assert refused(TAKEN, target) == set()


def test_every_instruction_has_forms():
    exempt = {"s_waitcnt", "s_sendmsg", "s_sendmsghalt"}
    exempt |= {name for name, one in OPCODES.items() if one.kind is OpcodeKind.CACHE}
    for name in OPCODES.keys() - ONLY_GFX1250 - exempt:
        assert forms_of(name) or name.startswith(("s_branch", "s_cbranch_")), name


def _operand(kinds, chance):
    kind = chance.choice(sorted(kinds))
    if kind == "i":
        return chance.choice(["1", "-16", "64", "1.0", "0"])
    if kind in ("h", "l"):
        return {"h": "0x1234", "l": "0x12345678"}[kind]
    if kind == "hwreg":
        return "hwreg(HW_REG_MODE, 0, 8)"
    if kind == "gpr_idx":
        return "gpr_idx(SRC0)"
    if kind == "off":
        return "off"
    if kind == "vcc":
        return "vcc"
    bank, count = kind[0], int(kind[1:])
    first = 4 * chance.randrange(1, 12)
    return f"{bank}{first}" if count == 1 else f"{bank}[{first}:{first + count - 1}]"


def _line(name, chance, coherent):
    form = chance.choice(FORMS[name])
    operands = [_operand(kinds, chance) for kinds in form.operands]
    options = sorted(form.options - {"returns"})
    returned = {"returns"} & form.options
    options += [coherent] if returned else []
    options += ["row_shl:1"] if name.endswith("_dpp") else []
    return name, operands, options


def _text(name, operands, options):
    return f"{name} {', '.join(operands)} {' '.join(options)}".rstrip()


def _wrong(name, operands, options, chance):
    """The same with another operand, one less, one more, or another word behind it."""
    operands, options = list(operands), list(options)
    at = chance.randrange(len(operands)) if operands else 0
    others = ["v4", "v[4:5]", "v5", "v[5:6]", "v[4:7]", "a4", "a[4:5]", "s4", "s[4:5]", "s[5:6]"]
    others += ["s[4:7]", "s[6:9]", "7", "0x12345", "0x12345678", "0x123456789", "off", "vcc", "1.5"]
    match chance.randrange(6):
        case 0 if len(operands) > 1:
            del operands[at]
        case 1:
            operands.append(chance.choice(others))
        case 2:
            words = (
                "offset:70000",
                "offset:5000",
                "offen",
                "idxen",
                "bogus",
                "quad_perm:[0,1,2,3]",
            )
            options.append(chance.choice(words))
        case _ if operands:
            operands[at] = chance.choice(others)
    return name, operands, options


@needs_assembler
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_what_the_assembler_refuses_is_refused(target):
    """Forms of the table as they are, and changed in one place."""
    chance = random.Random(target)
    names = [name for name in sorted(FORMS) if base_name(name) not in ABSENT[target]]
    lines = []
    for name in names:
        for _ in range(3):
            right = _line(name, chance, "glc" if target == "gfx90a" else "sc0")
            lines += [_text(*right), *(_text(*_wrong(*right, chance)) for _ in range(2))]
    lines = sorted(set(lines))
    theirs, ours = refused(lines, target), faults(lines, target)
    assert len(theirs) > 3000 and len(lines) - len(theirs) > 3000
    assert len(theirs - ours) < len(theirs) / 40, [lines[number] for number in theirs - ours]
    assert len(ours - theirs) < len(lines) / 40, [lines[number] for number in ours - theirs]
