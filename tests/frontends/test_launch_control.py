"""clusterlaunchcontrol: code is run with several numbers of clusters that it obtains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.frontends.test_verify_code import codes, verified
from tests.isa.simt.running import OUT, launch_of, module_of, results
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies
from titan.isa.simt.launch import Options
from titan.isa.simt.native import core

PERSISTENT = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
.reqntid 64
{{
	.reg .pred %p<8>;
	.reg .b32 %r<32>;
	.reg .b128 %q<4>;
	.shared .align 16 .b8 answer[16];
	.shared .align 8 .b8 full[8];
	.shared .align 8 .b8 empty[8];
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, %ctaid.x;
	setp.ne.u32 %p1, %r0, 0;
	@%p1 bra INITIALISED;
	mbarrier.init.shared.b64 [full], 1;
	mbarrier.init.shared.b64 [empty], 64;
	fence.mbarrier_init.release.cluster;
INITIALISED:
	bar.sync 0;
	mov.u32 %r2, 0;
TILE:
	setp.eq.u32 %p1, %r0, 0;
	@!%p1 bra ASKED;
	xor.b32 %r3, %r2, 1;
EMPTY:	mbarrier.try_wait.parity.shared.b64 %p2, [empty], {waited};
	@!%p2 bra EMPTY;
	mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;
	fence.proxy.async.shared::cta;
	clusterlaunchcontrol.try_cancel.async.shared::cta\
.mbarrier::complete_tx::bytes.b128 [answer], [full];
ASKED:
	bar.warp.sync -1;
FULL:	mbarrier.try_wait.parity.shared.b64 %p2, [full], %r2;
	@!%p2 bra FULL;
	ld.shared.b128 %q0, [answer];
	clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
	@%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r1, %q0;
	fence.proxy.async.shared::cta;
	{released} mbarrier.arrive.shared.b64 _, [empty];
	xor.b32 %r2, %r2, 1;
	@%p3 bra TILE;
	ret;
}}
"""
RIGHT = PERSISTENT.format(waited="%r3", released="")
LAPPING = PERSISTENT.format(waited="1", released="").replace("@!%p2 bra EMPTY;", "")
LAUNCH = "grid: [12]"
PAIR = PERSISTENT.format(waited="%r3", released="")  # rank 0 asks for both
for old, new in (
    ("[empty], 64;", "[empty], 128;"),
    ("bar.sync 0;", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"),
    ("mov.u32 %r2, 0;", "mov.u32 %r2, 0; mov.u32 %r5, %cluster_ctarank;"
     "mov.u32 %r7, full; mapa.shared::cluster.u32 %r7, %r7, 1;"
     "mov.u32 %r8, empty; mapa.shared::cluster.u32 %r8, %r8, 0;"),
    ("setp.eq.u32 %p1, %r0, 0;\n\t@!%p1 bra ASKED", "or.b32 %r6, %r0, %r5;"
     "setp.eq.u32 %p1, %r6, 0;\n\t@!%p1 bra ASKED"),
    ("_, [full], 16;", "_, [full], 16;"
     "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r7], 16;"),
    ("complete_tx::bytes.b128", "complete_tx::bytes.multicast::cluster::all.b128"),
    ("EMPTY:	mbarrier.try_wait.parity.shared",
     "EMPTY: mbarrier.try_wait.parity.acquire.cluster.shared"),
    ("mbarrier.arrive.shared.b64 _, [empty];",
     "mbarrier.arrive.release.{scope}.shared::cluster.b64 _, [%r8];"),
    ("\tret;", "\tbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n\tret;"),
):  # fmt: skip
    assert PAIR.count(old) == 1, old
    PAIR = PAIR.replace(old, new)


def test_a_persistent_kernel_obtains_none_or_some():
    finding = verified(RIGHT, LAUNCH)
    assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)
    assert finding.coverage.launches[2:] == (
        "1 cancelled: CTA (0, 0, 0)", "2 cancelled: CTA (0, 0, 0)", "5 cancelled: CTA (0, 0, 0)",
    )  # fmt: skip


def test_what_goes_wrong_at_the_second_tile_is_found():
    finding = verified(LAPPING, LAUNCH)
    assert finding.verdict is Verdict.REFUTED and codes(finding)[0] in ("TTN201", "TTN202")
    assert verified(LAPPING, f"{LAUNCH}\ncancelled: 0").verdict is Verdict.VERIFIED
    assert verified(LAPPING, f"{LAUNCH}\ncancelled: 1").verdict is Verdict.REFUTED
    assert verified(LAPPING, "grid: [1]").verdict is Verdict.VERIFIED  # there is none to obtain


@pytest.mark.parametrize(
    ("release", "policy", "verdict"),
    [
        ("release.cluster", "none", Verdict.VERIFIED),
        ("release.cta", "reads", Verdict.VERIFIED),
        ("release.cta", "none", Verdict.REFUTED),
        ("relaxed.cluster", "reads", Verdict.REFUTED),
        ("relaxed.cluster", "all", Verdict.REFUTED),
    ],
)
def test_what_a_peer_has_read_is_overwritten_behind_its_release(release, policy, verdict):
    text = PAIR.replace("release.{scope}", release)
    policies = CodePolicies(cta_release=policy)
    finding = verified(text, "grid: [12]\ncluster: [2]", policies=policies)
    assert finding.verdict is verdict, (codes(finding), finding.notes)
    assert ("TTN305" in codes(finding)) is (verdict is Verdict.REFUTED)
    told = any("CTA scope at a barrier of a peer" in note for note in finding.notes)
    assert told is (release == "release.cta" and verdict is Verdict.VERIFIED)


ASKING = "\t@%p3 bra TILE;"
ROUNDS = "\t{asks} add.u32 %r12, %r12, 1; setp.lt.u32 %p4, %r12, {rounds}; @%p4 bra TILE;"


@pytest.mark.parametrize("cancelled", [0, 1, 2])
@pytest.mark.parametrize("more", [0, 1])
def test_a_cta_that_has_read_that_none_is_left_asks_no_more(cancelled, more):
    """Rounds by a count: one request fails at the end, or one comes after it."""
    rounds = ROUNDS.format(asks="", rounds=cancelled + 1 + more)
    text = RIGHT.replace(ASKING, rounds).replace(
        "mov.u32 %r2, 0;", "mov.u32 %r2, 0; mov.u32 %r12, 0;", 1
    )
    finding = verified(text, f"{LAUNCH}\ncancelled: {cancelled}")
    first = [item for item in finding.diagnostics if item.code == "TTN221"]
    # with fewer granted than tried, one of the launches has a request after a failure
    assert bool(first) is (more > 0 or cancelled > 0), (codes(finding), finding.notes)
    assert (finding.verdict is Verdict.REFUTED) is bool(first)


COORDINATES = {
    "x": "get_first_ctaid::x.b32.b128 %r13, %q0",
    "y": "get_first_ctaid::y.b32.b128 %r13, %q0",
    "z": "get_first_ctaid::z.b32.b128 %r13, %q0",
    "all": "get_first_ctaid.v4.b32.b128 {%r13, %r14, %r15, %r16}, %q0",
}
USES = {
    "%p4": "setp.eq.u32 %p4, %r13, 0; @%p4 bar.sync 0;",
    "%r13": "mul.wide.u32 %d2, %r13, 4096; mad.wide.u32 %d2, %r0, 4, %d2; add.u64 %d1, %d1, %d2;"
    " st.global.u32 [%d1], 0;",
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("coordinate", COORDINATES)
def test_coordinates_of_no_cluster_are_not_known(coordinate, use):
    """Decoded without a guard they may be, and used where a cluster was cancelled."""
    decoded = f"clusterlaunchcontrol.query_cancel.{COORDINATES[coordinate]};"
    first = RIGHT.replace("\tret;", f"\t{USES[use]}\n\tret;").replace(
        ".reg .b128 %q<4>;", ".reg .b128 %q<4>; .reg .b64 %d<4>;"
    )
    first = first.replace("k()", "k(.param .u64 out)").replace(
        "mov.u32 %r0, %tid.x;", "mov.u32 %r0, %tid.x; ld.param.u64 %d1, [out]; mov.u32 %r13, 0;"
    )
    launch = "{grid: 1, parameters: [pointer]}"
    guarded = first.replace(ASKING, f"\t@%p3 {decoded}\n{ASKING}")
    chosen = first.replace(
        ASKING, f"\tmov.u32 %r17, %r13; {decoded} selp.u32 %r13, %r13, %r17, %p3;\n{ASKING}"
    )
    for text in (guarded, chosen):
        assert verified(text, launch).verdict is Verdict.VERIFIED
    found = verified(first.replace(ASKING, f"\t{decoded}\n{ASKING}"), launch)
    assert found.verdict is Verdict.UNDECIDED, (codes(found), found.notes)
    assert any("not known" in note for note in found.notes)


def test_requests_that_are_under_way_are_no_fault():
    """Two requests in flight: the second is made before the answer of the first is read."""
    again = ANSWERS.replace("{many}", "").replace("{{", "{").replace("}}", "}")
    head, _, tail = again.partition("FULL:")
    before, _, request = head.partition("AGAIN:")
    second = request.replace("[answer]", "[answer+16]").replace("[full]", "[full+8]")
    assert second != request
    wait = "mbarrier.try_wait.parity.shared.b64 %p2, [full+8], 0; @!%p2 bra SECOND;"
    for asked, expected in (
        (before + request + second + "FULL:" + tail.split("@!%p3 bra NONE;")[0]
         + f"SECOND: {wait} ld.shared.b128 %q1, [answer+16]; ret;", []),
        (before + request + "FULL:" + tail.split("@!%p3 bra NONE;")[0] + second
         + f"SECOND: {wait} ret;", ["TTN221"]),
    ):  # fmt: skip
        body = (
            asked.replace("answer[16]", "answer[32]")
            .replace("full[8]", "full[16]")
            .replace(
                "mbarrier.init.shared.b64 [full], 1;",
                "mbarrier.init.shared.b64 [full], 1; mbarrier.init.shared.b64 [full+8], 1;",
            )
        )
        text = MODULE.replace("{body}", body)
        finding = verified(text, "{grid: 8, block: 1, parameters: [pointer], cancelled: 0}")
        assert codes(finding) == expected, (finding.notes, text)


MODULE = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 1
{
	.reg .pred %p<8>;
	.reg .b32 %r<32>;
	.reg .b64 %d<8>;
	{body}
}
"""


ANSWERS = """
	.shared .align 16 .b8 answer[16];
	.shared .align 8 .b8 full[8];
	.reg .b128 %q<4>;
	mov.u32 %r1, %cluster_ctarank;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 ret;
	ld.param.u64 %d1, [out];
	mbarrier.init.shared.b64 [full], 1;
	mov.u32 %r9, 0;
AGAIN:	mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;
	clusterlaunchcontrol.try_cancel.async.shared::cta\
.mbarrier::complete_tx::bytes{many}.b128 [answer], [full];
FULL:	mbarrier.try_wait.parity.shared.b64 %p2, [full], %r9;
	@!%p2 bra FULL;
	ld.shared.b128 %q0, [answer];
	clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
	@!%p3 bra NONE;
	clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%r1, %r2, %r3, %r4}}, %q0;
	clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r5, %q0;
	clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r6, %q0;
	clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %r7, %q0;
	st.global.v2.u32 [%d1], {{%r1, %r2}};
	st.global.v4.u32 [%d1+8], {{%r3, %r5, %r6, %r7}};
	add.u64 %d1, %d1, 24;
	xor.b32 %r9, %r9, 1;
	bra AGAIN;
NONE:	ret;
"""


@pytest.mark.skipif(core() is None, reason="the native core is not built")
@pytest.mark.parametrize("many", [False, True])
def test_answers_name_the_clusters_that_follow(many):
    word = ".multicast::cluster::all" if many else ""
    module = module_of("{" + ANSWERS.format(many=word) + "}")
    launch = replace(launch_of(block=1), grid=(4, 3, 2), cluster=(1 if many else 2, 1, 1))
    for number in (1, 7, 11):
        given = replace(launch, cancelled=number)
        found = [given.following(0, count) for count in range(1, number + 1)]
        assert len(set(found)) == number
        assert all(place[0] % given.cluster[0] == 0 for place in found)
        words = results(module, given, number * 6, Options(ctas=(0,)))
        for count, place in enumerate(found):
            assert tuple(words[6 * count : 6 * count + 3]) == place
            assert tuple(words[6 * count + 3 : 6 * count + 6]) == place


RAISED = """
	ld.param.u64 %d1, [out];
	mov.u32 %r1, %tid.x;
	mov.u32 %r5, %cluster_ctarank;
	or.b32 %r1, %r1, %r5;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 ret;
	atom.global.add.u32 %r2, [%d1], 3;
	atom.global.add.u32 %r3, [%d1], 3;
	red.global.add.u32 [%d1], 1;
	atom.global.add.u32 %r4, [%d1+4], -1;
	st.global.v4.u32 [%d1+8], {%r2, %r3, %r4, %r1};
	ret;
"""


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("cta", [0, 6, 11])
def test_counters_that_clusters_raise_in_turn(cluster, cta):
    memory = {OUT: (100).to_bytes(4, "little") + (50).to_bytes(4, "little")}
    launch = replace(
        launch_of(memory=memory), grid=(4, 3, 1), cluster=(cluster, 1, 1), in_turn=True
    )
    number, count = launch.cluster_number(cta), 12 // cluster
    first = launch.cluster_members(cta)[0]
    assert number == cta // 4 * (4 // cluster) + cta % 4 // cluster
    words = results(module_of(RAISED), launch, 6, Options(ctas=(first,)))
    assert words[2] == 100 + 3 * number and words[3] == words[2] + 3 * count
    assert words[0] == words[3] + 3 * count + 1
    assert words[4] == 50 - number and words[1] == words[4] - count & 0xFFFFFFFF
    plain = results(module_of(RAISED), replace(launch, in_turn=False), 6, Options(ctas=(first,)))
    assert plain[2:5] == [100, 103, 50]
    given = replace(launch, draws={OUT + 4: (4, 9), OUT: (7, 2)})
    words = results(module_of(RAISED), given, 6, Options(ctas=(first,)))
    assert words[2:5] == [100 + 3 * 7, 100 + 3 * 2, 50 - 4]
    assert words[0] == words[3] + 3 * count + 1 and words[1] == 50 - 9
