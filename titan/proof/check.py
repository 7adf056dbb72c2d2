"""The checker of certificates: re-derives every line with the reference interpreter.

A certificate is a closed set of configurations, each given by the way to it: for each, all steps
with their successors, or one step that stands for all, or a question about a size with both
answers. The checker executes each step, compares each successor, sees that no configuration is
faulty, that nothing is left without its line, and that the reductions are ones it knows to be
sound. It imports no solver and none of the engines. Theorems: `any_number`, `any_number_reduced`
(proofs/AnyNumber.v).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from titan.foundation.errors import UserError
from titan.proof.codec import digest_of, program_of
from titan.proof.configuration import Configuration, System
from titan.proof.open_sizes import NotCoveredError, UndecidedError
from titan.proof.others import first_alone
from titan.proof.shifts import CertifiedShiftClass
from titan.sync.fault import Actor, Step
from titan.sync.program import SyncProgram

HEAD = "titan-certificate 1"
ACTORS = {"a": Actor.AGENT, "r": Actor.READS, "f": Actor.FINISH}
LETTERS = {actor: letter for letter, actor in ACTORS.items()}


class RefusedError(UserError):
    """The certificate proves nothing; `line` counts from 1, 0 where no line is to blame."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Covered:
    """What a certificate proves: of which program, for which sizes, by how much."""

    program: SyncProgram
    digest: str
    given: tuple[tuple[str, int], ...]
    open: tuple[tuple[str, int], ...]
    states: int
    alone: int
    splits: int


def step_text(step: Step) -> str:
    """A step as the certificate writes it: letter, agent, and ordinal except for letter `a`."""
    letter = LETTERS[step.actor]
    return f"a{step.agent}" if letter == "a" else f"{letter}{step.agent}.{step.ordinal}"


def class_text(claim: CertifiedShiftClass) -> str:
    """The canonical JSON text of a class; `class_of` reads it back."""
    members = sorted(map(list, claim.members))
    values = [claim.period, claim.threshold, members, sorted(claim.sizes)]
    return json.dumps([*values, *(sorted(map(list, t)) for t in (claim.tiles, claim.phases))])


def class_of(text: str) -> CertifiedShiftClass:
    """Read a class; raises ValueError where the text is not exactly its canonical form."""
    period, threshold, members, sizes, tiles, phases = json.loads(text)
    claim = CertifiedShiftClass(
        int(period),
        int(threshold),
        frozenset((str(role), str(name)) for role, name in members),
        frozenset(map(str, sizes)),
        tuple((str(name), int(shift)) for name, shift in tiles),
        tuple((str(name), int(shift)) for name, shift in phases),
    )
    if class_text(claim) != text:
        raise ValueError("not the text of a class")
    return claim


def check(text: str) -> Covered:
    """Check a certificate. Raises RefusedError."""
    return _Check(text).run()


class _Check:
    def __init__(self, text: str) -> None:
        if not text.endswith("\n"):
            raise RefusedError(0, "the last line is not complete")
        self.lines = text[:-1].split("\n")
        self.at = 0  # lines read
        self.numbers: dict[Configuration, int] = {}
        self.found: list[Configuration] = []
        self.alone = self.splits = 0

    def run(self) -> Covered:
        try:
            return self._run()
        except RefusedError:
            raise
        except NotCoveredError as reason:
            raise RefusedError(self.at, str(reason)) from None
        except UndecidedError as question:
            message = f"the size {question.name} decides and is not asked for"
            raise RefusedError(self.at, message) from None
        except (ValueError, KeyError, TypeError, ZeroDivisionError, IndexError) as error:
            raise RefusedError(self.at, f"not a line of a certificate ({error})") from None

    def _run(self) -> Covered:
        if self._next() != HEAD:
            raise RefusedError(1, "not a certificate of this version")
        body = "\n".join(self.lines[:-1]) + "\n"
        if self.lines[-1] != f"end {digest_of(body)}":
            raise RefusedError(len(self.lines), "the text is not the one that was written")
        digest, text = self._words("program", 2)
        if digest != digest_of(text):
            raise RefusedError(self.at, "the program is another one")
        program = program_of(text)
        given = json.loads(self._words("given", 1)[0])
        if not isinstance(given, dict) or any(type(v) is not int for v in given.values()):
            raise RefusedError(self.at, "the sizes given are no numbers")
        count = self._number(self._words("classes", 1)[0])
        classes = [class_of(self._words("class", 1)[0]) for _ in range(count)]
        self.system = System(program, given, classes)
        self._starts(self._words("start", 1)[0])
        while self.at < len(self.lines) - 1:
            self._line(self._next())
        if self.line_count != len(self.found):
            raise RefusedError(0, "a configuration has no line")
        given_all = tuple(sorted(self.system.given.items()))
        sizes = tuple((p.name, p.minimum) for p in self.system.open)
        return Covered(program, digest, given_all, sizes, len(self.found), self.alone, self.splits)

    # ---------------------------------------------------------------------------- reading

    line_count = 0

    def _next(self) -> str:
        self.at += 1
        if self.at > len(self.lines):
            raise RefusedError(0, "the certificate is not complete")
        return self.lines[self.at - 1]

    def _words(self, head: str, count: int) -> list[str]:
        words = self._next().split(" ", count)
        if words[0] != head or len(words) != count + 1:
            raise RefusedError(self.at, f"a line of {head} is missing")
        return words[1:]

    @staticmethod
    def _number(text: str) -> int:
        if not text.isdecimal() or str(int(text)) != text:
            raise ValueError(f"{text} is no number")
        return int(text)

    @staticmethod
    def _step(text: str) -> Step:
        agent, _, ordinal = text[1:].partition(".")
        number = _Check._number
        step = (
            Step(ACTORS[text[0]], number(agent))
            if text[0] == "a"
            else Step(ACTORS[text[0]], number(agent), number(ordinal))
        )
        if step_text(step) != text:
            raise ValueError(f"{text} is no step")
        return step

    # ---------------------------------------------------------------------------- proving

    def _reach(self, configuration: Configuration, text: str) -> None:
        """The number named must be that of the configuration, or the next one if it is new."""
        known = self.numbers.get(configuration)
        if known is None:
            known = self.numbers[configuration] = len(self.found)
            self.found.append(configuration)
        if str(known) != text:
            raise RefusedError(self.at, f"leads to configuration {known}, not {text}")

    def _starts(self, text: str) -> None:
        starts = self.system.starts()
        named = text.split(",")
        if len(starts) != len(named):
            raise RefusedError(self.at, "there are other starts")
        for start, number in zip(starts, named, strict=True):
            self._reach(start, number)

    def _line(self, line: str) -> None:
        """`all STEP>NUMBER ...`, `one STEP>NUMBER` or `split SIZE>NUMBER,NUMBER`."""
        if self.line_count >= len(self.found):
            raise RefusedError(self.at, "a line for a configuration that nothing leads to")
        before = self.found[self.line_count]
        self.line_count += 1
        fault = self.system.fault_of(before)
        if fault is not None:
            raise RefusedError(self.at, f"the configuration is faulty: {fault.message}")
        head, *items = line.split(" ")
        if head == "split":
            self._split(before, items)
            return
        named = [
            (self._step(step), number) for step, _, number in (i.partition(">") for i in items)
        ]
        possible = self.system.steps(before)
        if head == "all":
            if [step for step, _ in named] != possible:
                raise RefusedError(self.at, "the steps that are possible are others")
        elif head == "one":
            if len(named) != 1 or named[0][0] not in possible:
                raise RefusedError(self.at, "the step is not possible")
            if len(possible) == 1:
                raise RefusedError(self.at, "the step is the only one that is possible")
            if first_alone(self.system, before, possible)[0] != named[0][0]:
                raise RefusedError(self.at, "the step is not the first that stands for all")
            self.alone += 1
        else:
            raise RefusedError(self.at, "not a line of a certificate")
        for step, number in named:
            self._reach(self._after(before, step), number)

    def _after(self, before: Configuration, step: Step) -> Configuration:
        state, fault = self.system.apply(before, step)
        if state is None:
            raise RefusedError(self.at, f"{step_text(step)} is a fault: {fault and fault.message}")
        return self.system.canonical(Configuration(state, before.sizes))

    def _split(self, before: Configuration, items: list[str]) -> None:
        if len(items) != 1:
            raise RefusedError(self.at, "not a line of a certificate")
        name, _, numbers = items[0].partition(">")
        answers = self.system.split(before, name)
        named = numbers.split(",")
        if len(named) != len(answers):
            raise RefusedError(self.at, "a size has two answers")
        for answer, number in zip(answers, named, strict=True):
            self._reach(answer, number)
        self.splits += 1
