"""Whether a kernel does anything: roles that never execute an operation, barriers never used.

A verdict about a program that does nothing is true and worthless. One run for a few small sizes
decides it: control flow depends on sizes and counters alone, so what one run executes every run
executes.
"""

from __future__ import annotations

from collections.abc import Iterable

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import listed
from titan.foundation.source.span import Span
from titan.sync import program as ir
from titan.sync.fault import Actor
from titan.sync.interpreter import Interpreter
from titan.sync.parts import barriers_of
from titan.sync.program import SyncProgram
from titan.verify.one_run import one_run
from titan.verify.sizes import bound_of, equal_sizes, free_parameters

VACUOUS = "TTN215"
STEPS_MAX = 5_000  # of one run; a longer one says nothing about what is not used


def written_fences(program: SyncProgram) -> bool:
    """Whether the text has a fence, so that one may be redundant."""
    return any(
        isinstance(operation, ir.Fence) and operation.span is not None
        for role in program.roles
        for operation in ir.walk(role.body)
    )


def vacuous(program: SyncProgram, span: Span | None) -> list[Diagnostic]:
    """Warnings about roles and barriers that no tried run uses."""
    idle_roles = {role.name for role in program.roles}
    unused = {barrier.name for barrier in program.barriers}
    names = free_parameters(program)
    for size in dict.fromkeys((1, 2, 3, bound_of(program))):
        sizes = equal_sizes(program, size)
        if not _cross_off(program, sizes, idle_roles, unused):
            return []
        if (not idle_roles and not unused) or not names:
            break
    spans: dict[str, Span | None] = {item.name: item.span for item in program.roles}
    spans |= {item.name: item.span for item in program.barriers}
    found = []
    for names_left, one, many in (
        (idle_roles, "the role {} does nothing", "the roles {} do nothing"),
        (unused, "the barrier {} is never used", "the barriers {} are never used"),
    ):
        if names_left:
            place = spans[min(names_left)]
            words = (one if len(names_left) == 1 else many).format(listed(sorted(names_left)))
            headline = f"{words} in any of the runs tried"
            found.append(diagnostic(VACUOUS, headline, place or span))
    return found


def _cross_off(
    program: SyncProgram, sizes: dict[str, int], idle_roles: set[str], unused: set[str]
) -> bool:
    """Remove the roles that execute something and the barriers that are named in one run.

    False where the run has more steps than are tried.
    """
    machine = Interpreter(program, dict(sizes))
    for taken, (state, step) in enumerate(one_run(machine)):
        if taken == STEPS_MAX:
            return False
        if not idle_roles and not unused:
            return True
        if step.actor is Actor.AGENT:
            operation = machine.control.operation_of(state, step.agent)
            idle_roles.discard(machine.agents[step.agent].role.name)
            unused -= set(_barriers(operation))
    return True


def _barriers(operation: ir.Operation | None) -> Iterable[str]:
    return [reference.name for reference in barriers_of(operation)] if operation else []
