"""Branches on unknown data that a launch decides, by both machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Ending

BODY = """
ld.param.u64 %d1, [out];
ld.global.u32 %r1, [%d1];
setp.ne.u32 %p1, %r1, 0;
@%p1 bra DONE;
bar.sync 0;
ld.global.u32 %r1, [%d1+4];
setp.ne.u32 %p1, %r1, 0;
@!%p1 bra DONE;
st.global.u32 [%d1+8], 1;
bar.sync 0;
DONE: ret;
"""


@pytest.mark.parametrize(
    ("ways", "barriers"), [((True,), 0), ((False, True), 1), ((False, False), 2)]
)
def test_each_warp_goes_its_way(ways: tuple[bool, ...], barriers: int) -> None:
    decisions = {(0, 0): ways, (0, 1): (True,)}
    run = ran(module_of(BODY), replace(launch_of(block=64), decisions=decisions))
    assert run.outcome.ending is Ending.FINISHED
    met = [event for event in of(run, ev.RendezvousEvent) if event.warp == 0]
    assert len({event.instruction for event in met}) == barriers
    assert not [event for event in of(run, ev.RendezvousEvent) if event.warp == 1]


def test_what_nothing_decides_is_refused() -> None:
    run = ran(module_of(BODY), replace(launch_of(), decisions={(0, 0): (False,)}))
    assert run.outcome.ending is Ending.REFUSED
    assert len(of(run, ev.RendezvousEvent)) > 0


def test_a_part_of_a_warp_is_not_decided() -> None:
    body = "mov.u32 %r2, %laneid; setp.lt.u32 %p2, %r2, 3; @%p2 bra DONE;" + BODY.replace(
        "DONE: ret", "mov.u32 %r3, 0; DONE: bar.warp.sync -1; ret"
    )
    run = ran(module_of(body), replace(launch_of(), decisions={(0, 0): (True,)}))
    assert run.outcome.ending is Ending.REFUSED
