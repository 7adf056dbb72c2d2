"""Order without visibility, against a plain search for paths.

No interleaving shows this fault, so its oracle is of another kind: programs whose events are known
beforehand, and reachability in their two graphs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from tests.building import access, at, e, program, read, write
from tests.engines.happens_before import engine_arrivals
from titan.engines.happens_before.engine import analyse
from titan.engines.happens_before.readings import Readings
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.fault import FaultKind

SEEDS = 1500
BYTES = 16
Event = tuple[int, int]


@dataclass
class Rounds:
    """A program in rounds, a barrier each: some agents arrive, some wait, some issue copies."""

    bodies: list[list[ir.Operation]]
    ctas: list[int]
    counts: list[int] = field(default_factory=list)
    arrivals: list[list[Event]] = field(default_factory=list)
    waits: list[list[Event]] = field(default_factory=list)
    issues: list[list[Event]] = field(default_factory=list)

    def add(self, agent: int, operation: ir.Operation) -> Event:
        self.bodies[agent].append(operation)
        return agent, len(self.bodies[agent]) - 1

    def program(self) -> ir.SyncProgram:
        roles = [
            ir.Role(f"r{agent}", tuple(body), threads=1, cta=self.ctas[agent])
            for agent, body in enumerate(self.bodies)
        ]
        return program(
            "rounds",
            roles,
            barriers=[ir.Barrier(f"b{number}", n) for number, n in enumerate(self.counts)],
            buffers=[
                ir.Buffer("x", initial=0),
                ir.Buffer("y", initial=0),
                ir.Buffer("landing", stages=len(self.counts), parts=4),
            ],
            policies=ir.Policies(exit_in_flight="allow"),
        )


def draw(random: Random, strong: bool = False, narrow: bool = False) -> Rounds:
    """`strong`: arrivals are few and carry visibility, all in one CTA; copies are many.

    `narrow`: nearly all release and acquire, many in CTA scope alone; the last access writes.
    """
    agents = random.randint(2, 4)
    ctas = [0 if strong else random.choice((0, 1)) for _ in range(agents)]
    made = Rounds([[] for _ in range(agents)], ctas)
    strength = 1.0 if strong else random.choice((0.5, 0.9))

    def order() -> ir.Order:
        released = random.random() < (0.97 if narrow else strength)
        return ir.Order.SYNCHRONISING if released else ir.Order.RELAXED

    def scope() -> ir.Scope:
        return ir.Scope.CLUSTER if random.random() < strength else ir.Scope.CTA

    for number in range(random.randint(1, 4)):
        for agent in range(agents):
            if random.random() < 0.45:
                effect = random.choice((read, read if narrow else write))(random.choice("xy"))
                made.add(agent, access(effect))
        few = 1 if strong else random.randint((agents + 1) // 2, agents)
        arrivers = random.sample(range(agents), few)
        waiters = random.sample(range(agents), random.randint((agents + 1) // 2, agents))
        barrier = at(f"b{number}")
        made.counts.append(len(arrivers))
        issuers = random.sample(range(agents), random.choice((1, 2) if strong else (0, 0, 1, 1, 2)))
        early = [agent for agent in issuers if random.random() < 0.5]
        copies = [made.add(agent, copy(number, agent)) for agent in early]
        sizes = [BYTES * len(issuers)] + [0] * (len(arrivers) - 1)
        made.arrivals.append(
            [
                made.add(a, ir.Arrive(barrier, transaction=e(n), order=order(), scope=scope()))
                for a, n in zip(arrivers, sizes, strict=True)
            ]
        )
        for agent in issuers:
            if agent not in early:
                if random.random() < 0.4:
                    made.add(agent, access(write(random.choice("xy"))))
                copies.append(made.add(agent, copy(number, agent)))
        made.issues.append(copies)
        made.waits.append(
            [made.add(a, ir.Wait(barrier, e(0), order=order(), scope=scope())) for a in waiters]
        )
    if narrow:
        made.add(random.randrange(agents), access(write(random.choice("xy"))))
    return made


def copy(number: int, agent: int) -> ir.Asynchronous:
    """A bulk load to a place of its own, which completes on the barrier of the round."""
    landing = write("landing", number, part=agent, proxy=ir.Proxy.ASYNC)
    done = ir.Completion(at(f"b{number}"), e(BYTES))
    return ir.Asynchronous((landing,), completes=(done,))


def carries(made: Rounds, arrival: Event, wait: Event, wide: bool = False) -> bool:
    """Whether the link from an arrival to a wait carries visibility; `wide`: at any scope."""
    first, second = (made.bodies[agent][place] for agent, place in (arrival, wait))
    assert isinstance(first, ir.Arrive) and isinstance(second, ir.Wait)
    if ir.Order.RELAXED in (first.order, second.order):
        return False
    near = made.ctas[arrival[0]] == made.ctas[wait[0]]
    return near or wide or first.scope is second.scope is ir.Scope.CLUSTER


def hands_on(made: Rounds, wait: Event) -> bool:
    """Whether a wait learns what the issuer of a copy knew, where copies publish that.

    The copy completes in the CTA of the barrier, the first.
    """
    operation = made.bodies[wait[0]][wait[1]]
    assert isinstance(operation, ir.Wait)
    near = made.ctas[wait[0]] == 0 or operation.scope is ir.Scope.CLUSTER
    return near and operation.order is not ir.Order.RELAXED


def reachable(
    made: Rounds, start: Event, visible: bool, wide: bool = False, relays: bool = False
) -> set[Event]:
    """Every event that a path leads to."""
    found, waiting = {start}, [start]
    while waiting:
        agent, place = event = waiting.pop()
        following: list[Event] = []
        if place + 1 < len(made.bodies[agent]):
            following.append((agent, place + 1))
        for arrivals, waits, issues in zip(made.arrivals, made.waits, made.issues, strict=True):
            if event in arrivals:
                following += [w for w in waits if not visible or carries(made, event, w, wide)]
            if event in issues and not visible:
                following += waits  # completed bytes publish nothing but themselves
            elif event in issues and relays:
                following += [w for w in waits if hands_on(made, w)]
        for other in following:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def expected(made: Rounds, narrow_reads: bool = False, relays: bool = False) -> str:
    """By paths alone: a race, an order without visibility, or neither.

    `narrow_reads`: what was read may be overwritten behind a path at any scope.
    """
    accesses = [
        ((agent, place), operation.effects[0])
        for agent, body in enumerate(made.bodies)
        for place, operation in enumerate(body)
        if isinstance(operation, ir.Access)
    ]
    weak = False
    for (first, one), (second, two) in combinations(accesses, 2):
        if one.buffer != two.buffer or not (one.write or two.write):
            continue
        pairs = ((first, second), (second, first))
        if not any(b in reachable(made, a, False) for a, b in pairs):
            return "race"
        read_before = any(
            b in reachable(made, a, True, wide=True) and not early.write
            for (a, b), early in zip(pairs, (one, two), strict=True)
        )
        visible = any(b in reachable(made, a, True, relays=relays) for a, b in pairs)
        weak |= not visible and not (narrow_reads and read_before)
    return "weak" if weak else "verified"


def test_visibility_follows_the_paths_that_carry_it():
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        made = draw(Random(seed))
        result = analyse(made.program())
        wanted = expected(made)
        seen[wanted] += 1
        if wanted == "verified":
            assert result.verdict is Verdict.VERIFIED, (seed, result)
            continue
        assert result.verdict is Verdict.REFUTED, (seed, wanted, result)
        assert result.fault is not None
        kind = FaultKind.DATA_RACE if wanted == "race" else FaultKind.WEAK_SYNCHRONISATION
        assert result.fault.kind is kind, (seed, result.fault)
    assert min(seen["race"], seen["weak"], seen["verified"]) > SEEDS // 20, seen


def test_what_was_read_is_overwritten_behind_releases_of_any_scope():
    seen: Counter[tuple[str, bool]] = Counter()
    for seed in range(SEEDS):
        made = draw(Random(seed), narrow=seed % 4 > 0)
        result = analyse(made.program(), readings=Readings(narrow_reads=True))
        wanted = expected(made, narrow_reads=True)
        seen[wanted, result.narrow] += 1
        assert (result.verdict is Verdict.VERIFIED) is (wanted == "verified"), (seed, result)
        assert result.narrow is (wanted == "verified" != expected(made)), seed
        quick = analyse(made.program(), show=False, readings=Readings(narrow_reads=True))
        assert (quick.verdict is Verdict.VERIFIED) is (wanted == "verified"), seed
    assert seen["verified", True] > SEEDS // 30 < seen["weak", False], seen


def test_an_arrival_of_an_engine_publishes_what_its_queue_has_finished():
    """PTX: tcgen05.commit, cp.async.mbarrier.arrive. Not what its agent has done before."""
    seen: Counter[str] = Counter()
    for seed in range(700):
        made = engine_arrivals.draw(Random(seed))
        result = analyse(made.program())
        wanted = engine_arrivals.expected(made)
        seen[wanted] += 1
        said = "verified" if result.verdict is Verdict.VERIFIED else "race"
        if result.fault is not None and result.fault.kind is FaultKind.WEAK_SYNCHRONISATION:
            said = "weak"
        assert said == wanted, (seed, result)
    assert min(seen["race"], seen["weak"], seen["verified"]) > 700 // 20, seen


def test_copies_publish_what_their_issuers_knew_under_that_reading():
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(SEEDS):
        made = draw(Random(seed), strong=seed % 3 == 0)
        result = analyse(made.program(), readings=Readings(engines_relay=True))
        wanted = expected(made, relays=True)
        seen[expected(made), wanted] += 1
        assert (result.verdict is Verdict.VERIFIED) is (wanted == "verified"), (seed, result)
        if wanted != "verified":
            kind = FaultKind.DATA_RACE if wanted == "race" else FaultKind.WEAK_SYNCHRONISATION
            assert result.fault is not None and result.fault.kind is kind, (seed, result)
    assert min(seen["weak", "verified"], seen["weak", "weak"]) > SEEDS // 50, seen
