"""Loops of a function: back edges to a block that dominates their source, and what they enclose.

The usual definition of a natural loop (Aho, Lam, Sethi, Ullman, section 9.6.6). Back edges to one
instruction make one loop. What a cycle without such an edge (an irreducible one) does is in no
loop; compilers of structured kernels make none.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.inspect.listing import MachineFunction

ROOT = -1


@dataclass(frozen=True)
class MachineLoop:
    """`members`: numbers of its instructions in the order of the text, of inner loops too.

    `inside`: the numbers that inner loops have. `depth` is 1 for an outermost loop.
    """

    head: int
    members: tuple[int, ...]
    inside: frozenset[int]
    depth: int

    @property
    def own(self) -> tuple[int, ...]:
        """The members that are in no inner loop."""
        return tuple(number for number in self.members if number not in self.inside)


def loops(function: MachineFunction) -> tuple[MachineLoop, ...]:
    """All loops, by the places of their heads."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_edges_from((ROOT, entry) for entry in (0, *function.called))
    reached, waiting = {0, *function.called}, [0, *function.called]
    while waiting:
        number = waiting.pop()
        for following in function.successors(number):
            graph.add_edge(number, following)
            if following not in reached:
                reached.add(following)
                waiting.append(following)
    above = networkx.immediate_dominators(graph, ROOT)
    tree = networkx.DiGraph((over, one) for one, over in above.items() if over not in (None, one))
    depths = networkx.single_source_shortest_path_length(tree, ROOT)
    ends: dict[int, list[int]] = {}
    for number, following in graph.edges:
        # A head stands before the end of its loop, or an end moved out of line jumps back to it.
        if number == ROOT or depths[following] > depths[number]:
            continue  # no way up the tree leads down
        if _dominates(following, number, above):
            ends.setdefault(following, []).append(number)
    bodies = {head: _body(graph, head, sources) for head, sources in ends.items()}
    return tuple(_nested(head, bodies) for head in sorted(bodies))


def _dominates(one: int, other: int, above: dict[int, int | None]) -> bool:
    place: int | None = other
    while place is not None and place != ROOT:
        if place == one:
            return True
        place = above.get(place)
    return False


def _body(graph: object, head: int, sources: list[int]) -> frozenset[int]:
    """What reaches a source without passing the head, and the head."""
    found, waiting = {head}, [one for one in sources if one != head]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += graph.predecessors(number)  # type: ignore[attr-defined]
    return frozenset(found)


def _nested(head: int, bodies: dict[int, frozenset[int]]) -> MachineLoop:
    mine = bodies[head]
    inner = [body for other, body in bodies.items() if other != head and body < mine]
    around = [body for other, body in bodies.items() if other != head and mine < body]
    inside = frozenset().union(*inner)
    return MachineLoop(head, tuple(sorted(mine)), inside, 1 + len(around))
