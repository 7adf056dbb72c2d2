"""Mnemonics of gfx1250, and what this reader calls them.

Most instructions of gfx1250 do what one of gfx90a to gfx950 does under another name, or under the
same; they are read under the older name. The others are in the table of instructions under their
own (`opcodes.py`). A mnemonic that is not here is refused. Source: the LLVM assembler, which a test
asks for every mnemonic; LLVM AMDGPU usage.
"""

from __future__ import annotations

from titan.isa.gcn.opcodes import ONLY_GFX1250, OPCODES, expanded

TARGET = "gfx1250"
LANES = 32

# Names that gfx1250 has as well, by what they begin with or are.
_SAME = """
    s_nop s_endpgm s_branch s_cbranch_{scc0,scc1,vccz,vccnz,execz,execnz} s_setprio s_sleep
    s_sendmsg s_setreg_b32 s_setreg_imm32_b32 s_getreg_b32 s_getpc_b64 s_setpc_b64 s_swappc_b64
    s_call_b64 s_trap s_icache_inv s_sethalt s_wakeup
    s_cmp_{eq,lg,gt,ge,lt,le}_{i32,u32} s_cmp_{eq,lg}_u64 s_bitcmp{0,1}_{b32,b64}
    s_{mov,cmov,not,wqm,brev,quadmask}_{b32,b64} s_{bcnt0,bcnt1}_i32_{b32,b64}
    s_sext_i32_{i8,i16} s_abs_i32 s_{and,or,xor,nand,nor,xnor}_saveexec_b64
    s_bitreplicate_b64_b32 s_movk_i32 s_cmovk_i32 s_bitset{0,1}_{b32,b64}
    s_mul_i32 s_{min,max}_{i32,u32} s_cselect_{b32,b64} s_{and,or,xor,nand,nor,xnor}_{b32,b64}
    s_{lshl,lshr}_{b32,b64} s_ashr_{i32,i64} s_bfm_{b32,b64} s_bfe_{u32,i32,u64,i64}
    s_mul_hi_{u32,i32} s_lshl{1,2,3,4}_add_u32 s_pack_{ll,lh,hh}_b32_b16 s_movrels_{b32,b64}
    v_nop v_readfirstlane_b32 v_readlane_b32 v_writelane_b32 v_mov_{b32,b64} v_cndmask_b32
    v_{not,bfrev}_b32 v_cmp_{lt,eq,le,gt,ne,ge}_{i16,u16,i32,u32,i64,u64}
    v_cmpx_{lt,eq,le,gt,ne,ge}_{i16,u16,i32,u32,i64,u64}
    v_{cmp,cmpx}_{lt,eq,le,gt,lg,ge,o,u,nge,nlg,ngt,nle,neq,nlt}_{f16,f32,f64}
    v_{cmp,cmpx}_class_{f16,f32,f64}
    v_cvt_{f64_i32,i32_f64,f32_i32,f32_u32,u32_f32,i32_f32,f16_f32,f32_f16,f32_f64,f64_f32}
    v_cvt_{f32_ubyte0,f32_ubyte1,f32_ubyte2,f32_ubyte3,u32_f64,f64_u32,pk_f16_f32,pk_bf16_f32}
    v_cvt_{f16_u16,f16_i16,u16_f16,i16_f16,pk_fp8_f32,pk_bf8_f32,f32_fp8,f32_bf8}
    v_{fract,trunc,ceil,rndne,floor,rcp,rsq,sqrt}_{f16,f32,f64} v_{exp,log,sin,cos}_{f16,f32}
    v_rcp_iflag_f32 v_frexp_exp_i32_{f32,f64} v_frexp_mant_{f16,f32,f64}
    v_{add,sub,mul,subrev}_{f16,f32} v_{add,mul}_f64 v_ldexp_{f32,f64}
    v_mul_{i32_i24,hi_i32_i24,u32_u24,hi_u32_u24,lo_u16,lo_u32,hi_u32,hi_i32}
    v_{min,max}_{i16,u16,i32,u32} v_{lshrrev,lshlrev}_{b16,b32,b64} v_ashrrev_{i16,i32,i64}
    v_{and,or,xor,xnor}_b32 v_{fmaak,fmamk}_f32 v_mad_{i32_i24,u32_u24,i32_i16,u32_u16}
    v_bfe_{u32,i32} v_bfi_b32 v_fma_{f16,f32,f64} v_alignbit_b32 v_alignbyte_b32
    v_{min3,max3,med3}_{i16,u16,i32,u32} v_div_fixup_{f16,f32,f64} v_div_fmas_{f32,f64}
    v_div_scale_{f32,f64} v_perm_b32 v_bitop3_{b16,b32} v_lshl_add_{u32,u64} v_add_lshl_u32
    v_add3_u32 v_xad_u32 v_lshl_or_b32 v_and_or_b32 v_or3_b32 v_bfm_b32 v_bcnt_u32_b32
    v_mbcnt_{lo,hi}_u32_b32 v_pack_b32_f16 v_fmac_{f32,f64} v_swap_b32
    v_permlane16_swap_b32
    v_pk_{mul_lo_u16,add_i16,sub_i16,lshlrev_b16,lshrrev_b16,ashrrev_i16,mad_i16,mad_u16}
    v_pk_{max_i16,min_i16,add_u16,sub_u16,max_u16,min_u16,fma_f16,add_f16,mul_f16}
    v_pk_{fma_f32,mul_f32,add_f32} v_fma_{mix_f32,mixlo_f16,mixhi_f16}
    v_cvt_{off_f32_i4,pk_f32_fp8,pk_f32_bf8,pk_i16_i32,pk_u16_u32,pk_u8_f32} v_lerp_u8
    v_cvt_{sr_fp8_f32,sr_bf8_f32,norm_i16_f16,norm_u16_f16} v_cube{id,sc,tc,ma}_f32
    v_sad_{u8,hi_u8,u16,u32} v_msad_u8 v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8 v_mqsad_u32_u8
    v_frexp_exp_i16_f16 v_frexp_mant_f16 v_ldexp_f16 v_mad_{i16,u16} v_dot8_u32_u4
    v_ashr_pk_{i8,u8}_i32 v_sat_pk_u8_i16 v_trig_preop_f64 v_pk_fmac_f16
    v_pk_{minimum3,maximum3}_f16 s_mulk_i32 ds_add_f64 ds_add_rtn_f64 ds_condxchg32_rtn_b64
    s_endpgm_saved
    v_dot4_u32_u8 v_prng_b32 v_cvt_f32_bf16
    ds_{add,sub,rsub,inc,dec,min,max}_{u32,u64} ds_{min,max}_{i32,i64} ds_{and,or,xor}_{b32,b64}
    ds_add_f32 ds_mskor_{b32,b64} ds_pk_add_{f16,bf16} ds_nop ds_{permute,bpermute}_b32
    ds_swizzle_b32 ds_{add,sub,rsub,inc,dec,min,max}_rtn_{u32,u64} ds_{min,max}_rtn_{i32,i64}
    ds_{and,or,xor,mskor}_rtn_{b32,b64} ds_add_rtn_f32 ds_pk_add_rtn_{f16,bf16}
    ds_{consume,append}"""

# Their name on gfx1250, and the older one, as two patterns of equally many names.
_RENAMED = (
    ("s_ctz_i32_{b32,b64}", "s_ff1_i32_{b32,b64}"),
    ("s_clz_i32_u{32,64}", "s_flbit_i32_b{32,64}"),
    ("s_cls_i32", "s_flbit_i32"),
    ("s_cls_i32_i64", "s_flbit_i32_i64"),
    ("s_{add,sub}_co_{u32,i32}", "s_{add,sub}_{u32,i32}"),
    ("s_{add_co_ci,sub_co_ci}_u32", "s_{addc,subb}_u32"),
    ("s_addk_co_i32", "s_addk_i32"),
    ("s_{and_not1,or_not1}_{b32,b64}", "s_{andn2,orn2}_{b32,b64}"),
    (
        "s_{and,or,xor,and_not1,or_not1,nand,nor,xnor,and_not0,or_not0}_saveexec_b32",
        "s_{and,or,xor,andn2,orn2,nand,nor,xnor,andn1,orn1}_saveexec_b64",
    ),
    (
        "s_{and_not1,or_not1,and_not0,or_not0}_saveexec_b64",
        "s_{andn2,orn2,andn1,orn1}_saveexec_b64",
    ),
    ("s_{and_not0,and_not1}_wrexec_b32", "s_{andn1,andn2}_wrexec_b64"),
    ("s_absdiff_i32", "s_absdiff_i32"),
    ("s_{get_pc_i64,set_pc_i64,swap_pc_i64,call_i64}",
     "s_{getpc_b64,setpc_b64,swappc_b64,call_b64}"),
    ("s_buffer_load_b96", "s_buffer_load_dwordx3"),
    ("s_load_b{32,64,128,256,512}", "s_load_dword{,x2,x4,x8,x16}"),
    ("s_load_b96", "s_load_dwordx3"),
    ("s_buffer_load_b{32,64,128,256,512}", "s_buffer_load_dword{,x2,x4,x8,x16}"),
    ("s_dcache_inv", "s_dcache_inv"),
    ("v_{add,sub,subrev}_nc_u32", "v_{add,sub,subrev}_u32"),
    ("v_{add,sub}_nc_i32", "v_{add,sub}_i32"),
    ("v_{add,sub}_nc_u16", "v_{add,sub}_u16"),
    ("v_{add,sub}_nc_i16", "v_{add,sub}_i16"),
    ("v_{add,sub,subrev}_co_u32", "v_{add,sub,subrev}_co_u32"),
    ("v_{add,sub,subrev}_co_ci_u32", "v_{addc,subb,subbrev}_co_u32"),
    ("v_mad_co_{u64_u32,i64_i32}", "v_mad_{u64_u32,i64_i32}"),
    ("v_{min,max}_num_{f16,f32,f64}", "v_{min,max}_{f16,f32,f64}"),
    ("v_{min3,max3,med3}_num_{f16,f32}", "v_{min3,max3,med3}_{f16,f32}"),
    ("v_pk_{min,max}_num_f16", "v_pk_{min,max}_f16"),
    ("v_{minimum3,maximum3}_f32", "v_{minimum3,maximum3}_f32"),
    ("v_clz_i32_u32", "v_ffbh_u32"),
    ("v_cls_i32", "v_ffbh_i32"),
    ("v_ctz_i32_b32", "v_ffbl_b32"),
    ("v_cvt_{pk_rtz_f16_f32,pk_norm_i16_f32,pk_norm_u16_f32}",
     "v_cvt_{pkrtz_f16_f32,pknorm_i16_f32,pknorm_u16_f32}"),
    ("v_mul_dx9_zero_f32", "v_mul_legacy_f32"),
    ("ds_load_{b32,b64,b96,b128,u8,i8,u16,i16}", "ds_read_{b32,b64,b96,b128,u8,i8,u16,i16}"),
    ("ds_load_{u8,i8,u16}_{d16,d16_hi}", "ds_read_{u8,i8,u16}_{d16,d16_hi}"),
    ("ds_load_2addr_{b32,b64}", "ds_read2_{b32,b64}"),
    ("ds_load_2addr_stride64_{b32,b64}", "ds_read2st64_{b32,b64}"),
    ("ds_load_addtid_b32", "ds_read_addtid_b32"),
    ("ds_store_{b8,b16,b32,b64,b96,b128}", "ds_write_{b8,b16,b32,b64,b96,b128}"),
    ("ds_store_{b8_d16_hi,b16_d16_hi}", "ds_write_{b8_d16_hi,b16_d16_hi}"),
    ("ds_store_2addr_{b32,b64}", "ds_write2_{b32,b64}"),
    ("ds_store_2addr_stride64_{b32,b64}", "ds_write2st64_{b32,b64}"),
    ("ds_store_addtid_b32", "ds_write_addtid_b32"),
    ("ds_storexchg_rtn_{b32,b64}", "ds_wrxchg_rtn_{b32,b64}"),
    ("ds_{min,max}_num_{f32,f64}", "ds_{min,max}_{f32,f64}"),
    ("ds_{min,max}_num_rtn_{f32,f64}", "ds_{min,max}_rtn_{f32,f64}"),
    ("ds_cmpstore_{b32,b64}", "ds_cmpst_{b32,b64}"),
    ("ds_cmpstore_rtn_{b32,b64}", "ds_cmpst_rtn_{b32,b64}"),
    ("ds_storexchg_2addr_rtn_{b32,b64}", "ds_wrxchg2_rtn_{b32,b64}"),
    ("ds_storexchg_2addr_stride64_rtn_{b32,b64}", "ds_wrxchg2st64_rtn_{b32,b64}"),
    ("v_cvt_pk_norm_{i16,u16}_f16", "v_cvt_pknorm_{i16,u16}_f16"),
    ("v_dual_{mov,cndmask}_b32", "v_{mov,cndmask}_b32"),
    ("v_dual_{add,sub,subrev,mul,fma,fmac}_f32", "v_{add,sub,subrev,mul,fma,fmac}_f32"),
    ("v_dual_{fmaak,fmamk}_f32", "v_{fmaak,fmamk}_f32"),
    ("v_dual_mul_dx9_zero_f32", "v_mul_legacy_f32"),
    ("v_dual_{min,max}_num_f32", "v_{min,max}_f32"),
    ("v_dual_{add,sub}_nc_u32", "v_{add,sub}_u32"),
    ("v_dual_{lshlrev,lshrrev}_b32", "v_{lshlrev,lshrrev}_b32"),
    ("v_dual_ashrrev_i32", "v_ashrrev_i32"),
    ("v_dual_bitop2_b32", "v_bitop3_b32"),
)  # fmt: skip
_MEMORY = (
    ("load_{u8,i8,u16,i16,b32,b64,b96,b128}",
     "load_{ubyte,sbyte,ushort,sshort,dword,dwordx2,dwordx3,dwordx4}"),
    ("load_d16_{u8,i8,b16}", "load_{ubyte,sbyte,short}_d16"),
    ("load_d16_hi_{u8,i8,b16}", "load_{ubyte,sbyte,short}_d16_hi"),
    ("store_{b8,b16,b32,b64,b96,b128}", "store_{byte,short,dword,dwordx2,dwordx3,dwordx4}"),
    ("store_d16_hi_{b8,b16}", "store_{byte,short}_d16_hi"),
)  # fmt: skip
_ATOMICS = (
    ("atomic_{swap,cmpswap,and,or,xor}_b{32,64}", "atomic_{swap,cmpswap,and,or,xor}{,_x2}"),
    ("atomic_{add,sub,inc,dec}_u{32,64}", "atomic_{add,sub,inc,dec}{,_x2}"),
    ("atomic_{min,max}_i{32,64}", "atomic_{smin,smax}{,_x2}"),
    ("atomic_{min,max}_u{32,64}", "atomic_{umin,umax}{,_x2}"),
    (
        "atomic_{add_f32,add_f64,pk_add_f16,pk_add_bf16}",
        "atomic_{add_f32,add_f64,pk_add_f16,pk_add_bf16}",
    ),
    ("atomic_{min,max}_num_f64", "atomic_{min,max}_f64"),
)
# The assembler takes the older names of these as well.
_ALIASES = (
    "s_load_", "s_buffer_load_", "ds_read_", "ds_write_", "ds_read2_", "ds_write2_", "global_load_",
    "global_store_", "flat_load_", "flat_store_", "scratch_load_", "scratch_store_",
    "buffer_load_", "buffer_store_",
)  # fmt: skip
_OWN = ("s_load_dwordx3", "s_buffer_load_dwordx3")  # as this reader calls them


def _pairs() -> dict[str, str]:
    found = {name: name for pattern in _SAME.split() for name in expanded(pattern)}
    found |= {name: name for name in ONLY_GFX1250 if not name.endswith("load_dwordx3")}
    renamed = list(_RENAMED)
    for prefix in ("global", "flat", "scratch", "buffer"):
        kinds = _MEMORY if prefix == "scratch" else (*_MEMORY, *_ATOMICS)
        renamed += [(f"{prefix}_{new}", f"{prefix}_{old}") for new, old in kinds]
    for new, old in renamed:
        found.update(zip(expanded(new), expanded(old), strict=True))
        if old.startswith(_ALIASES) and not old.startswith(_OWN):
            found.update((name, name) for name in expanded(old))
    return found


OLDER = _pairs()
assert all(name in OPCODES for name in OLDER.values())
