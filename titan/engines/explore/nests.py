"""Forms of nested loops that a search for every number can close.

A persistent kernel works through `work` items of `n` tiles each. Three things about such a nest
keep a search open although nothing depends on them. Each is taken away here by a program whose
agents execute the same operations in the same order, for sizes that belong to each other; so a step
of the one is a step of the other, and a trace of the one, replayed on the other, is one of it.

- `counted`: a tile `w * n + k` multiplies two numbers that grow. Where `for k in 0..n` stands
  directly in `for w in 0..s` and nothing else sets `w` and `k`, a counter that starts at 0 and is
  stepped at the end of the inner body holds w * n + k within it, w * n before it and w * n + n
  behind it: each pass of the outer loop steps it n times. Products `w * n` are replaced by that
  counter, less what the place adds to it; equal values, the same program.
- `without_empty`: sizes n[w] of 0 for items w in which no role does anything. An agent passes such
  an item without an operation and leaves every variable that is read again as it was, but `w`; and
  nothing reads `w`, it only counts the items and chooses the sizes of one. So the run for `work`
  items is the run for those that are not empty, in the same order, and these are all choices of at
  least one tile each. Nothing is left of `work` where all are empty, whatever its minimum is.
- `with_own_sizes`: one number n for all items holds back the search, because a loop over n starts
  again for every item. With a separate number for every item, sizes are decided item by item.
  That is a larger family: n for all w is one choice of n[w]. What is verified for the family is
  verified for n. A fault of the family is one of the kernel only where it shows for one number of
  all items; `trace_of` decides that by replaying it, and the search is made as before where it
  does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from titan.engines.explore.loops import names_in, renamed, seen_outside
from titan.engines.explore.replay import NativeReplayError, replay
from titan.sync import program as ir
from titan.sync.expression import (
    ZERO,
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
from titan.sync.fault import Trace

Item = TypeVar("Item")
Sizes = Mapping[str, int | tuple[int, ...]]
Monomials = dict[tuple[str, ...], int]


def closing_forms(program: ir.SyncProgram, sizes: Sizes) -> list[ir.SyncProgram]:
    """Programs to search in place of this one, one after the other; none where it is as good.

    What one of them verifies is verified; a fault counts with `trace_of` alone.
    """
    exact = without_empty(counted(program, sizes), sizes)
    own = without_empty(with_own_sizes(exact, sizes), sizes)
    forms = [own] if own is not exact else []
    return [*forms, exact] if exact is not program else forms


def trace_of(program: ir.SyncProgram, trace: Trace) -> Trace | None:
    """The trace of a form as one of the program itself, or None where its sizes are no sizes of it.

    Raises NativeReplayError where the program does not take the steps of an exact form.
    """
    given = dict(trace.parameters)
    sizes: dict[str, int | tuple[int, ...]] = {}
    chosen = False
    for parameter in program.parameters:
        size = given[parameter.name]
        if isinstance(size, tuple) and parameter.per is None:
            # Items that the trace does not go through to the end have the least size there.
            chosen |= len(set(size)) > 1
            size = max(size)
        if isinstance(size, int) and size < parameter.minimum:
            return None
        sizes[parameter.name] = size
    try:
        return replay(program, sizes, trace.steps, trace.fault.kind)
    except NativeReplayError:
        if chosen:
            return None
        raise


def _open(program: ir.SyncProgram, sizes: Sizes) -> list[ir.Parameter]:
    return [p for p in program.parameters if p.value is None and p.name not in sizes]


# ------------------------------------------------------------------------------------- counters


def counted(program: ir.SyncProgram, sizes: Sizes) -> ir.SyncProgram:
    """The program with counters in place of products of an outer variable and an inner size."""
    single = {p.name for p in _open(program, sizes) if p.per is None}
    roles = tuple(_with_counters(role, single) for role in program.roles)
    return program if roles == program.roles else replace(program, roles=roles)


def _with_counters(role: ir.Role, single: set[str]) -> ir.Role:
    taken, counters = names_in(role) | single, []
    body = role.body
    for outer in [op for op in ir.walk(role.body) if isinstance(op, ir.Loop)]:
        for place, inner in enumerate(outer.body):
            if not _is_nest(role, outer, inner, single):
                continue
            name = next(n for i in range(len(taken) + 1) if (n := f"count{i}") not in taken)
            changed = _with_counter(outer, place, name)
            if changed is not outer:
                taken.add(name)
                counters.append((name, 0))
                body = _exchanged(body, outer, (ir.Assign(name, ZERO), changed))
                break  # the other loops of this nest see no product any more
    if not counters:
        return role
    return replace(role, body=body, variables=(*role.variables, *counters))


def _is_nest(role: ir.Role, outer: ir.Loop, inner: ir.Operation, single: set[str]) -> bool:
    """Whether each pass of the outer loop runs the inner one over 0..n, once and unhindered."""
    if not isinstance(inner, ir.Loop) or not isinstance(inner.stop, Name):
        return False
    sets = [op.variable for op in ir.walk(outer.body) if isinstance(op, ir.Assign | ir.Loop)]
    return (
        inner.stop.name in single
        and outer.start == inner.start == ZERO
        and outer.variable != inner.variable
        and outer.variable not in sets
        and sets.count(inner.variable) == 1
        and not {outer.variable, inner.variable} & {role.agent_constant, inner.stop.name}
        and inner.stop.name not in sets
    )


def _with_counter(outer: ir.Loop, place: int, name: str) -> ir.Loop:
    inner = outer.body[place]
    assert isinstance(inner, ir.Loop) and isinstance(inner.stop, Name)
    size = inner.stop.name
    product, counter = (outer.variable, size), Name(name)

    def rewritten(block: ir.Block, value: Expression) -> ir.Block:
        return _mapped(block, lambda whole: _without_product(whole, product, value))

    within = rewritten(inner.body, Binary("-", counter, Name(inner.variable)))
    before = rewritten(outer.body[:place], counter)
    behind = rewritten(outer.body[place + 1 :], Binary("-", counter, Name(size)))
    if (before, within, behind) == (outer.body[:place], inner.body, outer.body[place + 1 :]):
        return outer
    step = ir.Assign(name, Binary("+", counter, Constant(1)))
    changed = replace(inner, body=(*within, step))
    return replace(outer, body=(*before, changed, *behind))


def _exchanged(block: ir.Block, old: ir.Operation, new: ir.Block) -> ir.Block:
    found: list[ir.Operation] = []
    for operation in block:
        match operation:
            case _ if operation is old:
                found += new
            case ir.Loop(body=body):
                inner = _exchanged(body, old, new)
                found.append(operation if inner == body else replace(operation, body=inner))
            case ir.Branch(then=then, otherwise=otherwise):
                arms = _exchanged(then, old, new), _exchanged(otherwise, old, new)
                same = arms == (then, otherwise)
                found.append(
                    operation if same else replace(operation, then=arms[0], otherwise=arms[1])
                )
            case _:
                found.append(operation)
    return tuple(found)


def _without_product(whole: Expression, product: tuple[str, str], value: Expression) -> Expression:
    """The expression with the product of two names replaced by a value that is equal to it."""
    if not set(product) <= names_of(whole):
        return whole
    form = _polynomial(whole)
    key = tuple(sorted(product))
    if form is not None and key in form:
        factor = form.pop(key)
        for names, coefficient in (_polynomial(value) or {}).items():
            form[names] = form.get(names, 0) + factor * coefficient
        return _as_expression(form)
    match whole:
        case Binary(operator, left, right):
            sides = (_without_product(side, product, value) for side in (left, right))
            return binary(operator, *sides)
        case Not(operand):
            return Not(_without_product(operand, product, value))
    return whole


def _polynomial(expression: Expression) -> Monomials | None:
    """Coefficients by the sorted names that they multiply, or None."""
    match expression:
        case Constant(value):
            return {(): value}
        case Name(name):
            return {(name,): 1}
        case Binary("+" | "-" | "*" as operator, left, right):
            first, second = _polynomial(left), _polynomial(right)
            if first is None or second is None:
                return None
            total: Monomials = {} if operator == "*" else dict(first)
            if operator == "*":
                for one, factor in first.items():
                    for other, scale in second.items():
                        key = tuple(sorted(one + other))
                        total[key] = total.get(key, 0) + factor * scale
            else:
                for key, scale in second.items():
                    total[key] = total.get(key, 0) + (scale if operator == "+" else -scale)
            return total
    return None


def _as_expression(form: Monomials) -> Expression:
    total: Expression = ZERO
    for names, factor in sorted(form.items(), reverse=True):
        term: Expression = Constant(abs(factor))
        for name in names:
            term = binary("*", term, Name(name))
        if factor:
            total = binary("+" if factor > 0 else "-", total, term)
    return total


def _mapped(value: Item, change: Callable[[Expression], Expression]) -> Item:
    """The value with every whole expression in it changed."""
    if isinstance(value, Constant | Name | Binary | Not):
        return cast(Item, change(value))
    if isinstance(value, tuple):
        return cast(Item, tuple(_mapped(item, change) for item in value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {
        field.name: _mapped(getattr(value, field.name), change)
        for field in fields(value)
        if field.name != "span"
    }
    return cast(Item, replace(value, **parts))


# ---------------------------------------------------------------------------------- empty items


def without_empty(program: ir.SyncProgram, sizes: Sizes) -> ir.SyncProgram:
    """The program without items in which no role does anything."""
    free = {parameter.name: parameter for parameter in _open(program, sizes)}
    for parameter in free.values():
        if parameter.per is None or parameter.minimum > 0:
            continue
        work = _items(program, parameter, free)
        if work is not None:
            least = {parameter.name: 1, work: 0}
            program = replace(
                program,
                parameters=tuple(
                    replace(p, minimum=least.get(p.name, p.minimum)) for p in program.parameters
                ),
            )
    return program


def _items(
    program: ir.SyncProgram, parameter: ir.Parameter, free: Mapping[str, ir.Parameter]
) -> str | None:
    """The size that counts the items, where those with a parameter of 0 are empty; or None."""
    item = parameter.per
    assert item is not None
    loops: list[ir.Loop] = []
    for role in program.roles:
        own = [op for op in ir.walk(role.body) if isinstance(op, ir.Loop) and op.variable == item]
        bodies = [emptied(loop.body, parameter.name) for loop in own]
        if item in dict(role.variables) or not all(is_silent(role, body) for body in bodies):
            return None
        if item in names_in(tuple(loop.body for loop in own)) or seen_outside(role.body, item):
            return None
        loops += own
    counts = {loop.stop.name for loop in loops if isinstance(loop.stop, Name)}
    regular = all(loop.start == ZERO and isinstance(loop.stop, Name) for loop in loops)
    if not regular or len(counts) != 1:
        return None
    work = counts.pop()
    # Sizes of an item are read in the item alone, and the number of items by these loops alone.
    inside = {p.name for p in program.parameters if p.per == item}
    if work not in free or free[work].per is not None:
        return None
    rest = tuple(_with_nothing(role, item) for role in program.roles)
    return None if (inside | {work}) & names_in(rest) or work in _inner(loops) else work


def _inner(loops: list[ir.Loop]) -> set[str]:
    return {name for loop in loops for name in names_in(loop.body)}


def _with_nothing(role: ir.Role, item: str) -> ir.Role:
    """The role without its loops over the item."""
    body = role.body
    for loop in [op for op in ir.walk(body) if isinstance(op, ir.Loop) and op.variable == item]:
        body = _exchanged(body, loop, ())
    return replace(role, body=body)


def emptied(block: ir.Block, size: str) -> ir.Block:
    """The block with a size of 0."""
    return _mapped(block, lambda whole: substitute(whole, {size: 0}))


def is_silent(role: ir.Role, block: ir.Block) -> bool:
    """Whether the block executes no operation and leaves what is read again as it was."""
    return all(_does_nothing(role, operation) for operation in block)


def _does_nothing(role: ir.Role, operation: ir.Operation) -> bool:
    match operation:
        case ir.Loop(variable=variable, start=Constant(start), stop=Constant(stop)):
            return stop <= start and not seen_outside(role.body, variable)
        case ir.Assign(variable=variable, value=value):
            return linear_form(value) == ({variable: 1}, 0)
        case ir.Branch(condition=Constant(value), then=then, otherwise=otherwise):
            return is_silent(role, then if value else otherwise)
        case ir.Branch(then=then, otherwise=otherwise):
            return is_silent(role, then) and is_silent(role, otherwise)
    return False


# ------------------------------------------------------------------------- a number for each item


def with_own_sizes(program: ir.SyncProgram, sizes: Sizes) -> ir.SyncProgram:
    """The program with a number for every item in place of one for all, where loops are nested."""
    for parameter in _open(program, sizes):
        if parameter.per is None:
            program = _with_own_size(program, parameter, sizes)
    return program


def _with_own_size(
    program: ir.SyncProgram, parameter: ir.Parameter, sizes: Sizes
) -> ir.SyncProgram:
    items = [_item_of(role, parameter.name, program, sizes) for role in program.roles]
    named = {item for item in items if item}
    if "" in items or not named:
        return program
    item = min(named)
    roles: list[ir.Role] = []
    for role, own in zip(program.roles, items, strict=True):
        if own is None or own == item:
            roles.append(role)
        elif item in names_in(role) or own in _assigned(role):
            return program
        else:
            roles.append(replace(role, body=renamed(role.body, own, item)))
    parameters = tuple(
        replace(p, per=item) if p.name == parameter.name else p for p in program.parameters
    )
    if any(p.per in named - {item} for p in program.parameters):
        return program
    return replace(program, roles=tuple(roles), parameters=parameters)


def _assigned(role: ir.Role) -> set[str]:
    counters = {name for name, _ in role.variables}
    return counters | {op.variable for op in ir.walk(role.body) if isinstance(op, ir.Assign)}


def _item_of(role: ir.Role, size: str, program: ir.SyncProgram, sizes: Sizes) -> str | None:
    """The variable of the innermost open loop around every use of the size; None without a use.

    "" where a use has no such loop around it.
    """
    free = {p.name for p in _open(program, sizes)}
    around = [set(names) for names in _uses(role.body, size, free, ())]
    if not around:
        return None
    common = set.intersection(*around)
    if not common:
        return ""
    order = [op.variable for op in ir.walk(role.body) if isinstance(op, ir.Loop)]
    return max(common, key=order.index)


def _uses(
    block: ir.Block, size: str, free: set[str], around: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """For every operation that names the size, the open loops that it stands in."""
    for operation in block:
        match operation:
            case ir.Loop(variable=variable, stop=stop, body=body):
                if size in names_of(operation.start) | names_of(stop):
                    yield around
                grows = names_of(stop) & free - {size}
                yield from _uses(body, size, free, (*around, variable) if grows else around)
            case ir.Branch(condition=condition, then=then, otherwise=otherwise):
                if size in names_of(condition):
                    yield around
                yield from _uses((*then, *otherwise), size, free, around)
            case _:
                if size in names_in(operation):
                    yield around
