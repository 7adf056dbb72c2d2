"""The kinds of failure that `titan gate` distinguishes, and what each means.

A kind is for programs and for the end of a report; the sentence next to it in a report says what
was found in the one item.
"""

from __future__ import annotations

from enum import StrEnum

from titan.foundation.verdict import Verdict


class GateFailure(StrEnum):
    """Why an item does not pass; NONE where it does."""

    NONE = ""
    MALFORMED = "malformed"
    ALTERED = "altered"
    UNSOUND = "unsound"
    UNPROVED = "unproved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    BOUNDED = "bounded"
    REFUSED = "refused"
    DISAGREEMENT = "disagreement"
    SKIPPED = "skipped"


MEANING = {
    GateFailure.MALFORMED: ("a file is missing, unreadable or incomplete; build the package again"),
    GateFailure.ALTERED: (
        "a file is not what TITAN derives from the others: it was changed, or another version of "
        "TITAN has made it; build the package again and look at the difference"
    ),
    GateFailure.UNSOUND: (
        "the checker refuses the schedule, its claim or the pipeline; build the package again"
    ),
    GateFailure.UNPROVED: (
        "the certificate does not prove the kernel; write it again with `titan "
        "verify --certificate`"
    ),
    GateFailure.REFUTED: "an interleaving ends in a fault; `titan verify` shows it",
    GateFailure.UNDECIDED: "no engine has decided it within its budget",
    GateFailure.BOUNDED: (
        "verified for some numbers only, where any number is requested; --allow-bounded accepts it"
    ),
    GateFailure.REFUSED: "the file cannot be read, or its content cannot be verified",
    GateFailure.DISAGREEMENT: "two engines contradict each other: a bug in TITAN; report it",
    GateFailure.SKIPPED: "not inspected; reported so that nothing passes unseen",
}

_OF_VERDICT = {
    Verdict.VERIFIED: GateFailure.NONE,
    Verdict.REFUTED: GateFailure.REFUTED,
    Verdict.UNDECIDED: GateFailure.UNDECIDED,
    Verdict.REFUSED: GateFailure.REFUSED,
    Verdict.DISAGREEMENT: GateFailure.DISAGREEMENT,
}
_VERDICT_OF = {
    GateFailure.NONE: Verdict.VERIFIED,
    GateFailure.UNDECIDED: Verdict.UNDECIDED,
    GateFailure.BOUNDED: Verdict.UNDECIDED,
    GateFailure.REFUSED: Verdict.REFUSED,
    GateFailure.SKIPPED: Verdict.REFUSED,
    GateFailure.MALFORMED: Verdict.REFUSED,
    GateFailure.DISAGREEMENT: Verdict.DISAGREEMENT,
}


def failure_of(verdict: Verdict) -> GateFailure:
    """The kind of failure that a verdict on a protocol is."""
    return _OF_VERDICT[verdict]


def verdict_of(failure: GateFailure) -> Verdict:
    """The verdict that reports for CI systems show for a failure."""
    return _VERDICT_OF.get(failure, Verdict.REFUTED)
