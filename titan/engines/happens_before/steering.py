"""Runs with a purpose: to the end in a given order, or along a plan to a suspected fault."""

from __future__ import annotations

from collections.abc import Sequence

from titan.engines.happens_before.execution import OrderedRun
from titan.engines.happens_before.faults import FaultError
from titan.engines.happens_before.findings import FlightName, Plan, name_of
from titan.engines.happens_before.tables import IssuedOperation, RunLayout
from titan.sync.fault import Actor, Fault, Step

Shown = tuple[Fault, tuple[Step, ...]]


def run_to_end(
    execution: OrderedRun, order: Sequence[int], eager_engines: bool = False
) -> Fault | None:
    """Run until nothing moves; agents in the given order of preference.

    Engines move only when no agent can, or first of all with `eager_engines`. Returns the fault
    that ended the run, a deadlock included.
    """
    try:
        while True:
            moved = False
            for agent in order:
                if eager_engines:
                    _finish_all(execution)
                while execution.enabled(agent):
                    execution.step_agent(agent)
                    moved = True
                    if eager_engines:
                        _finish_all(execution)
            if moved:
                continue
            ready = execution.engine_steps()
            if not ready:
                return execution.deadlocked()
            execution.step_engine(*ready[0])
    except FaultError as found:
        return found.fault


def _finish_all(execution: OrderedRun) -> None:
    while ready := execution.engine_steps():
        execution.step_engine(*ready[0])


def prefer(execution: OrderedRun, favoured: int | None, stalled: int | None) -> Fault | None:
    """Run to the end; one agent goes whenever it can, another only when nothing else can."""
    agents = [agent.number for agent in execution.agents if agent.number != stalled]
    if favoured is not None:
        agents.sort(key=lambda agent: agent != favoured)
    try:
        while True:
            mover = next((agent for agent in agents if execution.enabled(agent)), None)
            if mover is not None:
                execution.step_agent(mover)
                continue
            ready = execution.engine_steps()
            if ready:
                execution.step_engine(*ready[0])
            elif stalled is not None and execution.enabled(stalled):
                execution.step_agent(stalled)
            else:
                return execution.deadlocked()
    except FaultError as found:
        return found.fault


def follow(layout: RunLayout, plan: Plan) -> Shown | None:
    """Steer a new run along the plan; the fault that it meets, with the steps, or None."""
    execution = OrderedRun(layout)
    try:
        if not _reach(execution, plan):
            return None
        if plan.race is not None:
            fault = execution.race(*plan.race)
            return (fault, tuple(execution.steps)) if fault else None
        _land(execution, plan.land)
        if plan.last is not None and execution.enabled(plan.last):
            execution.step_agent(plan.last)
    except FaultError as found:
        return found.fault, tuple(execution.steps)
    if plan.goes_on:
        fault = prefer(execution, plan.favoured, plan.stalled)
        if fault is not None:
            return fault, tuple(execution.steps)
    return None


def way_to(layout: RunLayout, plan: Plan) -> tuple[Step, ...] | None:
    """The steps of a run that brings every agent to its bound, or None."""
    execution = OrderedRun(layout)
    try:
        reached = _reach(execution, plan)
    except FaultError:
        return None
    return tuple(execution.steps) if reached else None


def _reach(execution: OrderedRun, plan: Plan) -> bool:
    """Bring every agent to its bound, engines only where nothing else helps."""
    bounds, hold = plan.bounds, plan.hold
    agents = range(len(bounds))
    while True:
        moved = False
        for agent in agents:
            while execution.next[agent] < bounds[agent] and execution.enabled(agent):
                execution.step_agent(agent)
                moved = True
        if moved:
            continue
        if all(_reached(execution, agent, bounds[agent]) for agent in agents):
            return True
        ready = _free_steps(execution, hold)
        if not ready:
            return False
        execution.step_engine(*ready[0])


def _reached(execution: OrderedRun, agent: int, bound: int) -> bool:
    done = execution.next[agent]
    return done >= bound or (execution.held_in[agent] is not None and done == bound - 1)


def _free_steps(
    execution: OrderedRun, hold: dict[FlightName, bool]
) -> list[tuple[Actor, IssuedOperation]]:
    """What engines may do without ending what must stay in flight."""
    return [
        (actor, flight)
        for actor, flight in execution.engine_steps()
        if name_of(flight) not in hold or (actor is Actor.READS and not hold[name_of(flight)])
    ]


def _land(execution: OrderedRun, names: list[FlightName]) -> None:
    """Let the named flights end, and before them what their queues order before them."""
    wanted = set(names)
    while wanted:
        flights = {name_of(flight): flight for flight in execution.flights()}
        wanted &= flights.keys()
        lines = {id(flights[name].queue) for name in wanted if flights[name].queue is not None}
        ready = [
            step
            for step in execution.engine_steps()
            if name_of(step[1]) in wanted or id(step[1].queue) in lines
        ]
        if not ready:
            return
        execution.step_engine(*ready[0])


def earliest(layout: RunLayout, shown: Shown) -> Shown:
    """The same run, cut where two agents first stand at accesses that nothing orders."""
    steps = shown[1]
    execution = OrderedRun(layout)
    standing: set[int] = set()
    try:
        for number in range(len(steps) + 1):
            for agent in range(len(layout.agents)):
                if not execution.at_access(agent):
                    standing.discard(agent)
                elif agent not in standing:
                    for other in sorted(standing):
                        race = execution.race(*sorted((agent, other)))
                        if race is not None:
                            return race, steps[:number]
                    standing.add(agent)
            if number == len(steps):
                break
            _take(execution, steps[number])
            standing.discard(steps[number].agent)
    except FaultError as found:
        return found.fault, tuple(execution.steps)
    return shown


def _take(execution: OrderedRun, step: Step) -> None:
    if step.actor is Actor.AGENT:
        execution.step_agent(step.agent)
        return
    name = (step.agent, step.ordinal)
    flight = next(flight for _, flight in execution.engine_steps() if name_of(flight) == name)
    execution.step_engine(step.actor, flight)
