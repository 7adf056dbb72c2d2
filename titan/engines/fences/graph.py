"""The proxy-effect graph of one run: events, what is before what, and the accesses to memory.

A node is one operation of an agent, the end of an engine's reads, the end of an engine's work (a
completion, with its implicit proxy fence), a completed phase of an mbarrier or a completed
generation of a named barrier. An edge leads from what must happen first; every edge goes from a
lower to a higher number, so the numbers are a topological order. `visible` edges carry visibility;
the others order execution only (relaxed operations, or a scope that leaves the other thread out).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from titan.engines.happens_before.unfolding import Cell, Instance
from titan.sync import program as ir

if TYPE_CHECKING:
    import networkx


class NodeKind(StrEnum):
    """What a node of the graph represents; the value is its name in words."""

    OPERATION = "operation"
    READS_END = "end of reads"
    END = "completion"
    PHASE = "phase"
    GENERATION = "generation"


class EdgeKind(StrEnum):
    """Why one event is before another; the value is the reason in words."""

    PROGRAM = "program order"
    ISSUE = "issue"
    QUEUE = "queue order"
    PHASE = "phase completion"
    NAMED = "named barrier"
    CLUSTER = "cluster barrier"
    GROUP = "group wait"


@dataclass(frozen=True, slots=True)
class ProxyNode:
    """`agent` -1: no agent's; `index` counts the operations of the agent, or phases."""

    number: int
    kind: NodeKind
    agent: int = -1
    index: int = 0
    instance: Instance | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class ProxyEdge:
    """An edge that comes from node `source`; `visible`: it carries visibility, not order alone."""

    source: int
    kind: EdgeKind
    visible: bool = True


@dataclass(frozen=True, slots=True)
class MemoryEffect:
    """One access to one cell. `end` None: synchronous; else the asynchronous window's last node."""

    node: int
    agent: int
    cell: Cell
    write: bool
    tile: int | None
    proxy: ir.Proxy
    instance: Instance = field(compare=False)
    end: int | None = None
    reduces: bool = False


@dataclass(slots=True)
class EffectGraph:
    """Nodes, incoming edges and effects; `agents` are names, `ctas` their CTAs."""

    agents: tuple[str, ...]
    ctas: tuple[int, ...]
    nodes: list[ProxyNode] = field(default_factory=list)
    incoming: list[tuple[ProxyEdge, ...]] = field(default_factory=list)
    effects: list[MemoryEffect] = field(default_factory=list)
    _before: list[int] = field(default_factory=list)
    _seen: list[int] = field(default_factory=list)

    def add(
        self,
        kind: NodeKind,
        edges: list[ProxyEdge],
        agent: int = -1,
        index: int = 0,
        instance: Instance | None = None,
        name: str = "",
    ) -> int:
        """A new node after the sources of the edges."""
        number = len(self.nodes)
        self.nodes.append(ProxyNode(number, kind, agent, index, instance, name))
        self.incoming.append(tuple(edges))
        before = seen = 0
        for edge in edges:
            before |= self._before[edge.source] | 1 << edge.source
            if edge.visible:
                seen |= self._seen[edge.source] | 1 << edge.source
        self._before.append(before)
        self._seen.append(before if seen == before else seen)  # shared where nothing is weak
        return number

    def before(self, first: int, second: int, visible: bool = False) -> bool:
        """Whether a path leads from the first node to the second; of visible edges only, if so."""
        return bool((self._seen if visible else self._before)[second] >> first & 1)

    def path(self, first: int, second: int) -> list[ProxyEdge]:
        """The edges of one shortest path, backwards from `second`; empty where there is none."""
        back: dict[int, tuple[int, ProxyEdge]] = {}
        todo = [second]
        for node in todo:
            if node == first:
                break
            for edge in self.incoming[node]:
                source = edge.source
                if source not in back and (source == first or self.before(first, source)):
                    back[source] = (node, edge)
                    todo.append(source)
        if first not in back:
            return []
        edges, node = [], first
        while node != second:
            node, edge = back[node]
            edges.append(edge)
        return edges

    def networkx(self) -> networkx.DiGraph[int]:
        """The same graph for tools: node and edge attributes are plain words."""
        import networkx

        graph: networkx.DiGraph[int] = networkx.DiGraph()
        effects: dict[int, list[dict[str, Any]]] = {}
        for effect in self.effects:
            effects.setdefault(effect.node, []).append(
                {
                    "cell": f"{effect.cell[0]}[{effect.cell[1]}]",
                    "write": effect.write,
                    "tile": effect.tile,
                    "proxy": effect.proxy.value,
                    "window_end": effect.end,
                }
            )
        for node in self.nodes:
            operation = node.instance.operation if node.instance is not None else None
            words: dict[str, Any] = {"kind": node.kind.value, "agent": node.agent}
            words["operation"] = type(operation).__name__ if operation is not None else node.name
            if isinstance(operation, ir.Fence):
                words["fence"] = operation.kind.value
                words["spaces"] = tuple(space.value for space in operation.spaces)
            words["effects"] = effects.get(node.number, [])
            graph.add_node(node.number, **words)
        for node, edges in zip(self.nodes, self.incoming, strict=True):
            for edge in edges:
                graph.add_edge(edge.source, node.number, kind=edge.kind.value, visible=edge.visible)
        return graph
