"""Agents of two CTAs that meet in halves: partial order reduction against searches without it.

A barrier of the cluster is met by an arrival and, later, a wait, by all agents or by some of them.
Around it they touch memory of both CTAs, arrive at mbarriers there, copy with completions there,
and end, which none may do while something of its CTA is in use. Some synchronise without
publishing, so that it is followed who knows of which accesses.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.agreement.engines import reference
from tests.building import at, e, loop
from tests.sampling import part
from titan.engines.explore import search
from titan.engines.explore.flatten import flatten
from titan.engines.explore.known import follows
from titan.engines.explore.search import Reductions, explore
from titan.engines.happens_before.engine import analyse
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.fault import FaultKind, Trace

PROGRAMS = 1_600
STATES_MAX = 60_000
SHORT = (0, 1, 2, 4, 7)
PLAIN = Reductions(symmetry=False, partial_order=False)
REDUCED = Reductions(symmetry=True, partial_order=True)
CLUSTER = ir.Scope.CLUSTER


class _Scene:
    """One program's choices. `weak`: the share of operations that publish nothing."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"cluster meetings {seed}")
        self.weak = self.random.choice((0.0, 0.0, 0.4))
        self.agents = self.random.choice((2, 3, 3, 4))
        self.partial = self.random.random() < 0.25
        self.looped = self.random.random() < 0.25

    def order(self) -> ir.Order:
        weak = self.random.random() < self.weak
        return ir.Order.RELAXED if weak else ir.Order.SYNCHRONISING

    def meeting(self) -> list[ir.Operation]:
        """An arrival, what is done meanwhile, and a wait; or both at once, or an arrival alone."""
        threads = self.agents - 1 if self.partial and self.random.random() < 0.7 else self.agents
        roll = self.random.random()
        if roll < 0.2:
            return [ir.BarrierSync(at("cluster"), e(threads), self.order())]
        first = ir.BarrierArrive(at("cluster"), e(threads), self.order())
        if roll < 0.25:
            return [first]
        between = self.local() if self.random.random() < 0.3 else []
        return [first, *between, ir.BarrierWait(at("cluster"), self.order())]

    def effect(self) -> ir.Effect:
        return ir.Effect(
            self.random.choice(("near", "far", "global", "near", "far")),
            write=self.random.random() < 0.3,
            part=e(self.random.randrange(2)),
        )

    def local(self) -> list[ir.Operation]:
        """An access, an arrival, a wait, or a copy."""
        random = self.random
        roll = random.random()
        if roll < 0.35:
            return [ir.Access((self.effect(),))]
        place = at(random.choice(("b", "c")))
        if roll < 0.6:
            return [ir.Arrive(place, order=self.order(), scope=CLUSTER)]
        if roll < 0.8:
            return [ir.Wait(place, e(0), e(0), self.order(), CLUSTER)]
        completes = (ir.Completion(place, e(4)),) if random.random() < 0.5 else ()
        copied = ir.Asynchronous((self.effect(),), "q", completes)
        announced = [ir.Arrive(place, transaction=e(4), scope=CLUSTER)] if completes else []
        drained = [ir.Commit("q"), ir.QueueWait("q", e(0))][: random.choice((1, 2, 2))]
        return [*announced, copied, *drained]

    def body(self) -> tuple[ir.Operation, ...]:
        """What comes before, between and behind one or two meetings."""
        made = self.local() if self.random.random() < 0.5 else []
        for _ in range(self.random.choice((1, 1, 2))):
            made += self.meeting()
            if self.random.random() < 0.5:
                made += self.local()
        return (loop("i", 2, made),) if self.looped else tuple(made)


def drawn(seed: int) -> ir.SyncProgram:
    """A program of two CTAs, one or two agents to a role."""
    scene = _Scene(seed)
    roles, agents = [], 0
    while agents < scene.agents:
        count = scene.random.choice((1, 1, 2)) if scene.agents - agents > 1 else 1
        roles.append(ir.Role(f"r{agents}", scene.body(), count, 1, cta=int(agents > 0)))
        agents += count
    return ir.SyncProgram(
        f"meetings_{seed}",
        "sm_90a",
        tuple(roles),
        barriers=(ir.Barrier("b", scene.random.randint(1, 2), cta=0), ir.Barrier("c", 1, cta=1)),
        named_barriers=(ir.NamedBarrier("cluster", scope=CLUSTER),),
        buffers=(
            ir.Buffer("near", 1, 2, initial=0, cta=0),
            ir.Buffer("far", 1, 2, initial=0, cta=1),
            ir.Buffer("global", 1, 2, ir.Space.GLOBAL, initial=0),
        ),
        queues=(ir.Queue("q", True),),
        policies=ir.Policies(
            exit_in_flight=scene.random.choice(("refuse", "refuse", "allow")),
            unobserved_phase=scene.random.choice(("refuse", "allow")),
        ),
    )


def _compare(seed: int, seen: Counter[str]) -> None:
    program = drawn(seed)
    budget = Budget(states_max=STATES_MAX)
    plain = explore(program, None, budget, PLAIN)
    reduced = explore(program, None, budget, REDUCED)
    with pytest.MonkeyPatch.context() as patch:  # closures that continue without numbers
        patch.setattr(search, "CLOSURE_OPERATIONS", SHORT[seed % len(SHORT)])
        short = explore(program, None, budget, REDUCED)
    if Verdict.UNDECIDED in (plain.verdict, reduced.verdict, short.verdict):
        seen["undecided"] += 1
        return
    assert reduced.verdict is plain.verdict, seed
    assert short.verdict is plain.verdict, seed
    followed = "followed" if follows(flatten(program, None)) else "not followed"
    seen[f"{followed}, {reduced.verdict.value}"] += 1
    if reduced.states * 2 < plain.states:
        seen["half of the states"] += 1
    other = analyse(program) if followed == "followed" else reference(program)
    if other.verdict in (None, Verdict.UNDECIDED) or _of_an_end(program, other.trace):
        return
    assert other.verdict is reduced.verdict, seed
    seen["second engine"] += 1


def _of_an_end(program: ir.SyncProgram, trace: Trace | None) -> bool:
    """Whether a CTA ends on what publishes nothing, which is decided on runs alone."""
    kind = trace.fault.kind if trace is not None and trace.fault is not None else None
    weak = kind is FaultKind.WEAK_SYNCHRONISATION
    return weak and program.policies.exit_in_flight == "refuse"


def test_meetings_in_halves_are_decided_alike():
    seen: Counter[str] = Counter()
    for seed in range(part(PROGRAMS, of=12)):
        _compare(seed, seen)
    wanted = (
        "followed, verified", "followed, refuted", "not followed, verified",
        "not followed, refuted", "half of the states", "second engine",
    )  # fmt: skip
    assert min(seen[word] for word in wanted) >= part(PROGRAMS, of=12) // 100, seen


@pytest.mark.heavy
@pytest.mark.long  # the test before this one is its sample
def test_many_meetings_in_halves_are_decided_alike():
    for seed in range(PROGRAMS, 20 * PROGRAMS):
        _compare(seed, Counter())
