"""Branches, joins, calls, exits, and lanes that meet for a collective instruction."""

from __future__ import annotations

from titan.isa.simt import events as ev
from titan.isa.simt.control_flow import NO_JOIN
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.operations import ALIGNED, DecodedStep, Op
from titan.isa.simt.outcome import Waiter
from titan.isa.simt.state import Blocked, Fragment, Join, Warp
from titan.isa.simt.values import Opaque, lane, lanes_of, opaque_at

ARM_STEPS_MAX = 100_000


# ------------------------------------------------------------------------------------ joins


def arrive_at_join(machine: SimtMachine, fragment: Fragment) -> None:
    """The fragment is where its lanes meet the others: it goes on when all are there."""
    while (join := fragment.join) is not None:
        if fragment.pc != join.pc or len(fragment.stack) != join.depth:
            return
        join.arrived |= fragment.mask
        if join.arrived != join.expected:
            _remove(fragment)
            return
        fragment.mask, fragment.join = join.arrived, join.parent
        fragment.warp.joins.remove(join)


def _remove(fragment: Fragment) -> None:
    fragment.dead = True
    fragment.warp.fragments.remove(fragment)


def leave_joins(fragment: Fragment, join: Join | None, mask: int) -> None:
    """The lanes will not come to these joins; who waits there for them alone goes on."""
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


# --------------------------------------------------------------------------------- branches


def branch(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute bra: jump, or split the fragment to rejoin at the branch's join."""
    target = step.flags[0]
    if mask == fragment.mask:
        fragment.pc = target
        return True
    rest = fragment.mask & ~mask
    split(fragment, [(rest, fragment.pc + 1), (mask, target)], machine.code.joins[fragment.pc])
    return True


def branch_indexed(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute brx.idx: split by target; skipped on an opaque index, a fault outside the table."""
    value = fragment.warp.registers[step.args[0]]
    places: dict[int, int] = {}
    marks = machine.mark_of(fragment.warp, step.args[0])
    if marks:
        machine.steered(fragment, marks, "branch")
    for index in lanes_of(mask):
        item = lane(value, index)
        if isinstance(item, Opaque):
            skip_branch(machine, fragment, step)
            return True
        if item >= len(step.flags):
            machine.fault(fragment, f"index {item} is outside of the table of the branch")
        places[step.flags[item]] = places.get(step.flags[item], 0) | 1 << index
    rest = fragment.mask & ~mask
    parts = [(lanes, pc) for pc, lanes in places.items()]
    if rest:
        parts.insert(0, (rest, fragment.pc + 1))
    if len(parts) == 1:
        fragment.pc = parts[0][1]
    else:
        split(fragment, parts, machine.code.joins[fragment.pc])
    return True


def skip_branch(machine: SimtMachine, fragment: Fragment, step: DecodedStep) -> None:
    """A branch on opaque data: pass over its region, whatever it does is opaque afterwards."""
    pc = fragment.pc
    join, region = machine.code.joins[pc], machine.code.regions[pc]
    register = step.guard if step.guard >= 0 else step.args[0]
    why = machine.describe(fragment.warp.registers[register], fragment.mask)
    if join == NO_JOIN:
        machine.refuse(fragment, f"a branch whose arms do not meet depends on {why}")
    if region.refused >= 0:
        machine.refuse(
            fragment,
            f"a branch depends on {why}, and instruction {region.refused} in its arms synchronises",
        )
    if region.accesses and region.cyclic:
        machine.refuse(fragment, f"a loop that accesses memory depends on {why}")
    if region.accesses:
        _both_arms(machine, fragment, step, join, ARM_STEPS_MAX)
    for written in region.written:
        machine.write(fragment.warp, written, opaque_at(pc), fragment.mask)
    machine.record(ev.Skipped, fragment, fragment.mask, join, len(region.written), ())
    fragment.pc = join


def _both_arms(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, join: int, budget: int
) -> int:
    """Execute every arm of a branch for its accesses; what is stored is opaque. The registers are
    put back for each arm. Gives what is left of the budget.
    """
    warp, pc, before = fragment.warp, fragment.pc, machine.maybe
    machine.maybe = True
    starts = [pc + 1, step.flags[0]] if step.op is Op.BRANCH else list(dict.fromkeys(step.flags))
    if step.op is Op.BRANCH_INDEXED and step.guard >= 0:
        starts.append(pc + 1)
    kept = {register: warp.registers[register] for register in machine.code.regions[pc].written}
    for start in starts:
        fragment.pc = start
        budget = _arm(machine, fragment, join, budget)
        for register, value in kept.items():
            warp.registers[register] = value
    fragment.pc, machine.maybe = pc, before
    return budget


def _arm(machine: SimtMachine, fragment: Fragment, stop: int, budget: int) -> int:
    """Run from the fragment's instruction to `stop`; nested branches run all their arms."""
    while fragment.pc != stop:
        budget -= 1
        if budget < 0:
            machine.refuse(fragment, "the arms of a branch on opaque data are too long")
        machine.count += 1
        step = machine.steps[fragment.pc]
        if step.op is Op.BRANCH:
            taken, maybe = (
                machine.guarded(fragment.warp, step, fragment.mask)
                if step.guard >= 0
                else (fragment.mask, 0)
            )
            if maybe or taken not in (0, fragment.mask):
                join = machine.code.joins[fragment.pc]
                if join == NO_JOIN:
                    machine.refuse(fragment, "arms of a branch on opaque data do not meet")
                budget = _both_arms(machine, fragment, step, join, budget)
                for register in machine.code.regions[fragment.pc].written:
                    machine.write(fragment.warp, register, opaque_at(fragment.pc), fragment.mask)
                fragment.pc = join
            else:
                fragment.pc = step.flags[0] if taken else fragment.pc + 1
            continue
        machine.step(fragment)
    return budget


# ----------------------------------------------------------------------- calls and exits


def call(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute call; refuses recursion and more than 64 nested calls (raises EndedRun)."""
    if mask != fragment.mask:
        rest = fragment.mask & ~mask
        split(fragment, [(mask, fragment.pc), (rest, fragment.pc + 1)], fragment.pc + 1)
    if len(fragment.stack) >= 64:
        machine.refuse(fragment, "calls are nested more than 64 deep")
    target, count = step.flags[:2]
    if any(
        back == fragment.pc + 1 for back, _ in fragment.stack
    ):  # registers and locals are static
        machine.refuse(fragment, "a function calls itself")
    copies = step.flags[2:]
    copy_local(machine, fragment, copies[: 3 * count])
    fragment.stack = (*fragment.stack, (fragment.pc + 1, copies[3 * count :]))
    fragment.pc = target
    return True


def copy_local(machine: SimtMachine, fragment: Fragment, copies: tuple[int, ...]) -> None:
    """Copy variables in the local memory of the lanes: triples (from, to, bytes)."""
    from titan.isa.simt.accesses import local_memory

    for place in range(0, len(copies), 3):
        source, target, size = copies[place : place + 3]
        for index in lanes_of(fragment.mask):
            memory = local_memory(machine, fragment.warp, index)
            memory.data[target : target + size] = memory.data[source : source + size]
            memory.state[target : target + size] = memory.state[source : source + size]


def return_(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute ret: copy results back and leave the callee's joins; exit at the outermost level."""
    if not fragment.stack:
        return exit_(machine, fragment, step, mask)
    if mask != fragment.mask:
        rest = fragment.mask & ~mask
        split(fragment, [(mask, fragment.pc), (rest, fragment.pc + 1)], NO_JOIN)
    back, copies = fragment.stack[-1]
    copy_local(machine, fragment, copies)
    while fragment.join is not None and fragment.join.depth >= len(fragment.stack):
        leaving, fragment.join = fragment.join, fragment.join.parent
        leave(fragment, leaving, fragment.mask)
    fragment.stack = fragment.stack[:-1]
    fragment.pc = back
    return True


def exit_(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """The lanes end; barriers and joins do not wait for them any more."""
    warp = fragment.warp
    rest = fragment.mask & ~mask
    machine.record(ev.Exit, fragment, mask, in_flight(warp, mask))
    warp.live &= ~mask
    if rest:
        fragment.mask = rest
        fragment.pc += 1
    else:
        _remove(fragment)
    leave_joins(fragment, fragment.join, mask)
    for other in warp.fragments:
        if other.blocked is not None and other.blocked.collective:
            other.blocked = None
    from titan.isa.simt.rendezvous import settle_barriers

    settle_barriers(machine, warp.cta)
    return True


def in_flight(warp: Warp, mask: int) -> tuple[int, ...]:
    """Operations of the lanes that nobody has seen complete."""
    found = []
    for operation in warp.issued:
        seen = operation.seen | operation.reads_seen
        if operation.done:  # an mbarrier that it completed, or arrived at, may have told it
            seen |= operation.arrived
            if operation.queue is None or operation.completes:
                continue
        if operation.lanes & mask & ~seen:
            found.append(operation.number)
    return tuple(found)


def trap(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute trap: end the run with a fault (raises EndedRun)."""
    machine.fault(fragment, "the program executes `trap`")


# ----------------------------------------------------------------------------- collectives


def meet(machine: SimtMachine, fragment: Fragment, step: DecodedStep) -> bool:
    """Whether all lanes that take part in a collective instruction are here.

    If others wait at this instruction, they join this fragment. If some are missing, the fragment
    waits, and its turn is over.
    """
    warp = fragment.warp
    required = warp.live
    if step.op not in ALIGNED:
        item = lane(warp.registers[step.args[-1]], lanes_of(fragment.mask)[0])
        if isinstance(item, Opaque):
            machine.refuse(fragment, "the mask of members is not known")
        required &= item
    return gather(fragment, required)


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
        _remove(other)
    fragment.mask = union
    return True


def _missing(fragment: Fragment, required: int) -> Waiter:
    warp = fragment.warp
    return Waiter(
        warp.cta.number, warp.index, fragment.mask, fragment.pc, "warp",
        number=required, pending=(required & ~fragment.mask).bit_count(),
    )  # fmt: skip
