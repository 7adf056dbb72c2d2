"""Steps that no other agent meets represent all: stores in slices, tried step by step.

Random programs of warpgroups that stage their stores in rings of buffers, in order, fenced and
waited for, or nearly so. The reference interpreter executes what the others can do first
(`Others` of test_alone), and the explorer decides the same programs.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.building import ASYNC, FENCE, Body, access, at, e, loop, read, write
from tests.building import program as make
from tests.proof.test_alone import Others, configurations, valued
from tests.sampling import part
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.proof import commuting
from titan.proof.check import check
from titan.proof.commuting import _Others, alone
from titan.proof.configuration import FaultyError
from titan.proof.write import write as certificate
from titan.sync import program as ir
from titan.sync.open_numbers import NotCoveredError, UndecidedError
from titan.sync.private import PrivateOperations
from titan.sync.program import SyncProgram
from titan.sync.ways import Way
from titan.sync.widened import WidenedAgent

CONFIGURATIONS = 35  # of each program


def slices(random: Random) -> SyncProgram:
    """Two warpgroups fed by a producer; each stores slices through its part of a ring.

    At times an operation is left out, waits for a group too few, or names the other's part.
    """
    mine = "self" if random.random() < 0.8 else random.choice((0, "1 - self"))
    ring, pending = random.choice((1, 2)), random.choice((0, 0, 1))
    together = ir.BarrierSync(at("own", "self"), e(128))
    body: Body = []
    for number in range(random.choice((1, 2))):
        stage = number % ring if random.random() < 0.8 else "w % 2"
        body += [
            ir.QueueWait("output", e(pending), ir.Until.READ),
            *[together] * (random.random() < 0.5),
            access(write("c", stage, None, mine)),
            FENCE,
            *[together] * (random.random() < 0.5),
            ir.Asynchronous((read("c", stage, None, mine, ASYNC),), "output"),
            ir.Commit("output"),
        ]
    taken: Body = [
        ir.Wait(at("full"), e("n % 2"), e("n")),
        *[access(read("a"))] * (random.random() < 0.7),
        ir.Arrive(at("empty")),
        ir.Assign("n", e("n + 1")),
    ]
    if random.random() < 0.5:
        taken = [loop("t", "tiles", taken)]
    if random.random() < 0.3:
        del body[random.randrange(len(body))]
    last: Body = [ir.QueueWait("output", e(0))] * (random.random() < 0.8)
    consumer = ir.Role(
        "consumer", (loop("w", "work", [*taken, *body]), *last), 2, 128, variables=(("n", 0),)
    )
    given: Body = [
        ir.Wait(at("empty"), e("(n - 1) % 2"), e("n - 1")),
        access(write("a", 0, "n")),
        ir.Arrive(at("full")),
        ir.Assign("n", e("n + 1")),
    ]
    if isinstance(taken[0], ir.Loop):
        given = [loop("t", "tiles", given)]
    producer = ir.Role("producer", (loop("w", "work", given),), 1, 32, variables=(("n", 0),))
    return make(
        "slices",
        random.sample([producer, consumer], 2),
        parameters=(ir.Parameter("work"), ir.Parameter("tiles", None, 1, "w")),
        buffers=(ir.Buffer("a"), ir.Buffer("c", 2, 2)),
        barriers=(ir.Barrier("full", 1), ir.Barrier("empty", 2)),
        named_barriers=(ir.NamedBarrier("own", 2),),
        queues=(ir.Queue("output", True, True),),
        policies=ir.Policies(unobserved_phase="allow"),
    )


def tried(first: int, count: int) -> Counter[str]:
    """Steps that represent all, by whether they are private; each is tried with numbers."""
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        random = Random(seed)
        program = slices(random)
        given = random.choice(({}, {"work": 2}))
        proof = configurations(program, given, CONFIGURATIONS)
        for found in proof.found[:CONFIGURATIONS] if proof is not None else ():
            assert proof is not None
            try:
                steps = proof.system.steps(found)
                chosen = [s for s in steps if len(steps) > 1 and alone(proof.system, found, s)]
            except (UndecidedError, FaultyError, NotCoveredError):
                continue
            for step in chosen:
                number = valued(found, random, program)
                others = Others(proof.system, number, step)
                proof.system.use(number)
                if others.after(number.state, step) is None:
                    continue  # a fault, which the line of the step reports
                assert others.disturbed() == "", (seed, step.text)
                operation = _Others(proof.system, found, step).operation
                own = proof.system.ways.private(step.agent, operation)
                seen["private" if own else "shared"] += 1
    return seen


def test_private_steps_represent_all() -> None:
    seen = tried(0, part(60, of=15))
    assert seen["private"] > part(50) and seen["shared"] > part(20), seen


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_many_private_steps_represent_all() -> None:
    seen = tried(1000, 1500)
    assert seen["private"] > 5000, seen


def test_certificates_of_stores_in_slices_agree_with_the_reference() -> None:
    found: Counter[Verdict] = Counter()
    for seed in range(part(200, of=20)):
        program = slices(Random(seed))
        try:
            covered = check(certificate(program, states_max=400))
        except FaultyError:
            found[Verdict.REFUTED] += 1
            sizes = [{"work": work, "tiles": 1} for work in (1, 2)]
            verdicts = [explore_reference(program, s, Budget(states_max=4000)) for s in sizes]
            assert any(report.verdict is not Verdict.VERIFIED for report in verdicts), seed
            continue
        except NotCoveredError:
            continue
        assert covered.open
        for work in (1, 2):
            report = explore_reference(program, {"work": work, "tiles": 1}, Budget(states_max=1500))
            assert report.verdict is not Verdict.REFUTED, seed
        found[Verdict.VERIFIED] += 1
    assert found[Verdict.VERIFIED] > part(3) and found[Verdict.REFUTED] > part(3), found


PLANTED = {
    "everything is of its agent alone": (PrivateOperations, "_alone", lambda *_: True),
    "a fence takes away its own marks alone": (
        PrivateOperations,
        "_is_private",
        lambda self, agent, operation: isinstance(operation, ir.Fence | ir.Access),
    ),
    "every wait on a queue is for the step": (_Others, "_waits_for_step", lambda *_: True),
    "nobody arrives": (Way, "unmet", lambda *_: iter(())),
}


QUICK = "everything is of its agent alone"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "name",
    [name if name == QUICK else pytest.param(name, marks=pytest.mark.heavy) for name in PLANTED],
)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED[name])
    with pytest.raises(AssertionError):
        tried(0, 300)


@pytest.mark.heavy
@pytest.mark.long
def test_agents_that_are_anywhere_ahead_wait_for_their_own_queues_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of them are at once; that they wait on every queue is found to be wrong."""
    monkeypatch.setattr(commuting, "OPERATIONS_MAX", 0)
    tried(0, 20)
    monkeypatch.setattr(WidenedAgent, "_waits_behind", lambda *_: True)
    with pytest.raises(AssertionError):
        tried(0, 20)
