"""The judgement on a run that ends at a branch on data, by all ways that data may choose there.

Where whole warps are shown to go the same way (`decided_branches.py`), each combination of ways is
a run, and all have to be verified. What goes wrong in one leaves the trial undecided: whether data
choose that combination is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from titan.foundation.verdict import Verdict
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.trial import Trial
from titan.isa.simt.outcome import Run
from titan.isa.simt.tracing.decided_branches import decided_paths

WAYS = (
    "a branch on data with barriers in its arms goes one way for all threads whose values are "
    "shown to be equal; each combination of ways was run"
)
ROUNDS = (
    "a loop with barriers that data alone end was run until its states repeat, for any number of "
    "rounds; that it ends is not shown"
)


@dataclass(frozen=True, slots=True)
class DecidedTrial:
    """The judgement, and the runs that it is on."""

    trial: Trial
    runs: tuple[Run, ...]


def ways_of(run: Run) -> Sequence[Run]:
    """The runs of all ways of a run, where they are shown; else the run."""
    found = decided_paths(run)
    return found.runs if found is not None and not found.why else (run,)


def judged_ways(
    run: Run, first: Trial, judge: Callable[[Run], Trial], places: CodePlaces
) -> DecidedTrial | None:
    """The judgement on all ways of a run whose own is `first`; None where nothing is shown."""
    found = decided_paths(run)
    if found is None:
        return None
    if found.why:
        return DecidedTrial(replace(first, reason=f"{first.reason}; {found.why}"), ())
    words = ROUNDS if found.rounds else WAYS
    return judged_paths(found.runs, found.branches[0], first, judge, places, words)


def judged_paths(
    paths: Iterable[Run], branch: int, first: Trial, judge: Callable[[Run], Trial],
    places: CodePlaces, words: str = WAYS,
) -> DecidedTrial:  # fmt: skip
    """The judgement on all ways; `branch`: the instruction of one that was decided; `words` say
    what is assumed of them."""
    runs: list[Run] = []
    trials: list[Trial] = []
    for path in paths:
        trial = judge(path)
        runs.append(path)
        trials.append(trial)
        if trial.verdict is not Verdict.VERIFIED:
            reason = trial.reason
            if trial.diagnostics:
                reason = f"{trial.diagnostics[0].code}, {trial.diagnostics[0].headline}"
            text = f"on a way that data may choose: {reason}"
            undecided = replace(
                first, reason=text, diagnostics=trial.diagnostics, instructions=trial.instructions
            )
            return DecidedTrial(undecided, ())
    place = f"line {places.span(branch).start_line}"
    assumed = [item for trial in trials for item in trial.assumptions]
    whole = replace(
        trials[0],
        instructions=sum(trial.instructions for trial in trials),
        operations=sum(trial.operations for trial in trials),
        assumptions=(*assumed, (words, len(trials), place)),
    )
    return DecidedTrial(whole, tuple(runs))
