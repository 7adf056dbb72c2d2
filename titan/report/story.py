"""What the steps of a replayed counterexample touch: cells, barriers, bytes, arrivals.

Plain facts of an interleaving, from which causes are worded and traces are cut to what matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from titan.sync import program as ir
from titan.sync.expression import ExpressionError, evaluate
from titan.sync.fault import Actor
from titan.sync.interpreter import Interpreter
from titan.sync.memory_rules import cells_of
from titan.sync.state import ANY_TILE, Cell, Flight, Key, State, key_of
from titan.verify.replay import Played, Replay

ARRIVING = (ir.Arrive, ir.BarrierArrive, ir.BarrierSync, ir.QueueArrive)
WAITING = (ir.Wait, ir.TokenWait, ir.BarrierSync, ir.BarrierWait)


@dataclass(frozen=True, slots=True)
class CellAccess:
    """One access of a step: the tile it means, or ANY_TILE."""

    cell: Cell
    write: bool
    tile: int
    proxy: ir.Proxy


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One step, numbered from 1; `arrives` and `waits` are barriers, by key."""

    number: int
    agent: int
    actor: Actor
    operation: ir.Operation
    environment: Mapping[str, int]
    accesses: tuple[CellAccess, ...] = ()
    arrives: tuple[Key, ...] = ()
    waits: tuple[Key, ...] = ()

    @property
    def touched(self) -> frozenset[object]:
        """Cells and barriers that the step touches."""
        return frozenset((*(item.cell for item in self.accesses), *self.arrives, *self.waits))


def story_of(replay: Replay) -> list[StoryStep]:
    """The steps of a replay, in order."""
    return story_steps(replay.machine, replay.steps)


def story_steps(machine: Interpreter, steps: Sequence[Played]) -> list[StoryStep]:
    """The steps of any run of a machine, in order."""
    return [_story_step(machine, number, played) for number, played in enumerate(steps, 1)]


def attempted(replay: Replay, index: int) -> StoryStep | None:
    """What an agent of the fault is about to do, if it has not done it."""
    fault = replay.fault
    agent = fault.agents[index] if index < len(fault.agents) else -1
    operation = fault.operations[index] if index < len(fault.operations) else None
    if not isinstance(operation, ir.Operation) or not 0 <= agent < len(replay.machine.agents):
        return None
    return _of_agent(replay.machine, len(replay.steps) + 1, agent, operation, replay.last)


def flight_of(state: State, agent: int, ordinal: int) -> Flight:
    """The operation in flight that an engine's step is about."""
    flights = list(state.free_flights)
    for _, queue in state.queues:
        for group in (*queue.closed, queue.open):
            flights += group
    return next(item for item in flights if (item.agent, item.ordinal) == (agent, ordinal))


def _story_step(machine: Interpreter, number: int, played: Played) -> StoryStep:
    step = played.step
    if step.actor is Actor.AGENT:
        operation = machine.control.operation_of(played.before, step.agent)
        assert operation is not None, "a replayed step of an agent at its end"
        return _of_agent(machine, number, step.agent, operation, played.before)
    flight = flight_of(played.before, step.agent, step.ordinal)
    done = step.actor is Actor.FINISH
    return StoryStep(
        number,
        step.agent,
        step.actor,
        machine.operations[flight.site],
        {},
        tuple(CellAccess(*access[:4]) for access in flight.accesses if done or not access[1]),
        tuple(key for key, _ in flight.completes) if done else (),
    )


def _of_agent(
    machine: Interpreter, number: int, agent: int, operation: ir.Operation, state: State
) -> StoryStep:
    environment = machine.control.environment(machine.agents[agent], state.positions[agent].values)
    arrives: list[Key] = []
    waits: list[Key] = []
    if isinstance(operation, ARRIVING):
        arrives.append(key_of(operation.barrier, environment))
    if isinstance(operation, WAITING):
        waits.append(key_of(operation.barrier, environment))
    if isinstance(operation, ir.ExpectTransaction | ir.Init | ir.Invalidate):
        arrives.append(key_of(operation.barrier, environment))
    found = tuple(_accesses(machine.program, operation, environment))
    return StoryStep(
        number, agent, Actor.AGENT, operation, environment, found, tuple(arrives), tuple(waits)
    )


def _accesses(
    program: ir.SyncProgram, operation: ir.Operation, environment: Mapping[str, int]
) -> list[CellAccess]:
    if not isinstance(operation, ir.Access | ir.Asynchronous):
        return []
    buffers = {buffer.name: buffer for buffer in program.buffers}
    found: list[CellAccess] = []
    for effect in operation.effects:
        try:
            stage = evaluate(effect.stage, environment)
            part = None if effect.part is None else evaluate(effect.part, environment)
            tile = ANY_TILE if effect.tile is None else evaluate(effect.tile, environment)
        except (ExpressionError, KeyError, ZeroDivisionError):
            continue
        cells = cells_of(buffers[effect.buffer], stage, part)
        found += [CellAccess(cell, effect.write, tile, effect.proxy) for cell in cells]
    return found


def relevant(replay: Replay, story: list[StoryStep]) -> frozenset[int]:
    """The numbers of the steps that the fault follows from.

    Backwards from the fault: what touches the same memory or the barriers that blocked agents wait
    at; of a step that is kept, the waits that its agent had passed; of a wait, who arrived. The
    last step is always kept.
    """
    fault = replay.fault
    wanted: set[object] = set()
    agents = {agent for agent in fault.agents if agent >= 0}
    for index in range(len(fault.operations)):
        step = attempted(replay, index)
        wanted |= step.touched if step is not None else set()
    kept: set[int] = set()
    for step in reversed(story):
        last = step.number == len(story)
        waits = step.agent in agents and step.actor is Actor.AGENT and bool(step.waits)
        if last or waits or step.touched & wanted or _orders(step, agents):
            kept.add(step.number)
            wanted |= set(step.waits)
            if step.touched & wanted:
                wanted |= set(step.arrives)
            if step.arrives or step.accesses:
                agents.add(step.agent)
    return frozenset(kept)


def _orders(step: StoryStep, agents: set[int]) -> bool:
    """Whether the step orders an agent's own accesses: fences, commits and drains."""
    kinds = (ir.Fence, ir.Commit, ir.QueueWait, ir.PoolTake, ir.PoolGive)
    return step.agent in agents and isinstance(step.operation, kinds)
