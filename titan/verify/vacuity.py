"""Whether a kernel does anything: roles that never execute an operation, barriers never used.

A verdict about a program that does nothing is true and worthless. One run for a few small sizes
decides it: control flow depends on sizes and counters alone, so what one run executes every run
executes.
"""

from __future__ import annotations

from collections.abc import Iterable

from titan.diagnostics.model import Diagnostic, diagnostic
from titan.diagnostics.wording import listed
from titan.source.span import Span
from titan.sync import program as ir
from titan.sync.interpreter import Machine
from titan.sync.program import SyncProgram
from titan.verify.sizes import bound_of, free_parameters

STEPS_MAX = 20_000


def vacuous(program: SyncProgram, span: Span | None) -> list[Diagnostic]:
    """Warnings about roles and barriers that no tried run uses."""
    idle_roles = {role.name for role in program.roles}
    unused = {barrier.name for barrier in program.barriers}
    names = free_parameters(program)
    for size in dict.fromkeys((1, 2, 3, bound_of(program))):
        minimums = {item.name: item.minimum for item in program.parameters}
        sizes = {name: max(size, minimums[name]) for name in names}
        roles, barriers = _used(program, sizes)
        idle_roles -= roles
        unused -= barriers
        if (not idle_roles and not unused) or not names:
            break
    spans: dict[str, object] = {item.name: item.span for item in program.roles}
    spans |= {item.name: item.span for item in program.barriers}
    found = []
    for kind, left in (("role", idle_roles), ("barrier", unused)):
        if left:
            place = spans[min(left)]
            plural = "" if len(left) == 1 else "s"
            verb = "does nothing" if kind == "role" else "is never used"
            verb = verb.replace("does", "do").replace("is", "are") if plural else verb
            headline = f"the {kind}{plural} {listed(sorted(left))} {verb} in any run that was tried"
            found.append(diagnostic("TTN215", headline, place if isinstance(place, Span) else span))
    return found


def _used(program: SyncProgram, sizes: dict[str, int]) -> tuple[set[str], set[str]]:
    """Roles that execute something and barriers that are named in it, in one run."""
    machine = Machine(program, dict(sizes))
    state = machine.initial()
    roles: set[str] = set()
    barriers: set[str] = set()
    for _ in range(STEPS_MAX):
        steps = machine.steps(state)
        if not steps:
            break
        step = steps[0]
        agent = machine.agents[step.agent]
        if step.ordinal < 0:
            operation = machine.operation_of(state, step.agent)
            roles.add(agent.role.name)
            barriers |= set(_barriers(operation))
        after, _ = machine.apply(state, step)
        if after is None:
            break
        state = after
    return roles, barriers


def _barriers(operation: ir.Operation | None) -> Iterable[str]:
    if isinstance(operation, ir.Asynchronous):
        return [completion.barrier.name for completion in operation.completes]
    reference = getattr(operation, "barrier", None)
    return [reference.name] if isinstance(reference, ir.Reference) else []
