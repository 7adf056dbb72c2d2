"""The outcomes of a litmus test of machine instructions, found by both engines of the machine.

The second engine has its own, larger states; where it gives up, the first stands alone and says
so. Refused: loops, two threads of one wave, and a register that two counters would return to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.foundation.errors import InternalError
from titan.litmus.language.ast import LitmusTest, Register
from titan.litmus.language.machine_steps import LDS, VECTOR, CdnaStep, StepForm
from titan.litmus.machine.answers import reaches
from titan.litmus.machine.explorer import MachineExplorer, Outcome, TooManyStates
from titan.litmus.machine.lines import LineMachine
from titan.litmus.machine.program import MachineProgram, MachineWave
from titan.litmus.model.unsupported import UnsupportedTest

RECHECK_STATES_MAX = 40_000


class MachinesDisagree(InternalError):
    """The two engines of the machine find different outcomes: a bug of ours, never a verdict."""


@dataclass(frozen=True, slots=True)
class MachineDecision:
    """Whether the asked outcome is reached; `rechecked`: the second engine found the same."""

    allowed: bool
    outcomes: frozenset[Outcome]
    rechecked: bool


def decide_machine(test: LitmusTest, *, recheck: bool = True) -> MachineDecision:
    """Explore every outcome. Raises UnsupportedTest, TooManyStates and MachinesDisagree."""
    program = program_of(test)
    outcomes = MachineExplorer(program).outcomes()
    rechecked = False
    if recheck:
        try:
            again = LineMachine(program, RECHECK_STATES_MAX).outcomes()
        except TooManyStates:
            pass
        else:
            rechecked = True
            if again != outcomes:
                raise MachinesDisagree(f"{test.name}: the engines of the machine disagree")
    allowed = any(reaches(test, outcome) for outcome in outcomes)
    return MachineDecision(allowed, frozenset(outcomes), rechecked)


def program_of(test: LitmusTest) -> MachineProgram:
    """The program of a test of machine instructions. Raises UnsupportedTest."""
    places = [(t.placement.group, t.placement.wave) for t in test.threads]
    if len(set(places)) < len(places):
        raise UnsupportedTest("two threads of one wave have one list of machine instructions")
    waves = []
    for thread in test.threads:
        steps = tuple(i for i in thread.instructions if isinstance(i, CdnaStep))
        _check(steps)
        named = tuple(_named(step, thread.name) for step in steps)
        registers = tuple((f"{thread.name}_{name}", value) for name, value in thread.registers)
        waves.append(MachineWave(thread.name, thread.placement, named, registers))
    target = test.dialect.machine
    assert target is not None
    return MachineProgram(
        target,
        tuple(waves),
        tuple((x.name, x.initial) for x in test.locations if x.home is None),
        tuple((x.name, x.initial) for x in test.locations if x.home is not None),
    )


def _named(step: CdnaStep, thread: str) -> CdnaStep:
    """The instruction with registers that no other wave has."""
    destination = None if step.destination is None else f"{thread}_{step.destination}"
    operands = tuple(
        Register(f"{thread}_{o.name}") if isinstance(o, Register) else o for o in step.operands
    )
    return replace(step, destination=destination, operands=operands)


def _check(steps: tuple[CdnaStep, ...]) -> None:
    labels = {s.target: n for n, s in enumerate(steps) if s.form is StepForm.LABEL}
    pending: dict[str, str] = {}
    for number, step in enumerate(steps):
        if step.form is StepForm.BRANCH and labels[step.target] <= number:
            raise UnsupportedTest("a loop is not decided at the level of the machine")
        if step.form is StepForm.WAIT:
            counts = {"vector": step.vmcnt, "lds": step.lgkmcnt, "scalar": step.lgkmcnt}
            pending = {name: kind for name, kind in pending.items() if counts[kind] != 0}
        if step.destination is None:
            continue
        kind = "vector" if step.form in VECTOR else "lds" if step.form in LDS else "scalar"
        before = pending.get(step.destination)
        ordered = before == kind and kind != "scalar"
        if before is not None and (step.form is StepForm.ASSIGN or not ordered):
            raise UnsupportedTest(
                f"`{step.destination}` is written while a result for it is under way, in no order"
            )
        if step.form is not StepForm.ASSIGN:
            pending[step.destination] = kind
