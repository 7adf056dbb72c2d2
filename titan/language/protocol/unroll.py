"""The statements that each agent of a protocol executes, in order, for given sizes.

Control flow depends on sizes, loop variables and counters only, and on poison, which the producers'
own statements decide; so a role unrolls without any waiting. Decides nothing: the simulator of
tokens runs these lists, and lowering counts participants in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from titan.foundation.errors import Refusal
from titan.foundation.records import dataclass
from titan.language.protocol import model
from titan.sync.expression import Expression, evaluate

Sizes = Mapping[str, int | tuple[int, ...]]
EVENTS_MAX = 20_000


class UnrollError(Refusal):
    """The protocol cannot be unrolled: a name without value, too many steps, circular poison."""


@dataclass(frozen=True, slots=True)
class ProtocolEvent:
    """One statement executed by one agent; `environment` holds all names at that moment."""

    agent: int
    statement: model.Statement
    environment: Mapping[str, int]

    def value(self, expression: Expression) -> int:
        """The expression in the event's environment; names outside of it cannot be evaluated."""
        return evaluate(expression, self.environment)


@dataclass(frozen=True, slots=True)
class AgentTrace:
    """All that one agent does; agents are numbered over all roles in program order."""

    agent: int
    role: model.ProtocolRole
    member: int
    events: tuple[ProtocolEvent, ...]

    @property
    def name(self) -> str:
        """The role's name, with the member's number where the role has several agents."""
        return self.role.name if self.role.agents == 1 else f"{self.role.name}[{self.member}]"


def walk(body: model.Body) -> Iterator[model.Statement]:
    """Every statement of a body, nested ones included, in program order."""
    for statement in body:
        yield statement
        match statement:
            case model.For(body=inner):
                yield from walk(inner)
            case model.When(then=then, otherwise=otherwise):
                yield from walk(then)
                yield from walk(otherwise)
            case model.WhenPoisoned(then=then, otherwise=otherwise):
                yield from walk(then)
                yield from walk(otherwise)


def unroll(protocol: model.Protocol, sizes: Sizes | None = None) -> tuple[AgentTrace, ...]:
    """The traces of all agents. Raises UnrollError."""
    return _Unroller(protocol, sizes or {}).all_traces()


class _Unroller:
    def __init__(self, protocol: model.Protocol, sizes: Sizes) -> None:
        self.protocol = protocol
        self.sizes: dict[str, int | tuple[int, ...]] = {}
        self.per = {parameter.name: parameter.per for parameter in protocol.parameters}
        for parameter in protocol.parameters:
            size = sizes.get(parameter.name, parameter.value)
            if size is None:
                raise UnrollError(f"parameter {parameter.name} has no size")
            self.sizes[parameter.name] = size
        self.done: dict[str, tuple[AgentTrace, ...]] = {}
        self.active: set[str] = set()
        self.poison: dict[str, frozenset[int]] = {}
        self.steps = 0

    def all_traces(self) -> tuple[AgentTrace, ...]:
        return tuple(trace for role in self.protocol.roles for trace in self.traces(role))

    def traces(self, role: model.ProtocolRole) -> tuple[AgentTrace, ...]:
        if role.name in self.done:
            return self.done[role.name]
        if role.name in self.active:
            raise UnrollError(f"whether {role.name} branches on poison depends on itself")
        self.active.add(role.name)
        first = 0
        for other in self.protocol.roles:
            if other is role:
                break
            first += other.agents
        result = tuple(self._trace(role, member, first + member) for member in range(role.agents))
        self.active.discard(role.name)
        self.done[role.name] = result
        return result

    def _trace(self, role: model.ProtocolRole, member: int, agent: int) -> AgentTrace:
        values = {
            statement.variable: 0
            for statement in walk(role.body)
            if isinstance(statement, model.For | model.Count)
        }
        values.update(role.variables)
        events: list[ProtocolEvent] = []
        try:
            self._body(role, member, agent, role.body, values, events)
        except KeyError as error:
            raise UnrollError(f"{role.name} uses {error.args[0]}, which has no value") from None
        except ZeroDivisionError:
            raise UnrollError(f"{role.name} divides by zero") from None
        return AgentTrace(agent, role, member, tuple(events))

    def _environment(
        self, role: model.ProtocolRole, member: int, values: dict[str, int]
    ) -> dict[str, int]:
        environment = dict(values)
        environment[role.agent_constant] = member
        for name, size in self.sizes.items():
            if isinstance(size, int):
                environment[name] = size
            else:
                instance = environment.get(self.per[name] or "", 0)
                environment[name] = size[min(max(instance, 0), len(size) - 1)]
        return environment

    def _body(
        self,
        role: model.ProtocolRole,
        member: int,
        agent: int,
        body: model.Body,
        values: dict[str, int],
        events: list[ProtocolEvent],
    ) -> None:
        for statement in body:
            self.steps += 1
            if self.steps > EVENTS_MAX:
                raise UnrollError(f"more than {EVENTS_MAX} statements are executed")
            environment = self._environment(role, member, values)
            match statement:
                case model.For(variable=variable, start=start, stop=stop, body=inner):
                    values[variable] = evaluate(start, environment)
                    while True:
                        environment = self._environment(role, member, values)
                        if environment[variable] >= evaluate(stop, environment):
                            break
                        self.steps += 1
                        if self.steps > EVENTS_MAX:
                            raise UnrollError(f"more than {EVENTS_MAX} statements are executed")
                        self._body(role, member, agent, inner, values, events)
                        values[variable] += 1
                case model.When(condition=condition, then=then, otherwise=otherwise):
                    arm = then if evaluate(condition, environment) else otherwise
                    self._body(role, member, agent, arm, values, events)
                case model.WhenPoisoned(ring=ring, index=index, then=then, otherwise=otherwise):
                    events.append(ProtocolEvent(agent, statement, environment))
                    poisoned = evaluate(index, environment) in self._poisoned(ring)
                    arm = then if poisoned else otherwise
                    self._body(role, member, agent, arm, values, events)
                case model.Count(variable=variable, value=value):
                    values[variable] = evaluate(value, environment)
                case _:
                    events.append(ProtocolEvent(agent, statement, environment))

    def _poisoned(self, ring: str) -> frozenset[int]:
        """The indices of a ring that its producers poison."""
        if ring not in self.poison:
            found: set[int] = set()
            for role in self.protocol.roles:
                if not any(
                    isinstance(statement, model.Produce)
                    and statement.ring == ring
                    and statement.poison is not None
                    for statement in walk(role.body)
                ):
                    continue
                for trace in self.traces(role):
                    for event in trace.events:
                        made = event.statement
                        if (
                            isinstance(made, model.Produce)
                            and made.ring == ring
                            and made.poison is not None
                            and event.value(made.poison)
                        ):
                            found.add(event.value(made.index))
            self.poison[ring] = frozenset(found)
        return self.poison[ring]
