"""Loops with barriers whose rounds data alone decide, against a checker that runs all data.

The checker knows the statements of a program, not its PTX. A word of shared memory holds a number,
and a write follows a table in global memory from one word to another, so that rounds differ: the
two warps are run for all tables, from barrier to barrier.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from tests.frontends.test_decided_branches import clash
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
mov.u32 %r20, 0;
setp.eq.u32 %p0, %r9, 0;
setp.eq.u32 %p1, %r9, 32;
"""
WORDS, NUMBERS, INTERVALS = 2, 3, 16
UNTIL = "any number of rounds"
Statement = tuple[Any, ...]
Table = tuple[int, ...]


def verdict_of(body: str, grid: int = 1) -> Finding:
    launch = f"{{grid: {grid}, block: 64, dynamic_shared: 0, parameters: [pointer]}}"
    described, errors = read_launch_text(launch, "launch.yaml")
    assert errors == []
    source = Source("k.ptx", f"{HEAD}{body}\nret;\n}}\n")
    (finding,) = verify_code(source, described, CodeOptions(schedules=0), [], 0.0)
    assert finding.verdict is not Verdict.REFUSED, finding.diagnostics
    return finding


# ------------------------------------------------------------------------ programs at random


def statements(random: Random, depth: int, most: int) -> list[Statement]:
    """A program: one warp follows the table from a word to a word; words end loops."""
    found: list[Statement] = []
    for _ in range(random.randint(1, most)):
        kind = random.choice(["write", "barrier", "barrier", "if", "loop"])
        if kind == "write":
            words = random.randrange(WORDS), random.randrange(WORDS)
            found.append((kind, random.randrange(2), *words))
        elif kind == "barrier":
            found.append((kind,))
        elif depth and kind == "if":
            # Of an arm without statements nothing would use what is read.
            arm = statements(random, depth - 1, 3)
            found += [(kind, random.randrange(WORDS), arm)] if arm else []
        elif depth:
            found.append(loop(random, depth - 1))
    return found


def loop(random: Random, depth: int) -> Statement:
    """A loop whose rounds change what ends it, with barriers in some places."""
    word = random.randrange(WORDS)
    body = statements(random, depth, 2)
    body.append(("write", random.randrange(2), word, random.randrange(WORDS)))
    body += [("barrier",)] * (random.random() < 0.9)
    if random.random() < 0.8:
        body.insert(0, ("barrier",))
    return "loop", word, body


class Text:
    """The PTX of a program."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names = 0

    def put(self, program: list[Statement]) -> None:
        for kind, *rest in program:
            getattr(self, f"put_{kind}")(*rest)

    def put_barrier(self) -> None:
        self.lines.append("bar.sync 0;")

    def put_write(self, warp: int, word: int, source: int) -> None:
        guard = f"@%p{warp}"
        self.lines.append(
            f"bar.warp.sync -1;\n{guard} ld.shared.u32 %r4, [%r2+{4 * source}];\n"
            f"{guard} mul.wide.u32 %d2, %r4, 4; {guard} add.u64 %d3, %d1, %d2;\n"
            f"{guard} ld.global.u32 %r3, [%d3];\n"
            f"{guard} st.shared.u32 [%r2+{4 * word}], %r3; bar.warp.sync -1;"
        )

    def put_start(self, word: int) -> None:
        self.lines.append(f"@%p0 ld.global.u32 %r3, [%d1+{4 * word}];")
        self.lines.append(f"@%p0 st.shared.u32 [%r2+{4 * word}], %r3;")

    def _read(self, word: int) -> int:
        self.names += 1
        self.lines.append(
            f"bar.warp.sync -1;\nld.shared.u32 %r4, [%r2+{4 * word}]; setp.ne.u32 %p2, %r4, 0;"
        )
        return self.names

    def put_if(self, word: int, arm: list[Statement]) -> None:
        name = self._read(word)
        self.lines.append(f"@!%p2 bra J{name};")
        self.put(arm)
        self.lines.append(f"J{name}:")

    def put_loop(self, word: int, body: list[Statement]) -> None:
        self.names += 1
        name = self.names
        self.lines.append(f"L{name}:")
        self.put(body)
        self._read(word)
        self.lines.append(f"@%p2 bra L{name};")


def steps(program: list[Statement], warp: int, shared: list[int], table: Table) -> Any:
    """What one warp does: a word with what it writes there or None, and None at each barrier."""
    for kind, *rest in program:
        if kind == "barrier":
            yield None
        elif kind == "start":
            if warp == 0:
                yield rest[0], table[rest[0]]
                shared[rest[0]] = table[rest[0]]
        elif kind == "write":
            if rest[0] == warp:
                yield rest[2], None
                number = table[shared[rest[2]]]
                yield rest[1], number
                shared[rest[1]] = number
        elif kind == "if":
            yield rest[0], None
            if shared[rest[0]]:
                yield from steps(rest[1], warp, shared, table)
        else:
            while True:
                yield from steps(rest[1], warp, shared, table)
                yield rest[0], None
                if not shared[rest[0]]:
                    break


def right(program: list[Statement]) -> bool:
    """Whether no table lets the warps touch a word without a barrier in between, one changing it,
    in the first intervals of a run."""
    for table in product(range(NUMBERS), repeat=NUMBERS):
        shared = [0] * WORDS
        warps = [steps(program, warp, shared, table) for warp in (0, 1)]
        ended = [False, False]
        for _ in range(INTERVALS):
            touched: list[set[tuple[int, int | None]]] = [set(), set()]
            before = list(shared)
            for warp in (0, 1):
                for _ in range(100 if not ended[warp] else 0):
                    step = next(warps[warp], "end")
                    ended[warp] = step == "end"
                    if step is None or step == "end":
                        break
                    touched[warp].add(step)
            if clash(touched, before):
                return False
    return True


START = [*(("start", word) for word in range(WORDS)), ("barrier",)]


def program_of(seed: int) -> list[Statement]:
    """A program that has a loop."""
    random = Random(seed)
    return [*START, loop(random, 1), *statements(random, 0, 2)]


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_what_is_verified_is_right_for_all_data(first: int) -> None:
    verified = 0
    for seed in range(first, first + 20):
        program, text = program_of(seed), Text()
        text.put(program)
        finding = verdict_of("\n".join(text.lines))
        assert right(program) or finding.verdict is not Verdict.VERIFIED, seed
        verified += finding.verdict is Verdict.VERIFIED and any(UNTIL in n for n in finding.notes)
    assert verified


# ------------------------------------------------------------------------------- by hand

NEXT = """
bar.warp.sync -1;
@%p0 ld.shared.u32 %r4, [%r2+{source}];
@%p0 mul.wide.u32 %d2, %r4, 4; @%p0 add.u64 %d3, %d1, %d2;
@%p0 ld.global.u32 %r3, [%d3];
@%p0 st.shared.u32 [%r2+{target}], %r3;
"""
START_WORD = "@%p0 ld.global.u32 %r3, [%d1]; @%p0 st.shared.u32 [%r2], %r3; bar.sync 0;"
ONE = NEXT.format(source=0, target=0)
READ = "ld.shared.u32 %r5, [%r2];"
SEARCH = (
    START_WORD
    + f"""
AGAIN:
{READ}
bar.sync 0;
{ONE}
bar.sync 0;
{READ}
setp.ne.u32 %p2, %r5, 0;
@%p2 bra AGAIN;
"""
)
# Two words in turn, so that a round needs one barrier.
TURNS = """
mov.u32 %r6, %r2;
@%p0 ld.global.u32 %r3, [%d1]; @%p0 st.shared.u32 [%r2], %r3;
AGAIN:
bar.sync 0;
ld.shared.u32 %r5, [%r6];
xor.b32 %r7, %r6, 4;
mul.wide.u32 %d2, %r5, 4; add.u64 %d3, %d1, %d2;
ld.global.u32 %r3, [%d3];
@%p0 st.shared.u32 [%r7], %r3;
mov.u32 %r6, %r7;
setp.ne.u32 %p2, %r5, 0;
@%p2 bra AGAIN;
"""
COUNTED = (
    SEARCH.replace("AGAIN:", "AGAIN: add.u32 %r20, %r20, 1;") + "@%p0 st.global.u32 [%d1+64], %r20;"
)
FLAG = """
mul.wide.u32 %d2, %r9, 4; add.u64 %d3, %d1, %d2; shl.b32 %r6, %r9, 2; add.u32 %r6, %r6, %r2;
AGAIN:
@%p0 st.shared.u32 [%r2+32], 0;
bar.sync 0;
ld.global.u32 %r3, [%d3];
setp.ne.u32 %p2, %r3, 0;
@!%p2 bra NONE;
st.shared.u32 [%r2+32], 1;
NONE:
bar.sync 0;
ld.shared.u32 %r5, [%r2+32];
bar.sync 0;
setp.ne.u32 %p3, %r5, 0;
@%p3 bra AGAIN;
"""
HUNDRED = COUNTED.replace(
    f"bar.sync 0;\n{READ}",
    f"setp.eq.u32 %p3, %r20, {{count}};\n@%p3 bra LEFT; bar.sync 0;\nLEFT:\n{READ}",
)
# A tile of 16 bytes is stored in one of two arms, and copied behind the loop by the async proxy.
TILE = """
AGAIN:
ld.shared.u32 %r5, [%r2];
bar.sync 0;
and.b32 %r6, %r5, 1; setp.ne.u32 %p3, %r6, 0;
@%p3 bra OTHER;
@%p0 st.shared.v4.u32 [%r2+48], {{%r9, %r9, %r9, %r9}};
{fence}
bar.sync 0;
bra JOIN;
OTHER:
@%p0 st.shared.v4.u32 [%r2+48], {{%r9, %r9, %r9, %r9}};
{other}
bar.sync 0;
JOIN:
bar.sync 0;
ld.shared.u32 %r5, [%r2]; and.b32 %r6, %r5, 2; setp.ne.u32 %p3, %r6, 0;
@%p3 bra NOTHING;
bar.sync 0;
NOTHING:
bar.sync 0;
{next}
bar.sync 0;
ld.shared.u32 %r5, [%r2]; setp.ne.u32 %p2, %r5, 0;
@%p2 bra AGAIN;
ld.global.u32 %r6, [%d1+128]; setp.ne.u32 %p7, %r6, 0;
@%p7 bra SKIP;
bar.sync 0;
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1+256], [%r2+48], 16;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
SKIP:
"""
FENCE = "fence.proxy.async;"


def tile(fence: str, other: str) -> str:
    return START_WORD + TILE.format(fence=fence, other=other, next=ONE)


RIGHT = {
    "a search": SEARCH,
    "two words in turn": TURNS,
    "rounds that are counted": COUNTED,
    "a flag that is set in an arm": FLAG,
    "two loops": SEARCH + "bar.sync 0;" + SEARCH.replace("AGAIN", "MORE"),
    "a loop in a loop": START_WORD
    + SEARCH.removeprefix(START_WORD).replace("AGAIN:", "OUTER: bar.sync 0;\nAGAIN:")
    + "bar.sync 0;"
    + ONE
    + f"bar.sync 0; {READ} setp.ne.u32 %p4, %r5, 0; @%p4 bra OUTER;",
}
WRONG = {
    "no barrier before the next round": SEARCH.replace(f"{READ}\nbar.sync 0;", READ),
    "no barrier behind the store": SEARCH.replace(
        f"{ONE}\nbar.sync 0;", f"{ONE}\nbar.warp.sync -1;"
    ),
    "one word, one barrier": TURNS.replace("xor.b32 %r7, %r6, 4;", "mov.u32 %r7, %r6;"),
    "a barrier of one warp": SEARCH.replace(
        f"{ONE}\nbar.sync 0;", f"{ONE}\n@%p1 bra ON; bar.sync 0; ON:"
    ),
    "each warp by a word of its own": SEARCH.replace(
        f"bar.sync 0;\n{READ}",
        "bar.sync 0;\nand.b32 %r7, %r9, 32; add.u32 %r7, %r7, %r2; ld.shared.u32 %r5, [%r7];",
    ),
    "no barrier in the fifth round": HUNDRED.format(count=5),
    "no barrier in the hundredth round": HUNDRED.format(count=100),
    "a flag that is set back too early": FLAG.replace(
        "ld.shared.u32 %r5, [%r2+32];\nbar.sync 0;", "ld.shared.u32 %r5, [%r2+32];"
    ),
    "a flag that is read too early": FLAG.replace("NONE:\nbar.sync 0;", "NONE: bar.warp.sync -1;"),
    "a race behind the loop": SEARCH + ONE,
    "a word by the round that nothing has written": COUNTED.replace(
        f"{ONE}\n",
        f"{ONE}\nand.b32 %r21, %r20, 7; shl.b32 %r21, %r21, 2; add.u32 %r21, %r21, %r2;"
        "ld.shared.u32 %r22, [%r21+16]; st.global.u32 [%d3+512], %r22;\n",
    ),
    "no fence of the proxy in the first arm": tile("", FENCE),
    "no fence of the proxy in the second arm": tile(FENCE, ""),
    "nothing that ends it changes": SEARCH.replace(ONE, ""),
}


@pytest.mark.parametrize("name", RIGHT)
def test_any_number_of_rounds_is_verified(name: str) -> None:
    finding = verdict_of(RIGHT[name])
    assert finding.verdict is Verdict.VERIFIED, finding.notes
    assert any(UNTIL in note for note in finding.notes)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_some_round_is_not_verified(name: str) -> None:
    assert verdict_of(WRONG[name]).verdict is not Verdict.VERIFIED


def test_all_wrong_texts_differ_from_the_right_ones() -> None:
    assert len({*RIGHT.values(), *WRONG.values()}) == len(RIGHT) + len(WRONG)
