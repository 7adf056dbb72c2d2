"""What operands each instruction of gfx90a, gfx942 and gfx950 takes; `operand_forms.py` reads it.

Found by asking the LLVM assembler (22): random machine code of every opcode was disassembled, and
what assembles again was gathered by mnemonic and place. Tests hold the table against an assembler.
"""

TABLE = """\
s2 v1|s1|i v1|s1|i =
    v_cmp_{class_f16,class_f32,eq_f16,eq_f32,eq_i16,eq_i32,eq_u16,eq_u32,f_f16,f_f32,f_i16}_e64
    v_cmp_{f_i32,f_u16,f_u32,ge_f16,ge_f32,ge_i16,ge_i32,ge_u16,ge_u32,gt_f16,gt_f32}_e64
    v_cmp_{gt_i16,gt_i32,gt_u16,gt_u32,le_f16,le_f32,le_i16,le_i32,le_u16,le_u32,lg_f16}_e64
    v_cmp_{lg_f32,lt_f16,lt_f32,lt_i16,lt_i32,lt_u16,lt_u32,ne_i16,ne_i32,ne_u16,ne_u32}_e64
    v_cmp_{neq_f16,neq_f32,nge_f16,nge_f32,ngt_f16,ngt_f32,nle_f16,nle_f32,nlg_f16,nlg_f32}_e64
    v_cmp_{nlt_f16,nlt_f32,o_f16,o_f32,t_i16,t_i32,t_u16,t_u32,tru_f16,tru_f32,u_f16,u_f32}_e64
    v_cmp_{class_f16,class_f32,eq_f16,eq_f32,eq_i16,eq_i32,eq_u16,eq_u32,f_f16,f_f32}_sdwa
    v_cmp_{f_i16,f_i32,f_u16,f_u32,ge_f16,ge_f32,ge_i16,ge_i32,ge_u16,ge_u32,gt_f16}_sdwa
    v_cmp_{gt_f32,gt_i16,gt_i32,gt_u16,gt_u32,le_f16,le_f32,le_i16,le_i32,le_u16,le_u32}_sdwa
    v_cmp_{lg_f16,lg_f32,lt_f16,lt_f32,lt_i16,lt_i32,lt_u16,lt_u32,ne_i16,ne_i32,ne_u16}_sdwa
    v_cmp_{ne_u32,neq_f16,neq_f32,nge_f16,nge_f32,ngt_f16,ngt_f32,nle_f16,nle_f32,nlg_f16}_sdwa
    v_cmp_{nlg_f32,nlt_f16,nlt_f32,o_f16,o_f32,t_i16,t_i32,t_u16,t_u32,tru_f16,tru_f32}_sdwa
    v_cmp_{u_f16,u_f32}_sdwa
    v_cmpx_{class_f16,class_f32,eq_f16,eq_f32,eq_i16,eq_i32,eq_u16,eq_u32,f_f16,f_f32}_e64
    v_cmpx_{f_i16,f_i32,f_u16,f_u32,ge_f16,ge_f32,ge_i16,ge_i32,ge_u16,ge_u32,gt_f16}_e64
    v_cmpx_{gt_f32,gt_i16,gt_i32,gt_u16,gt_u32,le_f16,le_f32,le_i16,le_i32,le_u16,le_u32}_e64
    v_cmpx_{lg_f16,lg_f32,lt_f16,lt_f32,lt_i16,lt_i32,lt_u16,lt_u32,ne_i16,ne_i32,ne_u16}_e64
    v_cmpx_{ne_u32,neq_f16,neq_f32,nge_f16,nge_f32,ngt_f16,ngt_f32,nle_f16,nle_f32,nlg_f16}_e64
    v_cmpx_{nlg_f32,nlt_f16,nlt_f32,o_f16,o_f32,t_i16,t_i32,t_u16,t_u32,tru_f16,tru_f32}_e64
    v_cmpx_{u_f16,u_f32}_e64
    v_cmpx_{class_f16,class_f32,eq_f16,eq_f32,eq_i16,eq_i32,eq_u16,eq_u32,f_f16,f_f32}_sdwa
    v_cmpx_{f_i16,f_i32,f_u16,f_u32,ge_f16,ge_f32,ge_i16,ge_i32,ge_u16,ge_u32,gt_f16}_sdwa
    v_cmpx_{gt_f32,gt_i16,gt_i32,gt_u16,gt_u32,le_f16,le_f32,le_i16,le_i32,le_u16,le_u32}_sdwa
    v_cmpx_{lg_f16,lg_f32,lt_f16,lt_f32,lt_i16,lt_i32,lt_u16,lt_u32,ne_i16,ne_i32,ne_u16}_sdwa
    v_cmpx_{ne_u32,neq_f16,neq_f32,nge_f16,nge_f32,ngt_f16,ngt_f32,nle_f16,nle_f32}_sdwa
    v_cmpx_{nlg_f16,nlg_f32,nlt_f16,nlt_f32,o_f16,o_f32,t_i16,t_i32,t_u16,t_u32,tru_f16}_sdwa
    v_cmpx_{tru_f32,u_f16,u_f32}_sdwa
v1 v1|s1|i v1|s1|i =
    v_{add_i16,add_i32,bcnt_u32_b32,bfm_b32,ldexp_f32,mbcnt_hi_u32_b32,mbcnt_lo_u32_b32}
    v_{mul_hi_i32,mul_hi_u32,mul_legacy_f32,mul_lo_u32,pack_b32_f16,pk_add_f16,pk_add_i16}
    v_{pk_add_u16,pk_ashrrev_i16,pk_lshlrev_b16,pk_lshrrev_b16,pk_max_f16,pk_max_i16}
    v_{pk_max_u16,pk_min_f16,pk_min_i16,pk_min_u16,pk_mul_f16,pk_mul_lo_u16,pk_sub_i16}
    v_{pk_sub_u16,sub_i16,sub_i32}
    v_{add_f16,add_f32,add_u16,add_u32,and_b32,ashrrev_i16,ashrrev_i32,dot2c_f32_bf16}_e64
    v_{dot2c_f32_f16,dot2c_i32_i16,dot4c_i32_i8,dot8c_i32_i4,fmac_f32,ldexp_f16}_e64
    v_{lshlrev_b16,lshlrev_b32,lshrrev_b16,lshrrev_b32,mac_f16,mac_f32,max_f16,max_f32}_e64
    v_{max_i16,max_i32,max_u16,max_u32,min_f16,min_f32,min_i16,min_i32,min_u16,min_u32}_e64
    v_{mul_f16,mul_f32,mul_hi_i32_i24,mul_hi_u32_u24,mul_i32_i24,mul_lo_u16,mul_u32_u24}_e64
    v_{or_b32,pk_fmac_f16,sub_f16,sub_f32,sub_u16,sub_u32,subrev_f16,subrev_f32,subrev_u16}_e64
    v_{subrev_u32,xnor_b32,xor_b32}_e64
    v_{add_f16,add_f32,add_u16,add_u32,and_b32,ashrrev_i16,ashrrev_i32,ldexp_f16}_sdwa
    v_{lshlrev_b16,lshlrev_b32,lshrrev_b16,lshrrev_b32,max_f16,max_f32,max_i16,max_i32}_sdwa
    v_{max_u16,max_u32,min_f16,min_f32,min_i16,min_i32,min_u16,min_u32,mul_f16,mul_f32}_sdwa
    v_{mul_hi_i32_i24,mul_hi_u32_u24,mul_i32_i24,mul_lo_u16,mul_u32_u24,or_b32}_sdwa
    v_{pk_fmac_f16,sub_f16,sub_f32,sub_u16,sub_u32,subrev_f16,subrev_f32,subrev_u16}_sdwa
    v_{subrev_u32,xnor_b32,xor_b32}_sdwa
    v_cvt_{pk_bf16_f32,pk_bf8_f32,pk_f16_f32,pk_fp8_f32,pk_i16_i32,pk_u16_u32,pknorm_i16_f16}
    v_cvt_{pknorm_i16_f32,pknorm_u16_f16,pknorm_u16_f32,pkrtz_f16_f32,scalef32_f16_bf8}
    v_cvt_{scalef32_f16_fp8,scalef32_f32_bf8,scalef32_f32_fp8,scalef32_pk_bf16_bf8}
    v_cvt_{scalef32_pk_bf16_fp4,scalef32_pk_bf16_fp8,scalef32_pk_bf8_bf16,scalef32_pk_bf8_f16}
    v_cvt_{scalef32_pk_f16_bf8,scalef32_pk_f16_fp4,scalef32_pk_f16_fp8,scalef32_pk_fp4_bf16}
    v_cvt_{scalef32_pk_fp4_f16,scalef32_pk_fp8_bf16,scalef32_pk_fp8_f16,sr_bf16_f32,sr_bf8_f32}
    v_cvt_{sr_f16_f32,sr_fp8_f32}
v1 v1|s1|i =
    v_{bfrev_b32,ceil_f16,ceil_f32,cos_f16,cos_f32,exp_f16,exp_f32,exp_legacy_f32,ffbh_i32}_e64
    v_{ffbh_u32,ffbl_b32,floor_f16,floor_f32,fract_f16,fract_f32,frexp_exp_i16_f16}_e64
    v_{frexp_exp_i32_f32,frexp_mant_f16,frexp_mant_f32,log_f16,log_f32,log_legacy_f32}_e64
    v_{mov_b32,not_b32,prng_b32,rcp_f16,rcp_f32,rcp_iflag_f32,rndne_f16,rndne_f32,rsq_f16}_e64
    v_{rsq_f32,sat_pk_u8_i16,screen_partition_4se_b32,sin_f16,sin_f32,sqrt_f16,sqrt_f32}_e64
    v_{trunc_f16,trunc_f32}_e64
    v_{bfrev_b32,ceil_f16,ceil_f32,cos_f16,cos_f32,exp_f16,exp_f32,exp_legacy_f32}_sdwa
    v_{ffbh_i32,ffbh_u32,ffbl_b32,floor_f16,floor_f32,fract_f16,fract_f32}_sdwa
    v_{frexp_exp_i16_f16,frexp_exp_i32_f32,frexp_mant_f16,frexp_mant_f32,log_f16,log_f32}_sdwa
    v_{log_legacy_f32,mov_b32,not_b32,prng_b32,rcp_f16,rcp_f32,rcp_iflag_f32,rndne_f16}_sdwa
    v_{rndne_f32,rsq_f16,rsq_f32,sat_pk_u8_i16,screen_partition_4se_b32,sin_f16,sin_f32}_sdwa
    v_{sqrt_f16,sqrt_f32,trunc_f16,trunc_f32}_sdwa
    v_cvt_{f16_f32,f16_i16,f16_u16,f32_bf16,f32_bf8,f32_f16,f32_fp8,f32_i32,f32_u32}_e64
    v_cvt_{f32_ubyte0,f32_ubyte1,f32_ubyte2,f32_ubyte3,flr_i32_f32,i16_f16,i32_f32}_e64
    v_cvt_{norm_i16_f16,norm_u16_f16,off_f32_i4,rpi_i32_f32,u16_f16,u32_f32}_e64
    v_cvt_{f16_f32,f16_i16,f16_u16,f32_bf16,f32_bf8,f32_f16,f32_fp8,f32_i32,f32_u32}_sdwa
    v_cvt_{f32_ubyte0,f32_ubyte1,f32_ubyte2,f32_ubyte3,flr_i32_f32,i16_f16,i32_f32}_sdwa
    v_cvt_{norm_i16_f16,norm_u16_f16,off_f32_i4,rpi_i32_f32,u16_f16,u32_f32}_sdwa
v1 v1|s1|i v1|s1|i v1|s1|i =
    v_{add3_u32,add_lshl_u32,alignbit_b32,alignbyte_b32,and_or_b32,ashr_pk_i8_i32}
    v_{ashr_pk_u8_i32,bfe_i32,bfe_u32,bfi_b32,bitop3_b16,bitop3_b32,cubeid_f32,cubema_f32}
    v_{cubesc_f32,cubetc_f32,div_fixup_f16,div_fixup_f32,dot2_f32_bf16,dot2_f32_f16}
    v_{dot2_i32_i16,dot2_u32_u16,dot4_i32_i8,dot4_u32_u8,dot8_i32_i4,dot8_u32_u4,fma_f16}
    v_{fma_f32,fma_legacy_f16,fma_mix_f32,fma_mixhi_f16,fma_mixlo_f16,lerp_u8,lshl_add_u32}
    v_{lshl_or_b32,mad_i16,mad_i32_i16,mad_i32_i24,mad_legacy_f32,mad_legacy_i16}
    v_{mad_legacy_u16,mad_u16,mad_u32_u16,mad_u32_u24,max3_f16,max3_f32,max3_i16,max3_i32}
    v_{max3_u16,max3_u32,maximum3_f32,med3_f16,med3_f32,med3_i16,med3_i32,med3_u16,med3_u32}
    v_{min3_f16,min3_f32,min3_i16,min3_i32,min3_u16,min3_u32,minimum3_f32,msad_u8,or3_b32}
    v_{perm_b32,pk_fma_f16,pk_mad_i16,pk_mad_u16,pk_maximum3_f16,pk_minimum3_f16,sad_hi_u8}
    v_{sad_u16,sad_u32,sad_u8,xad_u32}
    v_cvt_{pk_u8_f32,scalef32_pk_bf8_f32,scalef32_pk_fp4_f32,scalef32_pk_fp8_f32}
    v_cvt_{scalef32_sr_bf8_bf16,scalef32_sr_bf8_f16,scalef32_sr_bf8_f32,scalef32_sr_fp8_bf16}
    v_cvt_{scalef32_sr_fp8_f16,scalef32_sr_fp8_f32,scalef32_sr_pk_fp4_bf16}
    v_cvt_scalef32_sr_pk_fp4_f16
vcc v1|s1|h|i v1 =
    v_cmp_{class_f16,eq_f16,eq_f32,eq_i16,eq_u16,f_f16,f_i16,f_u16,ge_f16,ge_i16,ge_u16}_e32
    v_cmp_{gt_f16,gt_i16,gt_u16,le_f16,le_i16,le_u16,lg_f16,lt_f16,lt_i16,lt_u16,ne_i16}_e32
    v_cmp_{ne_u16,neq_f16,nge_f16,ngt_f16,nle_f16,nle_f32,nlg_f16,nlt_f16,o_f16,t_i16}_e32
    v_cmp_{t_u16,tru_f16,u_f16}_e32
    v_cmpx_{class_f16,eq_f16,eq_i16,eq_u16,f_f16,f_i16,f_u16,ge_f16,ge_i16,ge_u16,gt_f16}_e32
    v_cmpx_{gt_i16,gt_u16,le_f16,le_i16,le_u16,lg_f16,lt_f16,lt_i16,lt_u16,ne_i16,ne_u16}_e32
    v_cmpx_{neq_f16,nge_f16,ngt_f16,nle_f16,nlg_f16,nlt_f16,o_f16,t_i16,t_u16,tru_f16}_e32
    v_cmpx_u_f16_e32
v1 v1 =
    v_swap_b32
    v_{bfrev_b32,ceil_f16,ceil_f32,cos_f16,cos_f32,exp_f16,exp_f32,exp_legacy_f32,ffbh_i32}_dpp
    v_{ffbh_u32,ffbl_b32,floor_f16,floor_f32,fract_f16,fract_f32,frexp_exp_i16_f16}_dpp
    v_{frexp_exp_i32_f32,frexp_mant_f16,frexp_mant_f32,log_f16,log_f32,log_legacy_f32}_dpp
    v_{mov_b32,not_b32,prng_b32,rcp_f16,rcp_f32,rcp_iflag_f32,rndne_f16,rndne_f32,rsq_f16}_dpp
    v_{rsq_f32,sat_pk_u8_i16,screen_partition_4se_b32,sin_f16,sin_f32,sqrt_f16,sqrt_f32}_dpp
    v_{trunc_f16,trunc_f32}_dpp v_{permlane16_swap_b32,permlane32_swap_b32}_e32
    v_{permlane16_swap_b32,permlane32_swap_b32}_e64
    v_cvt_{f16_f32,f16_i16,f16_u16,f32_bf16,f32_bf8,f32_f16,f32_fp8,f32_i32,f32_u32}_dpp
    v_cvt_{f32_ubyte0,f32_ubyte1,f32_ubyte2,f32_ubyte3,flr_i32_f32,i16_f16,i32_f32}_dpp
    v_cvt_{norm_i16_f16,norm_u16_f16,off_f32_i4,rpi_i32_f32,u16_f16,u32_f32}_dpp
s2 v2|s2|i v2|s2|i =
    v_cmp_{eq_f64,eq_i64,eq_u64,f_f64,f_i64,f_u64,ge_f64,ge_i64,ge_u64,gt_f64,gt_i64}_e64
    v_cmp_{gt_u64,le_f64,le_i64,le_u64,lg_f64,lt_f64,lt_i64,lt_u64,ne_i64,ne_u64,neq_f64}_e64
    v_cmp_{nge_f64,ngt_f64,nle_f64,nlg_f64,nlt_f64,o_f64,t_i64,t_u64,tru_f64,u_f64}_e64
    v_cmpx_{eq_f64,eq_i64,eq_u64,f_f64,f_i64,f_u64,ge_f64,ge_i64,ge_u64,gt_f64,gt_i64}_e64
    v_cmpx_{gt_u64,le_f64,le_i64,le_u64,lg_f64,lt_f64,lt_i64,lt_u64,ne_i64,ne_u64,neq_f64}_e64
    v_cmpx_{nge_f64,ngt_f64,nle_f64,nlg_f64,nlt_f64,o_f64,t_i64,t_u64,tru_f64,u_f64}_e64
vcc v1|s1|i|l v1 =
    v_cmp_{class_f32,eq_i32,eq_u32,f_f32,f_i32,f_u32,ge_f32,ge_i32,ge_u32,gt_f32,gt_i32}_e32
    v_cmp_{gt_u32,le_f32,le_i32,le_u32,lg_f32,lt_f32,lt_i32,lt_u32,ne_i32,ne_u32,neq_f32}_e32
    v_cmp_{nge_f32,ngt_f32,nlg_f32,nlt_f32,o_f32,t_i32,t_u32,tru_f32,u_f32}_e32
    v_cmpx_{class_f32,eq_f32,eq_i32,eq_u32,f_f32,f_i32,f_u32,ge_f32,ge_i32,ge_u32,gt_f32}_e32
    v_cmpx_{gt_i32,gt_u32,le_f32,le_i32,le_u32,lg_f32,lt_f32,lt_i32,lt_u32,ne_i32,ne_u32}_e32
    v_cmpx_{neq_f32,nge_f32,ngt_f32,nle_f32,nlg_f32,nlt_f32,o_f32,t_i32,t_u32,tru_f32}_e32
    v_cmpx_u_f32_e32
vcc v2|s2|i|l v2 =
    v_cmp_{eq_f64,eq_i64,eq_u64,f_f64,f_i64,f_u64,ge_f64,ge_i64,ge_u64,gt_f64,gt_i64}_e32
    v_cmp_{gt_u64,le_f64,le_i64,le_u64,lg_f64,lt_f64,lt_i64,lt_u64,ne_i64,ne_u64,neq_f64}_e32
    v_cmp_{nge_f64,ngt_f64,nle_f64,nlg_f64,nlt_f64,o_f64,t_i64,t_u64,tru_f64,u_f64}_e32
    v_cmpx_{eq_f64,eq_i64,eq_u64,f_f64,f_i64,f_u64,ge_f64,ge_i64,ge_u64,gt_f64,gt_i64}_e32
    v_cmpx_{gt_u64,le_f64,le_u64,lg_f64,lt_f64,lt_i64,lt_u64,ne_i64,ne_u64,neq_f64,nge_f64}_e32
    v_cmpx_{ngt_f64,nle_f64,nlg_f64,nlt_f64,o_f64,t_i64,t_u64,tru_f64,u_f64}_e32
v1 v1 v1 =
    v_{add_f16,add_f32,add_u16,add_u32,and_b32,ashrrev_i16,ashrrev_i32,dot2c_f32_bf16}_dpp
    v_{dot2c_f32_f16,dot2c_i32_i16,dot4c_i32_i8,dot8c_i32_i4,fmac_f32,ldexp_f16}_dpp
    v_{lshlrev_b16,lshlrev_b32,lshrrev_b16,lshrrev_b32,mac_f16,mac_f32,max_f16,max_f32}_dpp
    v_{max_i16,max_i32,max_u16,max_u32,min_f16,min_f32,min_i16,min_i32,min_u16,min_u32}_dpp
    v_{mul_f16,mul_f32,mul_hi_i32_i24,mul_hi_u32_u24,mul_i32_i24,mul_lo_u16,mul_u32_u24}_dpp
    v_{or_b32,pk_fmac_f16,sub_f16,sub_f32,sub_u16,sub_u32,subrev_f16,subrev_f32,subrev_u16}_dpp
    v_{subrev_u32,xnor_b32,xor_b32}_dpp
v1 v1|s1|i|l =
    v_{bfrev_b32,ceil_f32,cos_f32,exp_f32,exp_legacy_f32,ffbh_i32,ffbh_u32,ffbl_b32}_e32
    v_{floor_f32,fract_f32,frexp_exp_i32_f32,frexp_mant_f32,log_f32,log_legacy_f32,mov_b32}_e32
    v_{not_b32,prng_b32,rcp_f32,rcp_iflag_f32,rndne_f32,rsq_f32,sat_pk_u8_i16,sin_f32}_e32
    v_{sqrt_f32,trunc_f32}_e32
    v_cvt_{f16_f32,f32_bf8,f32_fp8,f32_i32,f32_u32,f32_ubyte0,f32_ubyte1,f32_ubyte2}_e32
    v_cvt_{f32_ubyte3,flr_i32_f32,i32_f32,off_f32_i4,rpi_i32_f32,u32_f32}_e32
s1 s1|i|l s1|i|l =
    s_{absdiff_i32,add_i32,add_u32,addc_u32,and_b32,andn2_b32,ashr_i32,bfe_i32,bfe_u32,bfm_b32}
    s_{cselect_b32,lshl1_add_u32,lshl2_add_u32,lshl3_add_u32,lshl4_add_u32,lshl_b32,lshr_b32}
    s_{max_i32,max_u32,min_i32,min_u32,mul_hi_i32,mul_hi_u32,mul_i32,nand_b32,nor_b32,or_b32}
    s_{orn2_b32,pack_hh_b32_b16,pack_lh_b32_b16,pack_ll_b32_b16,sub_i32,sub_u32,subb_u32}
    s_{xnor_b32,xor_b32}
v1 v1|s1|i|l v1 =
    v_{add_f32,add_u32,and_b32,ashrrev_i32,dot2c_f32_bf16,dot2c_f32_f16,dot2c_i32_i16}_e32
    v_{dot4c_i32_i8,dot8c_i32_i4,fmac_f32,lshlrev_b32,lshrrev_b32,mac_f32,max_f32,max_i32}_e32
    v_{max_u32,min_f32,min_i32,min_u32,mul_f32,mul_hi_i32_i24,mul_hi_u32_u24,mul_i32_i24}_e32
    v_{mul_u32_u24,or_b32,pk_fmac_f16,sub_f32,sub_u32,subrev_f32,subrev_u32,xnor_b32}_e32
    v_xor_b32_e32
v1 v1|s1|h|i =
    v_{ceil_f16,cos_f16,exp_f16,floor_f16,fract_f16,frexp_exp_i16_f16,frexp_mant_f16}_e32
    v_{log_f16,rcp_f16,rndne_f16,rsq_f16,screen_partition_4se_b32,sin_f16,sqrt_f16}_e32
    v_trunc_f16_e32
    v_cvt_{f16_i16,f16_u16,f32_bf16,f32_f16,i16_f16,norm_i16_f16,norm_u16_f16,u16_f16}_e32
v1 v1|a1 =
    ds_{add_f32,add_u32,and_b32,dec_u32,inc_u32,max_f32,max_i32,max_u32,min_f32,min_i32}
    ds_{min_u32,or_b32,pk_add_bf16,pk_add_f16,rsub_u32,sub_u32,write_b16,write_b16_d16_hi}
    ds_{write_b32,write_b8,write_b8_d16_hi,xor_b32}
a1 v1 a1 ; v1 v1 v1 =
    ds_{add_rtn_f32,add_rtn_u32,and_rtn_b32,bpermute_b32,dec_rtn_u32,inc_rtn_u32,max_rtn_f32}
    ds_{max_rtn_i32,max_rtn_u32,min_rtn_f32,min_rtn_i32,min_rtn_u32,or_rtn_b32,permute_b32}
    ds_{pk_add_rtn_bf16,pk_add_rtn_f16,rsub_rtn_u32,sub_rtn_u32,wrxchg_rtn_b32,xor_rtn_b32}
s2 s2|i|l =
    s_{and_saveexec_b64,andn1_saveexec_b64,andn1_wrexec_b64,andn2_saveexec_b64}
    s_{andn2_wrexec_b64,brev_b64,cmov_b64,mov_b64,nand_saveexec_b64,nor_saveexec_b64,not_b64}
    s_{or_saveexec_b64,orn1_saveexec_b64,orn2_saveexec_b64,quadmask_b64,swappc_b64,wqm_b64}
    s_{xnor_saveexec_b64,xor_saveexec_b64}
v1 v1|s1|h|i v1 =
    v_{add_f16,add_u16,ashrrev_i16,ldexp_f16,lshlrev_b16,lshrrev_b16,mac_f16,max_f16}_e32
    v_{max_i16,max_u16,min_f16,min_i16,min_u16,mul_f16,mul_lo_u16,sub_f16,sub_u16}_e32
    v_{subrev_f16,subrev_u16}_e32
idxen+offen:v1|a1 v2 s4 s1|i ; idxen:v1|a1 v1 s4 s1|i ; offen:v1|a1 v1 s4 s1|i ; v1|a1 off s4 s1|i
=
    buffer_load_{format_d16_hi_x,format_d16_x,format_d16_xy,sbyte_d16,sbyte_d16_hi,short_d16}
    buffer_load_{short_d16_hi,ubyte_d16,ubyte_d16_hi}
    buffer_store_{byte,byte_d16_hi,dword,format_d16_hi_x,format_d16_x,format_d16_xy,format_x}
    buffer_store_{short,short_d16_hi}
a2 v1 a2 ; v2 v1 v2 =
    ds_{add_rtn_f64,add_rtn_u64,and_rtn_b64,condxchg32_rtn_b64,dec_rtn_u64,inc_rtn_u64}
    ds_{max_rtn_f64,max_rtn_i64,max_rtn_u64,min_rtn_f64,min_rtn_i64,min_rtn_u64,or_rtn_b64}
    ds_{rsub_rtn_u64,sub_rtn_u64,wrxchg_rtn_b64,xor_rtn_b64}
s1 s1|i|l =
    s_{abs_i32,bcnt0_i32_b32,bcnt1_i32_b32,bitset0_b32,bitset1_b32,brev_b32,cmov_b32}
    s_{ff0_i32_b32,ff1_i32_b32,flbit_i32,flbit_i32_b32,mov_b32,not_b32,quadmask_b32}
    s_{sext_i32_i16,sext_i32_i8,wqm_b32}
s2 s2 s1|i|l =
    s_{load_dwordx2,scratch_load_dwordx2,scratch_store_dwordx2,store_dwordx2}
    s_atomic_{add_x2,and_x2,cmpswap,dec_x2,inc_x2,or_x2,smax_x2,smin_x2,sub_x2,swap_x2,umax_x2}
    s_atomic_{umin_x2,xor_x2}
none =
    buffer_invl2 buffer_wbinvl1_{,vol} ds_nop
    s_{barrier,dcache_inv,dcache_inv_vol,dcache_wb,dcache_wb_vol,endpgm_saved,icache_inv}
    s_{set_gpr_idx_off,ttracedata,wakeup} v_{clrexcp,nop}
idxen+offen+returns:v2|a2 v2 s4 s1|i ; idxen+offen:v2|a2 v2 s4 s1|i ; idxen+returns:v2|a2 v1 s4
s1|i ; idxen:v2|a2 v1 s4 s1|i ; offen+returns:v2|a2 v1 s4 s1|i ; offen:v2|a2 v1 s4 s1|i ;
returns:v2|a2 off s4 s1|i ; v2|a2 off s4 s1|i =
    buffer_atomic_{add_f64,add_x2,and_x2,cmpswap,dec_x2,inc_x2,max_f64,min_f64,or_x2,smax_x2}
    buffer_atomic_{smin_x2,sub_x2,swap_x2,umax_x2,umin_x2,xor_x2}
s1 h|i =
    s_{addk_i32,cmovk_i32,movk_i32,mulk_i32}
    s_cmpk_{eq_i32,eq_u32,ge_i32,ge_u32,gt_i32,gt_u32,le_i32,le_u32,lg_i32,lg_u32,lt_i32}
    s_cmpk_lt_u32
s1 s2 s1|i|l =
    s_{load_dword,scratch_load_dword,scratch_store_dword,store_dword}
    s_atomic_{add,and,dec,inc,or,smax,smin,sub,swap,umax,umin,xor}
v1 v2|a2 =
    ds_{add_f64,add_u64,and_b64,dec_u64,inc_u64,max_f64,max_i64,max_u64,min_f64,min_i64}
    ds_{min_u64,or_b64,rsub_u64,sub_u64,write_b64,xor_b64}
a16 v2|a2 v2|a2 a16|i ; v16 v2|a2 v2|a2 v16|i =
    v_{mfma_f32_16x16x4_4b_bf16,mfma_f32_16x16x4_4b_f16,mfma_f32_16x16x4bf16_1k}
    v_{mfma_f32_16x16x4f16,mfma_f32_32x32x16_bf8_bf8,mfma_f32_32x32x16_bf8_fp8}
    v_{mfma_f32_32x32x16_fp8_bf8,mfma_f32_32x32x16_fp8_fp8,mfma_f32_32x32x4_xf32}
    v_{mfma_f32_32x32x8_bf16,mfma_f32_32x32x8_f16,mfma_f32_32x32x8bf16_1k,mfma_f32_32x32x8f16}
    v_{mfma_i32_32x32x16_i8,mfma_i32_32x32x16i8}
a4 v2|a2 v2|a2 a4|i ; v4 v2|a2 v2|a2 v4|i =
    v_{mfma_f32_16x16x16_bf16,mfma_f32_16x16x16_f16,mfma_f32_16x16x16bf16_1k}
    v_{mfma_f32_16x16x16f16,mfma_f32_16x16x32_bf8_bf8,mfma_f32_16x16x32_bf8_fp8}
    v_{mfma_f32_16x16x32_fp8_bf8,mfma_f32_16x16x32_fp8_fp8,mfma_f32_16x16x8_xf32}
    v_{mfma_f32_4x4x4_16b_bf16,mfma_f32_4x4x4_16b_f16,mfma_f32_4x4x4bf16_1k,mfma_f32_4x4x4f16}
    v_{mfma_i32_16x16x32_i8,mfma_i32_16x16x32i8}
idxen+offen+returns:v1|a1 v2 s4 s1|i ; idxen+offen:v1|a1 v2 s4 s1|i ; idxen+returns:v1|a1 v1 s4
s1|i ; idxen:v1|a1 v1 s4 s1|i ; offen+returns:v1|a1 v1 s4 s1|i ; offen:v1|a1 v1 s4 s1|i ;
returns:v1|a1 off s4 s1|i ; v1|a1 off s4 s1|i =
    buffer_atomic_{add,add_f32,and,dec,inc,or,pk_add_bf16,pk_add_f16,smax,smin,sub,swap,umax}
    buffer_atomic_{umin,xor}
returns:a1 v1 a1 s2 ; returns:a1 v2 a1 off ; returns:v1 v1 v1 s2 ; returns:v1 v2 v1 off ; v1 v1|a1
s2 ; v2 v1|a1 off =
    global_atomic_{add,add_f32,and,dec,inc,or,pk_add_bf16,pk_add_f16,smax,smin,sub,swap,umax}
    global_atomic_{umin,xor}
returns:a1 v2 a1 ; returns:v1 v2 v1 ; v2 v1|a1 =
    flat_atomic_{add,add_f32,and,dec,inc,or,pk_add_bf16,pk_add_f16,smax,smin,sub,swap,umax}
    flat_atomic_{umin,xor}
returns:a2 v1 a2 s2 ; returns:a2 v2 a2 off ; returns:v2 v1 v2 s2 ; returns:v2 v2 v2 off ; v1 v2|a2
s2 ; v2 v2|a2 off =
    global_atomic_{add_f64,add_x2,and_x2,dec_x2,inc_x2,max_f64,min_f64,or_x2,smax_x2,smin_x2}
    global_atomic_{sub_x2,swap_x2,umax_x2,umin_x2,xor_x2}
returns:a2 v2 a2 ; returns:v2 v2 v2 ; v2 v2|a2 =
    flat_atomic_{add_f64,add_x2,and_x2,dec_x2,inc_x2,max_f64,min_f64,or_x2,smax_x2,smin_x2}
    flat_atomic_{sub_x2,swap_x2,umax_x2,umin_x2,xor_x2}
s1|i|l s1|i|l =
    s_{bitcmp0_b32,bitcmp1_b32,setvskip}
    s_cmp_{eq_i32,eq_u32,ge_i32,ge_u32,gt_i32,gt_u32,le_i32,le_u32,lg_i32,lg_u32,lt_i32,lt_u32}
s2 s4 s1|i|l =
    s_buffer_{atomic_add_x2,atomic_and_x2,atomic_cmpswap,atomic_dec_x2,atomic_inc_x2}
    s_buffer_{atomic_or_x2,atomic_smax_x2,atomic_smin_x2,atomic_sub_x2,atomic_swap_x2}
    s_buffer_{atomic_umax_x2,atomic_umin_x2,atomic_xor_x2,load_dwordx2,store_dwordx2}
s1 s4 s1|i|l =
    s_buffer_{atomic_add,atomic_and,atomic_dec,atomic_inc,atomic_or,atomic_smax,atomic_smin}
    s_buffer_{atomic_sub,atomic_swap,atomic_umax,atomic_umin,atomic_xor,load_dword,store_dword}
v1|a1 v1 =
    ds_{read_b32,read_i16,read_i8,read_i8_d16,read_i8_d16_hi,read_u16,read_u16_d16}
    ds_{read_u16_d16_hi,read_u8,read_u8_d16,read_u8_d16_hi,swizzle_b32}
v1|a1 v2 =
    flat_load_{dword,sbyte,sbyte_d16,sbyte_d16_hi,short_d16,short_d16_hi,sshort,ubyte}
    flat_load_{ubyte_d16,ubyte_d16_hi,ushort}
v2 v2 =
    v_{ceil_f64,floor_f64,fract_f64,frexp_mant_f64,mov_b64,rcp_f64,rndne_f64,rsq_f64}_dpp
    v_{sqrt_f64,trunc_f64}_dpp
v2 v2|s2|i =
    v_{ceil_f64,floor_f64,fract_f64,frexp_mant_f64,mov_b64,rcp_f64,rndne_f64,rsq_f64}_e64
    v_{sqrt_f64,trunc_f64}_e64
v2 v2|s2|i|l =
    v_{ceil_f64,floor_f64,fract_f64,frexp_mant_f64,mov_b64,rcp_f64,rndne_f64,rsq_f64}_e32
    v_{sqrt_f64,trunc_f64}_e32
a16 v1|a1 v1|a1 a16|i ; v16 v1|a1 v1|a1 v16|i =
    v_{mfma_f32_16x16x1_4b_f32,mfma_f32_16x16x1f32,mfma_f32_16x16x2bf16,mfma_f32_32x32x2_f32}
    v_{mfma_f32_32x32x2f32,mfma_f32_32x32x4bf16,mfma_i32_16x16x4_4b_i8,mfma_i32_16x16x4i8}
    v_mfma_i32_32x32x8i8
a4 v1|a1 v1|a1 a4|i ; v4 v1|a1 v1|a1 v4|i =
    v_{mfma_f32_16x16x4_f32,mfma_f32_16x16x4f32,mfma_f32_16x16x8bf16,mfma_f32_4x4x1_16b_f32}
    v_{mfma_f32_4x4x1f32,mfma_f32_4x4x2bf16,mfma_i32_16x16x16i8,mfma_i32_4x4x4_16b_i8}
    v_mfma_i32_4x4x4i8
s2 s2|i|l s2|i|l =
    s_{and_b64,andn2_b64,cselect_b64,nand_b64,nor_b64,or_b64,orn2_b64,xnor_b64,xor_b64}
h|i =
    s_{decperflevel,incperflevel,nop,sethalt,setkill,setprio,sleep,trap}
idxen+offen:v2|a2 v2 s4 s1|i ; idxen:v2|a2 v1 s4 s1|i ; offen:v2|a2 v1 s4 s1|i ; v2|a2 off s4 s1|i
=
    buffer_load_{dwordx2,format_d16_xyz,format_d16_xyzw,format_xy}
    buffer_store_{dwordx2,format_d16_xyz,format_d16_xyzw,format_xy}
v2 v2|s2|i v2|s2|i =
    v_{add_f64,max_f64,min_f64,mul_f64,pk_add_f32,pk_mov_b32,pk_mul_f32} v_fmac_f64_e64
v1 s2 ; v2 off =
    global_load_{lds_dword,lds_dwordx3,lds_dwordx4,lds_sbyte,lds_sshort,lds_ubyte,lds_ushort}
v16|a16 v2|a2 v4|a4 v1|a1 =
    v_{smfmac_f32_32x32x16_bf16,smfmac_f32_32x32x16_f16,smfmac_f32_32x32x32_bf8_bf8}
    v_{smfmac_f32_32x32x32_bf8_fp8,smfmac_f32_32x32x32_fp8_bf8,smfmac_f32_32x32x32_fp8_fp8}
    v_smfmac_i32_32x32x32_i8
v16|a16 v4|a4 v8|a8 v1|a1 =
    v_{smfmac_f32_32x32x32_bf16,smfmac_f32_32x32x32_f16,smfmac_f32_32x32x64_bf8_bf8}
    v_{smfmac_f32_32x32x64_bf8_fp8,smfmac_f32_32x32x64_fp8_bf8,smfmac_f32_32x32x64_fp8_fp8}
    v_smfmac_i32_32x32x64_i8
v2 v1|s1|i =
    v_cvt_{f64_f32,f64_i32,f64_u32,pk_f32_bf8,pk_f32_fp8}_e64 v_cvt_{pk_f32_bf8,pk_f32_fp8}_sdwa
v4|a4 v2|a2 v4|a4 v1|a1 =
    v_{smfmac_f32_16x16x32_bf16,smfmac_f32_16x16x32_f16,smfmac_f32_16x16x64_bf8_bf8}
    v_{smfmac_f32_16x16x64_bf8_fp8,smfmac_f32_16x16x64_fp8_bf8,smfmac_f32_16x16x64_fp8_fp8}
    v_smfmac_i32_16x16x64_i8
v4|a4 v4|a4 v8|a8 v1|a1 =
    v_{smfmac_f32_16x16x128_bf8_bf8,smfmac_f32_16x16x128_bf8_fp8,smfmac_f32_16x16x128_fp8_bf8}
    v_{smfmac_f32_16x16x128_fp8_fp8,smfmac_f32_16x16x64_bf16,smfmac_f32_16x16x64_f16}
    v_smfmac_i32_16x16x128_i8
idxen+lds+offen:v2 s4 s1|i ; idxen+lds:v1 s4 s1|i ; idxen+offen:v1|a1 v2 s4 s1|i ; idxen:v1|a1 v1
s4 s1|i ; lds+offen:v1 s4 s1|i ; lds:off s4 s1|i ; offen:v1|a1 v1 s4 s1|i ; v1|a1 off s4 s1|i =
    buffer_load_{dword,format_x,sbyte,sshort,ubyte,ushort}
s1 s2|i|l =
    s_{bcnt0_i32_b64,bcnt1_i32_b64,ff0_i32_b64,ff1_i32_b64,flbit_i32_b64,flbit_i32_i64}
v1 vcc v1 v1 vcc =
    v_{addc_co_u32,subb_co_u32,subbrev_co_u32}_dpp v_{addc_co_u32,subb_co_u32,subbrev_co_u32}_sdwa
v1|a1 off off ; v1|a1 off s1 ; v1|a1 v1 off ; v1|a1 v1 s1 =
    scratch_load_{sbyte_d16,sbyte_d16_hi,short_d16,short_d16_hi,ubyte_d16,ubyte_d16_hi}
v1|a1 v1 s2 ; v1|a1 v2 off =
    global_load_{sbyte_d16,sbyte_d16_hi,short_d16,short_d16_hi,ubyte_d16,ubyte_d16_hi}
v2|a2 v1 =
    ds_{read2_b32,read2st64_b32,read_b64,read_b64_tr_b16,read_b64_tr_b4,read_b64_tr_b8}
a32 v1|a1 v1|a1 a32|i ; v32 v1|a1 v1|a1 v32|i =
    v_{mfma_f32_32x32x1_2b_f32,mfma_f32_32x32x1f32,mfma_f32_32x32x2bf16,mfma_i32_32x32x4_2b_i8}
    v_mfma_i32_32x32x4i8
lds:off s1 ; lds:v1 off ; v1|a1 off off ; v1|a1 off s1 ; v1|a1 v1 off ; v1|a1 v1 s1 =
    scratch_load_{dword,sbyte,sshort,ubyte,ushort}
lds:v1 s2 ; lds:v2 off ; v1|a1 v1 s2 ; v1|a1 v2 off =
    global_load_{dword,sbyte,sshort,ubyte,ushort}
off off ; off s1 ; v1 off ; v1 s1 =
    scratch_load_{lds_dword,lds_sbyte,lds_sshort,lds_ubyte,lds_ushort}
off v1|a1 off ; off v1|a1 s1 ; v1 v1|a1 off ; v1 v1|a1 s1 =
    scratch_store_{byte,byte_d16_hi,dword,short,short_d16_hi}
s2 =
    s_{getpc_b64,memrealtime,memtime,rfe_b64,setpc_b64}
s2 s2|i|l s1|i|l =
    s_{ashr_i64,bfe_i64,bfe_u64,lshl_b64,lshr_b64}
s4 s2 s1|i|l =
    s_{load_dwordx4,scratch_load_dwordx4,scratch_store_dwordx4,store_dwordx4} s_atomic_cmpswap_x2
v1 a1 a1 ; v1 v1 v1 =
    ds_{cmpst_b32,cmpst_f32,mskor_b32,write2_b32,write2st64_b32}
v1 a2 a2 ; v1 v2 v2 =
    ds_{cmpst_b64,cmpst_f64,mskor_b64,write2_b64,write2st64_b64}
v1 v1|a1 s2 ; v2 v1|a1 off =
    global_store_{byte,byte_d16_hi,dword,short,short_d16_hi}
v2 v1 =
    v_cvt_{f64_f32,f64_i32,f64_u32,pk_f32_bf8,pk_f32_fp8}_dpp
v2 v1|a1 =
    flat_store_{byte,byte_d16_hi,dword,short,short_d16_hi}
v2 v1|s1|i|l =
    v_cvt_{f64_f32,f64_i32,f64_u32,pk_f32_bf8,pk_f32_fp8}_e32
a1 v1 a1 a1 ; v1 v1 v1 v1 =
    ds_{cmpst_rtn_b32,cmpst_rtn_f32,mskor_rtn_b32,wrap_rtn_b32}
a32 v2|a2 v2|a2 a32|i ; v32 v2|a2 v2|a2 v32|i =
    v_{mfma_f32_32x32x4_2b_bf16,mfma_f32_32x32x4_2b_f16,mfma_f32_32x32x4bf16_1k}
    v_mfma_f32_32x32x4f16
v1 v2 =
    v_frexp_exp_i32_f64_dpp v_cvt_{f32_f64,i32_f64,u32_f64}_dpp
v1 v2|s2|i =
    v_frexp_exp_i32_f64_e64 v_cvt_{f32_f64,i32_f64,u32_f64}_e64
v1 v2|s2|i|l =
    v_frexp_exp_i32_f64_e32 v_cvt_{f32_f64,i32_f64,u32_f64}_e32
v16 v6 v1|s1|i =
    v_cvt_{scalef32_pk32_bf16_bf6,scalef32_pk32_bf16_fp6,scalef32_pk32_f16_bf6}
    v_cvt_scalef32_pk32_f16_fp6
v1|a1 =
    ds_{append,consume,read_addtid_b32,write_addtid_b32}
v6 v16 v1|s1|i =
    v_cvt_{scalef32_pk32_bf6_bf16,scalef32_pk32_bf6_f16,scalef32_pk32_fp6_bf16}
    v_cvt_scalef32_pk32_fp6_f16
a16 v4|a4 v4|a4 a16|i ; v16 v4|a4 v4|a4 v16|i =
    v_{mfma_f32_32x32x16_bf16,mfma_f32_32x32x16_f16,mfma_i32_32x32x32_i8}
a2 v1 a2 a2 ; v2 v1 v2 v2 =
    ds_{cmpst_rtn_b64,cmpst_rtn_f64,mskor_rtn_b64}
a4 v4|a4 v4|a4 a4|i ; v4 v4|a4 v4|a4 v4|i =
    v_{mfma_f32_16x16x32_bf16,mfma_f32_16x16x32_f16,mfma_i32_16x16x64_i8}
idxen+offen:v3|a3 v2 s4 s1|i ; idxen:v3|a3 v1 s4 s1|i ; offen:v3|a3 v1 s4 s1|i ; v3|a3 off s4 s1|i
=
    buffer_load_format_xyz buffer_store_{dwordx3,format_xyz}
idxen+offen:v4|a4 v2 s4 s1|i ; idxen:v4|a4 v1 s4 s1|i ; offen:v4|a4 v1 s4 s1|i ; v4|a4 off s4 s1|i
=
    buffer_load_format_xyzw buffer_store_{dwordx4,format_xyzw}
s2 s1|i|l =
    s_{bitreplicate_b64_b32,bitset0_b64,bitset1_b64}
s4 s4 s1|i|l =
    s_buffer_{atomic_cmpswap_x2,load_dwordx4,store_dwordx4}
v1 s2 v1|i v1|i s2|i =
    v_{addc_co_u32,subb_co_u32,subbrev_co_u32}_e64
v1 s2 v1|s1|i v1|s1|i =
    v_{add_co_u32,sub_co_u32,subrev_co_u32}_e64
v1 vcc v1 v1 =
    v_{add_co_u32,sub_co_u32,subrev_co_u32}_dpp
v1 vcc v1|i v1 vcc =
    v_{addc_co_u32,subb_co_u32,subbrev_co_u32}_e32
v1 vcc v1|s1|i v1|s1|i =
    v_{add_co_u32,sub_co_u32,subrev_co_u32}_sdwa
v1 vcc v1|s1|i|l v1 =
    v_{add_co_u32,sub_co_u32,subrev_co_u32}_e32
v2 v1|s1|i v1|s1|i =
    v_cvt_{scalef32_pk_f32_bf8,scalef32_pk_f32_fp4,scalef32_pk_f32_fp8}
v2 v1|s1|i v2|s2|i =
    v_{ashrrev_i64,lshlrev_b64,lshrrev_b64}
v2 v2|s2|i v1|s1|i v2|s2|i =
    v_{lshl_add_u64,mqsad_pk_u16_u8,qsad_pk_u16_u8}
v2 v2|s2|i v2|s2|i v2|s2|i =
    v_{div_fixup_f64,fma_f64,pk_fma_f32}
v4|a4 v1 =
    ds_{read2_b64,read2st64_b64,read_b128}
none ; i =
    buffer_inv buffer_wbl2
a2 v1 a1 a1 ; v2 v1 v1 v1 =
    ds_{wrxchg2_rtn_b32,wrxchg2st64_rtn_b32}
a2 v2|a2 v2|a2 a2|i ; v2 v2|a2 v2|a2 v2|i =
    v_{mfma_f64_4x4x4_4b_f64,mfma_f64_4x4x4f64}
a4 v1 a2 a2 ; v4 v1 v2 v2 =
    ds_{wrxchg2_rtn_b64,wrxchg2st64_rtn_b64}
a8 v2|a2 v2|a2 a8|i ; v8 v2|a2 v2|a2 v8|i =
    v_{mfma_f64_16x16x4_f64,mfma_f64_16x16x4f64}
s2 v2|s2|i v1|s1|i =
    v_cmp_class_f64_e64 v_cmpx_class_f64_e64
s2|i|l s1|i|l =
    s_{bitcmp0_b64,bitcmp1_b64}
s2|i|l s2|i|l =
    s_cmp_{eq_u64,lg_u64}
v1 v1 v1 vcc =
    v_cndmask_b32_dpp v_cndmask_b32_sdwa
v1 v1|i|l l v1 =
    v_{fmamk_f32,madmk_f32}
v1 v1|i|l v1 l =
    v_{fmaak_f32,madak_f32}
v2 s2 v1|s1|i v1|s1|i v2|s2|i =
    v_{mad_i64_i32,mad_u64_u32}
v2 v2|s2|i v1|s1|i =
    v_{ldexp_f64,trig_preop_f64}
v32 v6 v1|s1|i =
    v_cvt_{scalef32_pk32_f32_bf6,scalef32_pk32_f32_fp6}
v3|a3 v1 =
    ds_{read_b96,read_b96_tr_b6}
vcc v2|s2|i|l v1 =
    v_cmp_class_f64_e32 v_cmpx_class_f64_e32
none ; h =
    s_endpgm
a1 a1 =
    v_accvgpr_mov_b32
a1 v1|s1|i =
    v_accvgpr_write_b32
a16 v4|v6|v8|a4|a6|a8 v4|v6|v8|a4|a6|a8 a16|i ; v16 v4|v6|v8|a4|a6|a8 v4|v6|v8|a4|a6|a8 v16|i =
    v_mfma_f32_32x32x64_f8f6f4
a16 v4|v6|v8|a4|a6|a8 v4|v6|v8|a4|a6|a8 a16|i v1|s1|i v1|s1|i ; v16 v4|v6|v8|a4|a6|a8
v4|v6|v8|a4|a6|a8 v16|i v1|s1|i v1|s1|i =
    v_mfma_scale_f32_32x32x64_f8f6f4
a4 v4|v6|v8|a4|a6|a8 v4|v6|v8|a4|a6|a8 a4|i ; v4 v4|v6|v8|a4|a6|a8 v4|v6|v8|a4|a6|a8 v4|i =
    v_mfma_f32_16x16x128_f8f6f4
a4 v4|v6|v8|a4|a6|a8 v4|v6|v8|a4|a6|a8 a4|i v1|s1|i v1|s1|i ; v4 v4|v6|v8|a4|a6|a8
v4|v6|v8|a4|a6|a8 v4|i v1|s1|i v1|s1|i =
    v_mfma_scale_f32_16x16x128_f8f6f4
gpr_idx =
    s_set_gpr_idx_mode
hwreg i|l =
    s_setreg_imm32_b32
hwreg s1 =
    s_setreg_b32
idxen+lds+offen:v2 s4 s1|i ; idxen+lds:v1 s4 s1|i ; idxen+offen:v3|a3 v2 s4 s1|i ; idxen:v3|a3 v1
s4 s1|i ; lds+offen:v1 s4 s1|i ; lds:off s4 s1|i ; offen:v3|a3 v1 s4 s1|i ; v3|a3 off s4 s1|i =
    buffer_load_dwordx3
idxen+lds+offen:v2 s4 s1|i ; idxen+lds:v1 s4 s1|i ; idxen+offen:v4|a4 v2 s4 s1|i ; idxen:v4|a4 v1
s4 s1|i ; lds+offen:v1 s4 s1|i ; lds:off s4 s1|i ; offen:v4|a4 v1 s4 s1|i ; v4|a4 off s4 s1|i =
    buffer_load_dwordx4
idxen+offen+returns:v4|a4 v2 s4 s1|i ; idxen+offen:v4|a4 v2 s4 s1|i ; idxen+returns:v4|a4 v1 s4
s1|i ; idxen:v4|a4 v1 s4 s1|i ; offen+returns:v4|a4 v1 s4 s1|i ; offen:v4|a4 v1 s4 s1|i ;
returns:v4|a4 off s4 s1|i ; v4|a4 off s4 s1|i =
    buffer_atomic_cmpswap_x2
off v2|a2 off ; off v2|a2 s1 ; v1 v2|a2 off ; v1 v2|a2 s1 =
    scratch_store_dwordx2
off v3|a3 off ; off v3|a3 s1 ; v1 v3|a3 off ; v1 v3|a3 s1 =
    scratch_store_dwordx3
off v4|a4 off ; off v4|a4 s1 ; v1 v4|a4 off ; v1 v4|a4 s1 =
    scratch_store_dwordx4
returns:a1 v1 a2 s2 ; returns:a1 v2 a2 off ; returns:v1 v1 v2 s2 ; returns:v1 v2 v2 off ; v1 v2|a2
s2 ; v2 v2|a2 off =
    global_atomic_cmpswap
returns:a1 v2 a2 ; returns:v1 v2 v2 ; v2 v2|a2 =
    flat_atomic_cmpswap
returns:a2 v1 a4 s2 ; returns:a2 v2 a4 off ; returns:v2 v1 v4 s2 ; returns:v2 v2 v4 off ; v1 v4|a4
s2 ; v2 v4|a4 off =
    global_atomic_cmpswap_x2
returns:a2 v2 a4 ; returns:v2 v2 v4 ; v2 v4|a4 =
    flat_atomic_cmpswap_x2
s1 hwreg =
    s_getreg_b32
s1 s1|i =
    s_movrels_b32
s1 v1 =
    v_readfirstlane_b32
s1 v1 s1|i =
    v_readlane_b32
s16 s2 s1|i|l =
    s_load_dwordx16
s16 s4 s1|i|l =
    s_buffer_load_dwordx16
s1|h|i gpr_idx =
    s_set_gpr_idx_on
s2 h|i =
    s_call_b64
s2 s1|i|l s1|i|l =
    s_bfm_b64
s2 s2 =
    s_movrels_b64
s8 s2 s1|i|l =
    s_load_dwordx8
s8 s4 s1|i|l =
    s_buffer_load_dwordx8
v1 a1 =
    v_accvgpr_read_b32
v1 s1|i s1|i =
    v_writelane_b32
v1 s2 v1|s1|i v1|s1|i v1|s1|i =
    v_div_scale_f32
v1 v1|i v1 vcc =
    v_cndmask_b32_e32
v1 v1|i v1|i s2|i =
    v_cndmask_b32_e64
v1 v1|i v1|i v1|i =
    v_div_fmas_f32
v1 v2|a2 s2 ; v2 v2|a2 off =
    global_store_dwordx2
v1 v2|i v1|s1|i v1|s1|i =
    v_cvt_scalef32_sr_pk_fp4_f32
v1 v3|a3 =
    ds_write_b96
v1 v3|a3 s2 ; v2 v3|a3 off =
    global_store_dwordx3
v1 v4|a4 =
    ds_write_b128
v1 v4|a4 s2 ; v2 v4|a4 off =
    global_store_dwordx4
v2 s2 v2|s2|i v2|s2|i v2|s2|i =
    v_div_scale_f64
v2 v2 v2 =
    v_fmac_f64_dpp
v2 v2|a2 =
    flat_store_dwordx2
v2 v2|i v2|i v2|i =
    v_div_fmas_f64
v2 v2|s2|i|l v2 =
    v_fmac_f64_e32
v2 v3|a3 =
    flat_store_dwordx3
v2 v4|a4 =
    flat_store_dwordx4
v2|a2 off off ; v2|a2 off s1 ; v2|a2 v1 off ; v2|a2 v1 s1 =
    scratch_load_dwordx2
v2|a2 v1 s2 ; v2|a2 v2 off =
    global_load_dwordx2
v2|a2 v2 =
    flat_load_dwordx2
v3|a3 off off ; v3|a3 off s1 ; v3|a3 v1 off ; v3|a3 v1 s1 =
    scratch_load_dwordx3
v3|a3 v1 s2 ; v3|a3 v2 off =
    global_load_dwordx3
v3|a3 v2 =
    flat_load_dwordx3
v4 v2|s2|i v1|s1|i v4 =
    v_mqsad_u32_u8
v4|a4 off off ; v4|a4 off s1 ; v4|a4 v1 off ; v4|a4 v1 s1 =
    scratch_load_dwordx4
v4|a4 v1 s2 ; v4|a4 v2 off =
    global_load_dwordx4
v4|a4 v2 =
    flat_load_dwordx4
v6 v16 v16 v1|s1 =
    v_cvt_scalef32_2xpk16_bf6_f32
v6 v16 v16 v1|s1|i =
    v_cvt_scalef32_2xpk16_fp6_f32
vcc v2|s2|h|i v2 =
    v_cmpx_le_i64_e32
"""
