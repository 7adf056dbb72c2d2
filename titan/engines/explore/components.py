"""Parts of a program that do not touch each other, to be searched one by one.

The states of CTAs that share nothing multiply, although neither can do anything to the other. Roles
belong together when they are in one CTA, or use one mbarrier, named barrier or pool, or memory that
one of them writes, or memory or a barrier of the other's CTA (which has to be there for as long).
Everything an agent can meet, and every fault, then lies within one component:

- An operation is enabled, and has the effect and the faults that it has, whatever agents of other
  components do: it reads and changes words of its own component only. A fence may take away marks
  that engines left on memory of another component. That spares that component a fault in some
  interleavings, and in none where the agent of the fence waits.
- So a run of the whole program is a run of each component, interleaved, and runs of the components
  can be interleaved at will. A fault of the whole program at a step is one of the component of that
  step, and the other way round. In a deadlock of the whole program every component is at its end or
  stuck, and one is stuck; and where one is stuck, the others can be run to their ends or to a
  fault, because every run ends (endings.py).

Programs with loops that do not count off, with fences along paths, or with fences that hand marks
on from one agent to another (one-way, tensormap and cached proxies) are left whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from titan.engines.explore.endings import terminates
from titan.engines.explore.replay import NativeReplayError
from titan.foundation.records import dataclass
from titan.sync import program as ir
from titan.sync.control import agents_of
from titan.sync.fault import Actor, Fault, FaultKind, Step, Trace
from titan.sync.interpreter import Interpreter
from titan.sync.parts import barriers_of, effects_of, pool_of

STEPS_MAX = 1_000_000  # of the other components, behind a deadlock of one
_LOCAL_FENCES = (ir.FenceKind.ASYNC, ir.FenceKind.BARRIER_INIT)
Key = tuple[str, str | int]


@dataclass(frozen=True, slots=True)
class Component:
    """Some roles of a program; `agents` are the numbers that their agents have in the whole."""

    program: ir.SyncProgram
    agents: tuple[int, ...]


def components(program: ir.SyncProgram) -> list[Component]:
    """The components, in the order of their first roles; one where the program is left whole."""
    if not _divisible(program):
        return [Component(program, tuple(agent.number for agent in agents_of(program)))]
    groups: list[tuple[set[Key], list[ir.Role]]] = []
    for role in program.roles:
        keys, roles = set(_keys(program, role)), [role]
        for group in [group for group in groups if group[0] & keys]:
            groups.remove(group)
            keys |= group[0]
            roles = group[1] + roles
        groups.append((keys, roles))
    order = {role.name: number for number, role in enumerate(program.roles)}
    sorted_groups = sorted(
        (sorted(roles, key=lambda role: order[role.name]) for _, roles in groups),
        key=lambda roles: order[roles[0].name],
    )
    return [_component(program, roles) for roles in sorted_groups]


def _divisible(program: ir.SyncProgram) -> bool:
    if len({role.cta for role in program.roles}) < 2 or program.policies.fence_rule != "writer":
        return False
    for role in program.roles:
        for operation in ir.walk(role.body):
            if isinstance(operation, ir.Fence) and operation.kind not in _LOCAL_FENCES:
                return False
            if any(
                effect.proxy not in (ir.Proxy.GENERIC, ir.Proxy.ASYNC)
                for effect in effects_of(operation)
            ):
                return False
    return terminates(program)


def _keys(program: ir.SyncProgram, role: ir.Role) -> Iterator[Key]:
    """What two roles of one component may have in common."""
    storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
    places = {(storages[item.name], item.cta) for item in program.buffers if _has_home(item)}
    homes = {barrier.name: barrier.cta for barrier in program.barriers}
    written = _written(program)
    yield "cta", role.cta
    for operation in ir.walk(role.body):
        for effect in effects_of(operation):
            storage = storages[effect.buffer]
            if storage in written:
                yield "storage", storage
            yield from (("cta", cta) for name, cta in places if name == storage)
        for barrier in barriers_of(operation):
            yield "barrier", barrier.name
            if barrier.name in homes:
                yield "cta", homes[barrier.name]
        pool = pool_of(operation)
        if pool is not None:
            yield "pool", pool


def _has_home(buffer: ir.Buffer) -> bool:
    """Whether the buffer is memory of a CTA."""
    return buffer.space is not ir.Space.GLOBAL


def _written(program: ir.SyncProgram) -> set[str]:
    storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
    return {
        storages[effect.buffer]
        for role in program.roles
        for operation in ir.walk(role.body)
        for effect in effects_of(operation)
        if effect.write
    }


def _component(program: ir.SyncProgram, roles: list[ir.Role]) -> Component:
    names = {role.name for role in roles}
    operations = [operation for role in roles for operation in ir.walk(role.body)]
    barriers = {barrier.name for operation in operations for barrier in barriers_of(operation)}
    storages = {buffer.name: buffer.storage or buffer.name for buffer in program.buffers}
    used = {storages[e.buffer] for operation in operations for e in effects_of(operation)}
    pools = {pool_of(operation) for operation in operations}
    part = replace(
        program,
        roles=tuple(roles),
        barriers=tuple(item for item in program.barriers if item.name in barriers),
        named_barriers=tuple(item for item in program.named_barriers if item.name in barriers),
        buffers=tuple(item for item in program.buffers if storages[item.name] in used),
        pools=tuple(item for item in program.pools if item.name in pools),
    )
    numbers = tuple(agent.number for agent in agents_of(program) if agent.role.name in names)
    return Component(part, numbers)


def whole_trace(program: ir.SyncProgram, component: Component, trace: Trace) -> Trace:
    """The trace of a component as one of the whole program, with the interpreter's own fault.

    A deadlock is one when the others have come to their ends; they may come to a fault of their
    own, which ends the trace then. Raises NativeReplayError where a step is not possible.
    """
    machine = Interpreter(program, dict(trace.parameters))
    state = machine.initial()
    steps: list[Step] = []
    pending = deque(step._replace(agent=component.agents[step.agent]) for step in trace.steps)
    stuck = trace.fault.kind is FaultKind.DEADLOCK
    fault: Fault | None = None
    for _ in range(2 * len(pending) + STEPS_MAX * stuck):
        possible = machine.steps(state)
        if not pending and not (stuck and possible):
            break
        step = _next(pending, possible)
        steps.append(step)
        successor, fault = machine.apply(state, step)
        if successor is None:
            break
        state = successor
    fault = fault or machine.state_fault(state)
    if fault is None or (fault.kind is not trace.fault.kind and not stuck):
        raise NativeReplayError(f"a part of the program shows {trace.fault.kind}, the whole not")
    return Trace(tuple(machine.sizes.items()), tuple(steps), fault)


def _next(pending: deque[Step], possible: list[Step]) -> Step:
    """The next step to take: of the component, or any where it has none left.

    Where another component waits for reads of a queue, the end of the reads is a step of its own.
    """
    if not pending:
        return possible[0]
    reads = pending[0]._replace(actor=Actor.READS)
    if pending[0] not in possible and pending[0].actor is Actor.FINISH and reads in possible:
        return reads
    if pending[0] not in possible:
        raise NativeReplayError(f"step {pending[0]} of a part is not possible in the whole")
    return pending.popleft()
