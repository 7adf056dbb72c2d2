"""Agents run alone: what each executes, and the numbers that its expressions take there.

Control flow is local to an agent, so what it executes follows from the sizes alone, whoever keeps
it waiting. A rule that judges a number of the text judges, where an expression stands in its place,
the numbers that it takes in such runs: of every agent, for a few values of each open size, as far
as `STEPS_MAX` operations go, small sizes first, the last one beyond the period of the indices and
the numbers that the text names.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator

from titan.sync.control import Agent, ControlFlow, LocalLoopError
from titan.sync.expression import Constant, Expression, evaluate
from titan.sync.named_numbers import named_numbers, period_of
from titan.sync.program import (
    Arrive,
    Asynchronous,
    BarrierArrive,
    BarrierSync,
    ExpectTransaction,
    Init,
    Operation,
    PoolGive,
    PoolTake,
    QueueArrive,
    QueueWait,
    Role,
    SyncProgram,
    walk,
)
from titan.sync.state import Environment

ABOVE_MINIMUM = (0, 1, 2, 3, 5, 8)  # of every open size
ROUNDS_MAX = 2_000  # of a run that is to go through what the text names
FREE_MANY = 4  # open sizes; of more, two values each
STEPS_MAX = 20_000  # of all agents and sizes together
STEPS_OF_ONE = 2_000  # of one agent for one choice of sizes

Numbers = dict[tuple[int, Expression], frozenset[int]]


def executed(
    control: ControlFlow, agent: Agent, steps_max: int
) -> Iterator[tuple[Operation, Environment]]:
    """What the agent executes, with the values of its variables, as if nothing held it up."""
    try:
        position = control.start(agent)
        for _ in range(steps_max):
            operation = control.operation_at(position)
            if operation is None:
                return
            yield operation, control.environment(agent, position.values)
            position = control.after(agent, position)
    except (LocalLoopError, ZeroDivisionError):
        return


def rounds_of(program: SyncProgram) -> int:
    """So many that the index arithmetic has repeated and the numbers of the text are passed."""
    named = [number for number in named_numbers(program) if number < ROUNDS_MAX]
    return min(2 * period_of(program) + max(named, default=0) + 2, ROUNDS_MAX)


def numbers_in_runs(program: SyncProgram) -> Numbers:
    """By the `id` of an operation and an expression of it: the numbers that it takes."""
    asked = [role for role in program.roles if any(map(_open, walk(role.body)))]
    found: defaultdict[tuple[int, Expression], set[int]] = defaultdict(set)
    left = STEPS_MAX
    for sizes in _sizes(program) if asked else ():
        control = ControlFlow(program, sizes)
        for agent in control.agents:
            if agent.role not in asked:
                continue
            for operation, environment in executed(control, agent, min(left, STEPS_OF_ONE)):
                left -= 1
                for expression in _open(operation):
                    found[id(operation), expression].add(evaluate(expression, environment))
        if left <= 0:
            break
    return {key: frozenset(values) for key, values in found.items()}


def unlike_members(
    program: SyncProgram, role: Role, together: int, asked: Callable[[Operation], bool]
) -> Operation | None:
    """An operation that some agents of a role execute and others of their group do not, or in
    another order; `together`: agents of a group. As far as runs alone show."""
    operations = [item for item in walk(role.body) if asked(item)]
    for sizes in _sizes(program) if operations and role.agents > 1 else ():
        control = ControlFlow(program, sizes)
        agents = [agent for agent in control.agents if agent.role is role]
        for first in range(0, len(agents), together):
            ways = [_way(control, agent, asked) for agent in agents[first : first + together]]
            for (mine, whole), (other, other_whole) in itertools.pairwise(ways):
                for one, another in itertools.zip_longest(mine, other):
                    if (one is None and not whole) or (another is None and not other_whole):
                        break
                    if one is not another:
                        return one or another
    return None


def _way(
    control: ControlFlow, agent: Agent, asked: Callable[[Operation], bool]
) -> tuple[list[Operation], bool]:
    """Which of the operations asked for the agent executes, one after the other; whether all."""
    steps, found = 0, []
    for operation, _ in executed(control, agent, STEPS_OF_ONE):
        steps += 1
        if asked(operation):
            found.append(operation)
    return found, steps < STEPS_OF_ONE


def _sizes(program: SyncProgram) -> list[dict[str, int]]:
    """Values of the open sizes in all combinations, small sums first."""
    free = [item for item in program.parameters if item.value is None]
    above = ABOVE_MINIMUM if len(free) <= FREE_MANY else ABOVE_MINIMUM[:2]
    ranges = [[item.minimum + more for more in above] for item in free]
    names = [item.name for item in free]
    chosen = [dict(zip(names, values, strict=True)) for values in itertools.product(*ranges)]
    rounds = rounds_of(program)
    longest = {item.name: max(item.minimum, rounds) for item in free}
    return [*sorted(chosen, key=lambda sizes: sum(sizes.values())), *([longest] if free else [])]


def _open(operation: Operation) -> tuple[Expression, ...]:
    """The expressions of an operation that instructions have bounds for, and that are no number."""
    found: tuple[Expression, ...] = ()
    match operation:
        case Arrive(count=count, transaction=transaction):
            found = count, transaction
        case Init(count=count) | QueueArrive(count=count):
            found = (count,)
        case ExpectTransaction(bytes=expected):
            found = (expected,)
        case Asynchronous(completes=completes):
            found = tuple(item.bytes for item in completes)
        case BarrierSync(threads=threads) | BarrierArrive(threads=threads):
            found = (threads,)
        case QueueWait(pending=pending):
            found = (pending,)
        case PoolTake(amount=amount) | PoolGive(amount=amount):
            found = (amount,)
    return tuple(item for item in found if not isinstance(item, Constant))
