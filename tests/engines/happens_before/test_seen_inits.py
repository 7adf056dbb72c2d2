"""Whether who uses an mbarrier sees that it is initialised, or merely comes after that."""

from __future__ import annotations

import itertools

import pytest

from tests.building import at, e, program
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.fault import FaultKind

RELAXED, STRONG = ir.Order.RELAXED, ir.Order.SYNCHRONISING


def handed_over(arrival, waiting, fence, far, policies):
    """`p` initialises a barrier and hands it to `c` through another one, which is there already."""
    cta = int(far)
    scope = ir.Scope.CLUSTER
    fences = (ir.Fence(ir.FenceKind.BARRIER_INIT),) if fence else ()
    return program(
        "init",
        [
            ir.Role(
                "p", (ir.Init(at("full"), e(1)), *fences,
                ir.Arrive(at("there"), order=arrival, scope=scope),
                ir.Wait(at("full"), e(0), scope=scope),
                ir.Wait(at("done"), e(0), scope=scope)),
            ),
            ir.Role(
                "c", (ir.Wait(at("there"), e(0), order=waiting, scope=scope),
                ir.Arrive(at("full"), scope=scope), ir.Arrive(at("done"), scope=scope)), cta=cta,
            ),
        ],
        barriers=[
            ir.Barrier("full", 1, initialised=False), ir.Barrier("there", 1, cta=cta),
            ir.Barrier("done", 1),
        ],
        policies=policies,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arrival", "waiting", "fence", "far"),
    list(itertools.product((STRONG, RELAXED), (STRONG, RELAXED), (False, True), (False, True))),
)
@pytest.mark.parametrize("barrier_init", ["assumed", "fence"])
def test_who_uses_a_barrier_sees_that_it_is_initialised(arrival, waiting, fence, far, barrier_init):
    policies = ir.Policies(barrier_init=barrier_init)
    result = analyse(handed_over(arrival, waiting, fence, far, policies))
    seen = fence or (arrival is STRONG and waiting is STRONG)
    if far and not fence and barrier_init == "fence":
        assert result.fault.kind is FaultKind.UNPUBLISHED_INIT
    elif seen:
        assert result.verdict is Verdict.VERIFIED, result.fault
    else:
        assert result.verdict is Verdict.REFUTED
        assert result.fault.kind is FaultKind.WEAK_SYNCHRONISATION
