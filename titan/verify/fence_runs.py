"""Input of the fence commands: the programs of a file, and runs of them with their effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from titan.engines.fences.cost import table_of
from titan.engines.fences.graph import EffectGraph
from titan.engines.fences.recording import Recording, record
from titan.foundation.source.tree import Node
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.verify.sizes import Values, free_parameters, size_sets

STEPS_OF_SIZES = 60_000  # executed operations of all runs of one program together


@dataclass(frozen=True, slots=True)
class Loaded:
    """The kernels of a text, lowered."""

    root: Node
    text: str
    kernels: tuple[Kernel, ...]
    programs: tuple[ir.SyncProgram, ...]


@dataclass(slots=True)
class Runs:
    """The recordings of all kernels of a file; `largest` prices executions."""

    recordings: list[tuple[int, Recording]] = field(default_factory=list)
    largest: list[Recording] = field(default_factory=list)
    reason: str = ""


def run_all(
    programs: Sequence[ir.SyncProgram],
    extra: tuple[Values, ...] = (),
    steps: int = STEPS_OF_SIZES,
) -> Runs:
    """Record every program at its largest size, and at sizes up to the bound.

    The sizes of `extra` always, others as long as their runs together have at most `steps`
    operations.
    """
    runs = Runs()
    for number, program in enumerate(programs):
        sets = list(size_sets(program)) if free_parameters(program) else [{}]
        priced = record(program, sets.pop())
        while sets and priced.layout is None:
            priced = record(program, sets.pop())
        runs.reason = runs.reason or priced.reason
        if priced.layout is None:
            continue
        runs.largest.append(priced)
        runs.recordings.append((number, priced))
        spent = 0
        names = set(free_parameters(program))
        wanted = [values for values in extra if set(values) >= names]
        for values in [*wanted, *sets]:
            if values not in wanted and spent > steps:
                break
            recording = record(program, values)
            spent += len(recording.graph.nodes)
            runs.reason = runs.reason or recording.reason
            if recording.layout is not None:
                runs.recordings.append((number, recording))
    return runs


def line_of(fence: ir.Fence) -> int:
    """The line that a fence was read from; 0 where a tool made it."""
    return fence.span.start_line if fence.span else 0


def far_agents(recording: Recording) -> set[int]:
    """Agents with generic accesses to the shared memory of another CTA."""
    assert recording.layout is not None
    return {
        agent.number
        for agent in recording.layout.agents
        if any(item.far and isinstance(item.operation, ir.Access) for item in agent.instances)
    }


def fences_in(graph: EffectGraph, numbers: list[int]) -> Iterator[tuple[int, ir.Fence]]:
    """The agent and the operation of each executed fence."""
    for number in numbers:
        node = graph.nodes[number]
        assert node.instance is not None and isinstance(node.instance.operation, ir.Fence)
        yield node.agent, node.instance.operation


def has_fences(target: str) -> bool:
    """Whether the target has proxies that need fences."""
    return table_of(target) is not None
