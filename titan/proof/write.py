"""Writes certificates: a search with the checker's own steps, which finds what there is to state.

Untrusted: it proposes classes (those of the explorer's analysis), single steps and questions about
sizes, and writes down what it meets. The budget counts configurations.
"""

from __future__ import annotations

import json

from titan.engines.explore.flatten import flatten
from titan.engines.explore.shifts import Analysis, NotApplicableError
from titan.foundation.errors import TitanError
from titan.proof.check import HEAD, class_text, step_text
from titan.proof.codec import digest_of, text_of
from titan.proof.configuration import Configuration, System
from titan.proof.open_sizes import NotCoveredError, UndecidedError
from titan.proof.others import first_alone
from titan.proof.shifts import CertifiedShiftClass
from titan.sync.fault import Fault, Step
from titan.sync.program import SyncProgram

STATES_MAX = 60_000
AHEAD_MAX = 1  # periods beyond the last of its class that a size is asked for a single step


class FaultyError(TitanError):
    """The search came to a fault: there is no certificate."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def write(
    program: SyncProgram,
    given: dict[str, int] | None = None,
    states_max: int = STATES_MAX,
    reduce: bool = True,
) -> str:
    """The certificate of a program. Raises NotCoveredError and FaultyError."""
    sizes = dict(given or {})
    claims = claims_of(program, sizes)
    system = System(program, sizes, claims)
    lines = _Writer(system, states_max, reduce).lines()
    text = text_of(program)
    head = [HEAD, f"program {digest_of(text)} {text}", f"given {json.dumps(sizes)}"]
    head += [f"classes {len(claims)}", *(f"class {class_text(claim)}" for claim in claims)]
    body = "\n".join([*head, *lines]) + "\n"
    return f"{body}end {digest_of(body)}\n"


def claims_of(program: SyncProgram, given: dict[str, int]) -> list[CertifiedShiftClass]:
    """What the explorer's analysis finds. Raises NotCoveredError."""
    flat = flatten(program, dict(given))
    if all(parameter.name in flat.sizes for parameter in program.parameters):
        return []
    analysis = Analysis(flat)
    try:
        analysis.run()
    except NotApplicableError as reason:
        raise NotCoveredError(str(reason)) from None
    claims = []
    for entry in analysis.classes:
        root = analysis.find(next(iter(entry.members)))
        tiles = {
            storage: int(degree.get(root, 0) * entry.period)
            for storage, degree in analysis.tile_degree.items()
        }
        phases = {
            name: int(degree.get(root, 0) * entry.period)
            for name, degree in analysis.phase_degree.items()
        }
        claims.append(
            CertifiedShiftClass(
                entry.period,
                entry.threshold,
                frozenset((program.roles[r].name, name) for r, name in entry.members if r >= 0),
                frozenset(name for r, name in entry.members if r < 0),
                tuple(sorted((name, shift) for name, shift in tiles.items() if shift)),
                tuple(sorted((name, shift) for name, shift in phases.items() if shift)),
            )
        )
    return claims


class _Writer:
    def __init__(self, system: System, states_max: int, reduce: bool) -> None:
        self.system, self.states_max, self.reduce = system, states_max, reduce
        self.numbers: dict[Configuration, int] = {}
        self.found: list[Configuration] = []

    def _number(self, configuration: Configuration) -> int:
        number = self.numbers.get(configuration)
        if number is None:
            number = self.numbers[configuration] = len(self.found)
            self.found.append(configuration)
            if number > self.states_max:
                raise NotCoveredError(f"more than {self.states_max} configurations")
        return number

    def lines(self) -> list[str]:
        starts = [self._number(start) for start in self.system.starts()]
        lines = ["start " + ",".join(map(str, starts))]
        place = 0
        while place < len(self.found):
            lines.append(self._line(self.found[place]))
            place += 1
        return lines

    def _line(self, before: Configuration) -> str:
        fault = self.system.fault_of(before)
        if fault is not None:
            raise FaultyError(fault)
        steps = self.system.steps(before)
        try:
            after = {step: self._after(before, step) for step in steps}
            chosen = self._chosen(before, steps) if self.reduce and len(steps) > 1 else None
        except UndecidedError as question:
            answers = self.system.split(before, question.name)
            return f"split {question.name}>" + ",".join(str(self._number(a)) for a in answers)
        if chosen is not None:
            return f"one {step_text(chosen)}>{self._number(after[chosen])}"
        named = [f"{step_text(step)}>{self._number(after[step])}" for step in steps]
        return " ".join(["all", *named])

    def _after(self, before: Configuration, step: Step) -> Configuration:
        state, fault = self.system.apply(before, step)
        if state is None:
            assert fault is not None
            raise FaultyError(fault)
        return self.system.canonical(Configuration(state, before.sizes))

    def _chosen(self, before: Configuration, steps: list[Step]) -> Step | None:
        """A step that stands for all. Raises UndecidedError where a size may find one."""
        step, asked = first_alone(self.system, before, steps)
        if step is None and asked:
            ahead, name = min((self._ahead(before, name), name) for name in asked)
            if ahead <= AHEAD_MAX:
                raise UndecidedError(name)
        return step

    def _ahead(self, before: Configuration, name: str) -> int:
        """How far ahead of the last of its class the size is asked for, in periods."""
        place = [parameter.name for parameter in self.system.open].index(name)
        bound = before.sizes[place].value
        ahead = 0
        for agent, position in zip(self.system.machine.agents, before.state.positions, strict=True):
            names = self.system.machine.control.variables_of(agent.role.name)
            for entry in self.system.classes:
                if name not in entry.claim.sizes or not position.frames:
                    continue
                for variable, value in zip(names, position.values, strict=True):
                    if entry.member(agent.role, variable):
                        ahead = max(ahead, (bound - value) // max(entry.claim.period, 4))
        return ahead
