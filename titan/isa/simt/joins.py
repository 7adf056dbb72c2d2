"""Lanes of a warp that part and meet again: joins of branches, and collective instructions."""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.control_flow import NO_JOIN
from titan.isa.simt.operations import ALIGNED, MEETINGS, DecodedStep, Op
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
    spared = fragment.spared
    fragment.mask, fragment.pc = parts[0]
    fragment.join = join
    fragment.spared = spared if fragment.pc != meet_at else None
    for mask, pc in parts[1:]:
        part = Fragment(warp, mask, pc, join, fragment.stack)
        part.spared = spared if pc != meet_at else None
        warp.fragments.append(part)


# ----------------------------------------------------------------------------- collectives


def meet(machine: Recorder, fragment: Fragment, step: DecodedStep) -> bool:
    """Whether all lanes that take part in a collective instruction are here.

    If others wait at this instruction, they join this fragment. If some are missing, the fragment
    waits, and others run. Lanes that name other members, such as those of halves of a warp, execute
    the instruction in groups, one after the other.
    """
    required = fragment.warp.live
    if step.op not in ALIGNED:
        groups = member_groups(machine, fragment, step.args[-1], fragment.mask)
        if len(groups) > 1 and all(
            members & fragment.mask == lanes for members, lanes in groups.items()
        ):
            here = fragment.pc
            split(fragment, [(lanes, here) for lanes in groups.values()], here + 1)
        required &= next(iter(groups))
    return gather(fragment, required)


def member_groups(
    machine: Recorder, fragment: Fragment, register: int, mask: int
) -> dict[int, int]:
    """The lanes that name the same members, by member mask, in the order of their first lanes."""
    value = fragment.warp.registers[register]
    found: dict[int, int] = {}
    for index in lanes_of(mask):
        item = lane(value, index)
        if isinstance(item, Opaque):
            machine.refuse(fragment, "the mask of members is not known")
        if not isinstance(value, list):
            return {item: mask}
        found[item] = found.get(item, 0) | 1 << index
    return found


def check_members(machine: Recorder, fragment: Fragment, step: DecodedStep, mask: int) -> None:
    """Record a collective instruction that the lanes of a mask may not execute.

    `.aligned`: all lanes that the warp was launched with execute it; of a barrier those that have
    not ended (PTX, mma, ldmatrix, wgmma, tcgen05.ld, setmaxnreg: "all threads in the warp must
    execute the same"; barrier: "evaluate the condition identically"). With a member mask: a lane
    that executes it is a member, and the members that are here execute it with that mask (PTX,
    shfl.sync, vote.sync, match.sync, redux.sync, elect.sync, bar.warp.sync). Lanes that a
    bar.warp.sync does not name are seen at its meeting.
    """
    warp = fragment.warp
    if step.op in MEETINGS:
        wrong = step.flags[1] and mask != fragment.mask
        expected = warp.live
    elif step.op in ALIGNED:
        wrong, expected = mask != warp.launched, warp.launched
    else:
        strangers = step.op is not Op.WARP_SYNC
        for members, lanes in member_groups(machine, fragment, step.args[-1], mask).items():
            if (strangers and lanes & ~members) or members & fragment.mask & ~lanes:
                machine.record(ev.PartialCollective, fragment, lanes, members)
        return
    if wrong:
        machine.record(ev.PartialCollective, fragment, mask, expected)


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
