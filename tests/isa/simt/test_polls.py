"""Waits on mbarriers by lanes of one warp that poll different ones."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import launch_of, module_of
from titan.isa.simt.launch import Options
from titan.isa.simt.native import core
from titan.isa.simt.outcome import Ending
from titan.isa.simt.run import run

BODY = """
.shared .align 8 .b8 bars[32];
mov.u32 %r1, %tid.x; mov.u32 %r2, bars; and.b32 %r3, %r1, 3; shl.b32 %r3, %r3, 3;
add.u32 %r3, %r3, %r2; setp.lt.u32 %p1, %r1, 4;
@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
bar.warp.sync -1;
@%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WAIT;
ret;
"""


@pytest.mark.parametrize("fails", [False, True], ids=["at once", "the first poll fails"])
@pytest.mark.parametrize(
    "native",
    [False, pytest.param(True, marks=pytest.mark.skipif(core() is None, reason="not built"))],
)
def test_lanes_that_poll_several_barriers_come_through(native, fails):
    options = Options(first_poll_fails=fails, steps_max=10_000)
    made, findings = run(module_of(BODY), launch_of(), options, native=native)
    assert made is not None, findings
    assert made.outcome.ending is Ending.FINISHED, made.outcome
