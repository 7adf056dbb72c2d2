"""Which instructions and modifiers a target does not have: an assembler would refuse them.

A kernel that uses one is no program of its target, whatever it would do. Source: the LLVM
assembler, which a test asks for every name of the table of instructions and every target.
"""

from __future__ import annotations

from titan.isa.gcn.module import AssemblyInstruction
from titan.isa.gcn.names_gfx1250 import TARGET
from titan.isa.gcn.opcodes import ONLY_GFX1250, expanded

_MIXES = "{fp8,bf8}_{fp8,bf8}"
# Names by the targets that do not have them.
_ABSENT: dict[tuple[str, ...], str] = {
    ("gfx90a", "gfx942"): f"""
        buffer_atomic_pk_add_bf16 ds_read_b64_tr_{{b4,b8,b16}} ds_read_b96_tr_b6
        global_load_lds_{{dwordx3,dwordx4}} v_ashr_pk_{{i8,u8}}_i32 v_bitop3_{{b16,b32}}
        v_cvt_{{f32_bf16,pk_bf16_f32,pk_f16_f32,sr_bf16_f32,sr_f16_f32}}
        v_cvt_scalef32_2xpk16_{{bf6,fp6}}_f32 v_cvt_scalef32_{{f16,f32}}_{{bf8,fp8}}
        v_cvt_scalef32_pk32_{{bf16,f16,f32}}_{{bf6,fp6}}
        v_cvt_scalef32_pk32_{{bf6,fp6}}_{{bf16,f16}}
        v_cvt_scalef32_pk_{{bf16,f16,f32}}_{{bf8,fp4,fp8}}
        v_cvt_scalef32_pk_{{bf8,fp4,fp8}}_{{bf16,f16,f32}}
        v_cvt_scalef32_sr_{{bf8,fp8}}_{{bf16,f16,f32}} v_cvt_scalef32_sr_pk_fp4_{{bf16,f16,f32}}
        v_dot2_f32_bf16 v_dot2c_f32_bf16 v_{{minimum3,maximum3}}_f32 v_pk_{{minimum3,maximum3}}_f16
        v_mfma_{{f32,scale_f32}}_{{16x16x128,32x32x64}}_f8f6f4
        v_mfma_f32_{{16x16x32,32x32x16}}_{{bf16,f16}} v_mfma_i32_{{16x16x64,32x32x32}}_i8
        v_permlane{{16,32}}_swap_b32 v_prng_b32 v_smfmac_f32_{{16x16x128,32x32x64}}_{_MIXES}
        v_smfmac_f32_{{16x16x64,32x32x32}}_{{bf16,f16}} v_smfmac_i32_{{16x16x128,32x32x64}}_i8""",
    ("gfx90a",): f"""
        buffer_inv ds_pk_add_{{bf16,f16}} ds_pk_add_rtn_{{bf16,f16}}
        flat_atomic_{{add_f32,pk_add_bf16,pk_add_f16}} global_atomic_pk_add_bf16
        {{global,scratch}}_load_lds_{{dword,sbyte,sshort,ubyte,ushort}}
        v_cvt_{{f32_bf8,f32_fp8,pk_f32_bf8,pk_f32_fp8,pk_bf8_f32,pk_fp8_f32,sr_bf8_f32,sr_fp8_f32}}
        v_{{fmaak,fmamk}}_f32 v_lshl_add_u64 v_mov_b64
        v_mfma_f32_{{16x16x1_4b,32x32x1_2b,4x4x1_16b,16x16x4,32x32x2}}_f32
        v_mfma_f32_{{16x16x16,16x16x4_4b,32x32x4_2b,32x32x8,4x4x4_16b}}_{{bf16,f16}}
        v_mfma_f32_{{16x16x32,32x32x16}}_{_MIXES} v_mfma_f32_{{16x16x8,32x32x4}}_xf32
        v_mfma_f64_{{16x16x4_f64,4x4x4_4b_f64}} v_mfma_i32_{{16x16x32,32x32x16}}{{_i8,i8}}
        v_mfma_i32_{{16x16x4_4b,32x32x4_2b,4x4x4_16b}}_i8
        v_smfmac_f32_{{16x16x32,32x32x16}}_{{bf16,f16}}
        v_smfmac_f32_{{16x16x64,32x32x32}}_{_MIXES} v_smfmac_i32_{{16x16x64,32x32x32}}_i8""",
    ("gfx942", "gfx950"): """
        buffer_invl2 buffer_wbinvl1{,_vol} v_mac_f32 v_mad_legacy_f32 v_mad{ak,mk}_f32
        v_mfma_f32_{16x16x2,16x16x8,32x32x2,4x4x2}bf16
        v_mfma_i32_{16x16x16,32x32x8}i8""",
    ("gfx950",): "v_mfma_f32_{16x16x8,32x32x4}_xf32",
}
# Words behind the operands that say for whom an access is coherent.
_WORDS = {
    "gfx90a": frozenset(("glc", "slc", "scc")),
    "gfx942": frozenset(("sc0", "sc1", "nt")),
    "gfx950": frozenset(("sc0", "sc1", "nt")),
}
_COHERENCE = frozenset(word for words in _WORDS.values() for word in words)
_MEMORY = ("global_", "flat_", "scratch_", "buffer_")
# Ends of the names of loads that copy to LDS: a word at most, or 12 and 16 bytes too.
_COPIED = ("byte", "short", "dword")
_COPIED_WIDE = ("dwordx3", "dwordx4")


def _absent() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {target: set() for target in _WORDS}
    for targets, text in _ABSENT.items():
        for pattern in text.split():
            for target in targets:
                found[target].update(expanded(pattern))
    return {target: frozenset(names) for target, names in found.items()}


ABSENT = _absent()


def lacking(item: AssemblyInstruction, target: str) -> str:
    """What of an instruction the target does not have; empty where it has all of it."""
    if target == TARGET:
        return ""  # only what it has is read
    if item.base in ABSENT.get(target, ()) or item.base in ONLY_GFX1250:
        return item.opcode
    words = _WORDS.get(target)
    if words is None or not item.base.startswith(_MEMORY):
        return ""
    for word in item.options:
        if word in _COHERENCE and word not in words:
            return f"{word} behind {item.opcode}"
    if "lds" in item.options and not _copies(item.base, target):
        return f"{item.opcode} to LDS"
    return ""


def loads_half(item: AssemblyInstruction) -> bool:
    """Whether it loads 16 bits to one half of a register."""
    return "_d16" in item.base and ("_load_" in item.base or item.base.startswith("ds_read_"))


def _copies(base: str, target: str) -> bool:
    """Whether a load has a form that copies to LDS."""
    if not base.startswith("buffer_load_") and (target != "gfx90a" or "global_load_" not in base):
        return False
    return base.endswith(_COPIED) or (target == "gfx950" and base.endswith(_COPIED_WIDE))
