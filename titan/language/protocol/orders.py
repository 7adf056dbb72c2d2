"""Executions of families: which one touches a given index, which are the last before a given one.

An execution is a family with values for its loop variables. `matching` solves an affine index for
the variables, so that "some execution touches index i" needs no quantifier. `nearest` lists a few
executions before another one: the same pass of the common loops, the passes before it, the last
passes of other loops. Lists are never complete, so they may only be used where finding fewer
executions makes an alarm more likely.
"""

from __future__ import annotations

from dataclasses import field

from titan.foundation.records import dataclass
from titan.language.protocol.families import LoopVariable, StatementFamily, UnsupportedProtocol
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    binary,
    linear_form,
    substitute,
)

Values = dict[str, Expression]


@dataclass(frozen=True, slots=True)
class FamilyExecution:
    """One execution of a family; without values, any."""

    family: StatementFamily
    values: Values = field(default_factory=dict)

    def over(self, expression: Expression) -> Expression:
        """An expression over the family's variables, for this execution."""
        return substitute(expression, self.values)

    def value(self, expression: Expression) -> Expression:
        """An expression of the statement itself, for this execution."""
        return self.over(self.family.expression(expression))

    @property
    def conditions(self) -> list[Expression]:
        """The family's domain over the values of this execution."""
        return [self.over(item) for item in self.family.domain]

    @property
    def position(self) -> list[Expression]:
        """The place in program order over this execution's values, outermost first."""
        return [self.over(item) for item in self.family.position]


def earlier(first: FamilyExecution, second: FamilyExecution) -> Expression:
    """Whether one execution comes before another of the same agent."""
    return _lexicographic(first.position, second.position)


def _lexicographic(first: list[Expression], second: list[Expression]) -> Expression:
    if not first or not second:
        return Constant(0)
    rest = _lexicographic(first[1:], second[1:])
    less = _compare("<", first[0], second[0])
    if less == Constant(1):
        return less
    same = _compare("==", first[0], second[0])
    if same == Constant(0) or rest == Constant(0):
        return less
    tied = rest if same == Constant(1) else Binary("and", same, rest)
    return tied if less == Constant(0) else Binary("or", less, tied)


def _compare(operator: str, left: Expression, right: Expression) -> Expression:
    if left == right:
        return Constant(int(operator == "=="))
    return binary(operator, left, right)


def order_cases(first: FamilyExecution, second: FamilyExecution) -> list[list[Expression]]:
    """`earlier` as alternatives, each a conjunction of comparisons."""
    cases: list[list[Expression]] = []
    ties: list[Expression] = []
    for left, right in zip(first.position, second.position, strict=False):
        less = _compare("<", left, right)
        if less != Constant(0):
            cases.append([*ties, less])
        same = _compare("==", left, right)
        if same == Constant(0):
            break
        if same != Constant(1):
            ties.append(same)
    return cases


def matching(family: StatementFamily, index: Expression, wanted: Expression) -> FamilyExecution:
    """The only execution that can touch index `wanted`; its conditions say whether it does.

    `index` is the family's own. Raises UnsupportedProtocol where several executions may touch one
    index.
    """
    mine = family.expression(index)
    form = linear_form(mine)
    if form is None:
        raise UnsupportedProtocol("an index that is not affine", family.statement.span)
    names = {loop.name for loop in family.loops}
    used = [loop for loop in family.loops if loop.name in form[0]]
    free = [loop for loop in family.loops if loop.name not in form[0] and not _once(loop)]
    if free:
        raise UnsupportedProtocol(
            "a statement that touches the same index in several passes of a loop",
            family.statement.span,
        )
    values: Values = {loop.name: loop.start for loop in family.loops if loop.name not in form[0]}
    rest: Expression = Constant(form[1])
    for name, factor in form[0].items():
        if name not in names:
            rest = binary("+", rest, binary("*", Constant(factor), Name(name)))
    remaining = binary("-", wanted, rest)
    if len(used) == 1:
        factor = form[0][used[0].name]
        if factor < 0:
            remaining = binary("-", Constant(0), remaining)
        values[used[0].name] = binary("//", remaining, Constant(abs(factor)))
    elif len(used) == 2:
        values.update(_two(used, form[0], remaining, family))
    elif used:
        raise UnsupportedProtocol("an index of more than two loop variables", family.statement.span)
    return _resolved(family, values)


def _resolved(family: StatementFamily, values: Values) -> FamilyExecution:
    """Values may refer to outer variables of the same family; put them in, from the outside."""
    done: Values = {}
    for loop in family.loops:
        done[loop.name] = substitute(values[loop.name], done)
    return FamilyExecution(family, done)


def _once(loop: LoopVariable) -> bool:
    return binary("-", loop.stop, loop.start) == Constant(1)


def _two(
    used: list[LoopVariable],
    factors: dict[str, int],
    remaining: Expression,
    family: StatementFamily,
) -> Values:
    """Two variables as the digits of the index: the small one stays below the step of the other."""
    small, large = sorted(used, key=lambda loop: factors[loop.name])
    low, high = factors[small.name], factors[large.name]
    if not (isinstance(small.start, Constant) and isinstance(small.stop, Constant)) or low < 1:
        raise UnsupportedProtocol("an index of two loop variables, none with fixed bounds",
                          family.statement.span)  # fmt: skip
    if low * (small.stop.value - small.start.value - 1) >= high:
        raise UnsupportedProtocol("an index that several iterations share", family.statement.span)
    offset = binary("-", remaining, Constant(low * small.start.value))
    digit = binary("//", binary("%", offset, Constant(high)), Constant(low))
    return {
        large.name: binary("//", offset, Constant(high)),
        small.name: binary("+", digit, small.start),
    }


def touches(execution: FamilyExecution, index: Expression, wanted: Expression) -> list[Expression]:
    """The conditions under which a `matching` execution exists and touches `wanted`."""
    return [*execution.conditions, Binary("==", execution.value(index), wanted)]


def nearest(
    family: StatementFamily, reference: FamilyExecution | None, passes: int
) -> list[FamilyExecution]:
    """Executions before `reference` (None: before the end), the newest of each kind first.

    `passes` is how many passes back to look. The caller adds the conditions of each.
    """
    shared = _shared(family, reference)
    found: list[FamilyExecution] = []
    if reference is None or not shared:
        # Each execution once: callers count them.
        found += [_last(family, {}, back) for back in range(passes if family.loops else 1)]
        return found
    outer = reference.family.loops[: len(shared)]
    same = {
        mine.name: reference.over(Name(theirs.name))
        for mine, theirs in zip(shared, outer, strict=True)
    }
    unshared = len(family.loops) > len(shared)
    found += [_last(family, same, back) for back in range(passes if unshared else 1)]
    for level in range(len(shared) - 1, -1, -1):
        for back in range(1, passes + 1):
            values = {loop.name: same[loop.name] for loop in shared[:level]}
            values[shared[level].name] = binary("-", same[shared[level].name], Constant(back))
            deeper = len(family.loops) > level + 1
            found += [_last(family, values, inner) for inner in range(passes if deeper else 1)]
    return found


def nearest_after(family: StatementFamily, reference: FamilyExecution) -> list[FamilyExecution]:
    """Executions that may follow `reference`: the same pass of the common loops, others' first."""
    shared = _shared(family, reference)
    outer = reference.family.loops[: len(shared)]
    values = {
        mine.name: reference.over(Name(theirs.name))
        for mine, theirs in zip(shared, outer, strict=True)
    }
    for loop in family.loops[len(shared) :]:
        values[loop.name] = substitute(loop.start, values)
    return [FamilyExecution(family, values)]


def _shared(family: StatementFamily, reference: FamilyExecution | None) -> tuple[LoopVariable, ...]:
    if reference is None:
        return ()
    count = 0
    for mine, theirs in zip(family.loops, reference.family.loops, strict=False):
        if mine.site != theirs.site:
            break
        count += 1
    return family.loops[:count]


def _last(family: StatementFamily, fixed: Values, back: int) -> FamilyExecution:
    """All loops that are not fixed at their last pass, the innermost `back` passes earlier."""
    values = dict(fixed)
    for loop in family.loops:
        if loop.name not in values:
            last = binary("-", substitute(loop.stop, values), Constant(1))
            inner = loop is family.loops[-1]
            values[loop.name] = binary("-", last, Constant(back)) if inner and back else last
    return FamilyExecution(family, values)
