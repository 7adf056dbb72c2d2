"""Verdicts on what clang writes for gfx1250: HIP kernels are clean, and need each wait and barrier.

A mutant leaves out a wait, a half of a barrier or a `v_nop`, or weakens a wait by one. Those that
no launch refutes are listed with the reason.
"""

from __future__ import annotations

import re
import shutil

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code_mutants import assembly_mutants
from titan.frontends.verify_code import CodeOptions
from titan.isa.gcn.assembly import parse_assembly
from titan.validate.compare.gcn_compile import CLANG, hip_assembly

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")

HEAD = """
#pragma clang diagnostic ignored "-Wunused-function"
#define DEVICE static __attribute__((device)) inline
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef float float8 __attribute__((ext_vector_type(8)));
typedef int int4_ __attribute__((ext_vector_type(4)));
typedef __attribute__((address_space(1))) int4_ global_int4;
typedef __attribute__((address_space(3))) int4_ lds_int4;
DEVICE int tid() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE int group() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE void meet() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void arrive() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier_signal(-1);
}
DEVICE void await() {
  __builtin_amdgcn_s_barrier_wait(-1);
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void copy(const void* from, void* to) {
  __builtin_amdgcn_global_load_async_to_lds_b128((global_int4*)from, (lds_int4*)to, 0, 0);
}
extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))
void k(const float* __restrict__ source, float* __restrict__ target, int trips) {
  int lane = tid();
"""
KERNELS = {
    "exchange": (64, (3, 0), """
  static __attribute__((shared)) float row[64];
  float sum = 0;
  for (int trip = 0; trip < trips; ++trip) {
    row[lane] = source[trip * 64 + lane]; meet(); sum += row[lane ^ 32]; meet();
  }
  target[group() * THREADS + lane] = sum;"""),
    "split barrier": (64, (3, 0), """
  static __attribute__((shared)) float row[2][64];
  float sum = 0;
  for (int trip = 0; trip < trips; ++trip) {
    row[trip & 1][lane] = source[trip * 64 + lane];
    arrive(); sum = sum * sum + 1; await();
    sum += row[trip & 1][lane ^ 32];
  }
  target[group() * THREADS + lane] = sum;"""),
    "reduction": (128, (5,), """
  static __attribute__((shared)) float row[128];
  row[lane] = source[lane] * trips;
  for (int s = 64; s >= 32; s >>= 1) { meet(); if (lane < s) row[lane] += row[lane + s]; }
  meet(); target[group() * THREADS + lane] = row[lane & 31];"""),
    "pipeline of copies": (64, (5, 0), """
  static __attribute__((shared)) float stage[2][256];
  float sum = 0;
  copy(source + 4 * lane, &stage[0][4 * lane]);
  for (int trip = 0; trip < trips; ++trip) {
    copy(source + 256 * (trip + 1) + 4 * lane, &stage[(trip + 1) & 1][4 * lane]);
    __builtin_amdgcn_s_wait_asynccnt(1); meet();
    sum += stage[trip & 1][4 * (lane ^ 32)]; meet();
  }
  target[group() * THREADS + lane] = sum;"""),
    "gemm, two stages": (64, (4, 1), """
  static __attribute__((shared)) half16 a[2][64], b[2][64];
  const half16* left = (const half16*)source; const half16* right = left + 4096;
  float8 sum = {};
  a[0][lane] = left[lane]; b[0][lane] = right[lane]; meet();
  for (int trip = 0; trip < trips; ++trip) {
    half16 next_a = left[(trip + 1) * 64 + lane], next_b = right[(trip + 1) * 64 + lane];
    half16 x = a[trip & 1][lane ^ 32], y = b[trip & 1][lane ^ 32];
    sum = __builtin_amdgcn_wmma_f32_16x16x32_f16(0, x, 0, y, 0, sum, false, false);
    a[(trip + 1) & 1][lane] = next_a; b[(trip + 1) & 1][lane] = next_b; meet();
  }
  ((float8*)target)[group() * 64 + lane] = sum;"""),
}  # fmt: skip
# What no launch refutes, by kernel and the text that is changed, and why.
SPARE = {
    "reduction": {
        "s_wait_dscnt 0x0 dscnt": "the rows of the last steps are those of one wave, in order",
    },
}


def launches(name):
    threads, counts, _ = KERNELS[name]
    return [
        f"{{grid: 2, block: {threads}, dynamic_shared: 0, parameters: [pointer, pointer, {count}]}}"
        for count in counts
    ]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    made = {}
    for name, (threads, _, body) in KERNELS.items():
        place = tmp_path_factory.mktemp("hip") / "k.hip"
        place.write_text(f"#define THREADS {threads}\n{HEAD}{body}\n}}\n")
        made[name] = hip_assembly(place, "gfx1250")
    return made


@pytest.mark.parametrize("name", KERNELS)
def test_what_clang_writes_is_verified(compiled, name):
    for launch in launches(name):
        finding = judged(compiled[name], launch)
        assert finding.verdict is Verdict.VERIFIED, (finding.diagnostics, finding.notes)
        assert finding.coverage.roles == (("wave", KERNELS[name][0] // 32, 32),)


@pytest.mark.parametrize("name", KERNELS)
def test_every_wait_barrier_and_state_of_clang_is_needed(compiled, name):
    source = Source("k.s", compiled[name])
    found, _ = parse_assembly(source)
    mutants = list(assembly_mutants(found, source, found.kernels[0]))
    assert len(mutants) >= 8
    spare = SPARE.get(name, {})
    for item in mutants:
        verdicts = set()
        for launch in launches(name):
            verdicts.add(judged(item.text, launch, ctas=(0,)).verdict)
            if Verdict.REFUTED in verdicts:
                break
        known = f"{item.name} {item.kind.split()[0]}" in spare
        assert Verdict.REFUTED in verdicts or known, (item.line, item.name, item.kind)


def test_without_a_half_of_the_barrier_the_source_is_refuted(compiled):
    text = compiled["split barrier"]
    for half in ("s_barrier_signal -1", "s_barrier_wait -1"):
        finding = judged(text.replace(half, "s_nop 0"), launches("split barrier")[0])
        assert finding.verdict is Verdict.REFUTED


def test_a_pipeline_is_told_in_stages(compiled):
    finding = judged(compiled["pipeline of copies"], launches("pipeline of copies")[0])
    assert any("asynccnt 1 waits for all but the youngest stage" in note for note in finding.notes)


def test_any_number_of_trips_is_not_claimed(compiled):
    described = launches("exchange")[0]
    finding = judged(compiled["exchange"], described, require="any")
    assert finding.verdict is Verdict.UNDECIDED
    assert any("gfx1250 is verified for launches" in note for note in finding.notes)
    assert CodeOptions().require != "any"


def test_registers_beyond_255_are_those_of_the_comments(tmp_path):
    """With more registers than 256 LLVM writes beside each operand which one it means."""
    place = tmp_path / "wide.hip"
    sums = "\n".join(f"  float8 s{at} = {{}};" for at in range(40))
    products = "\n".join(
        f"    s{at} = __builtin_amdgcn_wmma_f32_16x16x32_f16(0, x, 0, y, 0, s{at}, false, false);"
        for at in range(40)
    )
    stores = "\n".join(f"  ((float8*)target)[{at} * 32 + lane] = s{at};" for at in range(40))
    body = f"""
  const half16* left = (const half16*)source;
{sums}
  for (int trip = 0; trip < trips; ++trip) {{
    half16 x = left[trip * 32 + lane], y = left[trip * 64 + lane];
{products}
  }}
{stores}
}}
"""
    place.write_text(f"#define THREADS 32\n{HEAD}{body}")
    text = hip_assembly(place, "gfx1250")
    assembly, errors = parse_assembly(Source("k.s", text))
    assert assembly is not None, errors
    lines = text.split("\n")
    compared = 0
    for item in assembly.instructions:
        if "v_dual" in lines[item.line - 1]:
            continue
        meant = re.findall(r"/\*(v\d+|v\[\d+:\d+\])\*/", lines[item.line - 1])
        found = [
            f"v{one.first}" if one.count == 1 else f"v[{one.first}:{one.first + one.count - 1}]"
            for one in item.operands
            if getattr(one, "bank", "") == "v" and one.first >= 256
        ]
        assert meant == found, lines[item.line - 1]
        compared += len(found)
    assert compared >= 40
