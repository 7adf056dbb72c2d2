"""Collective instructions whose lanes name several masks: each group computes for itself."""

from __future__ import annotations

import pytest

from tests.isa.simt.running import launch_of, module_of, results

# By lane: the members that it names.
HALVES = [0xFFFF if lane < 16 else 0xFFFF0000 for lane in range(32)]
QUARTERS = [0xFF << lane // 8 * 8 for lane in range(32)]
ODD_AND_EVEN = [0x55555555 << lane % 2 for lane in range(32)]
MASKS = {
    "halves": (HALVES, "setp.lt.u32 %p1, %r1, 16; selp.b32 %r2, 0xffff, 0xffff0000, %p1;"),
    "quarters": (QUARTERS, "and.b32 %r2, %r1, 24; shl.b32 %r2, 255, %r2;"),
    "odd and even": (ODD_AND_EVEN, "and.b32 %r2, %r1, 1; shl.b32 %r2, 0x55555555, %r2;"),
}
COLLECTIVES = {  # the instruction, and what it gives a lane of the values of its group by lane
    "ballot": (
        "setp.gt.u32 %p2, %r3, 9; vote.sync.ballot.b32 %r4, %p2, %r2;",
        lambda group, lane: sum(1 << at for at, value in group.items() if value > 9)),
    "any": (
        "setp.gt.u32 %p2, %r3, 28; vote.sync.any.pred %p3, %p2, %r2; selp.u32 %r4, 1, 0, %p3;",
        lambda group, lane: int(any(value > 28 for value in group.values()))),
    "sum": ("redux.sync.add.u32 %r4, %r3, %r2;", lambda group, lane: sum(group.values())),
    "least": ("redux.sync.min.u32 %r4, %r3, %r2;", lambda group, lane: min(group.values())),
    "match": (
        "shr.u32 %r5, %r3, 2; match.any.sync.b32 %r4, %r5, %r2;",
        lambda group, lane: sum(1 << at for at, v in group.items() if v // 4 == group[lane] // 4)),
    "leader": (
        "elect.sync %r4|%p2, %r2;", lambda group, lane: min(group)),
}  # fmt: skip
# Lanes that have come apart within groups meet at the instruction.
BEFORE = {
    "together": "",
    "apart": "setp.lt.u32 %p4, %r1, 5; @%p4 bra L; add.u32 %r6, %r6, 1; L:",
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_lanes_that_name_other_members_are_groups(name: str, masks: str, before: str) -> None:
    members, text = MASKS[masks]
    instruction, of_group = COLLECTIVES[name]
    value = [(7 * lane + 3) % 32 for lane in range(32)]
    body = f"""
    mov.u32 %r1, %tid.x; ld.param.u64 %d1, [out]; mov.u32 %r6, 0;
    mad.lo.u32 %r3, %r1, 7, 3; and.b32 %r3, %r3, 31;
    {text} {BEFORE[before]} {instruction}
    mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; st.global.u32 [%d1], %r4; ret;
    """
    found = results(module_of(body), launch_of(), 32)
    for lane in range(32):
        group = {at: value[at] for at in range(32) if members[lane] >> at & 1}
        assert found[lane] == of_group(group, lane), lane
