; Kernels for gfx1250 in assembly, broken and right. `; broken`, `; right` begin one: its name, and what
; differs from one wave and one work-group. All begin with the lines of `; begin`: s[4:5] is the array, v1
; the place of the lane in it and v3 that of a lane of the other wave, v9 zero, s7 the wave, s8 128 bytes a wave.
; begin
s_load_b64 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v3, 0x80, v1
v_mov_b32_e32 v9, 0
v_lshrrev_b32_e32 v4, 5, v0
v_readfirstlane_b32 s7, v4
s_lshl_b32 s8, s7, 7
s_wait_kmcnt 0x0
; broken | loadcnt one too many
global_load_b32 v10, v1, s[4:5]
global_load_b32 v11, v1, s[4:5] offset:4
s_wait_loadcnt 0x1
v_add_f32_e32 v12, v10, v11
; right | loadcnt one too many
global_load_b32 v10, v1, s[4:5]
global_load_b32 v11, v1, s[4:5] offset:4
s_wait_loadcnt 0x0
v_add_f32_e32 v12, v10, v11
; right | loadcnt in order
global_load_b32 v10, v1, s[4:5]
global_load_b32 v11, v1, s[4:5] offset:4
s_wait_loadcnt 0x1
v_mov_b32_e32 v12, v10
; broken | load waited for as a store
global_load_b32 v10, v1, s[4:5]
s_wait_storecnt 0x0
v_mov_b32_e32 v12, v10
; broken | load waited for in lds
global_load_b32 v10, v1, s[4:5]
s_wait_dscnt 0x0
v_mov_b32_e32 v12, v10
; broken | lds waited for as a load
ds_load_b32 v10, v1
s_wait_loadcnt 0x0
v_mov_b32_e32 v12, v10
; right | both counters in one wait
ds_load_b32 v10, v1
global_load_b32 v11, v1, s[4:5]
s_wait_loadcnt_dscnt 0x0
v_add_f32_e32 v12, v10, v11
; broken | both counters in one wait, lds left
ds_load_b32 v10, v1
global_load_b32 v11, v1, s[4:5]
s_wait_loadcnt_dscnt 0x1
v_add_f32_e32 v12, v10, v11
; broken | both counters in one wait, load left
ds_load_b32 v10, v1
global_load_b32 v11, v1, s[4:5]
s_wait_loadcnt_dscnt 0x100
v_add_f32_e32 v12, v10, v11
; broken | dscnt one too many
ds_load_b32 v10, v1
ds_load_b32 v11, v1 offset:4
s_wait_dscnt 0x1
v_mov_b32_e32 v12, v11
; right | dscnt one too many
ds_load_b32 v10, v1
ds_load_b32 v11, v1 offset:4
s_wait_dscnt 0x1
v_mov_b32_e32 v12, v10
; broken | kmcnt not zero
s_load_b32 s9, s[4:5], 0x0
s_load_b32 s10, s[4:5], 0x4
s_wait_kmcnt 0x1
s_mov_b32 s11, s9
; broken | scalar load not waited for
s_load_b32 s9, s[4:5], 0x0
s_mov_b32 s11, s9
; broken | atomic with a result waited for as a store
global_atomic_add_u32 v10, v1, v9, s[4:5] th:TH_ATOMIC_RETURN
s_wait_storecnt 0x0
v_mov_b32_e32 v12, v10
; right | atomic with a result waited for as a store
global_atomic_add_u32 v10, v1, v9, s[4:5] th:TH_ATOMIC_RETURN
s_wait_loadcnt 0x0
v_mov_b32_e32 v12, v10
; broken | lds exchanged without a barrier | 2 waves
ds_store_b32 v1, v9
s_wait_dscnt 0x0
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; right | lds exchanged without a barrier | 2 waves
ds_store_b32 v1, v9
s_wait_dscnt 0x0
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | lds exchanged, the signal before the wait for the store | 2 waves
ds_store_b32 v1, v0
s_barrier_signal -1
s_wait_dscnt 0x0
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | lds read between signal and wait | 2 waves
ds_store_b32 v1, v0
s_wait_dscnt 0x0
s_barrier_signal -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
s_barrier_wait -1
; right | own row between signal and wait | 2 waves
ds_store_b32 v1, v0
s_wait_dscnt 0x0
s_barrier_signal -1
ds_load_b32 v10, v1
s_barrier_wait -1
ds_load_b32 v11, v3
s_wait_dscnt 0x0
; broken | stored between signal and wait, read behind | 2 waves
s_barrier_signal -1
ds_store_b32 v1, v0
s_wait_dscnt 0x0
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | barrier without the wait for the store | 2 waves
ds_store_b32 v1, v0
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | read, barrier, overwritten: the read not waited for | 2 waves
ds_load_b32 v10, v3
s_barrier_signal -1
s_barrier_wait -1
ds_store_b32 v1, v0
s_wait_dscnt 0x0
; right | read, barrier, overwritten: the read not waited for | 2 waves
ds_load_b32 v10, v3
s_wait_dscnt 0x0
s_barrier_signal -1
s_barrier_wait -1
ds_store_b32 v1, v0
s_wait_dscnt 0x0
; broken | waits before its signal | 2 waves
s_barrier_wait -1
s_barrier_signal -1
; broken | one wave waits before its signal | 2 waves
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lfirst
s_barrier_wait -1
s_barrier_signal -1
s_endpgm
.Lfirst:
s_barrier_signal -1
s_barrier_wait -1
; broken | signals twice | 2 waves
s_barrier_signal -1
s_barrier_signal -1
s_barrier_wait -1
s_barrier_wait -1
; broken | waits twice | 2 waves
s_barrier_signal -1
s_barrier_wait -1
s_barrier_wait -1
; broken | one wave does not signal | 2 waves
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lover
s_barrier_signal -1
.Lover:
s_barrier_wait -1
; broken | one wave signals and does not wait | 2 waves
s_barrier_signal -1
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lover
s_barrier_wait -1
.Lover:
s_nop 0
; right | a wave ends before the barrier | 2 waves
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lover
s_barrier_signal -1
s_barrier_wait -1
.Lover:
s_nop 0
; broken | a wave stores and ends | 2 waves
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lover
ds_store_b32 v1, v0
s_endpgm
.Lover:
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | the barrier of a cluster
s_barrier_signal -3
s_barrier_wait -3
; broken | a named barrier
s_mov_b32 m0, 0x20001
s_barrier_init m0
s_barrier_join 1
s_barrier_signal 1
s_barrier_wait 1
; broken | the first to arrive
s_barrier_signal_isfirst -1
s_cbranch_scc1 .Lover
s_nop 0
.Lover:
s_barrier_wait -1
; broken | copy read at once
global_load_async_to_lds_b32 v1, v1, s[4:5]
ds_load_b32 v10, v1
s_wait_dscnt 0x0
; right | copy read at once
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_wait_asynccnt 0x0
ds_load_b32 v10, v1
s_wait_dscnt 0x0
; broken | copy waited for as a load
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_wait_loadcnt 0x0
ds_load_b32 v10, v1
s_wait_dscnt 0x0
; broken | copy waited for in lds
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_wait_dscnt 0x0
ds_load_b32 v10, v1
s_wait_dscnt 0x0
; broken | copy waited for by the tensor counter
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_wait_tensorcnt 0x0
ds_load_b32 v10, v1
s_wait_dscnt 0x0
; broken | copies, one left too many
v_add_nc_u32_e32 v2, 0x100, v1
global_load_async_to_lds_b32 v1, v1, s[4:5]
global_load_async_to_lds_b32 v2, v1, s[4:5] offset:0
s_wait_asynccnt 0x1
ds_load_b32 v10, v2
s_wait_dscnt 0x0
; right | copies, one left too many
v_add_nc_u32_e32 v2, 0x100, v1
global_load_async_to_lds_b32 v1, v1, s[4:5]
global_load_async_to_lds_b32 v2, v1, s[4:5] offset:0
s_wait_asynccnt 0x1
ds_load_b32 v10, v1
s_wait_dscnt 0x0
; broken | a copy from LDS between two waits
v_add_nc_u32_e32 v2, 0x100, v1
global_load_async_to_lds_b32 v1, v1, s[4:5]
global_store_async_from_lds_b32 v1, v2, s[4:5] offset:256
s_wait_asynccnt 0x1
ds_load_b32 v10, v1
s_wait_dscnt 0x0
s_wait_asynccnt 0x0
; broken | two copies to one place
global_load_async_to_lds_b32 v1, v1, s[4:5]
global_load_async_to_lds_b32 v1, v1, s[4:5] offset:0
s_wait_asynccnt 0x0
; broken | copy to what is still read
ds_load_b32 v10, v1
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_wait_asynccnt 0x0
s_wait_dscnt 0x0
; right | copy to what is still read
ds_load_b32 v10, v1
s_wait_dscnt 0x0
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_wait_asynccnt 0x0
; broken | copy of another wave, waited for behind the barrier | 2 waves
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_barrier_signal -1
s_barrier_wait -1
s_wait_asynccnt 0x0
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | copy of another wave, waited for behind the signal | 2 waves
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_barrier_signal -1
s_wait_asynccnt 0x0
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; right | copy of another wave | 2 waves
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_wait_asynccnt 0x0
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | copy in flight at the end of its wave | 2 waves
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 .Lover
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_endpgm
.Lover:
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | copy from lds before the store is done
ds_store_b32 v1, v0
global_store_async_from_lds_b32 v1, v1, s[4:5]
s_wait_asynccnt 0x0
; right | copy from lds before the store is done
ds_store_b32 v1, v0
s_wait_dscnt 0x0
global_store_async_from_lds_b32 v1, v1, s[4:5]
s_wait_asynccnt 0x0
; broken | lds overwritten while it is copied
global_store_async_from_lds_b32 v1, v1, s[4:5]
ds_store_b32 v1, v0
s_wait_asynccnt 0x0
s_wait_dscnt 0x0
; broken | copy of what a store has not written yet
global_store_b32 v1, v0, s[4:5]
global_load_async_to_lds_b32 v1, v1, s[4:5]
s_wait_asynccnt 0x0
; broken | copy beyond lds
v_add_nc_u32_e32 v2, 0x1000, v1
global_load_async_to_lds_b32 v2, v1, s[4:5]
s_wait_asynccnt 0x0
; broken | stored and loaded by another wave, no wait | 2 waves
global_store_b32 v1, v0, s[4:5]
s_barrier_signal -1
s_barrier_wait -1
global_load_b32 v10, v3, s[4:5]
s_wait_loadcnt 0x0
; right | stored and loaded by another wave, no wait | 2 waves
global_store_b32 v1, v0, s[4:5]
s_wait_storecnt 0x0
s_barrier_signal -1
s_barrier_wait -1
global_load_b32 v10, v3, s[4:5]
s_wait_loadcnt 0x0
; broken | stored and loaded by another wave, the wrong wait | 2 waves
global_store_b32 v1, v0, s[4:5]
s_wait_loadcnt 0x0
s_barrier_signal -1
s_barrier_wait -1
global_load_b32 v10, v3, s[4:5]
s_wait_loadcnt 0x0
; broken | loaded and overwritten by another wave, no wait | 2 waves
global_load_b32 v10, v3, s[4:5]
s_barrier_signal -1
s_barrier_wait -1
global_store_b32 v1, v0, s[4:5]
s_wait_loadcnt 0x0
; right | stored and loaded by one wave
global_store_b32 v1, v0, s[4:5]
global_load_b32 v10, v1, s[4:5]
s_wait_loadcnt 0x0
; broken | work-groups store to one place | 2 groups
global_store_b32 v1, v0, s[4:5]
s_mov_b32 s9, ttmp9
v_mov_b32_e32 v2, s9
s_wait_xcnt 0x0
global_store_b32 v1, v2, s[4:5]
; right | work-groups store to their own places | 2 groups
s_lshl_b32 s9, ttmp9, 7
v_add_nc_u32_e32 v2, s9, v1
global_store_b32 v2, v0, s[4:5]
; broken | address overwritten
global_load_b32 v10, v1, s[4:5]
v_mov_b32_e32 v1, 0
s_wait_loadcnt 0x0
; right | address overwritten
global_load_b32 v10, v1, s[4:5]
s_wait_xcnt 0x0
v_mov_b32_e32 v1, 0
s_wait_loadcnt 0x0
; broken | address overwritten, one too many
global_load_b32 v10, v3, s[4:5]
global_load_b32 v11, v1, s[4:5]
s_wait_xcnt 0x1
v_mov_b32_e32 v1, 0
s_wait_loadcnt 0x0
; right | address overwritten behind a barrier
global_load_b32 v10, v1, s[4:5]
s_barrier_signal -1
v_mov_b32_e32 v1, 0
s_barrier_wait -1
s_wait_loadcnt 0x0
; broken | data of a store overwritten by lds
ds_store_b32 v1, v0
global_store_b32 v1, v9, s[4:5]
s_wait_dscnt 0x0
ds_load_b32 v9, v1
s_wait_dscnt 0x0
; broken | exec overwritten
global_load_b32 v10, v1, s[4:5]
s_mov_b32 exec_lo, 1
s_wait_loadcnt 0x0
; broken | exec saved and narrowed
global_load_b32 v10, v1, s[4:5]
s_and_saveexec_b32 s9, 1
s_wait_loadcnt 0x0
; broken | exec narrowed by a comparison
global_load_b32 v10, v1, s[4:5]
v_cmpx_gt_u32_e32 16, v0
s_wait_loadcnt 0x0
; broken | base of a scalar load overwritten
s_load_b32 s9, s[4:5], 0x0
s_mov_b32 s4, 0
s_wait_kmcnt 0x0
; broken | product read too early
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
v_nop
v_nop
v_nop
v_add_f32_e32 v10, v20, v20
; right | product read too early
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
v_nop
v_nop
v_nop
v_nop
v_add_f32_e32 v10, v20, v20
; broken | halves of a dual instruction counted twice
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
v_dual_mov_b32 v10, v1 :: v_dual_mov_b32 v11, v3
v_dual_mov_b32 v12, v1 :: v_dual_mov_b32 v13, v3
v_add_f32_e32 v10, v20, v20
; broken | factor overwritten too early
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
v_mov_b32_e32 v28, 0
; broken | product multiplied too early
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
v_wmma_f32_16x16x32_f16 v[44:51], v[20:27], v[36:43], v[44:51]
; right | product added to
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
; broken | scalar instructions are no states
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
s_nop 7
s_nop 7
v_add_f32_e32 v10, v20, v20
; broken | exponential read at once
v_exp_f32_e32 v10, v9
v_add_f32_e32 v11, v10, v10
; right | exponential read at once
v_exp_f32_e32 v10, v9
v_nop
v_add_f32_e32 v11, v10, v10
; broken | source of an exponential overwritten at once
v_exp_f32_e32 v10, v9
v_mov_b32_e32 v9, 0
; broken | operand of a product in flight
global_load_b128 v[28:31], v9, s[4:5]
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
s_wait_loadcnt 0x0
; broken | expert: address used at once
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
v_add_nc_u32_e32 v2, 4, v1
global_load_b32 v10, v2, s[4:5]
s_wait_loadcnt 0x0
; right | expert: address used at once
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
v_add_nc_u32_e32 v2, 4, v1
s_wait_alu depctr_va_vdst(0)
global_load_b32 v10, v2, s[4:5]
s_wait_loadcnt 0x0
; broken | expert: one too many, a dual instruction behind
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
v_add_nc_u32_e32 v2, 4, v1
v_dual_mov_b32 v10, v1 :: v_dual_mov_b32 v11, v3
s_wait_alu depctr_va_vdst(2)
ds_load_b32 v12, v2
s_wait_dscnt 0x0
; broken | expert: source of a load overwritten
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
ds_load_b32 v10, v1
v_mov_b32_e32 v1, 0
s_wait_dscnt 0x0
; right | expert: source of a load overwritten
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
ds_load_b32 v10, v1
s_wait_alu depctr_vm_vsrc(0)
v_mov_b32_e32 v1, 0
s_wait_dscnt 0x0
; broken | a wait for one unit is none for the other
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
v_add_nc_u32_e32 v2, 4, v1
s_wait_alu depctr_vm_vsrc(0)
ds_load_b32 v12, v2
s_wait_dscnt 0x0
; broken | expert: a load over what a vector instruction reads
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
v_add_nc_u32_e32 v2, 4, v5
ds_load_b32 v5, v1
s_wait_dscnt 0x0
; right | expert: a load over what a vector instruction reads
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
v_add_nc_u32_e32 v2, 4, v5
s_wait_alu depctr_va_vdst(0)
ds_load_b32 v5, v1
s_wait_dscnt 0x0
; broken | expert: a load over a factor, the newest of three
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
v_add_nc_u32_e32 v2, 4, v5
v_add_nc_u32_e32 v6, 4, v28
s_wait_alu depctr_va_vdst(1)
ds_load_b32 v28, v1
s_wait_dscnt 0x0
; right | expert: a load over what no other unit reads
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
v_add_nc_u32_e32 v6, 4, v28
v_add_nc_u32_e32 v2, 4, v5
s_wait_alu depctr_va_vdst(1)
ds_load_b32 v28, v1
s_wait_dscnt 0x0
; broken | expert: source of a copy overwritten
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
global_load_async_to_lds_b32 v1, v3, s[4:5]
v_mov_b32_e32 v3, 0
s_wait_asynccnt 0x0
; right | expert: source of a copy overwritten
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
global_load_async_to_lds_b32 v1, v3, s[4:5]
s_wait_alu depctr_vm_vsrc(0)
v_mov_b32_e32 v3, 0
s_wait_asynccnt 0x0
; broken | expert: address of a copy used at once
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
v_lshlrev_b32_e32 v3, 2, v0
global_load_async_to_lds_b32 v1, v3, s[4:5]
s_wait_asynccnt 0x0
; broken | a copy at the result of a transcendental
v_exp_f32_e32 v3, v5
global_load_async_to_lds_b32 v1, v3, s[4:5]
s_wait_asynccnt 0x0
; broken | an exponential of a product at once
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
v_exp_f32_e32 v5, v20
; right | an exponential of a product at once
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[20:27]
v_nop
v_nop
v_nop
v_nop
v_exp_f32_e32 v5, v20
; broken | what a product adds to is overwritten
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[44:51]
v_nop
v_nop
v_nop
v_mov_b32_e32 v47, 0
; right | what a product adds to is overwritten
v_wmma_f32_16x16x32_f16 v[20:27], v[28:35], v[36:43], v[44:51]
v_nop
v_nop
v_nop
v_nop
v_mov_b32_e32 v47, 0
; broken | tensor copy read at once
s_mov_b32 s12, 1
s_mov_b32 s13, 0
s_mov_b64 s[14:15], 0
s_mov_b32 s16, 0x20000
s_mov_b32 s17, 0
s_mov_b32 s18, 0
s_mov_b32 s19, 0x200000
s_mov_b32 s20, 4
s_mov_b32 s21, 32
s_mov_b64 s[22:23], 0
tensor_load_to_lds s[12:15], s[16:23]
ds_load_b32 v10, v1
s_wait_tensorcnt 0x0
s_wait_dscnt 0x0
; right | tensor copy read at once
s_mov_b32 s12, 1
s_mov_b32 s13, 0
s_mov_b64 s[14:15], 0
s_mov_b32 s16, 0x20000
s_mov_b32 s17, 0
s_mov_b32 s18, 0
s_mov_b32 s19, 0x200000
s_mov_b32 s20, 4
s_mov_b32 s21, 32
s_mov_b64 s[22:23], 0
tensor_load_to_lds s[12:15], s[16:23]
s_wait_tensorcnt 0x0
ds_load_b32 v10, v1
s_wait_dscnt 0x0
; right | tensor copy beside what is read
s_mov_b32 s12, 1
s_mov_b32 s13, 0x200
s_mov_b64 s[14:15], 0
s_mov_b32 s16, 0x20000
s_mov_b32 s17, 0
s_mov_b32 s18, 0
s_mov_b32 s19, 0x200000
s_mov_b32 s20, 4
s_mov_b32 s21, 32
s_mov_b64 s[22:23], 0
tensor_load_to_lds s[12:15], s[16:23]
ds_load_b32 v10, v1
s_wait_tensorcnt 0x0
s_wait_dscnt 0x0
; broken | tensor copy waited for as a copy
s_mov_b32 s12, 1
s_mov_b32 s13, 0
s_mov_b64 s[14:15], 0
s_mov_b32 s16, 0x20000
s_mov_b32 s17, 0
s_mov_b32 s18, 0
s_mov_b32 s19, 0x200000
s_mov_b32 s20, 4
s_mov_b32 s21, 32
s_mov_b64 s[22:23], 0
tensor_load_to_lds s[12:15], s[16:23]
s_wait_asynccnt 0x0
ds_load_b32 v10, v1
s_wait_dscnt 0x0
s_wait_tensorcnt 0x0
; broken | tensor copy of another wave, one left | 2 waves
s_mov_b32 s12, 1
s_mov_b32 s13, s8
s_mov_b64 s[14:15], 0
s_mov_b32 s16, 0x20000
s_mov_b32 s17, 0
s_mov_b32 s18, 0
s_mov_b32 s19, 0x200000
s_mov_b32 s20, 1
s_mov_b32 s21, 32
s_mov_b64 s[22:23], 0
tensor_load_to_lds s[12:15], s[16:23]
s_wait_tensorcnt 0x1
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; right | tensor copy of another wave, one left | 2 waves
s_mov_b32 s12, 1
s_mov_b32 s13, s8
s_mov_b64 s[14:15], 0
s_mov_b32 s16, 0x20000
s_mov_b32 s17, 0
s_mov_b32 s18, 0
s_mov_b32 s19, 0x200000
s_mov_b32 s20, 1
s_mov_b32 s21, 32
s_mov_b64 s[22:23], 0
tensor_load_to_lds s[12:15], s[16:23]
s_wait_tensorcnt 0x0
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | loop without its second barrier | 2 waves
s_mov_b32 s9, 3
.Lagain:
ds_store_b32 v1, v0
s_wait_dscnt 0x0
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v10, v3
s_wait_dscnt 0x0
s_sub_co_i32 s9, s9, 1
s_cmp_lg_u32 s9, 0
s_cbranch_scc1 .Lagain
; right | two buffers in turn, a barrier a trip | 2 waves
s_mov_b32 s9, 4
.Lagain:
s_and_b32 s10, s9, 1
s_lshl_b32 s10, s10, 8
v_add_nc_u32_e32 v5, s10, v1
v_add_nc_u32_e32 v6, s10, v3
ds_store_b32 v5, v0
s_wait_dscnt 0x0
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v10, v6
s_wait_dscnt 0x0
s_sub_co_i32 s9, s9, 1
s_cmp_lg_u32 s9, 0
s_cbranch_scc1 .Lagain
; broken | halves swapped one after the other | 2 waves
v_dual_mov_b32 v1, v3 :: v_dual_mov_b32 v3, v1
ds_store_b32 v1, v0
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; right | halves swapped, own rows | 2 waves
v_dual_mov_b32 v1, v3 :: v_dual_mov_b32 v3, v1
ds_store_b32 v3, v0
ds_load_b32 v10, v3
s_wait_dscnt 0x0
; broken | registers beyond 255
v_mov_b32_e32 v0, 0
s_set_vgpr_msb 0x40
ds_load_b32 v10, v1
s_set_vgpr_msb 0x1
v_mov_b32_e32 v11, v10
s_set_vgpr_msb 0
s_wait_dscnt 0x0
; right | registers beyond 255
v_mov_b32_e32 v0, 0
s_set_vgpr_msb 0x40
ds_load_b32 v10, v1
s_set_vgpr_msb 0
v_mov_b32_e32 v11, v10
s_wait_dscnt 0x0
; broken | async stores of lds by two groups, other values | 2 groups
v_mov_b32_e32 v10, ttmp9
ds_store_b32 v1, v10
s_wait_dscnt 0x0
global_store_async_from_lds_b32 v1, v1, s[4:5]
s_wait_asynccnt 0x0
; broken | flat stores by two groups, other values | 2 groups
v_mov_b32_e32 v20, s4
v_mov_b32_e32 v21, s5
v_mov_b32_e32 v10, ttmp9
flat_store_b32 v[20:21], v10
s_wait_storecnt 0x0
; right | async stores of lds by two groups, own places | 2 groups
s_mov_b32 s10, ttmp9
s_lshl_b32 s10, s10, 7
v_add_nc_u32_e32 v11, s10, v1
ds_store_b32 v1, v0
s_wait_dscnt 0x0
global_store_async_from_lds_b32 v11, v1, s[4:5]
s_wait_asynccnt 0x0
; broken | prefetch is no load
s_prefetch_inst_pc_rel 0x100, null, 5
global_load_b32 v10, v1, s[4:5]
v_add_nc_u32_e32 v11, v10, v10
; right | prefetch and version are nothing
s_version 0x4009
s_prefetch_inst_pc_rel 0x100, null, 5
s_prefetch_data_pc_rel 0x100, null, 5
global_load_b32 v10, v1, s[4:5]
s_wait_loadcnt 0x0
v_add_nc_u32_e32 v11, v10, v10
