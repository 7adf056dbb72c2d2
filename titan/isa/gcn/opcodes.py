"""The instructions of AMD GPUs as a table: what each writes, and what counts it.

A name is that of the assembler without the suffix of its encoding (`_e32`, `_e64`, `_dpp`,
`_sdwa`). Those of gfx1250 that older targets have are read under their older names
(`names_gfx1250.py`). Which counter an operation increments is a fact of its kind (`COUNTED`);
legality states the same of whole operations in `backends/*/completion.yaml`, and a test compares
the two.
Sources: CDNA3 and CDNA4 instruction set architecture, chapters 5 to 11; the LLVM assembler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product


class OpcodeKind(StrEnum):
    """The unit that executes an instruction."""

    SCALAR = "scalar"
    CONTROL = "control"
    SCALAR_MEMORY = "scalar memory"
    VECTOR = "vector"
    MATRIX = "matrix"
    LDS = "lds"
    CROSS_LANE = "cross lane"  # goes through LDS, touches none of its bytes
    GLOBAL = "global"
    FLAT = "flat"
    SCRATCH = "scratch"
    BUFFER = "buffer"
    CACHE = "cache"
    TENSOR = "tensor"  # the tensor data mover of gfx1250


# CDNA3, 4.4: data and its counter. LDS and scalar memory share lgkmcnt and are unordered with each
# other; operations of vector memory return in the order of issue, loads and stores alike.
COUNTED: dict[OpcodeKind, tuple[str, ...]] = {
    OpcodeKind.SCALAR_MEMORY: ("lgkmcnt",),
    OpcodeKind.LDS: ("lgkmcnt",),
    OpcodeKind.CROSS_LANE: ("lgkmcnt",),
    OpcodeKind.GLOBAL: ("vmcnt",),
    OpcodeKind.SCRATCH: ("vmcnt",),
    OpcodeKind.BUFFER: ("vmcnt",),
    OpcodeKind.CACHE: ("vmcnt",),
    OpcodeKind.FLAT: ("vmcnt", "lgkmcnt"),
}


@dataclass(frozen=True, slots=True)
class GcnOpcode:
    """`results`: how many of the first operands are written. `both`: these are read as well."""

    name: str
    kind: OpcodeKind
    results: int
    both: bool = False


_BRACES = re.compile(r"\{([^{}]*)\}")


def expanded(pattern: str) -> list[str]:
    """`v_{add,sub}_f32` as its two names."""
    pieces = _BRACES.split(pattern)
    choices = [[piece] if at % 2 == 0 else piece.split(",") for at, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in product(*choices)]


_COMPARISONS = "{f,lt,eq,le,gt,ne,ge,t}"
_REAL_COMPARISONS = "{f,lt,eq,le,gt,lg,ge,o,u,nge,nlg,ngt,nle,neq,nlt,tru}"
_SCALAR_SIZES = "{dword,dwordx2,dwordx4}"
_ATOMICS = "{swap,cmpswap,add,sub,smin,umin,smax,umax,and,or,xor,inc,dec}"

# Patterns by kind and number of results; `+` in front: the results are read as well.
_PATTERNS: dict[tuple[OpcodeKind, int], str] = {
    (OpcodeKind.CONTROL, 0): """
        s_nop s_endpgm s_branch s_cbranch_{scc0,scc1,vccz,vccnz,execz,execnz} s_barrier s_waitcnt
        s_setprio s_sleep s_sethalt s_trap s_icache_inv s_incperflevel s_decperflevel s_ttracedata
        s_endpgm_saved s_wakeup s_set_gpr_idx_off s_set_gpr_idx_mode s_sendmsg s_sendmsghalt
        s_setkill s_cbranch_{cdbgsys,cdbguser,cdbgsys_or_user,cdbgsys_and_user} s_setpc_b64
        s_set_gpr_idx_on s_setvskip s_setreg_b32 s_setreg_imm32_b32 s_rfe_b64 s_cbranch_join""",
    (OpcodeKind.CONTROL, 1): "s_getpc_b64 s_swappc_b64 s_call_b64 s_getreg_b32",
    (OpcodeKind.SCALAR, 0): """
        s_cmp_{eq,lg,gt,ge,lt,le}_{i32,u32} s_cmp_{eq,lg}_u64
        s_cmpk_{eq,lg,gt,ge,lt,le}_{i32,u32} s_bitcmp{0,1}_{b32,b64}""",
    (OpcodeKind.SCALAR, 1): """
        s_{mov,cmov,not,wqm,brev,quadmask}_{b32,b64} s_{bcnt0,bcnt1,ff0,ff1}_i32_{b32,b64}
        s_flbit_i32_{b32,b64,i64} s_flbit_i32 s_sext_i32_{i8,i16} s_abs_i32
        s_{and,or,xor,andn2,orn2,nand,nor,xnor,andn1,orn1}_saveexec_b64 s_{andn1,andn2}_wrexec_b64
        s_bitreplicate_b64_b32 s_movk_i32 s_cmovk_i32 s_bitset{0,1}_{b32,b64}
        s_{add,sub,addc,subb}_u32 s_{add,sub,mul}_i32 s_{min,max}_{i32,u32} s_absdiff_i32
        s_cselect_{b32,b64} s_{and,or,xor,andn2,orn2,nand,nor,xnor}_{b32,b64}
        s_{lshl,lshr}_{b32,b64} s_ashr_{i32,i64} s_bfm_{b32,b64} s_bfe_{u32,i32,u64,i64}
        s_mul_hi_{u32,i32} s_lshl{1,2,3,4}_add_u32 s_pack_{ll,lh,hh}_b32_b16
        s_movrels_{b32,b64}""",
    (OpcodeKind.SCALAR_MEMORY, 1): """
        s_load_{dword,dwordx2,dwordx4,dwordx8,dwordx16}
        s_buffer_load_{dword,dwordx2,dwordx4,dwordx8,dwordx16} s_memtime s_memrealtime
        s_scratch_load_{dword,dwordx2,dwordx4}""",
    (OpcodeKind.SCALAR_MEMORY, 0): f"""
        s_dcache_{{inv,wb,inv_vol,wb_vol}} s_atomic_{_ATOMICS}{{,_x2}}
        s_buffer_atomic_{_ATOMICS}{{,_x2}} s_{{,buffer_,scratch_}}store_{_SCALAR_SIZES}""",
    (OpcodeKind.CACHE, 0): "buffer_inv buffer_wbl2 buffer_wbinvl1{,_vol} buffer_invl2",
    (OpcodeKind.VECTOR, 0): "v_nop v_clrexcp",
    (OpcodeKind.VECTOR, 1): f"""
        v_cmp_{_COMPARISONS}_{{i16,u16,i32,u32,i64,u64}} v_cmp_{_REAL_COMPARISONS}_{{f16,f32,f64}}
        v_cmpx_{_COMPARISONS}_{{i16,u16,i32,u32,i64,u64}}
        v_cmpx_{_REAL_COMPARISONS}_{{f16,f32,f64}} v_{{cmp,cmpx}}_class_{{f16,f32,f64}}
        v_mov_{{b32,b64}} v_accvgpr_{{read,write}}_b32 v_accvgpr_mov_b32 v_readfirstlane_b32
        v_readlane_b32 v_cndmask_b32 v_{{not,bfrev}}_b32 v_ffbh_{{u32,i32}} v_ffbl_b32
        v_cvt_{{f64_i32,i32_f64,f32_i32,f32_u32,u32_f32,i32_f32,f16_f32,f32_f16,f32_f64,f64_f32}}
        v_cvt_{{rpi_i32_f32,flr_i32_f32,off_f32_i4,f32_ubyte0,f32_ubyte1,f32_ubyte2,f32_ubyte3}}
        v_cvt_{{u32_f64,f64_u32,f16_u16,f16_i16,u16_f16,i16_f16,norm_i16_f16,norm_u16_f16}}
        v_cvt_{{pk_i16_i32,pk_u16_u32,pkrtz_f16_f32,pknorm_i16_f32,pknorm_u16_f32,pk_u8_f32}}
        v_cvt_{{pknorm_i16_f16,pknorm_u16_f16,pk_fp8_f32,pk_bf8_f32,sr_fp8_f32,sr_bf8_f32}}
        v_cvt_{{f32_fp8,f32_bf8,pk_f32_fp8,pk_f32_bf8,pk_bf16_f32,pk_f16_f32,sr_f16_f32}}
        v_cvt_{{sr_bf16_f32,f32_bf16}} v_cvt_scalef32_{{f16,f32}}_{{fp8,bf8}}
        v_cvt_scalef32_pk_{{f16,bf16,f32}}_{{fp4,fp8,bf8}}
        v_cvt_scalef32_pk_{{fp4,fp8,bf8}}_{{f32,f16,bf16}}
        v_cvt_scalef32_pk32_{{f32,f16,bf16}}_{{fp6,bf6}}
        v_cvt_scalef32_pk32_{{fp6,bf6}}_{{f16,bf16}} v_cvt_scalef32_2xpk16_{{fp6,bf6}}_f32
        v_cvt_scalef32_sr_{{fp8,bf8}}_{{f32,f16,bf16}}
        v_cvt_scalef32_sr_pk_fp4_{{f32,f16,bf16}}
        v_{{fract,trunc,ceil,rndne,floor,rcp,rsq,sqrt}}_{{f16,f32,f64}}
        v_{{exp,log,sin,cos}}_{{f16,f32}} v_rcp_iflag_f32 v_{{exp,log}}_legacy_f32
        v_frexp_exp_i32_{{f32,f64}} v_frexp_exp_i16_f16 v_frexp_mant_{{f16,f32,f64}}
        v_screen_partition_4se_b32
        v_sat_pk_u8_i16 v_prng_b32
        v_{{add,sub,mul}}_{{f16,f32}} v_subrev_{{f16,f32,u16,u32}} v_{{add,mul}}_f64
        v_mul_legacy_f32 v_{{add,sub}}_{{u16,u32,i16,i32}}
        v_mul_{{i32_i24,hi_i32_i24,u32_u24,hi_u32_u24,lo_u16,lo_u32,hi_u32,hi_i32}}
        v_{{min,max}}_{{f16,f32,f64,i16,u16,i32,u32}} v_{{lshrrev,lshlrev}}_{{b16,b32,b64}}
        v_ashrrev_{{i16,i32,i64}} v_{{and,or,xor,xnor}}_b32 v_ldexp_{{f16,f32,f64}}
        v_{{fmaak,fmamk}}_f32 v_{{madak,madmk}}_f32 v_mad_{{i32_i24,u32_u24}}
        v_mad_{{i16,u16,i32_i16,u32_u16,legacy_f32,legacy_u16,legacy_i16}} v_fma_legacy_f16
        v_cube{{id,sc,tc,ma}}_f32 v_bfe_{{u32,i32}} v_bfi_b32 v_fma_{{f16,f32,f64}}
        v_lerp_u8 v_alignbit_b32 v_alignbyte_b32 v_{{min3,max3,med3}}_{{f16,f32,i16,u16,i32,u32}}
        v_{{minimum3,maximum3}}_f32 v_sad_{{u8,hi_u8,u16,u32}} v_div_fixup_{{f16,f32,f64}}
        v_div_fmas_{{f32,f64}} v_msad_u8 v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8 v_mqsad_u32_u8
        v_perm_b32 v_bitop3_{{b16,b32}} v_lshl_add_{{u32,u64}} v_add_lshl_u32 v_add3_u32 v_xad_u32
        v_lshl_or_b32 v_and_or_b32 v_or3_b32 v_trig_preop_f64 v_bfm_b32 v_bcnt_u32_b32
        v_mbcnt_{{lo,hi}}_u32_b32 v_pack_b32_f16 v_ashr_pk_{{i8,u8}}_i32
        v_pk_{{mad_i16,mul_lo_u16,add_i16,sub_i16,lshlrev_b16,lshrrev_b16,ashrrev_i16}}
        v_pk_{{max_i16,min_i16,mad_u16,add_u16,sub_u16,max_u16,min_u16,fma_f16,add_f16}}
        v_pk_{{mul_f16,min_f16,max_f16,fma_f32,mul_f32,add_f32,mov_b32}}
        v_pk_{{minimum3,maximum3}}_f16 v_fma_{{mix_f32,mixlo_f16,mixhi_f16}}
        v_dot2_{{f32_f16,i32_i16,u32_u16,f32_bf16}} v_dot4_{{i32_i8,u32_u8}}
        v_dot8_{{i32_i4,u32_u4}}""",
    (OpcodeKind.VECTOR, 2): """
        v_{add,sub,subrev}_co_u32 v_{addc,subb,subbrev}_co_u32 v_div_scale_{f32,f64}
        v_mad_{u64_u32,i64_i32}""",
    (OpcodeKind.MATRIX, 1): """
        v_mfma_f32_{32x32x1_2b,16x16x1_4b,4x4x1_16b,32x32x2,16x16x4}_f32
        v_mfma_f32_{32x32x1,16x16x1,4x4x1,32x32x2,16x16x4}f32
        v_mfma_f32_{32x32x4_2b,16x16x4_4b,4x4x4_16b,32x32x8,16x16x16,32x32x16,16x16x32}_f16
        v_mfma_f32_{32x32x4,16x16x4,4x4x4,32x32x8,16x16x16}f16
        v_mfma_f32_{32x32x4_2b,16x16x4_4b,4x4x4_16b,32x32x8,16x16x16,32x32x16,16x16x32}_bf16
        v_mfma_f32_{32x32x4,16x16x4,4x4x4,32x32x8,16x16x16}bf16_1k
        v_mfma_f32_{32x32x2,16x16x2,4x4x2,32x32x4,16x16x8}bf16
        v_mfma_i32_{32x32x4_2b,16x16x4_4b,4x4x4_16b,32x32x16,16x16x32,32x32x32,16x16x64}_i8
        v_mfma_i32_{32x32x4,16x16x4,4x4x4,32x32x8,16x16x16}i8
        v_mfma_i32_{32x32x16,16x16x32}i8
        v_mfma_f32_{16x16x8,32x32x4}_xf32 v_mfma_f64_{16x16x4_f64,4x4x4_4b_f64}
        v_mfma_f64_{16x16x4f64,4x4x4f64}
        v_mfma_f32_{16x16x32,32x32x16}_{fp8,bf8}_{fp8,bf8}
        v_mfma_f32_{16x16x128,32x32x64}_f8f6f4 v_mfma_scale_f32_{16x16x128,32x32x64}_f8f6f4""",
    (OpcodeKind.LDS, 0): """
        ds_write_{b8,b16,b32,b64,b96,b128,b8_d16_hi,b16_d16_hi} ds_write2_{b32,b64}
        ds_write2st64_{b32,b64} ds_write_addtid_b32
        ds_{add,sub,rsub,inc,dec,min,max}_{u32,u64} ds_{min,max}_{i32,i64} ds_{and,or,xor}_{b32,b64}
        ds_{add,min,max}_{f32,f64} ds_mskor_{b32,b64} ds_cmpst_{b32,b64,f32,f64}
        ds_pk_add_{f16,bf16} ds_nop""",
    (OpcodeKind.LDS, 1): """
        ds_read_{b32,b64,b96,b128,u8,i8,u16,i16} ds_read_{u8,i8,u16}_{d16,d16_hi}
        ds_read2_{b32,b64} ds_read2st64_{b32,b64} ds_read_addtid_b32
        ds_read_b64_tr_{b4,b8,b16} ds_read_b96_tr_b6
        ds_{add,sub,rsub,inc,dec,min,max}_rtn_{u32,u64} ds_{min,max}_rtn_{i32,i64}
        ds_{and,or,xor,mskor,wrxchg,cmpst}_rtn_{b32,b64} ds_{add,min,max}_rtn_{f32,f64}
        ds_cmpst_rtn_{f32,f64} ds_wrxchg2_rtn_{b32,b64} ds_wrxchg2st64_rtn_{b32,b64}
        ds_wrap_rtn_b32 ds_condxchg32_rtn_b64 ds_pk_add_rtn_{f16,bf16} ds_consume ds_append""",
    (OpcodeKind.CROSS_LANE, 1): "ds_{permute,bpermute}_b32 ds_swizzle_b32",
}  # fmt: skip
_READ_AS_WELL = {
    (OpcodeKind.VECTOR, 1): """
        v_fmac_{f32,f64} v_mac_{f16,f32} v_writelane_b32 v_pk_fmac_f16
        v_dot{2c_f32_f16,2c_i32_i16,4c_i32_i8,8c_i32_i4,2c_f32_bf16}""",
    (OpcodeKind.VECTOR, 2): "v_swap_b32 v_permlane{16,32}_swap_b32",
    (OpcodeKind.SCALAR, 1): "s_{add,mul}k_i32",
    (OpcodeKind.MATRIX, 1): """
        v_smfmac_f32_{16x16x32,32x32x16,16x16x64,32x32x32}_{f16,bf16}
        v_smfmac_i32_{16x16x64,32x32x32,16x16x128,32x32x64}_i8
        v_smfmac_f32_{16x16x64,32x32x32,16x16x128,32x32x64}_{fp8,bf8}_{fp8,bf8}""",
}
_SIZES = "{ubyte,sbyte,ushort,sshort,dword,dwordx2,dwordx3,dwordx4}"
_NARROW = "{ubyte_d16,ubyte_d16_hi,sbyte_d16,sbyte_d16_hi,short_d16,short_d16_hi}"
_STORED = "{byte,short,dword,dwordx2,dwordx3,dwordx4,byte_d16_hi,short_d16_hi}"
_TO_LDS = "{ubyte,sbyte,ushort,sshort,dword,dwordx3,dwordx4}"
_SHORT_TO_LDS = "{ubyte,sbyte,ushort,sshort,dword}"
for _kind, _prefix in (
    (OpcodeKind.GLOBAL, "global"), (OpcodeKind.FLAT, "flat"), (OpcodeKind.SCRATCH, "scratch"),
    (OpcodeKind.BUFFER, "buffer"),
):  # fmt: skip
    _PATTERNS[(_kind, 1)] = f"{_prefix}_load_{_SIZES} {_prefix}_load_{_NARROW}"
    _none = f"{_prefix}_store_{_STORED}"
    if _prefix in ("global", "scratch"):
        _none += f" {_prefix}_load_lds_{_TO_LDS if _prefix == 'global' else _SHORT_TO_LDS}"
    if _prefix != "scratch":
        _none += f" {_prefix}_atomic_{_ATOMICS} {_prefix}_atomic_{_ATOMICS}_x2"
        _none += f" {_prefix}_atomic_{{add_f32,pk_add_f16,pk_add_bf16,add_f64,min_f64,max_f64}}"
    if _prefix == "buffer":
        _PATTERNS[(_kind, 1)] += (
            " buffer_load_format_{x,xy,xyz,xyzw,d16_x,d16_xy,d16_xyz,d16_xyzw,d16_hi_x}"
        )
        _none += " buffer_store_format_{x,xy,xyz,xyzw,d16_x,d16_xy,d16_xyz,d16_xyzw,d16_hi_x}"
    _PATTERNS[(_kind, 0)] = _none


def _table(
    plain: Mapping[tuple[OpcodeKind, int], str], read_as_well: Mapping[tuple[OpcodeKind, int], str]
) -> dict[str, GcnOpcode]:
    table: dict[str, GcnOpcode] = {}
    for patterns, both in ((plain, False), (read_as_well, True)):
        for (kind, results), text in patterns.items():
            for pattern in text.split():
                for name in expanded(pattern):
                    table[name] = GcnOpcode(name, kind, results, both)
    return table


# What no older target has (`names_gfx1250.py`), by kind and number of results.
_NEW: dict[tuple[OpcodeKind, int], str] = {
    (OpcodeKind.CONTROL, 0): """
        s_wait_{loadcnt,storecnt,dscnt,kmcnt,xcnt,asynccnt,tensorcnt,loadcnt_dscnt,storecnt_dscnt}
        s_wait_idle s_wait_alu s_delay_alu s_clause s_setprio_inc_wg s_set_vgpr_msb
        s_barrier_{signal,wait} s_barrier_{init,join,leave} s_barrier_signal_isfirst
        s_wakeup_barrier s_sleep_var s_monitor_sleep s_alloc_vgpr s_version s_code_end
        cluster_load_async_to_lds_b{8,32,64,128} ds_atomic_async_barrier_arrive_b64""",
    (OpcodeKind.CONTROL, 1): """
        s_get_barrier_state s_get_shader_cycles_u64 cluster_load_b{32,64,128}
        ds_atomic_barrier_arrive_rtn_b64""",
    (OpcodeKind.SCALAR, 0): "s_cmp_{lt,eq,le,gt,lg,ge,o,u,nge,nlg,ngt,nle,neq,nlt}_f32",
    (OpcodeKind.SCALAR, 1): """
        s_{add,sub}_nc_u64 s_mul_u64 s_cvt_{f32_u32,f32_i32,u32_f32,i32_f32}
        s_{add,sub,mul,min_num,max_num}_f32 s_{trunc,floor,ceil,rndne}_f32 s_pack_hl_b32_b16
        s_{fmaak,fmamk,minimum,maximum}_f32 s_cvt_{f16_f32,f32_f16,hi_f32_f16,pk_rtz_f16_f32}
        s_{add,sub,mul,min_num,max_num}_f16""",
    (OpcodeKind.SCALAR_MEMORY, 1): """
        s_load_dwordx3 s_buffer_load_dwordx3 s_load_{i8,u8,i16,u16} s_sendmsg_rtn_{b32,b64}""",
    (OpcodeKind.SCALAR_MEMORY, 0): "s_prefetch_{data,inst}{,_pc_rel} s_buffer_prefetch_data",
    (OpcodeKind.CACHE, 0): "global_{inv,wb,wbinv}",
    (OpcodeKind.GLOBAL, 0): """
        global_prefetch_b8 global_load_async_to_lds_b{8,32,64,128}
        global_store_async_from_lds_b{8,32,64,128}""",
    (OpcodeKind.GLOBAL, 1): "global_load_{tr16_b128,tr8_b64,tr6_b96,tr4_b64}",
    (OpcodeKind.TENSOR, 0): "tensor_load_to_lds tensor_store_from_lds",
    (OpcodeKind.LDS, 0): "ds_{cond_sub,sub_clamp}_u32",
    (OpcodeKind.LDS, 1): """
        ds_load_{tr16_b128,tr8_b64,tr6_b96,tr4_b64} ds_{cond_sub,sub_clamp}_rtn_u32""",
    (OpcodeKind.CROSS_LANE, 1): "ds_bpermute_fi_b32",
    (OpcodeKind.VECTOR, 1): """
        v_{add,sub}_nc_u64 v_mul_u64 v_{min,max}_{i64,u64} v_s_{exp,log,rcp,rsq,sqrt}_f32
        v_mov_b16 v_cndmask_b16 v_{and,or,xor}_b16 v_not_b16 v_{minimum,maximum}_f32
        v_tanh_{f16,f32,bf16} v_{exp,log,rcp,rsq,sqrt}_bf16 v_permlane{16,x16}_b32
        v_pk_{add,mul,fma}_bf16 v_pk_{min,max}_num_bf16
        v_permlane_{bcast,up,down,xor,idx_gen}_b32 v_permlane64_b32 v_permlane{16,x16}_var_b32
        v_mad_u32 v_mad_nc_{u64_u32,i64_i32} v_add_{max,min}_{i32,u32} v_xor3_b32
        v_{maxmin,minmax}_{i32,u32} v_{maxmin,minmax}_num_{f16,f32} v_fma_dx9_zero_f32
        v_{maximumminimum,minimummaximum}_{f16,f32} v_{minimum,maximum}_{f16,f64}
        v_{minimum3,maximum3}_f16 v_s_{exp,log,rcp,rsq,sqrt}_f16 v_cvt_{i32_i16,u32_u16}
        v_cvt_pk_{f16_fp8,f16_bf8,fp8_f16,bf8_f16,i16_f32,u16_f32} v_cvt_{f16_fp8,f16_bf8}
        v_cvt_{floor,nearest}_i32_f32 v_cvt_sr_{fp8,bf8}_f16 v_cvt_sr_pk_{bf16,f16}_f32
        v_cvt_scale_pk8_{f32,f16,bf16}_{fp8,bf8,fp4} v_cvt_scale_pk16_{f32,f16,bf16}_{fp6,bf6}
        v_cvt_scalef32_pk8_{fp8,bf8,fp4}_{f32,f16,bf16}
        v_cvt_scalef32_pk16_{fp6,bf6}_{f32,f16,bf16}
        v_cvt_scalef32_sr_pk8_{fp8,bf8,fp4}_{f32,f16,bf16}
        v_cvt_scalef32_sr_pk16_{fp6,bf6}_{f32,f16,bf16} v_sat_pk4_{i4_i8,u4_u8}
        v_pk_{add_max,add_min}_{i16,u16} v_pk_{min3,max3}_{i16,u16} v_pk_{min3,max3}_num_f16
        v_pk_{minimum,maximum}_f16 v_{sin,cos}_bf16 v_dot4_i32_iu8 v_dot8_i32_iu4
        v_fma_{mix_f32,mixlo,mixhi}_bf16 v_fmaak_{f16,f64} v_fmamk_{f16,f64}""",
    (OpcodeKind.MATRIX, 1): """
        v_wmma_f32_16x16x32_{f16,bf16} v_wmma_f16_16x16x32_f16 v_wmma_bf16_16x16x32_bf16
        v_wmma_f32_16x16x4_f32 v_wmma_i32_16x16x64_iu8
        v_wmma_{f32,f16}_16x16x{64,128}_{fp8,bf8}_{fp8,bf8} v_wmma_bf16f32_16x16x32_bf16
        v_wmma_f32_16x16x128_f8f6f4 v_wmma_f32_32x16x128_f4
        v_wmma_{scale,scale16}_f32_{16x16x128_f8f6f4,32x16x128_f4}""",
}
_NEW_READ_AS_WELL = {
    (OpcodeKind.MATRIX, 1): """
        v_swmmac_f32_16x16x64_{f16,bf16} v_swmmac_f16_16x16x64_f16 v_swmmac_bf16_16x16x64_bf16
        v_swmmac_bf16f32_16x16x64_bf16 v_swmmac_i32_16x16x128_iu8
        v_swmmac_{f32,f16}_16x16x128_{fp8,bf8}_{fp8,bf8}""",
    (OpcodeKind.SCALAR, 1): "s_fmac_f32",
    (OpcodeKind.VECTOR, 1): "v_fmac_f16",
}
for _prefix, _kind in (
    ("global", OpcodeKind.GLOBAL), ("flat", OpcodeKind.FLAT), ("buffer", OpcodeKind.BUFFER),
):  # fmt: skip
    _more = f" {_prefix}_atomic_{{min_num_f32,max_num_f32,cond_sub_u32,sub_clamp_u32}}"
    _NEW[(_kind, 0)] = _NEW.get((_kind, 0), "") + _more
_OLDER = _table(_PATTERNS, _READ_AS_WELL)
_LATER = _table(_NEW, _NEW_READ_AS_WELL)
ONLY_GFX1250 = frozenset(_LATER)
OPCODES = _OLDER | _LATER
_ENCODINGS = ("_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa")


def base_name(mnemonic: str) -> str:
    """The name in the table: without the suffix of an encoding."""
    for suffix in _ENCODINGS:
        if mnemonic.endswith(suffix):
            return mnemonic[: -len(suffix)]
    return mnemonic
