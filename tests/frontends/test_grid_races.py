"""Accesses of several clusters to the same bytes of global memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import part
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.verify_code import CodeOptions, verify_code

KERNEL = """.version 8.7
.target sm_90a
.address_size 64
.entry k(.param .u64 p, .param .u64 q) {{
.reg .pred %p<4>;
.reg .b32 %r<32>;
.reg .b64 %d<32>;
ld.param.u64 %d0, [p];
ld.param.u64 %d1, [q];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %ntid.x;
mad.lo.u32 %r4, %r2, %r3, %r1;
mad.wide.u32 %d2, %r4, 4, %d0;
mad.wide.u32 %d3, %r1, 4, %d0;
mad.wide.u32 %d4, %r4, 4, %d1;
mad.wide.u32 %d5, %r2, 4, %d0;
{body}
ret;
}}
"""
REFUTED, VERIFIED, UNDECIDED = Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNDECIDED
SHIFTED = "add.u32 %r6, %r1, %r2; mad.wide.u32 %d6, %r6, 4, %d0;"
CASES = {
    "each its own": ("st.global.u32 [%d2], %r1;", VERIFIED),
    "the block's number forgotten": ("st.global.u32 [%d3], %r2;", REFUTED),
    "all read": ("ld.global.u32 %r5, [%d3]; st.global.u32 [%d4], %r5;", VERIFIED),
    "read what others write": (
        "st.global.u32 [%d2], %r1; ld.global.u32 %r5, [%d3]; st.global.u32 [%d4], %r5;", REFUTED),
    "the neighbour's first": (
        "ld.global.u32 %r5, [%d2+128]; st.global.u32 [%d4], %r5; st.global.u32 [%d2], %r1;",
        REFUTED),
    "a flag that all set": ("st.global.u32 [%d0], 1;", VERIFIED),
    "a flag with the block's number": ("st.global.u32 [%d0], %r2;", REFUTED),
    "sum of all": ("red.global.add.u32 [%d3], %r1;", VERIFIED),
    "sum within the scope of a block": ("red.relaxed.cta.global.add.u32 [%d3], %r1;", REFUTED),
    "sum beside a plain read": (
        "red.global.add.u32 [%d3], %r1; ld.global.u32 %r5, [%d3]; st.global.u32 [%d4], %r5;",
        REFUTED),
    "ordered by a flag": (
        "ld.acquire.gpu.global.u32 %r5, [%d1]; ld.global.u32 %r6, [%d3];"
        "st.global.u32 [%d2], %r1; st.release.gpu.global.u32 [%d1], 1;", UNDECIDED),
    "relaxed, none other": (
        "ld.relaxed.gpu.global.u32 %r5, [%d0]; st.relaxed.gpu.global.u32 [%d0], %r2;", UNDECIDED),
    "volatile is strong": ("st.volatile.global.u32 [%d0], %r2;", UNDECIDED),
    "volatile, all the same": ("st.volatile.global.u32 [%d0], 7;", VERIFIED),
    "volatile, of its own": ("st.volatile.global.u32 [%d2], %r2;", VERIFIED),
    "two reductions": ("red.global.add.u32 [%d0], 1; red.global.max.u32 [%d0], %r2;", UNDECIDED),
    "an old value that nothing reads": ("atom.global.add.u32 %r5, [%d0], %r2;", VERIFIED),
    "an old value": (
        "atom.global.min.u32 %r5, [%d0], %r2; st.global.u32 [%d4], %r5;", UNDECIDED),
    "a constant, shifted by the block": (SHIFTED + "st.global.u32 [%d6], 7;", VERIFIED),
    "the place, shifted by the block": (SHIFTED + "st.global.u32 [%d6], %r6;", VERIFIED),
    "the lane, shifted by the block": (SHIFTED + "st.global.u32 [%d6], %r1;", REFUTED),
    "one of two constants, shifted by the block": (
        SHIFTED + "and.b32 %r5, %r1, 1; st.global.u32 [%d6], %r5;", REFUTED),
    "a constant that one block has not": (
        SHIFTED + "setp.eq.u32 %p0, %r2, 3; selp.u32 %r5, 8, 7, %p0; st.global.u32 [%d6], %r5;",
        REFUTED),
    "the same constants in other places": (
        "mad.wide.u32 %d6, %r2, 2, %d0; st.global.u16 [%d6], 1; st.global.u16 [%d6+2], 2;",
        REFUTED),
}  # fmt: skip


def found(body: str, grid: str = "4", **options: object) -> tuple[Verdict, str]:
    text = f"{{grid: {grid}, block: 32, parameters: [pointer, pointer]}}"
    launch, errors = read_launch_text(text, "k.yaml")
    assert errors == []
    source = Source("k.ptx", KERNEL.format(body=body))
    (finding,) = verify_code(source, launch, CodeOptions(**options), [], 0.0)
    headlines = [item.headline for item in finding.diagnostics]
    return finding.verdict, "; ".join([*headlines, *finding.notes])


@pytest.mark.parametrize("name", CASES)
def test_clusters_of_a_grid_race(name: str) -> None:
    body, verdict = CASES[name]
    got, text = found(body)
    assert got is verdict, text
    if verdict is REFUTED:
        assert "CTA (" in text and "nothing orders them" in text
    if verdict is UNDECIDED:
        assert "whether that orders them is not decided" in text or "depend" in text


def test_one_block_does_not_race_with_itself() -> None:
    assert found(CASES["the block's number forgotten"][0], grid="1")[0] is VERIFIED


def test_blocks_that_nothing_distinguishes_write_the_same() -> None:
    body = "ld.global.u32 %r5, [%d4]; st.global.u32 [%d2], %r5;"
    verdict, text = found(body, grid="[2, 3]")
    assert verdict is VERIFIED
    assert "CTA (0, 0, 0) and CTA (0, 1, 0) do the same work" in text
    refused = CodePolicies(equal_writes="refuse")
    assert found(body, grid="[2, 3]", policies=refused)[0] is REFUTED
    in_place = "ld.global.u32 %r5, [%d2]; st.global.u32 [%d2], %r5;"
    assert found(in_place, grid="[2, 3]")[0] is REFUTED
    distinguished = "mov.u32 %r6, %ctaid.y; st.global.u32 [%d2], %r6;"
    assert found(distinguished, grid="[2, 3]")[0] is REFUTED
    by_ticket = "atom.global.add.u32 %r6, [%d1], 1; st.global.u32 [%d2], %r6;"
    assert found(by_ticket, grid="[2, 3]")[0] is not VERIFIED
    assumed = CodePolicies(equal_writes="assumed")
    assert found(distinguished, grid="[2, 3]", policies=assumed)[0] is VERIFIED


def test_the_blocks_that_are_asked_for_are_compared() -> None:
    """Even blocks write where the next odd one does; 0 and 2 do not meet."""
    body = "shr.u32 %r5, %r2, 1; mad.wide.u32 %d6, %r5, 4, %d0; st.global.u32 [%d6], %r2;"
    assert found(body)[0] is REFUTED
    assert found(body, ctas=(0, 1))[0] is REFUTED
    assert found(body, ctas=(0, 2))[0] is VERIFIED


@dataclass(frozen=True)
class Random:
    """An access at `4 * (of_block * block + of_lane * lane + offset)` bytes."""

    form: str
    of_block: int
    of_lane: int
    offset: int

    def text(self, number: int) -> str:
        address = (
            f"mad.lo.u32 %r10, %r2, {4 * self.of_block}, {4 * self.offset};"
            f"mad.lo.u32 %r10, %r1, {4 * self.of_lane}, %r10;"
            "cvt.u64.u32 %d10, %r10; add.u64 %d10, %d10, %d0;"
        )
        operation = {
            "read": f"ld.global.u32 %r{11 + number}, [%d10];",
            "write": "mad.lo.u32 %r20, %r2, 77, 5; st.global.u32 [%d10], %r20;",
            "add": "red.global.add.u32 [%d10], 1;",
        }[self.form]
        return address + operation

    def words(self, block: int) -> set[int]:
        return {self.of_block * block + self.of_lane * lane + self.offset for lane in range(32)}


ACCESSES = st.builds(
    Random,
    st.sampled_from(["read", "write", "add"]),
    st.sampled_from([0, 1, 31, 32, 33, 64]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 1, 32, 256]),
)


@given(st.lists(ACCESSES, min_size=1, max_size=3))
@settings(max_examples=part(200), deadline=None)
def test_random_accesses_race_as_their_bytes_say(accesses: list[Random]) -> None:
    """Against the sets of words that each block touches; lanes and warps of a block aside."""
    body = "".join(item.text(number) for number, item in enumerate(accesses))
    verdict, text = found(body, policies=CodePolicies(lanes="ordered"))
    races = any(
        one.words(a) & other.words(b)
        for a, b in combinations(range(4), 2)
        for one in accesses
        for other in accesses
        if {one.form, other.form} not in ({"read"}, {"add"})
    )
    assert verdict is (REFUTED if races else VERIFIED), text


ROWS = """.version 8.7
.target sm_90a
.address_size 64
.entry k(.param .u64 p, .param .u32 n, .param .u32 stride) {
.reg .pred %p<4>;
.reg .b32 %r<32>;
.reg .b64 %d<32>;
ld.param.u64 %d0, [p];
ld.param.u32 %r1, [n];
ld.param.u32 %r2, [stride];
mov.u32 %r3, %ctaid.x;
mov.u32 %r4, %tid.x;
mul.lo.u32 %r5, %r3, %r2;
add.u32 %r5, %r5, %r4;
mov.u32 %r6, 0;
LOOP:
setp.ge.u32 %p1, %r6, %r1;
@%p1 bra END;
mad.wide.u32 %d1, %r5, 4, %d0;
st.global.u32 [%d1], %r3;
add.u32 %r5, %r5, 32;
add.u32 %r6, %r6, 1;
bra LOOP;
END: ret;
}
"""


@pytest.mark.parametrize(("stride", "verdict"), [(96, VERIFIED), (64, REFUTED)])
def test_more_trips_of_a_sweep_keep_the_strides_of_the_launch(stride, verdict):
    """Three rows a cluster as given; with more, a cluster would store into the next one's."""
    launch = f"{{grid: 3, block: 32, parameters: {{p: pointer, n: 3, stride: {stride}}}}}"
    described, errors = read_launch_text(launch, "k.yaml")
    assert errors == []
    (found,) = verify_code(Source("k.ptx", ROWS), described, CodeOptions(sweep=True), [], 0.0)
    assert found.verdict is verdict, found.notes
    assert any("parameter 1 drives a loop" in note for note in found.notes)
