"""Arrays listed from an open stage on: each step is that of the plain machine, for any origin.

The reference interpreter executes a configuration with its arrays listed from an origin; here it
also executes, without any open number, what that is for values of the unknowns, every stage at its
own place. Both lead to the same, or to a fault.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import cast

import pytest

from tests.proof.kernels import programs
from tests.proof.test_alone import GENERATORS, configurations
from tests.proof.values import concrete, unknowns
from tests.rings import persistent_ring, ring
from tests.sampling import part
from titan.foundation.errors import Refusal
from titan.proof import write
from titan.proof.check import Proof
from titan.proof.claims import claims_of
from titan.proof.configuration import Configuration, FaultyError, System, is_instance
from titan.sync.arrays import Arrays
from titan.sync.open_numbers import NotCoveredError, UndecidedError, linear
from titan.sync.program import SyncProgram
from titan.sync.state import State
from titan.sync.turns import TURNS, Turn, place_of

TURNING = ("hopper_gemm", "fa4_forward", "hopper_gemm_pingpong", "split_k_cluster", "mi300_gemm")


def after(proof: Proof, found: Configuration) -> dict[str, Configuration | str] | str:
    """Where each step of a configuration leads."""
    try:
        steps = proof.system.steps(found)
    except FaultyError:
        return "fault"
    reached: dict[str, Configuration | str] = {}
    for step in steps:
        try:
            reached[step.text] = proof.system.after(found, step)
        except FaultyError:
            reached[step.text] = "fault"
    return reached


def compare(proof: Proof, program: SyncProgram, random: Random) -> Counter[str]:
    """How many steps were the same from open origins on, for some values."""
    seen: Counter[str] = Counter()
    for found in proof.found:
        try:
            wide = after(proof, found)
        except (UndecidedError, Refusal):
            continue
        values = {name: random.randrange(7) for name in sorted(unknowns(found))}
        further = wide.values() if isinstance(wide, dict) else ()
        for name in sorted(unknowns(tuple(c for c in further if isinstance(c, Configuration)))):
            values.setdefault(name, random.randrange(7))
        narrow = after(proof, concrete(found, values, program))
        if isinstance(wide, str) or isinstance(narrow, str):
            assert wide == narrow
            continue
        assert wide.keys() == narrow.keys()
        for label, reached in wide.items():
            met = narrow[label]
            if isinstance(reached, str) or isinstance(met, str):
                assert reached == met
                continue
            expected = proof.system._normal(concrete(reached, values, program))
            assert met.state == expected.state, label
            seen["turned" if found.origins else "as it is"] += 1
    return seen


def certified(program: SyncProgram) -> Proof:
    """The configurations of the program's certificate, those between the steps of a line, too."""
    proof = Proof(System(program, {}), claims_of(program, {}))
    proof.line("start", (("", start) for start in proof.system.starts()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "CHAIN_MAX", 1)
        writer = write.CertificateWriter(proof, reduce=True)
        for number, _ in enumerate(proof.found):
            writer.line(number)
    return proof


@pytest.mark.parametrize("name", TURNING)
def test_steps_from_any_origin_are_those_of_the_library(name: str) -> None:
    program = programs(name)[0]
    proof = certified(program)
    assert compare(proof, program, Random(3))["turned"] > 80


def compare_random(first: int, count: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        generator = (ring, persistent_ring, *GENERATORS)[seed % (len(GENERATORS) + 2)]
        program = generator(Random(seed))
        proof = configurations(program, {}, 60)
        if proof is not None:
            seen += compare(proof, program, Random(seed))
    return seen


def test_steps_from_any_origin_are_those_of_random_programs() -> None:
    assert compare_random(0, part(1400, of=10))["turned"] > 100


def test_what_is_listed_elsewhere_is_the_same() -> None:
    """A configuration represents itself listed from any other stage on, and no neighbour of it."""
    program = programs("hopper_gemm")[0]
    proof = certified(program)
    own, random, seen = proof.system.arrays, Random(4), Counter[bool]()
    for found in [c for c in proof.found if c.origins][:60]:
        gap = random.randrange(4)
        by = dict.fromkeys(dict(found.origins), gap)
        state = own.turned(found.state, {name: -gap % 4 for name in by})
        moved = found._replace(
            state=state, origins=tuple((name, origin + gap) for name, origin in found.origins)
        )
        same = {name: unknown_of(name) for name in unknowns(found) if name.startswith("~0_")}
        assert is_instance(moved, found, own, same)
        state = own.turned(found.state, {"operands_full": 1})
        seen[is_instance(found._replace(state=state), found, own, same)] += 1
    assert seen[False] > 20, seen


def unknown_of(name: str) -> int:
    return linear(0, {name: 1})


def test_memory_that_buffers_share_does_not_turn() -> None:
    program = programs("hopper_gemm")[0]
    shared = program.buffers[0]
    other = replace(shared, name="other", storage=shared.storage or shared.name)
    both = replace(program, buffers=(*program.buffers, other))
    assert shared.name in Arrays(program).stages
    assert shared.name not in Arrays(both).stages and "other" not in Arrays(both).stages


def test_a_stage_is_found_from_its_origin_or_refused() -> None:
    place = linear(5, {"~0": 3})
    known = {TURNS: {"ring": Turn(linear(1, {"~0": 3}), 4)}}
    environment = cast("dict[str, int]", known)
    assert place_of("ring", place % 4, environment) == 0
    assert place_of("other", 2, environment) == 2
    for name, index in (
        ("ring", 0),  # a stage that is a number
        ("ring", place % 2),  # of fewer stages
        ("ring", linear(5, {"~1": 3}) % 4),  # that turns with another number
        ("ring", place),  # that does not turn
        ("other", place % 4),  # of an array that does not turn
    ):
        with pytest.raises(NotCoveredError):
            place_of(name, index, environment)


def test_origins_have_to_follow_from_what_is_proposed() -> None:
    program = programs("hopper_gemm")[0]
    proof = certified(program)
    found = next(c for c in proof.found if c.origins)
    own, names = proof.system.arrays, sorted(n for n in unknowns(found) if n.startswith("~0_"))
    right = {name: unknown_of(name) for name in names}
    assert is_instance(found, found, own, right)
    assert not is_instance(found, found, own, {})
    for wrong in (-1, 1):
        proposed = {name: value + wrong for name, value in right.items()}
        assert not is_instance(found, found, own, proposed)


def test_faults_planted_in_what_turns_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program, honest = programs("hopper_gemm")[0], Arrays.turned

    def further(self: Arrays, state: State, by: dict[str, int]) -> State:
        return honest(self, state, {name: places + 1 for name, places in by.items()})

    monkeypatch.setattr(Arrays, "turned", further)
    with pytest.raises(NotCoveredError):
        write.write(program)
