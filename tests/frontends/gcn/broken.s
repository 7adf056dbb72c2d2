; Kernels in assembly, broken and right. `; broken`, `; right` begin one: its name, and what differs from
; one wave, one work-group and gfx950 (`unwritten`: what nothing has written counts). All begin with the lines of `; begin`: s[4:5] is the array, v1 the
; place of the lane in it and v3 that of a lane of the other wave, v9 zero, s7 the wave, s8 256 bytes a wave.
; begin
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v3, 0x100, v1
v_mov_b32_e32 v9, 0
v_lshrrev_b32_e32 v4, 6, v0
s_nop 1
v_readfirstlane_b32 s7, v4
s_lshl_b32 s8, s7, 8
s_waitcnt lgkmcnt(0)
; broken | vmcnt one too many
global_load_dword v10, v1, s[4:5]
global_load_dword v11, v1, s[4:5] offset:4
s_waitcnt vmcnt(1)
v_add_f32_e32 v12, v10, v11
; right | vmcnt one too many
global_load_dword v10, v1, s[4:5]
global_load_dword v11, v1, s[4:5] offset:4
s_waitcnt vmcnt(0)
v_add_f32_e32 v12, v10, v11
; broken | lgkm one too many
ds_read_b32 v10, v1
ds_read_b32 v11, v1 offset:4
s_waitcnt lgkmcnt(1)
v_mov_b32_e32 v12, v11
; right | lgkm one too many
ds_read_b32 v10, v1
ds_read_b32 v11, v1 offset:4
s_waitcnt lgkmcnt(1)
v_mov_b32_e32 v12, v10
; broken | smem lds mix a
ds_read_b32 v10, v1
s_load_dword s9, s[4:5], 0x0
s_waitcnt lgkmcnt(1)
v_mov_b32_e32 v12, v10
; right | smem lds mix a
ds_read_b32 v10, v1
s_load_dword s9, s[4:5], 0x0
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v12, v10
; broken | smem lds mix b
s_load_dword s9, s[4:5], 0x0
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(1)
s_mov_b32 s10, s9
; broken | smem ooo
s_load_dword s9, s[4:5], 0x0
s_load_dword s10, s[4:5], 0x4
s_waitcnt lgkmcnt(1)
s_mov_b32 s11, s9
; broken | memtime early
s_memtime s[10:11]
s_mov_b32 s12, s10
; right | memtime early
s_memtime s[10:11]
s_waitcnt lgkmcnt(0)
s_mov_b32 s12, s10
; broken | dma read no wait | 2 waves
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
; right | dma read no wait | 2 waves
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
; broken | dma other wave no barrier | 2 waves
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; right | dma other wave no barrier | 2 waves
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | dma wait after barrier | 2 waves
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_barrier
s_waitcnt vmcnt(0)
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | dma counted past store | 2 waves
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
global_load_dword v20, v1, s[4:5]
s_waitcnt vmcnt(2)
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; right | dma counted past store | 2 waves
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
global_load_dword v20, v1, s[4:5]
s_waitcnt vmcnt(1)
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | dma waw ds_write | 2 waves
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
ds_write_b32 v1, v9
s_waitcnt vmcnt(0) lgkmcnt(0)
; broken | ds_read war dma | 2 waves
ds_read_b32 v10, v1
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0) lgkmcnt(0)
; right | ds_read war dma | 2 waves
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
; broken | ds_read war dma other wave | 2 waves
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
; right | ds_read war dma other wave | 2 waves
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
s_barrier
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
; broken | ds_read not waited before barrier, dma | 2 waves
ds_read_b32 v10, v3
s_barrier
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0) lgkmcnt(0)
; broken | ds_read not waited before barrier, ds_write | 2 waves
ds_read_b32 v10, v3
s_barrier
ds_write_b32 v1, v9
s_waitcnt vmcnt(0) lgkmcnt(0)
; broken | barrier skipped | 2 waves
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s7, 1
s_cbranch_scc1 .Lskip
s_barrier
.Lskip:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | barrier skipped, matched later | 2 waves
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s7, 1
s_cbranch_scc1 .Lskip
s_barrier
.Lskip:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Le
s_barrier
.Le:
; broken | wait skipped by one wave | 2 waves
ds_write_b32 v1, v0
s_cmp_eq_u32 s7, 1
s_cbranch_scc1 .Lskip
s_waitcnt lgkmcnt(0)
.Lskip:
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; right | wait skipped by one wave | 2 waves
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s7, 1
s_cbranch_scc1 .Lskip
s_nop 0
.Lskip:
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | exec masked barrier | 2 waves
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
v_cmp_gt_u32_e32 vcc, 64, v0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lx
s_barrier
.Lx:
s_or_b64 exec, exec, s[10:11]
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | exec masks that meet | 2 waves
v_and_b32_e32 v2, 0xfc, v1
v_cmp_gt_u32_e32 vcc, 64, v0
s_and_saveexec_b64 s[10:11], vcc
ds_write_b32 v2, v0
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
v_cmp_le_u32_e32 vcc, 64, v0
s_and_saveexec_b64 s[10:11], vcc
ds_write_b32 v2, v0
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
; right | exec masks that meet | 2 waves
v_and_b32_e32 v2, 0xfc, v1
v_cmp_gt_u32_e32 vcc, 64, v0
s_and_saveexec_b64 s[10:11], vcc
ds_write_b32 v2, v0
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
v_cmp_le_u32_e32 vcc, 64, v0
s_and_saveexec_b64 s[10:11], vcc
ds_write_b32 v2, v0
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
; broken | mfma read early | gfx90a gfx942 gfx950
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
v_accvgpr_read_b32 v12, a0
; right | mfma read early | gfx90a gfx942 gfx950
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
s_nop 15
s_nop 3
v_accvgpr_read_b32 v12, a0
; broken | mfma store early | gfx90a gfx942 gfx950
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
global_store_dword v1, a0, s[4:5]
; right | mfma store early | gfx90a gfx942 gfx950
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
s_nop 15
s_nop 3
global_store_dword v1, a0, s[4:5]
; broken | mfma chain other regs | gfx90a gfx942 gfx950
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
v_mfma_f32_16x16x16_f16 a[2:5], v[20:21], v[22:23], a[2:5]
; right | mfma chain other regs | gfx90a gfx942 gfx950
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
s_nop 15
s_nop 3
v_mfma_f32_16x16x16_f16 a[2:5], v[20:21], v[22:23], a[2:5]
; broken | mfma result as factor | gfx90a gfx942 gfx950
v_mfma_f32_16x16x16_f16 v[24:27], v[20:21], v[22:23], v[24:27]
v_mfma_f32_16x16x16_f16 a[0:3], v[24:25], v[22:23], a[0:3]
; broken | valu result as factor | gfx90a gfx942 gfx950
v_mov_b32_e32 v20, 0
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
; right | valu result as factor | gfx90a gfx942 gfx950
v_mov_b32_e32 v20, 0
s_nop 1
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
; broken | mfma reads pending
ds_read_b64 v[20:21], v1
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
s_waitcnt lgkmcnt(0)
; broken | mfma acc pending
global_load_dword a2, v1, s[4:5]
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
s_waitcnt vmcnt(0)
; broken | mfma early across a branch
v_mfma_f32_16x16x16_f16 a[0:3], v[20:21], v[22:23], a[0:3]
s_branch .Lj
.Lj:
v_accvgpr_read_b32 v12, a0
; broken | agpr write pending
global_load_dword a2, v1, s[4:5]
v_accvgpr_write_b32 a2, v9
s_waitcnt vmcnt(0)
; broken | lds agpr read pending
ds_read_b32 a2, v1
v_accvgpr_read_b32 v12, a2
s_waitcnt lgkmcnt(0)
; broken | expcnt only | 2 waves
ds_write_b32 v1, v0
s_waitcnt expcnt(0)
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | vmcnt for lds | 2 waves
ds_write_b32 v1, v0
s_waitcnt vmcnt(0)
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | lgkm(15)
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(15)
v_mov_b32_e32 v11, v10
; broken | numeric vm only
ds_read_b32 v10, v1
s_waitcnt 0xf70
v_mov_b32_e32 v11, v10
; right | numeric vm only
ds_read_b32 v10, v1
s_waitcnt 0xc07f
v_mov_b32_e32 v11, v10
; broken | numeric vmcnt 16
global_load_dword v10, v1, s[4:5]
s_waitcnt 0x4f70
v_mov_b32_e32 v11, v10
; right | numeric vmcnt 16
global_load_dword v10, v1, s[4:5]
s_waitcnt 0x0f70
v_mov_b32_e32 v11, v10
; broken | write2 st64 | 2 waves
ds_write2st64_b32 v1, v0, v0 offset0:0 offset1:1
s_waitcnt lgkmcnt(0)
ds_read_b32 v10, v1 offset:512
s_waitcnt lgkmcnt(0)
; broken | b64 overlaps b32 | 2 waves
v_lshlrev_b32_e32 v2, 3, v0
ds_write_b64 v2, v[0:1]
s_waitcnt lgkmcnt(0)
ds_read_b32 v10, v1 offset:252
s_waitcnt lgkmcnt(0)
; broken | atomic then plain | 2 waves
ds_add_u32 v9, v0
s_waitcnt lgkmcnt(0)
ds_read_b32 v10, v9
s_waitcnt lgkmcnt(0)
; right | atomic then plain | 2 waves
ds_add_u32 v9, v0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v10, v9
s_waitcnt lgkmcnt(0)
; broken | atomic no wait barrier | 2 waves
ds_add_u32 v9, v0
s_barrier
ds_read_b32 v10, v9
s_waitcnt lgkmcnt(0)
; broken | global atomic return early
global_atomic_add v10, v1, v0, s[4:5] sc0
v_mov_b32_e32 v11, v10
; right | global atomic return early
global_atomic_add v10, v1, v0, s[4:5] sc0
s_waitcnt vmcnt(0)
v_mov_b32_e32 v11, v10
; broken | global atomic then plain other wave | 2 waves
global_atomic_add v9, v0, s[4:5]
s_waitcnt vmcnt(0)
global_load_dword v10, v9, s[4:5]
s_waitcnt vmcnt(0)
; right | global atomic then plain other wave | 2 waves
global_atomic_add v9, v0, s[4:5]
s_waitcnt vmcnt(0)
s_barrier
global_load_dword v10, v9, s[4:5]
s_waitcnt vmcnt(0)
; right | global store then load other wave, in the order of issue | 2 waves
global_store_dword v1, v0, s[4:5]
s_barrier
global_load_dword v10, v3, s[4:5]
s_waitcnt vmcnt(0)
; right | global store then load other wave | 2 waves
global_store_dword v1, v0, s[4:5]
s_waitcnt vmcnt(0)
s_barrier
global_load_dword v10, v3, s[4:5]
s_waitcnt vmcnt(0)
; broken | two waves store different | 2 waves
v_and_b32_e32 v2, 0xfc, v1
global_store_dword v2, v0, s[4:5]
; broken | scalar load of stored, other wave | 2 waves
global_store_dword v1, v0, s[4:5]
s_waitcnt vmcnt(0)
s_barrier
s_load_dword s9, s[4:5], 0x100
s_waitcnt lgkmcnt(0)
; right | scalar load of stored, other wave | 2 waves
global_store_dword v1, v0, s[4:5]
s_waitcnt vmcnt(0)
s_barrier
s_dcache_inv
s_load_dword s9, s[4:5], 0x100
s_waitcnt lgkmcnt(0)
; broken | scalar load war store
s_load_dword s9, s[4:5], 0x0
global_store_dword v1, v0, s[4:5]
s_waitcnt lgkmcnt(0)
; broken | bpermute early
ds_bpermute_b32 v10, v1, v0
v_mov_b32_e32 v11, v10
; right | bpermute early
ds_bpermute_b32 v10, v1, v0
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v11, v10
; broken | permute early
ds_permute_b32 v10, v1, v0
v_mov_b32_e32 v11, v10
; broken | swizzle early
ds_swizzle_b32 v10, v0 offset:swizzle(SWAP,1)
v_mov_b32_e32 v11, v10
; broken | bpermute is no lds wait | 2 waves
ds_write_b32 v1, v0
ds_bpermute_b32 v10, v1, v0
s_waitcnt lgkmcnt(2)
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; right | bpermute is no lds wait | 2 waves
ds_write_b32 v1, v0
ds_bpermute_b32 v10, v1, v0
s_waitcnt lgkmcnt(1)
s_barrier
ds_read_b32 v11, v3
s_waitcnt lgkmcnt(0)
; broken | dpp of pending
global_load_dword v10, v1, s[4:5]
v_mov_b32_dpp v11, v10 row_shr:1 row_mask:0xf bank_mask:0xf
s_waitcnt vmcnt(0)
; broken | dpp after valu
v_mov_b32_e32 v10, v0
v_mov_b32_dpp v11, v10 row_shr:1 row_mask:0xf bank_mask:0xf
; right | dpp after valu
v_mov_b32_e32 v10, v0
s_nop 1
v_mov_b32_dpp v11, v10 row_shr:1 row_mask:0xf bank_mask:0xf
; broken | readlane pending
global_load_dword v10, v1, s[4:5]
v_readlane_b32 s9, v10, 3
s_waitcnt vmcnt(0)
; broken | readlane select by valu
v_readfirstlane_b32 s9, v0
v_readlane_b32 s10, v1, s9
; right | readlane select by valu
v_readfirstlane_b32 s9, v0
s_nop 3
v_readlane_b32 s10, v1, s9
; broken | endpgm early, race | 2 waves
s_cmp_eq_u32 s7, 1
s_cbranch_scc1 .Lskip
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_endpgm
.Lskip:
ds_write_b32 v3, v0
s_waitcnt lgkmcnt(0)
; broken | endpgm early instead of barrier | 2 waves
s_cmp_eq_u32 s7, 1
s_cbranch_scc1 .Lskip
ds_write_b32 v1, v0
s_endpgm
.Lskip:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; right | endpgm early instead of barrier | 2 waves
s_cmp_eq_u32 s7, 1
s_cbranch_scc1 .Lskip
ds_write_b32 v1, v0
s_endpgm
.Lskip:
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | lds beyond
ds_write_b32 v1, v0 offset:3844
s_waitcnt lgkmcnt(0)
; right | lds beyond
ds_write_b32 v1, v0 offset:3840
s_waitcnt lgkmcnt(0)
; broken | dma lds beyond
s_movk_i32 m0, 0xf10
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
; broken | m0 right before dma
s_mov_b32 m0, s8
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
; broken | sgpr by valu right before global
v_readfirstlane_b32 s12, v0
v_readfirstlane_b32 s13, v0
global_load_dword v10, v1, s[12:13]
s_waitcnt vmcnt(0)
; broken | smem waw
s_load_dword s9, s[4:5], 0x0
s_load_dword s9, s[4:5], 0x4
s_waitcnt lgkmcnt(0)
; broken | vcc pending
s_load_dwordx2 vcc, s[4:5], 0x0
v_div_fmas_f32 v10, v0, v1, v2
s_waitcnt lgkmcnt(0)
; broken | store of pending
ds_read_b32 v10, v1
global_store_dword v1, v10, s[4:5]
; right | store of pending
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
global_store_dword v1, v10, s[4:5]
; broken | b128 last word
ds_read_b128 v[10:13], v9
v_mov_b32_e32 v14, v13
s_waitcnt lgkmcnt(0)
; broken | write2 same place other values
ds_write2_b32 v1, v0, v1 offset0:0 offset1:0
s_waitcnt lgkmcnt(0)
; broken | lanes different
v_and_b32_e32 v2, 0x7c, v1
ds_write_b32 v2, v0
s_waitcnt lgkmcnt(0)
; broken | sleep is no sync | 2 waves
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_sleep 10
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | store data overwritten x4
v_lshlrev_b32_e32 v2, 2, v1
global_store_dwordx4 v2, v[10:13], s[4:5]
v_mov_b32_e32 v10, 0
; right | store data overwritten x4
v_lshlrev_b32_e32 v2, 2, v1
global_store_dwordx4 v2, v[10:13], s[4:5]
s_nop 1
v_mov_b32_e32 v10, 0
; broken | structured buffer offset | 2 waves
s_and_b32 s5, s5, 0xffff
s_or_b32 s5, s5, 0x100000
s_mov_b32 s6, 0x40
s_mov_b32 s7, 0x20000
v_and_b32_e32 v2, 0xfc, v1
buffer_store_dword v0, v2, s[4:7], 0 offen offset:64
s_waitcnt vmcnt(0)
; broken | soffset beyond | 2 waves
s_mov_b32 s6, 0x40
s_mov_b32 s7, 0x20000
s_movk_i32 s9, 0x40
v_and_b32_e32 v2, 0xfc, v1
buffer_store_dword v0, v2, s[4:7], s9 offen
s_waitcnt vmcnt(0)
; broken | agent handover | 2 groups
s_cmp_eq_u32 s2, 0
s_cbranch_scc0 .Lc
global_store_dword v1, v0, s[4:5]
s_waitcnt vmcnt(0)
global_atomic_add v9, v0, s[4:5] offset:2048
s_endpgm
.Lc:
global_load_dword v10, v9, s[4:5] offset:2048 sc1
s_waitcnt vmcnt(0)
global_load_dword v11, v1, s[4:5]
s_waitcnt vmcnt(0)
; broken | agent handover sc1 | 2 groups
s_cmp_eq_u32 s2, 0
s_cbranch_scc0 .Lc
global_store_dword v1, v0, s[4:5] sc1
global_store_dword v9, v0, s[4:5] offset:2048 sc1
s_endpgm
.Lc:
global_load_dword v10, v9, s[4:5] offset:2048 sc1
s_waitcnt vmcnt(0)
global_load_dword v11, v1, s[4:5] sc1
s_waitcnt vmcnt(0)
; broken | agent handover sc0 only | 2 groups
s_cmp_eq_u32 s2, 0
s_cbranch_scc0 .Lc
global_store_dword v1, v0, s[4:5] sc0
global_store_dword v9, v0, s[4:5] offset:2048 sc0
s_endpgm
.Lc:
global_load_dword v10, v9, s[4:5] offset:2048 sc0
s_waitcnt vmcnt(0)
global_load_dword v11, v1, s[4:5] sc0
s_waitcnt vmcnt(0)
; broken | groups store different | 2 groups
global_store_dword v1, v0, s[4:5]
s_add_u32 s9, s2, 1
v_mov_b32_e32 v10, s9
global_store_dword v1, v10, s[4:5]
; broken | relaxed flag scalar poll
.Lp:
s_load_dword s9, s[4:5], 0x800 glc
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s9, 0
s_cbranch_scc1 .Lp
global_load_dword v11, v1, s[4:5]
s_waitcnt vmcnt(0)
; broken | d16 keeps half pending
ds_read_u16_d16 v10, v1
v_mov_b32_e32 v11, v10
s_waitcnt lgkmcnt(0)
; broken | ds_write then atomic of other wave | 2 waves
ds_write_b32 v9, v9
s_waitcnt lgkmcnt(0)
ds_add_u32 v9, v0
s_waitcnt lgkmcnt(0)
; broken | write then dma read of global by other queue
global_store_dword v1, v0, s[4:5]
s_load_dwordx4 s[12:15], s[4:5], 0x0
s_waitcnt lgkmcnt(0) vmcnt(0)
; broken | scalar buffer load of stored
s_mov_b32 s6, 0x1000
s_mov_b32 s7, 0x20000
global_store_dword v1, v0, s[4:5]
s_waitcnt vmcnt(0)
s_buffer_load_dword s9, s[4:7], 0x0
s_waitcnt lgkmcnt(0)
; broken | dcache_inv before the store is over
global_store_dword v1, v0, s[4:5]
s_dcache_inv
s_waitcnt vmcnt(0)
s_load_dword s9, s[4:5], 0x0
s_waitcnt lgkmcnt(0)
; broken | dcache_inv by the other wave only | 2 waves
global_store_dword v1, v0, s[4:5]
s_waitcnt vmcnt(0)
s_barrier
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .La
s_dcache_inv
s_endpgm
.La:
s_load_dword s9, s[4:5], 0x100
s_waitcnt lgkmcnt(0)
; broken | scalar cached before, atomics | 2 waves
s_load_dword s9, s[4:5], 0x0
s_waitcnt lgkmcnt(0)
s_barrier
global_atomic_add v9, v0, s[4:5]
s_waitcnt vmcnt(0)
s_barrier
s_load_dword s9, s[4:5], 0x0
s_waitcnt lgkmcnt(0)
; broken | exec zero barrier wrong arm | 2 waves
v_cmp_gt_u32_e32 vcc, 64, v0
s_cbranch_vccz .Lz
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
.Lz:
ds_read_b32 v10, v9
s_waitcnt lgkmcnt(0)
; broken | buffer dma beyond end, lds | 2 waves
s_mov_b32 s6, 0
s_mov_b32 s7, 0x20000
s_mov_b32 m0, s8
s_nop 0
buffer_load_dword v1, s[4:7], 0 offen lds
ds_read_b32 v10, v1
s_waitcnt vmcnt(0) lgkmcnt(0)
; broken | idxen store | 2 waves
s_mov_b32 s6, 0x1000
s_mov_b32 s7, 0x20000
s_or_b32 s5, s5, 0x40000
buffer_store_dword v0, v9, s[4:7], 0 idxen
s_waitcnt vmcnt(0)
; broken | two waves copy to one place | 2 waves
s_mov_b32 m0, 0
s_nop 0
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
; broken | m0 offset forgotten | 2 waves
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5] offset:256
s_waitcnt vmcnt(0)
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
; broken | sub-dword copy | 2 waves
s_lshl_b32 s9, s7, 6
s_mov_b32 m0, s9
s_nop 0
global_load_lds_ubyte v0, s[4:5]
s_waitcnt vmcnt(0)
; broken | wait only in first trip | 2 waves
s_mov_b32 s9, 0
.Ll:
ds_write_b32 v1, v0
s_cmp_eq_u32 s9, 0
s_cbranch_scc0 .Ln
s_waitcnt lgkmcnt(0)
.Ln:
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
s_barrier
s_add_u32 s9, s9, 1
s_cmp_lt_u32 s9, 3
s_cbranch_scc1 .Ll
; broken | last trip skips barrier | 2 waves
s_mov_b32 s9, 0
.Ll:
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s9, 2
s_cbranch_scc1 .Ln
s_barrier
.Ln:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
s_barrier
s_add_u32 s9, s9, 1
s_cmp_lt_u32 s9, 3
s_cbranch_scc1 .Ll
; broken | far trip by the number of trips | 2 waves
s_load_dword s10, s[0:1], 0x8
s_waitcnt lgkmcnt(0)
s_mov_b32 s9, 0
.Ll:
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s9, 4
s_cbranch_scc1 .Ln
s_barrier
.Ln:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
s_barrier
s_add_u32 s9, s9, 1
s_cmp_lt_u32 s9, s10
s_cbranch_scc1 .Ll
; broken | global atomic other wave, plain store | 2 waves
global_store_dword v9, v9, s[4:5]
global_atomic_add v9, v0, s[4:5]
s_waitcnt vmcnt(0)
; broken | atomic x2 over word | 2 waves
v_mov_b32_e32 v10, 4
global_atomic_add_x2 v9, v[20:21], s[4:5]
global_load_dword v11, v10, s[4:5]
s_waitcnt vmcnt(0)
; broken | cmpswap data pending
global_load_dword v11, v1, s[4:5] offset:512
global_atomic_cmpswap v9, v[10:11], s[4:5]
s_waitcnt vmcnt(0)
; broken | rtn atomic lds data
ds_add_rtn_u32 v10, v9, v0
v_add_u32_e32 v11, v10, v10
s_waitcnt lgkmcnt(0)
; broken | ds_append | 2 waves
s_mov_b32 m0, 0
s_nop 0
ds_append v10
ds_read_b32 v11, v9
s_waitcnt lgkmcnt(0)
; broken | addtid | 2 waves
s_mov_b32 m0, 0
s_nop 0
ds_write_addtid_b32 v0
s_waitcnt lgkmcnt(0)
; broken | exec_lo half | 2 waves
s_mov_b32 exec_lo, -1
s_mov_b32 exec_hi, 0
v_and_b32_e32 v2, 0x7c, v1
ds_write_b32 v2, v0
s_waitcnt lgkmcnt(0)
; broken | read past barrier by prefetch | 2 waves
ds_write_b32 v1, v0
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v11, v10
; broken | waitcnt in only the other order | 2 waves
s_waitcnt lgkmcnt(0)
ds_write_b32 v1, v0
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; right | lds dma read of another's stored global | 2 waves
global_store_dword v1, v0, s[4:5]
s_barrier
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v3, s[4:5]
s_waitcnt vmcnt(0)
; broken | groups scalar load of other's store | 2 groups
s_lshl_b32 s9, s2, 8
v_add_u32_e32 v2, s9, v1
global_store_dword v2, v0, s[4:5]
s_load_dword s10, s[4:5], 0x100
s_waitcnt lgkmcnt(0)
; broken | groups atomics and plain | 2 groups
global_atomic_add v9, v0, s[4:5]
s_cmp_eq_u32 s2, 0
s_cbranch_scc1 .La
global_load_dword v10, v9, s[4:5]
s_waitcnt vmcnt(0)
.La:
; broken | groups: nt store is not coherent | 2 groups
global_store_dword v1, v0, s[4:5] nt
s_add_u32 s9, s2, 1
v_mov_b32_e32 v10, s9
global_store_dword v1, v10, s[4:5] nt
; broken | groups wbl2 inv but no flag | 2 groups
s_cmp_eq_u32 s2, 0
s_cbranch_scc0 .Lc
global_store_dword v1, v0, s[4:5]
s_waitcnt vmcnt(0)
buffer_wbl2 sc1
s_waitcnt vmcnt(0)
s_endpgm
.Lc:
buffer_inv sc1
global_load_dword v11, v1, s[4:5]
s_waitcnt vmcnt(0)
; broken | dpp exec by valu
v_cmpx_gt_u32_e32 vcc, 70, v0
v_mov_b32_dpp v11, v0 row_shr:1 row_mask:0xf bank_mask:0xf
; right | dpp exec by valu
v_cmpx_gt_u32_e32 vcc, 70, v0
s_nop 4
v_mov_b32_dpp v11, v0 row_shr:1 row_mask:0xf bank_mask:0xf
; broken | trans forwarded
v_exp_f32_e32 v10, v0
v_add_f32_e32 v11, v10, v10
; broken | permlane swap
v_mov_b32_e32 v10, v0
v_permlane32_swap_b32 v10, v11
; broken | div_fmas vcc
v_cmp_gt_u32_e32 vcc, 5, v0
v_div_fmas_f32 v10, v0, v1, v2
; broken | setreg getreg
s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0
s_getreg_b32 s9, hwreg(HW_REG_MODE)
; broken | scratch overwritten data
scratch_store_dwordx4 off, v[10:13], off
v_mov_b32_e32 v10, 0
; broken | swap of pending
ds_read_b32 v10, v1
v_swap_b32 v11, v10
s_waitcnt lgkmcnt(0)
; broken | writelane to pending
ds_read_b32 v10, v1
v_writelane_b32 v10, s9, 3
s_waitcnt lgkmcnt(0)
; broken | saveexec pending
s_load_dwordx2 s[12:13], s[4:5], 0x0
s_and_saveexec_b64 s[10:11], s[12:13]
s_waitcnt lgkmcnt(0)
; broken | m0 pending
s_load_dword s9, s[4:5], 0x0
s_mov_b32 m0, s9
s_waitcnt lgkmcnt(0)
; broken | vcc branch pending
s_load_dwordx2 vcc, s[4:5], 0x0
s_cbranch_vccz .La
.La:
s_waitcnt lgkmcnt(0)
; broken | xnack? resource pending
s_load_dwordx4 s[12:15], s[4:5], 0x0
buffer_load_dword v10, off, s[12:15], 0
s_waitcnt lgkmcnt(0) vmcnt(0)
; broken | soffset pending
s_mov_b32 s6, 0x1000
s_mov_b32 s7, 0x20000
s_load_dword s9, s[4:5], 0x0
buffer_load_dword v10, off, s[4:7], s9
s_waitcnt lgkmcnt(0) vmcnt(0)
; broken | readfirstlane of pending agpr
global_load_dword a0, v1, s[4:5]
v_accvgpr_mov_b32 a1, a0
s_waitcnt vmcnt(0)
; broken | mfma scale pending
global_load_dword v30, v1, s[4:5]
v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[8:15], v[16:23], a[0:3], v30, v31
s_waitcnt vmcnt(0)
; broken | smfmac index pending
global_load_dword v30, v1, s[4:5]
v_smfmac_f32_16x16x32_f16 a[0:3], v[8:9], v[16:19], v30
s_waitcnt vmcnt(0)
; broken | sdwa pending
global_load_dword v30, v1, s[4:5]
v_add_u32_sdwa v31, v30, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:DWORD
s_waitcnt vmcnt(0)
; broken | sdwa preserve pending
global_load_dword v31, v1, s[4:5]
v_add_u16_sdwa v31, v30, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0 src1_sel:DWORD
s_waitcnt vmcnt(0)
; right | lds negative base
v_add_u32_e32 v2, -4, v1
ds_write_b32 v2, v0 offset:4
s_waitcnt lgkmcnt(0)
; right | loop: double buffer no barrier | 2 waves
s_mov_b32 s9, 4
.Ll:
s_and_b32 s10, s9, 1
s_lshl_b32 s10, s10, 9
v_add_u32_e32 v5, s10, v1
v_add_u32_e32 v6, s10, v3
ds_write_b32 v5, v0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v10, v6
s_waitcnt lgkmcnt(0)
s_sub_u32 s9, s9, 1
s_cmp_lg_u32 s9, 0
s_cbranch_scc1 .Ll
; broken | flat store to LDS read without a wait | 2 waves
s_mov_b64 s[10:11], src_shared_base
v_mov_b32_e32 v2, v1
v_mov_b32_e32 v3, s11
flat_store_dword v[2:3], v0
s_barrier
v_xor_b32_e32 v4, 0x100, v1
ds_read_b32 v10, v4
s_waitcnt lgkmcnt(0)
; right | flat store to LDS read without a wait | 2 waves
s_mov_b64 s[10:11], src_shared_base
v_mov_b32_e32 v2, v1
v_mov_b32_e32 v3, s11
flat_store_dword v[2:3], v0
s_waitcnt lgkmcnt(0)
s_barrier
v_xor_b32_e32 v4, 0x100, v1
ds_read_b32 v10, v4
s_waitcnt lgkmcnt(0)
; broken | flat load of a register, one counter
v_mov_b32_e32 v2, s4
v_mov_b32_e32 v3, s5
flat_load_dword v10, v[2:3]
s_waitcnt vmcnt(0)
v_mov_b32_e32 v11, v10
; broken | flat load of a register, the other counter
v_mov_b32_e32 v2, s4
v_mov_b32_e32 v3, s5
flat_load_dword v10, v[2:3]
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v11, v10
; broken | flat load of a register, counted
v_mov_b32_e32 v2, s4
v_mov_b32_e32 v3, s5
flat_load_dword v10, v[2:3]
global_load_dword v12, v1, s[4:5]
ds_read_b32 v13, v1
s_waitcnt vmcnt(1) lgkmcnt(1)
v_mov_b32_e32 v11, v10
; right | flat load of a register, one counter after the other
v_mov_b32_e32 v2, s4
v_mov_b32_e32 v3, s5
flat_load_dword v10, v[2:3]
s_waitcnt vmcnt(0)
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v11, v10
; broken | flat load beyond LDS
s_mov_b64 s[10:11], src_shared_base
v_mov_b32_e32 v2, 0x1000
v_mov_b32_e32 v3, s11
flat_load_dword v10, v[2:3]
s_waitcnt vmcnt(0) lgkmcnt(0)
; broken | flat atomics beside a plain store | 2 waves
s_mov_b64 s[10:11], src_shared_base
v_mov_b32_e32 v2, 0
v_mov_b32_e32 v3, s11
flat_atomic_add v[2:3], v0
ds_write_b32 v9, v9
s_waitcnt lgkmcnt(0) vmcnt(0)
; broken | product writes lanes that are not active | gfx90a gfx942 gfx950
v_mov_b32_e32 v20, 1
v_mov_b32_e32 v40, 0
v_mov_b32_e32 v41, 0
s_mov_b64 exec, 1
s_nop 7
v_mfma_f32_16x16x16_f16 v[20:23], v[40:41], v[40:41], 0
s_nop 15
s_nop 7
v_readlane_b32 s20, v20, 63
s_cmp_eq_u32 s20, 1
s_cbranch_scc1 .Lwhole
ds_read_b32 v20, v1
v_mov_b32_e32 v21, v20
.Lwhole:
s_waitcnt lgkmcnt(0)
; right | product writes lanes that are not active | gfx90a gfx942 gfx950
v_mov_b32_e32 v24, 1
v_mov_b32_e32 v40, 0
v_mov_b32_e32 v41, 0
s_mov_b64 exec, 1
s_nop 7
v_mfma_f32_16x16x16_f16 v[20:23], v[40:41], v[40:41], 0
s_nop 15
s_nop 7
v_readlane_b32 s20, v24, 63
s_cmp_eq_u32 s20, 1
s_cbranch_scc1 .Lwhole
ds_read_b32 v20, v1
v_mov_b32_e32 v21, v20
.Lwhole:
s_waitcnt lgkmcnt(0)
; broken | exchanged lanes that are not active
v_mov_b32_e32 v20, 1
v_mov_b32_e32 v21, 2
s_mov_b64 exec, 1
s_nop 4
v_permlane32_swap_b32_e32 v20, v21
s_nop 4
v_readlane_b32 s20, v20, 63
s_cmp_eq_u32 s20, 1
s_cbranch_scc1 .Lkept
ds_read_b32 v20, v1
v_mov_b32_e32 v21, v20
.Lkept:
s_waitcnt lgkmcnt(0)
; broken | copy of 16 bytes over known words
v_lshlrev_b32_e32 v20, 4, v0
v_mov_b32_e32 v24, 1
v_mov_b32_e32 v25, 1
v_mov_b32_e32 v26, 1
v_mov_b32_e32 v27, 1
ds_write_b128 v20, v[24:27]
s_waitcnt lgkmcnt(0)
s_mov_b32 m0, 0
s_nop 0
global_load_lds_dwordx4 v20, s[4:5]
s_waitcnt vmcnt(0)
ds_read_b32 v30, v20 offset:4
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s20, v30
s_cmp_eq_u32 s20, 1
s_cbranch_scc1 .Lkept
ds_read_b32 v20, v1
v_mov_b32_e32 v21, v20
.Lkept:
s_waitcnt lgkmcnt(0)
; right | copy of 16 bytes over known words
v_lshlrev_b32_e32 v20, 4, v0
v_mov_b32_e32 v24, 1
v_mov_b32_e32 v25, 1
v_mov_b32_e32 v26, 1
v_mov_b32_e32 v27, 1
ds_write_b128 v20, v[24:27]
s_waitcnt lgkmcnt(0)
s_movk_i32 m0, 0x400
s_nop 0
global_load_lds_dwordx4 v20, s[4:5]
s_waitcnt vmcnt(0)
ds_read_b32 v30, v20 offset:4
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s20, v30
s_cmp_eq_u32 s20, 1
s_cbranch_scc1 .Lkept
ds_read_b32 v20, v1
v_mov_b32_e32 v21, v20
.Lkept:
s_waitcnt lgkmcnt(0)
; broken | byte in the last word of LDS
s_movk_i32 s20, 0xffc
v_mov_b32_e32 v20, s20
v_mov_b32_e32 v24, 1
s_mov_b64 exec, 1
s_nop 4
global_load_dword v25, v9, s[4:5]
ds_write_b32 v20, v24
s_waitcnt vmcnt(0) lgkmcnt(0)
ds_write_b8 v20, v25 offset:3
ds_read_b32 v30, v20
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s20, v30
s_cmp_eq_u32 s20, 1
s_cbranch_scc1 .Lkept
ds_read_b32 v20, v1
v_mov_b32_e32 v21, v20
.Lkept:
s_waitcnt lgkmcnt(0)
; broken | private words that overlap
v_mov_b32_e32 v20, 5
scratch_store_dword off, v20, off offset:0
global_load_dword v21, v9, s[4:5]
s_waitcnt vmcnt(0)
scratch_store_dword off, v21, off offset:2
scratch_load_dword v22, off, off offset:0
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s20, v22
s_cmp_eq_u32 s20, 5
s_cbranch_scc1 .Lkept
ds_read_b32 v20, v1
v_mov_b32_e32 v21, v20
.Lkept:
s_waitcnt lgkmcnt(0)
; broken | the wave halts
s_sethalt 1
; broken | the wave halts behind a message
s_sendmsghalt sendmsg(MSG_INTERRUPT)
; broken | the wave is killed
s_setkill 1
; broken | skipped by the mode
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 1
; broken | registers by an index of the mode
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 1), 1
; right | a mode of rounding
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15
; broken | skipped vector code | 2 waves | unwritten
s_setvskip -1, 0
ds_write_b32 v1, v0
s_setvskip 0, 0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v2, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v2, s[4:5]
; right | skipped vector code | 2 waves
s_setvskip -1, 0
ds_read_b32 v2, v3
s_setvskip 4, 2
v_mov_b32_e32 v4, v2
s_setvskip 5, 1
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v2, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v2, s[4:5]
; broken | skipped loads are not counted
global_load_dword v10, v1, s[4:5]
s_setvskip -1, 0
global_load_dword v11, v1, s[4:5] offset:4
s_setvskip 0, 0
s_waitcnt vmcnt(1)
v_mov_b32_e32 v12, v10
; broken | skipped by what is not known
s_load_dword s20, s[4:5], 0x0
s_waitcnt lgkmcnt(0)
s_setvskip s20, 0
; broken | swap by two waves | 2 waves
v_mov_b32_e32 v20, s7
global_atomic_swap v9, v20, s[4:5]
; right | swap by one wave, read by the other | 2 waves
s_mov_b64 exec, 1
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lread
v_mov_b32_e32 v20, s7
global_atomic_swap v9, v20, s[4:5]
s_waitcnt vmcnt(0)
.Lread:
s_barrier
global_load_dword v22, v9, s[4:5]
s_waitcnt vmcnt(0)
; broken | maximum and sum in any order | 2 waves
ds_write_b32 v9, v9
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v20, 3
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lmost
ds_add_u32 v9, v20
.Lmost:
ds_max_u32 v9, v20
s_waitcnt lgkmcnt(0)
; right | maximum, then sum | 2 waves
ds_write_b32 v9, v9
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v20, 3
ds_add_u32 v9, v20
s_waitcnt lgkmcnt(0)
s_barrier
ds_max_u32 v9, v20
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v22, v9
s_waitcnt lgkmcnt(0)
global_store_dword v1, v22, s[4:5]
; broken | swap by two groups | 2 groups
v_mov_b32_e32 v20, s2
global_atomic_swap v9, v20, s[4:5]
; right | sum by two groups | 2 groups
v_mov_b32_e32 v20, s2
global_atomic_add v9, v20, s[4:5]
; broken | old values in an order of lanes
v_mov_b32_e32 v20, 1
global_atomic_add v21, v9, v20, s[4:5] sc0
s_waitcnt vmcnt(0)
global_store_dword v1, v21, s[4:5] offset:1024
; broken | old values of two waves | 2 waves
v_mov_b32_e32 v20, 1
s_mov_b64 exec, 1
s_nop 4
global_atomic_add v21, v9, v20, s[4:5] sc0
s_waitcnt vmcnt(0)
v_mov_b32_e32 v24, s8
global_store_dword v24, v21, s[4:5] offset:1024
; right | old value of one lane
v_mov_b32_e32 v20, 1
s_mov_b64 exec, 1
s_nop 4
global_atomic_add v21, v9, v20, s[4:5] sc0
s_waitcnt vmcnt(0)
global_store_dword v1, v21, s[4:5] offset:1024
; right | two waves store what both have loaded | 2 waves
v_and_b32_e32 v20, 0xfc, v1
global_load_dword v21, v20, s[4:5]
global_load_dword v22, v20, s[4:5] offset:256
s_waitcnt vmcnt(0)
v_add_f32_e32 v21, v21, v22
ds_write_b32 v20, v21
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v22, v20
s_waitcnt lgkmcnt(0)
global_store_dword v1, v22, s[4:5] offset:1024
; broken | two waves store what each has loaded | 2 waves
v_and_b32_e32 v20, 0xfc, v1
global_load_dword v21, v1, s[4:5]
global_load_dword v22, v20, s[4:5] offset:256
s_waitcnt vmcnt(0)
v_add_f32_e32 v21, v21, v22
ds_write_b32 v20, v21
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v22, v20
s_waitcnt lgkmcnt(0)
global_store_dword v1, v22, s[4:5] offset:1024
; broken | two waves store what both have loaded, and a wave reads early | 2 waves
v_and_b32_e32 v20, 0xfc, v1
global_load_dword v21, v20, s[4:5]
s_waitcnt vmcnt(0)
ds_write_b32 v20, v21
s_waitcnt lgkmcnt(0)
v_xor_b32_e32 v23, 4, v20
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lother
ds_read_b32 v22, v23
s_waitcnt lgkmcnt(0)
.Lother:
s_barrier
; broken | two waves round differently | 2 waves
v_and_b32_e32 v20, 0xfc, v1
global_load_dword v21, v20, s[4:5]
global_load_dword v22, v20, s[4:5] offset:256
s_waitcnt vmcnt(0)
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lother
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 15
.Lother:
v_add_f32_e32 v21, v21, v22
ds_write_b32 v20, v21
s_waitcnt lgkmcnt(0)
; broken | two waves subtract in another order | 2 waves
v_and_b32_e32 v20, 0xfc, v1
global_load_dword v21, v20, s[4:5]
global_load_dword v22, v20, s[4:5] offset:256
s_waitcnt vmcnt(0)
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lother
v_sub_f32_e32 v23, v21, v22
s_branch .Lboth
.Lother:
v_sub_f32_e32 v23, v22, v21
.Lboth:
ds_write_b32 v20, v23
s_waitcnt lgkmcnt(0)
; right | two waves add in another order | 2 waves
v_and_b32_e32 v20, 0xfc, v1
global_load_dword v21, v20, s[4:5]
global_load_dword v22, v20, s[4:5] offset:256
s_waitcnt vmcnt(0)
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lother
v_add_f32_e32 v23, v21, v22
s_branch .Lboth
.Lother:
v_add_f32_e32 v23, v22, v21
.Lboth:
ds_write_b32 v20, v23
s_waitcnt lgkmcnt(0)
; broken | two waves store what a clock gives | 2 waves
v_and_b32_e32 v20, 0xfc, v1
s_memtime s[20:21]
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v21, s20
ds_write_b32 v20, v21
s_waitcnt lgkmcnt(0)
; broken | two waves store what was loaded before and behind a store | 2 waves
v_and_b32_e32 v20, 0xfc, v1
global_load_dword v21, v20, s[4:5]
s_waitcnt vmcnt(0)
s_barrier
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lother
global_store_dword v20, v0, s[4:5]
global_load_dword v21, v20, s[4:5]
s_waitcnt vmcnt(0)
.Lother:
ds_write_b32 v20, v21
s_waitcnt lgkmcnt(0)
; broken | two waves store what was in a part of LDS | 2 waves
v_and_b32_e32 v20, 0xfc, v1
global_load_dword v21, v20, s[4:5]
s_waitcnt vmcnt(0)
ds_write_b32 v1, v21 offset:1024
ds_write_b8 v1, v0 offset:1025
ds_read_b32 v22, v1 offset:1024
s_waitcnt lgkmcnt(0)
ds_write_b32 v20, v22
s_waitcnt lgkmcnt(0)
; right | lanes of a row have summed all of it
global_load_dword v20, v1, s[4:5]
v_lshrrev_b32_e32 v24, 4, v0
v_lshlrev_b32_e32 v24, 2, v24
s_waitcnt vmcnt(0)
s_nop 1
v_add_f32_dpp v20, v20, v20 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
s_nop 1
v_add_f32_dpp v20, v20, v20 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf
s_nop 1
v_add_f32_dpp v20, v20, v20 row_half_mirror row_mask:0xf bank_mask:0xf
s_nop 1
v_add_f32_dpp v20, v20, v20 row_mirror row_mask:0xf bank_mask:0xf
s_nop 1
ds_write_b32 v24, v20
s_waitcnt lgkmcnt(0)
; broken | lanes of a row have summed half of it
global_load_dword v20, v1, s[4:5]
v_lshrrev_b32_e32 v24, 4, v0
v_lshlrev_b32_e32 v24, 2, v24
s_waitcnt vmcnt(0)
s_nop 1
v_add_f32_dpp v20, v20, v20 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
s_nop 1
v_add_f32_dpp v20, v20, v20 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf
s_nop 1
v_add_f32_dpp v20, v20, v20 row_half_mirror row_mask:0xf bank_mask:0xf
s_nop 1
ds_write_b32 v24, v20
s_waitcnt lgkmcnt(0)
; broken | lanes of a row, of which a bank is left out
global_load_dword v20, v1, s[4:5]
v_lshrrev_b32_e32 v24, 1, v0
v_lshlrev_b32_e32 v24, 2, v24
s_waitcnt vmcnt(0)
s_nop 1
v_add_f32_dpp v20, v20, v20 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0x7
s_nop 1
ds_write_b32 v24, v20
s_waitcnt lgkmcnt(0)
; right | halves exchanged and summed
global_load_dword v20, v1, s[4:5]
v_and_b32_e32 v24, 31, v0
v_lshlrev_b32_e32 v24, 2, v24
s_waitcnt vmcnt(0)
v_mov_b32_e32 v21, v20
s_nop 1
v_permlane32_swap_b32_e32 v20, v21
s_nop 1
v_add_f32_e32 v20, v20, v21
ds_write_b32 v24, v20
s_waitcnt lgkmcnt(0)
; broken | halves exchanged with another register, and summed
global_load_dword v20, v1, s[4:5]
global_load_dword v21, v1, s[4:5] offset:256
v_and_b32_e32 v24, 31, v0
v_lshlrev_b32_e32 v24, 2, v24
s_waitcnt vmcnt(0)
s_nop 1
v_permlane32_swap_b32_e32 v20, v21
s_nop 1
v_sub_f32_e32 v20, v20, v21
ds_write_b32 v24, v20
s_waitcnt lgkmcnt(0)
; broken | barrier in .if 0 | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
.if 0
s_barrier
.endif
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; broken | wait in a macro never used
global_load_dword v5, v1, s[4:5]
.macro W
s_waitcnt vmcnt(0)
.endm
v_add_u32_e32 v6, v5, v5
; broken | rept 0 barrier | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
.rept 0
s_barrier
.endr
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; broken | raw word store | 2 waves
v_mov_b32_e32 v7, 0
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v5, v3
.long 0xd81a0000, 0x00000101
s_waitcnt lgkmcnt(0)
; broken | offset by symbol | 2 waves
.set OFF, 256
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
s_barrier
v_cmp_eq_u32_e64 s[10:11], s7, 0
s_nop 4
ds_read_b32 v5, v1
ds_write_b32 v1, v1 offset:OFF
s_waitcnt lgkmcnt(0)
; broken | instructions in another section | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
.section .text.cold
s_barrier
.text
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; broken | vccz is stale behind a half | 2 waves
s_mov_b64 vcc, 1
s_mov_b32 vcc_lo, 0
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
s_cbranch_vccnz .Lx
s_barrier
.Lx:
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; broken | offset in an expression | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v5, v1
ds_write_b32 v1, v1 offset:128+128
s_waitcnt lgkmcnt(0)
; broken | waitcnt with a symbol
.set N, 1
global_load_dword v5, v1, s[4:5]
s_waitcnt vmcnt(N)
v_add_u32_e32 v6, v5, v5
; broken | octal count
global_load_dword v5, v1, s[4:5]
global_load_dword v6, v1, s[4:5]
s_waitcnt vmcnt(01)
v_add_u32_e32 v6, v6, v5
; right | octal count
global_load_dword v5, v1, s[4:5]
global_load_dword v6, v1, s[4:5]
s_waitcnt vmcnt(00)
v_add_u32_e32 v6, v6, v5
; broken | negative literal of 64 bits is extended by zeros | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
s_mov_b64 s[10:11], -256
s_cmp_eq_u32 s11, 0
s_cbranch_scc1 .Lx
s_barrier
.Lx:
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; right | negative literal of 64 bits is extended by zeros | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
s_mov_b64 s[10:11], -256
s_cmp_lg_u32 s11, 0
s_cbranch_scc1 .Lx
s_barrier
.Lx:
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; right | vccz behind a half and a whole | 2 waves
s_mov_b64 vcc, 1
s_mov_b32 vcc_lo, 0
s_mov_b64 vcc, vcc
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
s_cbranch_vccnz .Lx
s_barrier
.Lx:
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; broken | barrier in a comment of two lines | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0) /* and
s_barrier
; */
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; broken | copy from a part of a word of M0 | 2 waves
ds_write_b32 v9, v9 offset:256
s_waitcnt lgkmcnt(0)
s_barrier
s_sub_i32 s10, 1, s7
s_lshl_b32 s10, s10, 9
s_add_i32 m0, s10, 0x101
s_nop 0
global_load_lds_dword v1, s[4:5]
ds_read_u8 v5, v9 offset:256
s_waitcnt vmcnt(0) lgkmcnt(0)
; broken | barrier only where a number is not zero | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v12, 1.0
v_cmp_neq_f32_e32 vcc, 1.0, v12
s_cbranch_vccz .Lx
s_barrier
.Lx:
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; right | barrier where a number is one | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v12, 1.0
v_cmp_eq_f32_e32 vcc, 1.0, v12
s_cbranch_vccz .Lx
s_barrier
.Lx:
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; broken | barrier where a subnormal number is not zero | 2 waves
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v12, 1
v_cmp_lg_f32_e32 vcc, 0, v12
s_cbranch_vccz .Lx
s_barrier
.Lx:
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
; broken | atomic of the scalar unit beside a store | 2 waves
s_mov_b32 s10, 1
s_atomic_add s10, s[4:5], 0x0 glc
s_waitcnt lgkmcnt(0)
; broken | store of the scalar unit
s_mov_b32 s10, 1
s_store_dword s10, s[4:5], 0x0
global_load_dword v5, v1, s[4:5]
s_waitcnt vmcnt(0) lgkmcnt(0)
; broken | scalar atomic not waited for
s_atomic_add s10, s[4:5], 0x0 glc
s_mov_b32 s11, s10
s_waitcnt lgkmcnt(0)
; broken | dpp of half lanes moved otherwise | 2 waves
v_and_b32_e32 v1, 0xff, v1
global_load_dword v10, v1, s[4:5] offset:4096
s_waitcnt vmcnt(0)
v_mov_b32_e32 v11, 0
s_mov_b64 exec, 0xffff
s_nop 4
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lother
v_mov_b32_dpp v11, v10 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
s_branch .Lboth
.Lother:
v_mov_b32_dpp v11, v10 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf
.Lboth:
global_store_dword v1, v11, s[4:5]
; broken | dpp of half lanes keeps what was there | 2 waves
v_and_b32_e32 v1, 0xff, v1
global_load_dword v10, v1, s[4:5] offset:4096
s_waitcnt vmcnt(0)
v_mov_b32_e32 v11, s7
s_mov_b64 exec, 0xff
s_nop 4
v_mov_b32_dpp v11, v10 row_ror:8 row_mask:0xf bank_mask:0xf
global_store_dword v1, v11, s[4:5]
; broken | move of two words by dpp | 2 waves
v_and_b32_e32 v1, 0xff, v1
v_lshlrev_b32_e32 v1, 1, v1
global_load_dwordx2 v[10:11], v1, s[4:5] offset:4000
s_waitcnt vmcnt(0)
v_mov_b32_e32 v12, 0
v_mov_b32_e32 v13, 0
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lother
v_mov_b64_dpp v[12:13], v[10:11] row_newbcast:3 row_mask:0xf bank_mask:0xf
s_branch .Lboth
.Lother:
v_mov_b64_e32 v[12:13], v[10:11]
.Lboth:
global_store_dwordx2 v1, v[12:13], s[4:5]
; right | dpp of half lanes, the same | 2 waves
v_and_b32_e32 v1, 0xff, v1
global_load_dword v10, v1, s[4:5] offset:4000
s_waitcnt vmcnt(0)
v_mov_b32_e32 v11, 0
s_mov_b64 exec, 0xff
s_nop 4
v_mov_b32_dpp v11, v10 row_ror:8 row_mask:0xf bank_mask:0xf
global_store_dword v1, v11, s[4:5]
; right | move of two words by dpp, the same | 2 waves
v_and_b32_e32 v1, 0xff, v1
v_lshlrev_b32_e32 v1, 1, v1
global_load_dwordx2 v[10:11], v1, s[4:5] offset:4000
s_waitcnt vmcnt(0)
v_mov_b32_e32 v12, 0
v_mov_b32_e32 v13, 0
v_mov_b64_dpp v[12:13], v[10:11] row_newbcast:3 row_mask:0xf bank_mask:0xf
global_store_dwordx2 v1, v[12:13], s[4:5]
; broken | maximum's condition when equal, other way | 2 waves
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_max_u32 s9, s7, s7
s_cbranch_scc1 .Lskip
s_barrier
.Lskip:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | maximum's condition when equal, only then a barrier | 2 waves
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_max_i32 s9, s7, s7
s_cbranch_scc0 .Lskip
s_nop 0
s_branch .Lread
.Lskip:
s_barrier
.Lread:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | vccz as data behind cmp
v_cmp_gt_u32_e32 vcc, 64, v0
s_nop 3
v_mov_b32_e32 v10, src_vccz
; right | vccz as data behind cmp
v_cmp_gt_u32_e32 vcc, 64, v0
s_nop 4
v_mov_b32_e32 v10, src_vccz
; broken | execz as data behind cmpx
v_cmpx_gt_u32_e64 vcc, 64, v0
s_nop 3
v_mov_b32_e32 v10, src_execz
; right | execz as data behind cmpx
v_cmpx_gt_u32_e32 vcc, 64, v0
s_nop 4
v_mov_b32_e32 v10, src_execz
; broken | absolute difference beyond 31 bits | 2 waves
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_movk_i32 s9, 0x2d
s_absdiff_i32 s9, s9, 0x80000001
s_cmp_eq_u32 s9, 0x8000002c
s_cbranch_scc0 .Lread
s_barrier
.Lread:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; right | store data overwritten at once | gfx942 gfx950
v_mov_b32_e32 v11, v0
global_store_dword v1, v11, s[4:5]
v_mov_b32_e32 v11, 0
; right | own words of LDS in the order of issue | gfx942 gfx950
ds_write_b32 v1, v0
ds_read_b32 v10, v1
ds_write_b32 v1, v9
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v12, v10
; broken | two waits of one counter, the later one is encoded
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0) vmcnt(1)
v_mov_b32_e32 v12, v10
; right | two waits of one counter, the later one is encoded
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(1) vmcnt(0)
v_mov_b32_e32 v12, v10
; broken | one in 16 bits, and in 32 | 2 waves
s_mov_b32 s10, 0x3f800000
global_load_dword v10, v9, s[4:5] offset:64
v_mov_b32_e32 v11, 0
s_waitcnt vmcnt(0)
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lone
v_add_f16_e64 v11, s10, v10
s_branch .Lboth
.Lone:
v_add_f16_e32 v11, 1.0, v10
.Lboth:
global_store_short v9, v11, s[4:5]
; right | one in 16 bits, and in 32 | 2 waves
global_load_dword v10, v9, s[4:5] offset:64
v_mov_b32_e32 v11, 0
s_waitcnt vmcnt(0)
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lone
v_add_f16_e64 v11, 1.0, v10
s_branch .Lboth
.Lone:
v_add_f16_e32 v11, 1.0, v10
.Lboth:
global_store_short v9, v11, s[4:5]
; broken | one in two halves, and in 32 | 2 waves
s_mov_b32 s10, 0x3f800000
global_load_dword v10, v9, s[4:5] offset:64
s_waitcnt vmcnt(0)
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lone
v_pk_add_f16 v11, s10, v10
s_branch .Lboth
.Lone:
v_pk_add_f16 v11, 1.0, v10
.Lboth:
global_store_dword v9, v11, s[4:5]
; broken | all ones in 64 bits, and in 32 | 2 waves
s_load_dwordx2 s[12:13], s[4:5], 0x40
s_waitcnt lgkmcnt(0)
s_barrier
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lone
s_cmp_eq_u32 0, 0
s_and_b64 s[12:13], s[12:13], 0xffffffff
s_branch .Lboth
.Lone:
s_cmp_eq_u32 0, 0
s_and_b64 s[12:13], s[12:13], -1
.Lboth:
v_mov_b32_e32 v11, s13
global_store_dword v9, v11, s[4:5]
; right | all ones in 64 bits, twice | 2 waves
s_load_dwordx2 s[12:13], s[4:5], 0x40
s_waitcnt lgkmcnt(0)
s_barrier
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lone
s_cmp_eq_u32 0, 0
s_and_b64 s[12:13], s[12:13], -1
s_branch .Lboth
.Lone:
s_cmp_eq_u32 0, 0
s_and_b64 s[12:13], s[12:13], -1
.Lboth:
v_mov_b32_e32 v11, s13
global_store_dword v9, v11, s[4:5]
; broken | upper half kept by mad_u16 of a racing load | 2 waves
v_and_b32_e32 v2, 0xfc, v1
global_load_dword v10, v3, s[4:5] offset:2048
s_waitcnt vmcnt(0)
v_mad_u16 v10, v0, v0, v0
global_store_dword v1, v10, s[4:5]
global_store_dword v1, v0, s[4:5] offset:2048
; broken | half kept by sdwa by default of a racing load | 2 waves
global_load_dword v10, v3, s[4:5] offset:2048
s_waitcnt vmcnt(0)
v_mov_b32_sdwa v10, v0 dst_sel:WORD_1
s_nop 1
global_store_dword v1, v10, s[4:5]
global_store_dword v1, v0, s[4:5] offset:2048
; broken | lanes kept by dpp without bound_ctrl of a racing load | 2 waves
global_load_dword v10, v3, s[4:5] offset:2048
s_waitcnt vmcnt(0)
v_mov_b32_dpp v10, v0 row_shr:1 row_mask:0xf bank_mask:0xf
s_nop 1
global_store_dword v1, v10, s[4:5]
global_store_dword v1, v0, s[4:5] offset:2048
; broken | half kept of lds that nobody wrote, sdwa | unwritten
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
v_mov_b32_sdwa v10, v0 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD
s_nop 1
global_store_dword v1, v10, s[4:5]
; broken | half kept of lds that nobody wrote, mad | unwritten
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
v_mad_u16 v10, v0, v0, v0
s_nop 1
global_store_dword v1, v10, s[4:5]
; broken | half kept of lds that nobody wrote, op_sel | unwritten
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
v_max3_i16 v10, v0, v0, v0 op_sel:[0,0,0,1]
s_nop 1
global_store_dword v1, v10, s[4:5]
; broken | lanes kept of lds that nobody wrote, dpp | unwritten
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
v_mov_b32_dpp v10, v0 row_shr:1 row_mask:0xf bank_mask:0xf
s_nop 1
global_store_dword v1, v10, s[4:5]
; broken | lane kept by writelane of a racing load | 2 waves
global_load_dword v10, v3, s[4:5] offset:2048
s_waitcnt vmcnt(0)
v_writelane_b32 v10, s7, 3
s_nop 1
global_store_dword v1, v10, s[4:5]
global_store_dword v1, v0, s[4:5] offset:2048
; broken | waves store halves that differ above: sdwa default preserve | 2 waves
v_and_b32_e32 v2, 0xfc, v1
v_mov_b32_e32 v10, s7
v_mov_b32_sdwa v10, v2 dst_sel:WORD_1
s_nop 1
global_store_dword v2, v10, s[4:5]
; broken | waves store halves that differ above: mad keeps | 2 waves
v_and_b32_e32 v2, 0xfc, v1
s_lshl_b32 s9, s7, 16
v_mov_b32_e32 v10, s9
v_mad_u16 v10, v2, v2, v2
s_nop 1
global_store_dword v2, v10, s[4:5]
; right | waves store the same halves: add_u16 zeroes | 2 waves
v_and_b32_e32 v2, 0xfc, v1
s_lshl_b32 s9, s7, 16
v_mov_b32_e32 v10, s9
v_add_u16_e32 v10, v2, v2
s_nop 1
global_store_dword v2, v10, s[4:5]
; broken | cvt_scalef32 fp4 keeps bytes that differ | 2 waves
v_and_b32_e32 v2, 0xfc, v1
global_load_dword v11, v2, s[4:5] offset:2048
s_lshl_b32 s9, s7, 16
v_mov_b32_e32 v10, s9
s_waitcnt vmcnt(0)
v_cvt_scalef32_pk_fp4_f32 v10, v11, v11, 1.0
s_nop 1
global_store_dword v2, v10, s[4:5]
; broken | med3_f16 keeps upper that differs | 2 waves
v_and_b32_e32 v2, 0xfc, v1
global_load_dword v11, v2, s[4:5] offset:2048
s_lshl_b32 s9, s7, 16
v_mov_b32_e32 v10, s9
s_waitcnt vmcnt(0)
v_med3_f16 v10, v11, v11, v11
s_nop 1
global_store_dword v2, v10, s[4:5]
; right | the part kept of lds was written, sdwa
ds_write_b32 v1, v0
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
v_mov_b32_sdwa v10, v0 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD
s_nop 1
global_store_dword v1, v10, s[4:5]
; right | nothing kept of lds that nobody wrote, sdwa | unwritten
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
v_mov_b32_sdwa v10, v0 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD
s_nop 1
global_store_dword v1, v10, s[4:5]
; right | nothing kept of lds that nobody wrote, add_u16 and dpp with bound_ctrl | unwritten
ds_read2_b32 v[10:11], v9 offset0:0 offset1:1
s_waitcnt lgkmcnt(0)
v_add_u16_e32 v10, v0, v0
v_mov_b32_dpp v11, v0 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0
s_nop 1
v_add_u32_e32 v12, v10, v11
global_store_dword v1, v12, s[4:5]
; broken | waves choose, and what was compared has changed | 2 waves
v_and_b32_e32 v2, 0xfc, v1
global_load_dword v11, v2, s[4:5] offset:1024
global_load_dword v12, v2, s[4:5] offset:1280
global_load_dword v13, v2, s[4:5] offset:1536
s_waitcnt vmcnt(0)
v_mov_b32_e32 v10, v11
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .La
v_cmp_eq_u32_e32 vcc, v11, v12
v_mov_b32_e32 v12, v13
s_nop 1
v_cndmask_b32_e32 v10, v11, v12, vcc
.La:
global_store_dword v2, v10, s[4:5]
; right | waves choose what was compared | 2 waves
v_and_b32_e32 v2, 0xfc, v1
global_load_dword v11, v2, s[4:5] offset:1024
global_load_dword v12, v2, s[4:5] offset:1280
global_load_dword v13, v2, s[4:5] offset:1536
s_waitcnt vmcnt(0)
v_mov_b32_e32 v10, v11
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .La
v_cmp_eq_u32_e32 vcc, v11, v12
v_mov_b32_e32 v13, v12
s_nop 1
v_cndmask_b32_e32 v10, v11, v13, vcc
.La:
global_store_dword v2, v10, s[4:5]
; broken | waves read a lane, and its register changes in one | 2 waves
v_and_b32_e32 v2, 0xfc, v1
global_load_dword v11, v2, s[4:5] offset:1024
global_load_dword v12, v2, s[4:5] offset:1280
s_waitcnt vmcnt(0)
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .La
v_readlane_b32 s9, v11, 3
v_mov_b32_e32 v11, v12
s_branch .Lb
.La:
v_readlane_b32 s9, v12, 3
.Lb:
s_nop 3
v_mov_b32_e32 v10, s9
global_store_dword v2, v10, s[4:5]
; right | waves read a lane, and its register changes in one | 2 waves
v_and_b32_e32 v2, 0xfc, v1
global_load_dword v11, v2, s[4:5] offset:1024
global_load_dword v12, v2, s[4:5] offset:1280
s_waitcnt vmcnt(0)
v_readlane_b32 s9, v11, 3
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .La
v_mov_b32_e32 v11, v12
.La:
s_nop 3
v_mov_b32_e32 v10, s9
global_store_dword v2, v10, s[4:5]
; broken | atomics of two words shifted by one | 2 groups
s_lshl_b32 s9, s2, 2
v_mov_b32_e32 v2, s9
global_atomic_add_x2 v2, v[10:11], s[4:5]
; right | atomics of two words, one place | 2 groups
global_atomic_add_x2 v9, v[10:11], s[4:5]
; broken | atomic at half a word
global_atomic_add v9, v0, s[4:5] offset:2
; broken | atomic of two words at an odd word of LDS
ds_add_u64 v9, v[10:11] offset:4
s_waitcnt lgkmcnt(0)
; right | atomic of two words of LDS
ds_add_u64 v9, v[10:11] offset:8
s_waitcnt lgkmcnt(0)
; broken | flat atomic at half a word
v_mov_b32_e32 v10, s4
v_mov_b32_e32 v11, s5
flat_atomic_add v[10:11], v0 offset:2
; broken | base of a load by a mask
v_cmp_eq_u32_e64 s[12:13], v0, v0
global_load_dword v10, v1, s[12:13]
s_waitcnt vmcnt(0)
; right | halves loaded to two registers, and joined
global_load_short_d16 v10, v1, s[4:5] offset:1024
global_load_short_d16_hi v11, v1, s[4:5] offset:1026
s_waitcnt vmcnt(0)
v_or_b32_e32 v10, v10, v11
global_store_dword v1, v10, s[4:5]
; right | halves loaded to two registers, and joined, of what nothing has written | unwritten
global_load_short_d16 v10, v1, s[4:5] offset:1024
global_load_short_d16_hi v11, v1, s[4:5] offset:1026
s_waitcnt vmcnt(0)
v_or_b32_e32 v10, v10, v11
global_store_dword v1, v10, s[4:5]
; right | half loaded over a half in flight, in order
global_load_short_d16 v10, v1, s[4:5] offset:1024
global_load_short_d16_hi v10, v1, s[4:5] offset:1026
s_waitcnt vmcnt(0)
global_store_dword v1, v10, s[4:5]
; broken | half loaded over a half in flight, one left
global_load_short_d16 v10, v1, s[4:5] offset:1024
global_load_short_d16_hi v10, v1, s[4:5] offset:1026
s_waitcnt vmcnt(1)
global_store_dword v1, v10, s[4:5]
; right | a load over its own address, of which the written half is stored | unwritten
v_mov_b32_e32 v8, v1
s_mov_b32 exec_hi, 0
ds_write_b32 v1, v0
s_mov_b32 exec_hi, -1
s_waitcnt lgkmcnt(0)
ds_read_b32 v8, v8
s_waitcnt lgkmcnt(0)
s_mov_b32 exec_hi, 0
global_store_dword v1, v8, s[4:5]
; broken | a load over its own address, of which the written half is stored | unwritten
v_mov_b32_e32 v8, v1
s_mov_b32 exec_hi, 0
ds_write_b32 v1, v0
s_mov_b32 exec_hi, -1
s_waitcnt lgkmcnt(0)
ds_read_b32 v8, v8
s_waitcnt lgkmcnt(0)
global_store_dword v1, v8, s[4:5]
; right | a load over its own address in private memory | unwritten
v_mov_b32_e32 v8, 4
scratch_store_dword v8, v0, off
scratch_load_dword v8, v8, off
s_waitcnt vmcnt(0)
global_store_dword v1, v8, s[4:5]
; broken | a load over its own address in private memory | unwritten
v_mov_b32_e32 v8, 8
v_mov_b32_e32 v9, 4
scratch_store_dword v9, v0, off
scratch_load_dword v8, v8, off
s_waitcnt vmcnt(0)
global_store_dword v1, v8, s[4:5]
; broken | a racing load is the offset of a load over itself | 2 waves
s_cmp_eq_u32 s7, 0
s_cbranch_scc0 .Lother
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
global_load_dword v10, v10, s[4:5]
s_waitcnt vmcnt(0)
global_store_dword v1, v10, s[4:5] offset:2048
s_endpgm
.Lother:
global_store_dword v1, v0, s[4:5] offset:-256
s_endpgm
; right | a load is the offset of a load over itself | 2 waves
s_cmp_eq_u32 s7, 0
s_cbranch_scc0 .Lother
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
global_load_dword v10, v10, s[4:5]
s_waitcnt vmcnt(0)
global_store_dword v1, v10, s[4:5] offset:2048
s_endpgm
.Lother:
global_store_dword v1, v0, s[4:5] offset:256
s_endpgm
; broken | a racing load is the offset of a buffer load over itself | 2 waves
s_mov_b32 s12, s4
s_mov_b32 s13, s5
s_mov_b32 s14, 0x1000
s_mov_b32 s15, 0x20000
s_cmp_eq_u32 s7, 0
s_cbranch_scc0 .Lother
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
buffer_load_dword v10, v10, s[12:15], 0 offen
s_waitcnt vmcnt(0)
global_store_dword v1, v10, s[4:5] offset:2048
s_endpgm
.Lother:
global_store_dword v1, v0, s[4:5] offset:-256
s_endpgm
; right | lanes of a row store a sum in 16 bits
global_load_dword v6, v1, s[4:5]
v_and_b32_e32 v13, 48, v0
v_lshlrev_b32_e32 v13, 2, v13
s_waitcnt vmcnt(0)
ds_bpermute_b32 v6, v13, v6
s_waitcnt lgkmcnt(0)
v_cvt_f16_f32_e32 v7, v6
v_pack_b32_f16 v6, v7, v7
v_lshrrev_b32_e32 v12, 4, v0
v_lshlrev_b32_e32 v12, 2, v12
global_store_dword v12, v6, s[4:5] offset:2048
; broken | lanes of a row store half a sum in 16 bits
global_load_dword v6, v1, s[4:5]
v_and_b32_e32 v13, 48, v0
v_lshlrev_b32_e32 v13, 2, v13
s_waitcnt vmcnt(0)
v_cvt_f16_f32_e32 v8, v6
ds_bpermute_b32 v6, v13, v6
s_waitcnt lgkmcnt(0)
v_cvt_f16_f32_e32 v7, v6
v_pack_b32_f16 v6, v7, v8
v_lshrrev_b32_e32 v12, 4, v0
v_lshlrev_b32_e32 v12, 2, v12
global_store_dword v12, v6, s[4:5] offset:2048
; right | waves store what they have converted and joined | 2 waves
v_and_b32_e32 v13, 63, v0
v_lshlrev_b32_e32 v13, 2, v13
global_load_dword v6, v13, s[4:5]
s_waitcnt vmcnt(0)
v_cvt_f16_f32_e32 v7, v6
v_pack_b32_f16 v6, v7, v7
global_store_dword v13, v6, s[4:5] offset:2048
; broken | waves store what they have converted and joined with the upper half | 2 waves
v_and_b32_e32 v13, 63, v0
v_lshlrev_b32_e32 v13, 2, v13
global_load_dword v6, v13, s[4:5]
v_mov_b32_e32 v7, s7
s_waitcnt vmcnt(0)
v_cvt_pk_bf16_f32 v7, v6, v7
v_pack_b32_f16 v6, v7, v7 op_sel:[0,1,0]
global_store_dword v13, v6, s[4:5] offset:2048
; broken | flat stores by two groups, other values | 2 groups
v_mov_b32_e32 v20, s4
v_mov_b32_e32 v21, s5
v_mov_b32_e32 v10, s2
flat_store_dword v[20:21], v10
; broken | flat stores and plain ones by two groups, other values in the flat ones | 2 groups
v_mov_b32_e32 v20, s4
v_mov_b32_e32 v21, s5
v_mov_b32_e32 v10, s2
flat_store_dword v[20:21], v10
global_store_dword v1, v0, s[4:5] offset:1024
; right | flat stores by two groups, own places | 2 groups
v_mov_b32_e32 v20, s4
v_mov_b32_e32 v21, s5
s_lshl_b32 s16, s2, 8
v_add_co_u32_e32 v20, vcc, s16, v20
s_nop 1
v_addc_co_u32_e32 v21, vcc, 0, v21, vcc
v_mov_b32_e32 v10, s2
flat_store_dword v[20:21], v10
; broken | an atomic of one group over the other's flat store | 2 groups
v_mov_b32_e32 v20, s4
v_mov_b32_e32 v21, s5
v_mov_b32_e32 v10, s2
flat_store_dword v[20:21], v10
v_mov_b32_e32 v9, 0
global_load_dword v11, v9, s[4:5]
s_waitcnt vmcnt(0)
; right | flat stores by two groups, the same | 2 groups
v_mov_b32_e32 v20, s4
v_mov_b32_e32 v21, s5
v_mov_b32_e32 v10, 7
flat_store_dword v[20:21], v10
; right | flat stores by two groups, what both have loaded | 2 groups
v_mov_b32_e32 v20, s4
v_mov_b32_e32 v21, s5
global_load_dword v10, v9, s[4:5] offset:512
s_waitcnt vmcnt(0)
flat_store_dword v[20:21], v10
; broken | flat stores by two groups, other loads | 2 groups
v_mov_b32_e32 v20, s4
v_mov_b32_e32 v21, s5
s_lshl_b32 s16, s2, 2
v_mov_b32_e32 v8, s16
global_load_dword v10, v8, s[4:5] offset:512
s_waitcnt vmcnt(0)
flat_store_dword v[20:21], v10
; broken | an arm by data has a load that nobody waits for
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_load_dword v12, v1, s[4:5] offset:512
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data has a load that is waited for behind it
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_load_dword v12, v1, s[4:5] offset:512
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data has a load and its wait
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_load_dword v12, v1, s[4:5] offset:512
s_waitcnt vmcnt(0)
v_add_u32_e32 v12, v12, v0
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data loads where data say | gfx90a gfx942 gfx950
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_lshlrev_b32_e32 v13, 2, v10
global_load_dword v12, v13, s[4:5] offset:512
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data loads where data say, and waits for one load less
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_lshlrev_b32_e32 v13, 2, v10
global_load_dword v12, v13, s[4:5] offset:512
.Lover:
s_or_b64 exec, exec, s[10:11]
global_load_dword v14, v1, s[4:5]
s_waitcnt vmcnt(2)
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data loads where data say, and waits for all but a later one
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_lshlrev_b32_e32 v13, 2, v10
global_load_dword v12, v13, s[4:5] offset:512
.Lover:
s_or_b64 exec, exec, s[10:11]
global_load_dword v14, v1, s[4:5]
s_waitcnt vmcnt(1)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data waits for what all lanes load
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
global_load_dword v11, v1, s[4:5] offset:256
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_waitcnt vmcnt(0)
v_mov_b32_e32 v12, v11
.Lover:
s_or_b64 exec, exec, s[10:11]
v_mov_b32_e32 v12, v11
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data has a scalar load
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_load_dword s14, s[4:5], 0x10
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v12, s14
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data has a scalar load without a wait
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_load_dword s14, s[4:5], 0x10
v_mov_b32_e32 v12, s14
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data reads lds | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v12, v1
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data reads lds and waits for global memory | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v12, v1
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data reads lds of another wave behind a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
v_sub_u32_e32 v15, 0x1fc, v1
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v12, v15
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data reads lds of another wave without a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
v_sub_u32_e32 v15, 0x1fc, v1
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v12, v15
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data loads what another wave has stored without a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
v_sub_u32_e32 v15, 0x1fc, v1
global_store_dword v1, v0, s[4:5] offset:1024
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_load_dword v12, v15, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data stores what another wave loads without a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
v_sub_u32_e32 v15, 0x1fc, v1
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_store_dword v1, v0, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
global_load_dword v12, v15, s[4:5] offset:1024
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | lds is written again while an arm by data still reads it | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
v_sub_u32_e32 v15, 0x1fc, v1
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v12, v1
.Lover:
s_or_b64 exec, exec, s[10:11]
ds_write_b32 v15, v0
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data stores what another wave loads behind a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_sub_u32_e32 v15, 0x1fc, v1
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_store_dword v1, v0, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt vmcnt(0)
s_barrier
global_load_dword v12, v15, s[4:5] offset:1024
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | both arms by data store | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 1
s_and_saveexec_b64 s[10:11], vcc
s_xor_b64 s[10:11], exec, s[10:11]
s_cbranch_execz .Lother
global_load_dword v12, v1, s[4:5] offset:512
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:1024
.Lother:
s_andn2_saveexec_b64 s[10:11], s[10:11]
s_cbranch_execz .Lover
global_store_dword v1, v12, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
; broken | an arm by data stores what it has not waited for
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_load_dword v12, v1, s[4:5] offset:512
global_store_dword v1, v12, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
; broken | two waves store to one place in arms by data | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_and_b32_e32 v15, 0xfc, v1
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_store_dword v15, v0, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
; broken | lanes store to one place in an arm by data
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v15, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_store_dword v15, v0, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
; broken | work-groups store in arms by data and load behind | 1 wave | 2 groups
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 1
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_store_dword v1, v12, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt vmcnt(0)
global_load_dword v13, v1, s[4:5] offset:1024
s_waitcnt vmcnt(0)
; broken | work-groups store in arms by data | 1 wave | 2 groups
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_store_dword v1, v10, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
; right | a branch of all lanes by data over a load
s_load_dword s14, s[4:5], 0x10
v_mov_b32_e32 v12, 0
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
global_load_dword v12, v1, s[4:5] offset:512
.Lover:
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a branch of all lanes by data over a load that nobody waits for
s_load_dword s14, s[4:5], 0x10
v_mov_b32_e32 v12, 0
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
global_load_dword v12, v1, s[4:5] offset:512
.Lover:
global_store_dword v1, v12, s[4:5] offset:2048
; right | a branch of all lanes by data, with another arm
s_load_dword s14, s[4:5], 0x10
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lother
global_load_dword v12, v1, s[4:5] offset:512
s_branch .Lover
.Lother:
global_load_dword v13, v1, s[4:5] offset:1024
.Lover:
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a branch of all lanes by data, the wait in one arm
s_load_dword s14, s[4:5], 0x10
global_load_dword v12, v1, s[4:5] offset:512
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lother
s_waitcnt vmcnt(0)
s_branch .Lover
.Lother:
v_mov_b32_e32 v13, 0
.Lover:
global_store_dword v1, v12, s[4:5] offset:2048
; right | a branch of all lanes by data over a barrier | 2 waves
s_load_dword s14, s[4:5], 0x10
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
ds_write_b32 v1, v9
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
.Lover:
v_mov_b32_e32 v13, 0
; broken | a branch of all lanes by data over a barrier and one access too many | 2 waves
ds_write_b32 v1, v9
s_load_dword s14, s[4:5], 0x10
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
s_barrier
.Lover:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; broken | a branch of all lanes by a word of each wave over a barrier | 2 waves
s_add_u32 s15, s8, 0x10
ds_write_b32 v1, v9
s_load_dword s14, s[4:5], s15
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
s_barrier
.Lover:
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
; right | within an arm by data a wave reads what it has written | 2 waves
ds_write_b32 v1, v9
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v11, 0
s_load_dword s14, s[4:5], 0x10
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
s_cmp_lg_u32 s7, 0
s_cbranch_scc1 .Lover
ds_read_b32 v10, v11
s_waitcnt lgkmcnt(0)
.Lover:
v_mov_b32_e32 v13, 0
; broken | within an arm by data a wave reads what another one writes | 2 waves
ds_write_b32 v1, v9
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v11, 0
s_load_dword s14, s[4:5], 0x10
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
s_cmp_lg_u32 s7, 1
s_cbranch_scc1 .Lover
ds_read_b32 v10, v11
s_waitcnt lgkmcnt(0)
.Lover:
v_mov_b32_e32 v13, 0
; broken | within an arm by data a number of the arm decides which wave reads what another one writes | 2 waves
ds_write_b32 v1, v9
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v11, 0
s_mov_b32 s16, 0
s_load_dword s14, s[4:5], 0x10
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
s_add_u32 s16, s16, s14
s_cmp_eq_u32 s16, 0
s_cbranch_scc1 .Lover
ds_read_b32 v10, v11
s_waitcnt lgkmcnt(0)
.Lover:
v_mov_b32_e32 v13, 0
; right | a branch of all lanes by data in front of a barrier | 2 waves
s_load_dword s14, s[4:5], 0x10
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
v_mov_b32_e32 v13, 0
.Lover:
s_barrier
; broken | a scalar register of a branch by data moves a store | 2 waves
s_load_dword s14, s[4:5], 0x10
s_mov_b64 s[16:17], s[4:5]
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
s_add_u32 s16, s16, 0x100
.Lover:
global_store_dword v1, v0, s[16:17]
; right | both arms by data load one register
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_xor_b64 s[10:11], exec, s[10:11]
s_cbranch_execz .Lother
global_load_dword v12, v1, s[4:5] offset:512
.Lother:
s_andn2_saveexec_b64 s[10:11], s[10:11]
s_cbranch_execz .Lover
global_load_dword v12, v1, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | both arms by data load one register, and one of them is waited for
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_xor_b64 s[10:11], exec, s[10:11]
s_cbranch_execz .Lother
global_load_dword v12, v1, s[4:5] offset:512
.Lother:
s_andn2_saveexec_b64 s[10:11], s[10:11]
s_cbranch_execz .Lover
global_load_dword v12, v1, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt vmcnt(1)
global_store_dword v1, v12, s[4:5] offset:2048
; right | both arms by data wait for what was loaded before
global_load_dword v12, v1, s[4:5] offset:512
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_xor_b64 s[10:11], exec, s[10:11]
s_cbranch_execz .Lother
s_waitcnt vmcnt(0)
v_add_u32_e32 v13, v12, v0
.Lother:
s_andn2_saveexec_b64 s[10:11], s[10:11]
s_cbranch_execz .Lover
s_waitcnt vmcnt(0)
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; right | both arms by data wait for a copy to lds that another wave reads | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_and_saveexec_b64 s[10:11], vcc
s_xor_b64 s[10:11], exec, s[10:11]
s_cbranch_execz .Lother
s_waitcnt vmcnt(0)
.Lother:
s_andn2_saveexec_b64 s[10:11], s[10:11]
s_cbranch_execz .Lover
s_waitcnt vmcnt(0)
.Lover:
s_or_b64 exec, exec, s[10:11]
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | both arms by data wait for a copy to lds that another wave reads, one for all but it | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_mov_b32 m0, s8
s_nop 0
global_load_lds_dword v1, s[4:5]
s_and_saveexec_b64 s[10:11], vcc
s_xor_b64 s[10:11], exec, s[10:11]
s_cbranch_execz .Lother
s_waitcnt vmcnt(0)
.Lother:
s_andn2_saveexec_b64 s[10:11], s[10:11]
s_cbranch_execz .Lover
s_waitcnt vmcnt(1)
.Lover:
s_or_b64 exec, exec, s[10:11]
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | lanes that data choose end early
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_load_dword v12, v1, s[4:5] offset:512
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
.Lover:
; broken | lanes that data choose end early, without a wait
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_load_dword v12, v1, s[4:5] offset:512
global_store_dword v1, v12, s[4:5] offset:2048
.Lover:
; broken | a barrier behind lanes that data choose, and a hand-over without a wait | 2 waves
ds_write_b32 v1, v0
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_mov_b32_e32 v13, v0
.Lover:
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data stores to lds what another wave reads | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data stores to lds what another wave reads, no barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data stores to lds what another wave reads, no wait | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data stores to lds what another wave reads, the wait in another arm | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_and_saveexec_b64 s[14:15], s[12:13]
s_cbranch_execz .Llater
s_waitcnt lgkmcnt(0)
.Llater:
s_or_b64 exec, exec, s[14:15]
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data stores to lds and waits | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v10
s_waitcnt lgkmcnt(0)
.Lover:
s_or_b64 exec, exec, s[10:11]
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data stores to lds of another wave | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v3, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data stores to lds, of which nothing else is written | 2 waves | unwritten
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data stores to lds, of which all is written | 2 waves | unwritten
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a store to lds in an arm by data is known behind it | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v9
s_waitcnt lgkmcnt(0)
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v1
.Lover:
s_or_b64 exec, exec, s[10:11]
ds_read_b32 v16, v1
s_waitcnt lgkmcnt(0)
ds_write_b32 v16, v0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | atomics on lds in arms by data | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_add_u32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | atomics on lds in arms by data, read without a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_add_u32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | atomics on lds in arms by data beside a store | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v3, v0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_add_u32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | atomics on lds in arms by data, of which nothing is written | 2 waves | unwritten
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_add_u32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | old values of lds in an arm by data, too early | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_add_rtn_u32 v12, v1, v10
v_add_u32_e32 v12, v12, v0
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | old values of lds in an arm by data | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_add_rtn_u32 v12, v1, v10
s_waitcnt lgkmcnt(0)
v_add_u32_e32 v12, v12, v0
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; right | atomics on global memory in an arm by data | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_atomic_add v1, v10, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
; broken | atomics on global memory in an arm by data beside a load | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
global_atomic_add v1, v10, s[4:5] offset:1024
.Lover:
s_or_b64 exec, exec, s[10:11]
global_load_dword v12, v3, s[4:5] offset:1024
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an atomic on lds in an arm by data at half a word | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_add_u32_e32 v14, 2, v1
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_add_u32 v14, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | a histogram in lds | 2 waves | unwritten
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_and_b32_e32 v14, 63, v10
v_lshlrev_b32_e32 v14, 2, v14
v_mov_b32_e32 v15, 1
ds_add_u32 v14, v15
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v1
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a histogram in lds that nothing has set to zero | 2 waves | unwritten
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_and_b32_e32 v14, 63, v10
v_lshlrev_b32_e32 v14, 2, v14
v_mov_b32_e32 v15, 1
ds_add_u32 v14, v15
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v1
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | fewer lanes by data, of some that are known, store to lds | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_mov_b64 s[14:15], vcc
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_and_b32_e32 v17, 63, v0
v_mov_b32_e32 v16, 0
v_cmp_gt_u32_e32 vcc, 32, v17
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v16, v1
s_waitcnt lgkmcnt(0)
s_and_b64 exec, exec, s[14:15]
s_cbranch_execz .Lover
ds_write_b32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | fewer lanes by data, of some that are known, store to lds that another wave reads | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_mov_b64 s[14:15], vcc
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_and_b32_e32 v17, 63, v0
v_mov_b32_e32 v16, 0
v_cmp_gt_u32_e32 vcc, 32, v17
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v16, v3
s_waitcnt lgkmcnt(0)
s_and_b64 exec, exec, s[14:15]
s_cbranch_execz .Lover
ds_write_b32 v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
global_store_dword v1, v16, s[4:5] offset:3072
; broken | all lanes come back behind fewer by data, and store without a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_mov_b64 s[14:15], vcc
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_and_b32_e32 v17, 63, v0
v_mov_b32_e32 v16, 0
v_cmp_gt_u32_e32 vcc, 32, v17
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v16, v3
s_waitcnt lgkmcnt(0)
s_and_b64 exec, exec, s[14:15]
s_cbranch_execz .Lover
v_mov_b32_e32 v13, 0
.Lover:
s_or_b64 exec, exec, s[10:11]
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | one lane of those by data counts in lds | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_mbcnt_lo_u32_b32 v14, exec_lo, 0
v_mbcnt_hi_u32_b32 v14, exec_hi, v14
v_cmp_eq_u32_e32 vcc, 0, v14
s_and_b64 exec, exec, vcc
s_cbranch_execz .Lover
v_mov_b32_e32 v15, 1
ds_add_u32 v9, v15
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v9
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | one lane of those by data counts in lds, and no barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_mbcnt_lo_u32_b32 v14, exec_lo, 0
v_mbcnt_hi_u32_b32 v14, exec_hi, v14
v_cmp_eq_u32_e32 vcc, 0, v14
s_and_b64 exec, exec, vcc
s_cbranch_execz .Lover
v_mov_b32_e32 v15, 1
ds_add_u32 v9, v15
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
ds_read_b32 v12, v9
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data gets words of other lanes
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_bpermute_b32 v12, v1, v10
s_waitcnt lgkmcnt(0)
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data gets words of other lanes, too early
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_bpermute_b32 v12, v1, v10
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data gets words of other lanes, and waits for global memory
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_bpermute_b32 v12, v1, v10
s_waitcnt vmcnt(0)
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a word of another lane is a place in lds | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v16, v1
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_mov_b32_e32 v16, v1
s_nop 1
v_mov_b32_dpp v16, v1 row_shr:1 row_mask:0xf bank_mask:0xf
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
ds_write_b32 v16, v0
s_waitcnt lgkmcnt(0)
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data moves a word of another lane
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_nop 1
v_mov_b32_dpp v12, v10 row_shr:1 row_mask:0xf bank_mask:0xf
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | an arm by data moves a word of another lane that nothing has written | unwritten
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_nop 1
v_mov_b32_dpp v12, v40 row_shr:1 row_mask:0xf bank_mask:0xf
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data has a product
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
v_mov_b32_e32 v30, v1
v_mov_b32_e32 v31, v1
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_nop 7
v_mfma_f32_16x16x16_f16 v[40:43], v[30:31], v[30:31], 0
.Lover:
s_or_b64 exec, exec, s[10:11]
s_nop 15
global_store_dword v1, v40, s[4:5] offset:2048
; broken | an arm by data stores what it finds in lds that nothing has written | unwritten
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v12, v1 offset:1024
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
.Lover:
s_or_b64 exec, exec, s[10:11]
; right | an arm by data stores what it finds in lds | unwritten
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0 offset:1024
s_waitcnt lgkmcnt(0)
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_read_b32 v12, v1 offset:1024
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
.Lover:
s_or_b64 exec, exec, s[10:11]
; broken | an arm by data reads a lane in which nothing has written | unwritten
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_mov_b64 s[16:17], exec
v_mov_b32_e32 v12, 0
s_mov_b32 exec_hi, 0
v_mov_b32_e32 v40, v0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_readlane_b32 s14, v40, 40
s_nop 4
v_mov_b32_e32 v12, s14
.Lover:
s_mov_b64 exec, s[16:17]
global_store_dword v1, v12, s[4:5] offset:2048
; right | an arm by data reads a lane in which something was written
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v10
s_mov_b64 s[16:17], exec
v_mov_b32_e32 v12, 0
s_mov_b32 exec_hi, 0
v_mov_b32_e32 v40, v0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_readlane_b32 s14, v40, 20
s_nop 4
v_mov_b32_e32 v12, s14
.Lover:
s_mov_b64 exec, s[16:17]
global_store_dword v1, v12, s[4:5] offset:2048
; right | a loop by data in an arm sums what it loads
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
v_lshlrev_b32_e32 v15, 2, v14
global_load_dword v13, v15, s[4:5]
s_waitcnt vmcnt(0)
v_add_u32_e32 v12, v12, v13
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop by data in an arm sums what it does not wait for
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
v_lshlrev_b32_e32 v15, 2, v14
global_load_dword v13, v15, s[4:5]
v_add_u32_e32 v12, v12, v13
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop by data in an arm sums what it has loaded in the round before
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
v_mov_b32_e32 v13, 0
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
v_add_u32_e32 v12, v12, v13
v_lshlrev_b32_e32 v15, 2, v14
global_load_dword v13, v15, s[4:5]
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt vmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; right | a loop by data in an arm reads lds of another wave behind a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
ds_read_b32 v13, v3
s_waitcnt lgkmcnt(0)
v_add_u32_e32 v12, v12, v13
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop by data in an arm reads lds of another wave without a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
ds_read_b32 v13, v3
s_waitcnt lgkmcnt(0)
v_add_u32_e32 v12, v12, v13
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | lds is written while a loop by data of another wave may read it | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
ds_read_b32 v13, v3
s_waitcnt lgkmcnt(0)
v_add_u32_e32 v12, v12, v13
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
ds_write_b32 v1, v9
; right | a loop by data in an arm counts in lds | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
ds_add_u32 v1, v10
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop by data in an arm counts in lds, and nobody waits | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
ds_add_u32 v1, v10
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
s_barrier
ds_read_b32 v12, v3
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop by data stores to lds further on in each round | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v16, v1
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
ds_write_b32 v16, v0
v_add_u32_e32 v16, 0x100, v16
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
s_waitcnt lgkmcnt(0)
ds_read_b32 v12, v1
s_waitcnt lgkmcnt(0)
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop by data has a barrier | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
s_barrier
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop waits for a word of another wave | 2 waves
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
ds_write_b32 v1, v0
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
ds_read_b32 v13, v3
s_waitcnt lgkmcnt(0)
v_cmp_ne_u32_e32 vcc, 0, v13
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop waits for a word in global memory
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
global_load_dword v13, v9, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_ne_u32_e32 vcc, 0, v13
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop waits for a word in global memory, and counts
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
global_load_dword v13, v9, s[4:5]
s_waitcnt vmcnt(0)
v_add_u32_e32 v14, 1, v14
v_cmp_ne_u32_e32 vcc, 0, v13
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop looks at a word of the device so many times
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
global_load_dword v13, v9, s[4:5] sc1
s_waitcnt vmcnt(0)
v_add_u32_e32 v14, 1, v14
v_cmp_ge_u32_e32 vcc, v14, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; broken | a loop that nothing ends
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v10
v_mov_b32_e32 v14, 0
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
s_mov_b64 s[12:13], 0
.Lround:
v_cmp_eq_u32_e32 vcc, 0, v10
s_nop 1
s_or_b64 s[12:13], vcc, s[12:13]
s_andn2_b64 exec, exec, s[12:13]
s_cbranch_execnz .Lround
s_or_b64 exec, exec, s[12:13]
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v1, v12, s[4:5] offset:2048
; right | rounds of all lanes by data
s_load_dword s14, s[4:5], 0x10
v_mov_b32_e32 v12, 0
s_mov_b32 s15, 0
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
.Lround:
global_load_dword v13, v1, s[4:5]
s_waitcnt vmcnt(0)
v_add_u32_e32 v12, v12, v13
s_add_u32 s15, s15, 1
s_cmp_lt_u32 s15, s14
s_cbranch_scc1 .Lround
.Lover:
global_store_dword v1, v12, s[4:5] offset:2048
; broken | rounds of all lanes by data, the wait behind
s_load_dword s14, s[4:5], 0x10
v_mov_b32_e32 v12, 0
s_mov_b32 s15, 0
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
.Lround:
global_load_dword v12, v1, s[4:5]
s_add_u32 s15, s15, 1
s_cmp_lt_u32 s15, s14
s_cbranch_scc1 .Lround
.Lover:
s_nop 0
global_store_dword v1, v12, s[4:5] offset:2048
; broken | rounds of all lanes by data, which move a pointer | 2 waves
s_load_dword s14, s[4:5], 0x10
v_mov_b32_e32 v12, 0
s_mov_b32 s15, 0
s_mov_b64 s[16:17], s[4:5]
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 .Lover
.Lround:
s_add_u32 s16, s16, 0x100
s_add_u32 s15, s15, 1
s_cmp_lt_u32 s15, s14
s_cbranch_scc1 .Lround
.Lover:
global_store_dword v1, v0, s[16:17]
; right | lanes store the same to one place behind an arm by data
global_load_dword v10, v9, s[4:5]
global_load_dword v11, v1, s[4:5] offset:1024
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v11
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_add_u32_e32 v12, 1, v12
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v9, v10, s[4:5] offset:2048
; broken | lanes store to one place what an arm by data has made
global_load_dword v10, v9, s[4:5]
global_load_dword v11, v1, s[4:5] offset:1024
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v11
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_add_u32_e32 v12, 1, v12
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v9, v12, s[4:5] offset:2048
; broken | lanes store to one place what an arm by data has loaded over
global_load_dword v10, v9, s[4:5]
global_load_dword v11, v1, s[4:5] offset:1024
s_waitcnt vmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v11
v_mov_b32_e32 v12, 0
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
v_add_u32_e32 v12, 1, v12
global_load_dword v10, v1, s[4:5]
s_waitcnt vmcnt(0)
.Lover:
s_or_b64 exec, exec, s[10:11]
global_store_dword v9, v10, s[4:5] offset:2048
; right | lanes store the same word of lds to one place behind an arm by data
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
ds_read_b32 v10, v9
global_load_dword v11, v1, s[4:5] offset:1024
s_waitcnt vmcnt(0) lgkmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v11
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v11
s_waitcnt lgkmcnt(0)
.Lover:
s_or_b64 exec, exec, s[10:11]
ds_read_b32 v10, v9
s_waitcnt lgkmcnt(0)
global_store_dword v9, v10, s[4:5] offset:2048
; broken | lanes store to one place words of lds that an arm by data may have stored
v_lshlrev_b32_e32 v13, 2, v9
ds_write_b32 v1, v13
global_load_dword v11, v1, s[4:5] offset:1024
s_waitcnt vmcnt(0) lgkmcnt(0)
v_cmp_lt_u32_e32 vcc, 0, v11
s_and_saveexec_b64 s[10:11], vcc
s_cbranch_execz .Lover
ds_write_b32 v1, v11
s_waitcnt lgkmcnt(0)
.Lover:
s_or_b64 exec, exec, s[10:11]
ds_read_b32 v10, v1
s_waitcnt lgkmcnt(0)
global_store_dword v9, v10, s[4:5] offset:2048
