"""Runs in which `activemask` finds lanes alone.

Which lanes of a warp execute an instruction together is open where they may have parted: PTX has
activemask give those that are active then, and lanes that take one arm of a branch need not be.
Code that is right goes on with whatever mask it gets (a coalesced group of cooperative groups);
code that takes it for all lanes of the arm is not. So a run that asks in an arm is made once more
with the other extreme: each lane finds itself alone, and goes on alone to the end of the arm.
"""

from __future__ import annotations

from dataclasses import replace

from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.operations import Op
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Ending, Run

LONE_HELP = (
    "`activemask` in an arm of a branch gives the lanes that are there at the moment; which these "
    "are is open. `__ballot_sync` before the branch gives the lanes that will take it"
)
LONE = "if activemask in an arm of a branch finds each lane alone"


def with_lone_lanes(run: Run) -> Run | None:
    """The run as above; None where no lanes that may have parted ask."""
    made = run.prepared
    if made is None or run.outcome.ending is not Ending.FINISHED:
        return None
    if run.instructions > INSTRUCTIONS_MAX:
        return None
    if all(step.op is not Op.ACTIVE_MASK for step in made.code.steps):
        return None
    again = replace(made, options=replace(made.options, lone_lanes=True))
    found = SimtExecution.again(again).run()
    if list(found.events) == list(run.events):
        return None
    return replace(found, prepared=again)
