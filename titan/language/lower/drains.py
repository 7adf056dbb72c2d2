"""Thresholds of drains where one hardware queue carries several groups of the protocol.

A warpgroup has one wgmma queue that retires in order, whatever names a kernel gives its groups. A
drain of one name then is a wait for the newest groups of all names to be at most so many; the
number is counted in unrolled runs and the smallest that occurs is taken, which waits for enough
everywhere. What is verified afterwards is the program with that number.
"""

from __future__ import annotations

from titan.language.lower.facts import Facts
from titan.language.protocol import model
from titan.language.protocol.unroll import walk
from titan.sync.expression import Constant, Expression


def issued_groups(role: model.ProtocolRole) -> tuple[str, ...]:
    """The names of the groups that a role issues to, in order of first mention."""
    names = [item.group for item in walk(role.body) if isinstance(item, model.Issue)]
    return tuple(dict.fromkeys(names))


def pending_groups(
    facts: Facts, role: model.ProtocolRole, statement: model.Drain | model.Release
) -> tuple[Expression, bool]:
    """How many committed groups of the queue may stay unfinished, and whether that is exact.

    `exact` False: at some executions of the statement more could stay unfinished.
    """
    name = statement.group if isinstance(statement, model.Drain) else statement.after
    leaving = statement.leaving if isinstance(statement, model.Drain) else Constant(0)
    if issued_groups(role) == (name,):
        return leaving, True
    found: set[int] = set()
    for trace in facts.role_traces(role):
        issued: list[str] = []
        for event in trace.events:
            if isinstance(event.statement, model.Issue):
                issued.append(event.statement.group)
            elif event.statement is statement:
                kept = event.value(leaving)
                mine = [place for place, group in enumerate(issued) if group == name]
                if kept < len(mine):
                    found.add(len(issued) - 1 - mine[len(mine) - 1 - kept])
    return Constant(min(found, default=0)), len(found) <= 1
