"""The questions of typestate, put to cvc5 as well.

Decides nothing by itself: it says which answers of z3 another solver, which shares no code with it,
contradicts. The text asked is the one that is archived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from titan.foundation.errors import Refusal
from titan.language.protocol.solver import Question

RESOURCES_MAX = 5_000_000  # of one question, in the units of cvc5


class SecondSolverMissing(Refusal):
    """cvc5 is not installed (the extra `check`)."""


def refutation(question: Question) -> str:
    """The proof in the format Alethe that there is no counterexample; empty where cvc5 has none.

    Nothing here checks it. Raises SecondSolverMissing.
    """
    try:
        import cvc5
    except ImportError:
        raise SecondSolverMissing("cvc5 is not installed") from None
    solver = cvc5.Solver()
    for name, value in (
        ("rlimit", str(RESOURCES_MAX)),
        ("produce-proofs", "true"),
        ("proof-granularity", "dsl-rewrite"),
    ):
        solver.setOption(name, value)
    if "unsat" not in _answers(cvc5, solver, question):
        return ""
    text = solver.proofToString(solver.getProof()[0], cvc5.ProofFormat.ALETHE)
    return text.decode() if isinstance(text, bytes) else str(text)


def _answers(cvc5: Any, solver: Any, question: Question) -> list[str]:
    symbols = cvc5.SymbolManager(solver)
    parser = cvc5.InputParser(solver, symbols)
    # The status would be checked by the solver itself; the answer is compared here.
    text = "\n".join(line for line in question.text.split("\n") if ":status" not in line)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "question")
    answers = []
    while not (command := parser.nextCommand()).isNull():
        answers.append(str(command.invoke(solver, symbols)).strip())
    return answers


def contradicted(questions: Sequence[Question]) -> tuple[list[int], int]:
    """The numbers of the questions that cvc5 answers otherwise, and how many it leaves open.

    Raises SecondSolverMissing.
    """
    try:
        import cvc5
    except ImportError:
        raise SecondSolverMissing("cvc5 is not installed") from None
    wrong, unanswered = [], 0
    for number, question in enumerate(questions):
        solver = cvc5.Solver()
        solver.setOption("rlimit", str(RESOURCES_MAX))
        answers = _answers(cvc5, solver, question)
        answer = next((line for line in answers if line in ("sat", "unsat", "unknown")), "unknown")
        if answer == "unknown":
            unanswered += 1
        elif (answer == "sat") != question.satisfiable:
            wrong.append(number)
    return wrong, unanswered
