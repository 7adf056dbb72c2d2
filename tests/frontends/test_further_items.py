"""Further work items, each of several steps: a ring whose loops lie in loops over items."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import LAUNCH, ring, verified
from titan.foundation.verdict import Verdict
from titan.verify.model import Finding

STEP = "\tadd.u32 %r7, %r7, 1;\n"  # the end of one step of either warp
PARAMETER = "\tld.param.u32 %r1, [n];\n"


def found(text: str) -> Finding:
    """Of 16 rows an item: all steps of as many items as rows can say have 32 bits."""
    text = text.replace(PARAMETER, f"{PARAMETER}\tshr.u32 %r1, %r1, 4;\n", 1)
    launch = LAUNCH.replace("n: 5", "n: 80")
    return verified(text, launch, require="any", ctas=(0,))


def items(steps: int, each: str = "") -> str:
    """The ring of two stages, `steps` steps for each of n items. `each`: before each step, with the
    item in %r26, the step of it in %r27 and all steps before in %r7."""
    text = ring().replace(".b32 %r<32>", ".b32 %r<40>")
    text = text.replace("\tmov.u32 %r7, 0;\n", "\tmov.u32 %r7, 0;\n\tmov.u32 %r26, 0;\n")
    text = text.replace("setp.ge.u32 %p4, %r7, %r1;", "setp.ge.u32 %p4, %r26, %r1;")
    for head in ("PRODUCER", "CONSUMER"):
        begin = "\t@%p4 bra DONE;\n\tand.b32 %r8"
        first, behind = text.split(f"{head}:\n")
        behind = behind.replace(begin, f"\tDONE_{head}\n\tand.b32 %r8", 1)
        behind = behind.replace(
            f"\tDONE_{head}\n", f"\t@%p4 bra DONE;\n\tmov.u32 %r27, 0;\n{head}_STEP:\n{each}", 1
        )
        more = (
            f"{STEP}\tadd.u32 %r27, %r27, 1;\n\tsetp.lt.u32 %p7, %r27, {steps};\n"
            f"\t@%p7 bra {head}_STEP;\n\tadd.u32 %r26, %r26, 1;\n"
        )
        text = f"{first}{head}:\n{behind.replace(STEP, more, 1)}"
    return text


def skipping(when: str, text: str) -> str:
    """The consumer leaves out its wait once `when` sets %p6."""
    text = text.replace("FULL:\n", f"\t{when}\n\t@%p6 bra SKIPPED;\nFULL:\n")
    return text.replace("\t@!%p5 bra FULL;\n", "\t@!%p5 bra FULL;\nSKIPPED:\n")


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_items_of_a_fixed_number_of_steps_are_verified_for_any_number(steps):
    finding = found(items(steps))
    assert finding.verdict is Verdict.VERIFIED, (finding.narrowing, finding.diagnostics)
    assert any("shown to continue so for all further ones" in note for note in finding.notes)


# What sets the predicate, and the number of items from which on it is set.
FAR = {
    "one item": ("setp.eq.u32 %p6, %r26, 40;", 41),
    "one step of all": ("setp.eq.u32 %p6, %r7, 121;", 41),
    "a step of one item": ("setp.eq.u32 %p6, %r27, 1; setp.gt.and.u32 %p6, %r26, 50, %p6;", 52),
    "a byte": ("cvt.u32.u8 %r24, %r7; setp.eq.u32 %p6, %r24, 200;", 67),
}


@pytest.mark.parametrize("name", FAR)
def test_what_changes_after_many_items_is_launched(name):
    when, first = FAR[name]
    finding = found(skipping(when, items(3)))
    assert finding.verdict is not Verdict.VERIFIED, finding.notes
    assert finding.verdict is Verdict.REFUTED or name == "one item", finding.narrowing
    assert any(f"({first} trips)" in note for note in finding.notes), finding.notes


# Loops in loops whose rounds depend on the item, and what grows within an item.
UNFOLLOWED = {
    "a step more for each item": ("%r27, 3;", "%r27, %r26;"),
    "steps as many as items": ("%r27, 3;", "%r27, %r1;"),
    "a stage that goes on by more each time": (
        "and.b32 %r8, %r7, 1;", "mul.lo.u32 %r8, %r26, %r7; and.b32 %r8, %r8, 1;"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFOLLOWED)
def test_what_grows_within_an_item_is_not_verified_for_any_number(name):
    old, new = UNFOLLOWED[name]
    text = items(3)
    assert text.count(old) == 2
    finding = found(text.replace(old, new))
    assert finding.verdict is not Verdict.VERIFIED, finding.notes


@pytest.mark.parametrize("code", ["\t@!%p5 bra EMPTY;", "xor.b32 %r10, %r9, 1"])
def test_a_broken_ring_is_refuted(code):
    new = "" if "bra" in code else "mov.b32 %r10, %r9"
    assert found(items(3).replace(code, new, 1)).verdict is Verdict.REFUTED
