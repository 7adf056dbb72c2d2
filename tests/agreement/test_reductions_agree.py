"""Reductions commute, and nothing else does: random programs, every engine.

Two or three agents, in one CTA or two, add to few pieces themselves, by bulk copies and by queues
of their own path, with two operators and both scopes; some read, overwrite and fence the same
pieces, and meet at an mbarrier, in any order. What was refuted before, two reductions of one kind
that nothing orders, is among what must verify.
"""

from __future__ import annotations

import random

import pytest

from tests.agreement.engines import engines, reference, replayed
from tests.building import ASYNC, FENCE, at, e
from tests.engines.fences.test_agreement import FENCE_FAULTS
from titan.engines.fences.justify import judge
from titan.engines.happens_before.engine import analyse
from titan.engines.spin import run_spin, spin_available, to_promela
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.reductions import OPERATORS, commute, reduction_of

PROGRAMS = 50
HEAVY_PROGRAMS = 6_000


def reduction(draw: random.Random, proxy: ir.Proxy) -> ir.Effect:
    """A reduction into one of two pieces; most are of one kind."""
    return ir.Effect(
        draw.choice(("C", "C", "D")),
        write=True,
        tile=draw.choice((None, None, e(0), e(0), e(1))),
        part=draw.choice((None, e(0), e(1))),
        proxy=proxy,
        reduction=draw.choice(("add",) * 10 + ("min", "inc")),
        reach=draw.choice((ir.Scope.CLUSTER, ir.Scope.CLUSTER, ir.Scope.CTA)),
    )


def plain(draw: random.Random, proxy: ir.Proxy) -> ir.Effect:
    """A read or a write of the same pieces."""
    tile = draw.choice((None, e(0), e(0), e(1)))
    return ir.Effect(draw.choice(("C", "D")), write=draw.random() < 0.4, tile=tile, proxy=proxy)


def operations(draw: random.Random) -> list[ir.Operation]:
    """One access with what surrounds it, or a meeting."""
    roll = draw.random()
    if roll < 0.35:
        return [ir.Access((reduction(draw, ir.Proxy.GENERIC),))]
    if roll < 0.6:
        proxy = draw.choice((ASYNC, ASYNC, ir.Proxy.GENERIC))
        made = draw.choice((reduction, reduction, reduction, plain))(draw, proxy)
        drain = [ir.QueueWait("q", until=draw.choice(tuple(ir.Until)))]
        return [ir.Asynchronous((made,), "q"), ir.Commit("q"), *drain[: draw.randrange(4)]]
    if roll < 0.7:
        return [ir.Access((plain(draw, ir.Proxy.GENERIC),))]
    if roll < 0.78:
        return [FENCE]
    scope = draw.choice((ir.Scope.CLUSTER, ir.Scope.CLUSTER, ir.Scope.CTA))
    meeting = [ir.Arrive(at("b"), scope=scope), ir.Wait(at("b"), e(0), scope=scope)]
    return meeting[: draw.choice((2, 2, 1))]


def drawn(seed: int) -> ir.SyncProgram:
    """A program of reductions."""
    draw = random.Random(f"reductions {seed}")
    agents = draw.choice((2, 2, 2, 2, 3))
    alike = draw.random() < 0.3
    bodies = [
        tuple(op for _ in range(draw.randint(1, 5 - agents)) for op in operations(draw))
        for _ in range(1 if alike else agents)
    ]
    far = draw.random() < 0.4
    roles = tuple(
        ir.Role(f"r{number}", body, agents if alike else 1, 1, cta=int(far and number == 1))
        for number, body in enumerate(bodies)
    )
    space = draw.choice((ir.Space.GLOBAL, ir.Space.SHARED))
    return ir.SyncProgram(
        f"reductions_{seed}",
        "sm_90a",
        roles,
        barriers=(ir.Barrier("b", agents),),
        buffers=(
            ir.Buffer("C", 1, 2, space, initial=0),
            ir.Buffer("D", 1, 2, space, "C", 1, initial=0),
        ),
        queues=(ir.Queue("q"),),
        policies=ir.Policies(exit_in_flight="allow", war_fence=draw.random() < 0.5),
    )


def fences_agree(program: ir.SyncProgram) -> bool:
    """Whether the proxy-effect graph says of fences what happens-before says."""
    judged, result = judge(program), analyse(program)
    if result.verdict is Verdict.VERIFIED:
        return not judged.reason and not judged.unjustified
    fault = result.fault
    if fault is None or judged.reason or fault.kind not in FENCE_FAULTS:
        return True
    return fault.kind in judged.kinds


def compare(seeds: range) -> dict[Verdict | None, int]:
    """How often each verdict came; fails where two engines differ."""
    seen: dict[Verdict | None, int] = {}
    for seed in seeds:
        program = drawn(seed)
        expected = reference(program)
        if expected.verdict is Verdict.UNDECIDED:
            continue
        seen[expected.verdict] = seen.get(expected.verdict, 0) + 1
        for name, engine in engines().items():
            found = engine(program)
            # Weak synchronisation is happens-before's to see: it alone may refute for it.
            weak = found.trace is not None and found.trace.fault.kind.value == "TTN305"
            assert weak or found.verdict in (None, expected.verdict), (seed, name, found.reason)
            if found.verdict is Verdict.REFUTED and found.trace is not None and not weak:
                fault = replayed(program, found.trace)
                assert fault is not None and fault.kind is found.trace.fault.kind, (seed, name)
        assert fences_agree(program), seed
    return seen


def test_every_engine_agrees():
    seen = compare(range(PROGRAMS))
    assert seen[Verdict.VERIFIED] > 8 and seen[Verdict.REFUTED] > 12, seen


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_every_engine_agrees_on_many():
    compare(range(PROGRAMS, PROGRAMS + HEAVY_PROGRAMS))


@pytest.mark.skipif(not spin_available(), reason="spin or gcc is not installed")
@pytest.mark.parametrize("seed", range(2))
def test_spin_agrees(seed: int):
    program = drawn(seed)
    expected = reference(program).verdict is Verdict.REFUTED
    assert (run_spin(to_promela(program), optimise="-O0").rule is not None) is expected


@pytest.mark.heavy
@pytest.mark.skipif(not spin_available(), reason="spin or gcc is not installed")
@pytest.mark.parametrize("seed", range(2, 60))
def test_spin_agrees_on_more(seed: int):
    test_spin_agrees(seed)


def test_what_commutes_is_one_table():
    """Every pair of kinds: an order is needed unless operator, proxy and atomicity agree.

    `inc` and `dec` wrap around at bounds of their own, and always need one.
    """
    kinds = [
        (ir.Effect("C", write=True, proxy=proxy, reduction=operator, reach=reach), cta)
        for operator in ("", *OPERATORS)
        for proxy in ir.REDUCING
        for reach in ir.Scope
        for cta in (0, 1)
    ]
    for first, home in kinds:
        for second, other in kinds:
            same = first.reduction in ("add", "min", "max", "and", "or", "xor")
            same = same and first.reduction == second.reduction
            near = first.reach is ir.Scope.CLUSTER or home == other
            expected = same and first.proxy is second.proxy and first.reach is second.reach and near
            found = commute(reduction_of(first, home), reduction_of(second, other))
            assert found is bool(expected), (first, second)


@pytest.mark.parametrize("proxy", [ir.Proxy.TENSORMAP, *ir.CACHED])
def test_other_proxies_reduce_nothing(proxy: ir.Proxy):
    with pytest.raises(ValueError, match="generic or async"):
        ir.Effect("C", write=True, proxy=proxy, reduction="add")
