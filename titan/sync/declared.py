"""What the names of a program must be, so that every reader takes them for the same things.

Front ends give no other names. A program from outside (in a certificate) is held against this:
whoever looks a name up by a dictionary takes the last of two, others the first, and a line end in
a name would write lines of a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from titan.sync import program as ir


def refuse_names(program: ir.SyncProgram) -> None:
    """Raises ValueError for a name that is shown wrongly, or is that of two things."""
    declared = [
        item.name
        for items in (
            program.parameters,
            program.barriers,
            program.named_barriers,
            program.buffers,
            program.queues,
            program.pools,
        )
        for item in items
    ]
    roles = [role.name for role in program.roles]
    _once(declared, "a declaration")
    _once(roles, "a role")
    shown = [program.name, program.target, *declared, *roles]
    shown += [buffer.storage for buffer in program.buffers]
    sizes = {parameter.name for parameter in program.parameters}
    for role in program.roles:
        own = {role.agent_constant, *(name for name, _ in role.variables), *_assigned(role)}
        _once([role.agent_constant, *(name for name, _ in role.variables)], "a counter")
        if role.agent_constant in set(_assigned(role)) or own & sizes:
            raise ValueError(f"a counter of {role.name} has the name of a number that stays")
        shown += own
    if any(" " in name for name in (program.name, program.target)):
        raise ValueError("the name of a program or target holds a space")
    if not all(name.isprintable() for name in shown):
        raise ValueError("a name holds a character that is not printed")


def _once(names: Iterable[str], what: str) -> None:
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        raise ValueError(f"{what} {twice[0]!r} stands twice")


def _assigned(role: ir.Role) -> Iterator[str]:
    """The variables of its loops and assignments."""
    for operation in ir.walk(role.body):
        if isinstance(operation, ir.Loop | ir.Assign):
            yield operation.variable
