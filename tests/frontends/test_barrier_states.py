"""Waits by a state, and which object the state is of."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified
from titan.foundation.verdict import Verdict

INIT = "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 64;"
OTHER = "@%p1 mbarrier.init.shared.b64 [s+512], 64;"
ARRIVE = "mbarrier.arrive.shared.b64 {state}, {at};"
WAIT = "W{n}: mbarrier.try_wait.shared.b64 %p4, [b], {state}; @!%p4 bra W{n};"
BEGIN = ".reg .b64 %rd<6>;" + INIT + OTHER + "bar.sync 0;"
OWN = ARRIVE.format(state="%rd1", at="[b]")
FOREIGN = ARRIVE.format(state="%rd2", at="[s+512]")
AGAIN = "bar.sync 0; @%p1 mbarrier.inval.shared.b64 [b];" + INIT + "bar.sync 0;"


def wait(state: str, n: int = 0) -> str:
    return WAIT.format(state=state, n=n)


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (OWN + wait("%rd1"), True),
        (OWN + FOREIGN + "mov.b64 %rd3, %rd1;" + wait("%rd3"), True),
        ("@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 0;" + OWN + wait("%rd1"), True),
        (OWN + wait("%rd1") + AGAIN + OWN + wait("%rd1", 1), True),
        (OWN + FOREIGN + wait("%rd2"), False),
        (FOREIGN + OWN + "selp.b64 %rd3, %rd2, %rd1, %p1;" + wait("%rd3"), False),
        (OWN + "mov.b64 %rd3, 0;" + wait("%rd3"), False),
        (OWN + "add.u64 %rd3, %rd1, 4294967296;" + wait("%rd3"), False),
        (OWN + wait("%rd1") + AGAIN + "mov.b64 %rd3, %rd1;" + OWN + wait("%rd3", 1), False),
    ],
)
def test_a_state_that_is_waited_for_is_of_the_same_object(body, right):
    finding = verified(kernel(BEGIN + body, 64), NOTHING)
    assert finding.verdict is (Verdict.VERIFIED if right else Verdict.REFUTED), finding.notes
    assert right or "TTN212" in codes(finding)
