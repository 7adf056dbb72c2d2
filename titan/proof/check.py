"""The checker of certificates: re-derives every line with the reference interpreter.

A certificate is a closed set of configurations, each given by the way to it: for each, all steps
with their successors, or one step that represents all, and perhaps more behind it of which each
represents all or is the only one, or a question about a number with both answers. The checker asks
of each line only what it chooses, executes each step, writes the line that this gives, and
compares; it sees that no configuration is faulty, that nothing is left without its line, and that
what represents a successor represents all of it. Which configuration represents it is proposed by
`representatives`, which is not trusted. It imports no solver and none of the engines. Theorems:
`any_number`, `any_number_reduced` (proofs/AnyNumber.v).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from titan.foundation.errors import Refusal, UserError
from titan.proof.commuting import alone
from titan.proof.configuration import Configuration, FaultyError, System, is_instance
from titan.proof.representatives import Representatives
from titan.proof.shifts import CertifiedShiftClass
from titan.sync.open_numbers import NotCoveredError, UndecidedError
from titan.sync.program import SyncProgram
from titan.sync.text import digest_of, program_of, text_of, value_of

HEAD = "titan-certificate 4"


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


class Proof:
    """The configurations with a line, numbered in the order in which lines lead to them."""

    def __init__(self, system: System, claims: list[CertifiedShiftClass]) -> None:
        self.system = system
        self.proposals = Representatives(system, claims)
        self.found: list[Configuration] = []
        self.splits: dict[int, set[int]] = {}  # configurations without steps of their own

    def line(self, kind: str, successors: Iterable[tuple[str, Configuration]]) -> str:
        """A line of a certificate: `KIND LABEL>NUMBER ...`."""
        words = [kind]
        for label, configuration in successors:
            number, proposed, values = self.proposals.of(configuration)
            if proposed is not None:
                self.found.append(proposed)
            if not is_instance(configuration, self.found[number], self.system.arrays, values):
                raise NotCoveredError("no configuration represents all of a successor")
            words.append(f"{label}>{number}")
        return " ".join(words)

    def expanded(self, number: int, kind: str, choice: str) -> str:
        """The line of a configuration: `all` steps, `one` step, or a `split` by an unknown.

        Raises NotCoveredError where the choice proves nothing, and UndecidedError.
        """
        before = self.found[number]
        if kind == "split":
            line = self.line(kind, [(choice, c) for c in self.system.split(before, choice)])
            self.splits[number] = {int(word.rpartition(">")[2]) for word in line.split()[1:]}
            return line
        steps = {step.text: step for step in self.system.steps(before)}
        if kind == "one" and len(steps) > 1:
            for word in choice.split(";"):
                before = self._one(before, word)
            return self.line(kind, [(choice, before)])
        if kind != "all":
            raise NotCoveredError("not a line of a certificate, or the only step is chosen")
        return self.line(kind, [(t, self.system.after(before, s)) for t, s in steps.items()])

    def _one(self, before: Configuration, choice: str) -> Configuration:
        """Where the only step leads, or one that represents all."""
        steps = {step.text: step for step in self.system.steps(before)}
        chosen = steps[choice]  # a LookupError where it is not possible
        same = [s for s in steps.values() if (s.actor, s.agent) == (chosen.actor, chosen.agent)]
        if len(steps) > 1 and next((s for s in same if alone(self.system, before, s)), 0) != chosen:
            raise NotCoveredError("the step does not represent all steps, or is not the first")
        return self.system.after(before, chosen)

    def finish(self) -> None:
        """Whoever follows splits alone comes to steps. Raises NotCoveredError."""
        left = dict(self.splits)
        while ready := [number for number, parts in left.items() if not parts & left.keys()]:
            for number in ready:
                del left[number]
        if left:
            raise NotCoveredError("a configuration is split into itself")


def head_of(program: SyncProgram, given: dict[str, int], claims: list[CertifiedShiftClass]) -> str:
    """The first lines: the program, the sizes given, and the classes of numbers."""
    text = text_of(program)
    lines = [HEAD, f"program {digest_of(text)} {text}", f"given {json.dumps(given)}"]
    return "\n".join([*lines, *(f"class {text_of(claim)}" for claim in claims), ""])


def check(text: str) -> Covered:
    """Check a certificate. Raises RefusedError."""
    lines = _Lines(text.split("\n"))
    try:
        return _checked(text, lines)
    except UndecidedError as question:
        message = f"the size {question.name} decides and there is no case split on it"
        raise RefusedError(lines.at, message) from None
    except (Refusal, FaultyError) as reason:
        raise RefusedError(lines.at, str(reason)) from None
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        raise RefusedError(lines.at, f"not a line of a certificate ({error})") from None


class _Lines:
    """The lines of a certificate; `at` is the number of the last one read."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.at = lines, 1

    def next(self) -> str:
        self.at += 1
        if self.at > len(self.lines) - 2:  # the closing line, and nothing after it
            raise NotCoveredError("the certificate is not complete")
        return self.lines[self.at - 1]


def _checked(text: str, lines: _Lines) -> Covered:
    if lines.lines[0] != HEAD:
        raise NotCoveredError(f"the first line is not `{HEAD}`: no certificate of this version")
    if text != sealed("\n".join(lines.lines[:-2]) + "\n"):
        raise NotCoveredError("the text was changed")
    program = program_of(lines.next().split(" ", 2)[2])
    given = json.loads(lines.next().partition(" ")[2])
    least = {p.name: p.minimum for p in program.parameters if p.value is None}
    if not isinstance(given, dict) or any(
        type(number) is not int or number < least[name] for name, number in given.items()
    ):
        raise ValueError("what is given is no size of the program")
    claims = []
    while (line := lines.next()).startswith("class "):
        claims.append(value_of(CertifiedShiftClass, line.removeprefix("class ")))
    if not text.startswith(head_of(program, given, claims)):
        raise ValueError("the first lines differ")
    proof = Proof(System(program, given), claims)
    if line != proof.line("start", (("", start) for start in proof.system.starts())):
        raise NotCoveredError("the initial configurations differ")
    kinds: list[str] = []
    for number, _ in enumerate(proof.found):  # grows while lines lead to more
        line = lines.next()
        kind, choice = f"{line} ".split(" ")[:2]
        derived = proof.expanded(number, kind, choice.partition(">")[0])
        if line != derived:
            raise NotCoveredError(f"what is derived is another line: {derived}")
        kinds += [kind] * (1 + choice.count(";"))  # the configurations between are on no line
    if lines.at != len(lines.lines) - 2:
        raise NotCoveredError("a line for an unreachable configuration")
    proof.finish()
    sizes = tuple((p.name, p.minimum) for p in proof.system.open)
    known = tuple(sorted(proof.system.given.items()))
    counts = len(kinds), kinds.count("one"), kinds.count("split")
    return Covered(program, digest_of(text_of(program)), known, sizes, *counts)


def sealed(body: str) -> str:
    """The text with its closing line."""
    return f"{body}end {digest_of(body)}\n"
