"""Warps that store known numbers without order, against what they write byte by byte."""

from __future__ import annotations

from random import Random

import pytest

from tests.sampling import part
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code

LAUNCH = "{grid: 1, dynamic_shared: 0, parameters: {x: pointer}}"
KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
.reqntid 64
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %d<8>;
  .shared .align 16 .b8 s[1024];
  ld.param.u64 %d1, [x];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  mov.u32 %r3, s;
  setp.lt.u32 %p1, %r1, 32;
BODY
  ret;
}
"""
SIZES = {"u8": 1, "u16": 2, "u32": 4}
Store = tuple[str, int, int, int, int]  # type, stride in elements, offset, factor, summand


def text_of(store: Store, space: str) -> str:
    """Lane n stores `factor * n + summand` at element `stride * n + offset`."""
    kind, stride, offset, factor, summand = store
    size = SIZES[kind]
    place = f"mad.lo.u32 %r4, %r2, {stride * size}, {offset * size}; "
    value = f"mad.lo.u32 %r5, %r2, {factor}, {summand}; "
    if space == "global":
        address = "cvt.u64.u32 %d2, %r4; add.s64 %d2, %d2, %d1; "
        return f"{place}{value}{address}st.global.{kind} [%d2], %r5;"
    return f"{place}{value}add.u32 %r4, %r4, %r3; st.shared.{kind} [%r4], %r5;"


def written(store: Store) -> dict[int, int]:
    """The bytes that a warp writes."""
    kind, stride, offset, factor, summand = store
    size = SIZES[kind]
    found = {}
    for lane in range(32):
        value = (factor * lane + summand) & ((1 << 8 * size) - 1)
        for at in range(size):
            found[(stride * lane + offset) * size + at] = value >> 8 * at & 255
    return found


def verdict_on(body: str) -> Verdict:
    described, errors = read_launch_text(LAUNCH, "k.yaml")
    assert errors == []
    source = Source("k.ptx", KERNEL.replace("BODY", body))
    (finding,) = verify_code(source, described, CodeOptions(schedules=0), [], 0.0)
    return finding.verdict


def random_store(random: Random) -> Store:
    kind = random.choice(sorted(SIZES))
    return (kind, random.choice((1, 1, 2)), random.randint(0, 2), random.choice((0, 1, 1, 2)),
            random.choice((0, 0, 1, 257)))  # fmt: skip


@pytest.mark.parametrize("space", ["global", "shared"])
def test_stores_of_known_numbers_race_where_a_byte_differs(space):
    random, seen = Random(space), {True: 0, False: 0}
    for _ in range(part(160)):
        one, other = random_store(random), random_store(random)
        first, second = written(one), written(other)
        common = first.keys() & second.keys()
        if not common:
            continue
        differ = any(first[at] != second[at] for at in common)
        body = f"@!%p1 bra OTHER; {text_of(one, space)} ret; OTHER: {text_of(other, space)}"
        assert verdict_on(body) is (Verdict.REFUTED if differ else Verdict.VERIFIED), (one, other)
        seen[differ] += 1
    assert min(seen.values()) > 2, seen


@pytest.mark.parametrize("shift", [0, 4])
def test_values_that_are_shown_are_the_same_at_one_place_alone(shift):
    """Both warps store the same unknown numbers twice, the second time further on."""
    body = f"""mul.wide.u32 %d2, %r2, 4; add.s64 %d2, %d2, %d1; ld.global.u32 %r5, [%d2];
    shl.b32 %r4, %r2, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r5; bar.warp.sync -1;
    st.shared.u32 [%r4+{shift}], %r5;"""
    assert verdict_on(body) is (Verdict.REFUTED if shift else Verdict.VERIFIED)
