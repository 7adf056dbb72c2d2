"""Whether a run reads bytes that perhaps nothing has written, as data choose what stores there.

What becomes of them is in `undefined_values.py`; this says whether to ask.
"""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.operations import Op
from titan.isa.simt.outcome import Policy, Run
from titan.isa.simt.tracing.arm_registers import Arms
from titan.isa.simt.unwritten_reads import WrittenBytes, touched

_STORES = (Op.STORE, Op.STORE_MATRIX)


def may_lack_writes(run: Run) -> bool:
    """Whether some bytes are read that nothing has written but what data choose to execute."""
    made = run.prepared
    chosen = _chosen(run) if made is not None else set()
    if made is None or not any(made.code.steps[at].op in _STORES for at in chosen):
        return False
    if made.code.local_bytes:
        return True
    written = WrittenBytes()
    for event in run.events:
        for footprint, mode in touched(event):
            known = event.instruction in chosen
            if mode is not ev.Mode.WRITE and not known and not written.hold(footprint):
                return True
            if mode is not ev.Mode.READ and not known:
                written.add(footprint)
    return False


def _chosen(run: Run) -> set[int]:
    """The instructions that data have chosen somewhere: by a guard, or in the arms of a branch."""
    found = {
        event.instruction
        for event in run.events
        if isinstance(event, ev.Assumption) and event.policy == Policy.OPAQUE_GUARD
    }
    branches = {event.instruction for event in run.events if isinstance(event, ev.Skipped)}
    if branches and run.prepared is not None:
        arms = Arms(run.prepared.code)
        for branch in branches:
            found.update(*arms.of(branch).instructions)
    return found
