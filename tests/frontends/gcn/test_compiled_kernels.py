"""Verdicts on what clang writes: a small HIP kernel is clean, and needs each wait and barrier.

Every `s_waitcnt` and `s_barrier` here is the compiler's. That each weakened one is refuted says
that the verdict on the original rests on all of them. A wait behind the loop may be there for the
launch without trips alone, so a mutant counts as refuted where one of two launches refutes it.
"""

from __future__ import annotations

import shutil

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code_mutants import assembly_mutants
from titan.isa.gcn.assembly import parse_assembly
from titan.validate.compare.gcn_compile import CLANG, hip_assembly

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")

LAUNCHES = tuple(
    f"{{grid: 1, block: 128, dynamic_shared: 0, parameters: [pointer, pointer, {trips}]}}"
    for trips in (3, 0)
)
# Two waves write one row of LDS in each trip; each adds up what the other one has written.
EXCHANGE = """
#define DEVICE static __attribute__((device)) inline
DEVICE void meet() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(128, 128)))
void exchange(const float* source, float* target, int trips) {
  static __attribute__((shared)) float row[128];
  int lane = __builtin_amdgcn_workitem_id_x();
  float sum = 0;
#pragma clang loop unroll(disable)
  for (int trip = 0; trip < trips; ++trip) {
    row[lane] = source[trip * 128 + lane];
    meet();
    sum += row[lane ^ 64];
    meet();
  }
  target[lane] = sum;
}
"""


@pytest.fixture(scope="module", params=["gfx90a", "gfx942", "gfx950"])
def exchange(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("hip") / "exchange.hip"
    place.write_text(EXCHANGE)
    return hip_assembly(place, request.param)


def test_what_clang_writes_is_verified(exchange):
    for launch in LAUNCHES:
        finding = judged(exchange, launch)
        assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
        assert finding.coverage.roles == (("wave", 2, 64),)


def test_every_wait_and_barrier_of_clang_is_needed(exchange):
    source = Source("k.s", exchange)
    found, _ = parse_assembly(source)
    mutants = list(assembly_mutants(found, source, found.kernels[0]))
    assert {item.kind for item in mutants} >= {"deleted", "vmcnt deleted", "lgkmcnt deleted"}
    for item in mutants:
        verdicts = {judged(item.text, launch).verdict for launch in LAUNCHES}
        assert Verdict.REFUTED in verdicts, (item.line, item.kind)


def test_without_its_barriers_the_source_is_refuted(tmp_path):
    place = tmp_path / "exchange.hip"
    place.write_text(EXCHANGE.replace("  __builtin_amdgcn_s_barrier();\n", ""))
    finding = judged(hip_assembly(place, "gfx942"), LAUNCHES[0])
    assert finding.verdict is Verdict.REFUTED
    assert {item.code for item in finding.diagnostics} & {"TTN202", "TTN203"}
