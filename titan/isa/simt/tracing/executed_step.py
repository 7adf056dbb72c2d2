"""The instruction that a traced run is executing, with what it reads, and which are followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from titan.isa.simt import events as ev
from titan.isa.simt.operations import PURE, DecodedStep, Op
from titan.isa.simt.outcome import Policy
from titan.isa.simt.state import Warp
from titan.isa.simt.tracing.own_memory import ArmsInMemory
from titan.isa.simt.values import Value, any_opaque, lane

SPAN_MAX = 1 << 20  # bytes of one access
_READING = (Op.LOAD, Op.COPY)  # of which only what is read may be unknown
UNTRACED = (Policy.OPAQUE_ADDRESS, Policy.OPAQUE_INDEX, Policy.FUNCTION_OPAQUE)


@dataclass(slots=True)
class ExecutedStep:
    """The instruction that is being executed. `certain`: no lane's guard is opaque. `inputs`: all
    that the results of a branch on unknown data are made of, if its arms only compute.
    """

    warp: Warp
    step: DecodedStep
    pc: int
    node: int
    operands: list[Value]
    before: list[Value]
    certain: bool
    inputs: list[Value]
    arms: ArmsInMemory | None = None  # of such a branch, if they touch memory
    known: bool = False  # whether a load that gave a number is behind its results
    content: dict[int, int] = field(default_factory=dict)  # numbers of operands; see below
    rows: tuple[tuple[int, ...], ...] | None = None  # what ldmatrix reads: the marks of each row


def doubtful(now: ExecutedStep) -> bool:
    """Whether a guard or an operand is not known."""
    return not now.certain or any_opaque(now.operands)


def alike(now: ExecutedStep) -> bool:
    """Whether all lanes compute the same."""
    lists = any(isinstance(operand, list) for operand in now.operands)
    return now.step.op in PURE and now.certain and bool(now.operands) and not lists


def moves(now: ExecutedStep, index: int) -> bool:
    """Whether the instruction hands a value on as it is."""
    op = now.step.op
    if op is Op.SELP:
        return isinstance(lane(now.operands[2], index), int)
    return op in (Op.MOV, Op.SHUFFLE)


def is_untraced(event: ev.Event, steps: Sequence[DecodedStep]) -> bool:
    """Whether the run cannot be traced: what it writes is not known, or too much. Loads, and copies
    by cp.async, from unknown addresses give new values.
    """
    if isinstance(event, ev.Assumption):
        step = steps[event.instruction]
        return event.policy in UNTRACED and step.op not in _READING
    if isinstance(event, ev.AccessEvent) and event.mode is not ev.Mode.READ:
        low, high = event.footprint.bounds
        return high - low > SPAN_MAX and sum(b.size_bytes for b in event.footprint.boxes) > SPAN_MAX
    return False
