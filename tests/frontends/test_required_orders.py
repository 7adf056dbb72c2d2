"""Orders that PTX asks for and that no wait shows: an arrival that must not complete its phase
needs another one behind it, a permit to allocate is given up behind the last allocation."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding

KERNEL = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x)
.reqntid THREADS
{
  .reg .pred %p<8>;
  .reg .b32 %r<8>;
  .reg .b64 %d<8>;
  .shared .align 128 .b8 s[1024];
  .shared .align 8 .b64 b;
  .shared .align 4 .b32 w;
  ld.param.u64 %d1, [x];
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  setp.eq.u32 %p0, %r1, 0;
  setp.eq.u32 %p1, %r1, 1;
  setp.eq.u32 %p2, %r1, 32;
  setp.eq.u32 %p3, %r2, 0;
  setp.eq.u32 %p4, %r2, 1;
  @%p0 mbarrier.init.shared.b64 [b], COUNT;
  bar.sync 0;
BODY
W:
  mbarrier.try_wait.parity.shared.b64 %p7, [b], 0;
  @!%p7 bra W;
  ret;
}
"""
ARRIVE = "mbarrier.arrive.shared.b64 %d2, [b];"
KEEP = "mbarrier.arrive.noComplete.shared.b64 %d2, [b], 1;"
DROP = "mbarrier.arrive_drop.noComplete.shared.b64 %d2, [b], 1;"
EXPECT = "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 64;"
COPY = """@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
  [s], [%d1], 64, [b];"""
MEET, LANES = "bar.sync 0;", "bar.warp.sync -1;"
ALLOCATE = "@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [w], 32;"
GIVE_UP = "@{} tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
GIVE_BACK = """bar.sync 0; ld.shared.u32 %r3, [w]; bar.sync 0;
@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;"""


def finding_of(body: str, count: int, threads: int = 64) -> Finding:
    """What is found of a kernel with an mbarrier of `count` arrivals."""
    launch, errors = read_launch_text("{grid: 1, parameters: [pointer]}", "l")
    assert errors == []
    text = KERNEL.replace("BODY", body).replace("COUNT", str(count))
    source = Source("k.ptx", text.replace("THREADS", str(threads)))
    (finding,) = verify_code(source, launch, CodeOptions(schedules=1), [], 0.0)
    return finding


@pytest.mark.parametrize(
    ("body", "count", "code"),
    [
        # The thread itself, another one of its warp, one of another warp.
        (f"@%p0 {KEEP} @%p0 {ARRIVE}", 2, ""),
        (f"@%p0 {KEEP} @%p1 {ARRIVE}", 2, "TTN206"),
        (f"@%p0 {KEEP} {LANES} @%p1 {ARRIVE}", 2, ""),
        (f"@%p0 {KEEP} @%p2 {ARRIVE}", 2, "TTN206"),
        (f"@%p0 {KEEP} {MEET} @%p2 {ARRIVE}", 2, ""),
        (f"@%p0 {DROP} @%p2 {ARRIVE}", 2, "TTN206"),
        (f"@%p0 {DROP} {MEET} @%p2 {ARRIVE}", 2, ""),
        # All lanes, each before its own or before that of one.
        (f"{KEEP} {ARRIVE}", 128, ""),
        (f"{KEEP} @%p0 {ARRIVE}", 65, "TTN206"),
        (f"{KEEP} {MEET} @%p0 {ARRIVE}", 65, ""),
        # Bytes that come behind it, or perhaps before.
        (f"{EXPECT} @%p0 {KEEP} {COPY}", 1, ""),
        (f"{EXPECT} {COPY} @%p0 {KEEP}", 1, "TTN206"),
        (f"{EXPECT} {COPY} {MEET} @%p2 {KEEP}", 1, "TTN206"),
        (f"{EXPECT} {MEET} @%p2 {KEEP} {MEET} {COPY}", 1, ""),
        # The permit: given up by the warp that allocates, or by another.
        (f"{ALLOCATE} {GIVE_UP.format('%p3')} {GIVE_BACK} @%p0 {ARRIVE}", 1, ""),
        (f"{ALLOCATE} {GIVE_UP.format('%p4')} {GIVE_BACK} @%p0 {ARRIVE}", 1, "TTN219"),
        (f"{ALLOCATE} {MEET} {GIVE_UP.format('%p4')} {GIVE_BACK} @%p0 {ARRIVE}", 1, ""),
        (f"{GIVE_UP.format('%p4')} {ALLOCATE} {GIVE_BACK} @%p0 {ARRIVE}", 1, "TTN219"),
    ],
)
def test_an_order_that_a_rule_asks_for(body, count, code):
    finding = finding_of(body, count)
    assert {item.code for item in finding.diagnostics} == ({code} if code else set())
    assert finding.verdict is (Verdict.REFUTED if code else Verdict.VERIFIED), finding.notes


def test_a_phase_that_never_ends_cannot_be_completed():
    body = f"@%p0 {KEEP} @%p2 {ARRIVE} bra END;"
    finding = finding_of(body, 3)
    assert "TTN206" not in {item.code for item in finding.diagnostics}
    ended = KERNEL.replace("  ret;", "END:\n  ret;")
    launch, _ = read_launch_text("{grid: 1, parameters: [pointer]}", "l")
    text = ended.replace("BODY", body).replace("COUNT", "3").replace("THREADS", "64")
    (finding,) = verify_code(Source("k.ptx", text), launch, CodeOptions(schedules=1), [], 0.0)
    assert finding.verdict is Verdict.VERIFIED, finding.notes


Program = tuple[str, ...]  # for each warp: `a` arrives, `n` must not complete, `|` meets the others


def last_ones(programs: tuple[Program, ...]) -> Iterator[str]:
    """The arrival that completes the phase, in each interleaving."""
    seen, waiting = set(), [((0,) * len(programs), "")]
    while waiting:
        state = waiting.pop()
        if state in seen:
            continue
        seen.add(state)
        places, last = state
        ahead = [
            warp[at] if at < len(warp) else "" for warp, at in zip(programs, places, strict=True)
        ]
        if not any(ahead):
            yield last
        if all(step == "|" for step in ahead):
            waiting.append((tuple(at + 1 for at in places), last))
        for number, step in enumerate(ahead):
            if step in ("a", "n"):
                moved = tuple(at + (n == number) for n, at in enumerate(places))
                waiting.append((moved, step))


def written(programs: tuple[Program, ...]) -> str:
    """The programs, each by the first lane of a warp."""
    lines = ["setp.eq.u32 %p5, %r1, 0; setp.eq.u32 %p6, %r1, 64;"]
    lanes = ("%p5", "%p2", "%p6")
    meetings = programs[0].count("|")
    parts = ["".join(program).split("|") for program in programs]
    for number in range(meetings + 1):
        for lane, part in zip(lanes, parts, strict=True):
            lines += [f"@{lane} {KEEP if step == 'n' else ARRIVE}" for step in part[number]]
        if number < meetings:
            lines.append(MEET)
    return "\n".join(lines)


def drawn(draw: random.Random) -> tuple[Program, ...]:
    """Three programs with the same number of meetings, and some arrival."""
    meetings = draw.randrange(3)
    parts = [["".join(draw.choices("aan", k=draw.randrange(3))) for _ in range(meetings + 1)]
             for _ in range(3)]  # fmt: skip
    return tuple(tuple("|".join(part)) for part in parts)


def test_all_interleavings_of_three_warps():
    draw, verdicts = random.Random(5), set()
    for _ in range(40):
        programs = drawn(draw)
        count = sum(step in "an" for program in programs for step in program)
        if not count:
            continue
        wrong = "n" in set(last_ones(programs))
        finding = finding_of(written(programs), count, 96)
        expected = Verdict.REFUTED if wrong else Verdict.VERIFIED
        assert finding.verdict is expected, (programs, finding.diagnostics, finding.notes)
        verdicts.add(expected)
    assert len(verdicts) == 2
