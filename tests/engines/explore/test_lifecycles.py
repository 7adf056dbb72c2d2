"""Initialisation and invalidation of mbarriers under partial order reduction.

Random programs of a few agents that initialise barriers, use them and end them, with and without
block barriers in between, in loops and in two CTAs: the verdict with reduction against that without
any.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest

from tests.building import FENCE, Body, access, at, e, loop, program, read, write
from tests.edits import perturb
from tests.sampling import sampled
from titan.engines.explore.search import ExplorationError, Reductions, explore
from titan.engines.result import Budget
from titan.foundation.verdict import Reason, Verdict
from titan.sync import program as ir
from titan.sync.interpreter import LocalLoopError

NONE = Reductions(symmetry=False, partial_order=False)
PARTIAL_ORDER = Reductions(symmetry=False, partial_order=True)
BUDGET = Budget(states_max=20_000)
BARRIERS = ("b", "c")
DECIDED = (Verdict.VERIFIED, Verdict.REFUTED, Verdict.UNDECIDED)  # the last: unknown knowledge
PUBLISH = ir.Fence(ir.FenceKind.BARRIER_INIT)
WEAK = ir.Order.RELAXED


@dataclass(frozen=True)
class Shape:
    """What a random program is made of."""

    agents: int
    stages: int
    ctas: int
    policies: ir.Policies
    weak: bool  # some arrivals and waits order nothing else: who knows of accesses is followed


def shape(random: Random) -> Shape:
    permission = random.choice(("refuse", "allow"))
    return Shape(
        random.choice((2, 2, 3, 4)), random.choice((1, 1, 2)), random.choice((1, 1, 2)),
        ir.Policies(barrier_init=random.choice(("fence", "assumed")), unobserved_phase=permission),
        random.random() < 0.2,
    )  # fmt: skip


def used(random: Random, given: Shape, barrier: ir.Reference, data: str) -> list[Body]:
    """For each agent how it uses an initialised barrier: one signals, in one of four ways."""
    bodies: list[Body] = [[] for _ in range(given.agents)]
    sender, copies = random.randrange(given.agents), False
    order = WEAK if given.weak and random.random() < 0.5 else ir.Order.SYNCHRONISING
    match random.choice(("arrive", "store", "copy", "queue", "token")):
        case "arrive":
            bodies[sender].append(ir.Arrive(barrier, order=order))
        case "store":
            bodies[sender] += [access(write(data)), FENCE, ir.Arrive(barrier, order=order)]
            copies = True
        case "copy":
            done = (ir.Completion(barrier, e(64)),)
            bodies[sender] += [
                ir.Arrive(barrier, transaction=e(64)),
                ir.Asynchronous((write(data, proxy=ir.Proxy.ASYNC),), completes=done),
            ]
            copies = True
        case "queue":
            issued = ir.Asynchronous((read("own_0", proxy=ir.Proxy.ASYNC),), "q")
            bodies[sender] += [issued, ir.QueueArrive("q", barrier)]
        case "token":
            bodies[sender].append(ir.Arrive(barrier, token=True))
            bodies[sender].append(ir.TokenWait(barrier))
    for number, body in enumerate(bodies):
        if random.random() < 0.6 or number == (sender + 1) % given.agents:
            body.append(ir.Wait(barrier, e(0), e(0)))
            body.append(access(read(data if copies else f"own_{number}")))
    return bodies


def one_round(random: Random, given: Shape) -> list[Body]:
    """Somebody sets up, somebody ends; between them, and between rounds, meetings that may lack."""
    bodies: list[Body] = [[] for _ in range(given.agents)]
    name = random.choice(BARRIERS)
    references = [at(name, stage) for stage in range(given.stages)]

    def meet() -> None:
        if random.random() < 0.95:
            for body in bodies:
                body.append(ir.BarrierSync(at("n"), e(32 * given.agents)))

    owner = random.randrange(given.agents)
    bodies[owner] += [ir.Init(reference, e(1)) for reference in references]
    if given.policies.barrier_init == "fence":
        bodies[owner].append(PUBLISH)
    for number, body in enumerate(bodies):
        if random.random() < 0.5:
            body.append(access(write(f"own_{number}")))
    meet()
    for reference in references:
        data = f"data_{name}"
        for body, more in zip(bodies, used(random, given, reference, data), strict=True):
            body.extend(more)
    meet()
    for body in bodies:  # some hold registers that are enough for two of them, or keep them
        amount = e(random.choice((1, 1, 2)))
        if random.random() < 0.2:
            body.insert(random.randrange(len(body) + 1), ir.PoolTake("registers", amount))
            body.extend([ir.PoolGive("registers", amount)] if random.random() < 0.9 else [])
    ender = bodies[random.choice((owner, random.randrange(given.agents)))]
    ender += [ir.Invalidate(reference) for reference in references]
    meet()
    return bodies


def drawn(seed: int) -> ir.SyncProgram:
    """One or two rounds, perhaps a loop over one, of any length at times, with up to two edits."""
    random = Random(seed)
    given = shape(random)
    bodies: list[Body] = [[] for _ in range(given.agents)]
    for _ in range(random.choice((1, 1, 2))):
        looped, length = random.random() < 0.3, random.choice(("2", "n"))
        for body, more in zip(bodies, one_round(random, given), strict=True):
            body.extend([loop("i", length, more)] if looped else more)
    names = [*(f"own_{n}" for n in range(given.agents)), *(f"data_{name}" for name in BARRIERS)]
    cluster = given.ctas > 1
    made = program(
        "lifecycles",
        [ir.Role(f"r{n}", tuple(body), cta=n % given.ctas) for n, body in enumerate(bodies)],
        buffers=[ir.Buffer(name, initial=0) for name in names],
        barriers=[ir.Barrier(name, 1, given.stages, initialised=False) for name in BARRIERS],
        parameters=[ir.Parameter("n")],
        pools=[ir.Pool("registers", random.choice((2, 3, 4)))],
        queues=[ir.Queue("q", grouped=False, ordered=random.random() < 0.5)],
        named_barriers=[ir.NamedBarrier("n", scope=ir.Scope.CLUSTER if cluster else ir.Scope.CTA)],
        policies=given.policies,
    )
    return perturb(made, random, random.choice((0, 0, 0, 1, 2)))


@pytest.mark.parametrize("block", sampled(range(8), every=2))
def test_the_verdict_is_that_without_reduction(block: int) -> None:
    seen: Counter[Verdict] = Counter()
    for seed in range(150 * block, 150 * block + 150):
        given = drawn(seed)
        try:
            exact = explore(given, budget=BUDGET, reductions=NONE)
        except (ExplorationError, LocalLoopError):
            continue
        if exact.verdict is Verdict.UNDECIDED and exact.reason is not Reason.PUBLICATION:
            continue
        seen[exact.verdict] += 1
        for reductions in (PARTIAL_ORDER, Reductions()):
            reduced = explore(given, budget=BUDGET, reductions=reductions)
            assert (reduced.verdict, reduced.reason) == (exact.verdict, exact.reason), seed
    assert min(seen[verdict] for verdict in DECIDED) > 1, seen


def test_agents_beside_an_initialisation_cost_no_product() -> None:
    """One agent initialises, seven write what is theirs: a line of states, not 2 to the seventh."""
    first = [*(ir.Init(at(name), e(1)) for name in BARRIERS), ir.BarrierSync(at("n"), e(256))]
    roles = [ir.Role("r0", body=tuple(first))]
    for n in range(1, 8):
        body = (access(write(f"own_{n}")), ir.BarrierSync(at("n"), e(256)))
        roles.append(ir.Role(f"r{n}", body=body))
    given = program(
        "beside", roles,
        buffers=[ir.Buffer(f"own_{n}") for n in range(1, 8)],
        barriers=[ir.Barrier(name, 1, initialised=False) for name in BARRIERS],
        named_barriers=[ir.NamedBarrier("n")],
        policies=ir.Policies(barrier_init="assumed"),
    )  # fmt: skip
    result = explore(given, reductions=PARTIAL_ORDER)
    assert result.verdict is Verdict.VERIFIED
    assert result.states is not None and result.states < 80
