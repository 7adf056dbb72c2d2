"""Pairs of CTAs: releases of CTA scope to a peer, lanes of tensor memory by rows of the pair."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from tests.isa.simt.running import launch_of, module_of, of, ran
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Policy

HEAD = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
.reqntid 32
{
	.reg .pred %p<8>;
	.reg .b32 %r<32>;
	.shared .align 16 .b8 data[128];
	.shared .align 8 .b8 full[8];
	.shared .align 4 .b32 place;
"""
# The second CTA writes its data and arrives at the first; that reads them there.
HANDED = (
    HEAD
    + """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, %cluster_ctarank;
	setp.ne.u32 %p1, %r0, 0;
	@%p1 bra INITIALISED;
	mbarrier.init.shared.b64 [full], 32;
	fence.mbarrier_init.release.cluster;
INITIALISED:
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	shl.b32 %r3, %r0, 2;
	mov.u32 %r4, data;
	add.u32 %r4, %r4, %r3;
	setp.eq.u32 %p2, %r1, 0;
	@%p2 bra FIRST;
	mov.u32 %r7, full;
	mapa.shared::cluster.u32 %r7, %r7, 0;
	st.shared.u32 [%r4], %r0;
	mbarrier.arrive.{release}.shared::cluster.b64 _, [%r7];
	bra.uni END;
FIRST:
	mapa.shared::cluster.u32 %r5, %r4, 1;
WAIT:	mbarrier.try_wait.parity.{acquire}.shared.b64 %p3, [full], 0;
	@!%p3 bra WAIT;
	{read}
END:
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	ret;
}
""".replace("{read}", "ld.shared::cluster.u32 %r6, [%r5];")
)


@pytest.mark.parametrize(
    ("release", "acquire", "policy", "verdict"),
    [
        ("release.cluster", "acquire.cluster", "none", Verdict.VERIFIED),
        ("release.cta", "acquire.cta", "reads", Verdict.REFUTED),
        ("release.cta", "acquire.cluster", "reads", Verdict.REFUTED),
        ("release.cta", "acquire.cta", "none", Verdict.REFUTED),
        ("release.cta", "acquire.cta", "all", Verdict.VERIFIED),
        ("relaxed.cluster", "acquire.cluster", "all", Verdict.REFUTED),
        ("release.cta", "relaxed.cluster", "all", Verdict.REFUTED),
    ],
)
def test_what_a_peer_wrote_is_read_behind_its_release(release, acquire, policy, verdict):
    text = HANDED.replace("{release}", release).replace("{acquire}", acquire)
    policies = CodePolicies(cta_release=policy)
    finding = verified(text, "grid: [2]\ncluster: [2]", policies=policies)
    assert finding.verdict is verdict, (codes(finding), finding.notes)
    noted = any("of a peer orders all before it" in note for note in finding.notes)
    assert noted is (policy == "all" and verdict is Verdict.VERIFIED)
    if verdict is Verdict.REFUTED:
        assert codes(finding) == ["TTN305"]
        helps = " ".join(finding.diagnostics[0].helps)
        assert ("cta_release=all" in helps) is (release == "release.cta" and policy != "all")


def test_without_an_order_the_policy_changes_nothing():
    text = HANDED.replace("{release}", "release.cta").replace("{acquire}", "acquire.cta")
    text = text.replace("\t@!%p3 bra WAIT;\n", "")
    policies = CodePolicies(cta_release="all")
    finding = verified(text, "grid: [2]\ncluster: [2]", policies=policies)
    assert finding.verdict is Verdict.REFUTED and "TTN305" not in codes(finding)


COLUMNS = """
	.shared .align 4 .b32 place;
	mov.u32 %r1, %cluster_ctarank;
	tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [place], 64;
	bar.sync 0;
	ld.shared.u32 %r3, [place];
	{lane}
	shl.b32 %r4, %r4, 16;
	add.u32 %r4, %r4, %r3;
	tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {%r1};
	tcgen05.wait::st.sync.aligned;
	tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r3, 64;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	ret;
"""
BY_ROW = "shl.b32 %r4, %r1, 7;"  # 128 in the second CTA


@pytest.mark.parametrize(
    ("group", "lane", "faulty", "assumed"),
    [
        (2, BY_ROW, 0, 1),
        (2, "mov.u32 %r4, 0;", 0, 0),
        (1, BY_ROW, 1, 0),  # no pair
        (2, "mov.u32 %r4, 128;", 1, 1),  # not in the first CTA
        (2, "shl.b32 %r4, %r1, 8;", 1, 0),  # no row of the pair
    ],
)
def test_lanes_of_a_pair_are_rows_of_the_cta_that_holds_them(group, lane, faulty, assumed):
    body = COLUMNS.replace("{group}", str(group)).replace("{lane}", lane)
    made = ran(module_of("{" + body + "}"), launch_of(grid=2, cluster=2))
    uses = [item for item in of(made, ev.Assumption) if item.policy == Policy.PAIR_LANES]
    assert (len(of(made, ev.MemoryFault)), len(uses)) == (faulty, assumed)
    stores = {
        event.cta: event.effects[0].footprint.bounds[0] for event in of(made, ev.AsynchronousEvent)
    }
    if not faulty:
        assert stores == {0: 0, 1: 0}


def test_the_policy_may_refuse_rows_of_the_pair():
    start = HEAD.replace("\t.shared .align 4 .b32 place;\n", "")
    text = start + COLUMNS.replace("{group}", "2").replace("{lane}", BY_ROW) + "}\n"
    given = "grid: [2]\ncluster: [2]"
    finding = verified(text, given)
    assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)
    assert any("lanes of tensor memory from 128 on" in note for note in finding.notes)
    refused = verified(text, given, policies=CodePolicies(tensor_lanes="refuse"))
    assert refused.verdict is Verdict.UNDECIDED and any(
        "tensor_lanes=refuse" in note for note in refused.notes
    )


# Both CTAs allocate for the pair; the first starts a product that writes in both.
ALLOCATED = (
    HEAD.replace("%r<32>", "%r<64>")
    + """
	.reg .b64 %d<4>;
	.reg .b16 %h<2>;
	mov.u16 %h1, 3;
	.shared .align 1024 .b8 operands[32768];
	.shared .align 8 .b8 done[8];
	mov.u32 %r1, %cluster_ctarank;
	mov.u32 %r0, %tid.x;
	setp.ne.u32 %p1, %r0, 0;
	@%p1 bra INITIALISED;
	mbarrier.init.shared.b64 [done], 1;
	fence.mbarrier_init.release.cluster;
INITIALISED:
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	{first}tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [place], 64;
	bar.sync 0;
	ld.shared.u32 %r3, [place];
	setp.ne.u32 %p2, %r1, 0;
	@%p2 bra WAIT;
	@%p1 bra WAIT;
	mov.u32 %r4, operands;
	bfe.u32 %r6, %r4, 4, 14;
	mov.u32 %r8, 1073758272;
	mov.b64 %d1, {%r6, %r8};
	mov.u32 %r9, 135266320;
	setp.ne.u32 %p3, 0, 0;
	tcgen05.mma.cta_group::2.kind::f16 [%r3], %d1, %d1, %r9, %p3;
	tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64\
 [done], %h1;
WAIT:
	bar.warp.sync -1;
DONE:	mbarrier.try_wait.parity.shared::cta.b64 %p4, [done], 0;
	@!%p4 bra DONE;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 64;
	ret;
}
"""
)


@pytest.mark.parametrize(
    ("group", "first", "found"),
    [
        ("2", "", set()),
        ("1", "", {"TTN201", "TTN202"}),  # each alone: the peer may not have allocated yet
        ("2", "setp.ne.u32 %p5, %r1, 0;\n\t@%p5 bra WAIT;\n\t", {"TTN205", "TTN218"}),  # one alone
    ],
)
def test_an_allocation_of_a_pair_is_one_of_both(group, first, found):
    text = ALLOCATED.replace("{group}", group).replace("{first}", first)
    finding = verified(text, "grid: [2]\ncluster: [2]")
    if not found:
        assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)
    else:
        assert finding.verdict is Verdict.REFUTED and found & set(codes(finding)), finding.notes


def test_an_allocation_makes_nothing_visible():
    """What a CTA wrote before it allocated for the pair is not there for its peer behind that."""
    text = HANDED.replace("{release}", "release.cluster").replace("{acquire}", "acquire.cluster")
    allocate = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [place], 64;"
    text = text.replace("\tmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];", allocate)
    start, end = text.index("WAIT:"), text.index("ld.shared::cluster")
    text = text[:start] + allocate + "\n\t" + text[end:]
    finding = verified(text, "grid: [2]\ncluster: [2]")
    assert finding.verdict is Verdict.REFUTED and "TTN305" in codes(finding), finding.notes


# The peer comes to its allocation a while after this CTA could start its product.
LATE = """setp.eq.u32 %p5, %r1, 0;
	mov.u32 %r20, 200;
	@%p5 bra NOW;
LATER:	sub.u32 %r20, %r20, 1;
	setp.ne.u32 %p6, %r20, 0;
	@%p6 bra LATER;
NOW:	"""
# It waits first for what this CTA does behind its own.
BEHIND = """setp.eq.u32 %p5, %r1, 0;
	@%p5 bra NOW;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
NOW:	"""


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("first", "found"), [(LATE, set()), (BEHIND, {"TTN205"})])
def test_the_first_cta_of_a_pair_waits_for_the_allocation_of_its_peer(
    native, first, found, monkeypatch
):
    if not native:
        monkeypatch.setattr("titan.isa.simt.run.core", lambda: None)
    text = ALLOCATED.replace("{group}", "2").replace("{first}", first)
    finding = verified(text, "grid: [2]\ncluster: [2]")
    wanted = Verdict.REFUTED if found else Verdict.VERIFIED
    assert finding.verdict is wanted, (codes(finding), finding.notes)
    assert found <= set(codes(finding)), (codes(finding), finding.notes)


MULTICAST = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
.reqntid 32
{
	.reg .pred %p<8>;
	.reg .b16 %h<2>;
	.reg .b32 %r<16>;
	.reg .b64 %d<4>;
	.shared .align 1024 .b8 data[2048];
	.shared .align 8 .b8 full[8];
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, %cluster_ctarank;
	setp.ne.u32 %p1, %r0, 0;
	setp.ne.or.u32 %p2, %r1, 0, %p1;
	mov.b64 %d1, map;
	cvta.param.u64 %d1, %d1;
	mov.u16 %h1, 3;
	mov.u32 %r2, full;
	and.b32 %r3, %r2, 0xFEFFFFF8;
	@%p1 bra INITIALISED;
	mbarrier.init.shared.b64 [full], 1;
	fence.mbarrier_init.release.cluster;
INITIALISED:
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	@%p2 bra STARTED;
	mbarrier.arrive.expect_tx.shared.b64 _, [full], {bytes};
	cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes\
.multicast::cluster [data], [%d1, {0, 0}], [%r3], %h1;
STARTED:
	setp.ne.u32 %p3, %r1, 0;
	{early}
	@%p3 bra FILLED;
FULL:	mbarrier.try_wait.parity.shared.b64 %p4, [full], 0;
	@!%p4 bra FULL;
FILLED:
	{between}
	ld.shared.u32 %r4, [data+{at}];
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	ret;
}
"""
JOINED = "barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;"
FILLED_BOX = """grid: [2]
cluster: [2]
parameters: [{map: {data_type: u8, dimensions: [256, 64], box: [128, 16]}}]"""


@pytest.mark.parametrize(
    ("bytes_", "early", "between", "found"),
    [
        (4096, "", JOINED, set()),
        (2048, "", JOINED, {"TTN203"}),  # it waits for one part
        (4096, "", "", {"TTN203"}),  # the second CTA waits for nothing
        (4096, "@%p3 st.shared.u32 [data], %r0;", JOINED, {"TTN301"}),
        (4096, "@!%p3 st.shared.u32 [data], %r0;", JOINED, {"TTN202"}),
    ],
)
def test_a_multicast_to_a_pair_fills_both_and_signals_in_one(bytes_, early, between, found):
    """Both parts signal at the barrier of the first CTA, and each is a write in its own."""
    text = MULTICAST.replace("{bytes}", str(bytes_)).replace("{early}", early)
    text = text.replace("{between}", between).replace("{at}", "0")
    finding = verified(text, FILLED_BOX)
    wanted = Verdict.REFUTED if found else Verdict.VERIFIED
    assert finding.verdict is wanted, (codes(finding), finding.notes)
    assert found <= set(codes(finding)), codes(finding)
