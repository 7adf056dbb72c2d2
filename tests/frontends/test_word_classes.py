"""Numbers of a word that are tried once for all of their class, against a run with each of them."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest

from tests.frontends.grid_kernels import finding_on, head
from tests.frontends.word_kernels import BAR, GRID, NEXT, SHARE, found
from titan.foundation.verdict import Verdict
from titan.frontends import verify_code
from titan.frontends.grid.asked_words import AskedRuns, Item, question_of
from titan.frontends.grid.hand_over import HandOver
from titan.frontends.grid.word_classes import NumberClasses
from titan.isa.simt.outcome import Run

REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED
CTAS = 3
NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF)
FIRST = 8  # registers that hold what a kernel makes, from this one on
ASK = "W: ld.acquire.gpu.global.u32 %r7, [%d1];\n"
USES = """@%p1 st.global.u32 [%d2+4], 1;
@%p2 bra END;
st.global.u32 [%d2], 1;
END:"""


def some_code(chosen: random.Random) -> str:
    """Instructions that make two predicates of what was read, of constants and of the grid."""
    constants = ("0", "1", "3", "-1", "0x80000000", "0x7fffffff", "5")
    fixed = ("%r2", "%r3", "%r20", "%r21", *constants)
    made, lines = ["%r7"], []
    for number in range(FIRST, FIRST + chosen.choice((0, 0, 1, 1, 2, 3))):
        operation = chosen.choice(("mov", "and", "and", "or", "xor", "xor", "not", "add", "shr"))
        first, second = chosen.choice(made), chosen.choice((*made, *fixed))
        guard = "@%p0 " if chosen.random() < 0.1 else ""
        kind = {"add": "u32", "shr": "u32"}.get(operation, "b32")
        alone = operation in ("mov", "not")
        operands = first if alone else f"{first}, {second}"
        lines.append(f"{guard}{operation}.{kind} %r{number}, {operands};")
        made.append(f"%r{number}")
    for predicate in ("%p1", "%p2"):
        word = chosen.choice(("eq", "ne", "lt", "le", "gt", "ge"))
        kind = chosen.choice(("s32", "s32", "u32"))
        operands = [chosen.choice((made[0], made[-1])), chosen.choice((*made, *fixed, "0", "-1"))]
        if chosen.random() < 0.2 and operands[1].startswith("%"):
            operands.reverse()
        lines.append(f"setp.{word}.{kind} {predicate}, {', '.join(operands)};")
    return "\n".join(lines)


def asking_run(body: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The run of the first CTA up to its question."""
    runs: list[Run] = []

    def keep(first: Run, *_: object) -> HandOver:
        runs.append(first)
        return HandOver()

    monkeypatch.setattr(verify_code, "waited_for", keep)
    more = "shl.b32 %r20, %r3, 1;\nadd.u32 %r21, %r2, 2;\nmov.u32 %r7, 0;\n"
    launch = f"{{grid: {CTAS}, block: 32, parameters: [pointer, {{pointer: {{u32: [0]}}}}]}}"
    finding_on(head(more=more) + body, launch)
    return runs[0]


def test_numbers_of_one_class_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, merged, apart = random.Random(5), 0, 0
    for _ in range(120):
        code = some_code(chosen)
        loop = chosen.random() < 0.3
        body = ASK + code + ("\n@%p2 bra W;\n" if loop else "\n") + USES
        first = asking_run(body, monkeypatch)
        assert first.prepared is not None
        runs, classes = AskedRuns(first.prepared), NumberClasses(first.prepared)
        for cta in range(CTAS):
            question = question_of(runs.run(cta, ()))
            assert question is not None
            item = Item(question.address, 4, 0, question.instruction, 0, 1, asks=0)
            done: dict[Hashable, tuple[object, ...]] = {}
            for number in NUMBERS:
                run = runs.attempt(cta, (number,))
                # What is done, and whether the word is asked for again.
                does = tuple(run.events), question_of(run)
                assert done.setdefault(classes.of(cta, item, number), does) == does, (body, number)
            merged += len(done) < len(NUMBERS)
            apart += len(done) > 1
    assert merged > 80 and apart > 80


WIDE = """W: ld.acquire.gpu.global.s32 %d9, [%d1]; setp.lt.s64 %p1, %d9, 0;
setp.eq.s64 %p2, %d9, 7; """


def test_signs_of_wider_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The highest bit of a register of 64 bits is that of the 32 which were read."""
    first = asking_run(WIDE + USES, monkeypatch)
    assert first.prepared is not None
    classes, question = NumberClasses(first.prepared), question_of(first)
    assert question is not None
    item = Item(question.address, 4, 0, question.instruction, 0, 1, asks=0)
    assert classes.of(0, item, 0) != classes.of(0, item, 0x80000000)


# ----------------------------------------------------------------------------- many CTAs

MANY = 24
WRITE = "st.global.u32 [%d2], %r9;"
ONE, TWO = (BAR + GRID.format(n=n) for n in (0, 1))
COUNT = """@!%p0 bra C{n}; red.release.gpu.global.add.u32 [%d1], 1;
U{n}: ld.acquire.gpu.global.u32 %r14, [%d1]; setp.lt.u32 %p5, %r14, {count}; @%p5 bra U{n};
C{n}: bar.sync 0;"""
TWICE = "shl.b32 %r18, %r3, 1;"


def counted(second: str = "%r18") -> str:
    """Two barriers by a counter that goes on."""
    one, two = (BAR + COUNT.format(n=n, count=count) for n, count in enumerate(("%r3", second)))
    return TWICE + WRITE + one + NEXT + two + WRITE


BARRIERS = {
    "two barriers": (SHARE + WRITE + ONE + NEXT + TWO + WRITE, VERIFIED),
    "one is missing": (SHARE + WRITE + ONE + NEXT + WRITE, REFUTED),
    "arrivals are relaxed": (
        SHARE + WRITE + ONE.replace("release", "relaxed") + NEXT + TWO + WRITE, REFUTED),
    "waits are relaxed": (
        SHARE + WRITE + ONE.replace("acquire", "relaxed") + NEXT + TWO + WRITE, REFUTED),
    "two barriers of a counter": (counted(), VERIFIED),
    "one arrival too few": (counted("47"), REFUTED),
    "one arrival too many": (counted("49"), REFUTED),
}  # fmt: skip


@pytest.mark.parametrize("name", BARRIERS)
def test_barriers_of_many_ctas(name: str) -> None:
    body, verdict = BARRIERS[name]
    got, text = found(body, MANY, cooperative=True)
    assert got is verdict, text
