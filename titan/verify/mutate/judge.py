"""The fate of each mutant of a verified program, with an argument that can be checked.

KILLED: an engine refutes it. EQUIVALENT: it is the same program, or differs in an operation that
does nothing. OVER_SYNCHRONISED: it synchronises less, or in another order, and still verifies, so
the program asks for more than it needs; or it synchronises more. SURVIVING: it verifies, and none
of these arguments holds. UNDECIDED: an engine ran out of its budget, or none can judge it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.parts import queue_of
from titan.verify.mutate.decide import Decider, MutantDecision
from titan.verify.mutate.explain import merged_barrier, same_in_another_order
from titan.verify.mutate.mutants import Change, Mutant, mutants_of
from titan.verify.mutate.site import MutationSite

Decide = Callable[[ir.SyncProgram], MutantDecision]
DecideAll = Callable[[Decide, Sequence[ir.SyncProgram]], Iterator[MutantDecision]]


class Fate(StrEnum):
    """What became of a mutant; SURVIVING is verified with no argument that it may be."""

    KILLED = "killed"
    EQUIVALENT = "equivalent"
    OVER_SYNCHRONISED = "over-synchronised"
    SURVIVING = "surviving"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class MutantJudgement:
    """One mutant's fate and why; `rule` is the refuted rule of a killed one, else empty."""

    mutant: Mutant
    fate: Fate
    argument: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """All judgements on one program. `baseline` is the verdict on the program itself."""

    name: str
    baseline: MutantDecision
    judgements: tuple[MutantJudgement, ...] = ()

    def counts(self) -> Counter[Fate]:
        """Mutants by fate; a fate that no mutant met counts 0."""
        return Counter(judgement.fate for judgement in self.judgements)


def judge_all(
    program: ir.SyncProgram,
    decider: Decide | None = None,
    progress: Callable[[int, int], None] | None = None,
    decide_all: DecideAll | None = None,
) -> Score:
    """Judge every mutant. A program that is not verified itself has no mutants.

    `progress` is called with the mutants that are judged and with how many there are. `decide_all`
    may decide several at the same time; it gives the decisions in the order of the programs.
    """
    decider = decider or Decider()
    baseline = decider(program)
    if baseline.verdict is not Verdict.VERIFIED:
        return Score(program.name, baseline)
    mutants = list(mutants_of(program))
    judgements = []
    plain = [_equivalent(program, mutant) for mutant in mutants]
    asked = [m.program for m, known in zip(mutants, plain, strict=True) if known is None]
    decisions = map(decider, asked) if decide_all is None else decide_all(decider, asked)
    for number, judgement in enumerate(_judgements(program, mutants, plain, decisions)):
        judgements.append(judgement)
        if progress is not None:
            progress(number + 1, len(mutants))
    return Score(program.name, baseline, tuple(judgements))


def _judgements(
    program: ir.SyncProgram,
    mutants: Iterable[Mutant],
    plain: Iterable[str | None],
    decisions: Iterator[MutantDecision],
) -> Iterator[MutantJudgement]:
    """`plain`: why a mutant is the same program, where that is seen; `decisions` of the others."""
    redundant: dict[MutationSite, MutantDecision] = {}
    for mutant, argument in zip(mutants, plain, strict=True):
        if argument is not None:
            yield MutantJudgement(mutant, Fate.EQUIVALENT, argument)
            continue
        decision = next(decisions)
        deleted = mutant.site is not None and mutant.what == "deleted"
        if deleted and decision.verdict is Verdict.VERIFIED:
            assert mutant.site is not None
            redundant[mutant.site] = decision
        yield _judged(program, mutant, decision, redundant)


def _judged(
    program: ir.SyncProgram,
    mutant: Mutant,
    decision: MutantDecision,
    redundant: dict[MutationSite, MutantDecision],
) -> MutantJudgement:
    if decision.verdict is Verdict.REFUTED:
        text = f"{decision.rule}: {decision.message}"
        return MutantJudgement(mutant, Fate.KILLED, text, decision.rule)
    if decision.verdict is Verdict.UNDECIDED:
        return MutantJudgement(mutant, Fate.UNDECIDED, decision.scope or "the budget is spent")
    relaxed = mutant.what == "relaxed"
    if relaxed and decision.ordered is None:
        text = "only the happens-before engine decides relaxed order, and it does not apply"
        return MutantJudgement(mutant, Fate.UNDECIDED, text)
    how = f"{' and '.join(decision.engines)}, {decision.scope}".rstrip(", ")
    if relaxed:
        how = f"happens-before, {decision.ordered}".rstrip(", ")
    argument = _less_is_enough(mutant, redundant) or _shift_means_no_harm(program, mutant)
    if argument is None:
        return MutantJudgement(mutant, Fate.SURVIVING, f"still verified ({how})")
    return MutantJudgement(mutant, Fate.OVER_SYNCHRONISED, f"{argument} ({how})")


def _less_is_enough(mutant: Mutant, redundant: dict[MutationSite, MutantDecision]) -> str | None:
    """Why a mutant that verifies is harmless, as far as that follows from its kind."""
    match mutant.change:
        case Change.DELETED:
            return "not needed: verified without it"
        case Change.WEAKENED:
            return "less is enough: verified with the weaker form"
        case Change.REORDERED:
            return "the order of the two does not matter: verified in both"
        case Change.STRENGTHENED:
            return "the mutant synchronises more: it can only be slower"
    if mutant.site is not None and mutant.site in redundant:
        return "the operation is not needed: verified without it, and with it shifted"
    return None


def _shift_means_no_harm(program: ir.SyncProgram, mutant: Mutant) -> str | None:
    return merged_barrier(mutant) or same_in_another_order(program, mutant)


def _equivalent(program: ir.SyncProgram, mutant: Mutant) -> str | None:
    """Why the mutant is the same program, if that can be seen without running it."""
    if mutant.program == program:
        return "the same program"
    if mutant.site is None:
        return None
    operation, role = mutant.site.operation, program.roles[mutant.site.role]
    if mutant.change not in (Change.DELETED, Change.WEAKENED):
        return None
    if _passes_at_once(operation) and not _issues(role, operation):
        assert isinstance(operation, ir.Commit | ir.QueueWait)
        return f"does nothing: {role.name} issues nothing to {operation.queue}"
    if isinstance(operation, ir.Fence) and mutant.what == "deleted":
        return _empty_fence(program, operation)
    return None


def _passes_at_once(operation: ir.Operation) -> bool:
    """Whether the operation does nothing on a queue that is always empty."""
    if isinstance(operation, ir.QueueWait):
        return isinstance(operation.pending, Constant) and operation.pending.value >= 0
    return isinstance(operation, ir.Commit)


def _issues(role: ir.Role, user: ir.Operation) -> bool:
    """Whether the role puts anything in the queue that `user` names."""
    return any(
        isinstance(operation, ir.Asynchronous | ir.QueueArrive)
        and operation.queue == queue_of(user)
        for operation in ir.walk(role.body)
    )


def _empty_fence(program: ir.SyncProgram, fence: ir.Fence) -> str | None:
    if fence.kind is ir.FenceKind.BARRIER_INIT:
        inits = any(
            isinstance(operation, ir.Init)
            for role in program.roles
            for operation in ir.walk(role.body)
        )
        return None if inits else "does nothing: the program initialises no barrier itself"
    covered = [b for b in program.buffers if not fence.spaces or b.space in fence.spaces]
    return None if covered else "does nothing: no buffer lies in a space that it fences"
