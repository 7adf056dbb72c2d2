"""One run of a program in the reference interpreter: the first that ends, engines before agents.

It serves questions that every interleaving answers alike: what is executed at all, and, where
nothing races, what comes before what.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.sync.fault import Actor, Step
from titan.sync.interpreter import Interpreter, State


def one_run(machine: Interpreter) -> Iterator[tuple[State, Step]]:
    """Each state with the step that is taken from it, up to the end or a fault."""
    state: State | None = machine.initial()
    while state is not None and (steps := machine.steps(state)):
        engines = (step for step in steps if step.actor is not Actor.AGENT)
        step = next(engines, steps[0])
        yield state, step
        state, _ = machine.apply(state, step)
