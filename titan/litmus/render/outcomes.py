"""What a run of a rendered test counts: outcome words, their values, and a number for each outcome.

Word 0 of an instance counts the threads that came to their end; each further word is a register or
location that the condition or the filter names. A word's digit is the place of its value in the
word's list of expected values, or the length of that list for any other value. The key of an
outcome is the number with these digits, word 1 first: key = (..(d1 * b2 + d2) * b3 + d3 ..), where
the base b of a word is one more than the length of its list.

The verdict says which outcomes the memory model allows, under the strictest and the most generous
reading; it needs a solver and is computed apart from the source.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from titan.litmus.language import ast
from titan.litmus.language.ast import FinalMemory, FinalRegister, LitmusTest
from titan.litmus.language.condition import format_condition, observed_terms
from titan.litmus.language.machine_steps import CdnaStep
from titan.litmus.model.dialect import Dialect
from titan.litmus.render.refusal import NotRenderable

BUCKETS_MAX = 1 << 16
Observed = FinalRegister | FinalMemory


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The observed terms with their words, and for each the values that have a digit."""

    slots: dict[Observed, int]
    domains: dict[Observed, tuple[int, ...]]
    threads: int

    @property
    def words(self) -> int:
        """32-bit words of an outcome: one for its state, one for each slot."""
        return 1 + len(self.slots)

    @property
    def buckets(self) -> int:
        """How many outcomes are distinguished, with one value for any other in each slot."""
        return prod(len(domain) + 1 for domain in self.domains.values())

    def key(self, values: dict[Observed, int]) -> int:
        """The number of an outcome."""
        number = 0
        for term, domain in self.domains.items():
            value = values[term]
            digit = domain.index(value) if value in domain else len(domain)
            number = number * (len(domain) + 1) + digit
        return number

    def as_json(self) -> dict[str, object]:
        """For the manifest: words, and how a key is made of their digits."""
        words: list[dict[str, object]] = [
            {"word": 0, "means": "threads at their end", "complete": self.threads}
        ]
        for term, slot in self.slots.items():
            words.append({"word": slot, "means": str(term), "values": list(self.domains[term])})
        return {
            "words": words,
            "buckets": self.buckets,
            "incomplete_bucket": self.buckets,
            "key": "mixed radix, word 1 first; digit = index in values, or their number if "
            "none; base = their number + 1",
        }

    def condition(self, condition: ast.Condition) -> dict[str, object]:
        """The condition as a tree over outcome words."""

        def term(value: ast.Term) -> object:
            return value if isinstance(value, int) else {"word": self.slots[value]}

        match condition:
            case ast.Compare(left, relation, right):
                return {"relation": relation, "left": term(left), "right": term(right)}
            case ast.Connective(kind, parts):
                return {"connective": kind, "parts": [self.condition(part) for part in parts]}
        raise TypeError(condition)


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """What the model says: the asked outcome and every outcome, by reading.

    `states` lists an outcome as its values in the order of the words; None where there were too
    many, or where a data race leaves every one possible. `complete` is false when a loop was cut
    off, so that more outcomes may be allowed.
    """

    expected: dict[str, str]
    states: dict[str, list[list[int]] | None]
    complete: bool

    def as_json(self) -> dict[str, object]:
        return {
            "readings": [
                {"reading": name, "asked": self.expected[name], "allowed": self.states[name]}
                for name in self.expected
            ],
            "complete": self.complete,
        }


def outcomes_of(test: LitmusTest, verdict: ModelVerdict | None = None) -> Outcomes:
    """Words and values; raises `NotRenderable` for a question about what cannot be seen."""
    for condition in (test.condition, test.filter):
        if condition is not None:
            _visible(condition, test)
    terms = _terms(test)
    for term in terms:
        if isinstance(term, FinalMemory) and test.location(term.location).is_mbarrier:
            raise NotRenderable("not observable", "an mbarrier's value is opaque", test.span)
    slots = {term: slot for slot, term in enumerate(terms, 1)}
    states = [s for found in (verdict.states if verdict else {}).values() for s in found or []]
    domains: dict[Observed, tuple[int, ...]] = {}
    written = _written(test)
    for index, term in enumerate(terms):
        domains[term] = tuple(sorted(written | {state[index] for state in states}))
    result = Outcomes(slots, domains, len(test.threads))
    if result.buckets > BUCKETS_MAX:
        few = {0, *(_compared(test))}
        narrow = {
            term: tuple(sorted(few | {state[index] for state in states}))
            for index, term in enumerate(terms)
        }
        result = Outcomes(slots, narrow, len(test.threads))
    if result.buckets > BUCKETS_MAX:
        raise NotRenderable("size", "the test has too many outcomes to count", test.span)
    return result


def _terms(test: LitmusTest) -> list[Observed]:
    terms = list(observed_terms(test.condition))
    terms += observed_terms(test.filter) if test.filter is not None else []
    return list(dict.fromkeys(terms))


def _visible(condition: ast.Condition, test: LitmusTest) -> None:
    if isinstance(condition, ast.Connective):
        for part in condition.parts:
            _visible(part, test)
    elif not isinstance(condition, ast.Compare):
        raise NotRenderable(
            "not observable",
            f"`{format_condition(condition)}` is not an outcome that a device shows",
            test.span,
        )


def _written(test: LitmusTest) -> set[int]:
    """Numbers that the test itself names: what a register or location is likely to hold."""
    numbers = {0, *(_compared(test))}
    numbers |= {location.initial for location in test.locations if not location.is_mbarrier}
    for thread in test.threads:
        numbers |= {value for _, value in thread.registers}
        for step in thread.instructions:
            match step:
                case ast.Store(_, value) if isinstance(value, int):
                    numbers.add(value)
                case (
                    ast.Atomic(operands=values)
                    | ast.Assign(operands=values)
                    | CdnaStep(operands=values)
                ):
                    numbers |= {value for value in values if isinstance(value, int)}
    return {number for number in numbers if -(2**31) <= number < 2**31}


def _compared(test: LitmusTest) -> set[int]:
    found: set[int] = set()

    def visit(condition: ast.Condition) -> None:
        if isinstance(condition, ast.Connective):
            for part in condition.parts:
                visit(part)
        elif isinstance(condition, ast.Compare):
            found.update(t for t in (condition.left, condition.right) if isinstance(t, int))

    for condition in (test.condition, test.filter):
        if condition is not None:
            visit(condition)
    return found


def verdict_of(test: LitmusTest, unroll: int = 2) -> ModelVerdict | None:
    """What the model allows, by reading; None for a test that it does not decide."""
    from titan.litmus.decide import STATES_MAX, decide, final_states
    from titan.litmus.model.options import FenceRule, ModelOptions, WarPolicy
    from titan.litmus.model.unsupported import UnsupportedTest

    terms = _terms(test)
    parts = (test.condition,) + ((test.filter,) if test.filter is not None else ())
    every = replace(test, filter=None, condition=ast.Connective("and", parts))
    expected: dict[str, str] = {}
    listed: dict[str, list[list[int]] | None] = {}
    complete = True
    readings = [ModelOptions()]
    if not test.dialect.amd:  # whose models have one reading
        readings.append(ModelOptions(FenceRule.PATH, WarPolicy.SYNC))
    for options in readings:
        try:
            decision = decide(test, options, unroll=unroll, recheck=False)
            racy = may_race(test)
            states = [] if racy else final_states(every, options, unroll=unroll)
        except UnsupportedTest:
            return None
        name = "the only one" if test.dialect.amd else str(options)
        expected[name] = decision.verdict
        complete = complete and decision.complete
        rows = [[state[term] for term in terms] for state in states]
        listed[name] = None if racy or len(rows) >= STATES_MAX else rows
    return ModelVerdict(expected, listed, complete)


def may_race(test: LitmusTest) -> bool:
    """Whether some execution has a data race that leaves every outcome possible."""
    from titan.litmus.decide import decide

    if test.dialect is not Dialect.AMDGPU:
        return False
    races = tuple(ast.Race(location.name) for location in test.locations)
    asked = replace(
        test, filter=None, condition=ast.Connective("or", races), quantifier=ast.Quantifier.EXISTS
    )
    return decide(asked, recheck=False).allowed is not False
