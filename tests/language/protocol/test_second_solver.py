"""cvc5 confirms what z3 says of the questions of typestate, and a wrong answer is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from titan.language.protocol.second_solver import contradicted, refutation
from titan.language.protocol.solver import Question, archived
from titan.language.protocol.typestate import check
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import read_family

pytest.importorskip("cvc5")
PROTOCOLS = Path(__file__).resolve().parents[3] / "protocols"


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    found: list[Question] = []
    for path in sorted(PROTOCOLS.glob("*.yaml")):
        family, _, _ = read_family(str(path), VerifyOptions())
        for kernel in family.kernels if family is not None else ():
            if kernel.protocol is not None:
                with archived() as asked:
                    check(kernel.protocol)
                found += asked
    return found


def test_cvc5_confirms_all_questions_of_the_library(questions: list[Question]) -> None:
    assert len(questions) > 20
    assert contradicted(questions) == ([], 0)


def test_a_wrong_answer_is_contradicted(questions: list[Question]) -> None:
    wrong = [replace(q, satisfiable=not q.satisfiable) for q in questions[:5]]
    assert contradicted(wrong) == ([0, 1, 2, 3, 4], 0)


def test_cvc5_proves_its_answers_without_holes(questions: list[Question]) -> None:
    for question in questions[::9]:
        proof = refutation(question)
        assert "(cl)" in proof and "hole" not in proof and "trust" not in proof


def test_nothing_is_kept_outside() -> None:
    with archived() as asked:
        pass
    assert asked == []
