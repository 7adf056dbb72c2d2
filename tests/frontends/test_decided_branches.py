"""Branches on data with barriers in their arms, against a checker that runs all data.

The checker knows the statements of a program, not its PTX: it runs the two warps for each value of
the data from barrier to barrier, and finds what they do to a word in between.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.shared .align 16 .b8 memory[64];
.entry k(.param .u64 out)
{
.reg .pred %p<64>;
.reg .b32 %r<64>;
.reg .b64 %d<8>;
ld.param.b64 %d1, [out];
mov.u32 %r2, memory;
mov.u32 %r9, %tid.x;
setp.eq.u32 %p0, %r9, 0;
setp.eq.u32 %p1, %r9, 32;
"""
WORDS, DATA = 2, 2
Statement = tuple[Any, ...]
Data = tuple[int, ...]


def verdict_of(body: str, grid: int = 1, block: int = 64) -> Finding:
    launch = f"{{grid: {grid}, block: {block}, dynamic_shared: 0, parameters: [pointer]}}"
    described, errors = read_launch_text(launch, "launch.yaml")
    assert errors == []
    options = CodeOptions(schedules=0)
    source = Source("k.ptx", f"{HEAD}{body}\nret;\n}}\n")
    (finding,) = verify_code(source, described, options, [], 0.0)
    assert finding.verdict is not Verdict.REFUSED, finding.diagnostics
    return finding


# ------------------------------------------------------------------------ programs at random


def statements(random: Random, depth: int, most: int) -> list[Statement]:
    """A program: words are written by one warp each time, and decide branches and loops."""
    found: list[Statement] = []
    for _ in range(random.randint(1, most)):
        kind = random.choice(["write", "write", "barrier", "barrier", "barrier", "if", "loop"])
        if kind == "write":
            found.append((kind, random.randrange(2), random.randrange(WORDS),
                          random.randrange(DATA)))  # fmt: skip
        elif kind == "barrier":
            found.append((kind,))
        elif depth and kind == "if":
            arms = statements(random, depth - 1, 3), statements(random, depth - 1, 2)
            found.append((kind, random.randrange(WORDS), *arms))
        elif depth:
            found.append((kind, random.randrange(WORDS), statements(random, depth - 1, 3)))
    return found


class Text:
    """The PTX of a program."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names = 0

    def name(self) -> int:
        self.names += 1
        return self.names

    def put(self, program: list[Statement]) -> None:
        for kind, *rest in program:
            getattr(self, kind)(*rest)

    def barrier(self) -> None:
        self.lines.append("bar.sync 0;")

    def write(self, warp: int, word: int, data: int) -> None:
        self.lines.append(
            f"ld.global.u32 %r3, [%d1+{4 * data}]; bar.warp.sync -1;\n"
            f"@%p{warp} st.shared.u32 [%r2+{4 * word}], %r3; bar.warp.sync -1;"
        )

    def read(self, word: int) -> None:
        self.lines.append(f"ld.shared.u32 %r4, [%r2+{4 * word}]; setp.ne.u32 %p2, %r4, 0;")

    def loop(self, word: int, body: list[Statement]) -> None:
        name = self.name()
        self.lines.append(f"mov.u32 %r{20 + name}, 0;\nL{name}:")
        self.put(body)
        self.read(word)
        count = f"%r{20 + name}"
        self.lines.append(
            f"@%p2 bra E{name};\nadd.u32 {count}, {count}, 1; setp.lt.u32 %p3, {count}, 2;\n"
            f"@%p3 bra L{name};\nE{name}:"
        )

    def __getattr__(self, kind: str) -> Any:
        assert kind == "if"
        return self.branch

    def branch(self, word: int, arm: list[Statement], other: list[Statement]) -> None:
        name = self.name()
        self.read(word)
        self.lines.append(f"@%p2 bra T{name};")
        self.put(other)
        self.lines.append(f"bra J{name};\nT{name}:")
        self.put(arm)
        self.lines.append(f"J{name}:")


def steps(program: list[Statement], warp: int, shared: list[int], data: Data) -> Any:
    """What one warp does: a word with what it writes there or None, and None at each barrier.
    Words hold the numbers of data."""
    for kind, *rest in program:
        if kind == "barrier":
            yield None
        elif kind == "write":
            if rest[0] == warp:
                yield rest[1], rest[2]
                shared[rest[1]] = rest[2]
        elif kind == "if":
            yield rest[0], None
            yield from steps(rest[1] if data[shared[rest[0]]] else rest[2], warp, shared, data)
        else:
            for _ in range(2):
                yield from steps(rest[1], warp, shared, data)
                yield rest[0], None
                if data[shared[rest[0]]]:
                    break


def clash(touched: list[set[tuple[int, int | None]]], before: list[int]) -> bool:
    """Whether both warps touch a word and one changes it, or they write different data there."""
    for word in range(WORDS):
        by = [{data for at, data in accesses if at == word} for accesses in touched]
        written = (by[0] | by[1]) - {None}
        differ = len(written) > 1 or None in by[0] | by[1]
        if by[0] and by[1] and written and differ and written != {before[word]}:
            return True
    return False


def right(program: list[Statement]) -> bool:
    """Whether no data let the warps touch a word without a barrier in between, one changing it."""
    for data in product((0, 1), repeat=DATA):
        shared = [0] * WORDS
        warps = [steps(program, warp, shared, data) for warp in (0, 1)]
        ended = [False, False]
        while not all(ended):
            touched: list[set[tuple[int, int | None]]] = [set(), set()]
            before = list(shared)
            for warp in (0, 1):
                while not ended[warp]:
                    step = next(warps[warp], "end")
                    ended[warp] = step == "end"
                    if step is None or step == "end":
                        break
                    touched[warp].add(step)
            if clash(touched, before):
                return False
    return True


START = [("write", 0, word, word) for word in range(WORDS)] + [("barrier",)]


def outcome(seed: int) -> tuple[bool, Verdict, bool]:
    """Whether the program is right, the verdict, and whether it was decided by ways of data."""
    program = START + statements(Random(seed), 2, 5)
    text = Text()
    text.put(program)
    finding = verdict_of("\n".join(text.lines))
    by_ways = any("each combination of ways was run" in note for note in finding.notes)
    return right(program), finding.verdict, by_ways


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_what_is_verified_is_right_for_all_data(first: int) -> None:
    verified = 0
    for seed in range(first, first + 20):
        is_right, verdict, by_ways = outcome(seed)
        assert is_right or verdict is not Verdict.VERIFIED, seed
        verified += verdict is Verdict.VERIFIED and by_ways
    assert verified


# ------------------------------------------------------------------------------- by hand

BROADCAST = """
ld.global.u32 %r3, [%d1];
@%p0 st.shared.u32 [%r2], %r3;
bar.sync 0;
ld.shared.u32 %r4, [%r2];
setp.ne.u32 %p2, %r4, 0;
"""
LEAVE = "@%p2 bra OUT; bar.sync 0; @%p1 st.shared.u32 [%r2], 7; OUT:"
BREAK = """
mov.u32 %r20, 0;
AGAIN:
ld.global.u32 %r3, [%d1];
@%p0 st.shared.u32 [%r2], %r3;
bar.sync 0;
ld.shared.u32 %r4, [%r2];
setp.ne.u32 %p2, %r4, 0;
@%p2 bra OUT;
bar.sync 0;
add.u32 %r20, %r20, 1;
setp.lt.u32 %p3, %r20, 3;
@%p3 bra AGAIN;
OUT:
"""
OF_BLOCK = """
mov.u32 %r5, %ctaid.x; mul.wide.u32 %d2, %r5, 4; add.u64 %d3, %d1, %d2;
ld.global.u32 %r3, [%d3];
setp.ne.u32 %p2, %r3, 0;
@!%p2 bra OUT; bar.sync 0; @%p0 st.global.u32 [%d1+{at}], %r5; OUT:
"""
RIGHT = {
    "an early end": BROADCAST + LEAVE,
    "a word of global memory": "ld.global.u32 %r3, [%d1]; setp.ne.u32 %p2, %r3, 0;" + LEAVE,
    "a loop that is left": BREAK,
    "two rounds of data": BROADCAST + "@%p2 bra A; bar.sync 0; A: bar.sync 0;"
    "ld.global.u32 %r3, [%d1+4]; setp.ne.u32 %p4, %r3, 0; @%p4 bra B; bar.sync 0; B:",
}
WRONG = {
    "no barrier behind the store": BROADCAST.replace("bar.sync 0;", "bar.warp.sync -1;") + LEAVE,
    "rewritten without a barrier": BROADCAST + "@%p1 st.shared.u32 [%r2], 1;\n" + LEAVE,
    "rewritten in the arm": BROADCAST
    + LEAVE.replace("bar.sync 0; @%p1", "@%p1 st.shared.u32 [%r2], 0; bar.sync 0; @%p1"),
    "rewritten in the next round": BREAK.replace("bar.sync 0;\nadd", "add"),
    "a value of each thread": "mul.wide.u32 %d2, %r9, 4; add.u64 %d3, %d1, %d2;"
    "ld.global.u32 %r3, [%d3]; setp.ne.u32 %p2, %r3, 0;" + LEAVE,
    "a race of one way": BROADCAST + "@%p2 bra OUT; bar.sync 0; st.shared.u32 [%r2+4], %r9; OUT:",
    "a flag that others change": BROADCAST.replace("ld.shared", "ld.volatile.shared").replace(
        "bar.sync 0;", ""
    )
    + LEAVE,
    "a value of the moment": "mov.u32 %r4, %clock; setp.ne.u32 %p2, %r4, 0;" + LEAVE,
    "values of warps": "and.b32 %r5, %r9, 32; cvt.u64.u32 %d2, %r5; add.u64 %d3, %d1, %d2;"
    "ld.global.u32 %r3, [%d3]; setp.ne.u32 %p2, %r3, 0; @%p2 bra OUT;"
    "@%p0 st.shared.u32 [%r2+8], 1; bar.sync 0; ld.shared.u32 %r6, [%r2+8]; OUT:"
    "@%p1 st.shared.u32 [%r2+8], 2;",
    "a loop that data end": BREAK.replace("setp.lt.u32 %p3, %r20, 3;", "setp.eq.u32 %p3, 0, 0;"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_each_way_is_run(name: str) -> None:
    finding = verdict_of(RIGHT[name])
    assert finding.verdict is Verdict.VERIFIED, finding.notes
    assert any("each combination of ways was run" in note for note in finding.notes)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_on_some_way_is_not_verified(name: str) -> None:
    assert verdict_of(WRONG[name]).verdict is not Verdict.VERIFIED


def test_blocks_race_on_a_way_of_one_of_them() -> None:
    """Each block reads its own word and may write one that nobody, or that another one, reads."""
    assert verdict_of(OF_BLOCK.format(at=32), grid=1).verdict is Verdict.VERIFIED
    apart = OF_BLOCK.replace("[%d1+{at}]", "[%d3+64]")
    assert verdict_of(apart, grid=2).verdict is Verdict.VERIFIED
    for at in (0, 4, 32):
        finding = verdict_of(OF_BLOCK.format(at=at), grid=2)
        assert finding.verdict is Verdict.UNDECIDED, at
        assert any("clusters may race" in note or "a way that" in note for note in finding.notes)
