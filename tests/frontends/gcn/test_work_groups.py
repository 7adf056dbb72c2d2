"""Races of work-groups in global memory, in what clang writes of small HIP kernels."""

from __future__ import annotations

import shutil

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies
from titan.validate.compare.gcn_compile import CLANG, hip_assembly

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")

LAUNCH = "{grid: 3, block: 64, dynamic_shared: 0, parameters: [pointer, pointer]}"
DEFAULTS = CodePolicies()
KERNEL = """
extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(64, 64)))
void k(int* data, int* other) {
  int lane = __builtin_amdgcn_workitem_id_x(), group = __builtin_amdgcn_workgroup_id_x();
  int at = 64 * group + lane;
  (void)data, (void)other, (void)at;
  BODY
}
"""
LOAD = "__scoped_atomic_load_n(%s, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)"
STORE = "__scoped_atomic_store_n(%s, 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);"
ADD = "__scoped_atomic_fetch_add(%s, 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);"
SHARED = """static __attribute__((shared)) int s[64];
  s[lane] = other[%s];
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
  __builtin_amdgcn_s_barrier();
  data[lane] = s[63 - lane];"""
BODIES = {
    "each its own": ("data[at] = other[at] + 1;", Verdict.VERIFIED),
    "all read the same": ("data[at] = other[lane] + 1;", Verdict.VERIFIED),
    "what the next one writes": ("data[at] = lane; other[at] = data[at + 64];", Verdict.REFUTED),
    "overlapping rows": ("data[at] = lane; data[at + 32] = lane;", Verdict.REFUTED),
    "all count in one word": (ADD % "data", Verdict.VERIFIED),
    "counted, and read plainly": (ADD % "data" + "other[at] = *data;", Verdict.REFUTED),
    "a flag that all set": (STORE % "data", Verdict.VERIFIED),
    "a flag that one sets and others see": (
        "if (group == 0) " + STORE % "data" + " else other[at] = " + LOAD % "data" + ";",
        Verdict.UNDECIDED,
    ),
    "data behind a flag": (
        "if (group == 0) { other[lane] = 1; " + STORE % "data"
        + " } else other[at] = other[lane] + " + LOAD % "data" + ";",
        Verdict.UNDECIDED,
    ),
    "all store the same": ("data[lane] = lane;", Verdict.VERIFIED),
    "all store what they load": ("data[lane] = other[lane] * 3;", Verdict.VERIFIED),
    "masked": ("if (lane < 20) data[lane] = other[lane];", Verdict.VERIFIED),
    "in turn": ("data[64 * (group % 1) + lane] = other[lane] + group % 1;", Verdict.VERIFIED),
    "through LDS": (SHARED % "lane", Verdict.VERIFIED),
    "its own through LDS": (SHARED % "at", Verdict.UNDECIDED),
    "by two branches": ("if (group) data[lane] = 7; else data[lane] = 7;", Verdict.VERIFIED),
    "twice": (
        'data[lane] = 1; asm volatile("" ::: "memory"); data[lane] = other[lane];', Verdict.VERIFIED
    ),
    "other values": ("data[lane] = lane + group;", Verdict.REFUTED),
    "what may be other values": ("data[lane] = other[at];", Verdict.UNDECIDED),
    "the time": ("data[lane] = (int)__builtin_readcyclecounter();", Verdict.UNDECIDED),
    "in place": ("data[lane] = data[lane] + 1;", Verdict.REFUTED),
    "a number from a counter": (
        "int was = " + ADD % "other" + "data[lane] = was;", Verdict.UNDECIDED
    ),
}  # fmt: skip


def verdict(tmp_path, body: str, target: str, policies: CodePolicies = DEFAULTS) -> Verdict:
    place = tmp_path / "k.hip"
    place.write_text(KERNEL.replace("BODY", body))
    return judged(hip_assembly(place, target), LAUNCH, policies=policies).verdict


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("name", BODIES)
def test_work_groups_race_in_global_memory(tmp_path, name, target):
    body, expected = BODIES[name]
    assert verdict(tmp_path, body, target) is expected


def test_equal_stores_may_be_assumed(tmp_path):
    body, _ = BODIES["what may be other values"]
    assumed = CodePolicies(equal_writes="assumed")
    assert verdict(tmp_path, body, "gfx942", assumed) is Verdict.VERIFIED
