"""Second engine: enumerates candidate executions and evaluates the axioms on each, no solver.

Complete for loop-free tests: all runs of all threads over the values that can occur, all
reads-from choices, all schedules, all orientations of morally strong writes and of `fence.sc`
pairs. Coherence order is the least one that the orientation and causality force, since a larger one
only forbids more. Serves as the oracle in differential tests and re-checks witnesses of `decide`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice, pairwise, permutations, product

from titan.foundation.errors import Refusal
from titan.foundation.verdict import Reason
from titan.litmus.enumerate.causality import Candidate, Causality, closure, cyclic
from titan.litmus.enumerate.run import Key, RunEvent, StepKind, ThreadRun
from titan.litmus.enumerate.schedule import RendezvousSchedule, Scheduler
from titan.litmus.enumerate.single_order import has_single_order
from titan.litmus.enumerate.thread_runs import ThreadRuns
from titan.litmus.language import ast
from titan.litmus.language.ast import (
    Compare,
    Condition,
    Connective,
    FinalMemory,
    FinalRegister,
    LitmusTest,
    Race,
    Term,
    ThreadPlacement,
    Undefined,
)
from titan.litmus.language.condition import mentions_race
from titan.litmus.model.execution import CandidateExecution
from titan.litmus.model.options import ModelOptions
from titan.litmus.model.unsupported import UnsupportedTest


class TooManyCandidates(Refusal):
    """The enumeration gave up; the caller learns nothing about the test."""

    reason = Reason.STATES


@dataclass(slots=True)
class ExplicitOutcome:
    """One consistent execution: final registers, possible final memory, and the flags."""

    registers: dict[tuple[str, str], int]
    unfinished: frozenset[tuple[str, str]]
    memory: dict[str, set[int]]
    causality: Causality
    source: dict[int, int]
    coherence: list[int] = field(default_factory=list)

    def satisfies(self, condition: Condition, test: LitmusTest) -> bool:
        """Whether some choice of final memory values satisfies the condition."""
        names = sorted(
            {test.memory(t.location) for t in _terms(condition) if isinstance(t, FinalMemory)}
        )
        asked = {(t.thread, t.register) for t in _terms(condition) if isinstance(t, FinalRegister)}
        if asked & self.unfinished:
            return False
        for values in product(*(sorted(self.memory[name]) for name in names)):
            if self._holds(condition, test, dict(zip(names, values, strict=True))):
                return True
        return False

    def undefined(self, test: LitmusTest) -> bool:
        """Whether a data race leaves the execution undefined, as AMDGPU has it."""
        return self.causality.c.amd and any(self._race(x.name) for x in test.locations)

    def _holds(self, condition: Condition, test: LitmusTest, final: dict[str, int]) -> bool:
        match condition:
            case Compare(left, relation, right):
                a, b = self._value(left, test, final), self._value(right, test, final)
                return {
                    "==": a == b,
                    "!=": a != b,
                    "<": a < b,
                    "<=": a <= b,
                    ">": a > b,
                    ">=": a >= b,
                }[relation]
            case Undefined(location):
                return self.causality.undefined(test.memory(location))
            case Race(location):
                return self._race(test.memory(location))
            case Connective("not", (part,)):
                return not self._holds(part, test, final)
            case Connective("and", parts):
                return all(self._holds(part, test, final) for part in parts)
            case Connective(_, parts):
                return any(self._holds(part, test, final) for part in parts)
        raise TypeError(condition)

    def _value(self, term: Term, test: LitmusTest, final: dict[str, int]) -> int:
        if isinstance(term, int):
            return term
        if isinstance(term, FinalRegister):
            return self.registers.get((term.thread, term.register), 0)
        return final[test.memory(term.location)]

    def _race(self, memory: str) -> bool:
        c = self.causality.c
        mine = [
            n
            for n, a in enumerate(c.acts)
            if a.accesses and c.memory[n] == memory and a.thread >= 0
        ]
        for i, j in combinations(mine, 2):
            conflict = StepKind.WRITE in (c.acts[i].kind, c.acts[j].kind) and not c.strong[i][j]
            one_operation = c.issue[i] is not None and c.issue[i] == c.issue[j]
            before = self.causality.reaches if c.amd else self.causality.cause
            ordered = before(i, j) or before(j, i)
            if conflict and not one_operation and not ordered:
                return True
        return False


def _terms(condition: Condition) -> list[Term]:
    if isinstance(condition, Compare):
        return [condition.left, condition.right]
    if isinstance(condition, Connective):
        return [term for part in condition.parts for term in _terms(part)]
    return []


class Enumeration:
    """All consistent executions of one test under one reading."""

    def __init__(
        self,
        test: LitmusTest,
        options: ModelOptions | None = None,
        *,
        rounds: int = 2,
        budget: int = 2_000_000,
        guide: CandidateExecution | None = None,
    ) -> None:
        if test.dialect.machine is not None:
            raise UnsupportedTest("instructions of a machine are explored, not enumerated")
        self.test = test
        self.options = options or ModelOptions()
        self.rounds = rounds
        self.budget = budget
        self.guide = guide
        self.counts = self._mbarrier_counts()

    def _mbarrier_counts(self) -> dict[str, int]:
        counts = {
            loc.name: loc.count or 0
            for loc in self.test.locations
            if loc.is_mbarrier and loc.alias_of is None
        }
        for thread in self.test.threads:
            for code in thread.instructions:
                if isinstance(code, ast.MbarrierInit):
                    counts[self.test.memory(code.location)] = code.count
        return counts

    # Runs ---------------------------------------------------------------------------------------

    def _initial(self) -> list[RunEvent]:
        return [
            RunEvent(
                ("init", 0, 0, loc.name),
                StepKind.WRITE,
                -1,
                loc.home or ThreadPlacement(),
                spot=loc.name,
                value=loc.initial,
            )
            for loc in self.test.locations
            if loc.alias_of is None and not loc.is_mbarrier
        ]

    def _all_runs(self) -> list[list[ThreadRun]]:
        guide: dict[Key, int] | None = None
        if self.guide is not None:
            guide = {}
            for node in self.guide.nodes:
                value = node.value if node.kind == "read" else int(node.passed)
                if value is not None:
                    guide[node.key] = value
            return [
                list(ThreadRuns(self.test, t, {}, self.rounds + 1, guide).runs())
                for t in range(len(self.test.threads))
            ]
        values: dict[str, set[int]] = {}
        for act in self._initial():
            assert act.spot is not None and act.value is not None
            values[self.test.memory(act.spot)] = {act.value}
        writes = sum(len(t.instructions) for t in self.test.threads)
        for _ in range(writes + 2):
            runs = [self._some_runs(t, values) for t in range(len(self.test.threads))]
            more = {name: set(found) for name, found in values.items()}
            for act in (
                a for some in runs for run in some for a in run.acts if a.kind is StepKind.WRITE
            ):
                assert act.spot is not None and act.value is not None
                more[self.test.memory(act.spot)].add(act.value)
            if more == values:
                return runs
            values = more
            if sum(len(found) for found in values.values()) > 40:
                break
        return runs

    def _some_runs(self, thread: int, values: dict[str, set[int]]) -> list[ThreadRun]:
        limit = min(self.budget, 2_000)
        runs = list(islice(ThreadRuns(self.test, thread, values, self.rounds).runs(), limit))
        if len(runs) == limit:
            raise TooManyCandidates(self.test.name)
        return runs

    # Candidates -----------------------------------------------------------------------------------

    def outcomes(self) -> Iterator[ExplicitOutcome]:
        """Every consistent execution, one after the other. Raises TooManyCandidates."""
        initial = self._initial()
        for runs in product(*self._all_runs()):
            self._spend()
            acts = initial + [act for run in runs for act in run.acts]
            if not self._values_exist(acts):
                continue
            registers = {
                (self.test.threads[t].name, name): value
                for t, run in enumerate(runs)
                for name, value in run.registers.items()
            }
            unfinished = frozenset(
                (self.test.threads[t].name, name)
                for t, run in enumerate(runs)
                for name in run.unfinished
            )
            pairs = [pair for run in runs for pair in run.pairs]
            for candidate, source, causality, coherence in self._candidates(acts, pairs):
                memory = self._final(candidate, coherence)
                yield ExplicitOutcome(registers, unfinished, memory, causality, source, coherence)

    def _spend(self) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise TooManyCandidates(self.test.name)

    def _values_exist(self, acts: list[RunEvent]) -> bool:
        """Every guessed value is written by someone: most combinations fail this at once."""
        written = {
            (self.test.memory(a.spot), a.value)
            for a in acts
            if a.kind is StepKind.WRITE and a.spot is not None
        }
        return all(
            (self.test.memory(a.spot), a.value) in written
            for a in acts
            if a.kind is StepKind.READ and a.spot is not None
        )

    def _sources(self, acts: list[RunEvent]) -> Iterator[dict[Key, Key]]:
        reads = [a for a in acts if a.kind is StepKind.READ]
        writes = [a for a in acts if a.kind is StepKind.WRITE]
        if self.guide is not None:
            chosen = {r: w for w, r in self.guide.rf}
            yield {a.key: chosen[a.key] for a in reads if a.key in chosen}
            return
        choices = []
        for read in reads:
            assert read.spot is not None
            memory = self.test.memory(read.spot)
            choices.append(
                [
                    w.key
                    for w in writes
                    if w.value == read.value
                    and w.spot is not None
                    and self.test.memory(w.spot) == memory
                ]
            )
        for combination in product(*choices):
            yield {read.key: key for read, key in zip(reads, combination, strict=True)}

    def _candidates(
        self, acts: list[RunEvent], pairs: list[tuple[Key, Key]]
    ) -> Iterator[tuple[Candidate, dict[int, int], Causality, list[int]]]:
        reads = [a for a in acts if a.kind is StepKind.READ]
        for schedule in self._schedules(acts):
            candidate = Candidate(self.test, self.options, acts, pairs, schedule)
            for keys in self._sources(acts):
                if len(keys) != len(reads):
                    continue
                source = {candidate.index[r]: candidate.index[w] for r, w in keys.items()}
                if not self._thin_air_free(candidate, source):
                    continue
                observed = candidate.observation(source)
                for sc in self._fence_orders(candidate):
                    self._spend()
                    base = candidate.base_causality(observed, sc)
                    if any(base[b] >> a & 1 for a, b in sc):
                        continue
                    causality = Causality(candidate, base, observed, sc)
                    if not self._mbarriers_in_order(candidate, causality):
                        continue
                    for coherence in self._coherences(candidate, causality):
                        if self._consistent(candidate, source, causality, coherence):
                            yield candidate, source, causality, coherence

    def _schedules(self, acts: list[RunEvent]) -> Iterator[RendezvousSchedule]:
        found: set[RendezvousSchedule] = set()
        meets = frozenset(self.guide.meets) if self.guide is not None else None
        for schedule in Scheduler(self.test, acts, self.counts, meets).schedules():
            self._spend()
            if schedule not in found and meets in (None, schedule.meets):
                found.add(schedule)
                yield schedule

    def _thin_air_free(self, candidate: Candidate, source: dict[int, int]) -> bool:
        rows = [0] * candidate.size
        for read, write in source.items():
            if candidate.acts[write].thread >= 0:
                rows[write] |= 1 << read
        for n, act in enumerate(candidate.acts):
            for key in act.needs:
                rows[candidate.index[key]] |= 1 << n
        order = [candidate.index[key] for key in candidate.schedule.order]
        for arrival, issue in candidate.issued_arrival.items():
            rows[issue] |= 1 << arrival
        return self._schedule_fits(candidate, rows, order)

    def _schedule_fits(self, candidate: Candidate, rows: list[int], order: list[int]) -> bool:
        """No cycle with the schedule; barrier members that leave together count as one step."""
        merged = dict(enumerate(range(candidate.size)))
        for a, b in candidate.schedule.meets:
            i, j = candidate.index[a], candidate.index[b]
            if candidate.acts[j].kind is StepKind.BARRIER and candidate.acts[i].blocks:
                low, high = sorted((merged[i], merged[j]))
                merged = {k: low if v == high else v for k, v in merged.items()}
        joint = [0] * candidate.size
        for i, row in enumerate(rows):
            for j in range(candidate.size):
                if row >> j & 1 and i != j:
                    joint[merged[i]] |= 1 << merged[j]
        for first, second in pairwise(order):
            if merged[first] != merged[second]:
                joint[merged[first]] |= 1 << merged[second]
        return not cyclic(joint)

    def _fence_orders(self, candidate: Candidate) -> Iterator[set[tuple[int, int]]]:
        fences = [
            n for n, a in enumerate(candidate.acts) if a.kind is StepKind.FENCE and a.sem == "sc"
        ]
        pairs = [(a, b) for a, b in combinations(fences, 2) if candidate.strong[a][b]]
        if candidate.amd:
            yield set()
            return
        if self.guide is not None:
            chosen = {(candidate.index[a], candidate.index[b]) for a, b in self.guide.sc}
            yield chosen
            return
        for flips in product((False, True), repeat=len(pairs)):
            yield {(b, a) if flip else (a, b) for (a, b), flip in zip(pairs, flips, strict=True)}

    def _mbarriers_in_order(self, candidate: Candidate, causality: Causality) -> bool:
        """Uses of one mbarrier took effect in base causality order."""
        order = {candidate.index[key]: n for n, key in enumerate(candidate.schedule.order)}
        uses = [candidate.index[key] for key in candidate.phases]
        for a, b in permutations([use for use in uses if use in order], 2):
            if candidate.memory[a] == candidate.memory[b] and order[a] > order[b]:
                point = candidate.issued_arrival.get(b, b)
                if causality.reaches(a, b) or causality.reaches(a, point):
                    return False
        return True

    # Coherence and the remaining axioms ---------------------------------------------------------

    def _coherences(self, candidate: Candidate, causality: Causality) -> Iterator[list[int]]:
        writes = [n for n, a in enumerate(candidate.acts) if a.kind is StepKind.WRITE]
        forced = [0] * candidate.size
        for a, b in product(writes, writes):
            if a != b and candidate.memory[a] == candidate.memory[b]:
                initial = candidate.acts[a].thread < 0 <= candidate.acts[b].thread
                if initial or (candidate.acts[a].thread >= 0 and causality.cause(a, b)):
                    forced[a] |= 1 << b
        strong = [
            (a, b)
            for a, b in combinations(writes, 2)
            if candidate.strong[a][b] and candidate.memory[a] == candidate.memory[b]
        ]
        given = self._given_coherence(candidate)
        choices = [
            [flip for flip in (False, True) if ((a, b) if flip else (b, a)) not in given]
            for a, b in strong
        ]
        for flips in product(*choices):
            rows = list(forced)
            for (a, b), flip in zip(strong, flips, strict=True):
                first, second = (b, a) if flip else (a, b)
                rows[first] |= 1 << second
            rows = closure(rows)
            if not any(row >> n & 1 for n, row in enumerate(rows)):
                yield rows

    def _given_coherence(self, candidate: Candidate) -> set[tuple[int, int]]:
        """What the guide says, so that its execution alone is evaluated; empty without a guide."""
        if self.guide is None:
            return set()
        return {(candidate.index[a], candidate.index[b]) for a, b in self.guide.co}

    def _consistent(
        self,
        candidate: Candidate,
        source: dict[int, int],
        causality: Causality,
        coherence: list[int],
    ) -> bool:
        for read, write in source.items():
            if candidate.acts[write].thread >= 0 and causality.cause(read, write):
                return False
            later = coherence[write]
            for other in range(candidate.size):
                if later >> other & 1 and causality.cause(other, read):
                    return False
        for read, update in candidate.pairs:
            for other, act in enumerate(candidate.acts):
                if (
                    act.kind is StepKind.WRITE
                    and other != update
                    and coherence[source[read]] >> other & 1
                ):
                    strong = candidate.strong[read][other] and candidate.strong[other][update]
                    if strong and coherence[other] >> update & 1:
                        return False
        return not candidate.amd or has_single_order(candidate, source, causality.base, coherence)

    def _final(self, candidate: Candidate, coherence: list[int]) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for n, act in enumerate(candidate.acts):
            if act.kind is StepKind.WRITE and not coherence[n]:
                assert act.value is not None
                found.setdefault(candidate.memory[n], set()).add(act.value)
        return found


def allowed(
    test: LitmusTest,
    options: ModelOptions | None = None,
    *,
    rounds: int = 2,
    budget: int = 2_000_000,
) -> bool:
    """Whether some consistent execution reaches the asked outcome."""
    for outcome in Enumeration(test, options, rounds=rounds, budget=budget).outcomes():
        if _reached(outcome, test):
            return True
    return False


def _reached(outcome: ExplicitOutcome, test: LitmusTest) -> bool:
    if outcome.satisfies(_joined(test), test):
        return True
    return not mentions_race(test.asked) and outcome.undefined(test)


def _joined(test: LitmusTest) -> Condition:
    if test.filter is None:
        return test.asked
    return Connective("and", (test.filter, test.asked))


def admits(
    test: LitmusTest,
    options: ModelOptions,
    witness: CandidateExecution,
    *,
    rounds: int = 2,
    budget: int = 2_000_000,
) -> bool:
    """Whether the witness is a consistent execution that reaches the asked outcome."""
    search = Enumeration(test, options, rounds=rounds, budget=budget, guide=witness)
    return any(_reached(outcome, test) for outcome in search.outcomes())
