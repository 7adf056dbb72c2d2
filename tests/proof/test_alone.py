"""A step that is followed alone represents all: every sequence of other steps, tried one by one.

What `persistent_alone` (proofs/AnyNumber.v) asks of a step: whatever the others do first, it stays
possible, each other step leads with it to one configuration in either order, and what is faulty
before it is faulty after it. `alone` concludes that from what it counts; here the reference
interpreter does all that the others can do, for values of the unknowns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest

from tests.building import at, e
from tests.building import program as make
from tests.free_programs import free
from tests.peer_commits import peer_commits
from tests.proof.kernels import programs
from tests.proof.values import concrete, unknowns
from tests.proofs.generators import by_turns, crowded, fenced, mixed_queue, sums
from tests.rings import persistent_ring, ring
from tests.sampling import part
from tests.structured_programs import (
    copy_pipeline,
    mma_chain,
    ping_pong,
    registers,
    store_pipeline,
    two_ctas,
)
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.errors import Refusal
from titan.foundation.verdict import Verdict
from titan.proof import commuting
from titan.proof.check import Proof, check
from titan.proof.claims import claims_of
from titan.proof.commuting import alone
from titan.proof.configuration import Configuration, FaultyError, System
from titan.proof.write import write
from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow, Frames
from titan.sync.fault import Actor, Step
from titan.sync.open_numbers import NotCoveredError, UndecidedError
from titan.sync.program import SyncProgram
from titan.sync.state import Key, State
from titan.sync.ways import Way, Ways
from titan.sync.widened import WidenedAgent

GENERATORS = (
    free, ring, persistent_ring, ping_pong, store_pipeline, copy_pipeline, mma_chain, two_ctas,
    registers, sums, mixed_queue, peer_commits,
)  # fmt: skip
STATES_MAX = 60  # that the others come to before the step


@dataclass(frozen=True)
class Others:
    """All that the others do before one step, in the machine of a program with its sizes."""

    system: System
    before: Configuration
    step: Step

    def after(self, state: State, step: Step) -> State | None:
        """None for a fault, of the step or of where it leads."""
        found, fault = self.system.machine.apply(state, step)
        return None if fault is not None or found is None or self.faulty(found) else found

    def faulty(self, state: State) -> bool:
        return self.system.machine.state_fault(state) is not None

    def same(self, first: State, second: State) -> bool:
        sizes = self.before.sizes
        one, other = (self.system._normal(Configuration(s, sizes)) for s in (first, second))
        return one.state == other.state

    def disturbed(self) -> str:
        """What some sequence of other steps does to the step; empty where there is nothing."""
        self.system.use(self.before)
        met, waiting = [self.before.state], [self.before.state]
        while waiting and len(met) < STATES_MAX:
            state = waiting.pop(0)
            try:
                found = self.at(state)
            except UndecidedError:
                continue  # a size of an iteration to come
            if isinstance(found, str):
                return found
            for later in found:
                if later not in met:
                    met.append(later)
                    waiting.append(later)
        return ""

    def at(self, state: State) -> list[State] | str:
        """Where one step of the others leads, or what is wrong with the step."""
        steps = self.system.machine.steps(state)
        if self.step not in steps:
            return "the step is not possible any more"
        with_it = self.after(state, self.step)
        if self.faulty(state):
            return "a fault is gone" if with_it is not None else []
        found = []
        for other in steps:
            if other == self.step:
                continue
            later = self.after(state, other)
            if with_it is None:
                found += [] if later is None else [later]
                continue
            if other not in self.system.machine.steps(with_it):
                return f"{other.text} is not possible behind the step"
            both, swapped = self.after(with_it, other), None
            if later is not None:
                if self.step not in self.system.machine.steps(later):
                    return f"{other.text} takes the step away"
                swapped = self.after(later, self.step)
                found.append(later)
            if swapped is None and both is not None:
                return f"a fault of {other.text} is gone behind the step"
            if swapped is not None and (both is None or not self.same(both, swapped)):
                return f"{other.text} and the step do not commute"
        return found


def valued(found: Configuration, random: Random, program: SyncProgram) -> Configuration:
    """The configuration with a small number for each unknown."""
    values = {name: random.randrange(3) for name in sorted(unknowns(found))}
    return concrete(found, values, program)


def configurations(program: SyncProgram, given: dict[str, int], limit: int) -> Proof | None:
    """A proof with the first configurations of the program; None where there is none."""
    try:
        proof = Proof(System(program, given), claims_of(program, given))
        proof.line("start", (("", start) for start in proof.system.starts()))
        for number, _ in enumerate(proof.found):
            if number >= limit:
                break
            try:
                proof.expanded(number, "all", "")
            except UndecidedError as question:
                proof.expanded(number, "split", question.name)
    except FaultyError:
        return proof if proof.found else None
    except Refusal:
        return None
    return proof


def compare(program: SyncProgram, given: dict[str, int], limit: int, seed: int) -> Counter[str]:
    """How many steps represent all, and how many of these were tried with unknowns."""
    seen: Counter[str] = Counter()
    proof, random = configurations(program, given, limit), Random(seed)
    for found in proof.found[:limit] if proof is not None else ():
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
            seen["open" if unknowns(found) else "given"] += 1
    return seen


def compare_random(first: int, count: int, limit: int = 40) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        random = Random(seed)
        program = GENERATORS[seed % len(GENERATORS)](random)
        sizes = {p.name: p.minimum + 2 for p in program.parameters if p.value is None}
        per = any(p.per for p in program.parameters)
        given = {} if per or seed // len(GENERATORS) % 2 else sizes
        seen += compare(program, given, limit, seed)
    return seen


def compare_named(first: int, count: int) -> Counter[str]:
    """Programs that meet at named barriers which the agent's own number names."""
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        seen += compare(by_turns(Random(seed)), {}, 40, seed)
    return seen


def compare_crowded(first: int, count: int) -> Counter[str]:
    """Programs of which many agents arrive at few barriers, or touch few tiles between fences."""
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        seen += compare(crowded(Random(seed)), {}, 40, seed)
        seen += compare(fenced(Random(seed)), {}, 40, seed)
    return seen


def test_single_steps_at_crowded_places_represent_all() -> None:
    seen = compare_crowded(0, part(600, of=10))
    assert seen["open"] > 100 and seen["given"] > 100, seen


def test_single_steps_of_random_programs_represent_all() -> None:
    seen = compare_random(0, part(480, of=20))
    assert seen["given"] > 30 and seen["open"] > 30, seen


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_single_steps_of_many_random_programs_represent_all() -> None:
    seen = compare_random(1000, 3000, 80)
    assert seen["given"] > 5000 and seen["open"] > 5000, seen


def test_of_an_open_group_nothing_behind_the_last_marker_finishes() -> None:
    """A copy with a marker behind it: the end of the marker takes the end of the copy away."""
    copy, other = (ir.Asynchronous((ir.Effect("tile", e(n), True),), "copies") for n in (0, 1))
    marker = ir.QueueArrive("copies", at("full"), e(1))
    made = make(
        "marker",
        [ir.Role("copier", (copy, marker, other, ir.QueueArrive("copies", at("full", 1), e(1))))],
        barriers=(ir.Barrier("full", 1, 2),),
        buffers=(ir.Buffer("tile", 2),),
        queues=(ir.Queue("copies", True, False),),
        policies=ir.Policies(exit_in_flight="allow", unobserved_phase="allow"),
    )
    system = System(made, {})
    (found,) = system.starts()
    issued = 0
    while (step := system.steps(found)[0]).actor is Actor.AGENT:
        found, issued = system.after(found, step), issued + 1
    assert issued == 4
    assert [s.text for s in system.steps(found) if alone(system, found, s)] == []


@pytest.mark.parametrize("most", [0, 3])
def test_agents_of_which_only_the_place_is_known(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every agent that does more than so much before the step may be anywhere ahead of it."""
    monkeypatch.setattr(commuting, "OPERATIONS_MAX", most)
    seen = compare_random(0, part(480, of=10))
    seen += compare_named(0, part(200, of=5))
    assert seen["given"] > 30, seen


_HONEST = WidenedAgent._stops


def _unseen(
    self: WidenedAgent, place: Frames, operation: ir.BarrierSync, arrivals: Counter[Key]
) -> bool:
    """As it is, but that the agent's own arrival is not counted."""
    self._arrived.add(place)
    return _HONEST(self, place, operation, arrivals)


def _first(_: ControlFlow, agent: Agent) -> dict[str, int]:
    return {agent.role.agent_constant: 0}


PLANTED = {  # of agents that may be anywhere ahead
    "they stop at every named barrier": (WidenedAgent, "_stops", lambda *_: True),
    "they do not arrive": (WidenedAgent, "_stops", _unseen),
    "all are the first of their role": (ControlFlow, "constants_of", _first),
    "they pass nothing": (ControlFlow, "ways_behind", lambda *_: ()),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_planted_in_widening_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commuting, "OPERATIONS_MAX", 0)
    monkeypatch.setattr(*PLANTED[name])
    with pytest.raises(AssertionError):
        compare_named(0, 400)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize(("count", "bytes_"), [(0, 16), (0, 0), (1, -16), (1, 16), (-1, 0)])
def test_bytes_that_no_arrival_brings_may_be_of_any_phase(
    count: int, bytes_: int, order: tuple[int, ...]
) -> None:
    """An arrival of count 0 that expects bytes may come before the end of a phase or after it."""
    wait = ir.Wait(at("b"), parity=e(0))
    roles = [
        ir.Role("expects", (ir.Arrive(at("b"), count=e(count), transaction=e(bytes_)),)),
        ir.Role("arrives", (ir.Arrive(at("b")),)),
        ir.Role("waits", (wait,)),
    ]
    made = make("zero", [roles[place] for place in order], barriers=(ir.Barrier("b", 1),))
    verdict = explore_reference(made, {}, Budget(states_max=1000)).verdict
    try:
        assert check(write(made, {})).states and verdict is Verdict.VERIFIED
    except FaultyError:
        assert verdict is Verdict.REFUTED
    compare(made, {}, 20, 0)


@pytest.mark.parametrize(
    "name",
    [
        "hopper_gemm_persistent",
        *(
            pytest.param(name, marks=pytest.mark.heavy)
            for name in ("blackwell_gemm", "fa4_forward", "grouped_gemm", "fa3_forward")
        ),
    ],
)
def test_single_steps_of_the_library_represent_all(name: str) -> None:
    seen = compare(programs(name)[0], {}, part(60), 1)
    assert seen["open"] > 3, seen


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("_keeps", lambda *_: True),  # whatever is issued is in order with what is in flight
        ("_is_behind", lambda *_: True),  # nothing in a queue finishes
        ("_ends", lambda *_: False),  # no phase ends
        ("_fences_commute", lambda *_: True),
        ("_signal_commutes", lambda *_: True),
    ],
)
def test_a_planted_fault_is_found(
    name: str, planted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commuting._Others, name, planted)
    with pytest.raises(AssertionError):
        compare_crowded(0, 600)
        compare_random(0, 480)


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_ways_behind_an_unknown_are_both_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one of the two ways alone a step passes that does not represent all."""
    honest = Ways.further
    monkeypatch.setattr(Ways, "further", lambda self, place: honest(self, place)[:1])
    with pytest.raises(AssertionError):
        compare_random(0, 480)
        compare(programs("hopper_gemm_persistent")[0], {}, 200, 1)


def certified(program: SyncProgram) -> str:
    """The certificate, or why there is none."""
    try:
        return write(program, states_max=300)
    except (FaultyError, NotCoveredError) as reason:
        return str(reason)


def test_ways_that_wait_are_asked_again_when_something_was_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Certificates are those of a U that asks every way in every round."""
    random = Random(8)
    tried = [make_one(random) for make_one in GENERATORS for _ in range(part(12, 2))]
    tried.append(programs("mi300_gemm")[0])
    found = [certified(program) for program in tried]
    monkeypatch.setattr(Way, "waits", lambda way, counts: False)
    assert [certified(program) for program in tried] == found
    assert sum(text.startswith("titan-certificate") for text in found) > 10
    monkeypatch.setattr(Way, "waits", lambda way, counts: way.stopped is not None)
    assert [certified(program) for program in tried] != found
