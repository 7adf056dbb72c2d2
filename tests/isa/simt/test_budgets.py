"""What a run may use: on both machines it ends at the same instruction, where a budget is used."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import launch_of, module_of, ran
from titan.isa.simt.launch import EVENTS_SPENT, Options
from titan.isa.simt.outcome import Ending

STORES = """
.shared .align 4 .b8 bytes[64]; mov.u32 %r1, bytes; mov.u32 %r2, %laneid; add.u32 %r1, %r1, %r2;
L: st.shared.u8 [%r1], %r1; bar.sync 0; bra L;
"""


def test_the_budget_ends_an_endless_loop():
    found = ran(module_of("L: bra L;"), launch_of(), Options(steps_max=1000))
    assert found.outcome.ending is Ending.BUDGET and found.outcome.reason != EVENTS_SPENT
    assert found.instructions == 1000


@pytest.mark.parametrize("events", [5, 6, 100])
def test_a_run_ends_where_no_more_is_recorded(events):
    module, launch = module_of(STORES), launch_of(shared=64)
    found = ran(module, launch, Options(events_max=events))
    assert found.outcome.ending is Ending.BUDGET and found.outcome.reason == EVENTS_SPENT
    assert events <= len(found.events) <= events + 1  # the last instruction may make two


def test_as_many_events_as_that_are_recorded():
    """The budget is of what comes behind them."""
    module, launch = module_of("bar.sync 0; bar.sync 0; ret;"), launch_of()
    all_events = len(ran(module, launch).events)
    assert ran(module, launch, Options(events_max=all_events)).outcome.ending is Ending.FINISHED
    assert ran(module, launch, Options(events_max=1)).outcome.reason == EVENTS_SPENT
