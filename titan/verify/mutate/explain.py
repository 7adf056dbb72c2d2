"""Arguments for shifted mutants that verify, each checked on the programs themselves."""

from __future__ import annotations

from collections import Counter

from titan.sync import program as ir
from titan.sync.control import LocalLoopError
from titan.sync.expression import Constant, evaluate
from titan.sync.interpreter import Interpreter
from titan.sync.parts import barriers_of, completions_of
from titan.verify.mutate.decide import typical_sizes
from titan.verify.mutate.mutants import Change, Mutant
from titan.verify.mutate.site import MutationSite, sites
from titan.verify.mutate.wording import reference_text

INSTANCES_MAX = 50_000
_Occurrence = tuple[object, ...]


def merged_barrier(mutant: Mutant) -> str | None:
    """The mutant no longer uses one element of an array: another one serves both places."""
    if mutant.change is not Change.SHIFTED or mutant.site is None:
        return None
    reference = _reference(mutant.site.operation)
    if reference is None or not isinstance(reference.index, Constant):
        return None
    others = [barriers_of(site.operation) for site in sites(mutant.program)]
    same = [found for one in others for found in one if found.name == reference.name]
    constant = all(isinstance(found.index, Constant) for found in same)
    if not same or not constant or reference in same:
        return None
    return f"one barrier serves both places: verified with {reference_text(reference)} unused"


def same_in_another_order(program: ir.SyncProgram, mutant: Mutant) -> str | None:
    """Every agent executes the same operations on the same barriers, in another order."""
    if mutant.change is not Change.SHIFTED or mutant.site is None:
        return None
    sizes = typical_sizes(program)
    before = _occurrences(program, sizes, mutant.site)
    after = _occurrences(mutant.program, sizes, mutant.site)
    if before is None or before != after:
        return None
    return "the same operations in another order: verified in both"


def _reference(operation: ir.Operation) -> ir.Reference | None:
    """The barrier that the operation itself names; not those that it completes on."""
    named = () if completions_of(operation) else barriers_of(operation)
    return named[0] if named else None


def _occurrences(
    program: ir.SyncProgram, sizes: dict[str, int | tuple[int, ...]], site: MutationSite
) -> list[Counter[_Occurrence]] | None:
    """For every agent of the role: how often it does what, among operations of the site's type."""
    machine = Interpreter(program, sizes)
    role = program.roles[site.role]
    counted = []
    for agent in machine.agents:
        if agent.role.name != role.name:
            continue
        seen: Counter[_Occurrence] = Counter()
        try:
            position = machine.control.start(agent)
            for _ in range(INSTANCES_MAX):
                operation = machine.control.operation_at(position)
                if operation is None:
                    break
                if type(operation) is type(site.operation):
                    seen[
                        _occurrence(operation, machine.control.environment(agent, position.values))
                    ] += 1
                position = machine.control.after(agent, position)
            else:
                return None
        except (LocalLoopError, ZeroDivisionError):
            return None
        counted.append(seen)
    return counted


def _occurrence(operation: ir.Operation, environment: dict[str, int]) -> _Occurrence:
    """The operation with its numbers worked out."""
    values: list[object] = [type(operation).__name__]
    for reference in barriers_of(operation):
        values += [reference.name, evaluate(reference.index, environment)]
    for name in ("parity", "phase", "count", "transaction", "threads", "queue", "bytes"):
        value = getattr(operation, name, None)
        if value is None or isinstance(value, str):
            values.append(value)
        elif name == "parity":
            values.append(evaluate(value, environment) & 1)
        else:
            values.append(evaluate(value, environment))
    return tuple(values)
