"""Loads into the registers of a wgmma are over with it: another warp may release their stage.

The ring of tests/isa/texts with A in registers, and one thread that releases for its warpgroup.
"""

from __future__ import annotations

import pytest

from tests.frontends.test_warpgroup_waits import BY_ONE, COUNTS, ISSUE, RELEASE, WAIT, WARP, judged
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.remarks import REMARKS

WORDS = "{%r20, %r21, %r22, %r23}"
LOAD = (
    "\tshl.b32 %r24, %r2, 4;\n\tadd.u32 %r24, %r24, %r14;\n"
    "\tld.shared.v4.u32 {%r25, %r26, %r27, %r28}, [%r24];\n"
)
CONVERT = "".join(f"\txor.b32 %r{20 + n}, %r{25 + n}, 1;\n" for n in range(4))
CLEAR = "".join(f"\tmov.b32 %r{20 + n}, 0;\n" for n in range(4))
OPERANDS = ("%d2, %d2, 1, 1, 1, 0, 0;", f"{WORDS}, %d2, 1, 1, 1, 0;")


def trial(before: str, *edits: tuple[str, str], policies=None):
    """The ring with `before` in front of the fence of each product; thread 0 releases."""
    release = [(RELEASE, BY_ONE.format(thread=0)), *COUNTS]
    given = {} if policies is None else {"policies": policies}
    return judged(5, *release, OPERANDS, (ISSUE, before + ISSUE), *edits, **given)


def assumed(found) -> bool:
    return any(text == REMARKS["register-operands"] for text, _, _ in found.assumptions)


@pytest.mark.parametrize("between", ["", "\tmov.b32 %r29, 0;\n", "\t@%p1 mov.b32 %r29, 0;\n"])
def test_what_a_product_takes_in_registers_is_read_when_it_is_complete(between):
    found = trial(LOAD + CONVERT + between)
    assert found.verdict is Verdict.VERIFIED, found.diagnostics
    assert assumed(found)


@pytest.mark.parametrize(
    "before",
    [
        CLEAR + LOAD,
        LOAD + CONVERT + CLEAR,
        LOAD + CONVERT + CLEAR.replace("\tmov", "\t@%p1 mov"),
        LOAD + CONVERT + LOAD,
        f"{LOAD}{CLEAR}\t@%p5 bra OVER;\n{CONVERT}OVER:\n",
    ],
    ids=["unused", "cleared", "cleared under a guard", "read twice", "on one way"],
)
def test_a_load_that_no_product_takes_may_be_late(before):
    found = trial(before)
    assert found.verdict is Verdict.REFUTED
    assert found.diagnostics[0].code == "TTN305"
    between = (WAIT, WAIT + "\tbar.sync 1, 128;\n")
    met = trial(before, between)
    assert met.verdict is Verdict.VERIFIED and not assumed(met)


def test_a_release_before_the_wait_is_refuted():
    early = BY_ONE.format(thread=0)
    found = trial(LOAD + CONVERT, (early + "\tadd", "\tadd"), (WAIT, early + WAIT))
    assert found.verdict is Verdict.REFUTED
    assert found.diagnostics[0].code == "TTN202"


def test_a_warp_that_waits_for_its_own_part_knows_nothing_of_the_others():
    found = trial(LOAD + CONVERT, policies=WARP)
    assert found.verdict is Verdict.REFUTED and not assumed(found)
