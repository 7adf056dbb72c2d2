"""Lanes of one warp that come to a barrier in several arms, by `barrier.sync` without `.aligned`.

They are as one whole warp if they do nothing in between; what is refuted for a whole warp is
refuted for its parts, and what parts do one after the other is not verified.
"""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from tests.isa.simt.running import launch_of, module_of, ran
from titan.foundation.verdict import Verdict
from titan.isa.simt import events as ev

LAUNCH = "{grid: 1, dynamic_shared: 0, parameters: {x: pointer}}"
TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
.reqntid 128
{{
  .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<8>;
  .shared .align 16 .b8 s[1024];
  ld.param.u64 %d1, [x]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; add.u64 %d3, %d1, %d2;
  and.b32 %r1, %r0, 31; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 9;
  setp.eq.u32 %p3, %r0, 0; setp.eq.u32 %p4, %r0, 1;
  mov.u32 %r2, s; shl.b32 %r3, %r0, 2; add.u32 %r4, %r2, %r3;
  xor.b32 %r5, %r3, 256; add.u32 %r5, %r2, %r5; mov.u32 %r6, 0;
  {body}
  st.global.u32 [%d3], %r6;
  ret;
}}
"""
STORE, LOAD = "st.shared.u32 [%r4], %r0;", "ld.shared.u32 %r6, [%r5];"
TWO = "@%p1 bra A; barrier.sync {0}; bra B; A: barrier.sync {0}; B:"
THREE = (
    "@%p1 bra A; @%p2 bra C; barrier.sync {0}; bra B; C: barrier.sync {0}; bra B;"
    "A: barrier.sync {0}; B:"
)
TOGETHER = {
    "two parts": TWO.format("1, 128"),
    "two parts at a barrier of all": TWO.format("0"),
    "three parts": THREE.format("1, 128"),
    "twice": TWO.format("1, 128") + TWO.format("2, 128").replace("A", "D").replace("B", "E"),
    "all go on to their end": "@%p1 bra A; barrier.sync 1, 128; bra B; A: barrier.sync 1, 128;"
    "B: st.global.u32 [%d3], %r0; ret;",
}


@pytest.mark.parametrize("meet", TOGETHER.values(), ids=TOGETHER)
def test_parts_of_a_warp_are_as_the_whole(meet):
    for body, verdict in (
        (STORE + meet + LOAD, Verdict.VERIFIED),
        (meet, Verdict.VERIFIED),
        (meet + STORE + LOAD, Verdict.REFUTED),
        (STORE + LOAD + meet, Verdict.REFUTED),
    ):
        if "ret;" in meet and body.startswith(meet):
            continue  # nothing is behind
        finding = verified(TEXT.format(body=body), LAUNCH)
        assert finding.verdict is verdict, (body, finding.notes)
        assert codes(finding) == (["TTN201"] if verdict is Verdict.REFUTED else [])


APART = {
    "one part goes by": STORE + "@%p1 bra B; barrier.sync 1, 128; B:" + LOAD,
    "barriers of two numbers": STORE
    + "@%p1 bra A; barrier.sync 1, 128; bra B; A: barrier.sync 2, 128; B:"
    + LOAD,
    "one part twice": STORE
    + "@%p1 bra A; barrier.sync 1, 128; barrier.sync 1, 128; bra B; A: barrier.sync 1, 128; B:"
    + LOAD,
    "one part only arrives": STORE
    + "@%p1 bra A; barrier.sync 1, 128; bra B; A: barrier.arrive 1, 128; B:"
    + LOAD,
    "more threads than there are": TWO.format("1, 160"),
    "lanes of one warp behind it": "@%p1 bra A; barrier.sync 1, 128; @%p4 st.shared.u32 [s+800], 1;"
    "bra B; A: barrier.sync 1, 128; @%p3 ld.shared.u32 %r6, [s+800]; B:",
    "lanes of one warp behind it, the other way round": "@%p1 bra A; barrier.sync 1, 128;"
    "@%p4 ld.shared.u32 %r6, [s+800]; bra B; A: barrier.sync 1, 128;"
    "@%p3 st.shared.u32 [s+800], 1; B:",
    "lanes of one warp before it": "@%p1 bra A; @%p4 st.shared.u32 [s+800], 1; barrier.sync 1, 128;"
    "bra B; A: @%p3 ld.shared.u32 %r6, [s+800]; barrier.sync 1, 128; B:",
    "lanes of one warp before it, stores": "@%p1 bra A; @%p4 st.shared.u32 [s+800], 1;"
    "barrier.sync 1, 128; bra B; A: @%p3 st.shared.u32 [s+800], 2; barrier.sync 1, 128; B:",
    "a part stores between": "@%p1 bra A;" + STORE + "barrier.sync 1, 128;" + STORE + "bra B; A:"
    + STORE + "barrier.sync 1, 128; B:" + LOAD,
}  # fmt: skip


@pytest.mark.parametrize("body", APART.values(), ids=APART)
def test_what_parts_do_one_after_the_other_is_not_verified(body):
    assert verified(TEXT.format(body=body), LAUNCH).verdict is not Verdict.VERIFIED


def _steps(body: str, block: int = 64) -> list[tuple[int, ev.Side, int]]:
    run = ran(module_of(body + " ret;"), launch_of(block=block))
    return [
        (event.warp, event.side, event.lanes)
        for event in run.events
        if isinstance(event, ev.RendezvousEvent)
    ]


def test_one_event_takes_the_place_of_those_of_parts():
    head = "mov.u32 %r0, %laneid; setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 9;"
    whole = [(warp, side, 0xFFFFFFFF) for side in (ev.Side.SYNC, ev.Side.PASS) for warp in (0, 1)]
    for meet in (TWO, THREE):
        assert sorted(_steps(head + meet.format("1, 64"))) == sorted(whole)
        assert len(_steps(head + meet.format("1, 64"), 64)) == 4
    apart = TWO.format("1, 64").replace("A: ", "A: st.global.u32 [%d0], 1; ")
    out = "ld.param.u64 %d0, [out];"
    found = _steps(out + head + apart)
    assert {lanes for _, _, lanes in found} == {1, 0xFFFFFFFE}
    half = TWO.format("1, 64")  # of the threads of a CTA of 128
    assert 0xFFFFFFFF not in {lanes for _, _, lanes in _steps(head + half, 128)}
