"""Second engine: whether seq_cst operations of one candidate have a single order (AMDGPU).

The pairs that C++20 (atomics.order) asks the order to contain are collected as edges of a graph
over instructions, for operations whose scopes include each other; an order exists where the graph
has no cycle. An atomic is one node.
"""

from __future__ import annotations

from titan.litmus.enumerate.causality import Candidate, Rows, cyclic
from titan.litmus.enumerate.run import StepKind


def has_single_order(
    candidate: Candidate, source: dict[int, int], base: Rows, coherence: Rows
) -> bool:
    """Whether no cycle of required pairs exists; `base` is happens-before, closed."""
    members = [n for n, act in enumerate(candidate.acts) if act.sem == "sc"]
    if not members:
        return True
    merged = dict(candidate.pairs)
    rows = [0] * candidate.size
    for a, b in _required(candidate, members, source, base, coherence):
        first, second = merged.get(a, a), merged.get(b, b)
        if (first != second or a == b) and _inclusive(candidate, a, b):
            rows[first] |= 1 << second
    return not cyclic(rows)


def _inclusive(candidate: Candidate, a: int, b: int) -> bool:
    first, second = candidate.acts[a], candidate.acts[b]
    return first.thread == second.thread or candidate._scopes(first, second)


def _required(
    candidate: Candidate, members: list[int], source: dict[int, int], base: Rows, coherence: Rows
) -> list[tuple[int, int]]:
    found = []
    size = candidate.size
    for a in members:
        behind = candidate.po[a]
        reached = behind
        for d in range(size):
            if behind >> d & 1:
                reached |= base[d] | 1 << d
        for b in members:
            enters = any(reached >> e & 1 and candidate.in_po(e, b) for e in range(size))
            if a != b and (behind >> b & 1 or enters):
                found.append((a, b))
    fences = [n for n in members if candidate.acts[n].kind is StepKind.FENCE]
    for a, b in _coherent(candidate, source, coherence):
        firsts = [n for n in members if n == a] + [n for n in fences if base[n] >> a & 1]
        lasts = [n for n in members if n == b] + [n for n in fences if base[b] >> n & 1]
        found += [(x, y) for x in firsts for y in lasts]
    return found


def _coherent(
    candidate: Candidate, source: dict[int, int], coherence: Rows
) -> list[tuple[int, int]]:
    """(first, second) of one location: rf, co, fr, and what reads the later write of the two."""
    acts = candidate.acts
    strong = [n for n, act in enumerate(acts) if act.accesses and candidate._sem_strong(act)]
    found = []
    for a in strong:
        later = coherence[source.get(a, a)]
        for b in strong:
            if a == b or candidate.memory[a] != candidate.memory[b]:
                continue
            if acts[b].kind is StepKind.WRITE:
                holds = bool(later >> b & 1)
            else:
                write = source[b]
                holds = write == a or bool(later >> write & 1)
            if holds:
                found.append((a, b))
    return found
