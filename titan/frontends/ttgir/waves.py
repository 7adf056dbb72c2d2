"""Waves of a CTA: their number, and halves of them that alternate on AMD GPUs.

The threads of a partition are one agent as long as Triton is to place the barriers between them.
In a *ping-pong* loop it has placed them already: `amdg.cond_barrier` holds one half of the waves
back by a barrier, so that one half loads while the other computes. There the halves are two agents,
and the barriers between them are those of the text. Where the halves are level, before the first
`amdg.cond_barrier` and behind the last one, Triton still adds a barrier wherever an access to
shared memory would meet one of the other waves since the last barrier; `before` adds the same.

Stages of a warp pipeline (`triton.warp_pipeline.pipelined_for`) become such a loop: a barrier
before it, the upper half held back by one, a barrier behind every stage, and the lower half held
back by one behind the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from titan.foundation.source.span import Span
from titan.frontends.ttgir.effects import Made, Untranslatable
from titan.frontends.ttgir.model import Block, TtgirModule, TtgirOperation
from titan.frontends.ttgir.places import DraftPlace
from titan.frontends.ttgir.values import ThreadNumber, Value, is_integer, why_unknown
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.parts import effects_of

WORK_GROUP = "work-group"
CONDITIONAL = "amdg.cond_barrier"
MEETINGS = ("ttg.barrier", "gpu.barrier", "rocdl.barrier", "rocdl.s.barrier", CONDITIONAL)
THREAD_NUMBERS = ("rocdl.workitem.id.x", "ttg.warp_id")
PIPELINED = "triton.warp_pipeline.pipelined_for"
STAGE = "triton.warp_pipeline.stage"


def alternate(block: Block) -> bool:
    """Whether halves of the waves alternate somewhere in a block."""
    return any(
        operation.name == CONDITIONAL
        or PIPELINED in operation.attributes
        or any(alternate(region) for region in operation.regions)
        for operation in block.operations
    )


@dataclass(slots=True)
class Touched:
    """The buffers that were accessed since the last barrier; `anything`: or any of them."""

    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    anything: bool = False


@dataclass(slots=True)
class Waves:
    """The waves that a draft is for. `level`: no half is a barrier ahead."""

    place: DraftPlace
    warps: int
    threads_per_warp: int
    level: bool = True
    touched: Touched = field(default_factory=Touched)

    @classmethod
    def of(cls, module: TtgirModule, place: DraftPlace) -> Waves:
        """Those of a place; half of the warps of the module where halves alternate."""
        warps = module.integer("ttg.num-warps", 4)
        threads = module.integer("ttg.threads-per-warp", 32)
        return cls(place, warps if place.half is None else warps // 2, threads)

    @property
    def threads(self) -> int:
        """Those of all these waves."""
        return self.warps * self.threads_per_warp

    def threads_of(self, partition: Block) -> int:
        """Those of a partition, which has as many warps as the function where it does not say."""
        return (partition.warps or self.warps) * self.threads_per_warp

    def number(self, name: str) -> ThreadNumber:
        """The number of a thread or warp in its CTA."""
        count = self.warps if name == "ttg.warp_id" else self.threads
        first = (self.place.half or 0) * count
        return ThreadNumber(first, first + count - 1)

    def meeting(self, operation: TtgirOperation, values: list[Value]) -> Made:
        """A barrier of all waves, or of those for which its condition holds."""
        if self.place.half is None:
            return []
        if operation.name != CONDITIONAL:
            return [self._meet(operation.span, relaxed=operation.name == "rocdl.s.barrier")]
        condition = values[0] if values else None
        if not isinstance(condition, Constant):
            reason = "it is missing" if condition is None else why_unknown(condition)
            reason = "it is a variable" if is_integer(condition) else reason
            raise Untranslatable(f"its condition does not choose a half of the waves: {reason}")
        self.level = not self.level
        return [self._wait_behind(operation.span)] if condition.value else []

    def enter_stages(self, span: Span) -> Made:
        """Before a loop over stages of a warp pipeline: the upper half is held back."""
        if self.place.half is None:
            return []
        self.level = False
        first = [self._meet(span)]
        return first if self.place.half == 0 else [*first, self._wait_behind(span)]

    def leave_stages(self, span: Span) -> Made:
        """Behind it: the lower half is held back."""
        self.level = True
        return [self._wait_behind(span)] if self.place.half == 0 else []

    def stage(self, operation: TtgirOperation, made: Made) -> Made:
        """A region; where it is a stage of a warp pipeline, with the barrier behind it."""
        if self.place.half is None or STAGE not in operation.attributes:
            return made
        return [*made, self._meet(operation.span)]

    def before(self, made: Made) -> Made:
        """Operations with the barrier before them that Triton adds, where halves are level."""
        if self.place.half is None:
            return made
        effects = [effect for operation in ir.walk(tuple(made)) for effect in effects_of(operation)]
        read = {effect.buffer for effect in effects if not effect.write}
        written = {effect.buffer for effect in effects if effect.write}
        touched = self.touched
        meets = written & (touched.read | touched.written) or read & touched.written
        if self.level and effects and (meets or touched.anything):
            made = [self._meet(made[0].span), *made]
        self.touched.read |= read
        self.touched.written |= written
        return made

    def enter_loop(self) -> None:
        """What a trip finds is what the last one left, which is not known yet."""
        self.touched.anything = True

    def _meet(self, span: Span | None, relaxed: bool = False) -> ir.Operation:
        """All waves, in the order of the text."""
        self.touched = Touched()
        return self._barrier(span, ir.Order.RELAXED if relaxed else ir.Order.SYNCHRONISING)

    def _wait_behind(self, span: Span | None) -> ir.Operation:
        """This half waits for the barrier of the other half that comes next there."""
        return self._barrier(span, ir.Order.SYNCHRONISING)

    def _barrier(self, span: Span | None, order: ir.Order) -> ir.Operation:
        everybody = Constant(2 * self.threads)
        return ir.BarrierSync(ir.Reference(WORK_GROUP), everybody, order, span=span)


def meetings(body: Iterable[ir.Operation]) -> tuple[object, ...]:
    """The barriers of all waves in a body, loop by loop and arm by arm, to compare two halves."""
    count = 0
    inner: list[object] = []
    for operation in body:
        match operation:
            case ir.Loop(body=trip):
                inner.append(meetings(trip))
            case ir.Branch(then=then, otherwise=otherwise):
                inner.append((meetings(then), meetings(otherwise)))
            case ir.BarrierSync() if operation.barrier.name == WORK_GROUP:
                count += 1
    return (count, *(item for item in inner if item not in ((0,), ((0,), (0,)))))
