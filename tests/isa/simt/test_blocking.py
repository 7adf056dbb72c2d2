"""Whether code waits until a wait passes, against runs of the same code in which none does."""

from __future__ import annotations

import re

import pytest

from tests.isa.simt.running import launch_of, module_of
from titan.isa.simt.blocking import waits_until_passed
from titan.isa.simt.launch import Options
from titan.isa.simt.operations import Op
from titan.isa.simt.outcome import Ending
from titan.isa.simt.run import run

BODY = """
.shared .align 8 .b8 bars[32];
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
@%p1 mbarrier.init.shared::cta.b64 [bars], 1;
bar.warp.sync -1;
mov.u32 %r5, 0;
mov.u32 %r6, bars;
{idiom}
DONE:
ret;
"""
TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [bars], 0;"
OTHER = TRY.replace("%p2, [bars]", "%p4, [bars+8]")
COUNT = "add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 4;"
WAITS = {
    "branch back": f"A: {TRY} @!%p2 bra A;",
    "branch out, then back": f"A: {TRY} @%p2 bra DONE; bra A;",
    "as an integer": f"A: {TRY} selp.b32 %r7, 1, 0, %p2; setp.eq.s32 %p3, %r7, 0; @%p3 bra A;",
    "negated": f"A: {TRY} not.pred %p3, %p2; @%p3 bra A;",
    "both must hold": f"A: {TRY} setp.eq.u32 %p3, %r1, 7; and.pred %p3, %p3, %p2; @!%p3 bra A;",
    "two attempts a round": f"A: {TRY} @%p2 bra DONE; {TRY} @!%p2 bra A;",
    "a peek, then a loop": f"{TRY} @%p2 bra DONE; A: {TRY} @!%p2 bra A;",
    "counts its rounds": f"A: {TRY} {COUNT} @!%p2 bra A;",
    "two barriers in a loop": f"A: {OTHER} {TRY} and.pred %p2, %p2, %p4; @!%p2 bra A;",
    "one after the other in a loop": f"A: {OTHER} @!%p4 bra A; {TRY} @!%p2 bra A;",
    "a trap after some rounds": f"A: {TRY} @%p2 bra DONE; {COUNT} @%p3 bra A; trap;",
}
GOES_ON = {
    "no branch": TRY,
    "two attempts": TRY + TRY,
    "the second under the first": f"{TRY} @!%p2 {TRY}",
    "as many rounds": f"A: {TRY} {COUNT} @%p3 bra A;",
    "at most as many rounds": f"A: {TRY} @%p2 bra DONE; {COUNT} @%p3 bra A;",
    "either will do": f"A: {TRY} {COUNT} or.pred %p3, %p2, %p3; @!%p3 bra A;",
    "the same with a store": f"A: {TRY} st.shared.u32 [bars+16], 1; {COUNT} @%p3 bra A;",
    "the wrong way round": f"A: {TRY} @%p2 bra A;",
    "another barrier instead": f"A: {TRY} @%p2 bra DONE; {TRY.replace('[bars]', '[bars+8]')}",
}


@pytest.mark.parametrize(
    ("idiom", "waits"),
    [(text, True) for text in WAITS.values()] + [(text, False) for text in GOES_ON.values()],
    ids=[*WAITS, *GOES_ON],
)
def test_code_waits_where_it_does_not_end_without(idiom, waits):
    """With attempts that are always false, code that waits loops for ever or traps."""
    failing = re.sub(r"mbarrier.try_wait.*? (%p\d), \[[^;]*;", r"setp.ne.u32 \1, 0, 0;", idiom)
    assert "mbarrier" not in failing
    few = Options(steps_max=500)
    made, findings = run(module_of(BODY.replace("{idiom}", failing)), launch_of(), few)
    assert made is not None, findings
    assert (made.outcome.ending is not Ending.FINISHED) is waits
    made, findings = run(module_of(BODY.replace("{idiom}", idiom)), launch_of(), few)
    assert made is not None and made.prepared is not None, findings
    code = made.prepared.code
    places = [at for at, step in enumerate(code.steps) if step.op is Op.BARRIER_WAIT]
    assert waits_until_passed(code, places[0 if "bars+8" in idiom else -1]) is waits


@pytest.mark.parametrize(
    ("idiom", "waits"),
    [
        ("A: {OTHER} {TRY} and.pred %p2, %p2, %p4; @!%p2 bra A;", True),
        ("A: {TRY} @!%p2 bra A; {OTHER} @!%p4 bra A;", True),
        (
            "A: {TRY} {OTHER} not.pred %p2, %p2; not.pred %p4, %p4; or.pred %p2, %p2, %p4; "
            "@%p2 bra A;",
            True,
        ),
        ("A: {OTHER} {TRY} or.pred %p2, %p2, %p4; @!%p2 bra A;", False),
        ("A: {TRY} @!%p2 bra A; B: {OTHER} @!%p4 bra B;", True),
        (
            "A: {TRY} st.shared.u32 [bars+16], 1; {OTHER} and.pred %p2, %p2, %p4; @!%p2 bra A;",
            False,
        ),
    ],
)
def test_several_barriers_in_one_loop(idiom, waits):
    body = BODY.replace("{idiom}", idiom.replace("{OTHER}", OTHER).replace("{TRY}", TRY))
    made, findings = run(module_of(body), launch_of(), Options(steps_max=500))
    assert made is not None and made.prepared is not None, findings
    code = made.prepared.code
    places = [at for at, step in enumerate(code.steps) if step.op is Op.BARRIER_WAIT]
    assert all(waits_until_passed(code, place) for place in places) is waits
