"""Registers of wgmma that no wgmma.fence has ordered, against every way through small programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, verified
from titan.foundation.verdict import Verdict
from titan.isa.simt.control_flow import FlowGraph
from titan.isa.simt.operations import DecodedStep, Op
from titan.isa.simt.register_fences import matrix_registers, unfenced_products

REGISTERS = 5
COLUMNS = (8, 8, 16)  # of the shapes
CONSTANT = 93  # a register that nothing writes
VISITS = 2  # of one instruction on a way


def step(random: Random, end: int) -> DecodedStep:
    kind = random.choice(("fence", "product", "product", "move", "move", "add", "read", "branch"))
    pick = lambda: random.randrange(REGISTERS)  # noqa: E731
    guard = 99 if random.random() < 0.2 else -1
    if kind == "fence":
        return DecodedStep(Op.WGMMA_FENCE)
    if kind == "product":
        columns, in_registers = random.choice(COLUMNS), random.random() < 0.5
        flags = (columns, 32, 0, 0, int(in_registers), 16, 1)
        matrix = pick() if in_registers else 92
        return DecodedStep(Op.WGMMA, flags=flags, out=(pick(),), args=(90, 91, matrix))
    if kind == "move":
        source = random.choice((pick(), pick(), CONSTANT))
        return DecodedStep(Op.MOV, guard, out=(pick(),), args=(source,))
    if kind == "add":
        return DecodedStep(Op.ADD, guard, out=(pick(),), args=(94, random.choice((95, CONSTANT))))
    if kind == "read":
        return DecodedStep(Op.STORE, guard, args=(random.choice((96, CONSTANT)), pick()))
    return DecodedStep(Op.BRANCH, random.choice((-1, 99)), flags=(random.randrange(end),))


def ways(steps: list[DecodedStep]) -> Iterator[list[tuple[int, bool]]]:
    """Every way from the start, each instruction at most `VISITS` times; (index, is it done)."""
    waiting: list[tuple[int, list[tuple[int, bool]], Counter[int]]] = [(0, [], Counter())]
    while waiting:
        at, way, seen = waiting.pop()
        if at >= len(steps) or seen[at] == VISITS:
            yield way
            continue
        seen = seen + Counter([at])
        one = steps[at]
        choices = (True, False) if one.guard >= 0 else (True,)
        for done in choices:
            following = one.flags[0] if one.op is Op.BRANCH and done else at + 1
            waiting.append((following, [*way, (at, done)], seen))


def missing(steps: list[DecodedStep], way: list[tuple[int, bool]]) -> list[tuple[int, bool]]:
    """For each product on a way whether a fence is missing, by a clock of accesses and fences."""
    accessed: dict[int, str | int]  # a number: computed by a product of so many columns
    accessed = dict.fromkeys((*range(REGISTERS), CONSTANT), "before")
    found = []
    for at, done in way:
        one = steps[at]
        if not done:
            continue
        if one.op is Op.WGMMA_FENCE:
            accessed = dict.fromkeys(accessed, "fenced")
        elif one.op is Op.WGMMA:
            matrix, (sums,) = matrix_registers(one), one.out
            bad = accessed[sums] not in ("fenced", one.flags[0])
            bad = bad or any(accessed[register] != "fenced" for register in matrix)
            found.append((at, bad))
            accessed[sums] = one.flags[0]
        elif one.op is Op.MOV:
            accessed[one.out[0]] = accessed[one.args[0]]
        elif one.op is not Op.BRANCH:
            for register in (*one.out, *one.args):
                if register in accessed and register != CONSTANT:
                    accessed[register] = "used"
    return found


def test_against_every_way():
    """What no way misses is not reported; what is certain is missed on every one."""
    random, seen = Random(5), Counter()
    for _ in range(500):
        length = random.randint(4, 9)
        steps = [step(random, length) for _ in range(length)]
        reported = {
            item.instruction: item.certain
            for item in unfenced_products(FlowGraph(steps, 0, length), (CONSTANT,))
        }
        on_ways: dict[int, set[bool]] = {}
        for way in ways(steps):
            for at, bad in missing(steps, way):
                on_ways.setdefault(at, set()).add(bad)
        for at, found in on_ways.items():
            if True in found:
                assert at in reported, (steps, at)
            if reported.get(at):
                assert found == {True}, (steps, at)
            if found == {True}:
                seen["missed on every way", reported.get(at)] += 1
            seen["reported", at in reported, "missed", True in found] += 1
    assert seen["missed on every way", True] > 300
    assert seen["reported", False, "missed", False] > 50
    assert seen["reported", True, "missed", False] < 10, seen


KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid 128
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>;
  .reg .f32 %f<9>;
  .reg .b64 %d<4>;
  .shared .align 1024 .b8 s[4096];
  mov.u64 %d1, 0x0000000800080040;
  mov.u32 %r0, %tid.x;
  mov.f32 %f1, 0f00000000;
  mov.f32 %f2, %f1;
  mov.f32 %f3, %f1;
  mov.f32 %f4, %f1;
  mov.f32 %f5, %f1; mov.f32 %f6, %f1; mov.f32 %f7, %f1; mov.f32 %f8, %f1;
  BODY
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  ret;
}
"""
FENCE = "wgmma.fence.sync.aligned;\n"
SHAPE = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, "
PRODUCT = SHAPE + "%d1, %d1, 1, 1, 1, 0, 0;\n"
WIDER = PRODUCT.replace("n8", "n16").replace("%f4}", "%f4, %f5, %f6, %f7, %f8}")
OF_REGISTERS = SHAPE + "{%r1, %r2, %r3, %r4}, %d1, 1, 1, 1, 0;\n"
DONE = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
OTHERS = "mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;\n"


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (FENCE + PRODUCT, Verdict.VERIFIED),
        (PRODUCT, Verdict.REFUTED),
        (FENCE + PRODUCT + PRODUCT, Verdict.VERIFIED),
        (FENCE + PRODUCT + DONE + PRODUCT, Verdict.VERIFIED),
        # Only products of one shape add to the same sums without a fence.
        (FENCE + PRODUCT + WIDER, Verdict.REFUTED),
        (FENCE + PRODUCT + DONE + WIDER, Verdict.REFUTED),
        (FENCE + PRODUCT + DONE + FENCE + WIDER + WIDER, Verdict.VERIFIED),
        (FENCE + WIDER + PRODUCT.replace("f16.f16", "bf16.bf16"), Verdict.REFUTED),
        (FENCE + PRODUCT + PRODUCT.replace("f16.f16", "bf16.bf16"), Verdict.VERIFIED),
        (FENCE + PRODUCT + PRODUCT.replace("k16.f32.f16.f16", "k8.f32.tf32.tf32")
         .replace("1, 1, 0, 0;", "1, 1;"), Verdict.REFUTED),
        # Sums that are touched between two products.
        (FENCE + PRODUCT + DONE + "add.f32 %f1, %f1, %f1;" + PRODUCT, Verdict.REFUTED),
        (FENCE + PRODUCT + DONE + "add.f32 %f1, %f1, %f1;" + FENCE + PRODUCT, Verdict.VERIFIED),
        # The matrix A, from what was computed.
        (FENCE + PRODUCT + DONE + OTHERS + "mov.b32 %r1, %f1;" + OF_REGISTERS, Verdict.REFUTED),
        (FENCE + PRODUCT + DONE + OTHERS + "mov.b32 %r1, %f1;" + FENCE + OF_REGISTERS,
         Verdict.VERIFIED),
        (FENCE + OTHERS + "add.u32 %r1, %r0, 1;" + OF_REGISTERS, Verdict.REFUTED),
        (FENCE + OTHERS + "mov.u32 %r1, 1;" + OF_REGISTERS, Verdict.VERIFIED),
        # Behind the fence a number of the text is read that sums begin with, too.
        (FENCE + "setp.gt.s32 %p1, %r0, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1;" + PRODUCT,
         Verdict.VERIFIED),
        ("setp.gt.s32 %p1, %r0, 0; mov.f32 %f1, 0f00000000;" + PRODUCT, Verdict.REFUTED),
        # On one way of two: the one that the launch takes counts.
        ("setp.ge.u32 %p1, %r0, 0;\n@%p1 bra L;\n" + FENCE + "L:\n" + PRODUCT, Verdict.REFUTED),
        (FENCE + PRODUCT + DONE + "setp.ge.u32 %p1, %r0, 0;\n@%p1 bra L;\nadd.f32 %f1, %f1, %f1;\n"
         "L:\n" + PRODUCT, Verdict.VERIFIED),
        (FENCE + PRODUCT + DONE + "setp.lt.u32 %p1, %r0, 0;\n@%p1 bra L;\nadd.f32 %f1, %f1, %f1;\n"
         "L:\n" + PRODUCT, Verdict.REFUTED),
        # A way that data choose.
        (FENCE + PRODUCT + DONE + "ld.shared.u32 %r5, [s];\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra L;\n"
         "add.f32 %f1, %f1, %f1;\nL:\n" + PRODUCT, Verdict.UNDECIDED),
    ],
)  # fmt: skip
def test_a_kernel(body, verdict):
    finding = verified(KERNEL.replace("BODY", body), NOTHING)
    assert finding.verdict is verdict, (codes(finding), finding.notes)
    if verdict is Verdict.REFUTED:
        assert codes(finding) == ["TTN217"]
    if verdict is Verdict.UNDECIDED or "bra" in body:
        found = [note for note in finding.notes if "no wgmma.fence has ordered" in note]
        assert bool(found) == (verdict is not Verdict.REFUTED)
