"""Hand-over between CTAs by a counter of tickets, against the memory model and by hand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations
from operator import eq, ge, lt, ne

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import part
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.litmus.decide import decide
from titan.litmus.language.text import read_litmus

REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.global .u32 count = 0;
.entry k(.param .u64 p, .param .u64 q) {
.reg .pred %p<9>;
.reg .b32 %r<32>;
.reg .b64 %d<32>;
.shared .u32 last;
.shared .align 16 .b8 s[256];
ld.param.u64 %d0, [p];
ld.param.u64 %d1, [q];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %nctaid.x;
mov.u32 %r9, %clock;
mad.wide.u32 %d2, %r2, 256, %d0;
mad.wide.u32 %d2, %r1, 4, %d2;
setp.eq.u32 %p0, %r1, 0;
setp.eq.u32 %p1, %r1, 32;
"""


def found(body: str, grid: str = "4", start: str = "[0]") -> tuple[Verdict, str]:
    """The verdict on a kernel of two warps with these instructions."""
    parameters = f"[pointer, {{pointer: {{u32: {start}}}}}]"
    text = f"{{grid: {grid}, block: 64, shared: 0, parameters: {parameters}}}"
    launch, errors = read_launch_text(text, "k.yaml")
    assert errors == []
    source = Source("k.ptx", HEAD + body + "\nret;\n}\n")
    (finding,) = verify_code(source, launch, CodeOptions(), [], 0.0)
    headlines = [item.headline for item in finding.diagnostics]
    helps = [text for item in finding.diagnostics for text in item.helps]
    return finding.verdict, "; ".join([*headlines, *helps, *finding.notes])


# ------------------------------------------------------------------- the last block, by hand

WRITE = "st.global.u32 [%d2], %r9;"
FENCE = "membar.gl;"
BAR = "bar.sync 0;"
DRAW = "@%p0 atom.global.add.u32 %r5, [%d1], 1;"
LAST = "add.u32 %r6, %r3, -1;"
COMPARE = "setp.eq.u32 %p2, %r5, %r6; selp.u32 %r7, 1, 0, %p2;"
PASS = "@%p0 st.shared.u32 [last], %r7; bar.sync 0; ld.shared.u32 %r8, [last];"
LEAVE = "setp.eq.u32 %p3, %r8, 0; @%p3 bra END;"
READ = """mov.u32 %r10, 0;
LOOP: mad.wide.u32 %d4, %r10, 256, %d0;
mad.wide.u32 %d4, %r1, 4, %d4;
ld.global.u32 %r11, [%d4];
add.u32 %r10, %r10, 1;
setp.lt.u32 %p4, %r10, %r3;
@%p4 bra LOOP;
@%p0 st.global.u32 [%d0+65536], 1;"""
RIGHT = (WRITE, FENCE, BAR, DRAW, LAST, COMPARE, PASS, LEAVE, FENCE, READ, "END:")
_INC = "@%p0 atom.global.inc.u32 %r5, [%d1], %r6;"


def edited(**edits: str) -> str:
    """The last block of a reduction with some of its parts replaced, by number."""
    return "\n".join(edits.get(f"at{n}", text) for n, text in enumerate(RIGHT))


COPIED = READ.replace(
    "ld.global.u32 %r11, [%d4];",
    """mov.u32 %r14, s; mad.lo.u32 %r14, %r1, 4, %r14;
    cp.async.ca.shared.global [%r14], [%d4], 4; cp.async.wait_all; ld.shared.u32 %r11, [%r14];""",
)
CASES = {
    "as it should be": (edited(), VERIFIED),
    "the counter wraps": (edited(at3=LAST + _INC), VERIFIED),
    "the counter is set back": (edited(at9=READ + "@%p0 st.global.u32 [%d1], 0;"), VERIFIED),
    "a counter of the module": (edited(at3=DRAW.replace("%d1", "count")), VERIFIED),
    "tickets two apart": (
        edited(at3=DRAW.replace(", 1;", ", 2;"), at4="add.u32 %r6, %r3, -1; shl.b32 %r6, %r6, 1;"),
        VERIFIED),
    "fences by the thread of the atomic": (
        edited(at1="", at3=f"@%p0 {FENCE} {DRAW} @%p0 {FENCE}", at8=""), VERIFIED),
    "an atomic that releases and acquires": (
        edited(at1="", at3=DRAW.replace("global", "acq_rel.gpu.global"), at8=""), VERIFIED),
    "no fence before": (edited(at1=""), REFUTED),
    "no fence behind": (edited(at8=""), REFUTED),
    "a fence for the block": (edited(at1="membar.cta;"), REFUTED),
    "no barrier before the ticket": (edited(at2=""), REFUTED),
    "fences without fence.sc by other threads": (
        edited(at1="fence.acq_rel.gpu;", at8="fence.acq_rel.gpu;"), REFUTED),
    "read by cp.async": (edited(at9=COPIED), VERIFIED),
    "read by cp.async, no fence before": (edited(at9=COPIED, at1=""), REFUTED),
    "read by cp.async, no fence behind": (edited(at9=COPIED, at8=""), REFUTED),
    "one ticket too early": (edited(at4="add.u32 %r6, %r3, -2;"), REFUTED),
    "the last two": (edited(at5=COMPARE.replace("eq", "ge"), at4="add.u32 %r6, %r3, -2;"), REFUTED),
    "the first": (edited(at4="mov.u32 %r6, 0;"), REFUTED),
    "another thread draws": (edited(at3=DRAW.replace("%p0", "%p1")), REFUTED),
    "an atomic for the block": (edited(at3=DRAW.replace("global", "cta.global")), REFUTED),
    "read-only loads": (edited(at9=READ.replace("ld.global", "ld.global.nc")), REFUTED),
    "written behind the ticket": (edited(at0="", at6=WRITE + PASS), REFUTED),
    "all write the result": (edited(at7=LEAVE, at10="END: @%p0 st.global.u32 [%d0+65536], %r2;"),
                             REFUTED),
    "never the last": (edited(at4="mov.u32 %r6, 99;"), VERIFIED),
    "it waits for the others": (
        edited(at7="W: ld.volatile.global.u32 %r8, [%d1]; setp.lt.u32 %p3, %r8, %r3; @%p3 bra W;"),
        UNDECIDED),
    "twice": (edited(at10=f"END: bar.sync 0; {DRAW} {WRITE}"), UNDECIDED),
    "set back too early": (edited(at3=DRAW + "@%p0 st.global.u32 [%d1], 0;"), UNDECIDED),
    "data decide whether it draws": (
        edited(at3="@%p0 ld.global.u32 %r20, [%d0+70000]; setp.eq.u32 %p5, %r20, 0;"
               "and.pred %p0, %p0, %p5;" + DRAW), UNDECIDED),
}  # fmt: skip
SLOW = ("it waits for the others",)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.heavy) if n in SLOW else n for n in CASES]
)
def test_the_last_block_of_a_reduction(name: str) -> None:
    body, verdict = CASES[name]
    got, text = found(body)
    assert got is verdict, text
    if got is REFUTED:
        assert "nothing orders" in text or "stays is open" in text


def test_large_grids_are_followed_where_the_ticket_is_compared_once() -> None:
    assert found(CASES["as it should be"][0], grid="40")[0] is VERIFIED
    assert found(CASES["no fence before"][0], grid="40")[0] is REFUTED
    assert found(CASES["the last two"][0], grid="40")[0] is UNDECIDED
    middle = edited(at4="mov.u32 %r6, 20;")
    assert found(middle, grid="40")[0] is UNDECIDED
    stored = edited(at3=DRAW + "@%p0 st.global.u32 [%d2+131072], %r5;")
    assert found(stored, grid="40")[0] is UNDECIDED


def test_the_number_at_the_start_counts() -> None:
    body = CASES["as it should be"][0]
    assert found(body, start="[7]")[0] is VERIFIED  # nobody is the last
    assert found(body.replace("%r3, -1;", "%r3, 6;"), start="[7]")[0] is VERIFIED
    assert found(CASES["no fence before"][0], start="[1]")[0] is REFUTED  # the one before the last
    verdict, text = found(body.replace("[%d1], 1", "[%d1+8], 1"))
    assert verdict is UNDECIDED and "the launch may give it" in text


def test_blocks_that_draw_no_ticket_take_part() -> None:
    leaves = "setp.eq.u32 %p6, %r2, 0; @%p6 bra END;"
    others = edited(at0=leaves + WRITE, at4="add.u32 %r6, %r3, -2;",
                    at9=READ.replace("mov.u32 %r10, 0", "mov.u32 %r10, 1"))  # fmt: skip
    assert found(others)[0] is VERIFIED
    assert found(others.replace("%r10, 1;\nLOOP", "%r10, 0;\nLOOP").replace(
        leaves, WRITE + leaves))[0] is REFUTED  # fmt: skip


def test_each_row_of_a_grid_has_its_counter() -> None:
    own = """mov.u32 %r21, %ctaid.y; mad.wide.u32 %d1, %r21, 4, %d1;
mul.lo.u32 %r22, %r21, 1024; cvt.u64.u32 %d9, %r22; add.s64 %d0, %d0, %d9;
add.s64 %d2, %d2, %d9;"""
    apart = READ
    rows = edited(at0=own + WRITE, at9=apart)
    assert found(rows, grid="[3, 2]", start="[0, 0]")[0] is VERIFIED
    shared = edited(at0=own.replace("mad.wide.u32 %d1, %r21, 4, %d1;", "") + WRITE, at9=apart)
    assert found(shared, grid="[3, 2]", start="[0, 0]")[0] is not VERIFIED
    overlapping = edited(at0=own.replace("1024", "256") + WRITE, at9=apart)
    assert found(overlapping, grid="[3, 2]", start="[0, 0]")[0] is REFUTED
    crossed = edited(at0=own.replace("d1, %r21", "d1, %r23") + WRITE, at9=apart)
    crossed = "mov.u32 %r23, %ctaid.x; " + crossed.replace("%r3, -1", "%r24, -1")
    crossed = "mov.u32 %r24, %nctaid.y; " + crossed
    verdict, text = found(crossed, grid="[3, 2]", start="[0, 0, 0]")
    assert verdict is REFUTED and "different counters" in text


# -------------------------------------------------------------- against the memory model


@dataclass(frozen=True)
class _Program:
    """Two threads of each of two CTAs; the first draws the ticket. Steps are (thread, text), a
    barrier has thread -1."""

    writer: int
    reader: int
    before: tuple[tuple[int, str], ...]
    written: int  # steps before the write
    atomic: str
    behind: tuple[tuple[int, str], ...]
    late: tuple[tuple[int, str], ...]

    def ptx(self) -> str:
        """As a kernel, in which the last CTA reads what the other one has written."""
        lines = ["mad.wide.u32 %d3, %r2, 4, %d0; xor.b32 %r12, %r2, 1;",
                 "mad.wide.u32 %d4, %r12, 4, %d0;"]  # fmt: skip
        steps = [*self.before]
        steps.insert(self.written, (self.writer, "st.global.u32 [%d3], 7;"))
        lines += map(_guarded, steps)
        lines.append(f"@%p0 atom.{self.atomic}.global.add.u32 %r5, [%d1], 1;")
        lines += map(_guarded, self.behind)
        lines += ["setp.eq.u32 %p2, %r5, 1; selp.u32 %r7, 1, 0, %p2;", PASS]
        lines += map(_guarded, self.late)
        lines.append(f"setp.eq.u32 %p3, %r8, 1; and.pred %p3, %p3, %p{self.reader};")
        lines.append("@%p3 ld.global.u32 %r9, [%d4];")
        return "\n".join(lines)

    def litmus(self) -> str:
        """The first CTA draws the first ticket, the second one reads behind the second."""
        texts = []
        for cta in range(2):
            for thread in range(2):
                texts.append(self._column(cta, thread))
        height = max(map(len, texts))
        rows = [[*column, *[""] * (height - len(column))] for column in texts]
        body = "\n".join(" | ".join(cells) + " ;" for cells in zip(*rows, strict=True))
        return f"PTX random\n{{\nx = 0;\nl = 0;\n}}\n{body}\n{_QUESTION}\n"

    def _column(self, cta: int, thread: int) -> list[str]:
        lines = [f"P{2 * cta + thread}@cta {cta},cluster {cta},gpu 0"]
        steps = [*self.before]
        if cta == 0:
            steps.insert(self.written, (self.writer, "st.weak x, 1"))
        steps.append((0, f"atom.{self.atomic}.add r1, l, 1"))
        steps += [*self.behind, (-1, "bar.sync 0"), *self.late]
        if cta == 1:
            steps.append((self.reader, "ld.weak r2, x"))
        return lines + [text.rstrip(";") for by, text in steps if by in (-1, thread)]


_QUESTION = "exists ((P2:r1=1 /\\ race(x)) \\/ race(l))"


def _guarded(step: tuple[int, str]) -> str:
    by, text = step
    return f"@%p{by} {text}" if by >= 0 else text


_FENCES = ("fence.sc.gpu;", "fence.acq_rel.gpu;", "fence.acq_rel.cta;", "fence.sc.cluster;")
_STEPS = st.one_of(
    st.tuples(st.sampled_from((0, 1)), st.sampled_from(_FENCES)),
    st.tuples(st.sampled_from((0, 1)), st.sampled_from(_FENCES[:2])),
    st.just((-1, "bar.sync 0;")),
)
_ATOMICS = ("relaxed.gpu", "relaxed.gpu", "acq_rel.gpu", "release.gpu", "acquire.sys",
            "relaxed.cta")  # fmt: skip


@st.composite
def _programs(draw: st.DrawFn) -> _Program:
    before = tuple(draw(st.lists(_STEPS, max_size=4)))
    return _Program(
        draw(st.sampled_from((0, 1))),
        draw(st.sampled_from((0, 1))),
        before,
        draw(st.integers(0, max(0, len(before) - 1))),
        draw(st.sampled_from(_ATOMICS)),
        tuple(draw(st.lists(_STEPS, max_size=2))),
        tuple(draw(st.lists(_STEPS, max_size=2))),
    )


@settings(max_examples=part(400, of=12), deadline=None, derandomize=True)
@given(_programs())
def test_random_programs_as_the_memory_model_has_them(program: _Program) -> None:
    test = read_litmus("random.litmus", program.litmus())
    racy = decide(test, recheck=False).allowed
    verdict, text = found(program.ptx(), grid="2")
    assert racy is not None
    assert verdict is (REFUTED if racy else VERIFIED), (program.litmus(), text)


# ------------------------------------------------------------- against every order of tickets

CTAS = 3
_COMPARED = {"eq": eq, "ne": ne, "lt": lt, "ge": ge}


@dataclass(frozen=True)
class _Step:
    """One access by the first thread: a write or not, of a slot that may depend on the CTA or its
    ticket, behind the ticket perhaps under a condition on it."""

    writes: bool
    by: str
    slot: int
    condition: tuple[str, int] | None = None

    def touched(self, cta: int, ticket: int) -> int | None:
        """The slot, if the step is taken."""
        if self.condition is not None:
            word, number = self.condition
            if not _COMPARED[word](ticket, number):
                return None
        return self.slot + {"cta": cta, "ticket": ticket, "": 0}[self.by]

    def ptx(self) -> str:
        """The step as instructions."""
        number = {"cta": "%r2", "ticket": "%r5", "": "0"}[self.by]
        guard = "mov.pred %p4, %p0;"
        if self.condition is not None:
            word, compared = self.condition
            guard = f"setp.{word}.u32 %p4, %r5, {compared}; and.pred %p4, %p4, %p0;"
        place = f"mov.u32 %r13, {number}; mad.wide.u32 %d6, %r13, 4, %d0;"
        at = f"[%d6+{4096 + 4 * self.slot}]"
        done = f"st.global.u32 {at}, %r14;" if self.writes else f"ld.global.u32 %r15, {at};"
        return f"{guard} {place} @%p4 {done}"


@dataclass(frozen=True)
class _Roles:
    """What each CTA does before its ticket and behind it, with a fence on each side or without."""

    before: tuple[_Step, ...]
    behind: tuple[_Step, ...]
    released: bool
    acquired: bool

    def ptx(self) -> str:
        """As a kernel; what a CTA writes is its number."""
        lines = ["add.u32 %r14, %r2, 1;", *(step.ptx() for step in self.before)]
        lines += [FENCE] * self.released
        lines.append(DRAW)
        lines += [FENCE] * self.acquired
        return "\n".join([*lines, *(step.ptx() for step in self.behind)])

    def races(self) -> bool:
        """Whether some order of the CTAs has accesses that conflict and are not ordered."""
        return any(
            self._in_order(one, two)
            for order in permutations(range(CTAS))
            for one, two in combinations(enumerate(order), 2)
        )

    def _in_order(self, one: tuple[int, int], two: tuple[int, int]) -> bool:
        """Each a ticket and a CTA, the earlier one first."""
        for first, early in self._accesses():
            for second, late in self._accesses():
                slots = first.touched(one[1], one[0]), second.touched(two[1], two[0])
                handed = self.released and self.acquired and early and not late
                clash = slots[0] is not None and slots[0] == slots[1]
                if clash and (first.writes or second.writes) and not handed:
                    return True
        return False

    def _accesses(self) -> list[tuple[_Step, bool]]:
        before = [(step, True) for step in self.before]
        behind = [(step, False) for step in self.behind]
        return [*before, *behind]


_CONDITIONS = st.one_of(
    st.none(), st.tuples(st.sampled_from(sorted(_COMPARED)), st.integers(0, CTAS - 1))
)
_BEFORE = st.builds(_Step, st.booleans(), st.sampled_from(("cta", "cta", "")), st.integers(0, 3))
_BEHIND = st.builds(
    _Step, st.booleans(), st.sampled_from(("cta", "ticket", "")), st.integers(0, 3), _CONDITIONS
)
_FENCED = st.sampled_from((True, True, True, False))
_ROLES = st.builds(
    _Roles, st.lists(_BEFORE, max_size=2).map(tuple), st.lists(_BEHIND, max_size=3).map(tuple),
    _FENCED, _FENCED,
)  # fmt: skip


@settings(max_examples=part(400, of=12), deadline=None, derandomize=True)
@given(_ROLES)
def test_random_roles_in_every_order(roles: _Roles) -> None:
    verdict, text = found(roles.ptx(), grid=str(CTAS))
    assert verdict is (REFUTED if roles.races() else VERIFIED), (roles.ptx(), text)
