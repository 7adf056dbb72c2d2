"""Writes the certificate of a run: some run of the program, followed by the checker's own steps.

Untrusted. Engines go first, then the agent that has come least far: any run would do, since all are
orders of the same steps.
"""

from __future__ import annotations

from titan.proof.run_check import RunProof, run_head, sealed
from titan.sync.fault import Actor, Step
from titan.sync.open_numbers import NotCoveredError
from titan.sync.program import SyncProgram

STEPS_MAX = 200_000


def write_run(program: SyncProgram, steps_max: int = STEPS_MAX) -> str:
    """The certificate of a straight-line program. Raises NotCoveredError."""
    proof = RunProof(program)
    lines: list[str] = []

    def advance(step: Step) -> None:
        lines.append(proof.step(step, len(lines) + 3))
        if len(lines) > steps_max:
            raise NotCoveredError(f"more than {steps_max} steps")

    while steps := proof.machine.steps(proof.state):
        for step in [step for step in steps if step.actor is not Actor.AGENT][:1] or steps:
            if proof.machine.possible(proof.state, step):
                advance(step)
    proof.finish()
    return sealed(run_head(program) + "\n".join([*lines, ""]))
