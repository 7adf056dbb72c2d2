"""Verdicts, their exit codes, and the tree of exceptions."""

from titan.foundation.errors import InternalError, Refusal, TitanError, UserError
from titan.foundation.verdict import Reason, Verdict, worst


def test_every_verdict_has_an_exit_code_of_its_own():
    codes = [verdict.exit_code for verdict in Verdict]
    assert sorted(codes) == [0, 1, 2, 3, 4]
    assert Verdict.VERIFIED.exit_code == 0


def test_the_worst_exit_code_wins():
    assert worst([]) == worst([0, 0]) == 0
    assert worst([0, 3]) == 3
    assert worst([3, 1]) == 1
    assert worst([1, 2, 3]) == 2
    assert worst([4, 2]) == 4


def test_a_refusal_names_its_reason():
    class TooDeep(Refusal):
        reason = Reason.TOO_LARGE

    assert TooDeep("depth 9").reason is Reason.TOO_LARGE
    assert str(TooDeep("depth 9")) == "depth 9"
    assert Refusal("no", reason=Reason.SOLVER).reason is Reason.SOLVER


def test_the_three_kinds_of_exceptions_are_apart():
    kinds = (UserError, Refusal, InternalError)
    assert all(issubclass(kind, TitanError) for kind in kinds)
    assert not any(issubclass(a, b) for a in kinds for b in kinds if a is not b)
