"""Whether strong accesses to shared memory may order threads of a block, for hand-overs of CTAs.

Expected is what PTX says of release and acquire patterns; the whole kernel is tried besides.
"""

from __future__ import annotations

import pytest

from tests.frontends.test_hand_over import BAR, FENCE, READ, VERIFIED, edited, found
from tests.isa.simt.running import launch_of, module_of, ran
from titan.foundation.verdict import Verdict
from titan.frontends.grid.ticket_order import is_complete

HEAD = """.shared .align 16 .b32 s[64];
mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; mov.u32 %r2, 7; ld.param.u64 %d0, [out];
"""
ACQ_REL = "fence.acq_rel.cta;"
# By the first warp, by both.
WRITE = "@%p1 st.volatile.shared.u32 [s], %r2;"
READS = "ld.volatile.shared.u32 %r3, [s];"
SUM = "@%p1 red.relaxed.cta.shared.add.u32 [s], %r2;"
CASES = {
    "no fence": ((WRITE, READS), True),
    "plain accesses": ((ACQ_REL, "@%p1 st.shared.u32 [s], %r2; ld.shared.u32 %r3, [s];", ACQ_REL),
                       True),
    "a fence before the write alone": ((ACQ_REL, WRITE, READS), True),
    "a fence behind the read alone": ((WRITE, READS, ACQ_REL), True),
    "both": ((ACQ_REL, WRITE, READS, ACQ_REL), False),
    "a release and a fence": (
        (WRITE.replace("volatile", "release.cta"), READS, ACQ_REL), False),
    "a fence and an acquire": (
        (ACQ_REL, WRITE, READS.replace("volatile", "acquire.cta")), False),
    "a release and an acquire": (
        (WRITE.replace("volatile", "release.cta"), READS.replace("volatile", "acquire.cta")),
        False),
    "a sum behind a fence": ((ACQ_REL, SUM, READS, ACQ_REL), False),
    "a sum that releases": ((SUM.replace("relaxed", "release"), READS, ACQ_REL), False),
    "a sum without a fence": ((SUM, READS, ACQ_REL), True),
    "an atomic that takes what it finds": (
        (ACQ_REL, SUM, "atom.relaxed.cta.shared.add.u32 %r3, [s], 1;", ACQ_REL), False),
    "written behind the reads and a barrier": ((READS, ACQ_REL, BAR, WRITE), True),
    "written behind the reads without a barrier": ((READS, ACQ_REL, WRITE), False),
    "some lanes read again behind it": (
        (READS, ACQ_REL, BAR, WRITE, "@%p1 " + READS, ACQ_REL), False),
    "in global memory": (("ld.volatile.global.u32 %r3, [%d0];",), False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_orders_threads_of_a_block(name: str) -> None:
    parts, complete = CASES[name]
    run = ran(module_of(HEAD + "\n".join(parts) + "ret;"), launch_of(block=64))
    assert is_complete(run.events, ()) is complete


VOLATILE = """mov.u32 %r14, s; mad.lo.u32 %r14, %r1, 4, %r14; st.volatile.shared.u32 [%r14], %r9;
bar.warp.sync -1; ld.volatile.shared.u32 %r12, [%r14]; bar.sync 0;"""


def test_sums_of_a_block_by_volatile_memory_order_nothing_between_blocks() -> None:
    """As in CUDA's sample of the last block, where a fence behind the ticket is missing."""
    before, behind = VOLATILE + FENCE, FENCE + READ + BAR + VOLATILE
    got, text = found(edited(at1=before, at8="", at9=behind.removeprefix(FENCE)))
    assert got is Verdict.REFUTED, text
    got, text = found(edited(at1=before, at8="", at9=behind))
    assert got is VERIFIED, text
