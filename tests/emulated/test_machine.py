"""The emulated device from Python: launches, what is checked of them, memory, settings."""

from __future__ import annotations

import numpy as np
import pytest

from titan.emulated.faults import LaunchFault
from titan.emulated.machine import Emulated
from titan.emulated.memory import OwnMemory, merged
from titan.emulated.settings import CheckMode, EmulationSettings, from_environment
from titan.foundation.errors import UserError
from titan.foundation.verdict import Verdict
from titan.isa.numbers.device import LaunchShape
from titan.isa.simt.launch import Allocation

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
SCALE = (
    HEAD
    + """.visible .entry scale(.param .u64 x, .param .f32 by)
{
    .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<4>;
    ld.param.u64 %d1, [x];
    ld.param.f32 %f1, [by];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d1, %d1, %d2;
    ld.global.f32 %f2, [%d1];
    mul.f32 %f2, %f2, %f1;
    st.global.f32 [%d1], %f2;
    ret;
}
"""
)
# Warp 0 writes, warp 1 reads; with {between} "bar.sync 0;" it is right.
EXCHANGE = (
    HEAD
    + """.visible .entry exchange(.param .u64 x)
{
    .reg .b32 %r<6>; .reg .b64 %d<4>; .reg .pred %p<2>;
    .shared .align 4 .b32 kept[32];
    ld.param.u64 %d1, [x];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, kept;
    add.u32 %r4, %r4, %r3;
    setp.ge.u32 %p1, %r1, 32;
    @%p1 bra SECOND;
    st.shared.u32 [%r4], %r1;
    {between}
    ret;
SECOND:
    {between}
    ld.shared.u32 %r5, [%r4];
    mul.wide.u32 %d2, %r2, 4;
    add.s64 %d1, %d1, %d2;
    st.global.u32 [%d1], %r5;
    ret;
}
"""
)
# All lanes store their number to one place.
ONE_PLACE = (
    HEAD
    + """.visible .entry one_place(.param .u64 x)
{
    .reg .b32 %r<2>; .reg .b64 %d<2>;
    ld.param.u64 %d1, [x];
    mov.u32 %r1, %tid.x;
    st.global.u32 [%d1], %r1;
    ret;
}
"""
)
# All lanes load a counter, whose place memory names, and one adds to it: what others have loaded
# is not used, unless {of_others} stores it.
COUNT = (
    HEAD
    + """.visible .entry count(.param .u64 x, .param .u64 at, .param .u64 y)
{
    .reg .b32 %r<5>; .reg .b64 %d<7>; .reg .pred %p<2>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [at];
    ld.param.u64 %d5, [y];
    mov.u32 %r1, %tid.x;
    ld.global.u64 %d3, [%d2];
    shl.b64 %d3, %d3, 2;
    add.s64 %d1, %d1, %d3;
    ld.global.u32 %r2, [%d1];
    add.u32 %r3, %r2, 1;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 st.global.u32 [%d1], %r3;
    mul.wide.u32 %d4, %r1, 4;
    add.s64 %d4, %d4, %d5;
    {of_others}
    ret;
}
"""
)
BLOCK = LaunchShape((1, 1, 1), (64, 1, 1))
CHECKED = EmulationSettings(check=CheckMode.ALL)


def test_a_launch_computes_and_is_verified():
    device = Emulated(CHECKED)
    x = device.array(np.arange(64, dtype=np.float32))
    for _ in range(2):
        device.launch(SCALE, BLOCK, [x, 2.0])
    assert np.array_equal(x.values, 4 * np.arange(64, dtype=np.float32))
    assert device.queue.checker.verdicts == {Verdict.VERIFIED: 2}
    assert device.queue.checker.summary() == "2 verified"


@pytest.mark.parametrize("native", [True, False])
def test_lanes_in_no_order_are_for_the_checker(native, monkeypatch):
    if not native:
        monkeypatch.setattr("titan.isa.numbers.run.core", lambda: None)
    device = Emulated(CHECKED)
    x, at = device.array(np.zeros(4, dtype=np.int32)), device.array(np.ones(1, dtype=np.int64))
    y = device.array(np.zeros(64, dtype=np.int32))
    for _ in range(2):
        device.launch(COUNT.replace("{of_others}", ""), BLOCK, [x, at, y])
    assert x.values.tolist() == [0, 2, 0, 0]
    assert device.queue.checker.verdicts == {Verdict.VERIFIED: 2}
    with pytest.raises(LaunchFault, match="TTN201"):
        device.launch(COUNT.replace("{of_others}", "st.global.u32 [%d4], %r2;"), BLOCK, [x, at, y])


@pytest.mark.parametrize(("mode", "unchecked"), [("all", 0), ("first", 2), ("off", 3)])
def test_what_is_checked(mode, unchecked):
    device = Emulated(EmulationSettings(check=CheckMode(mode)))
    x = device.array(np.ones(64, dtype=np.float32))
    for _ in range(3):
        device.launch(SCALE, BLOCK, [x, 1.0])
    assert device.queue.checker.skipped == unchecked


def test_a_race_is_found_that_the_run_does_not_show():
    for between, wrong in (("bar.sync 0;", False), ("", True)):
        text = EXCHANGE.replace("{between}", between)
        right = np.arange(32, dtype=np.uint32)
        unchecked = Emulated(EmulationSettings(seed=0))
        x = unchecked.array(np.zeros(32, dtype=np.uint32))
        if not wrong:
            unchecked.launch(text, BLOCK, [x])
            assert np.array_equal(x.values, right)
        device = Emulated(CHECKED)
        y = device.array(np.zeros(32, dtype=np.uint32))
        if wrong:
            with pytest.raises(LaunchFault, match="exchange is wrong"):
                device.launch(text, BLOCK, [y])
            assert not y.values.any(), "a launch that is wrong leaves memory alone"
        else:
            device.launch(text, BLOCK, [y])
            assert np.array_equal(y.values, right)


@pytest.mark.parametrize("mode", ["all", "off"])
def test_an_array_that_is_too_small_or_freed_is_seen(mode):
    device = Emulated(EmulationSettings(check=CheckMode(mode)))
    x = device.array(np.ones(63, dtype=np.float32))
    with pytest.raises(LaunchFault) as caught:
        device.launch(SCALE, BLOCK, [x, 2.0])
    assert [item.code for item in caught.value.findings] == ["TTN218"] * len(caught.value.findings)
    whole = device.array(np.ones(64, dtype=np.float32))
    device.launch(SCALE, BLOCK, [whole, 2.0])
    device.free(whole)
    with pytest.raises(LaunchFault, match="TTN218"):
        device.launch(SCALE, BLOCK, [whole, 2.0])


@pytest.mark.parametrize("mode", ["all", "off"])
def test_a_read_of_shared_memory_that_nothing_wrote_is_located(mode):
    """One warp alone: it reads what the other would have written."""
    device = Emulated(EmulationSettings(check=CheckMode(mode)))
    x = device.array(np.zeros(32, dtype=np.uint32))
    text = EXCHANGE.replace("{between}", "").replace("%r1, 32;", "%r1, 0;")
    with pytest.raises(LaunchFault, match="unknown: it reads shared memory") as caught:
        device.launch(text, LaunchShape((1, 1, 1), (32, 1, 1)), [x])
    (found,) = caught.value.findings
    assert found.code == "TTN204" and found.span is not None
    assert "ld.shared.u32" in found.span.excerpt()
    assert device.queue.checker.summary() == "1 refuted", "its interleavings hold, its run does not"


def test_lanes_that_store_to_one_place_leave_one_of_their_values():
    device = Emulated(EmulationSettings())
    x = device.array(np.full(1, 99, dtype=np.uint32))
    device.launch(ONE_PLACE, LaunchShape((1, 1, 1), (32, 1, 1)), [x])
    assert x.values[0] < 32


def test_results_that_depend_on_the_schedule_are_counted():
    device = Emulated(EmulationSettings(schedules=6))
    x = device.array(np.full(1, 99, dtype=np.uint32))
    device.launch(ONE_PLACE, BLOCK, [x])  # two warps
    assert device.queue.differing == {"one_place": device.queue.differing["one_place"]}
    same = Emulated(EmulationSettings(schedules=3))
    y = same.array(np.ones(64, dtype=np.float32))
    same.launch(SCALE, BLOCK, [y, 2.0])
    assert same.queue.differing == {}


def test_settings_come_from_the_environment_and_go_back_to_it():
    made = EmulationSettings(CheckMode.FIRST, "b200", 7, 3)
    assert from_environment(made.as_environment()) == made
    assert from_environment({"TITAN_CHECK": "1"}).check is CheckMode.ALL
    assert from_environment({}).check is CheckMode.OFF
    for name, value, part in (
        ("TITAN_CHECK", "frist", "first"), ("TITAN_DEVICE", "h200", "h100"),
        ("TITAN_SEED", "-1", "from 0 on"), ("TITAN_POLICIES", "fence_rule=wroter", "writer"),
        ("TITAN_POLICIES", "fence=path", "fence_rule"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=part):
            from_environment({name: value})


def test_own_memory_has_guards_and_gives_no_address_twice():
    memory = OwnMemory()
    first = memory.allocate(10, bytes(range(10)))
    second = memory.allocate(600)
    assert second - first > 10 and second % 512 == 0
    memory.write(first + 2, b"ab")
    assert memory.read(first, 4) == b"\0\1ab"
    assert not memory.holds(first + 8, 3) and memory.holds(first + 8, 2)
    with pytest.raises(KeyError):
        memory.read(first + 8, 3)
    assert memory.free(first) and not memory.free(first)
    assert memory.allocate(10) > second
    assert memory.start_of(first + 1) is None


def test_arrays_that_overlap_are_one_allocation():
    found = merged([(100, 50), (120, 100), (300, 10), (220, 5)])
    assert found == (Allocation(100, 120), Allocation(220, 5), Allocation(300, 10))


@pytest.mark.parametrize("cooperative", [True, False])
def test_ctas_that_wait_for_later_ones_need_a_cooperative_launch(cooperative):
    """Whether all CTAs of a launch are there at once reaches what is decided of it."""
    text = (
        HEAD
        + """.visible .entry meet(.param .u64 x)
{
    .reg .b32 %r<2>; .reg .b64 %d<2>; .reg .pred %p<2>;
    ld.param.u64 %d1, [x];
    red.release.gpu.global.add.u32 [%d1], 1;
AGAIN:
    ld.acquire.gpu.global.u32 %r1, [%d1];
    setp.ne.u32 %p1, %r1, 2;
    @%p1 bra AGAIN;
    ret;
}
"""
    )
    device = Emulated(CHECKED)
    x = device.array(np.zeros(4, dtype=np.uint32))
    shape = LaunchShape((2, 1, 1), (1, 1, 1), cooperative=cooperative)
    device.launch(text, shape, [x])
    found = Verdict.VERIFIED if cooperative else Verdict.UNDECIDED
    assert device.queue.checker.verdicts == {found: 1}
    assert x.values[0] == 2
