"""Answers to what a run asks of words in global memory, by both machines."""

from __future__ import annotations

from dataclasses import replace

from tests.isa.simt.running import OUT, launch_of, module_of, of, ran
from titan.isa.simt import events as ev
from titan.isa.simt.launch import QUESTION
from titan.isa.simt.outcome import Ending

BODY = """
ld.param.u64 %d1, [out];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra DONE;
W: ld.acquire.gpu.global.u32 %r2, [%d1];
setp.ne.u32 %p2, %r2, 7;
@%p2 bra W;
atom.global.add.u32 %r3, [%d1+8], 2;
st.global.u32 [%d1+16], %r3;
red.global.add.u32 [%d1+8], 5;
DONE: ret;
"""


def test_what_is_asked_is_answered() -> None:
    module, launch = module_of(BODY), launch_of()
    asked = ran(module, replace(launch, answers=())).outcome
    assert asked.ending is Ending.REFUSED and asked.reason == QUESTION
    assert asked.map_offset == OUT
    again = ran(module, replace(launch, answers=(3, 7))).outcome
    assert again.reason == QUESTION and again.map_offset == OUT + 8
    run = ran(module, replace(launch, answers=(3, 3, 7, 40)))
    assert run.outcome.ending is Ending.FINISHED
    written = [event for event in of(run, ev.AccessEvent) if isinstance(event, ev.AccessEvent)]
    values = [event.value for event in written if event.mode is not ev.Mode.READ]
    assert values == [bytes((n, 0, 0, 0)) for n in (2, 40, 5)]


def test_what_has_been_asked_is_not_known_in_between() -> None:
    body = BODY.replace(
        "DONE: ret", "ld.global.u32 %r4, [%d1]; st.global.u32 [%d1+24], %r4; DONE: ret"
    )
    run = ran(module_of(body), replace(launch_of(), answers=(7, 40)))
    last = of(run, ev.AccessEvent)[-1]
    assert isinstance(last, ev.AccessEvent) and last.value is None
