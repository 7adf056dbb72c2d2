"""What only the last trip of an inner loop does stands behind that loop.

`for k in 0..n: A; if k == n - 1: B` with n >= 1 executes the A of all trips and then B, which is
how the loop stood in the source before Triton flattened it. In the form with a branch, a role
without A counts trips of its own accord, ahead of all others, and a search for any number does not
close. Assignments around the branch move with B where they rest on it, and stay where they do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from titan.engines.explore.loops import names_in
from titan.frontends.ttgir.copies import mentions
from titan.sync import program as ir
from titan.sync.expression import ONE, ZERO, Binary, Expression, Name, substitute


def with_last_trips_behind(body: ir.Block, minimums: Mapping[str, int]) -> ir.Block:
    """The body of a role in that form, wherever it can be. `minimums` are those of sizes."""
    return _changed(body, minimums, Counter(mentions(body)))


def _changed(block: ir.Block, minimums: Mapping[str, int], everywhere: Counter[str]) -> ir.Block:
    made: list[ir.Operation] = []
    for operation in block:
        if isinstance(operation, ir.Loop):
            inner = _changed(operation.body, minimums, everywhere)
            made += _split(replace(operation, body=inner), minimums, everywhere)
        elif isinstance(operation, ir.Branch):
            arms = [
                _changed(x, minimums, everywhere) for x in (operation.then, operation.otherwise)
            ]
            made.append(replace(operation, then=arms[0], otherwise=arms[1]))
        else:
            made.append(operation)
    return tuple(made)


def _split(
    loop: ir.Loop, minimums: Mapping[str, int], everywhere: Counter[str]
) -> Sequence[ir.Operation]:
    """The loop without what its last trip does alone, and that; or the loop."""
    stop = loop.stop
    if loop.start != ZERO or not isinstance(stop, Name) or minimums.get(stop.name, 0) < 1:
        return (loop,)
    last = Binary("==", Name(loop.variable), Binary("-", stop, ONE))
    places = [
        n for n, op in enumerate(loop.body) if isinstance(op, ir.Branch) and op.condition == last
    ]
    if len(places) != 1:
        return (loop,)
    place = places[0]
    branch = loop.body[place]
    assert isinstance(branch, ir.Branch)
    parted = _parted(branch, loop.body[place + 1 :])
    if parted is None:
        return (loop,)
    resting, free = parted
    done, skipped = (*branch.then, *resting), (*branch.otherwise, *resting)
    if loop.variable in names_in(done) or not _changes_nothing(skipped, done, everywhere):
        return (loop,)
    body = (*loop.body[:place], *free)
    return (*((replace(loop, body=body),) if body else ()), *done)


def _parted(branch: ir.Branch, tail: ir.Block) -> tuple[list[ir.Assign], list[ir.Assign]] | None:
    """The assignments behind a branch that rest on what it sets, and those that do not.

    None where other operations stand there, or where the two kinds name what the others set.
    """
    set_there = {op.variable for op in ir.walk((branch,)) if isinstance(op, ir.Assign)}
    resting: list[ir.Assign] = []
    free: list[ir.Assign] = []
    for one in tail:
        if not isinstance(one, ir.Assign):
            return None
        if names_in(one) & set_there:
            resting.append(one)
            set_there.add(one.variable)
        else:
            free.append(one)
    named = names_in((branch, *resting))
    return None if any(one.variable in named for one in free) else (resting, free)


def _changes_nothing(skipped: ir.Block, done: ir.Block, everywhere: Counter[str]) -> bool:
    """Whether a trip that is not the last sets nothing that anything reads later."""
    values: dict[str, Expression] = {}
    for one in skipped:
        if not isinstance(one, ir.Assign):
            return False
        values[one.variable] = substitute(one.value, values)
    inside = Counter(mentions(done)) + Counter(mentions(skipped))
    for name, value in values.items():
        # The assignments that rest on the branch are in both arms here, and once in the role.
        if value != Name(name) and not (
            inside[name] >= everywhere[name] and _set_first(name, done)
        ):
            return False
    return True


def _set_first(name: str, block: ir.Block) -> bool:
    """Whether the block sets a counter before it reads it."""
    for one in block:
        if name in names_in(one):
            return (
                isinstance(one, ir.Assign) and one.variable == name
                and name not in names_in(one.value)
            )  # fmt: skip
    return False
