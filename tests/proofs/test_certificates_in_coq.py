"""Certificates of the library, judged by the checker that is proved in Coq, for numbers given.

It shares no code with titan/proof: it follows the lines with the extracted semantics. Where a line
was changed it has to refuse what `titan check` refuses.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.proof.kernels import certificate, programs
from tests.proof.test_certificates import CERTIFIED, LARGE, changed, mutations
from tests.proofs.certificates import KINDS, Answer, answers, question, unchained
from tests.proofs.semantics import Sizes
from tests.proofs.test_semantics import GENERATORS, machine
from titan.foundation.errors import TitanError
from titan.proof.check import RefusedError, check
from titan.proof.write import write
from titan.sync.program import SyncProgram

__all__ = ["machine"]

pytestmark = pytest.mark.skipif(
    shutil.which("coqc") is None or shutil.which("ocamlopt") is None,
    reason="there is no coqc or no ocamlopt",
)


def sizes_of(program: SyncProgram, more: int) -> Sizes:
    """Every open size that much above its least value."""
    return {
        p.name: (p.minimum + more,) * 3 if p.per else p.minimum + more
        for p in program.parameters
        if p.value is None
    }


def given_of(program: SyncProgram, more: int) -> dict[str, int]:
    sizes = sizes_of(program, more)
    return {name: size for name, size in sizes.items() if isinstance(size, int)}


@pytest.mark.parametrize(
    "name", [*CERTIFIED, *(pytest.param(n, marks=pytest.mark.heavy) for n in LARGE)]
)
def test_a_certificate_for_every_number_holds_for_some(machine: Path, name: str) -> None:
    """Every interleaving of so many tiles follows its lines; more tiles meet more of them."""
    asked = [question(certificate(name), sizes_of(programs(name)[0], more)) for more in (1, 3, 6)]
    found = answers(machine, asked)
    assert all(answer.accepted for answer in found)
    assert 0 < found[0].lines <= found[1].lines <= found[2].lines
    assert found[0].states < found[1].states < found[2].states
    assert all(answer.single <= answer.lines for answer in found)


@pytest.mark.parametrize("name", ["bulk_copy", "mi300_gemm"])
def test_without_single_steps_nothing_is_left_to_trust(machine: Path, name: str) -> None:
    text = write(programs(name)[0], reduce=False)
    for answer in answers(
        machine, [question(text, sizes_of(programs(name)[0], m)) for m in (2, 7)]
    ):
        assert answer.accepted
        assert answer.single == 0


def is_checked(text: str) -> bool:
    try:
        check(text)
    except RefusedError:
        return False
    return True


def lines_of(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.split(" ")[0] in KINDS]


def configurations(text: str) -> int:
    return len(unchained(lines_of(text)))


def disagreements(machine: Path, text: str, places: list[int]) -> tuple[int, list[str | None]]:
    """How many changes of lines were tried, and those on which the two checkers differ."""
    lines = text[:-1].split("\n")
    first = next(n for n, line in enumerate(lines) if line.startswith("start "))
    total, asked, tried = configurations(text), [], []
    for place in places:
        for mutation in mutations(lines[first + place]):
            new = changed(lines, first + place, mutation)
            try:
                asked.append(question(new, {}))
            except (ValueError, IndexError, StopIteration):
                assert not is_checked(new)
                continue
            tried.append((new, mutation))
    found = zip(answers(machine, asked), tried, strict=True)
    wrong = [text for answer, (new, text) in found if whole(answer, total) != is_checked(new)]
    return len(tried), wrong


def whole(answer: Answer, total: int) -> bool:
    """Whether it is a certificate with no line that nothing leads to."""
    return answer.accepted and answer.lines == total


@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("name", ["bulk_copy", "mi300_gemm"])
def test_changed_lines_are_refused_by_both(machine: Path, name: str, reduce: bool) -> None:
    """Sizes given, so that every line is met."""
    text = write(programs(name)[0], given_of(programs(name)[0], 1), reduce=reduce)
    total = configurations(text)
    (answer,) = answers(machine, [question(text, {})])
    assert whole(answer, total) and is_checked(text)
    tried, wrong = disagreements(machine, text, list(range(len(lines_of(text)) + 1)))
    assert tried > 2 * total
    assert wrong == []


def compare_random(machine: Path, seeds: range, states_max: int) -> int:
    """Certificates of random programs: what is written for sizes given is accepted."""
    asked, totals = [], []
    for seed in seeds:
        program = GENERATORS[seed % len(GENERATORS)](Random(seed))
        if any(p.per for p in program.parameters):
            continue
        try:
            text = write(program, given_of(program, 1), states_max, reduce=bool(seed % 2))
        except TitanError:
            continue
        asked.append(question(text, {}))
        totals.append(configurations(text))
    found = answers(machine, asked)
    for answer, total in zip(found, totals, strict=True):
        assert whole(answer, total)
    return len(found)


def test_certificates_of_random_programs_are_accepted(machine: Path) -> None:
    assert compare_random(machine, range(2 * len(GENERATORS)), 300) > 5


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_certificates_of_many_random_programs_are_accepted(machine: Path) -> None:
    assert compare_random(machine, range(1000, 1000 + 60 * len(GENERATORS)), 2000) > 200
