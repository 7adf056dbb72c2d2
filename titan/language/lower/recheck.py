"""Whether a sync program makes the accesses of its protocol: both are run, agent by agent.

Shares no code with lowering. For each agent and each buffer of a ring, the protocol says in order
which stage is written or read and which index it represents. The sync program must make the same
accesses in the same order, each with that index as the tile it writes or means to see: then "no
stale read, no overwrite" of the sync program refers to the tiles of the protocol. Waits take no
part, since control flow does not depend on them; whether they suffice is what the engines decide.
Accesses that follow each other with nothing in between count once (a stage filled in parts).

Assumptions: sizes are small ones, not all; protocols with poison, and lowerings that change the
agents, are not compared (`NotCompared`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from titan.foundation.errors import Refusal
from titan.language.protocol import model
from titan.language.protocol.participants import probe_sizes
from titan.language.protocol.unroll import ProtocolEvent, Sizes, unroll, walk
from titan.sync.control import Agent, ControlFlow
from titan.sync.expression import Expression, evaluate
from titan.sync.parts import effects_of
from titan.sync.program import Effect, SyncProgram

OPERATIONS_MAX = 20_000
Access = tuple[bool, int, int | None]  # whether written, stage, tile
Accesses = dict[tuple[int, str], list[Access]]  # by agent and buffer


class NotCompared(Refusal):
    """The protocol or its lowering has what this comparison does not know."""


def differences(protocol: model.Protocol, program: SyncProgram) -> list[str]:
    """What the two do not agree on, one line each. Raises NotCompared."""
    _refuse_unknown(protocol, program)
    found = []
    for sizes in probe_sizes(protocol):
        meant, made = of_protocol(protocol, sizes), of_program(protocol, program, sizes)
        for agent, buffer in sorted(meant.keys() | made.keys()):
            first, second = meant[(agent, buffer)], made[(agent, buffer)]
            if first != second:
                pairs = enumerate(zip(first, second, strict=False))
                short = min(len(first), len(second))
                place = next((number for number, (a, b) in pairs if a != b), short)
                words = [_worded(side[place : place + 1]) for side in (first, second)]
                found.append(
                    f"agent {agent}, access {place} of {buffer}: {words[1]} where the protocol has "
                    f"{words[0]} ({', '.join(f'{n} = {v}' for n, v in sizes.items())})"
                )
    return found


def _worded(access: list[Access]) -> str:
    if not access:
        return "nothing"
    write, stage, tile = access[0]
    return f"{'a write' if write else 'a read'} of stage {stage} as tile {tile}"


def _refuse_unknown(protocol: model.Protocol, program: SyncProgram) -> None:
    statements = [item for role in protocol.roles for item in walk(role.body)]
    if any(
        isinstance(item, model.WhenPoisoned)
        or (isinstance(item, model.Produce) and item.poison is not None)
        for item in statements
    ):
        raise NotCompared("a protocol with poison")
    agents = [(role.name, role.agents) for role in protocol.roles]
    if agents != [(role.name, role.agents) for role in program.roles]:
        raise NotCompared("the sync program has other agents")


def of_protocol(protocol: model.Protocol, sizes: Sizes) -> Accesses:
    """What the agents access by the protocol."""
    rings = {ring.name: ring for ring in protocol.rings}
    ring_buffers = {name for ring in protocol.rings for name in ring.buffers}
    found: Accesses = defaultdict(list)
    for trace in unroll(protocol, sizes):
        for event in trace.events:
            if isinstance(event.statement, model.Primitive):
                for effect in effects_of(event.statement.operation):
                    if effect.buffer in ring_buffers:
                        access = _evaluated(effect, event.environment)
                        _note(found[(trace.agent, effect.buffer)], access)
            for ring, index, buffers, write in _slots(event):
                number = event.value(index)
                for buffer in buffers or rings[ring].buffers:
                    access = (write, number % rings[ring].depth, number)
                    _note(found[(trace.agent, buffer)], access)
    return found


def _slots(event: ProtocolEvent) -> Iterator[tuple[str, Expression, tuple[str, ...], bool]]:
    """Ring, index and buffers of each slot that a statement accesses, and whether it writes it."""
    match event.statement:
        case model.Produce(ring=ring, index=index, buffers=buffers, bytes=size):
            if size is None or event.value(size):
                yield ring, index, buffers, True
        case model.ReadStage(ring=ring, index=index, buffers=buffers):
            yield ring, index, buffers, False
        case model.Issue(operands=operands, produces=produces, accumulates=accumulates):
            for operand in operands:
                yield operand.ring, operand.index, operand.buffers, False
            for operand in (*produces, *accumulates):
                yield operand.ring, operand.index, operand.buffers, True


def of_program(protocol: model.Protocol, program: SyncProgram, sizes: Sizes) -> Accesses:
    """What the agents access by the sync program, waits taken to pass."""
    buffers = {name for ring in protocol.rings for name in ring.buffers}
    control = ControlFlow(program, sizes)
    found: Accesses = defaultdict(list)
    for agent in control.agents:
        for effect, environment in _effects(control, agent):
            if effect.buffer in buffers:
                _note(found[(agent.number, effect.buffer)], _evaluated(effect, environment))
    return found


def _evaluated(effect: Effect, environment: Mapping[str, int]) -> Access:
    tile = None if effect.tile is None else evaluate(effect.tile, environment)
    return effect.write, evaluate(effect.stage, environment), tile


def _effects(control: ControlFlow, agent: Agent) -> Iterator[tuple[Effect, Mapping[str, int]]]:
    position = control.start(agent)
    for _ in range(OPERATIONS_MAX):
        operation = control.operation_at(position)
        if operation is None:
            return
        environment = control.environment(agent, position.values)
        for effect in effects_of(operation):
            yield effect, environment
        position = control.after(agent, position)
    raise NotCompared(f"{agent.name} executes more than {OPERATIONS_MAX:,} operations")


def _note(accesses: list[Access], access: Access) -> None:
    if accesses[-1:] != [access]:
        accesses.append(access)
