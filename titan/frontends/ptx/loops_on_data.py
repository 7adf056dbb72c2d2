"""Loops whose rounds data decide, and what can be known of their end without the data.

A loop that accesses memory is executed once, each instruction of it, for its accesses; one with a
strong access or an atomic may wait for what others write, and the machine refuses it. That a loop
comes to an end is assumed, and the verdict says so, but not of a loop that no round can end: after
its first rounds the values that decide are the same in each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from titan.isa.simt import events as ev
from titan.isa.simt.called_functions import CalledFunctions
from titan.isa.simt.control_flow import FlowGraph, FunctionGraphs
from titan.isa.simt.operations import PURE, DecodedCode, Op
from titan.isa.simt.outcome import Policy, Run


def data_loops(run: Run) -> list[int]:
    """The branches into regions with a loop, each time that data decided one."""
    regions = run.prepared.code.regions if run.prepared is not None else {}
    return [at for at in _on_data(run) if regions[at].cyclic and not regions[at].waits]


def assertions(run: Run) -> list[int]:
    """The branches on data of which a way ends in a trap, each time that one was decided."""
    regions = run.prepared.code.regions if run.prepared is not None else {}
    return [at for at in _on_data(run) if regions[at].trapped]


def open_ends(run: Run) -> list[tuple[str, int]]:
    """Why lanes may go on otherwise than in the recording: a text and an instruction for each.

    A loop on data that no round can end, and a guard that no instruction computes.
    """
    if run.prepared is None:
        return []
    code = run.prepared.code
    written = {register for step in code.steps for register in step.out}
    written |= {preset.register for preset in code.presets}
    doubtful = [
        event.instruction
        for event in run.events
        if isinstance(event, ev.Assumption) and event.policy is Policy.OPAQUE_GUARD
    ]
    for at in dict.fromkeys(_on_data(run)):
        doubtful += [at, *_inside(code, at)]
    found = [
        ("no instruction writes the register that decides here", at)
        for at in dict.fromkeys(doubtful)
        if not _deciding(code, at) <= written
    ]
    found += [
        ("a loop that data let be entered cannot end: no round changes what decides it", at)
        for at in dict.fromkeys(data_loops(run))
        if _endless(code, at)
    ]
    return found


def _on_data(run: Run) -> Iterable[int]:
    return [event.instruction for event in run.events if isinstance(event, ev.Skipped)]


def _deciding(code: DecodedCode, at: int) -> set[int]:
    """The registers that say where a branch goes, or whether an instruction is executed."""
    step = code.steps[at]
    found = {step.guard, *(step.args if step.op is Op.BRANCH_INDEXED else ())}
    return {register for register in found if register >= 0}


def _graph(code: DecodedCode, at: int) -> FlowGraph:
    return FunctionGraphs(code).around(at)


def _inside(code: DecodedCode, branch: int) -> Iterable[int]:
    """The instructions of the arms of a branch."""
    blocks = _graph(code, branch).region(branch, code.joins[branch])[0]
    called = [block for callee in _callees(code, branch) for block in callee.blocks]
    return [at for low, high in (*blocks, *called) for at in range(low, high)]


def _callees(code: DecodedCode, branch: int) -> list[FlowGraph]:
    """The functions that the arms of a branch call."""
    blocks = _graph(code, branch).region(branch, code.joins[branch])[0]
    return CalledFunctions(code.steps, code.functions).graphs(blocks)


def _endless(code: DecodedCode, branch: int) -> bool:
    """Whether the region of a branch has a loop of which no round changes whether it is left."""
    graph = _graph(code, branch)
    inside = [graph.block_at[low] for low, _ in graph.region(branch, code.joins[branch])[0]]
    inside = list(dict.fromkeys([*inside, graph.block_at[graph.head_of(branch)]]))
    found = [(graph, loop) for loop in _loops(graph, inside)]
    for callee in _callees(code, branch):
        found += [(callee, loop) for loop in _loops(callee, range(len(callee.blocks)))]
    return any(not _changes(code, graph, loop) for graph, loop in found)


def _loops(graph: FlowGraph, inside: Iterable[int]) -> Iterator[set[int]]:
    """The strongly connected blocks among some, and those that are left of each without the blocks
    by which it is entered: the loops in it.
    """
    known = set(inside)
    ahead: dict[int, set[int]] = {}
    for block in known:
        reached: set[int] = set()
        work = [block]
        while work:
            new = {other for other in graph.next[work.pop()] if other in known} - reached
            reached |= new
            work += new
        ahead[block] = reached
    left = {block for block in known if block in ahead[block]}
    while left:
        first = min(left)
        loop = {other for other in ahead[first] if first in ahead[other]}
        yield loop
        left -= loop
        entered = {
            target
            for block, following in enumerate(graph.next)
            if block not in loop
            for target in following
            if target in loop
        }
        yield from _loops(graph, loop - (entered or {first}))


def _changes(code: DecodedCode, graph: FlowGraph, loop: set[int]) -> bool:
    """Whether what decides about an exit of the loop may differ from round to round.

    It does not if each register that it is made of is written once in the loop, by a step without
    a guard that computes it from such registers, or from those that the loop does not write.
    """
    steps = [at for block in loop for at in range(*graph.blocks[block])]
    writes = Counter(register for at in steps for register in code.steps[at].out)
    steady: set[int] = set()
    before = -1
    while len(steady) != before:
        before = len(steady)
        for at in steps:
            step = code.steps[at]
            computes = step.op in PURE and (step.op is not Op.OPAQUE or bool(step.args))
            made_here = computes and step.guard < 0
            known = all(arg in steady or arg not in writes for arg in step.args if arg >= 0)
            if made_here and known:
                steady |= {register for register in step.out if writes[register] == 1}
    exits = [
        graph.blocks[block][1] - 1
        for block in loop
        if any(other not in loop for other in graph.next[block])
    ]
    deciding = set().union(*(_deciding(code, at) for at in exits))
    return any(register in writes and register not in steady for register in deciding)
