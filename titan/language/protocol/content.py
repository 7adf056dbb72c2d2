"""Which tile a stage holds if producers may leave it unfilled: conditions seen from the reader.

A producer decides by an expression of its own loop variable whether tile i is whole, empty (0
bytes) or poisoned. The ghost content that a reader means has to be decided from i alone, so the
producer's expression is rewritten over the index. Where that is not possible the caller must say
less (a read that may see anything) or refuse.
"""

from __future__ import annotations

from titan.foundation.records import dataclass
from titan.language.protocol import model
from titan.language.protocol.unroll import walk
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    binary,
    linear_form,
    names_of,
    substitute,
)

INDEX = "$index"  # represents the ring index in a rewritten expression


@dataclass(frozen=True, slots=True)
class Condition:
    """A producer's expression over INDEX; `exact` False: it cannot be seen from the index."""

    expression: Expression
    exact: bool = True

    def at(self, index: Expression) -> Expression:
        """The condition for the stage with this index in place of INDEX."""
        return substitute(self.expression, {INDEX: index})


def poison_condition(protocol: model.Protocol, ring: str) -> Condition | None:
    """When a tile of the ring is poisoned; None: never."""
    return _condition(protocol, ring, "poison")


def bytes_condition(protocol: model.Protocol, ring: str) -> Condition | None:
    """How many bytes a tile of the ring gets, where some `Produce` says so; None: always all."""
    return _condition(protocol, ring, "bytes")


def _condition(protocol: model.Protocol, ring: str, field: str) -> Condition | None:
    made = [
        statement
        for role in protocol.roles
        for statement in walk(role.body)
        if isinstance(statement, model.Produce) and statement.ring == ring
    ]
    given = [statement for statement in made if getattr(statement, field) is not None]
    if not given:
        return None
    unknown = Condition(Constant(0), exact=False)
    if len(made) != 1:
        return unknown
    expression: Expression = getattr(given[0], field)
    parameters = {parameter.name for parameter in protocol.parameters if parameter.per is None}
    free = names_of(expression) - parameters
    if not free:
        return Condition(expression)
    inverse = _inverse(given[0].index, parameters)
    if inverse is None or free != {inverse[0]}:
        return unknown
    return Condition(substitute(expression, {inverse[0]: inverse[1]}))


def _inverse(index: Expression, parameters: set[str]) -> tuple[str, Expression] | None:
    """The one variable of an affine index with coefficient 1 or -1, solved for INDEX."""
    form = linear_form(index)
    if form is None:
        return None
    variables = [name for name in form[0] if name not in parameters]
    if len(variables) != 1 or abs(form[0][variables[0]]) != 1:
        return None
    sign = form[0][variables[0]]
    rest: Expression = Constant(form[1])
    for name, coefficient in form[0].items():
        if name in parameters:
            rest = binary("+", rest, binary("*", Constant(coefficient), Name(name)))
    # index = sign * v + rest, hence v = sign * (index - rest)
    left: Expression = Name(INDEX)
    solved = binary("-", left, rest) if sign == 1 else binary("-", rest, left)
    return variables[0], solved


def positive(expression: Expression) -> Expression:
    """`expression > 0`."""
    return (
        Binary(">", expression, Constant(0))
        if not isinstance(expression, Constant)
        else Constant(int(expression.value > 0))
    )
