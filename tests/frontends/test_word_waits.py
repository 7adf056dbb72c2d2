"""Hand-over between CTAs by semaphores, flags and barriers, by hand and against an explorer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.grid_kernels import Clock, by_cta, join
from tests.frontends.word_kernels import (
    ADD,
    BAR,
    FENCE,
    GRID,
    HEAD,
    NEXT,
    SHARE,
    SIGNAL,
    STORE,
    USE,
    VOLATILE,
    WAIT,
    chain,
    found,
)
from tests.sampling import part
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.grid import tickets
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.machine import Runner
from titan.frontends.verify_code import WAITING_STEPS_MAX, CodeOptions, verify_code

REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED

# ------------------------------------------------------------------------ semaphores, by hand

FETCH = """mov.u32 %r5, -1; @%p0 ld.acquire.gpu.global.u32 %r5, [%d1];
R: setp.ne.u32 %p2, %r5, %r2; bar.red.and.pred %p3, 0, %p2; @!%p3 bra ON;
@%p0 ld.acquire.gpu.global.u32 %r5, [%d1]; bra R; ON:"""
CHAINS = {
    "as it should be": (chain(), VERIFIED),
    "fences by the thread": (
        chain(at0=VOLATILE + f"@%p0 {FENCE}", at4=f"@%p0 {FENCE} {STORE}"), VERIFIED),
    "fences by all": (chain(at0=VOLATILE, at1=BAR + FENCE, at3=FENCE + BAR, at4=STORE), VERIFIED),
    "read early, asked again together": (chain(at0=FETCH), VERIFIED),
    "read early without acquire": (chain(at0=FETCH.replace("acquire", "relaxed", 1)), REFUTED),
    "fences by all without fence.sc": (
        chain(at0=VOLATILE, at1=BAR + "fence.acq_rel.gpu;", at3="fence.acq_rel.gpu;" + BAR,
              at4=STORE), REFUTED),
    "no acquire": (chain(at0=VOLATILE), REFUTED),
    "no release": (chain(at4=STORE), REFUTED),
    "a release for the block": (chain(at4=f"@%p0 membar.cta; {STORE}"), REFUTED),
    "no barrier behind the wait": (chain(at1=""), REFUTED),
    "no barrier before the release": (chain(at3=""), REFUTED),
    "data read before the wait": (
        "@%p1 ld.global.u32 %r9, [%d3];" + chain(at2="st.global.u32 [%d3], %r9;"), REFUTED),
    "data written behind the release": (chain(at4=SIGNAL + "st.global.u32 [%d3], 1;"), REFUTED),
    "a signal is left out": (chain(at4="setp.ne.and.u32 %p0, %r2, 1, %p0;" + SIGNAL), REFUTED),
    "it gives up": (
        chain(at0=WAIT.replace("W:", "mov.u32 %r8, 0; W:").replace(
            "@%p2 bra W", "add.u32 %r8, %r8, 1; setp.lt.and.u32 %p2, %r8, 99999, %p2; @%p2 bra W"
        )), UNDECIDED),
    "asked by a sum with 0": (
        chain(at0=WAIT.replace("ld.acquire.gpu.global.u32 %r5, [%d1]",
                               "atom.acquire.gpu.global.add.u32 %r5, [%d1], 0")), VERIFIED),
    "asked by a relaxed sum": (
        chain(at0=WAIT.replace("ld.acquire.gpu.global.u32 %r5, [%d1]",
                               "atom.relaxed.gpu.global.add.u32 %r5, [%d1], 0")), REFUTED),
    "asked by a swap of the same number, with a fence": (
        chain(at0=WAIT.replace("ld.acquire.gpu.global.u32 %r5, [%d1]",
                               "atom.global.cas.b32 %r5, [%d1], %r2, %r2") + "@%p0 " + FENCE),
        VERIFIED),
    "asked by a swap that changes the number": (
        chain(at0=WAIT.replace("ld.acquire.gpu.global.u32 %r5, [%d1]",
                               "atom.acquire.gpu.global.cas.b32 %r5, [%d1], %r2, 77")), UNDECIDED),
    "asked by an atomic, for the block": (
        chain(at0=WAIT.replace("ld.acquire.gpu.global.u32 %r5, [%d1]",
                               "atom.acquire.cta.global.or.b32 %r5, [%d1], 0")), REFUTED),
    "each adds to it": (chain(at4=ADD), VERIFIED),
    "each adds to it, relaxed": (chain(at4=ADD.replace("release", "relaxed")), REFUTED),
    "each adds two": (chain(at4=ADD.replace(", 1;", ", 2;")), REFUTED),
    "each adds to it, without a barrier": (chain(at3="", at4=ADD), REFUTED),
    "the number is used": (chain(at2=USE + "@%p0 st.global.u32 [%d2+4096], %r5;"), VERIFIED),
}  # fmt: skip


# The sum so far comes by cp.async, as in Marlin.
PLACE = "mov.u32 %r14, s; mad.lo.u32 %r14, %r1, 4, %r14; st.shared.u32 [%r14], 0;"
COPY = "@%p1 cp.async.ca.shared.global [%r14], [%d3], 4; cp.async.commit_group;"
TAKEN = "cp.async.wait_group 0; ld.shared.u32 %r9, [%r14]; st.global.u32 [%d3], %r9;"
# All copy what the last one then writes.
EARLY = f"{PLACE} setp.ne.u32 %p1, %r2, %r6;"
LATE = "@!%p1 st.global.u32 [%d3], 1;"
OVER = "cp.async.wait_group 0;"
SOME = f"@!%p0 bra ON; {OVER} ON:"
COPIED = {
    "as it should be": ((PLACE, WAIT, BAR, COPY, TAKEN, BAR, SIGNAL), VERIFIED),
    "all groups are waited for": (
        (PLACE, WAIT, BAR, COPY, TAKEN.replace("group 0", "all"), BAR, SIGNAL), VERIFIED),
    "a group behind it is not waited for": (
        (PLACE, WAIT, BAR, COPY, "cp.async.commit_group;", TAKEN.replace("0;", "1;", 1), BAR,
         SIGNAL), VERIFIED),
    "copied before the wait": ((PLACE, COPY, WAIT, BAR, TAKEN, BAR, SIGNAL), REFUTED),
    "no acquire": ((PLACE, VOLATILE, BAR, COPY, TAKEN, BAR, SIGNAL), REFUTED),
    "no barrier behind the wait": ((PLACE, WAIT, COPY, TAKEN, BAR, SIGNAL), REFUTED),
    "no release": ((PLACE, WAIT, BAR, COPY, TAKEN, BAR, STORE), REFUTED),
    "read alone": ((EARLY, WAIT, BAR, LATE, COPY, OVER, BAR, SIGNAL), VERIFIED),
    "read alone, and over behind the release": (
        (EARLY, WAIT, BAR, LATE, COPY, BAR, SIGNAL, OVER), REFUTED),
    "its group is the one that is left": (
        (EARLY, WAIT, BAR, LATE, COPY, "cp.async.wait_group 1;", BAR, SIGNAL, OVER), REFUTED),
    "some lanes alone have waited": (
        (EARLY, WAIT, BAR, LATE, COPY, SOME, BAR, SIGNAL, OVER), REFUTED),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIED)
def test_a_chain_whose_data_are_copied(name: str) -> None:
    parts, verdict = COPIED[name]
    got, text = found("\n".join(parts))
    assert got is verdict, text


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_by_a_semaphore(name: str) -> None:
    body, verdict = CHAINS[name]
    got, text = found(body)
    assert got is verdict, text


STORED = """@%p1 bra ASK; ld.global.u32 %r9, [%d0+65536]; {store} bra END;
ASK: @!%p0 bra GO; W: ld.acquire.gpu.global.u32 %r5, [%d1+4]; setp.eq.u32 %p2, %r5, 0; @%p2 bra W;
GO: END:"""


@pytest.mark.parametrize(
    ("store", "verdict"),
    [
        ("@%p0 st.release.gpu.global.u32 [%d1+4], %r9;", UNDECIDED),
        ("cvt.u64.u32 %d9, 1; shl.b64 %d9, %d9, 32; @%p0 st.volatile.global.u64 [%d1], %d9;",
         UNDECIDED),
        ("@%p0 st.release.gpu.global.u32 [%d1], %r9;", REFUTED),
        ("@%p0 st.release.gpu.global.u32 [%d1+4], 1;", VERIFIED),
        ("@%p0 st.release.gpu.global.u32 [%d1+4], 0;", REFUTED),
    ],
)  # fmt: skip
def test_a_number_that_was_not_known_when_it_was_stored_is_no_deadlock(
    store: str, verdict: Verdict
) -> None:
    got, text = found(STORED.format(store=store), 2)
    assert got is verdict, text


def test_what_is_left_changed_is_named() -> None:
    assert "they are left changed" in found(chain())[1].replace("of them are", "they are")
    wraps = "setp.eq.u32 %p4, %r4, %r3; selp.u32 %r4, 0, %r4, %p4;"
    verdict, text = found(chain(at4=wraps + SIGNAL))
    assert verdict is VERIFIED and "left changed" not in text


def test_one_that_waits_for_a_later_one_needs_all_to_be_there() -> None:
    turned = "sub.u32 %r2, %r6, %r2; add.u32 %r4, %r2, 1; setp.ne.u32 %p1, %r2, 0;" + chain()
    verdict, text = found(turned)
    assert verdict is UNDECIDED and "cooperative" in text
    assert found(turned, cooperative=True)[0] is VERIFIED
    assert found(turned.replace("bar.sync 0;", "", 1), cooperative=True)[0] is REFUTED


# ------------------------------------------------------------------------- counters, by hand

ARRIVE = "@%p0 red.release.gpu.global.add.u32 [%d1], 1;"
LAST = "setp.ne.u32 %p3, %r2, %r6; @%p3 bra END;"
ALL = """@!%p0 bra GO;
W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.lt.u32 %p2, %r5, %r6; @%p2 bra W; GO:"""
READ = """mov.u32 %r10, 0;
LOOP: mad.wide.u32 %d4, %r10, 256, %d3;
ld.global.u32 %r11, [%d4];
add.u32 %r10, %r10, 1;
setp.lt.u32 %p4, %r10, %r3;
@%p4 bra LOOP;"""
COUNTER = ("st.global.u32 [%d2], %r9;", BAR, ARRIVE, LAST, ALL, BAR, READ, "END:")


def counter(**edits: str) -> str:
    """The last CTA waits for all, with some of its parts replaced."""
    return "\n".join(edits.get(f"at{n}", text) for n, text in enumerate(COUNTER))


_EXACT = ALL.replace("setp.lt.u32 %p2, %r5, %r6", "setp.ne.u32 %p2, %r5, %r3")
RESET = "@%p0 st.global.u32 [%d1], 0;"
COUNTERS = {
    "all arrive": (counter(at4=_EXACT), VERIFIED),
    "one is not waited for": (counter(), REFUTED),
    "set back by the last": (
        counter(at6=RESET + READ, at4=_EXACT), VERIFIED),
    "set back by all": (counter(at7="END:" + RESET, at4=_EXACT), REFUTED),
    "no release": (counter(at2=ARRIVE.replace("release", "relaxed"), at4=_EXACT), REFUTED),
    "no barrier before it": (counter(at1="", at4=_EXACT), REFUTED),
    "arrivals for the block": (counter(at2=ARRIVE.replace("gpu", "cta"), at4=_EXACT), REFUTED),
    "more than ever arrive": (counter(at4=_EXACT.replace("%r3", "99")), REFUTED),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_of_arrivals(name: str) -> None:
    body, verdict = COUNTERS[name]
    got, text = found(body)
    assert got is verdict, text


@pytest.mark.heavy
@pytest.mark.long
def test_a_barrier_of_the_grid() -> None:
    write = "st.global.u32 [%d2], %r9;"
    one, two = (BAR + GRID.format(n=n) for n in (0, 1))
    assert found(SHARE + write + one + NEXT, 3, cooperative=True)[0] is VERIFIED
    assert found(SHARE + write + one + NEXT + two + write, 3, cooperative=True)[0] is VERIFIED
    assert found(SHARE + write + one + NEXT + write, 3, cooperative=True)[0] is REFUTED
    assert found(SHARE + write + one[len(BAR) :] + NEXT, 3, cooperative=True)[0] is REFUTED
    relaxed = one.replace("release", "relaxed")
    assert found(SHARE + write + relaxed + NEXT, 3, cooperative=True)[0] is REFUTED
    assert found(SHARE + write + one + NEXT, 3)[0] is UNDECIDED


# ----------------------------------------------------------------- against all interleavings

CTAS, WORDS = 3, 2


@dataclass(frozen=True)
class _Step:
    """What a CTA does next: `kind` is read or write (of slot `at`), store or add (to word `at`), or
    equal or least, a wait for `number`. `strong`: with release or acquire; `fence` before a write
    to a word, or behind a wait; `atomic`: a wait that asks by a sum with 0, which releases, too."""

    kind: str
    at: int
    number: int = 0
    strong: bool = True
    fence: bool = False
    atomic: bool = False

    def ptx(self, label: str) -> str:
        """The step as instructions of one thread."""
        slot, word = f"[%d0+{4 * self.at}]", f"[%d1+{4 * self.at}]"
        if self.kind == "read":
            return f"ld.global.u32 %r9, {slot};"
        if self.kind == "write":
            return f"st.global.u32 {slot}, %r30;"
        fence = "fence.acq_rel.gpu; " if self.fence else ""
        form = "release.gpu" if self.strong else "relaxed.gpu"
        if self.kind == "store":
            return f"{fence}st.{form}.global.u32 {word}, {self.number};"
        if self.kind == "add":
            return f"{fence}red.{form}.global.add.u32 {word}, {self.number};"
        ask = f"ld.{form.replace('release', 'acquire')}.global.u32 %r5, {word}"
        if self.atomic:
            form = form.replace("release", "acq_rel")
            ask = f"atom.{form}.global.add.u32 %r5, {word}, 0"
        test = "ne" if self.kind == "equal" else "lt"
        return (f"{label}: {ask}; "
                f"setp.{test}.u32 %p2, %r5, {self.number}; @%p2 bra {label}; {fence}")  # fmt: skip


_Program = tuple[tuple[_Step, ...], ...]


class _Explorer:
    """Every interleaving, with clocks: what each CTA knows of the others, and knew at its last
    fence, and what a word hands on. `races` and `stuck` say what some interleaving has."""

    def __init__(self, program: _Program) -> None:
        self.program = program
        self.races = self.stuck = False
        zero = (0,) * CTAS
        self.work = [(zero, (zero,) * CTAS, (zero,) * CTAS, ((0, zero),) * WORDS)]
        self.seen = set(self.work)
        while self.work and not (self.races and self.stuck):
            self._follow(*self.work.pop())

    def _follow(
        self, at: Clock, known: tuple[Clock, ...], fenced: tuple[Clock, ...],
        words: tuple[tuple[int, Clock], ...],
    ) -> None:  # fmt: skip
        moved = False
        for cta, steps in enumerate(self.program):
            if at[cta] == len(steps):
                continue
            step = steps[at[cta]]
            if step.kind in ("equal", "least"):
                number = words[step.at][0]
                if number < step.number or (step.kind == "equal" and number != step.number):
                    continue
            moved = True
            clock = list(known[cta])
            clock[cta] = at[cta] + 1
            mine, last, now = tuple(clock), fenced[cta], list(words)
            if step.kind in ("read", "write"):
                self._check(cta, step, at, mine)
            elif step.kind in ("store", "add"):
                old, held = words[step.at]
                last = mine if step.fence else last
                given = mine if step.strong else last
                adds = step.kind == "add"
                now[step.at] = (old + step.number if adds else step.number,
                                join(held, given) if adds else given)  # fmt: skip
            else:
                number, held = words[step.at]
                if step.strong or step.fence:
                    mine = join(mine, held)
                if step.atomic:
                    now[step.at] = number, join(held, mine if step.strong else last)
                last = mine if step.fence else last
            there = (*at[:cta], at[cta] + 1, *at[cta + 1 :])
            state = (there, (*known[:cta], mine, *known[cta + 1 :]),
                     (*fenced[:cta], last, *fenced[cta + 1 :]), tuple(now))  # fmt: skip
            if state not in self.seen:
                self.seen.add(state)
                self.work.append(state)
        if not moved and any(n < len(s) for n, s in zip(at, self.program, strict=True)):
            self.stuck = True

    def _check(self, cta: int, step: _Step, at: Clock, mine: Clock) -> None:
        for other, steps in enumerate(self.program):
            for number, before in enumerate(steps[: at[other]]):
                same = before.kind in ("read", "write") and before.at == step.at
                writes = "write" in (before.kind, step.kind)
                if other != cta and same and writes and number >= mine[other]:
                    self.races = True


@st.composite
def _programs(draw: st.DrawFn) -> _Program:
    """CTAs that hand over a few times, each on a word, with a fault here and there."""
    steps: list[list[_Step]] = [[] for _ in range(CTAS)]
    numbers = [0] * WORDS

    def data() -> None:
        for own in steps:
            if draw(st.integers(0, 2)) == 0:
                own.append(_Step(draw(st.sampled_from(("read", "write"))), draw(st.integers(0, 1))))

    data()
    for _ in range(draw(st.integers(1, 3))):
        giver, taker = draw(st.permutations(range(CTAS)))[:2]
        word = draw(st.integers(0, WORDS - 1))
        adds = draw(st.booleans())
        amount = draw(st.integers(1, 2))
        numbers[word] = numbers[word] + amount if adds else numbers[word] + 1
        forms = [draw(_FORMS) for _ in range(2)]
        steps[giver].append(_Step("add" if adds else "store", word,
                                  amount if adds else numbers[word], *forms[0]))  # fmt: skip
        if draw(st.integers(0, 9)):
            wrong = draw(st.sampled_from((0, 0, 0, 0, 0, 0, -1)))
            steps[taker].append(_Step(draw(st.sampled_from(("equal", "least"))), word,
                                      max(0, numbers[word] + wrong), *forms[1],
                                      draw(st.booleans())))  # fmt: skip
        data()
    return tuple(map(tuple, steps))


_FORMS = st.sampled_from(((True, False), (True, False), (False, True), (False, True),
                          (True, True), (False, False)))  # fmt: skip


@settings(max_examples=part(400), deadline=None, derandomize=True)
@given(_programs())
def test_random_programs_in_all_interleavings(program: _Program) -> None:
    explored = _Explorer(program)
    if not any(step.kind in ("equal", "least") for steps in program for step in steps):
        return
    verdict, text = found(by_cta(program), CTAS, cooperative=True)
    if verdict is VERIFIED:
        assert not explored.races and not explored.stuck, (by_cta(program), text)
    if verdict is REFUTED:
        assert explored.races or explored.stuck, (by_cta(program), text)


def test_numbers_that_are_used_later_are_compared() -> None:
    later = """@!%p0 bra END; @%p1 bra GIVE;
A: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.lt.u32 %p2, %r5, 1; @%p2 bra A;
B: ld.acquire.gpu.global.u32 %r7, [%d1+4]; setp.lt.u32 %p2, %r7, 1; @%p2 bra B;
mad.wide.u32 %d5, %r5, 4, %d0; {use} bra END;
GIVE: red.release.gpu.global.add.u32 [%d1], 1; red.release.gpu.global.add.u32 [%d1+4], 1; END:"""
    used = later.format(use="st.global.u32 [%d5], 1;")
    assert found(used, 3, cooperative=True)[0] is UNDECIDED
    assert found(later.format(use=""), 3, cooperative=True)[0] is VERIFIED


# ------------------------------------------------------- rounds of a wait, as many as there may be

COUNTED = """mov.u32 %r20, 0; @!%p0 bra GO;
W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, %r2;
@%p2 add.u32 %r20, %r20, 1; @%p2 bra W; GO:"""
FLAGS = """mov.u32 %r20, 0; mov.u32 %r21, 0; @!%p0 bra GO;
W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, %r2; @!%p2 bra V;
mov.u32 %r20, 1; bra W;
V: ld.acquire.gpu.global.u32 %r5, [%d1+4]; setp.ne.u32 %p2, %r5, %r2; @!%p2 bra GO;
mov.u32 %r21, 1; bra V;
GO: setp.ne.u32 %p5, %r20, %r21;"""
LATE = "@%p5 st.global.u32 [%d0], 1;"


def test_what_depends_on_the_number_of_rounds_is_not_verified() -> None:
    assert found(chain(at0=COUNTED))[0] is VERIFIED
    got, text = found(chain(at0=COUNTED, at4=f"{SIGNAL} setp.gt.u32 %p5, %r20, 5; {LATE}"))
    assert got is UNDECIDED and "depends on its rounds" in text


def test_what_depends_on_which_waits_failed_is_not_verified() -> None:
    both = "@%p0 st.release.gpu.global.u32 [%d1+4], %r4;"
    assert found(chain(at0=FLAGS, at4=SIGNAL + both))[0] is VERIFIED
    got, text = found(chain(at0=FLAGS, at4=SIGNAL + both + LATE))
    assert got is UNDECIDED and "fail first change" in text


def test_lanes_add_one_by_one() -> None:
    def sums(number: int) -> str:
        return f"""setp.lt.u32 %p3, %r1, 32; setp.eq.and.u32 %p4, %r2, 0, %p3;
        @%p4 st.global.u32 [%d3], %r1; @%p4 red.release.gpu.global.add.u32 [%d1], 1;
        setp.eq.and.u32 %p5, %r2, 1, %p0; @!%p5 bra GO;
        W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.lt.u32 %p2, %r5, {number}; @%p2 bra W;
        GO: bar.sync 0; setp.eq.and.u32 %p4, %r2, 1, %p3; @%p4 ld.global.u32 %r9, [%d3];"""

    assert found(sums(32), grid=2)[0] is VERIFIED
    assert found(sums(1), grid=2)[0] is not VERIFIED


def test_a_wait_of_one_cta_in_the_middle_is_seen() -> None:
    body = """setp.eq.and.u32 %p3, %r2, 1, %p0; setp.eq.u32 %p4, %r2, 1; setp.eq.u32 %p5, %r2, 0;
    @%p4 ld.global.u32 %r9, [%d3]; @!%p3 bra GO;
    W: ld.acquire.gpu.global.u32 %r5, [%d1]; setp.ne.u32 %p2, %r5, 1; @%p2 bra W; GO:
    bar.sync 0; @%p5 st.global.u32 [%d3], %r1; bar.sync 0;
    setp.eq.and.u32 %p3, %r2, 0, %p0; @%p3 st.release.gpu.global.u32 [%d1], 1;"""
    assert found(body)[0] is REFUTED


ROTATED = """mov.u32 %r5, -1; @%p0 ld.acquire.gpu.global.u32 %r5, [%d1]; bra.uni M;
R: ld.acquire.gpu.global.u32 %r5, [%d1];
M: setp.ne.u32 %p2, %r5, %r2; bar.red.and.pred %p3, 0, %p2; @!%p3 bra ON;
@!%p0 bra M; bra.uni R; ON: bar.sync 0;"""


def test_a_loop_that_is_entered_in_its_middle() -> None:
    parameters = "setp.gt.u32 %p6, %r3, 100; @%p6 bra ON;"
    assert found(chain(at0=parameters + ROTATED))[0] is VERIFIED
    assert found(chain(at0=parameters + ROTATED.replace("acquire", "relaxed")))[0] is REFUTED


GENERATION = """@!%p0 bra GO;
ld.volatile.global.u32 %r5, [%d1+4]; atom.global.add.u32 %r6, [%d1], 1;
setp.eq.u32 %p2, %r6, 1; @%p2 bra LAST;
W: ld.volatile.global.u32 %r7, [%d1+4]; setp.eq.u32 %p2, %r7, %r5; @%p2 bra W; bra GO;
LAST: st.volatile.global.u32 [%d1], 0; membar.gl; red.global.add.u32 [%d1+4], 1; GO:"""


def test_polls_that_are_not_decided_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    run, prepared = Runner.run, tickets.run_prepared

    def counted(self: Runner, *given: Any) -> Any:
        made, errors = run(self, *given)
        counts.append(made.instructions)
        return made, errors

    def counted_prepared(*given: Any) -> Any:
        made = prepared(*given)
        counts.append(made[0].instructions)
        return made

    monkeypatch.setattr(Runner, "run", counted)
    monkeypatch.setattr(tickets, "run_prepared", counted_prepared)
    text = "{grid: 2, block: 64, parameters: [pointer, {pointer: {u32: [0, 0]}}]}"
    launch, _ = read_launch_text(text.replace("{grid", "{cooperative: true, grid", 1), "k.yaml")
    source = Source("k.ptx", HEAD + GENERATION + "\nret;\n}\n")
    (finding,) = verify_code(source, launch, CodeOptions(), [], 0.0)
    assert finding.verdict is UNDECIDED
    assert max(counts) <= WAITING_STEPS_MAX
