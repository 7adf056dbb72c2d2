"""Lanes that store the same to one place by several instructions, without having met.

The reference runs the lanes of a warp in every order, one access at a time, and shares no code with
the machine: where the launch is verified, all orders leave the same and give the same.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.frontends.test_stored_again import LOADED, MEET, judged
from tests.frontends.test_verify_code import codes
from tests.sampling import part
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

SHOWN = "lanes write the same bytes, shown to be the same values"
STORE, KEEP = "st.shared.u32 [s], {};", "st.global.u32 [%d2], %r9;"
OWN = "shl.b32 %r7, %r0, 2; cvt.u64.u32 %d2, %r7; add.u64 %d2, %d0, %d2;\n"
ANYWHERE = ("ld.global.u32 %r10, [%d1+64]; mul.wide.u32 %d3, %r10, 4; add.u64 %d3, %d1, %d3;"
            "ld.global.u32 %r8, [%d3]; {} ld.global.u32 %r9, [%d3{}];")  # fmt: skip


def by(lanes: int, what: str) -> str:
    """What the lanes of a mask do."""
    return (f"shr.u32 %r5, {lanes:#x}, %r0; and.b32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 0;"
            + "".join(f"@%p1 {item};\n" for item in what.split(";") if item.strip()))  # fmt: skip


GLOBALLY = by(1, "st.global.u32 [%d0], 7") + by(2, "st.global.u32 [%d0], 7")


def two(one: object, other: object, between: str = "") -> str:
    return by(1, STORE.format(one)) + between + by(2, STORE.format(other))


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (two(7, 7), True),
        (two(7, 8), False),
        (two(7, 8, MEET), True),
        (LOADED + two("%r8", "%r8"), True),
        (LOADED + two("%r8", 7), False),
        (LOADED + "ld.global.u32 %r9, [%d1];" + two("%r8", "%r9"), True),
        (LOADED + "ld.global.u32 %r9, [%d1+4];" + two("%r8", "%r9"), False),
        # Each lane has a value of its own.
        (two("%r0", "%r0"), False),
        (two("%r0", "%r0", MEET), True),
        # At one address that is not known: nothing that changes it, or takes over what others have
        # written, in between; or such.
        (ANYWHERE.format("", "") + two("%r8", "%r9"), True),
        (ANYWHERE.format("", "+4") + two("%r8", "%r9"), False),
        (ANYWHERE.format(MEET, "") + two("%r8", "%r9"), True),
        (ANYWHERE.format("st.global.u32 [%d1+8], 1;", "") + two("%r8", "%r9"), False),
        (ANYWHERE.format("ld.acquire.gpu.global.u32 %r10, [%d1+8];", "") + two("%r8", "%r9"),
         False),
        # Parts of what another lane has stored.
        (by(1, "st.shared.u32 [s], 0x101") + by(2, "st.shared.u8 [s+1], 1"), True),
        (by(1, "st.shared.u32 [s], 0x101") + by(2, "st.shared.u8 [s+1], 2"), False),
        (by(1, "st.shared.v2.u32 [s], {1, 2}") + by(2, "st.shared.u32 [s+4], 2"), True),
        (by(1, "st.shared.v2.u32 [s], {1, 2}") + by(2, "st.shared.u32 [s+4], 1"), False),
        # The third of three, and what the same lanes store over it.
        (two(7, 7) + by(4, STORE.format(7)), True),
        (two(7, 7) + by(4, STORE.format(8)), False),
        (two(7, 7) + by(3, STORE.format(8)), False),
        (two(7, 7) + MEET + by(3, STORE.format(8)), True),
        (by(1, STORE.format(7) + STORE.format(8)) + by(2, STORE.format(8)), False),
        # Reads: by a lane that has stored it, by another, before it stores; and strong writes.
        (two(7, 7) + by(2, "ld.shared.u32 %r9, [s];" + KEEP), True),
        (two(7, 7) + by(4, "ld.shared.u32 %r9, [s];" + KEEP), False),
        (two(7, 7, by(2, "ld.shared.u32 %r9, [s];" + KEEP)), False),
        (by(4, STORE.format(7)) + MEET + by(2, "ld.shared.u32 %r9, [s];" + KEEP) + two(8, 8),
         False),
        (two(7, 7) + by(4, "atom.shared.exch.b32 %r9, [s], 7"), False),
        # Behind a clash that is left out, lanes of the same store that write different numbers.
        ("mov.u32 %r9, 0;" + by(1, "st.shared.u32 [s], 7") + "\nL: setp.eq.u32 %p2, %r9, 0;"
         "selp.u32 %r6, 7, %r0, %p2; selp.u32 %r7, 2, 6, %p2; shr.u32 %r5, %r7, %r0;"
         "and.b32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 0; shl.b32 %r7, %r9, 2;"
         "add.u32 %r7, %r7, %r2; @%p1 st.shared.u32 [%r7], %r6; add.u32 %r9, %r9, 1;"
         "setp.lt.u32 %p2, %r9, 2; @%p2 bra L;", False),
        # All lanes load it before; none uses it, or one.
        ("ld.global.u32 %r9, [%d0];" + by(0, "add.u32 %r9, %r9, 1") + GLOBALLY, True),
        ("ld.global.u32 %r9, [%d0];" + by(4, "st.global.u32 [%d0+4], %r9") + GLOBALLY, False),
        ("ld.global.u32 %r9, [%d0];" + by(0, "add.u32 %r9, %r9, 1") + GLOBALLY
         + by(4, "st.global.u32 [%d0], 8"), False),
        # Data decide whether a lane stores: not shown.
        (LOADED + by(1, STORE.format(7)) + "setp.eq.u32 %p2, %r8, 3; setp.eq.and.u32 %p2, %r0, 1,"
         "%p2; @%p2 " + STORE.format(8), False),
    ],
)  # fmt: skip
def test_lanes_that_store_the_same_by_two_instructions(body, right):
    finding = judged(OWN + body)
    wanted = (Verdict.VERIFIED, []) if right else (Verdict.REFUTED, ["TTN201"])
    assert (finding.verdict, sorted(set(codes(finding)))) == wanted, finding.notes


def test_what_is_left_out_is_noted_and_may_be_refused():
    finding = judged(two(7, 7))
    assert any(SHOWN in note for note in finding.notes)
    refused = judged(two(7, 7), policies=CodePolicies(equal_writes="refuse"))
    assert (refused.verdict, codes(refused)) == (Verdict.REFUTED, ["TTN201"])
    assert not any(SHOWN in note for note in judged(two(7, 7, MEET)).notes)


# What some of three lanes do: store a value, load (value < 0), or, all of them, meet (no lanes).
Operation = tuple[int, int]
LANES = 3


def text(program: list[Operation]) -> str:
    lines = [by(1, STORE.format(0)), MEET]
    for number, (lanes, value) in enumerate(program):
        load = f"ld.shared.u32 %r9, [s]; st.global.u32 [%d2+{128 * number}], %r9"
        lines.append(by(lanes, STORE.format(value) if value >= 0 else load) if lanes else MEET)
    return OWN + "".join(lines)


def outcomes(program: list[Operation]) -> set[object]:
    """What memory holds at the end, and what the lanes have loaded, in each order of the lanes."""
    own = [[item for item in program if not item[0] or item[0] >> lane & 1]
           for lane in range(LANES)]  # fmt: skip
    waiting: list[tuple[tuple[int, ...], int, tuple[tuple[int, int, int], ...]]] = [
        ((0,) * LANES, 0, ())
    ]
    seen, ends = set(waiting), set[object]()
    while waiting:
        at, held, loaded = waiting.pop()
        left = [lane for lane in range(LANES) if at[lane] < len(own[lane])]
        if not left:
            ends.add((held, loaded))
        found = []
        if len(left) == LANES and all(not own[lane][at[lane]][0] for lane in left):
            found.append((tuple(n + 1 for n in at), held, loaded))
        for lane in left:
            lanes, value = own[lane][at[lane]]
            then = tuple(n + (other == lane) for other, n in enumerate(at))
            if lanes and value >= 0:
                found.append((then, value, loaded))
            elif lanes:
                found.append((then, held, tuple(sorted((*loaded, (lane, at[lane], held))))))
        waiting += [item for item in found if item not in seen]
        seen.update(found)
    return ends


def test_the_reference_finds_what_differs():
    assert len(outcomes([(1, 1), (2, 2)])) == 2 and len(outcomes([(1, 1), (2, 1)])) == 1
    assert len(outcomes([(1, 1), (0, 0), (2, 2)])) == 1
    assert len(outcomes([(1, 1), (2, -1), (2, 1)])) == 2
    assert len(outcomes([(1, 1), (2, 1), (3, 2), (1, -1)])) == 2  # lane 1 may be behind


def test_what_is_verified_is_the_same_in_every_order():
    random, seen = Random(11), Counter[str]()
    for _ in range(part(320)):
        program = []
        for _ in range(random.randint(2, 5)):
            value = random.choice((1, 1, 1, 2, -1))
            program.append(random.choice(((random.randint(1, 7), value),) * 6 + ((0, 0),)))
        finding = judged(text(program))
        if finding.verdict is Verdict.VERIFIED:
            assert len(outcomes(program)) == 1, program
            seen["shown" if any(SHOWN in note for note in finding.notes) else "ordered"] += 1
        else:
            assert (finding.verdict, codes(finding)[0]) == (Verdict.REFUTED, "TTN201"), program
            seen["differs" if len(outcomes(program)) > 1 else "refuted"] += 1
    assert seen["shown"] >= part(16) and seen["ordered"] >= part(16), seen
    assert seen["differs"] >= part(80), seen
