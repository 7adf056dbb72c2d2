"""Which CTA of a cluster an instruction reaches through the words of its name."""

from __future__ import annotations

import pytest

from tests.frontends.test_clusters_and_exits import END, PAIR, START, WAIT
from tests.frontends.test_verify_code import codes, kernel, verified
from titan.foundation.verdict import Verdict

GIVEN = """
	mov.u32 %r14, b; mov.u32 %r15, s; add.u32 %r16, %r13, 1024; add.u32 %r17, %r15, 1024;
	@%p1 st.shared.v4.u32 [s], {%r0, %r0, %r0, %r0};
	@%p1 st.shared.v4.u32 [s+1024], {%r0, %r0, %r0, %r0};
	fence.proxy.async.shared::cta;
"""
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 16;"
DONE = WAIT.format(at="b") + END
BULK = "mbarrier::complete_tx::bytes"


def pair(body: str, other: int = 1):
    """The verdict on two CTAs; %r12 and %r13 are the barrier and memory of one, g is global."""
    text = kernel(START.replace("{other}", str(other)) + body, 32)
    memory = ".global .align 128 .b8 g[256];\n.visible"
    return verified(text.replace(".visible", memory), PAIR, ctas=(0,))


# %r13: memory of the CTA that is tried, this one or a peer
ACCESSES = {
    "ld": "ld{space}.u32 %r5, [%r13];",
    "ld.v4": "ld{space}.v4.u32 {{%r5, %r6, %r7, %r8}}, [%r13];",
    "ld.acquire": "ld.acquire.cluster{space}.u32 %r5, [%r13];",
    "st": "@%p1 st{space}.u32 [%r13], 1;",
    "atom": "@%p1 atom{space}.add.u32 %r5, [%r13], 1;",
    "red": "@%p1 red{space}.add.u32 [%r13], 1;",
    "complete_tx": EXPECT + END
    + "@%p1 mbarrier.complete_tx.relaxed.cluster{space}.b64 [%r12], 16;" + WAIT.format(at="b"),
}  # fmt: skip


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("space", [".shared", ".shared::cta", ".shared::cluster"])
@pytest.mark.parametrize("other", [0, 1], ids=["its own", "a peer's"])
def test_the_window_of_the_executing_cta_holds_its_own_memory_alone(access, space, other):
    finding = pair(GIVEN + END + ACCESSES[access].format(space=space) + END, other=other)
    wrong = other == 1 and space != ".shared::cluster"
    assert ("TTN219" in codes(finding)) is wrong, codes(finding)
    if not wrong:
        assert finding.verdict is Verdict.VERIFIED, finding.notes


COPIES = {  # of 16 bytes from %r17 or global memory to a place, signalling at a barrier
    "bulk": f"cp.async.bulk.{{to}}.global.{BULK} [{{at}}], [g], 16, [{{b}}];",
    "from shared": f"cp.async.bulk.{{to}}.shared::cta.{BULK} [{{at}}], [%r17], 16, [{{b}}];",
    "reduce": f"cp.reduce.async.bulk.{{to}}.shared::cta.{BULK}.add.u32"
    " [{at}], [%r17], 16, [{b}];",
}


def copied(copy: str, at: str, barrier: str, to: str = "shared::cluster") -> list[str]:
    text = COPIES[copy].format(at=at, b=barrier, to=to)
    finding = pair(GIVEN + EXPECT + END + "@%p1 " + text + DONE)
    assert (finding.verdict is Verdict.VERIFIED) is (not codes(finding)), finding.notes
    return codes(finding)


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_signals_in_the_cta_in_which_it_writes(copy):
    assert copied(copy, "%r13", "%r12") == []
    assert "TTN219" in copied(copy, "%r13", "%r14")
    assert "TTN219" in copied(copy, "%r15", "%r12")


def test_a_copy_to_the_own_window_goes_to_no_peer():
    assert copied("bulk", "%r15", "%r14", "shared::cta") == []
    assert "TTN219" in copied("bulk", "%r13", "%r12", "shared::cta")


def test_a_copy_from_the_own_window_comes_from_no_peer():
    store = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [g+64], [{at}], 16;"
    rest = "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;" + END
    one = "setp.eq.and.u32 %p1, %r10, 0, %p1;"  # both would write the same bytes
    given = GIVEN + END + one
    for at, wrong in (("%r15", False), ("%r13", True)):
        found = codes(pair(given + store.format(at=at) + rest))
        assert ("TTN219" in found) is wrong, found
