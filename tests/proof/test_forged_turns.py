"""Certificates for any number of rings, right and broken, with the hints that turn them forged.

What proposes classes is not trusted. Here the classes that turn arrays are forged at random, for
programs of which the reference search, or the explorer, refutes some number of tiles: none of them
gets a certificate, whatever is proposed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tests.proof.kernels import programs
from tests.rings import persistent_ring, ring
from tests.sampling import part
from titan.engines.explore.reference import explore_reference
from titan.engines.explore.search import explore
from titan.engines.result import Budget
from titan.foundation.errors import Refusal, TitanError
from titan.foundation.verdict import Verdict
from titan.proof.check import Proof
from titan.proof.claims import claims_of
from titan.proof.configuration import System
from titan.proof.shifts import CertifiedShiftClass
from titan.proof.write import CertificateWriter
from titan.sync.program import SyncProgram
from titan.verify.mutate.mutants import mutants_of

STATES_MAX = 400


def forged(
    claims: list[CertifiedShiftClass], program: SyncProgram, random: Random
) -> list[CertifiedShiftClass]:
    """The classes with another period or threshold, or with arrays that turn otherwise."""
    names = [b.name for b in program.barriers] + [b.name for b in program.buffers]
    found = []
    for claim in claims:
        turns = dict(claim.turns)
        for _ in range(random.randint(0, 3)):
            turns[random.choice(names)] = random.choice((0, 1, 1, 2, 3, -1))
        phases = dict(claim.phases)
        for name in list(phases):
            phases[name] += random.choice((0, 0, 1, -1))
        found.append(
            replace(
                claim,
                period=random.choice((claim.period, claim.period, 1, 2)),
                threshold=random.choice((claim.threshold, 0, 1)),
                phases=tuple(sorted(phases.items())),
                turns=tuple(sorted(turns.items())),
            )
        )
    return found


def closes(program: SyncProgram, claims: list[CertifiedShiftClass]) -> str:
    """Whether a search by the checker's own steps closes under the classes."""
    try:
        proof = Proof(System(program, {}), claims)
        proof.line("start", (("", start) for start in proof.system.starts()))
        writer = CertificateWriter(proof, reduce=True)
        for number, _ in enumerate(proof.found):
            writer.line(number)
            if number > STATES_MAX:
                return "too many"
        proof.finish()
    except Refusal:
        return "refused"
    except TitanError:
        return "faulty"
    return "turned" if any(found.origins for found in proof.found) else "closed"


def refuted(program: SyncProgram) -> bool:
    """Whether some small number of tiles is refuted."""
    per = {p.per for p in program.parameters if p.per}
    for more in (1, 3, 5):
        sizes = {p.name: p.minimum + more for p in program.parameters if p.value is None}
        if per:
            return explore(program, {}, Budget(states_max=20_000)).verdict is Verdict.REFUTED
        found = explore_reference(program, sizes, Budget(states_max=4000))
        if found.verdict is Verdict.REFUTED:
            return True
    return False


def attacked(first: int, count: int) -> Iterator[tuple[int, SyncProgram]]:
    for seed in range(first, first + count):
        random = Random(seed)
        made = (ring, persistent_ring)[seed % 2](random)
        yield seed, made
        mutants = list(mutants_of(made))
        for mutant in random.sample(mutants, min(2, len(mutants))):
            yield seed, mutant.program


def compare(first: int, count: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed, program in attacked(first, count):
        random = Random(seed)
        try:
            claims = claims_of(program, {})
        except Refusal:
            continue
        found = {closes(program, claims)}
        found |= {closes(program, forged(claims, program, random)) for _ in range(3)}
        if found & {"turned", "closed"}:
            assert not refuted(program), seed
        elif "faulty" in found:
            found |= {"refuted"} if refuted(program) else set()
        seen.update(found)
    return seen


def test_forged_classes_prove_nothing_false_of_rings() -> None:
    seen = compare(0, part(200, of=20))
    assert min(seen[word] for word in ("turned", "refuted", "refused")) > part(3), seen


@pytest.mark.parametrize("name", ["hopper_gemm", "mi300_gemm"])
def test_forged_classes_prove_nothing_false_of_mutants(name: str) -> None:
    program, seen = programs(name)[0], Counter[str]()
    random = Random(7)
    broken = [
        mutant.program
        for mutant in mutants_of(program)
        if explore(mutant.program, {}, Budget(states_max=20_000)).verdict is Verdict.REFUTED
    ]
    for mutant in random.sample(broken, min(6, len(broken))):
        claims = claims_of(program, {})
        for _ in range(part(30, of=10)):
            seen[closes(mutant, forged(claims, program, random))] += 1
    assert not seen.keys() & {"turned", "closed"} and seen["refused"] > 3, seen
