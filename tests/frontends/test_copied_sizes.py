"""What `cp.async` reads where it says how much: bounds and races are of these bytes alone.

Expected is what a model of single bytes gives, which knows no machine.
"""

from __future__ import annotations

from random import Random

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding

AT, REACH = 0x10000, 256  # the array
KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to)
.reqntid 32
{
  .reg .pred %p<8>;
  .reg .b32 %r<32>;
  .reg .b64 %d<16>;
  .shared .align 16 .b8 s[1024];
  ld.param.u64 %d1, [from];
  ld.param.u64 %d2, [to];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, s;
  shl.b32 %r3, %r1, 4;
  add.u32 %r2, %r2, %r3;
  shl.b32 %r4, %r1, 2;
  cvt.u64.u32 %d4, %r4;
  BODY
  cp.async.commit_group;
  cp.async.wait_group 0;
  ret;
}
"""


def decided(body: str) -> Finding:
    """The finding where the first array alone is there, and the second."""
    launch = f"""{{grid: 1, shared: 0, allocations: [[{AT}, {REACH}], [0x80000, 4096]],
        parameters: {{from: {AT}, to: 0x80000}}}}"""
    described, errors = read_launch_text(launch, "k.yaml")
    assert errors == []
    options = CodeOptions(schedules=0)
    text = Source("k.ptx", KERNEL.replace("BODY", body))
    (finding,) = verify_code(text, described, options, [], 0.0)
    return finding


def codes(body: str) -> set[str]:
    finding = decided(body)
    assert finding.verdict is not Verdict.UNDECIDED, finding.notes
    return {item.code for item in finding.diagnostics}


# From the first byte behind `offset` of the array on, by one lane.
ONE = """setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE; mov.u32 %r5, {size}; setp.ne.u32 %p2, %r5, 0;
cp.async.{cache}.shared.global [%r2], [%d1+{offset}], {count}{operand}; DONE:"""
OPERANDS = {"a register": ", %r5", "a number": ", {size}", "none": "", "ignored": ", %p2"}


@pytest.mark.parametrize("way", OPERANDS)
@pytest.mark.parametrize(("cache", "count"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_bytes_that_are_filled_with_zeros_are_not_read(cache, count, way):
    for offset in (0, REACH - count, REACH, REACH + count):
        for size in sorted({0, 1, count // 2, count - 1, count}):
            operand = OPERANDS[way].format(size=size)
            text = ONE.format(offset=offset, size=size, cache=cache, count=count, operand=operand)
            reads = {"none": count, "ignored": 0 if size else count}.get(way, size)
            outside = bool(reads) and offset + reads > REACH
            assert codes(text) == ({"TTN218"} if outside else set()), (offset, size)


@pytest.mark.parametrize("seed", range(12))
def test_each_lane_reads_as_much_as_it_says(seed):
    """An array that ends within the 16 bytes of some lane, and sizes by lanes."""
    random = Random(seed)
    factor, limit = random.randint(1, 9), random.choice((4, 8, 16))
    offset = REACH - 16 * random.randint(1, 32)
    body = f"""mul.lo.u32 %r5, %r1, {factor}; rem.u32 %r5, %r5, {limit + 1};
        shl.b64 %d4, %d4, 2; add.s64 %d5, %d1, %d4;
        cp.async.cg.shared.global [%r2], [%d5+{offset}], 16, %r5;"""
    if random.random() < 0.7:  # nothing beyond the end
        body = body.replace("cp.async.cg", "END cp.async.cg").replace(
            "END",
            f"add.s64 %d6, %d4, {offset}; setp.ge.s64 %p1, %d6, {REACH}; @%p1 mov.u32 %r5, 0;"
            if random.random() < 0.5
            else f"sub.s64 %d6, {REACH - offset}, %d4; max.s64 %d6, %d6, 0; min.s64 %d6, %d6, 16;"
            "cvt.u32.u64 %r5, %d6;",
        )
    clamps = "cvt.u32.u64" in body
    cuts = "setp.ge" in body
    outside = False
    for lane in range(32):
        at, size = offset + 16 * lane, lane * factor % (limit + 1)
        size = max(0, min(16, REACH - at)) if clamps else 0 if cuts and at >= REACH else size
        outside |= size > 0 and (at < 0 or at + size > REACH)
    assert codes(body) == ({"TTN218"} if outside else set())


def test_the_whole_width_has_to_be_aligned():
    assert codes(ONE.format(offset=8, size=4, cache="cg", count=16, operand=", 4")) == {"TTN219"}


PAIRED = """add.s64 %d5, %d2, %d4; mov.u32 %r5, {size};
setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE; cp.async.ca.shared.global [%r2], [%d2], 16, %r5; DONE:
setp.ne.u32 %p1, %r1, {writer}; @!%p1 st.global.u32 [%d5], %r1;"""


@pytest.mark.parametrize("writer", range(1, 6))
def test_what_is_not_read_may_be_stored_over(writer):
    for size in (0, 3, 4, 5, 8, 12, 16):
        found = codes(PAIRED.format(size=size, writer=writer))
        assert found == ({"TTN202"} if 4 * writer < size else set()), size


def test_lanes_that_fill_one_place_differently_race():
    body = """mov.u32 %r2, s; setp.eq.u32 %p2, %r1, 3; selp.u32 %r5, {}, 8, %p2;
        cp.async.cg.shared.global [%r2], [%d1], 16, %r5;"""
    assert codes(body.format(8)) == set()
    assert codes(body.format(4)) == {"TTN201"}
