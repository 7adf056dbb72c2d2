"""Numbers that stmatrix and ldmatrix carry: as the machine that computes has them, where known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.simt.running import OUT, launch_of, module_of, of, ran
from titan.isa.numbers.native import core
from titan.isa.numbers.run import compute
from titan.isa.simt import events as ev
from titan.isa.simt.launch import Allocation

SHARED = ".shared .align 16 .b8 s[1024];"
HEAD = """
ld.param.u64 %d0, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
mov.u32 %r20, %clock;
mad.lo.u32 %r4, %r1, 2654435761, 12345;
mul.lo.u32 %r5, %r4, 3; mul.lo.u32 %r6, %r4, 5; mul.lo.u32 %r7, %r4, 7;
"""
NAMES = ("%r4", "%r5", "%r6", "%r7")
END = "st.global.v4.b32 [%d1], {%r8, %r9, %r10, %r11};"
ADDRESS_OUT = "mad.wide.u32 %d1, %r1, 16, %d0; mov.b32 %r8, 0; mov.b32 %r9, 0; mov.b32 %r10, 0;"
ADDRESS_OUT += "mov.b32 %r11, 0;"


def rows(times: int, plus: int, mask: int, register: str) -> str:
    """The row of each lane: (times * lane + plus) & mask."""
    return (
        f"mad.lo.u32 %r12, %r1, {times}, {plus}; and.b32 %r12, %r12, {mask};"
        f"mad.lo.u32 {register}, %r12, 16, %r2;"
    )


def matrices(way: str, count: int, trans: bool, registers: tuple[str, ...], at: str) -> str:
    """One instruction."""
    named = "{" + ", ".join(registers[:count]) + "}"
    operands = f"{named}, [{at}]" if way == "ldmatrix" else f"[{at}], {named}"
    word = ".trans" if trans else ""
    return f"{way}.sync.aligned.m8n8.x{count}{word}.shared.b16 {operands};"


def noted(body: str) -> tuple[bytes | None, bytes, int]:
    """What the last store is noted to write; what the machine that computes leaves, and how many
    bytes of that it does not know."""
    module = module_of(HEAD + ADDRESS_OUT + body + END + "ret;", before=SHARED)
    launch = launch_of(allocations=(Allocation(OUT, 512),), memory={OUT: bytes(512)})
    found = ran(module, launch)
    (write,) = (e for e in of(found, ev.AccessEvent) if e.footprint.space.name == "GLOBAL")
    computed, faults = compute(module, launch, native=core() is not None)
    assert computed is not None, faults
    return write.value, *computed.contents(OUT, 512)


COUNT = st.sampled_from([1, 2, 4])
PLACES = st.tuples(st.integers(0, 5), st.integers(0, 31), st.sampled_from([31, 31, 15, 7, 1]))
FILL = "st.shared.v4.b32 [%r3], {%r4, %r4, %r5, %r6};"


@settings(max_examples=60, deadline=None)
@given(COUNT, st.booleans(), PLACES, COUNT, st.booleans(), PLACES)
def test_what_is_known_is_what_the_numbers_are(stored, flips, to, loaded, turns, at):
    """Rows that are stored anywhere, some of them several times; loaded from anywhere."""
    body = rows(1, 0, 31, "%r3") + FILL + "bar.warp.sync -1;"
    body += rows(*to, "%r3") + matrices("stmatrix", stored, flips, NAMES, "%r3")
    body += "bar.warp.sync -1;" + rows(*at, "%r3")
    body += matrices("ldmatrix", loaded, turns, ("%r8", "%r9", "%r10", "%r11"), "%r3")
    value, data, missing = noted(body)
    if value is not None:
        assert missing == 0
        assert value == data


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_matrix_that_is_stored_and_loaded_again_is_known(count, trans):
    body = rows(1, 0, 31, "%r3") + matrices("stmatrix", count, trans, NAMES, "%r3")
    body += "bar.warp.sync -1;"
    out = ("%r8", "%r9", "%r10", "%r11")
    value, data, missing = noted(body + matrices("ldmatrix", count, trans, out, "%r3"))
    assert value == data
    assert missing == 0
    lanes = [2654435761 * index + 12345 & 0xFFFFFFFF for index in range(32)]
    every = ((1, 3, 5, 7)[:count], (0, 0, 0, 0)[count:])
    wanted = [[first * times & 0xFFFFFFFF for part in every for times in part] for first in lanes]
    assert data == b"".join(item.to_bytes(4, "little") for one in wanted for item in one)


def test_rows_at_one_address_are_known_where_they_are_the_same():
    """As Triton stores the same row from several lanes."""
    same = "mov.b32 %r4, 0x30002;" + rows(1, 0, 1, "%r3")
    load = "bar.warp.sync -1;" + matrices("ldmatrix", 1, False, ("%r8",), "%r3")
    value, data, _ = noted(same + matrices("stmatrix", 1, False, NAMES, "%r3") + load)
    assert value == data
    assert data[:4] == (0x30002).to_bytes(4, "little")
    other = rows(1, 0, 1, "%r3") + matrices("stmatrix", 1, False, NAMES, "%r3") + load
    assert noted(other)[0] is None


def test_a_number_that_is_not_known_stays_so():
    body = rows(1, 0, 31, "%r3") + matrices("stmatrix", 1, False, ("%r20",), "%r3")
    body += "bar.warp.sync -1;" + matrices("ldmatrix", 1, False, ("%r8",), "%r3")
    assert noted(body)[0] is None
