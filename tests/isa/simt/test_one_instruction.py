"""Lanes that write one place with one instruction, by tables of what each lane writes and where."""

from __future__ import annotations

from random import Random

import pytest

from tests.isa.simt.running import launch_of, module_of, of, ran
from titan.isa.simt import events as ev

SHARED = ".shared .align 16 .b8 s[4096];"
FUNCTIONS = {  # of the lane, in %r1, into a register
    "itself": ("mov.u32 {0}, %r1;", lambda n: n),
    "half": ("shr.u32 {0}, %r1, 1;", lambda n: n >> 1),
    "quarter": ("shr.u32 {0}, %r1, 3;", lambda n: n >> 3),
    "even": ("and.b32 {0}, %r1, 1;", lambda n: n & 1),
    "one": ("mov.u32 {0}, 3;", lambda n: 3),
    "high byte": ("shl.b32 {0}, %r1, 8;", lambda n: n << 8),
    "last": ("setp.eq.u32 %p2, %r1, 31; selp.u32 {0}, 1, 0, %p2;", lambda n: int(n == 31)),
}
ASYNCHRONOUS = ".shared::cluster.mbarrier::complete_tx::bytes.u32"
STORES = {  # the instruction, and the bits of its values that count
    "word": ("st.shared.u32 [%r4], %r6;", 32),
    "byte": ("st.shared.u8 [%r4], %r6;", 8),
    "pair": ("st.shared.v2.u32 [%r4], {%r9, %r6};", 32),
    "asynchronous": (f"st.async{ASYNCHRONOUS} [%r4], %r6, [%r2];", 32),
}


def made(name: str, register: str) -> str:
    return FUNCTIONS[name][0].format(register)


def clashes(body: str, guard: str = "") -> list[ev.LaneClash]:
    text = f"""
    mov.u32 %r1, %tid.x; mov.u32 %r2, s; add.u32 %r3, %r2, 64; mov.u32 %r9, 5;
    setp.lt.u32 %p1, %r1, 8; ld.param.u64 %d0, [out];
    {guard}{body}
    """
    return of(ran(module_of(text, SHARED), launch_of()), ev.LaneClash)


@pytest.mark.parametrize("store", STORES)
def test_stores_clash_where_lanes_give_one_place_different_values(store):
    random, found = Random(store), set()
    for _ in range(30):
        where, what = random.choice(sorted(FUNCTIONS)), random.choice(sorted(FUNCTIONS))
        some = random.random() < 0.5
        text, bits = STORES[store]
        lanes = range(8 if some else 32)
        at, value = FUNCTIONS[where][1], FUNCTIONS[what][1]
        written: dict[int, set[int]] = {}
        for lane in lanes:
            written.setdefault(at(lane), set()).add(value(lane) % (1 << bits))
        expected = any(len(values) > 1 for values in written.values())
        body = (
            f"{made(where, '%r5')} {made(what, '%r6')} mad.lo.u32 %r4, %r5, 8, %r3; "
            f"{'@%p1 ' if some else ''}{text}"
        )
        start = "mbarrier.init.shared.b64 [%r2], 99; " if store == "asynchronous" else ""
        assert bool(clashes(start + body)) == expected, (where, what, some)
        found.add(expected)
    assert found == {True, False}


def test_copies_clash_where_lanes_copy_different_bytes_to_one_place():
    random, found = Random(4), set()
    for _ in range(40):
        where, what = random.choice(sorted(FUNCTIONS)), random.choice(sorted(FUNCTIONS))
        size = random.choice((*sorted(FUNCTIONS), ""))
        written: dict[int, set[int | None]] = {}
        for lane in range(32):
            source = None if size and FUNCTIONS[size][1](lane) == 0 else FUNCTIONS[what][1](lane)
            written.setdefault(FUNCTIONS[where][1](lane), set()).add(source)
        expected = any(len(sources) > 1 for sources in written.values())
        zero = f"{made(size or 'one', '%r7')} setp.ne.u32 %p3, %r7, 0; selp.u32 %r8, 16, 0, %p3;"
        body = (
            f"{made(where, '%r5')} {made(what, '%r6')} mad.lo.u32 %r4, %r5, 16, %r3;"
            f"{zero if size else ''} shl.b32 %r6, %r6, 4; cvt.u64.u32 %d1, %r6;"
            f"add.u64 %d1, %d1, %d0;"
            f"cp.async.cg.shared.global [%r4], [%d1], 16{', %r8' if size else ''};"
        )
        assert bool(clashes(body)) == expected, (where, what, size)
        found.add(expected)
    assert found == {True, False}


def test_nothing_is_known_of_values_that_are_loaded_and_of_guards():
    loaded = "ld.global.u32 %r6, [%d0];"
    assert not clashes(f"{loaded} st.shared.u32 [%r3], %r6;")
    assert not clashes(f"{loaded} setp.eq.u32 %p4, %r6, 0; @%p4 st.shared.u32 [%r3], %r1;")
    assert not clashes("st.volatile.shared.u32 [%r3], %r1;")
    assert clashes("st.global.u32 [%d0], %r1;")


NUMBERS = {  # two values, their bytes, and whether they differ as by rounding
    "sums of f32": (0x3F800000, 0x3F800001, 4, True),
    "far apart": (0x3F800000, 0x3F900000, 4, False),
    "opposite signs": (0x3F800000, 0xBF800000, 4, False),
    "zero beside a number": (0x00000000, 0x3F800000, 4, False),
    "small integers": (5, 6, 4, False),
    "infinity": (0x7F7FFFFF, 0x7F800000, 4, False),
    "halves": (0x3C003C00, 0x3C013BFF, 4, True),
    "one half far apart": (0x3C003C00, 0x3C013D00, 4, False),
    "f64": (0x3FF0000000000000, 0x3FF0000000000010, 8, True),
    "two f32": (0x3F80000040000000, 0x3F80000140000003, 8, True),
    "two f32, one an integer": (0x000000013F800000, 0x000000023F800001, 8, False),
    "bf16": (0x3F80, 0x3F83, 2, True),
    "bytes": (0x40, 0x41, 1, False),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("further", [False, True])
def test_numbers_that_are_close_together_are_told_apart(name, further):
    """`further`: another lane stores what is far from both."""
    one, other, size, rounding = NUMBERS[name]
    register = "%d1" if size == 8 else "%r5"
    bits = 8 * max(size, 4)
    third = f"setp.eq.u32 %p3, %r1, 4; selp.b{bits} {register}, 1, {register}, %p3;"
    body = (
        f"setp.eq.u32 %p2, %r1, 3; selp.b{bits} {register}, {other}, {one}, %p2; "
        f"{third if further else ''} st.shared.b{8 * size} [%r3], {register};"
    )
    (event,) = clashes(body)
    assert event.rounding == (rounding and not further)


def test_a_store_of_other_values_is_noted_beside_one_of_close_ones():
    again = "mov.u32 %r5, 0; again: setp.eq.u32 %p2, %r1, 3; add.u32 %r6, %r5, 0x3f800000;"
    again += "add.u32 %r7, %r6, 1; @%p4 bra far; bra near; far: mov.u32 %r7, 9; near:"
    again += "selp.b32 %r6, %r6, %r7, %p2; st.shared.b32 [%r3], %r6;"
    again += (
        "add.u32 %r5, %r5, 1; setp.eq.u32 %p4, %r5, 1; setp.lt.u32 %p5, %r5, 3; @%p5 bra again;"
    )
    assert [event.rounding for event in clashes("setp.ne.u32 %p4, 0, 0;" + again)] == [True, False]
