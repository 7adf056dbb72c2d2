"""Which accesses through another proxy are not justified by the fences that a program has.

Decided on the proxy-effect graph alone. `Judgement.reason` says why one run does not represent all
interleavings; the pairs found then still lack a fence in this run, but nothing is promised of the
pairs not found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from titan.engines.fences.demands import Choice, Demand, Demands
from titan.engines.fences.graph import EdgeKind, EffectGraph, NodeKind
from titan.engines.fences.recording import Recording, record
from titan.engines.happens_before.unfolding import Cell
from titan.sync import program as ir
from titan.sync.fault import FaultKind

_PATH_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class Unjustified:
    """One pair that nothing justifies, in words; `operations` are the two accesses."""

    kind: FaultKind
    first: str
    second: str
    place: Cell
    path: str
    missing: str
    operations: tuple[ir.Operation | None, ir.Operation | None] = field(compare=False)

    @property
    def text(self) -> str:
        """Both accesses and what is missing between them, on one line."""
        return f"{self.first} and {self.second}: {self.missing}"


@dataclass(slots=True)
class FenceJudgement:
    """`demands` counts the pairs that were examined."""

    recording: Recording
    unjustified: list[Unjustified]
    demands: int
    reason: str = ""

    @property
    def kinds(self) -> set[FaultKind]:
        """The fault kinds of all unjustified pairs; empty where the fences suffice."""
        return {item.kind for item in self.unjustified}


def itself(fence: ir.Fence) -> tuple[Choice, ...]:
    """A fence of the program represents itself."""
    return (Choice(id(fence), fence.kind, fence.spaces),)


def satisfied(demand: Demand, chosen: frozenset[Choice] | None = None) -> bool:
    """Whether the chosen fences (None: all that there are) justify the pair."""
    if chosen is None:
        return bool(demand.alternatives)
    return any(alternative.needed <= chosen for alternative in demand.alternatives)


def judge(
    program: ir.SyncProgram,
    sizes: Mapping[str, int | tuple[int, ...]] | None = None,
) -> FenceJudgement:
    """The unjustified pairs of a program, one for each pair of operations and kind."""
    recording = record(program, sizes)
    if recording.layout is None:
        return FenceJudgement(recording, [], 0, recording.reason)
    found: dict[tuple[FaultKind, str, tuple[int, ...]], Unjustified] = {}
    count = 0
    for demand in Demands(recording, itself).all():
        count += 1
        if satisfied(demand):
            continue
        item = describe(recording.graph, demand, program.policies)
        both = tuple(id(operation) for operation in item.operations)
        key = (demand.kind, demand.place[0], both)
        found.setdefault(key, item)
    return FenceJudgement(recording, list(found.values()), count, recording.reason)


# ---------------------------------------------------------------------------------- words


def describe(graph: EffectGraph, demand: Demand, policies: ir.Policies) -> Unjustified:
    """The pair in words: both accesses, the path between them, and what it lacks."""
    place = f"{demand.place[0]}[{demand.place[1]}]"
    first, second = graph.nodes[demand.first], graph.nodes[demand.second]
    what = {
        FaultKind.MISSING_FENCE: ("the generic write of", "the asynchronous access to"),
        FaultKind.MISSING_FENCE_WAR: ("the generic read of", "the asynchronous write of"),
        FaultKind.MISSING_TENSORMAP_FENCE: ("the write of the map", "the use of the map"),
        FaultKind.UNPUBLISHED_INIT: ("the initialisation of", "the use of"),
        FaultKind.MISSING_CACHED_FENCE: ("the access of", "the access by another proxy to"),
    }[demand.kind]
    return Unjustified(
        demand.kind,
        f"{what[0]} {place} by {_who(graph, demand.first)}",
        f"{what[1]} {place} by {_who(graph, demand.second)}",
        demand.place,
        path_text(graph, demand.first, demand.second),
        _missing(graph, demand, policies),
        (
            first.instance.operation if first.instance else None,
            second.instance.operation if second.instance else None,
        ),
    )


def _who(graph: EffectGraph, number: int) -> str:
    node = graph.nodes[number]
    return graph.agents[node.agent] if node.agent >= 0 else "an engine"


def _missing(graph: EffectGraph, demand: Demand, policies: ir.Policies) -> str:
    """The weakest fence that is not on the path."""
    who = _who(graph, demand.first)
    if demand.kind is FaultKind.MISSING_TENSORMAP_FENCE:
        return (
            f"no tensormap release after the write by {who} that an acquire before the use follows"
        )
    if demand.kind is FaultKind.UNPUBLISHED_INIT:
        return f"no fence.mbarrier_init by {who} between the two"
    if demand.kind is FaultKind.MISSING_CACHED_FENCE:
        return (
            "no fences of the proxies that are not generic, each in the CTA of its access, on the "
            "path between the two"
        )
    engine = graph.nodes[demand.first].agent < 0
    if engine:
        return "no proxy fence by any agent after the completion and before the access"
    if policies.fence_rule == "path":
        return "no proxy fence in the CTA of the memory on the path between the two"
    return f"no proxy fence by {who} between its access and the synchronisation that follows it"


def path_text(graph: EffectGraph, first: int, second: int) -> str:
    """The path between two nodes: the synchronisation on it, in order."""
    edges = graph.path(first, second)
    if not edges:
        return "no path"
    words: list[str] = []
    for edge in edges:
        node = graph.nodes[edge.source]
        if node.kind is NodeKind.OPERATION or edge.source == first:
            if edge.kind is EdgeKind.PROGRAM and words[-1:] != ["program order"]:
                words.append("program order")
        elif node.kind in (NodeKind.PHASE, NodeKind.GENERATION):
            words.append(node.name)
        elif node.kind is NodeKind.END:
            words.append("completion with its implicit fence (engine's writes only)")
        else:
            words.append("end of reads")
    if len(words) > _PATH_SHOWN_MAX:
        words = [*words[:_PATH_SHOWN_MAX], f"and {len(words) - _PATH_SHOWN_MAX} more"]
    return ", ".join(words) or "program order"
