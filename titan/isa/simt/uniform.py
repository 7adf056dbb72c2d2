"""Which branches are the same for all lanes of a warp, whatever the data are.

The guard is made by arithmetic alone of constants and of what a vote or a reduction of all 32 lanes
gave, which is one value for all lanes (PTX ISA, vote.sync, redux.sync). The vote stands in the
block of the branch, or in another one, behind which every way to the branch leaves what it gave as
it is (a warp votes, waits for a barrier, and branches): no lane comes to the next vote before all
do, so lanes that are together at the branch hold what the same vote gave. Where nothing is shown, a
branch counts as different for each lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from titan.isa.simt.control_flow import FlowGraph
from titan.isa.simt.operations import PURE, DecodedStep, Op
from titan.isa.simt.values import ALL

_ALIKE = (Op.VOTE, Op.REDUX)


def same_for_all_lanes(
    graph: FlowGraph, branch: int, constants: Mapping[int, int], *, far: bool
) -> bool:
    """Whether the branch at `branch` goes one way with all lanes of a warp that are there.

    `constants`: registers that are never written, and their values. `far`: the vote may stand in
    another block.
    """
    step = graph.steps[branch]
    if step.op is not Op.BRANCH:
        return False
    first = graph.head_of(branch)
    if _alike(graph.steps, first, branch, step.guard, constants):
        return True
    if not far:
        return False
    open_ends = _open_ends(graph.steps, first, branch, step.guard, constants)
    if open_ends is None:
        return False
    makers = {graph.only_maker(first, register) for register in open_ends}
    if len(makers) != 1 or None in makers:
        return False
    (maker,) = makers
    assert maker is not None
    low, high = maker
    return all(_alike(graph.steps, low, high, register, constants) for register in open_ends)


def _open_ends(
    steps: Sequence[DecodedStep],
    first: int,
    before: int,
    register: int,
    constants: Mapping[int, int],
) -> set[int] | None:
    """The registers from before the block that arithmetic alone makes this one of; else None."""
    for index in reversed(range(first, before)):
        step = steps[index]
        if register not in step.out:
            continue
        if step.guard >= 0 or step.op not in PURE or step.op is Op.OPAQUE:
            return None
        found: set[int] = set()
        for source in step.args:
            if source >= 0:
                ends = _open_ends(steps, first, index, source, constants)
                if ends is None:
                    return None
                found |= ends
        return found
    return set() if register in constants else {register}


def _alike(
    steps: Sequence[DecodedStep],
    first: int,
    before: int,
    register: int,
    constants: Mapping[int, int],
) -> bool:
    """Whether all lanes hold the same in a register before a step of the block."""
    for index in reversed(range(first, before)):
        step = steps[index]
        if register not in step.out:
            continue
        if step.guard >= 0:
            return False
        if step.op in _ALIKE:
            return _constant(steps, first, index, step.args[-1], constants) == ALL
        made = step.op in PURE and step.op is not Op.OPAQUE
        return made and all(
            _alike(steps, first, index, source, constants) for source in step.args if source >= 0
        )
    return register in constants


def _constant(
    steps: Sequence[DecodedStep],
    first: int,
    before: int,
    register: int,
    constants: Mapping[int, int],
) -> int | None:
    """What a register holds before a step of the block, where the text says it; else None."""
    for index in reversed(range(first, before)):
        step = steps[index]
        if register in step.out:
            if step.op is not Op.MOV or step.guard >= 0:
                return None
            value = _constant(steps, first, index, step.args[0], constants)
            return None if value is None else value & (1 << step.bits) - 1
    return constants.get(register)
