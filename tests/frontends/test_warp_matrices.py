"""Kernels with wmma: what is ordered is verified, what is not is refuted."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import NOTHING, codes, kernel, verified
from titan.foundation.verdict import Verdict

ROLES = "mov.u32 %r4, s; setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r1, 1;"
STORE = "@%p1 bra S; wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r4], VALUES, 20; S: "
LOAD = (
    "@%p2 bra L; wmma.load.a.sync.aligned.{layout}.m16n16k16.shared.bf16 VALUES, [%r4+{at}], {n};"
)
VALUES = "{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}"
USE = "@%p3 st.global.u32 [65536], %r10; L: "
DATA = "".join(f"mov.u32 %r{n}, 1; " for n in range(10, 18)) + "setp.eq.u32 %p3, %r0, 32;"


def handed(load: str, between: str = "bar.sync 0;"):
    body = ROLES + DATA + STORE + between + load + USE
    return verified(kernel(body.replace("VALUES", VALUES), 64), NOTHING)


def rows(layout: str = "row", at: int = 0, n: int = 40) -> str:
    """Reads rows of 32 bytes; the rows of the sum are 64 bytes wide, 80 apart."""
    return LOAD.replace("{layout}", layout).replace("{at}", str(at)).replace("{n}", str(n))


@pytest.mark.parametrize("layout", ["row", "col"])
def test_a_barrier_hands_a_matrix_over(layout):
    finding = handed(rows(layout))
    assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)


@pytest.mark.parametrize("layout", ["row", "col"])
def test_without_it_the_matrix_races(layout):
    assert codes(handed(rows(layout), "")) == ["TTN201"]


def test_what_lies_between_the_rows_is_not_touched():
    """The 16 bytes behind each row of the sum are another warp's, without any order."""
    other = "@%p1 st.shared.u32 [s+64], 1;"
    body = (ROLES + DATA + other + STORE).replace("VALUES", VALUES)
    finding = verified(kernel(body, 64), NOTHING)
    assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)
    inside = verified(kernel(body.replace("[s+64]", "[s+80]"), 64), NOTHING)
    assert codes(inside) == ["TTN201"]


def test_rows_that_nothing_has_written():
    """The load goes over the 16 bytes between two rows."""
    finding = handed(rows(at=48))
    assert finding.verdict is Verdict.UNDECIDED
    assert any("nothing has written" in note for note in finding.notes)


def test_a_row_at_a_crooked_address():
    assert "TTN219" in codes(handed(rows(at=8)))


def test_a_product_of_matrices_that_were_copied():
    """A copy in flight is not there for the load of the matrix."""
    wait = "cp.async.wait_all; bar.warp.sync -1;"
    body = (
        ".reg .b64 %d<4>;"
        + ROLES
        + DATA
        + """
	mul.lo.u32 %r5, %r0, 16;
	add.u32 %r5, %r5, %r4;
	mul.wide.u32 %d1, %r0, 16;
	add.u64 %d2, %d1, 65536;
	@%p1 bra E;
	cp.async.cg.shared.global [%r5], [%d2], 16;
	{wait}
	wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 VALUES, [%r4];
	wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 VALUES, VALUES, VALUES, VALUES;
	wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r4+1024], VALUES;
E:
"""
    )
    body = body.replace("VALUES", VALUES)
    good = verified(kernel(body.replace("{wait}", wait), 64), NOTHING)
    assert good.verdict is Verdict.VERIFIED, (codes(good), good.notes)
    bad = verified(kernel(body.replace("{wait}", ""), 64), NOTHING)
    assert codes(bad) == ["TTN203"], (codes(bad), bad.notes)
