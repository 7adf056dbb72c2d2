"""HIP kernels for the tests, right and wrong, around one array in LDS; clang compiles them."""

from __future__ import annotations

from pathlib import Path

HEAD = """
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunused-variable"
#pragma clang diagnostic ignored "-Wunused-parameter"
#define DEVICE static __attribute__((device)) inline
#define BAR asm volatile("s_barrier" ::: "memory")
#define WAIT(text) asm volatile("s_waitcnt " text ::: "memory")
#define READ(at) asm volatile("ds_read_b32 v40, %0" :: "v"((at) * 4), "v"(row) : "v40", "memory")
typedef __attribute__((address_space(3))) void* lds_pointer;
typedef __attribute__((address_space(1))) void* global_pointer;
typedef __attribute__((address_space(3))) int* lds_counter;
DEVICE int tid() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE int wave() { return __builtin_amdgcn_readfirstlane(tid() >> 6); }
DEVICE void release() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); }
DEVICE void meet() {
  release();
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void copy(float* from, float* to) {
  __builtin_amdgcn_global_load_lds((global_pointer)from, (lds_pointer)to, 4, 0, 0);
}
DEVICE void count(float* at) {
  __scoped_atomic_fetch_add((lds_counter)at, 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
}
"""
KERNEL = """
extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))
void k(float* p, int trips) {
  static __attribute__((shared)) float row[1024];
  int t = tid();
"""
RIGHT = {
    "exchange": "row[t] = p[t]; meet(); p[t] = row[t ^ 64];",
    "within a wave": "row[t] = p[t]; release(); p[t] = row[t ^ 1];",
    "loop": "for (int i = 0; i < trips; ++i) "
    "{ row[t] = p[i * 128 + t]; meet(); p[t + 1024] += row[t ^ 64]; meet(); }",
    "two buffers, a barrier": "for (int i = 0; i < trips; ++i) "
    "{ float* r = row + (i & 1) * 128; r[t] = p[i * 128 + t]; meet(); p[t + 1024] += r[t ^ 64]; }",
    "a wave ends": 'if (wave() == 1) { row[t] = 1; WAIT("lgkmcnt(0)"); return; } '
    "BAR; p[t] = row[t + 64];",
    "a half is one barrier ahead": "if (wave() == 0) BAR; row[t] = p[t]; meet(); meet(); "
    "p[t] = row[t ^ 64]; if (wave() == 1) BAR;",
    "counters": "row[t] = 0; meet(); count(row); meet(); p[t] = row[0];",
    "counters only": "count(row + (t & 7));",
    "copy": 'copy(p + t, row + wave() * 64); WAIT("vmcnt(0)"); BAR; p[t + 1024] = row[t ^ 64];',
    "own copy": 'copy(p + t, row + wave() * 64); BAR; WAIT("vmcnt(0)"); READ(t); '
    'WAIT("lgkmcnt(0)");',
    "through memory": 'p[t + 64] = 1; WAIT("vmcnt(0)"); BAR; p[t + 1024] = p[(t ^ 64) + 64];',
    "through memory without a wait": "p[t + 64] = 1; BAR; p[t + 1024] = p[(t ^ 64) + 64];",
    "through memory, as compilers wait": "p[t] = t; meet(); p[t + 1024] = p[t ^ 64];",
    "read from memory, then overwritten": "float a = p[t ^ 64]; meet(); p[t] = a;",
    "a pointer to LDS or memory": "float* q = (trips & 1) ? row : p; q[t] = t; meet(); "
    "p[t + 1024] = q[t ^ 64];",
    "a pointer to LDS or memory, in a loop": "float* q = (trips & 1) ? row : p; "
    "q[t] = 0; for (int i = 0; i < trips; ++i) "
    "{ q[t] += p[i * 128 + t + 2048]; meet(); p[t + 1024] = q[t ^ 64]; meet(); }",
    "tree": "row[t] = p[t]; for (int s = 64; s > 0; s >>= 1) "
    "{ meet(); if (t < s) row[t] += row[t + s]; } meet(); p[t] = row[0];",
    "other arms": "if (wave() == 0) { row[t] = 1; meet(); } else meet(); p[t] = row[t & 63];",
}
# What LDS held before decides. In the first one the compiler moves the load to the front: the lanes
# exchange without anything that keeps it behind the store.
UNWRITTEN = {
    "within a wave, the load first": "row[t] = p[t]; p[t] = row[t ^ 1];",
    "counters from what was there": "count(row); meet(); p[t] = row[0];",
}
WRONG = {
    "no barrier": "row[t] = p[t]; release(); p[t] = row[t ^ 64];",
    "no wait": "row[t] = 1; BAR; p[t] = row[t ^ 64];",
    "loop without its second barrier": "for (int i = 0; i < trips; ++i) "
    "{ row[t] = p[i * 128 + t]; meet(); p[t + 1024] += row[t ^ 64]; }",
    "a wave stores and ends": "if (wave() == 1) { BAR; row[t] = 1; return; } "
    "BAR; p[t] = row[t + 64];",
    "a half is ahead by too much": "row[t] = p[t]; meet(); if (wave() == 0) meet(); "
    "p[t + 1024] = row[t ^ 64]; if (wave() == 1) meet(); row[t] = 2;",
    "counters read at once": "count(row); p[t] = row[0];",
    "copy without a wait": 'copy(p + t, row + wave() * 64); BAR; READ(t ^ 64); WAIT("lgkmcnt(0)");',
    "copy waited for too late": 'copy(p + t, row + wave() * 64); BAR; WAIT("vmcnt(0)"); '
    'READ(t ^ 64); WAIT("lgkmcnt(0)");',
    "through memory without a barrier": "p[t + 64] = t; p[t + 1024] = p[(t ^ 64) + 64];",
    "a pointer to LDS or memory without a wait": "float* q = (trips & 1) ? row : p; q[t] = t; BAR; "
    "p[t + 1024] = q[t ^ 64];",
    "a pointer to LDS or memory without a barrier": "float* q = (trips & 1) ? row : p; q[t] = t; "
    "release(); p[t + 1024] = q[t ^ 64];",
    "a pointer to LDS or memory, one barrier a trip": "float* q = (trips & 1) ? row : p; "
    "for (int i = 0; i < trips; ++i) "
    "{ q[t] += p[i * 128 + t + 2048]; meet(); p[t + 1024] = q[t ^ 64]; }",
    "waves store to one row": "if ((t & 63) < 8) row[t & 63] = t; p[t] = row[t & 63];",
    "tree without barriers": "row[t] = p[t]; meet(); for (int s = 64; s > 0; s >>= 1) "
    "{ if (t < s) row[t] += row[t + s]; if (t >= 64) row[t - 64] = 0; } meet(); p[t] = row[0];",
    "beyond LDS": "row[t + 1000] = p[t]; release(); p[t] = row[(t ^ 1) + 1000];",
}

# Words of memory decide which way all waves go, right and with one barrier less.
BY_DATA = {
    "a block leaves early": (
        "if (((int*)p)[4096] < 0) return; row[t] = p[t]; meet(); p[t + 1024] = row[t ^ 64];",
        "row[t] = p[t]; if (((int*)p)[4096] < 0) { p[t] = row[t ^ 64]; return; } "
        "meet(); p[t + 1024] = row[t ^ 64];",
    ),
    "rounds are left out": (
        "for (int i = 0; i < 3; ++i) { if (!((int*)p)[4096 + i]) continue; "
        "row[t] = p[i * 128 + t]; meet(); p[t + 1024] += row[t ^ 64]; meet(); }",
        "for (int i = 0; i < 3; ++i) { if (!((int*)p)[4096 + i]) continue; "
        "row[t] = p[i * 128 + t]; meet(); p[t + 1024] += row[t ^ 64]; }",
    ),
    "a loop is left": (
        "for (int i = 0; i < trips; ++i) { if (((int*)p)[4096 + i] < 0) break; "
        "row[t] = p[i * 128 + t]; meet(); p[t + 1024] += row[t ^ 64]; meet(); }",
        "for (int i = 0; i < trips; ++i) { if (((int*)p)[4096 + i] < 0) break; "
        "row[t] = p[i * 128 + t]; meet(); p[t + 1024] += row[t ^ 64]; }",
    ),
    "a word of LDS decides": (
        "if (t == 0) row[512] = p[4096]; row[t] = p[t]; meet(); "
        "if (row[512] > 0) { float a = row[t ^ 64]; meet(); row[t] = a; meet(); } "
        "p[t + 1024] = row[t ^ 65];",
        "if (t == 0) row[512] = p[4096]; row[t] = p[t]; meet(); "
        "if (row[512] > 0) { float a = row[t ^ 64]; row[t] = a; meet(); } "
        "p[t + 1024] = row[t ^ 65];",
    ),
    "a binary search": (
        "row[t] = p[t]; meet(); int low = 0, high = trips * 128; while (low < high) { "
        "int at = (low + high) >> 1; if (p[at + 2048] < row[t ^ 64]) low = at + 1; else high = at; "
        "} p[t + 1024] = low;",
        "row[t] = p[t]; release(); int low = 0, high = trips * 128; while (low < high) { "
        "int at = (low + high) >> 1; if (p[at + 2048] < row[t ^ 64]) low = at + 1; else high = at; "
        "} p[t + 1024] = low;",
    ),
}

# Two groups of four waves alternate; the source says how.
_PING_PONG = Path(__file__).parents[3] / "benchmarks/amd/ping_pong.hip"
PING_PONG = _PING_PONG.read_text(encoding="utf-8")
PING_PONG_FAULTS = {
    "copies are not waited for": ('    WAIT("vmcnt(0)"); /* copies */\n', ""),
    "one operation is left": ('WAIT("vmcnt(0)"); /* copies */', 'WAIT("vmcnt(1)");'),
    "one barrier less behind the copies": ("    BAR;              /* of both groups */\n", ""),
    "barriers of copies": (
        "    BAR;              /* copies are done */\n    BAR;              /* of both groups */\n",
        "",
    ),
}
# No faults: where both groups go in step the barriers are more than enough, and so are two stages.
PING_PONG_SPARE = {
    "in step": ("  if (w >= 4) BAR; /* behind */\n", ""),
}
# The first tile of the other stage is never there.
PING_PONG_UNWRITTEN = {
    "copies to the stage that has been read": ("stage[(trip + 1) & 1]", "stage[trip & 1]"),
}


def kernel_of(body: str, threads: int = 128) -> str:
    """The source of a kernel with this body."""
    return f"#define THREADS {threads}\n{HEAD}{KERNEL}{body}\n}}\n"
