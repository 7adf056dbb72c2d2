"""Whether every run of a program with given sizes ends: control flow alone decides that.

Each pass of a loop steps its variable up by one, and nothing else may set it; where the stop does
not change while the loop runs either, the passes are counted off beforehand. So every agent
executes a finite list of operations, and every operation in flight a finite number of steps. It is
what partial order reduction rests on (native/closure.c): of a run that ends, no step is put off for
ever.
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.expression import names_of


def terminates(program: ir.SyncProgram) -> bool:
    """Whether the loops of all roles count off passes that are fixed when they begin."""
    outer = {parameter.name: parameter.per for parameter in program.parameters}
    return all(
        _counts_off(loop, outer)
        for role in program.roles
        for loop in ir.walk(role.body)
        if isinstance(loop, ir.Loop)
    )


def _counts_off(loop: ir.Loop, outer: dict[str, str | None]) -> bool:
    changed = {
        operation.variable
        for operation in ir.walk(loop.body)
        if isinstance(operation, ir.Assign | ir.Loop)
    }
    named = set(names_of(loop.stop))
    named |= {per for name in named if (per := outer.get(name)) is not None}
    return loop.variable not in changed and not named & (changed | {loop.variable})
