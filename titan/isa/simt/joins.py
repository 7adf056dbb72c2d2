"""Lanes of a warp that part and meet again: joins of branches, and collective instructions."""

from __future__ import annotations

from titan.isa.simt.control_flow import NO_JOIN
from titan.isa.simt.operations import ALIGNED, DecodedStep
from titan.isa.simt.outcome import Waiter
from titan.isa.simt.recorder import Recorder
from titan.isa.simt.state import Blocked, Fragment, Join
from titan.isa.simt.values import Opaque, lane, lanes_of


def arrive_at_join(fragment: Fragment) -> None:
    """The fragment is where its lanes meet the others: it continues when all have arrived."""
    while (join := fragment.join) is not None:
        if fragment.pc != join.pc or len(fragment.stack) != join.depth:
            return
        join.arrived |= fragment.mask
        if join.arrived != join.expected:
            remove(fragment)
            return
        fragment.mask, fragment.join = join.arrived, join.parent
        fragment.warp.joins.remove(join)


def remove(fragment: Fragment) -> None:
    """End the fragment; its lanes continue in another one, or not at all."""
    fragment.dead = True
    fragment.warp.fragments.remove(fragment)


def leave_joins(fragment: Fragment, join: Join | None, mask: int) -> None:
    """The lanes will not come to these joins; lanes that wait there for them alone continue."""
    while join is not None:
        leave(fragment, join, mask)
        join = join.parent


def leave(fragment: Fragment, join: Join, mask: int) -> None:
    """The lanes will not come to one join."""
    warp = fragment.warp
    join.expected &= ~mask
    if join in warp.joins and join.arrived == join.expected:
        warp.joins.remove(join)
        if join.expected:
            stack = fragment.stack[: join.depth]
            warp.fragments.append(Fragment(warp, join.arrived, join.pc, join.parent, stack))


def split(fragment: Fragment, parts: list[tuple[int, int]], meet_at: int) -> None:
    """Divide a fragment into parts (mask, pc); the first one stays this fragment."""
    warp, join = fragment.warp, fragment.join
    depth = len(fragment.stack)
    if meet_at != NO_JOIN and not (join and join.pc == meet_at and join.depth == depth):
        join = Join(meet_at, depth, fragment.mask, 0, join, warp)
        warp.joins.append(join)
    fragment.mask, fragment.pc = parts[0]
    fragment.join = join
    for mask, pc in parts[1:]:
        warp.fragments.append(Fragment(warp, mask, pc, join, fragment.stack))


# ----------------------------------------------------------------------------- collectives


def meet(machine: Recorder, fragment: Fragment, step: DecodedStep) -> bool:
    """Whether all lanes that take part in a collective instruction are here.

    If others wait at this instruction, they join this fragment. If some are missing, the fragment
    waits, and others run. Lanes that name other members, such as those of halves of a warp, execute
    the instruction in groups, one after the other.
    """
    required = fragment.warp.live
    if step.op not in ALIGNED:
        groups = _groups(machine, fragment, step.args[-1])
        if len(groups) > 1 and all(
            members & fragment.mask == lanes for members, lanes in groups.items()
        ):
            here = fragment.pc
            split(fragment, [(lanes, here) for lanes in groups.values()], here + 1)
        required &= next(iter(groups))
    return gather(fragment, required)


def _groups(machine: Recorder, fragment: Fragment, register: int) -> dict[int, int]:
    """The lanes that name the same members, by member mask, in the order of their first lanes."""
    value = fragment.warp.registers[register]
    lanes = lanes_of(fragment.mask)
    found: dict[int, int] = {}
    for index in lanes if isinstance(value, list) else lanes[:1]:
        item = lane(value, index)
        if isinstance(item, Opaque):
            machine.refuse(fragment, "the mask of members is not known")
        found[item] = found.get(item, 0) | 1 << index
    return found


def gather(fragment: Fragment, required: int) -> bool:
    """As `meet`, for the lanes of a mask."""
    warp = fragment.warp
    if not required & ~fragment.mask:
        return True
    others = [
        other
        for other in warp.fragments
        if other is not fragment
        and other.pc == fragment.pc
        and other.blocked is not None
        and other.blocked.collective
        and other.stack == fragment.stack
    ]
    union = fragment.mask
    for other in others:
        union |= other.mask
    if required & ~union:

        def waiter() -> Waiter:
            return _missing(fragment, required)

        fragment.blocked = Blocked(lambda: False, lambda: None, waiter, collective=True)
        return False
    for other in others:
        if other.join is not fragment.join:
            leave_joins(other, other.join, other.mask)
            join = fragment.join
            while join is not None:
                join.expected |= other.mask
                join = join.parent
        remove(other)
    fragment.mask = union
    return True


def _missing(fragment: Fragment, required: int) -> Waiter:
    warp = fragment.warp
    return Waiter(
        warp.cta.number, warp.index, fragment.mask, fragment.pc, "warp",
        number=required, pending=(required & ~fragment.mask).bit_count(),
    )  # fmt: skip
