"""Private memory of a lane has the bytes that the kernel asks for."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict
from titan.verify.model import Finding

LAUNCH = "{grid: 1, block: 64, dynamic_shared: 0, parameters: [pointer, 5]}"
BEGIN = "v_mov_b32 v4, v0\nv_mov_b32 v5, v0\nv_mov_b32 v6, v0\nv_mov_b32 v7, v0\ns_mov_b32 s8, 16\n"
SIZES = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
REGISTERS = {8: "v[4:5]", 12: "v[4:6]", 16: "v[4:7]"}
ASKED = 32  # bytes of a lane


def finding(lines: str, *settings: str) -> Finding:
    head = "\t.amdhsa_kernel k\n"
    more = "".join(f"\t\t.amdhsa_{line}\n" for line in settings)
    return judged(kernel(BEGIN + lines, "gfx942").replace(head, head + more), LAUNCH)


@pytest.mark.parametrize("base", ["off", "s8"])
@pytest.mark.parametrize("load", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_an_access_lies_within_what_a_lane_has(name, load, base):
    size = SIZES[name]
    data, last = REGISTERS.get(size, "v4"), ASKED - size - (16 if base == "s8" else 0)
    word = {"byte": "ubyte", "short": "ushort"}.get(name, name) if load else name
    operands = f"{data}, off, {base}" if load else f"off, {data}, {base}"
    line = f"scratch_{'load' if load else 'store'}_{word} {operands} offset:"
    asked = f"private_segment_fixed_size {ASKED}"
    assert finding(f"{line}{last}\ns_waitcnt vmcnt(0)", asked).verdict is Verdict.VERIFIED
    beyond = finding(f"{line}{last + 1}\ns_waitcnt vmcnt(0)", asked)
    assert beyond.verdict is Verdict.REFUTED
    assert [item.code for item in beyond.diagnostics] == ["TTN218"]


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        (("private_segment_fixed_size 0",), Verdict.REFUTED),
        (("private_segment_fixed_size 0", "uses_dynamic_stack 1"), Verdict.VERIFIED),
        ((), Verdict.VERIFIED),  # not said
    ],
)
def test_what_the_kernel_does_not_say_is_not_judged(settings, verdict):
    lines = "scratch_store_dword off, v4, off offset:16"
    assert finding(lines, *settings).verdict is verdict


@pytest.mark.parametrize(("shift", "verdict"), [(0, Verdict.VERIFIED), (1, Verdict.REFUTED)])
def test_each_lane_may_have_a_place_of_its_own(shift, verdict):
    """Lane 63 comes to byte 63 or 126 of 67."""
    lines = f"v_lshlrev_b32 v9, {shift}, v0\nscratch_store_dword v9, v4, off"
    assert finding(lines, "private_segment_fixed_size 67").verdict is verdict


def test_lanes_that_are_off_access_nothing():
    lines = "s_mov_b64 exec, 0\nscratch_store_dword off, v4, off offset:16"
    assert finding(lines, "private_segment_fixed_size 0").verdict is Verdict.VERIFIED
