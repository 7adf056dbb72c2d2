"""What strong accesses give: settled by order, or left undecided."""

from __future__ import annotations

import random

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import chosen

WARPS, CELLS = 3, 2
KERNEL = f"""
.version 8.3
.target sm_90a
.address_size 64
.global .align 16 .b8 g[64];
.visible .entry k()
.reqntid {32 * WARPS}
{{{{
	.reg .pred %p<8>;
	.reg .b32 %r<32>;
	.shared .align 16 .b8 s[64];
	mov.u32 %r0, %tid.x;
	and.b32 %r1, %r0, 31;
	shr.u32 %r2, %r0, 5;
	{{steps}}
	ret;
}}}}
"""


def step(number: int, warp: int, what: str, cell: int) -> str:
    """One step of one lane of a warp; -1: all meet. A load decides whether two lines are run."""
    if what == "meet":
        return "bar.sync 0;"
    mine = f"setp.eq.u32 %p1, %r2, {warp}; setp.eq.and.u32 %p1, %r1, 0, %p1;"
    if what == "load":
        skip = f"setp.eq.u32 %p2, %r3, 77; @%p2 bra S{number}; add.u32 %r4, %r4, 1; S{number}:"
        return f"{mine} mov.u32 %r3, 77; @%p1 ld.volatile.shared.u32 %r3, [s+{4 * cell}]; {skip}"
    return f"{mine} @%p1 st.{what}.u32 [s+{4 * cell}], {number};"


def story(seed: int) -> list[tuple[int, str, int]]:
    """Stores and loads of warps between barriers of all."""
    draw = random.Random(seed)
    found = [(0, "volatile.shared", 0), (0, "volatile.shared", 1), (-1, "meet", 0)]
    for _ in range(draw.choice((2, 3))):
        for _ in range(draw.choice((1, 2))):
            what = draw.choice(("load", "load", "volatile.shared", "shared"))
            found.append((draw.randrange(WARPS), what, draw.randrange(CELLS)))
        found.append((-1, "meet", 0))
    return found


def expected(steps: list[tuple[int, str, int]]) -> Verdict:
    """By intervals between barriers: what other warps do to a cell in one interval has no order.

    A plain store that meets another access is a race by itself. What strong accesses give and leave
    depends on which comes first, and all that is loaded decides control.
    """
    loaded = {cell for _, what, cell in steps if what == "load"}
    races, depends, steers, interval = False, False, False, 0
    numbered = []
    for warp, what, cell in steps:
        interval += what == "meet"
        if what != "meet":
            numbered.append((interval, warp, what, cell))
    for at, (when, warp, what, cell) in enumerate(numbered):
        for other_when, other, other_what, other_cell in numbered[:at]:
            if what == other_what == "load" or (when, cell) != (other_when, other_cell):
                continue
            if warp != other:
                races |= "shared" in (what, other_what)
                depends |= "shared" not in (what, other_what)
                steers |= cell in loaded
    if steers or (depends and not races):
        return Verdict.UNDECIDED
    return Verdict.REFUTED if races else Verdict.VERIFIED


def judged(steps: list[tuple[int, str, int]]) -> Verdict:
    lines = [step(number, *item) for number, item in enumerate(steps)]
    return verified(KERNEL.format(steps="\n\t".join(lines)), NOTHING).verdict


def test_reads_are_settled_exactly_where_order_settles_them():
    found = []
    for seed in range(60):
        steps = story(seed)
        verdict = judged(steps)
        assert verdict is expected(steps), (seed, steps)
        found.append(verdict)
    assert found.count(Verdict.VERIFIED) >= 20 and found.count(Verdict.UNDECIDED) >= 10


ORDERED = "@%p1 st.volatile.{space}.u32 [{place}], 5; bar.sync 0;"
READ = "ld.volatile.{space}.u32 %r3, [{place}]; setp.eq.u32 %p2, %r3, 5; @%p2 bra E; E:"


@pytest.mark.parametrize(
    ("space", "place", "change", "verdict"),
    [
        ("shared", "s", "", Verdict.VERIFIED),
        (
            "shared",
            "s",
            "bar.sync 0; @%p3 red.shared.add.u32 [s], 1; bar.sync 0;",
            Verdict.VERIFIED,
        ),
        ("shared", "s", "bar.sync 0; @%p3 red.shared.add.u32 [s], 1;", None),
        ("global", "g", "", None),  # another cluster may write it
    ],
)
def test_what_is_left_open(space, place, change, verdict):
    first = "setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p3, %r0, 64;"
    read = "setp.ge.u32 %p4, %r0, 32; @!%p4 bra E; " + READ
    steps = (first + ORDERED + change + read).format(space=space, place=place)
    found = verified(KERNEL.format(steps=steps), NOTHING).verdict
    assert found is (verdict or Verdict.UNDECIDED)


def test_a_race_elsewhere_does_not_leave_them_open():
    first = "setp.eq.u32 %p1, %r0, 0;"
    read = "setp.ge.u32 %p4, %r0, 32; @!%p4 bra E; " + READ
    steps = (first + ORDERED + read).format(space="shared", place="s")
    race = " st.shared.u32 [s+32], %r2;"
    assert verified(KERNEL.format(steps=steps + race), NOTHING).verdict is Verdict.REFUTED


def test_what_is_in_flight_at_the_end_does_not_leave_them_open():
    first = "setp.eq.u32 %p1, %r0, 0;"
    read = "setp.ge.u32 %p4, %r0, 32; @!%p4 bra E; " + READ
    steps = (first + ORDERED + read).format(space="shared", place="s")
    store = (
        " @%p1 st.shared.v4.u32 [s+32], {%r0, %r0, %r0, %r0}; fence.proxy.async.shared::cta;"
        " .reg .b64 %d<2>;"
        " mov.u64 %d1, g; cvta.global.u64 %d1, %d1; @%p1 cp.async.bulk.global"
        ".shared::cta.bulk_group [%d1], [s+32], 16; @%p1 cp.async.bulk.commit_group;"
    )
    found = verified(KERNEL.format(steps=steps + store), NOTHING)
    assert found.verdict is Verdict.REFUTED and codes(found) == ["TTN211"], found.notes
    waits = store + " @%p1 cp.async.bulk.wait_group.read 0;"
    assert verified(KERNEL.format(steps=steps + waits), NOTHING).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("use", "verdict"), [("", "VERIFIED"), ("@%p5 st.shared.u32 [s+40], %r4;", "REFUTED")]
)
def test_beside_them_what_is_used_is_looked_at(use, verdict):
    first = "setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p3, %r0, 64; setp.eq.or.u32 %p5, %r0, 32, %p3;"
    read = "setp.ge.u32 %p4, %r0, 32; @!%p4 bra E; " + READ
    ordered = ORDERED.replace("st.volatile", "st")
    steps = (first + ordered + read).format(space="shared", place="s")
    races = f" @%p5 ld.shared.u32 %r4, [s+32]; @%p3 st.shared.u32 [s+32], %r2; {use}"
    found = verified(KERNEL.format(steps=steps + races), NOTHING)
    assert found.verdict is Verdict[verdict], (found.notes, found.diagnostics)


COUNTING = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 counter, .param .u64 out)
.reqntid 64
{{
	.reg .pred %p<8>;
	.reg .b32 %r<32>;
	.reg .b64 %d<8>;
	.shared .align 16 .b8 s[64];
	mov.u32 %r0, %tid.x;
	ld.param.u64 %d0, [counter];
	ld.param.u64 %d1, [out];
TILE:
	setp.ne.u32 %p1, %r0, 0;
	@%p1 bra TAKEN;
	{take}
	st.shared.u32 [s], %r1;
TAKEN:
	bar.sync 0;
	ld.shared.u32 %r2, [s];
	setp.ge.u32 %p2, %r2, 6;
	@%p2 ret;
	mad.lo.u32 %r3, %r2, 64, %r0;
	mul.wide.u32 %d2, %r3, 4;
	add.u64 %d2, %d2, %d1;
	st.global.u32 [%d2], %r0;
	{before}
	bra TILE;
}}
"""
TAKE = "atom.global.add.u32 %r1, [%d0], 1;"
ZERO = "grid: [3]\nparameters: [{pointer: {u32: 0}}, pointer]"


@pytest.mark.parametrize(
    ("take", "before", "verdict"),
    [
        (TAKE, "bar.sync 0;", Verdict.VERIFIED),
        (TAKE, "", Verdict.REFUTED),  # the next tile is taken before all have read this one
        # Another one looks at the counter, which is then more than a counter.
        (TAKE, "ld.relaxed.gpu.global.u32 %r5, [%d0]; bar.sync 0;", Verdict.UNDECIDED),
        # The value is not that of an addition.
        ("atom.global.exch.b32 %r1, [%d0], 7;", "bar.sync 0;", Verdict.UNDECIDED),
    ],
)
def test_tiles_that_a_counter_of_the_grid_gives(take, before, verdict):
    finding = verified(COUNTING.format(take=take, before=before), ZERO)
    assert finding.verdict is verdict, (finding.notes, finding.diagnostics)
    if verdict is Verdict.VERIFIED:
        assert finding.coverage.launches[-1] == "counters raised by it alone: CTA (0, 0, 0)"
        assert any("raise a counter that steers in turn" in note for note in finding.notes)


LAST = """
	.reg .b32 %q<4>;
	ld.param.u64 %d0, [counter];
	ld.param.u64 %d1, [out];
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, %ctaid.x;
	setp.ne.u32 %p1, %r0, 0;
	@%p1 ret;
	mul.wide.u32 %d2, %r1, 4;
	add.u64 %d2, %d2, %d1;
	st.global.u32 [%d2], %r1;
	fence.acq_rel.gpu;
	atom.global.add.u32 %r2, [%d0], 1;
	setp.ne.u32 %p2, %r2, 2;
	@%p2 ret;
	fence.acq_rel.gpu;
	ld.global.u32 %r3, [%d1];
	ret;
"""


@pytest.mark.parametrize("left_out", [None, 0, 1])
def test_what_blocks_hand_over_by_a_counter(left_out):
    head, tail = COUNTING.split("	mov.u32 %r0, %tid.x;", maxsplit=1)[0], "}"
    parts = LAST.split("	fence.acq_rel.gpu;\n")
    fences = ["" if n == left_out else "	fence.acq_rel.gpu;\n" for n in range(2)]
    body = parts[0] + fences[0] + parts[1] + fences[1] + parts[2]
    finding = verified(head.replace("{{", "{") + body + tail, ZERO)
    expected = Verdict.VERIFIED if left_out is None else Verdict.REFUTED
    assert finding.verdict is expected, (finding.notes, finding.diagnostics)


VALUES = """setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 1; setp.eq.u32 %p3, %r0, 64;
    .reg .b64 %d<4>; mov.u64 %d1, g; cvta.global.u64 %d1, %d1;
    ld.global.f32 %r5, [%d1]; shl.b32 %r6, %r0, 2; shr.u32 %r7, %r6, 1; and.b32 %r7, %r7, 28;
"""
OTHER_LANE = "@%p1 st.volatile.shared.f32 [s], %r5; {} @%p2 ld.volatile.shared.f32 %r8, [s];"
OTHER_WARP = "@%p1 st.volatile.shared.f32 [s], %r5; {} @%p3 ld.volatile.shared.f32 %r8, [s];"
TICKETS = "@{} atom.shared.add.u32 %r8, [s], 1; {} @%p3 atom.shared.add.u32 %r8, [s], 1;"
LEFT = "@%p1 st.volatile.shared.u32 [s], {}; @{} st.volatile.shared.u32 [s], 2;"
KEEP = " st.shared.u32 [s+32], 7; add.u32 %r9, %r8, 1;"
MEET, ALL = "bar.warp.sync -1;", "bar.sync 0;"


@pytest.mark.parametrize(
    ("steps", "settled"),
    [
        (OTHER_LANE.format(MEET), True),
        (OTHER_LANE.format(""), False),
        (OTHER_WARP.format(ALL), True),
        (OTHER_WARP.format(MEET), False),
        (TICKETS.format("%p1", ALL), True),
        (TICKETS.format("%p1", ""), False),
        (TICKETS.format("!%p3", ALL), False),  # several lanes of one warp
        (LEFT.format(2, "%p3"), True),
        (LEFT.format(1, "%p3"), False),
        (LEFT.format(1, "%p2"), False),
        ("@!%p3 st.volatile.shared.f32 [s], %r5;", True),
        ("@!%p3 st.volatile.shared.u32 [s], %r0;", False),  # lanes of one store
        ("red.shared.add.u32 [s], 1; red.shared.add.u32 [s], %r0;", True),
        ("@%p1 red.shared.add.u32 [s], 1; @%p3 red.shared.max.u32 [s], 1;", False),
        ("@%p1 red.shared.add.u32 [s], 1; bar.sync 0; @%p3 red.shared.max.u32 [s], 1;", True),
        ("@%p1 atom.shared.exch.b32 %r10, [s], 1; @%p3 atom.shared.exch.b32 %r10, [s], 2;", False),
        ("atom.shared.add.u32 %r10, [s], 1;", True),  # nothing reads what it gives
        ("mov.u32 %r10, 0; @%p3 atom.shared.add.u32 %r10, [s], 1;", True),
        ("mov.u32 %r8, 0; @!%p3 atom.shared.add.u32 %r8, [s], 1;", False),
    ],
)
def test_data_from_strong_accesses_is_settled_by_order(steps, settled):
    """Whether or not it decides control."""
    text = KERNEL.format(steps=VALUES + steps + KEEP)
    finding = verified(text, NOTHING)
    assert finding.verdict is (Verdict.VERIFIED if settled else Verdict.UNDECIDED), finding.notes
    if not settled and "depends on the interleaving" in " ".join(finding.notes):
        allowed = chosen((("unsettled", "allow"),))
        assert verified(text, NOTHING, policies=allowed).verdict is Verdict.VERIFIED
