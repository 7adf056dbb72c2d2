"""Waits for groups, and fences beside copies in flight, under partial order reduction.

Random programs of warps that copy into shared memory in groups (`cp.async`), wait for all but the
last, fence, meet, and multiply what all have copied: the verdict with reduction against that
without any, also where the search is undecided because of what somebody does not know.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest

from tests.building import ASYNC, FENCE, Body, access, at, e, loop, program, read, write
from tests.edits import perturb
from tests.sampling import sampled
from titan.engines.explore.search import ExplorationError, Reductions, explore
from titan.engines.result import Budget
from titan.foundation.verdict import Reason, Verdict
from titan.sync import program as ir
from titan.sync.interpreter import LocalLoopError

NONE = Reductions(symmetry=False, partial_order=False)
PARTIAL_ORDER = Reductions(symmetry=False, partial_order=True)
BUDGET = Budget(states_max=30_000)


@dataclass(frozen=True)
class Drawing:
    """What a random program is made of; `slip`: what is wrong at places, if anything."""

    random: Random
    warps: int
    stages: int
    commits: bool
    slip: str

    def slips(self, kind: str) -> bool:
        return self.slip == kind and self.random.random() < 0.4


def copied(given: Drawing, body: Body, number: int, turn: int | str) -> None:
    """The part of the tile that a warp copies, or at times stores."""
    stage = turn % given.stages if isinstance(turn, int) else f"({turn}) % {given.stages}"
    if given.random.random() < 0.1:
        body.append(access(write(f"tile_{number}", stage)))
    else:
        body.append(ir.Asynchronous((write(f"tile_{number}", stage),), "copies"))
    body.append(ir.Commit("copies"))


def random_left(given: Drawing) -> int:
    return given.random.randrange(given.stages)


def one_trip(given: Drawing, turn: int | str, multiplier: int) -> list[Body]:
    """Copy the stage ahead, wait for this one, fence, meet, multiply, wait for that, meet."""
    ahead = given.stages - 1
    later = turn + ahead if isinstance(turn, int) else f"{turn} + {ahead}"
    stage = turn % given.stages if isinstance(turn, int) else f"{turn} % {given.stages}"
    parity = turn % 2 if isinstance(turn, int) else f"{turn} % 2"
    sources = [read(f"tile_{n}", stage, proxy=ASYNC) for n in range(given.warps)]
    whole = e(32 * given.warps)
    bodies: list[Body] = []
    extra = given.random.random() < 0.2
    for number in range(given.warps):
        body: Body = []
        order = ir.Order.RELAXED if given.slips("weak") else ir.Order.SYNCHRONISING
        meet = ir.BarrierSync(at("n"), whole, order)
        copied(given, body, number, later)
        left = ahead + given.slips("leaving")
        if not given.slips("wait"):
            body.append(ir.QueueWait("copies", e(left)))
        body += [meet] if extra else []
        body += [] if given.slips("fence") else [FENCE]
        body.append(meet)
        if number == multiplier:
            effects = (*sources, write("sum", proxy=ASYNC))
            body.append(ir.Asynchronous(effects, "products"))
            if given.slips("weak"):  # a wait by chance, or too late: who knows of what is over?
                body.append(ir.QueueWait("copies", e(random_left(given))))
            if given.commits:
                body.append(ir.QueueArrive("products", at("done")))
            else:
                body.append(ir.QueueWait("products", e(0)))
        if given.commits and (number == multiplier or not given.slips("product")):
            body.append(ir.Wait(at("done"), e(parity), e(turn)))
        if not given.commits and not given.slips("product"):
            body.append(meet)
        bodies.append(body)
    return bodies


def drawn(seed: int) -> ir.SyncProgram:
    """Warps copy some stages ahead, and one multiplies; trips are written out or a loop."""
    random = Random(seed)
    slip = random.choice(("", "", "", "", "leaving", "wait", "fence", "product", "weak", "weak"))
    given = Drawing(
        random, random.choice((2, 2, 3)), random.choice((1, 2, 2, 3)), random.random() < 0.6, slip
    )
    trips, multiplier = random.choice((1, 2, 2)), random.randrange(given.warps)
    bodies: list[Body] = [[] for _ in range(given.warps)]
    for number, body in enumerate(bodies):
        for turn in range(given.stages - 1):
            copied(given, body, number, turn)
    if random.random() < 0.3:
        length = random.choice(("n", "2"))
        for body, more in zip(bodies, one_trip(given, "i", multiplier), strict=True):
            body.append(loop("i", length, more))
    else:
        for turn in range(trips):
            for body, more in zip(bodies, one_trip(given, turn, multiplier), strict=True):
                body.extend(more)
    for body in bodies:
        body.append(ir.QueueWait("copies", e(0)))
    tiles = [ir.Buffer(f"tile_{n}", given.stages, initial=0) for n in range(given.warps)]
    made = program(
        "copy_groups",
        [ir.Role(f"w{n}", tuple(body)) for n, body in enumerate(bodies)],
        buffers=[*tiles, ir.Buffer("sum", initial=0)],
        barriers=[ir.Barrier("done", 1)],
        parameters=[ir.Parameter("n")],
        queues=[
            ir.Queue("copies", ordered=random.random() < 0.8),
            ir.Queue("products", grouped=False, pipelined=True),
        ],
        named_barriers=[ir.NamedBarrier("n")],
        policies=ir.Policies(war_fence=random.random() < 0.2),
    )
    return perturb(made, random, random.choice((0, 0, 0, 1)))


@pytest.mark.parametrize("block", sampled(range(8), every=2))
def test_the_verdict_beside_copies_in_flight(block: int) -> None:
    seen: Counter[Verdict] = Counter()
    for seed in range(60 * block, 60 * block + 60):
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
    assert min(seen[Verdict.VERIFIED], seen[Verdict.REFUTED]) > 3, seen


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("before", [True, False])
def test_what_a_wait_learns_by_chance_is_not_known(left: int, before: bool) -> None:
    """A copy may be over when its warp waits for all groups but one, and need not be.

    The arrival behind that wait publishes it then; the meeting later on publishes nothing.
    """
    unrelated = [access(write("own"))] if before else []
    first: Body = [
        *unrelated, ir.Asynchronous((write("tile"),), "copies"), ir.Commit("copies"),
        ir.QueueWait("copies", e(left)), ir.Arrive(at("b")), ir.QueueWait("copies", e(0)),
        ir.BarrierSync(at("n"), e(64), ir.Order.RELAXED),
    ]  # fmt: skip
    second: Body = [
        ir.Wait(at("b"), e(0), e(0)), ir.BarrierSync(at("n"), e(64), ir.Order.RELAXED),
        access(read("tile")),
    ]  # fmt: skip
    for roles in ((first, second), (second, first)):
        given = program(
            "by_chance", [ir.Role(f"w{n}", tuple(body)) for n, body in enumerate(roles)],
            buffers=[ir.Buffer("tile", initial=0), ir.Buffer("own")], barriers=[ir.Barrier("b", 1)],
            queues=[ir.Queue("copies")], named_barriers=[ir.NamedBarrier("n")],
        )  # fmt: skip
        for reductions in (NONE, PARTIAL_ORDER):
            found = explore(given, reductions=reductions)
            assert found.reason is (Reason.PUBLICATION if left else None)
