"""Words that CTAs wait for again and again, as barriers in turn: by hand, and against a search of
all interleavings of what they do to all words together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frontends.word_kernels import found
from titan.foundation.verdict import Verdict
from titan.frontends.grid.asked_words import Item, NotWaiting
from titan.frontends.grid.word_windows import windows_of

REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED

# ------------------------------------------------------------------------------ kernels, by hand

RED = "red.release.gpu.global.add.u32"
LOAD = "ld.acquire.gpu.global.u32"


def meet(
    number: int, word: int, step: int, wanted: str, red: str = RED, load: str = LOAD, end: str = ""
) -> str:
    """A barrier of all CTAs: one thread of each adds `step` to a word, and waits until it has a
    number: none, or one for each CTA."""
    compared = "0" if wanted == "none" else "%r3"
    until = "lt" if wanted == "at least" else "ne"
    return f"""@!%p0 bra GO{number}; {red} [%d1+{4 * word}], {step};
W{number}: {load} %r5, [%d1+{4 * word}]; setp.{until}.u32 %p2, %r5, {compared}; @%p2 bra W{number};
GO{number}: {end or "bar.sync 0;"}"""


def exchange(number: int, buffers: int) -> tuple[str, str]:
    """A CTA's store to its place of a buffer, and its load of the place of the CTA before it."""
    at = 4096 * (number % buffers)
    return (
        f"@%p0 st.global.u32 [%d4+{at}], %r2;",
        f"ld.global.u32 %r9, [%d5+{at}]; st.global.u32 [%d6+{4096 * number}], %r9;",
    )


PLACES = """add.u32 %r20, %r2, %r3; add.u32 %r20, %r20, -1; rem.u32 %r20, %r20, %r3;
mad.wide.u32 %d4, %r2, 4, %d0; mad.wide.u32 %d5, %r20, 4, %d0;
mad.lo.u32 %r21, %r2, 64, %r1; mad.wide.u32 %d6, %r21, 4, %d0; add.u64 %d6, %d6, 65536;
"""
UP, DOWN = (1, "all"), (-1, "none")
TURNS = [(0, *UP), (1, *UP), (0, *DOWN), (1, *DOWN), (0, *UP), (1, *UP)]


def rounds(turns: Sequence[tuple[int, int, str]], buffers: int = 2, **edits: str) -> str:
    """CTAs that exchange numbers in rounds, with a barrier in each; `edits`: of its second one on
    that of the second word."""
    lines = [PLACES]
    for number, (word, step, wanted) in enumerate(turns):
        before, behind = exchange(number, buffers)
        more = edits if word == 1 else {}
        lines += [before, "bar.sync 0;", meet(number, word, step, wanted, **more), behind]
    return "\n".join(lines)


KERNELS = {
    "two words in turn": (rounds(TURNS), VERIFIED),
    "three words in turn, up alone": (
        rounds([(0, *UP), (1, *UP), (2, *UP)]), VERIFIED),
    "one word, up and down": (rounds([(0, *UP), (0, *DOWN)]), REFUTED),
    "one word, up alone, for an exact number": (
        rounds([(0, 1, "all"), (0, 1, "all")]), REFUTED),
    "the second word twice in a row": (
        rounds([(0, *UP), (1, *UP), (1, *DOWN), (0, *DOWN)]), REFUTED),
    "the second word is not taken down": (rounds([*TURNS[:3], (1, 1, "none")]), REFUTED),
    "one buffer": (rounds(TURNS, buffers=1), REFUTED),
    "arrivals relaxed": (rounds(TURNS, red=RED.replace("release", "relaxed")), REFUTED),
    "arrivals for the block": (rounds(TURNS, red=RED.replace("gpu", "cta")), REFUTED),
    "waits relaxed": (rounds(TURNS, load=LOAD.replace("acquire", "relaxed")), REFUTED),
    "no barrier behind the wait": (rounds(TURNS, end="add.u32 %r30, %r30, 1;"), REFUTED),
    "an old value is asked for": (
        rounds(TURNS, red="atom.release.gpu.global.add.u32 %r7,"), VERIFIED),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("ctas", [2, 3])
def test_barriers_in_turn(name: str, ctas: int) -> None:
    body, verdict = KERNELS[name]
    got, text = found(body, ctas, cooperative=True)
    assert got is verdict, text


# ----------------------------------------------------------- what a CTA knows of its own stores

OWN = "mad.wide.u32 %d4, %r2, 4, %d0; mad.wide.u32 %d6, %r1, 4, %d0; @%p0 st.global.u32 [%d4], 7;"
ALL_PLACES = """setp.lt.u32 %p4, %r1, %r3; @%p4 ld.global.u32 %r9, [%d6];
mad.lo.u32 %r21, %r2, 64, %r1; mad.wide.u32 %d6, %r21, 4, %d0; st.global.u32 [%d6+65536], %r9;"""
NEXT_PLACE = "@%p0 st.global.u32 [%d0], 8;"
BY_VALUE = "ld.global.u32 %r9, [%d0]; setp.eq.u32 %p4, %r9, 7; @%p4 bar.sync 0;"


def test_what_others_store_beside_is_no_news() -> None:
    """A CTA reads its own number, which it knows, together with those of others."""
    got, text = found("\n".join([OWN, "bar.sync 0;", meet(0, 0, *UP), ALL_PLACES]), 3, True)
    assert got is VERIFIED, text


def test_what_others_store_over_it_is() -> None:
    only = f"setp.ne.u32 %p5, %r2, 1; @%p5 bra ON; {NEXT_PLACE} ON:"
    body = ["mov.u32 %r2, %ctaid.x;", OWN, "bar.sync 0;", meet(0, 0, *UP), only, meet(1, 1, *UP)]
    got, text = found("\n".join([*body, BY_VALUE]), 2, True)
    assert got is not VERIFIED and "may have replaced" in text, text


# ------------------------------------------------------------- against a search of all together

Step = tuple[int, int, int]  # a word, what is added to it, or 0 and the number that is waited for
Program = tuple[tuple[Step, ...], ...]


def item_of(step: Step, place: int, asks: int) -> Item:
    word, adds, _ = step
    operation, operands = ("add", (adds % 2**32,)) if adds else ("", ())
    asked = -1 if adds else asks
    return Item(word, 4, place, place, 0, 1, asks=asked, operation=operation, operands=operands)


def searched(
    program: Program, start: Sequence[int]
) -> tuple[bool, dict[tuple[int, int], set[object]]]:
    """Whether CTAs may be stuck, and with what done to its word each wait may pass."""
    first = tuple(0 for _ in program)
    seen, work, stuck = {first}, [first], False
    passed: dict[tuple[int, int], set[frozenset[tuple[int, int]]]] = {}
    while work:
        at = work.pop()
        moved = False
        for cta, steps in enumerate(program):
            if at[cta] == len(steps):
                continue
            word, adds, wanted = steps[at[cta]]
            done = frozenset(
                (one, n)
                for one, own in enumerate(program)
                for n, step in enumerate(own[: at[one]])
                if step[0] == word and step[1]
            )
            number = start[word] + sum(program[one][n][1] for one, n in done)
            if not adds and number % 2**32 != wanted:
                continue
            if not adds:
                passed.setdefault((cta, at[cta]), set()).add(done)
            moved = True
            after = (*at[:cta], at[cta] + 1, *at[cta + 1 :])
            if after not in seen:
                seen.add(after)
                work.append(after)
        stuck |= not moved and any(n < len(own) for n, own in zip(at, program, strict=True))
    return stuck, passed


def waits_pass(program: Program, cta: int, at: int, number: int) -> bool:
    return program[cta][at][2] == number


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Barriers by two or three words, with a step changed, left out, or made twice."""
    ctas = draw(st.integers(2, 3))
    words = draw(st.integers(1, 3))
    own: list[list[Step]] = [[] for _ in range(ctas)]
    numbers = [0] * words
    for turn in range(draw(st.integers(2, 5))):
        word = draw(st.sampled_from([turn % words, turn % words, 0]))
        adds = draw(st.sampled_from([1, 1, 2])) * (-1 if numbers[word] > 0 else 1)
        numbers[word] += ctas * adds
        for cta in range(ctas):
            own[cta] += [(word, adds, 0), (word, 0, numbers[word] % 2**32)]
    for _ in range(draw(st.integers(0, 1))):
        cta = draw(st.integers(0, ctas - 1))
        at = draw(st.integers(0, len(own[cta]) - 1))
        word, adds, wanted = own[cta][at]
        change = draw(st.sampled_from(["leave", "twice", "word", "number"]))
        if change == "leave":
            del own[cta][at]
        elif change == "twice":
            own[cta].insert(at, own[cta][at])
        elif change == "word":
            own[cta][at] = (word + 1) % words, adds, wanted
        else:
            own[cta][at] = (word, adds + 1, 0) if adds else (word, 0, (wanted + 1) % 2**32)
    return tuple(map(tuple, own))


def decided(program: Program) -> dict[tuple[int, int], frozenset[tuple[int, int]]] | None:
    words = sorted({step[0] for own in program for step in own})
    items = [[item_of(step, place, place) for place, step in enumerate(own)] for own in program]
    start = dict.fromkeys(words, 0)
    try:
        return windows_of(frozenset(words), items, start, partial(waits_pass, program), {})
    except NotWaiting:
        return None


@given(programs())
def test_windows_are_what_waits_read_from_in_all_interleavings(program: Program) -> None:
    got = decided(program)
    if got is None:
        return
    stuck, passed = searched(program, [0, 0, 0])
    assert not stuck
    assert {place: {window} for place, window in got.items()} == passed


@pytest.mark.parametrize("ctas", [2, 3, 8])
def test_two_words_in_turn_are_decided(ctas: int) -> None:
    program: Program = tuple(
        tuple(
            step
            for word, adds, wanted in TURNS
            for step in ((word, adds, 0), (word, 0, ctas if wanted == "all" else 0))
        )
        for _ in range(ctas)
    )
    got = decided(program)
    assert got is not None and len(got) == ctas * len(TURNS)
    assert decided(tuple(own[:2] + own[4:6] for own in program)) is None
