"""Clusters that draw numbers from a counter, against all executions of tiny grids."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.grid import drawn_numbers
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding

HEAD = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 counter, .param .u64 out)
.reqntid 1
{
	.reg .pred %p<8>;
	.reg .b32 %r<32>;
	.reg .b64 %d<8>;
	ld.param.u64 %d0, [counter];
	ld.param.u64 %d1, [out];
	mov.u32 %r0, %ctaid.x;
"""
DRAW = "	atom.relaxed.gpu.global.add.u32 %r1, [%d0], 1;\n"


@dataclass(frozen=True)
class Queue:
    """Blocks that work at tiles below `tiles`; `own`: the first tile is that of the block, without
    a draw. The number drawn is raised by `more`. A block writes the word of its tile, of `pair`
    tiles one, and reads the word of the tile `beside` it."""

    blocks: int
    tiles: int
    own: bool
    more: int
    pair: bool
    beside: int | None

    def text(self) -> str:
        """The kernel in PTX."""
        shift = int(self.pair)
        first = "	mov.u32 %r1, %r0;\n" if self.own else DRAW + self._raised()
        read = ""
        if self.beside is not None:
            read = f"	ld.global.u32 %r5, [%d2+{4 * self.beside}];\n"
        return (
            HEAD + first + f"TILE:	setp.ge.u32 %p1, %r1, {self.tiles};\n	@%p1 ret;\n"
            f"	shr.u32 %r2, %r1, {shift};\n	mad.wide.u32 %d2, %r2, 4, %d1;\n"
            f"	add.u64 %d2, %d2, 64;\n{read}	st.global.u32 [%d2], %r0;\n"
            + DRAW + self._raised() + "	bra TILE;\n}\n"
        )  # fmt: skip

    def _raised(self) -> str:
        return f"	add.u32 %r1, %r1, {self.more};\n"

    def races(self) -> bool:
        """Whether two blocks meet in some execution."""
        return any(map(self._meet, self._executions()))

    def _executions(self) -> Iterator[list[list[int]]]:
        start = [[block] if self.own else [] for block in range(self.blocks)]
        open_ = [block for block in range(self.blocks) if not self.own or block < self.tiles]
        yield from self._further(start, open_, 0)

    def _further(
        self, tiles: list[list[int]], drawing: list[int], number: int
    ) -> Iterator[list[list[int]]]:
        if not drawing:
            yield tiles
        for block in drawing:
            tile = number + self.more
            left = drawing if tile < self.tiles else [item for item in drawing if item != block]
            now = [[*had, tile] if at == block else had for at, had in enumerate(tiles)]
            yield from self._further(now, left, number + 1)

    def _meet(self, tiles: list[list[int]]) -> bool:
        places = [[tile >> self.pair for tile in had if tile < self.tiles] for had in tiles]
        reads = [
            [place + self.beside for place in had] if self.beside is not None else []
            for had in places
        ]
        return any(
            set(places[one]) & {*places[other], *reads[other]}
            for one in range(self.blocks)
            for other in range(self.blocks)
            if one != other
        )


def verified(text: str, blocks: int, counters: int = 1) -> Finding:
    zeros = ", ".join(["0"] * counters)
    launch = f"grid: [{blocks}]\nparameters: [{{pointer: {{u32: [{zeros}]}}}}, pointer]"
    description, errors = read_launch_text(launch, "l.yaml")
    assert not errors
    (finding,) = verify_code(Source("k.ptx", text), description, CodeOptions(), [], 0.0)
    return finding


def some_queues() -> list[Queue]:
    chosen = random.Random(7)
    found = dict.fromkeys(
        Queue(
            chosen.randint(2, 3),
            chosen.randint(1, 6),
            chosen.random() < 0.6,
            chosen.choice((0, 1, 2, 3)),
            chosen.random() < 0.2,
            chosen.choice((None, None, 0, 1, -1, 2, 5)),
        )
        for _ in range(160)
    )
    return [*found, Queue(3, 6, own=True, more=3, pair=False, beside=None)]


def test_random_queues_as_all_executions():
    seen = set()
    for queue in some_queues():
        races, finding = queue.races(), verified(queue.text(), queue.blocks)
        expected = Verdict.REFUTED if races else Verdict.VERIFIED
        assert finding.verdict is expected, (queue, finding.notes, finding.diagnostics)
        seen.add((races, queue.own, queue.beside is None))
    assert len(seen) == 8


def test_the_execution_is_named():
    finding = verified(Queue(3, 7, own=True, more=0, pair=False, beside=None).text(), 3)
    assert finding.verdict is Verdict.REFUTED
    (how,) = {help_ for item in finding.diagnostics for help_ in item.helps}
    assert "CTA (0, 0, 0) draws numbers 0, 1, 2, ..., 7 of the counter at global+" in how
    assert "CTA (1, 0, 0) draws number 8 of" in how


def test_fences_may_order_what_a_counter_gives():
    queue = Queue(3, 7, own=True, more=0, pair=False, beside=None)
    text = queue.text().replace(
        DRAW, "	fence.acq_rel.gpu;\n" + DRAW + "	fence.acq_rel.gpu;\n"
    )
    assert verified(text, 3).verdict is Verdict.UNDECIDED
    right = Queue(3, 7, own=True, more=3, pair=False, beside=None)
    text = right.text().replace(
        DRAW, "	fence.acq_rel.gpu;\n" + DRAW + "	fence.acq_rel.gpu;\n"
    )
    assert verified(text, 3).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(("second", "verdict"), [(0, "REFUTED"), (6, "VERIFIED")])
def test_two_counters_one_after_the_other(second, verdict):
    # The tiles of the second counter are `second` words behind those of the first one.
    phase = (
        "{label}:	atom.relaxed.gpu.global.add.u32 %r1, [%d0+{at}], 1;\n"
        "	setp.ge.u32 %p1, %r1, 6;\n	@%p1 bra {after};\n	mad.wide.u32 %d2, %r1, 4, %d1;\n"
        "	st.global.u32 [%d2+{by}], %r0;\n	bra {label};\n"
    )
    one = phase.format(label="A", at=0, by=0, after="B")
    two = phase.format(label="B", at=4, by=4 * second, after="C")
    finding = verified(HEAD + one + two + "C:	ret;\n}\n", 3, 2)
    assert finding.verdict is Verdict[verdict], (finding.notes, finding.diagnostics)


@pytest.mark.parametrize(("behind", "verdict"), [(0, "REFUTED"), (2, "REFUTED"), (3, "VERIFIED")])
def test_draws_whose_number_is_fixed(behind, verdict):
    # Each block has a word of its own; those of two numbers that it draws lie `behind` words on.
    write = "	mad.wide.u32 %d2, {of}, 4, %d1;\n	st.global.u32 [%d2+{by}], %r0;\n"
    draws = 2 * (DRAW + write.format(of="%r1", by=4 * behind))
    # The next memory, which no number reaches, is the first block's.
    beyond = "	setp.ne.u32 %p1, %r0, 0;\n	@%p1 ret;\n"
    beyond += f"	st.global.u32 [%d1+{4 * behind + 24}], %r0;\n"
    text = HEAD + write.format(of="%r0", by=0) + draws + beyond + "	ret;\n}\n"
    finding = verified(text, 3)
    assert finding.verdict is Verdict[verdict], (finding.notes, finding.diagnostics)


@pytest.mark.parametrize(("apart", "verdict"), [(0, "REFUTED"), (24, "VERIFIED")])
def test_counters_of_single_blocks(apart, verdict):
    own = f"	mad.wide.u32 %d0, %r0, 4, %d0;\n	mad.wide.u32 %d1, %r0, {apart}, %d1;\n"
    queue = Queue(3, 6, own=False, more=0, pair=False, beside=None).text()
    finding = verified(queue.replace("%ctaid.x;\n", "%ctaid.x;\n" + own), 3, 3)
    assert finding.verdict is Verdict[verdict], (finding.notes, finding.diagnostics)


def test_few_numbers_where_runs_are_long(monkeypatch):
    monkeypatch.setattr(drawn_numbers, "INSTRUCTIONS_MAX", 500)
    right = Queue(2, 60, own=True, more=2, pair=False, beside=None)
    finding = verified(right.text(), 2)
    assert finding.verdict is Verdict.VERIFIED
    assert any(drawn_numbers.WINDOW in note for note in finding.notes)
    wrong = Queue(2, 60, own=False, more=0, pair=False, beside=2)
    assert verified(wrong.text(), 2).verdict is Verdict.REFUTED
