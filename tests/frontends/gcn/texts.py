"""Assembly for the tests, by hand: a ring of two stages, and single waves around some lines."""

from __future__ import annotations

HEAD = """\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"
\t.text
{name}:
"""
TAIL = """
\t.amdhsa_kernel {name}
\t\t.amdhsa_group_segment_fixed_size {lds}
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_user_sgpr_count 2
\t\t.amdhsa_next_free_vgpr 512
\t\t.amdhsa_next_free_sgpr 96
\t\t.amdhsa_accum_offset 256
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .name: {name}
    .symbol: {name}.kd
    .max_flat_workgroup_size: {threads}
    .args:
      - .name: source
        .offset: 0
        .size: 8
        .value_kind: global_buffer
      - .name: trips
        .offset: 8
        .size: 4
        .value_kind: by_value
    .kernarg_segment_size: 12
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .sgpr_count: 96
    .vgpr_count: 512
    .wavefront_size: 64
amdhsa.version: [1, 2]
...
\t.end_amdgpu_metadata
"""
# Two waves copy 1024 bytes each to a stage of LDS, and read what the other one has copied.
_LINES = """\ts_load_dwordx2 s[4:5], s[0:1], 0x0
\ts_load_dword s6, s[0:1], 0x8
\tv_lshrrev_b32_e32 v1, 6, v0
\tv_lshlrev_b32_e32 v2, 4, v0
\tv_readfirstlane_b32 s7, v1
\ts_lshl_b32 s7, s7, 10
\tv_xor_b32_e32 v3, 0x400, v2
\ts_mov_b32 s8, 0
\tv_mov_b32_e32 v12, 0
\ts_waitcnt lgkmcnt(0)
\ts_cmp_lt_i32 s6, 1
\ts_cbranch_scc1 .Lend
\ts_add_i32 m0, s7, s8
\ts_nop 0
\tglobal_load_lds_dwordx4 v2, s[4:5]
.Lloop:
\ts_xor_b32 s9, s8, 0x800
\ts_add_u32 s4, s4, 0x800
\ts_addc_u32 s5, s5, 0
\ts_add_i32 m0, s7, s9
\ts_nop 0
\tglobal_load_lds_dwordx4 v2, s[4:5]
\ts_waitcnt vmcnt(1)
\ts_barrier
\tv_add_u32_e32 v4, s8, v3
\tds_read_b128 v[8:11], v4
\ts_waitcnt lgkmcnt(0)
\ts_barrier
\tv_add_f32_e32 v12, v8, v12
\ts_mov_b32 s8, s9
\ts_sub_i32 s6, s6, 1
\ts_cmp_lg_u32 s6, 0
\ts_cbranch_scc1 .Lloop
.Lend:
\ts_endpgm
"""


def kernel(lines: str, target: str = "gfx950", threads: int = 64, lds: int = 4096) -> str:
    """A kernel called `k` of these lines, which end with `s_endpgm` if they do not already."""
    body = "".join(f"\t{line.strip()}\n" for line in lines.strip().split("\n"))
    body += "" if "s_endpgm" in lines else "\ts_endpgm\n"
    fill = {"name": "k", "target": target, "lds": lds, "threads": threads}
    return HEAD.format(**fill) + body + TAIL.format(**fill)


def ring() -> str:
    """Two stages, two waves; every wait and barrier in the loop is needed."""
    fill = {"name": "ring", "target": "gfx950", "lds": 4096, "threads": 128}
    return HEAD.format(**fill) + _LINES + TAIL.format(**fill)


RING = ring()
