"""What the rules look at: one kernel, its sync program, and the limits of its target.

A kernel of several CTAs has each buffer once in each; the rules look at one of them, under the name
in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.language.kernel.model import Kernel, Layout, RoleShape, TensorMap
from titan.language.kernel.table import QUEUE_KINDS
from titan.sync.expression import Constant, Expression
from titan.sync.program import (
    Access,
    Asynchronous,
    BarrierArrive,
    BarrierSync,
    BarrierWait,
    Block,
    Branch,
    Buffer,
    Effect,
    Loop,
    Operation,
    PoolTake,
    Proxy,
    Role,
    Space,
    SyncProgram,
    TokenWait,
    Wait,
)
from titan.target.description import Target, target_of
from titan.target.limits import TargetLimits
from titan.verify.legality.alone import Numbers, numbers_in_runs


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A buffer with its layout: `stride` and `bytes_per_stage` in bytes, 0 where not known."""

    buffer: Buffer
    layout: Layout
    name: str

    @property
    def bytes_per_stage(self) -> int:
        """Bytes of one stage, as the buffer declares them."""
        return self.buffer.bytes_per_stage

    @property
    def stride(self) -> int:
        """Bytes from one stage's start to the next; stages are adjacent where none is given."""
        return self.layout.stride or self.bytes_per_stage

    @property
    def extent(self) -> int:
        """Bytes from the first stage's start to the last one's end."""
        if not self.bytes_per_stage:
            return 0
        return (self.buffer.stages - 1) * self.stride + self.bytes_per_stage

    @property
    def span(self) -> Span | None:
        """The place in the text of the buffer's layout; None if it has none."""
        return self.layout.span


@dataclass
class Case:
    """One kernel under the rules; `notes` gathers what was assumed."""

    kernel: Kernel
    program: SyncProgram
    limits: TargetLimits
    notes: list[str] = field(default_factory=list)

    def fault(
        self,
        code: str,
        headline: str,
        span: Span | None,
        *,
        source: str = "",
        helps: tuple[str, ...] = (),
        label: str = "",
    ) -> Diagnostic:
        """A finding that points at `span`, or at the kernel, and names its source."""
        place = span or self.kernel.span
        text = self.limits.source(source) if source in self.limits.sources else source
        notes = (f"source: {text}",) if text else ()
        return diagnostic(code, headline, place, label, notes=notes, helps=helps)

    def assume(self, text: str) -> None:
        """Add an assumption to the notes of the verdict, once."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def target(self) -> Target:
        """The description of the device that the kernel names."""
        return target_of(self.kernel.target)

    @property
    def counters(self) -> frozenset[str]:
        """The kinds of queue that the target has."""
        table = self.target.completion
        return frozenset(table.counters) if table is not None else frozenset()

    @property
    def nvidia(self) -> bool:
        """Whether the PTX rules apply: the target is an NVIDIA device."""
        return self.target.nvidia

    # Memory

    @cached_property
    def memories(self) -> dict[str, PlacedBuffer]:
        """Each buffer of the file once, by its name there."""
        layouts = {item.name: item for item in self.kernel.placement.layouts}
        found: dict[str, PlacedBuffer] = {}
        for buffer in self.program.buffers:
            name = plain(buffer.name)
            if name not in found:
                layout = layouts.get(name) or Layout(name, span=buffer.span)
                found[name] = PlacedBuffer(buffer, layout, name)
        return found

    def shared(self) -> Iterator[PlacedBuffer]:
        """The buffers in shared memory, LDS included."""
        return (item for item in self.memories.values() if item.buffer.space is Space.SHARED)

    @cached_property
    def maps_of(self) -> dict[str, list[TensorMap]]:
        """The tensor maps of each buffer."""
        found: dict[str, list[TensorMap]] = {}
        for item in self.kernel.placement.tensor_maps:
            found.setdefault(item.buffer, []).append(item)
        return found

    def swizzle(self, memory: PlacedBuffer) -> str:
        """The swizzle of a buffer, which may be given with its tensor map."""
        if memory.layout.swizzle != "none":
            return memory.layout.swizzle
        modes = (item.swizzle for item in self.maps_of.get(memory.name, ()))
        return next((mode for mode in modes if mode != "none"), "none")

    @cached_property
    def by_threads(self) -> frozenset[str]:
        """Buffers that the program touches by generic accesses only: their swizzle is software."""
        proxies: dict[str, set[Proxy]] = {}
        for _, item in self.operations:
            for effect in item.effects if isinstance(item, Access | Asynchronous) else ():
                proxies.setdefault(plain(effect.buffer), set()).add(effect.proxy)
        found = {name for name, seen in proxies.items() if seen == {Proxy.GENERIC}}
        return frozenset(found - set(self.maps_of))

    def repeat(self, memory: PlacedBuffer) -> int:
        """Bytes after which the hardware's swizzle of a buffer repeats; 1 without one."""
        if memory.name in self.by_threads:
            return 1
        return self.limits.table("swizzle_repeat").get(self.swizzle(memory), 1)

    @cached_property
    def homes(self) -> dict[str, int]:
        """The CTA of each buffer."""
        return {buffer.name: buffer.cta for buffer in self.program.buffers}

    def space_of(self, effect: Effect) -> Space:
        """Where the memory of an effect lies."""
        return self.memories[plain(effect.buffer)].buffer.space

    def storage_of(self, effect: Effect) -> str:
        """The memory of an effect: one name for all buffers that share it, in every CTA."""
        buffer = self.memories[plain(effect.buffer)].buffer
        return plain(buffer.storage or buffer.name)

    # Program

    @cached_property
    def operations(self) -> tuple[tuple[Role, Operation], ...]:
        """Every reachable operation with its role, in the order of the program."""
        return tuple((role, item) for role in self.program.roles for item in live(role.body))

    def values_of(self, operation: Operation, expression: Expression) -> list[int]:
        """What a field of an operation is: the number of the text, or those that runs give it."""
        if isinstance(expression, Constant):
            return [expression.value]
        return sorted(self._numbers.get((id(operation), expression), ()))

    @cached_property
    def _numbers(self) -> Numbers:
        return numbers_in_runs(self.program)

    def queue_kind(self, queue: str | None) -> str:
        """The kind of a queue; the queues that lowering makes are named for theirs."""
        if queue is None:
            return ""
        return self._kinds.get(queue) or (queue if queue in QUEUE_KINDS else "")

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return dict(self.kernel.placement.kinds)

    def is_mbarrier(self, name: str) -> bool:
        """Whether a barrier is an mbarrier, and no flag or end of a grid."""
        return self._kinds.get(plain(name), "mbarrier") == "mbarrier"

    def is_grid(self, name: str) -> bool:
        """Whether a barrier is the end of a grid."""
        return self._kinds.get(plain(name)) == "grid"

    def is_tensor_pool(self, name: str) -> bool:
        """Whether a pool is of columns of tensor memory, and not of registers."""
        return self._kinds.get(plain(name)) == "tensor"

    def in_a_warp(self, name: str) -> bool:
        """Whether a named barrier is one among the threads of a warp (`bar.warp.sync`)."""
        return self._kinds.get(plain(name)) == "warp"

    @cached_property
    def asynchronous(self) -> tuple[tuple[Role, Asynchronous], ...]:
        """The reachable asynchronous operations with the roles that issue them."""
        found = []
        for role, item in self.operations:
            if isinstance(item, Asynchronous):
                found.append((role, item))
        return tuple(found)

    def bulk_copies(self) -> Iterator[Asynchronous]:
        """Copies by the async proxy: neither matrix instructions nor copies of the threads."""
        for _, item in self.asynchronous:
            kind = self.queue_kind(item.queue)
            if kind in ("", "bulk") and any(e.proxy is Proxy.ASYNC for e in item.effects):
                yield item

    @cached_property
    def bulk(self) -> frozenset[str]:
        """The buffers in shared memory that bulk copies fill or empty."""
        copied = {
            plain(effect.buffer)
            for item in self.bulk_copies()
            for effect in item.effects
            if effect.proxy is Proxy.ASYNC
        }
        shared = {memory.name for memory in self.shared()}
        return frozenset((copied | set(self.maps_of)) & shared)

    # Threads

    def comes_to(self, role: Role, name: str) -> bool:
        """Whether the role arrives at a named barrier anywhere."""
        return any(
            isinstance(item, BarrierSync | BarrierArrive) and item.barrier.name == name
            for item in live(role.body)
        )

    def may_block(self, role: Role) -> bool:
        """Whether another agent could keep the role from its end."""
        blocking = (Wait, TokenWait, BarrierSync, BarrierWait, PoolTake)
        return any(isinstance(item, blocking) for item in live(role.body))

    @cached_property
    def shapes(self) -> dict[str, RoleShape]:
        """The kernel's roles by name."""
        return {role.name: role for role in self.kernel.roles}

    @cached_property
    def own_roles(self) -> tuple[RoleShape, ...]:
        """The roles of the cluster, without those that run elsewhere."""
        return tuple(role for role in self.kernel.roles if not role.outside)

    def threads(self, cta: int = 0) -> int:
        """Threads of all roles of one CTA."""
        return sum(role.agents * role.threads for role in self.program.roles if role.cta == cta)

    @property
    def ctas(self) -> range:
        """The numbers of the kernel's CTAs, from 0."""
        return range(self.kernel.ctas)


def live(block: Block) -> Iterator[Operation]:
    """Every operation that can be reached: arms whose condition is a number are decided."""
    for item in block:
        yield item
        if isinstance(item, Loop):
            if not (isinstance(item.start, Constant) and item.stop == item.start):
                yield from live(item.body)
        elif isinstance(item, Branch):
            known = item.condition.value if isinstance(item.condition, Constant) else None
            if known is None or known:
                yield from live(item.then)
            if not known:
                yield from live(item.otherwise)


def plain(name: str) -> str:
    """The name in the file of a thing that exists in several CTAs."""
    return name.partition("@")[0]


def round_up(number: int, multiple: int) -> int:
    """The least multiple of `multiple` that is not below `number`."""
    return -(-number // multiple) * multiple
