"""The proved table of commutation (proofs/SyncIndependent.v) against the rules of the checker.

Where the checker takes one step for all (`titan/proof/commuting.py`), every other step that is
possible, then or after others, has to commute with it, and each has to stay possible behind the
other. Of each such pair that random programs and the library come to, the table, extracted from
Coq, has to say so, too: a rule of the checker that has no proof fails here. What the table does
not cover is named in `NOT_IN_COQ`, by kinds of steps.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.building import access, e, program
from tests.proof.kernels import programs
from tests.proof.test_alone import GENERATORS
from tests.proofs.semantics import Text, line, listed, step_numbers
from tests.proofs.test_semantics import LIBRARY, machine, sizes_of
from tests.sampling import part
from titan.foundation.errors import Refusal
from titan.proof import commuting
from titan.proof.commuting import alone
from titan.proof.configuration import Configuration, FaultyError, System
from titan.sync import program as ir
from titan.sync.fault import Actor, Step
from titan.sync.open_numbers import NotCoveredError, UndecidedError
from titan.sync.program import SyncProgram
from titan.sync.state import State

__all__ = ["machine"]

pytestmark = pytest.mark.skipif(
    shutil.which("coqc") is None or shutil.which("ocamlopt") is None,
    reason="there is no coqc or no ocamlopt",
)
STEPS_MAX = 60
Kinds = tuple[str, str]

# What the table does not have, or not wherever the checker has it.
NOT_IN_COQ = {
    ("Asynchronous", "FINISH"),  # what a pipe keeps in order
    ("FINISH", "FINISH"),  # two engines read one place through the generic proxy
    ("Access", "Fence"),  # of buffers that share places
}


class Tried:
    """One interleaving, and of each of its states the pairs of steps that have to commute."""

    def __init__(self, tried: SyncProgram, random: Random, steps_max: int = STEPS_MAX) -> None:
        sizes = sizes_of(tried, random)
        self.text = Text(tried, sizes)
        self.system = System(tried, sizes)  # type: ignore[arg-type]
        self.taken: list[Step] = []
        self.asked: list[dict[int, Kinds]] = []  # of each state: place of the pair, its kinds
        self._run(random, steps_max)

    @property
    def question(self) -> str:
        numbers = [4, *self.text.numbers, *listed(self.taken, step_numbers)]
        return line("", numbers)

    def _run(self, random: Random, steps_max: int) -> None:
        interpreter = self.text.machine
        state: State | None = interpreter.initial()
        waiting: list[Step] = []  # steps that represent all since some state before this
        while state is not None:
            steps = interpreter.steps(state)
            faulty = interpreter.state_fault(state) is not None
            single = [] if faulty else self._single(state, steps)
            waiting = [step for step in waiting if step in steps]
            waiting += [step for step in single if step not in waiting]
            self.asked.append({} if faulty else self._pairs(state, steps, waiting))
            if not steps or faulty or len(self.taken) == steps_max:
                return
            others = [step for step in steps if step not in waiting]
            chosen = random.choice(others if others and random.random() < 0.8 else steps)
            self.taken.append(chosen)
            if chosen in waiting:
                waiting = []  # what the others do is asked of before it
            state, _ = interpreter.apply(state, chosen)

    def _single(self, state: State, steps: list[Step]) -> list[Step]:
        before = Configuration(state, ())
        if len(steps) < 2:
            return []
        found = [step for step in steps if alone(self.system, before, step)]
        return [step for step in found if self.text.machine.apply(state, step)[1] is None]

    def _pairs(self, state: State, steps: list[Step], waiting: list[Step]) -> dict[int, Kinds]:
        found: dict[int, Kinds] = {}
        place = 0
        for number, first in enumerate(steps):
            for second in steps[number + 1 :]:
                if first in waiting or second in waiting:
                    kinds = self._kind(state, first), self._kind(state, second)
                    found[place] = (min(kinds), max(kinds))
                place += 1
        return found

    def _kind(self, state: State, step: Step) -> str:
        if step.actor is not Actor.AGENT:
            return step.actor.name
        operation = self.text.machine.control.operation_of(state, step.agent)
        return type(operation).__name__


def unproved(table: Path, tried: list[Tried]) -> tuple[Counter[Kinds], Counter[Kinds]]:
    """Pairs that have to commute, by kinds: of how many the table says so, and of how many not."""
    asked = "\n".join(item.question for item in tried) + "\n0\n"
    done = subprocess.run([table], input=asked, capture_output=True, text=True, check=True)
    told = iter(done.stdout.splitlines())
    proved: Counter[Kinds] = Counter()
    missing: Counter[Kinds] = Counter()
    for item in tried:
        for pairs in item.asked:
            letter, *answers = next(told).split()
            assert letter == "I"
            for place, kinds in pairs.items():
                (proved if answers[place] == "1" else missing)[kinds] += 1
        assert next(told) == "E"
    return proved, missing


def random_trial(seed: int) -> Tried | None:
    random = Random(seed)
    drawn = GENERATORS[seed % len(GENERATORS)](random)
    try:
        return Tried(drawn, random)
    except (Refusal, FaultyError, UndecidedError, NotCoveredError):
        return None


def trials(first: int, count: int) -> list[Tried]:
    found = (random_trial(seed) for seed in range(first, first + count))
    return [item for item in found if item is not None]


def test_rules_of_the_checker_are_in_the_table(machine: Path) -> None:
    proved, missing = unproved(machine, trials(0, part(2000, of=8)))
    assert missing.keys() <= NOT_IN_COQ, missing
    assert proved.total() > 500 * missing.total()
    assert len(proved.keys() - NOT_IN_COQ) > 25, proved


def test_rules_for_the_library_are_in_the_table(machine: Path) -> None:
    tried = [Tried(programs(name)[0], Random(1), 120) for name in LIBRARY]
    proved, missing = unproved(machine, tried)
    assert missing.keys() <= NOT_IN_COQ, missing
    assert proved.total() > 300


@pytest.mark.parametrize(("available", "answer"), [(1, "0"), (2, "1")])
def test_a_step_that_takes_the_other_away_is_not_in_the_table(
    machine: Path, available: int, answer: str
) -> None:
    """Two agents take from one pool: the sum does not depend on the order, what is left does."""
    take = ir.PoolTake("pool", e(1))
    roles = [ir.Role("taker", (take, access()), 2, 1)]
    text = Text(program("taken", roles, pools=[ir.Pool("pool", available)]), {})
    asked = line("", [4, *text.numbers, 0]) + "\n0\n"
    done = subprocess.run([machine], input=asked, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].split() == ["I", answer]


def _passes(*_: object) -> None:
    return None


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("_meet", _passes),  # whatever is touched
        ("_ends_commute", lambda *_: True),
        ("_kind_commutes", lambda *_: True),
    ],
)
def test_a_rule_without_a_proof_is_found(
    machine: Path, name: str, planted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that the checker takes and the table has not, of kinds that the table has."""
    monkeypatch.setattr(commuting._Others, name, planted)
    for first in range(0, 4000, 200):
        _, missing = unproved(machine, trials(first, 200))
        if missing.keys() - NOT_IN_COQ:
            return
    raise AssertionError("not found")
