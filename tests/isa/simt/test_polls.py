"""Waits on mbarriers by lanes of one warp that poll different ones."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from titan.isa.simt import events as ev
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


@pytest.mark.parametrize("barriers", [2, 3, 7])
def test_a_loop_that_tests_several_barriers_ends(barriers):
    """Each test is false once on purpose; those of one loop do not make each other false again."""
    tests = "".join(
        f"mbarrier.try_wait.parity.shared::cta.b64 %p{n + 2}, [bars+{8 * n}], 0; "
        for n in range(barriers)
    )
    both = "".join(f"and.pred %p2, %p2, %p{n + 2}; " for n in range(1, barriers))
    start = "".join(f"mbarrier.init.shared::cta.b64 [bars+{8 * n}], 32; " for n in range(barriers))
    arrive = "".join(f"mbarrier.arrive.shared.b64 _, [bars+{8 * n}]; " for n in range(barriers))
    body = f"""
        .shared .align 8 .b8 bars[64];
        mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
        {start} READY: bar.warp.sync -1; {arrive}
        A: {tests} {both} @!%p2 bra A;
        ret;"""
    found = ran(module_of("{" + body + "}"), launch_of(), Options(steps_max=2000))
    assert found.outcome.ending is Ending.FINISHED
    assert len(of(found, ev.WaitEvent)) >= barriers


@pytest.mark.parametrize(
    ("steps", "foreign"),
    [
        ("", 0),
        ("mbarrier.inval.shared::cta.b64 [b]; mbarrier.init.shared::cta.b64 [b], 64;", 1),
        ("mov.b64 %d1, 4611686018427387904;", 1),
    ],
)
def test_a_state_is_that_of_one_object(steps, foreign):
    body = f""".shared .align 8 .b8 b[8]; elect.sync _|%p1, -1; @!%p1 bra E;
    mbarrier.init.shared::cta.b64 [b], 2; mbarrier.arrive.shared::cta.b64 %d1, [b]; {steps}
    mbarrier.test_wait.shared::cta.b64 %p2, [b], %d1; E: ret;"""
    found = ran(module_of(body), launch_of())
    misuses = [event.misuse for event in of(found, ev.BarrierMisuse)]
    assert misuses == [ev.Misuse.FOREIGN_STATE] * foreign
