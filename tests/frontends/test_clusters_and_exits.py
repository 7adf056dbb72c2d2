"""Threads that end early, memory and barriers of another CTA: what is right and what is not."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified
from tests.isa.simt.running import launch_of, module_of
from titan.foundation.verdict import Verdict
from titan.isa.simt import events as ev
from titan.isa.simt.native import core
from titan.isa.simt.run import run

PAIR = "{grid: 2, cluster: 2, dynamic_shared: 0}"
START = """
	setp.eq.u32 %p1, %r0, 0;
	@%p1 mbarrier.init.shared.b64 [b], 1;
	@%p1 mbarrier.init.shared.b64 [b+8], 1;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	mov.u32 %r10, %cluster_ctarank;
	xor.b32 %r11, %r10, {other};
	mov.u32 %r12, b;
	mov.u32 %r13, s;
	mapa.shared::cluster.u32 %r12, %r12, %r11;
	mapa.shared::cluster.u32 %r13, %r13, %r11;
"""
END = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
WAIT = "A: mbarrier.try_wait.parity.shared::cta.b64 %p3, [{at}], 0; @!%p3 bra A;"


def pair(body: str, threads: int = 32, other: int = 1):
    """The verdict on a cluster of two CTAs; r12 and r13 are the barrier and memory of one."""
    text = kernel(START.replace("{other}", str(other)) + body, threads)
    return verified(text, PAIR, ctas=(0,))


# ------------------------------------------------------------------------------ early ends

LEAVES = {  # who ends before the barrier of 96 threads
    "a warp": "setp.eq.u32 %p1, %r1, 1; @%p1 exit;",
    "lanes of two warps": "setp.ge.u32 %p1, %r0, 40; @%p1 exit;",
    "all but one": "setp.ne.u32 %p1, %r1, 2; @%p1 ret;",
}
SHARE = "shl.b32 %r2, %r0, 2; mov.u32 %r3, s; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r0;"


@pytest.mark.parametrize("who", LEAVES)
def test_a_barrier_does_not_wait_for_threads_that_have_ended(who):
    """The end counts in every later generation, too."""
    use = "setp.eq.u32 %p2, %r0, 0; @%p2 st.shared.u32 [s+512], 1;"
    body = f"bar.sync 0; {LEAVES[who]} {SHARE} bar.sync 0; {use} bar.sync 0;"
    finding = verified(kernel(body, 96), NOTHING)
    assert finding.verdict is Verdict.VERIFIED, finding.notes


def test_a_barrier_with_a_count_waits_for_that_many():
    body = LEAVES["a warp"] + "bar.sync 1, 96;"
    assert codes(verified(kernel(body, 96), NOTHING)) == ["TTN205"]


def test_the_end_of_a_warp_hands_over_no_memory():
    """PTX orders nothing by the end of a thread."""
    body = "setp.eq.u32 %p1, %r1, 1; @%p1 st.shared.u32 [s], 1; @%p1 exit; bar.sync 0; "
    finding = verified(kernel(body + "ld.shared.u32 %r3, [s];", 64), NOTHING)
    assert finding.verdict is Verdict.REFUTED
    assert set(codes(finding)) & {"TTN201", "TTN305"}


def test_those_that_stay_are_still_ordered_by_the_barrier():
    body = LEAVES["a warp"] + SHARE + "{sync} xor.b32 %r4, %r2, 256; ld.shared.u32 %r5, [%r4];"
    good = verified(kernel(body.replace("{sync}", "bar.sync 0;"), 96), NOTHING)
    bad = verified(kernel(body.replace("{sync}", ""), 96), NOTHING)
    assert (good.verdict, codes(bad)) == (Verdict.VERIFIED, ["TTN201"]), good.notes


def test_the_barrier_of_a_cluster_does_not_wait_for_threads_that_have_ended():
    finding = pair("setp.eq.u32 %p1, %r1, 1; @%p1 exit;" + END, 64)
    assert finding.verdict is Verdict.VERIFIED, finding.notes


LATE_WARP = """
	or.b32 %r4, %r1, 2;
	add.u32 %r4, %r4, %r10;
	setp.ne.u32 %p4, %r4, 3;
	mov.u32 %r5, 300;
	@%p4 bra HERE;
LATE:	sub.u32 %r5, %r5, 1;
	setp.ne.u32 %p5, %r5, 0;
	@%p5 bra LATE;
HERE:	@%p1 st.shared.u32 [s], 1;
"""


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("wait", ["barrier.cluster.wait.aligned;", ""])
def test_threads_that_arrived_and_ended_do_not_stand_in_for_others(native, wait, monkeypatch):
    """One warp of each CTA arrives and ends, long before the first of the second CTA arrives."""
    if not native:
        monkeypatch.setattr("titan.isa.simt.run.core", lambda: None)
    body = LATE_WARP + "barrier.cluster.arrive.aligned; setp.eq.u32 %p2, %r1, 1; @%p2 exit;"
    body += wait + "@%p1 ld.shared::cluster.u32 %r5, [%r13];" + END
    finding = pair(body if wait else body.replace(END, "barrier.cluster.wait.aligned;" + END), 64)
    if wait:
        assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)
    else:
        assert "TTN201" in codes(finding) or "TTN305" in codes(finding)


@pytest.mark.parametrize(
    "more", ["barrier.cluster.wait.aligned;", "barrier.cluster.arrive.aligned;"]
)
def test_each_arrival_at_the_barrier_of_a_cluster_has_one_wait(more):
    body = END + more if "wait" in more else more + END
    assert codes(pair(body)) == ["TTN210"]


# --------------------------------------------------------------------- memory of a peer

PEER = {
    "a store": "@%p1 st.shared::cluster.u32 [%r13], 1;",
    "a load": "@%p1 ld.shared::cluster.u32 %r5, [%r13];",
    "an atomic": "@%p1 red.shared::cluster.add.u32 [%r13], 1;",
}


@pytest.mark.parametrize("access", PEER)
@pytest.mark.parametrize("end", [END, ""], ids=["a barrier at the end", "none"])
def test_a_cta_may_not_end_while_a_peer_uses_its_memory(access, end):
    """The memory is written before, so that a load reads something."""
    body = "@%p1 st.shared.u32 [s+64], 1;" if access != "a load" else "@%p1 st.shared.u32 [s], 1;"
    finding = pair(body + END + PEER[access] + end)
    assert codes(finding) == ([] if end else ["TTN211"])


OWN = {  # of the executing CTA alone
    "mbarrier.init": "@%p1 mbarrier.inval.shared.b64 [b]; @%p1 mbarrier.inval.shared.b64 [b+8];"
    + END + "@%p1 mbarrier.init.shared.b64 [%r12], 1;",
    "mbarrier.inval": "@%p1 mbarrier.inval.shared.b64 [%r12];",
    "a wait": "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12];"
    + WAIT.format(at="%r12"),
    "an arrival of this CTA": "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r12];",
    "cp.async.mbarrier.arrive": "@%p1 cp.async.mbarrier.arrive.noinc.shared.b64 [%r12];"
    + WAIT.format(at="b"),
}  # fmt: skip


@pytest.mark.parametrize("what", OWN)
@pytest.mark.parametrize("other", [0, 1], ids=["its own", "a peer's"])
def test_operations_on_mbarriers_of_the_own_cta_alone(what, other):
    finding = pair(OWN[what] + END, other=other)
    assert ("TTN219" in codes(finding)) is (other == 1), codes(finding)
    if other == 0:
        assert finding.verdict is Verdict.VERIFIED, finding.notes


def test_an_arrival_at_a_peer_in_the_form_for_it():
    arrive = "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12];"
    finding = pair(arrive + WAIT.format(at="b") + END)
    assert finding.verdict is Verdict.VERIFIED, finding.notes


@pytest.mark.parametrize(("at", "expected"), [("%r12", []), ("%r14", ["TTN219"])])
def test_st_async_signals_where_it_writes(at, expected):
    body = (
        "mov.u32 %r14, b; mapa.shared::cluster.u32 %r14, %r14, %r10;"
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 4;"
        f"@%p1 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r13], 1, [{at}];"
    )
    found = codes(pair(body + WAIT.format(at="b") + END))
    assert [code for code in found if code == "TTN219"] == expected


# ----------------------------------------------------------------------------- multicast

BULK = """
.shared .align 128 .b8 s[64]; .shared .align 8 .b8 b[8];
ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.b16 %h1, {mask};
@%p1 mbarrier.init.shared::cta.b64 [b], 1;
@%p1 {operation}
"""
MULTICASTS = {
    "a copy": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    ".multicast::cluster [s], [%d1], 64, [b], %h1;",
    "a commit": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
    ".multicast::cluster.b64 [b], %h1;",
}


@pytest.mark.parametrize("what", MULTICASTS)
@pytest.mark.parametrize("mask", [1, 2, 3, 4, 7, 0x8001])
def test_a_multicast_to_a_cta_that_is_not_there_is_a_fault(what, mask):
    body = BULK.replace("{mask}", str(mask)).replace("{operation}", MULTICASTS[what])
    faults = []
    for native in (False, True) if core() is not None else (False,):
        made, findings = run(module_of(body), launch_of(grid=2, cluster=2), native=native)
        assert made is not None, findings
        kinds = {item.fault for item in made.events if isinstance(item, ev.MemoryFault)}
        faults.append(ev.MemoryFaultKind.NO_SUCH_CTA in kinds)
    assert set(faults) == {mask > 3}


def test_such_a_multicast_refutes():
    text = kernel(
        START.replace("{other}", "1") + "mov.b16 %h1, 5;"
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 64;"
        "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [s], [x], 64, [b], %h1;" + END
    )
    text = text.replace(".visible .entry", ".global .align 16 .b8 x[64];\n.visible .entry")
    text = text.replace(".reg .pred", ".reg .b16 %h<2>; .reg .pred")
    assert "TTN218" in codes(verified(text, PAIR, ctas=(0,)))


# ------------------------------------------------------------------------- waits that give up

TRIES = """setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 1; bar.sync 0;
@%p1 mbarrier.arrive.shared.b64 _, [b]; mov.u32 %r4, 0;
A: mbarrier.try_wait.parity.shared::cta.b64 %p3, [b], 0; @%p3 bra B;
add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 9; @%p4 bra A;
B: """


def test_a_race_is_one_whether_or_not_waits_give_up():
    """It is in the run in which they pass; that nothing is wrong there says nothing of others."""
    good = verified(kernel(TRIES + SHARE, 64), NOTHING)
    bad = verified(kernel(TRIES + "st.shared.u32 [s], %r0;", 64), NOTHING)
    assert good.verdict is Verdict.UNDECIDED
    assert any("may go on where a wait has not passed" in note for note in good.notes)
    assert (bad.verdict, codes(bad)) == (Verdict.REFUTED, ["TTN201"])


# ------------------------------------------------------------- numbers that st.async hands over

EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], {bytes};"
HANDED = (
    EXPECT.format(bytes=12)
    + "@%p1 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{type} [%r13], {given},"
    " [%r12];"
    + "@%p1 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r13+8], 5, [%r12];"
)
TURNS = """
	ld.shared.u32 %r14, [s+{at}];
L:	bar.sync 0;
	sub.u32 %r14, %r14, 1;
	setp.ne.u32 %p4, %r14, 0;
	@%p4 bra L;
"""
WAITED = WAIT.replace("{at}", "b").replace("A: mbarrier", "B: mbarrier").replace("bra A", "bra B")


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("at", [0, 4, 8])
@pytest.mark.parametrize("type_", ["v2.b32", "b64"])
def test_numbers_of_an_asynchronous_store_may_decide_how_often_a_loop_turns(
    at, type_, native, monkeypatch
):
    """As schedulers of persistent kernels hand tiles to the other CTA of a cluster."""
    if not native:
        monkeypatch.setattr("titan.isa.simt.run.core", lambda: None)
    given = "{3, %r15}" if type_ == "v2.b32" else "%d9"
    lines = "mov.u32 %r15, 4; .reg .b64 %d9; mov.b64 %d9, 0x400000003;"
    handed = lines + HANDED.replace("{type}", type_).replace("{given}", given)
    finding = pair(handed + WAITED + TURNS.replace("{at}", str(at)) + END, 64)
    assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)


@pytest.mark.parametrize(("given", "wait", "verdict"), [
    ("3", "", Verdict.UNDECIDED),  # nobody has waited
    ("%r14", WAITED, Verdict.UNDECIDED),  # the number is not known
    ("7", WAITED, Verdict.VERIFIED),
])  # fmt: skip
def test_a_number_of_an_asynchronous_store_is_known_once_it_was_waited_for(given, wait, verdict):
    handed = HANDED.replace("{type}", "u32").replace("{given}", given).replace(", 12;", ", 8;")
    more = "mov.u32 %r14, %clock; "
    finding = pair(more + handed + wait + TURNS.replace("{at}", "0") + END, 64)
    assert finding.verdict is verdict, (codes(finding), finding.notes)
