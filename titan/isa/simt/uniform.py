"""Which branches are the same for all lanes of a warp, whatever the data are.

Decided on the text of one block: the guard is made by arithmetic alone of constants and of what a
vote or a reduction of all 32 lanes gave, which is one value for all lanes (PTX ISA, vote.sync,
redux.sync). Where nothing is shown, a branch counts as different for each lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from titan.isa.simt.operations import PURE, DecodedStep, Op
from titan.isa.simt.values import ALL

_ALIKE = (Op.VOTE, Op.REDUX)


def same_for_all_lanes(
    steps: Sequence[DecodedStep], first: int, branch: int, constants: Mapping[int, int]
) -> bool:
    """Whether the branch at `branch` goes one way with all lanes of a warp that are there.

    `first`: the head of its block. `constants`: registers that are never written, and their values.
    """
    step = steps[branch]
    if step.op is not Op.BRANCH:
        return False
    return _alike(steps, first, branch, step.guard, constants)


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
