"""Accesses race unless both are strong at a scope that holds the other's thread, or both read."""

from __future__ import annotations

from itertools import product

import pytest

from tests.frontends.test_clusters_and_exits import END, PAIR, START, WAIT
from tests.frontends.test_verify_code import codes, kernel, verified
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

ACCESSES = {
    "ld": "ld{words}.shared::cluster.u32 %r5, [%r13];",
    "st": "st{words}.shared::cluster.u32 [%r13], %r21;",
    "red": "red{words}.shared::cluster.add.u32 [%r13], %r21;",
}
SCOPES = ("", "cta", "cluster", "gpu", "sys")  # of no scope: a weak access
CASES = [
    (access, scope, other, other_scope)
    for (access, scope), (other, other_scope) in product(product(ACCESSES, SCOPES), repeat=2)
    if (scope or access != "red") and (other_scope or other != "red")
    if (access, scope) <= (other, other_scope)
]
# Which of two strong accesses comes first is open, and a load whose value is unused may race.
POLICIES = CodePolicies(unsettled="allow", unused_reads="refuse")


def races(first: tuple[str, str], second: tuple[str, str], *, apart: bool) -> bool:
    """The rule of PTX ("Data Races", "Morally Strong"), by nothing but its words."""
    reads = first[0] == second[0] == "ld"
    weak = not (first[1] and second[1])
    narrow = apart and "cta" in (first[1], second[1])
    return not reads and (weak or narrow)


def access(name: str, scope: str) -> str:
    return ACCESSES[name].format(words=f".relaxed.{scope}" if scope else "")


@pytest.mark.parametrize("apart", [False, True], ids=["in one CTA", "in two CTAs"])
@pytest.mark.parametrize(("first", "scope", "second", "other"), CASES)
def test_strong_accesses_race_beyond_their_scope(first, scope, second, other, apart):
    where = "%r10, 1" if apart else "%r10, 0"
    body = f"""
	mov.u32 %r13, s; mapa.shared::cluster.u32 %r13, %r13, 0;
	and.b32 %r20, %r0, 31; setp.eq.u32 %p2, %r20, 0;
	setp.eq.and.u32 %p4, %r1, 0, %p2; setp.eq.and.u32 %p5, %r1, 1, %p2;
	setp.eq.and.u32 %p4, %r10, 0, %p4; setp.eq.and.u32 %p5, {where}, %p5;
	setp.eq.and.u32 %p6, %r10, 0, %p1;
	mov.u32 %r21, %clock;
	@%p6 st.shared.u32 [s], %r21;
	{END}
	@%p4 {access(first, scope)}
	@%p5 {access(second, other)}
	{END}
"""
    text = kernel(START.replace("{other}", "1") + body, 64)
    finding = verified(text, PAIR, ctas=(0,), policies=POLICIES)
    if races((first, scope), (second, other), apart=apart):
        assert codes(finding) == ["TTN201"], finding.notes
    else:
        assert finding.verdict is Verdict.VERIFIED, (codes(finding), finding.notes)


@pytest.mark.parametrize(("scope", "wrong"), [("cta", True), ("cluster", False), ("gpu", False)])
@pytest.mark.parametrize("grid", ["{grid: 2, cluster: 2, dynamic_shared: 0}", "{grid: 2}"])
def test_sums_of_two_ctas_in_global_memory(scope, wrong, grid):
    """In one cluster as in two; a cluster is one of CTAs that others do not belong to."""
    add = f"red.relaxed.{scope}.global.add.u32 [g], 1;"
    memory = ".global .align 4 .b8 g[4];\n.visible"
    text = kernel(add, 32).replace(".visible", memory)
    finding = verified(text, grid)
    wrong = wrong or ("cluster: 2" not in grid and scope == "cluster")
    assert codes(finding) == (["TTN201"] if wrong else []), finding.notes
    assert finding.verdict is (Verdict.REFUTED if wrong else Verdict.VERIFIED)


@pytest.mark.parametrize(("scope", "wrong"), [("cta", True), ("cluster", False)])
def test_a_sum_by_an_engine_and_one_by_a_thread(scope, wrong):
    """The copy of CTA 0 adds to memory of CTA 1, which adds to it as well: through two proxies, so
    that it is open what is left where the scopes include each other."""
    body = f"""
	mov.u32 %r20, s; add.u32 %r20, %r20, 1024;
	@%p1 st.shared.v4.u32 [s], {{%r0, %r0, %r0, %r0}};
	@%p1 st.shared.v4.u32 [s+1024], {{%r0, %r0, %r0, %r0}};
	fence.proxy.async.shared::cta;
	setp.eq.and.u32 %p4, %r10, 0, %p1; setp.eq.and.u32 %p5, %r10, 1, %p1;
	@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 16;
	{END}
	@%p4 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32
		[%r13], [%r20], 16, [%r12];
	@%p5 red.relaxed.{scope}.shared.add.u32 [s], 1;
	setp.eq.u32 %p6, %r10, 0;
	@%p6 bra DONE;
	{WAIT.format(at="b")}
DONE:
	{END}
"""
    finding = verified(kernel(START.replace("{other}", "1") + body, 32), PAIR, ctas=(0,))
    assert finding.verdict is (Verdict.REFUTED if wrong else Verdict.UNDECIDED), finding.notes
