"""Every execution of every statement, as affine families instead of lists.

A family is a statement, the loop variables around it (renamed apart), the conditions under which it
is executed and its place in the agent's order: constants for the places in bodies and loop
variables in between, compared lexicographically. Counters that grow by a constant in every
iteration become affine in the loop variables; anything else is Unsupported, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any

from titan.foundation.errors import TitanError
from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.language.protocol import model
from titan.language.protocol.unroll import walk
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    binary,
    linear_form,
    names_of,
    substitute,
)


class UnsupportedProtocol(TitanError):
    """The protocol says something that families cannot; the span is that of the statement."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(frozen=True, slots=True)
class AgentClass:
    """Agents that execute the same lists: a whole role, or one member where it says `self`."""

    role: model.ProtocolRole
    member: int
    multiplicity: int

    @property
    def name(self) -> str:
        """The role's name; with the member's number where the class represents one agent only."""
        return self.role.name if self.multiplicity > 1 else f"{self.role.name}[{self.member}]"


@dataclass(frozen=True, slots=True)
class LoopVariable:
    """A renamed loop variable with its range; `site` names the loop that it belongs to."""

    name: str
    start: Expression
    stop: Expression
    site: int


@dataclass(frozen=True, slots=True)
class StatementFamily:
    """One statement of one class of agents. `position` alternates places and variables."""

    agent: AgentClass
    statement: model.Statement
    loops: tuple[LoopVariable, ...]
    conditions: tuple[Expression, ...]
    position: tuple[Expression, ...]
    environment: tuple[tuple[str, Expression], ...]

    def expression(self, expression: Expression) -> Expression:
        """An expression of the statement over the renamed variables and the sizes."""
        known = dict(self.environment)
        for name in names_of(expression):
            if name not in known:
                raise UnsupportedProtocol(f"{name} has no affine value here", self.statement.span)
        return substitute(expression, known)

    @property
    def domain(self) -> tuple[Expression, ...]:
        """All that holds whenever the statement is executed."""
        ranges: list[Expression] = []
        for loop in self.loops:
            ranges.append(Binary(">=", Name(loop.name), loop.start))
            ranges.append(Binary("<", Name(loop.name), loop.stop))
        return (*ranges, *self.conditions)

    def renamed(self, suffix: str) -> StatementFamily:
        """The same family with other variables, to refer to two executions at once."""
        values: dict[str, Expression | int] = {
            loop.name: Name(loop.name + suffix) for loop in self.loops
        }

        def over(expression: Expression) -> Expression:
            return substitute(expression, values)

        loops = tuple(
            LoopVariable(loop.name + suffix, over(loop.start), over(loop.stop), loop.site)
            for loop in self.loops
        )
        return StatementFamily(
            self.agent,
            self.statement,
            loops,
            tuple(over(item) for item in self.conditions),
            tuple(over(item) for item in self.position),
            tuple((name, over(value)) for name, value in self.environment),
        )


def agent_classes(role: model.ProtocolRole) -> tuple[AgentClass, ...]:
    """One class where no expression of the role mentions the agent's constant."""
    if role.agents == 1 or role.agent_constant not in set(_all_names(role.body)):
        return (AgentClass(role, 0, role.agents),)
    return tuple(AgentClass(role, member, 1) for member in range(role.agents))


def _all_names(item: Any) -> Iterator[str]:
    if isinstance(item, Constant | Name | Binary | Not):
        yield from names_of(item)
    elif isinstance(item, tuple):
        for part in item:
            yield from _all_names(part)
    elif is_dataclass(item) and not isinstance(item, type):
        for field in fields(item):
            if field.name != "span":
                yield from _all_names(getattr(item, field.name))


def families_of(protocol: model.Protocol, poison: dict[str, Any]) -> tuple[StatementFamily, ...]:
    """All families of a protocol. `poison` gives each ring's condition (see `index_condition`).

    Raises UnsupportedProtocol.
    """
    for parameter in protocol.parameters:
        if parameter.per is not None and parameter.value is None:
            raise UnsupportedProtocol(
                f"{parameter.name} has a separate value for each {parameter.per}"
            )
    result: list[StatementFamily] = []
    for role in protocol.roles:
        for agent in agent_classes(role):
            result.extend(_Walk(protocol, agent, poison).families())
    return tuple(result)


class _Walk:
    def __init__(self, protocol: model.Protocol, agent: AgentClass, poison: dict[str, Any]) -> None:
        self.protocol = protocol
        self.agent = agent
        self.poison = poison
        self.found: list[StatementFamily] = []
        self.fresh = count()
        self.sites: dict[int, int] = {}

    def families(self) -> list[StatementFamily]:
        role = self.agent.role
        environment: dict[str, Expression] = {
            parameter.name: Name(parameter.name)
            if parameter.value is None
            else Constant(parameter.value)
            for parameter in self.protocol.parameters
        }
        environment[role.agent_constant] = Constant(self.agent.member)
        environment.update({name: Constant(value) for name, value in role.variables})
        for item in walk(role.body):
            if isinstance(item, model.Count):
                environment.setdefault(item.variable, Constant(0))
        self._body(role.body, environment, (), (), ())
        return self.found

    def _body(
        self,
        body: model.Body,
        environment: dict[str, Expression],
        loops: tuple[LoopVariable, ...],
        conditions: tuple[Expression, ...],
        prefix: tuple[Expression, ...],
    ) -> None:
        for place, statement in enumerate(body):
            position = (*prefix, Constant(place))
            match statement:
                case model.For():
                    self._for(statement, environment, loops, conditions, position)
                case model.When(condition=condition, then=then, otherwise=otherwise):
                    held = self._over(condition, environment, statement.span)
                    self._arms(held, then, otherwise, environment, loops, conditions, position)
                case model.WhenPoisoned(ring=ring, index=index, then=then, otherwise=otherwise):
                    self._keep(statement, environment, loops, conditions, position)
                    over = self._over(index, environment, statement.span)
                    held = self._poisoned(ring, over, statement.span)
                    self._arms(held, then, otherwise, environment, loops, conditions, position)
                case model.Count(variable=variable, value=value):
                    self._count(variable, value, environment)
                case _:
                    self._keep(statement, environment, loops, conditions, position)

    def _keep(
        self,
        statement: model.Statement,
        environment: dict[str, Expression],
        loops: tuple[LoopVariable, ...],
        conditions: tuple[Expression, ...],
        position: tuple[Expression, ...],
    ) -> None:
        kept = tuple(environment.items())
        self.found.append(StatementFamily(self.agent, statement, loops, conditions, position, kept))

    def _over(
        self, expression: Expression, environment: dict[str, Expression], span: Span | None
    ) -> Expression:
        for name in sorted(names_of(expression)):
            if name not in environment:
                raise UnsupportedProtocol(f"{name} has no affine value here", span)
        return substitute(expression, environment)

    def _poisoned(self, ring: str, index: Expression, span: Span | None) -> Expression:
        condition = self.poison.get(ring)
        if condition is None:
            return Constant(0)
        if not condition.exact:
            raise UnsupportedProtocol(
                f"whether a tile of {ring} is poisoned does not follow from its index", span
            )
        result: Expression = condition.at(index)
        return result

    def _arms(
        self,
        held: Expression,
        then: model.Body,
        otherwise: model.Body,
        environment: dict[str, Expression],
        loops: tuple[LoopVariable, ...],
        conditions: tuple[Expression, ...],
        position: tuple[Expression, ...],
    ) -> None:
        arms = ((then, held, 0), (otherwise, Not(held), 1))
        for body, condition, place in arms:
            inside = (*position, Constant(place))
            self._body(body, dict(environment), loops, (*conditions, condition), inside)
        for arm in (then, otherwise):
            for item in walk(arm):
                if isinstance(item, model.Count | model.For):
                    # What the arm leaves in its variables depends on the condition.
                    environment.pop(item.variable, None)

    def _count(self, variable: str, value: Expression, environment: dict[str, Expression]) -> None:
        if names_of(value) <= environment.keys():
            environment[variable] = substitute(value, environment)
        else:
            environment.pop(variable, None)

    def _for(
        self,
        loop: model.For,
        environment: dict[str, Expression],
        loops: tuple[LoopVariable, ...],
        conditions: tuple[Expression, ...],
        position: tuple[Expression, ...],
    ) -> None:
        start = self._over(loop.start, environment, loop.span)
        stop = self._over(loop.stop, environment, loop.span)
        if loop.variable in names_of(loop.stop) or _assigns(loop.body, loop.variable):
            raise UnsupportedProtocol(
                f"{loop.variable} does not simply run from start to stop", loop.span
            )
        if any(_assigns(loop.body, name) for name in names_of(loop.stop)):
            raise UnsupportedProtocol(
                f"the stop of {loop.variable} changes in its own loop", loop.span
            )
        site = self.sites.setdefault(id(loop), len(self.sites))
        name = f"{loop.variable}#{self.agent.role.name}.{self.agent.member}.{next(self.fresh)}"
        variable = LoopVariable(name, start, stop, site)
        passed = binary("-", Name(name), start)
        trips = Binary("max", binary("-", stop, start), Constant(0))
        inside, after = dict(environment), dict(environment)
        inside[loop.variable] = Name(name)
        after.pop(loop.variable, None)
        for counter in sorted(
            {item.variable for item in walk(loop.body) if isinstance(item, model.Count)}
        ):
            step = increment(loop.body, counter, environment)
            before = environment.get(counter)
            if step is None or before is None:
                inside.pop(counter, None)
                after.pop(counter, None)
                continue
            inside[counter] = binary("+", before, binary("*", Constant(step), passed))
            after[counter] = binary("+", before, binary("*", Constant(step), trips))
        for inner in walk(loop.body):
            if isinstance(inner, model.For):
                after.pop(inner.variable, None)
                inside.pop(inner.variable, None)
        self._body(loop.body, inside, (*loops, variable), conditions, (*position, Name(name)))
        environment.clear()
        environment.update(after)


def _assigns(body: model.Body, variable: str) -> bool:
    return any(
        isinstance(item, model.For | model.Count) and item.variable == variable
        for item in walk(body)
    )


def increment(body: model.Body, counter: str, environment: dict[str, Expression]) -> int | None:
    """By how much one pass through a body raises a counter; None where that differs."""
    total = 0
    for statement in body:
        match statement:
            case model.Count(variable=variable, value=value) if variable == counter:
                form = linear_form(value)
                if form is None or form[0] != {counter: 1}:
                    return None
                total += form[1]
            case model.For(start=start, stop=stop, body=inner):
                each = increment(inner, counter, environment)
                if each is None:
                    return None
                if each == 0:
                    continue
                first = _constant(start, environment)
                last = _constant(stop, environment)
                if first is None or last is None:
                    return None
                total += each * max(last - first, 0)
            case model.When() | model.WhenPoisoned():
                arms = (*statement.then, *statement.otherwise)
                if _assigns(arms, counter):
                    return None
    return total


def _constant(expression: Expression, environment: dict[str, Expression]) -> int | None:
    if not names_of(expression) <= environment.keys():
        return None
    value = substitute(expression, environment)
    return value.value if isinstance(value, Constant) else None
