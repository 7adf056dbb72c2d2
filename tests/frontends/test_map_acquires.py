"""Tensor maps that a kernel edits: the acquire of one is none of another."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from titan.foundation.verdict import Verdict

KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 maps, .param .u64 made, .param .u64 data)
.reqntid 32
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %d<16>;
  .shared .align 128 .b8 s[4096];
  .shared .align 8 .b64 b;
  ld.param.u64 %d0, [maps];
  ld.param.u64 %d1, [made];
  ld.param.u64 %d2, [data];
  add.u64 %d3, %d1, 128;
  mov.u32 %r0, %tid.x;
  setp.eq.u32 %p1, %r0, 0;
  @%p1 mbarrier.init.shared.b64 [b], 1;
  mov.u32 %r1, s;
  mad.lo.u32 %r2, %r0, 4, %r1;
  mul.wide.u32 %d4, %r0, 4;
  add.u64 %d5, %d0, %d4;
  ld.global.u32 %r3, [%d5];
  st.shared.u32 [%r2], %r3;
  bar.warp.sync 0xffffffff;
  @%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [s], %d2;
  bar.warp.sync 0xffffffff;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
    [%d1], [s], 128;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
    [%d3], [s], 128;
  bar.sync 0;
  @!%p1 bra WAIT;
  ACQUIRES
  mov.u32 %r4, 0;
  mbarrier.arrive.expect_tx.shared.b64 _, [b], BYTES;
  COPIES
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [b], 0;
  @!%p2 bra WAIT;
  ret;
}
"""
LAUNCH = """
grid: 1
parameters:
  maps: {pointer: {0: {map: {data_type: f16, dimensions: [256, 512], box: [64, 8]}}}}
  made: pointer
  data: pointer
"""
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [{}], 128;"
COPY = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "[s+{}], [{}, {{%r4,%r4}}], [b];"
)
FIRST, SECOND, GIVEN = "%d1", "%d3", "%d0"


@pytest.mark.parametrize(
    ("acquired", "used", "right"),
    [
        ((FIRST,), (FIRST,), True),
        ((SECOND,), (SECOND,), True),
        ((FIRST, SECOND), (FIRST, SECOND), True),
        ((SECOND, FIRST), (FIRST, SECOND), True),
        ((FIRST, FIRST), (FIRST,), True),
        ((FIRST,), (GIVEN,), True),  # a map that nobody has written needs none
        ((), (GIVEN,), True),
        ((FIRST,), (FIRST, GIVEN), True),
        ((), (FIRST,), False),
        ((SECOND,), (FIRST,), False),
        ((FIRST,), (SECOND,), False),
        ((GIVEN,), (FIRST,), False),
        ((FIRST,), (FIRST, SECOND), False),
        ((SECOND,), (FIRST, SECOND), False),
        ((GIVEN, SECOND), (SECOND, FIRST), False),
    ],
)
def test_each_map_that_is_written_needs_an_acquire_of_its_own(acquired, used, right):
    text = KERNEL.replace("ACQUIRES", "\n".join(map(ACQUIRE.format, acquired)))
    copies = [COPY.format(1024 * (at + 1), place) for at, place in enumerate(used)]
    text = text.replace("BYTES", str(1024 * len(used))).replace("COPIES", "\n".join(copies))
    finding = verified(text, LAUNCH)
    wanted = (Verdict.VERIFIED, []) if right else (Verdict.REFUTED, ["TTN304"])
    assert (finding.verdict, codes(finding)) == wanted, finding.notes


def test_an_acquire_counts_from_where_it_stands():
    """Between two copies through one map, the first of which lacks it."""
    body = COPY.format(1024, FIRST) + ACQUIRE.format(FIRST) + COPY.format(2048, FIRST)
    text = KERNEL.replace("ACQUIRES", ACQUIRE.format(SECOND)).replace("BYTES", "2048")
    assert codes(verified(text.replace("COPIES", body), LAUNCH)) == ["TTN304"]


@pytest.mark.parametrize(
    ("before", "behind", "right"),
    [
        ("", "{}", True),
        ("{}", "{}", True),
        ("{}", "@%p3 {}", True),
        ("", "", False),
        ("{}", "", False),  # by the first CTA alone, which both know of
        ("", "@%p3 {}", False),
        ("", "@!%p3 {}", False),
    ],
)
def test_each_cta_needs_an_acquire_of_its_own(before, behind, right):
    """Of two CTAs of a cluster the first one writes a map, and both use it."""
    acquire = ACQUIRE.format(FIRST)
    text = KERNEL.replace("ACQUIRES", behind.format(acquire)).replace("BYTES", "1024")
    text = text.replace("COPIES", COPY.format(1024, FIRST))
    first = "mov.u32 %r8, %cluster_ctarank; setp.ne.u32 %p3, %r8, 0; @%p3 bra.uni MET;\n"
    text = text.replace("  ld.global.u32 %r3", f"  {first}  ld.global.u32 %r3")
    meet = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
    text = text.replace("bar.sync 0;", f"{before.format(acquire)}\nMET: {meet}")
    finding = verified(text, f"{LAUNCH}cluster: 2\n".replace("grid: 1", "grid: 2"))
    wanted = (Verdict.VERIFIED, []) if right else (Verdict.REFUTED, ["TTN304"])
    assert (finding.verdict, codes(finding)) == wanted, finding.notes
