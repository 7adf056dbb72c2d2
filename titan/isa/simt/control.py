"""Branches, calls and exits."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection
from typing import NamedTuple

from titan.isa.simt import events as ev
from titan.isa.simt.accesses import local_memory
from titan.isa.simt.arithmetic import signed
from titan.isa.simt.control_flow import NO_JOIN
from titan.isa.simt.joins import leave, leave_joins, remove, split
from titan.isa.simt.machine import SimtMachine
from titan.isa.simt.memory import OPAQUE
from titan.isa.simt.operations import DecodedStep, Op, SkippedRegion
from titan.isa.simt.rendezvous import forget_arrivals, settle_barriers
from titan.isa.simt.state import POLL, Fragment, Warp
from titan.isa.simt.values import Opaque, Value, lane, lanes_of, opaque_at

ARM_STEPS_MAX = 100_000


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
    if (join == NO_JOIN or region.refused >= 0) and _whole_warp(machine, fragment, step):
        taken = machine.decided(fragment, step)
        if taken is not None:
            fragment.pc = step.flags[0] if taken else pc + 1
            return
    if join == NO_JOIN:
        machine.refuse(fragment, f"a branch whose arms do not meet depends on {why}")
    if region.refused >= 0:
        machine.refuse(
            fragment,
            f"a branch depends on {why}, and instruction {region.refused} in its arms synchronises",
        )
    if region.trapped and machine.computes:
        machine.refuse(fragment, f"{why} decides whether a trap is reached")
    polled: dict[int, tuple[Value, int, int]] = {}
    if region.blocks:
        _each_block(machine, fragment, step, region)
    elif region.accesses:
        polled = _both_arms(machine, fragment, step, join, ARM_STEPS_MAX)[1]
    else:
        _forget_stored(machine, fragment, region)
    for written in region.written:
        if written in polled:
            machine.write(fragment.warp, written, *polled[written])
        else:
            machine.write(fragment.warp, written, opaque_at(pc), fragment.mask)
    machine.record(ev.Skipped, fragment, fragment.mask, join, len(region.written), ())
    fragment.pc = join


def _whole_warp(machine: SimtMachine, fragment: Fragment, step: DecodedStep) -> bool:
    """Whether all lanes of the warp that are left come to a branch, and none knows its guard."""
    mask = fragment.mask
    if step.op is not Op.BRANCH or mask != fragment.warp.live:
        return False
    return machine.guarded(fragment.warp, step, mask) == (0, mask)


def _forget_stored(machine: SimtMachine, fragment: Fragment, region: SkippedRegion) -> None:
    """What arms that are not executed may store to the memory of the lanes is unknown."""
    parts = region.stores
    for register, offset, size in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        value: Value = opaque_at(-1) if register < 0 else fragment.warp.registers[register]
        for index in lanes_of(fragment.mask):
            memory, item = local_memory(machine, fragment.warp, index), lane(value, index)
            if isinstance(item, Opaque):
                memory.fill(0, memory.size, OPAQUE)
            else:
                memory.fill(signed((item + offset) & 0xFFFFFFFFFFFFFFFF, 64), size, OPAQUE)


def _each_block(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, region: SkippedRegion
) -> None:
    """A loop on opaque data: each of its instructions once for each lane, for its accesses.

    What the loop writes is unknown at the head of each block, and what it loads is unknown, so that
    addresses are those of any round, or unknown. Lanes come to a block where no guard that is known
    keeps them from it. That the loop ends is assumed. The blocks of functions that are called there
    are executed in the same way (`called_functions.py`).
    """
    pc, mask = fragment.pc, fragment.mask
    before = machine.maybe, machine.looping, machine.parted, machine.arm_start
    machine.maybe = machine.looping = True
    machine.parted = machine.parted or not region.alike
    machine.arm_start = machine.operations
    ends = dict(zip(region.blocks[::2], region.blocks[1::2], strict=True))
    reached = dict.fromkeys(ends, 0)
    waiting = _ways(machine, fragment, step)
    fragment.warp.uses.enter_arms(not region.alike)
    while waiting:
        low, lanes = waiting.pop(0)
        lanes &= ~reached.get(low, mask)
        if not lanes:
            continue
        reached[low] |= lanes
        for register in region.written:
            machine.write(fragment.warp, register, opaque_at(pc), mask)
        fragment.pc, fragment.mask = low, lanes
        waiting += _block(machine, fragment, ends[low])
    fragment.warp.uses.end_arm()
    fragment.warp.uses.leave_arms()
    fragment.pc, fragment.mask = pc, mask
    machine.maybe, machine.looping, machine.parted, machine.arm_start = before


def _block(machine: SimtMachine, fragment: Fragment, end: int) -> list[tuple[int, int]]:
    """Execute a block of a loop on data; where its lanes go from there."""
    called: list[tuple[int, int]] = []
    while fragment.pc < end:
        at, step = fragment.pc, machine.steps[fragment.pc]
        machine.count += 1
        if step.op in (Op.BRANCH, Op.BRANCH_INDEXED):
            return [*called, *_ways(machine, fragment, step)]
        if step.op is Op.RETURN:
            return called
        if step.op is Op.CALL:
            _forget_copied(machine, fragment, step)
            called.append((step.flags[0], fragment.mask))
            fragment.pc += 1
            continue
        if step.op is Op.FENCE:
            fragment.pc += 1
            continue
        machine.step(fragment)
        if step.op is Op.LOAD:
            for register in step.out:
                machine.write(fragment.warp, register, opaque_at(at), fragment.mask)
    return [*called, (end, fragment.mask)]


def _forget_copied(machine: SimtMachine, fragment: Fragment, step: DecodedStep) -> None:
    """Arguments and results of a call are not known."""
    copies = step.flags[2:]
    for target, size in zip(copies[1::3], copies[2::3], strict=True):
        for index in lanes_of(fragment.mask):
            local_memory(machine, fragment.warp, index).fill(target, size, OPAQUE)


def _ways(machine: SimtMachine, fragment: Fragment, step: DecodedStep) -> list[tuple[int, int]]:
    """Where a branch may lead the lanes: instructions and lanes; opaque lanes go every way."""
    holds, maybe = fragment.mask, 0
    if step.guard >= 0:
        holds, maybe = machine.guarded(fragment.warp, step, fragment.mask)
    ways = [(target, holds | maybe) for target in dict.fromkeys(step.flags)]
    if step.op is Op.BRANCH:
        ways = ways[:1]
    return [*ways, (fragment.pc + 1, fragment.mask & ~holds)]


def _both_arms(
    machine: SimtMachine, fragment: Fragment, step: DecodedStep, join: int, budget: int
) -> tuple[int, dict[int, tuple[Value, int, int]]]:
    """Execute every arm of a branch for its accesses, with the lanes that may take it; what is
    stored is opaque. The registers are restored for each arm. Returns the rest of the budget, and
    the registers that are known behind the arms as they rest on attempts to wait (`_polled`): their
    values, lanes and marks.

    What an arm does is in the recording as if it were taken. A run in which it is not has fewer
    accesses and the same order of all others, since an arm synchronises with nobody and waits for
    nothing that was started before it (`SimtMachine.check_arm`).
    """
    warp, pc, mask = fragment.warp, fragment.pc, fragment.mask
    before = machine.maybe, machine.arm_start
    ways = _ways(machine, fragment, step)
    if step.op is Op.BRANCH:
        ways.reverse()
    machine.maybe = True
    kept = {register: warp.registers[register] for register in machine.code.regions[pc].written}
    marks = {register: warp.marks[register] for register in kept if register in warp.marks}
    ends: list[_ArmEnd] = []
    warp.uses.enter_arms(not machine.code.regions[pc].alike)
    for start, lanes in ways:
        passed = machine.passed_in_arms
        if lanes:
            fragment.pc, fragment.mask = start, lanes
            machine.arm_start = machine.operations
            budget = _arm(machine, fragment, join, budget)
        ends.append(_ArmEnd.of(warp, kept, machine.passed_in_arms > passed))
        for register, value in kept.items():
            warp.registers[register] = value
            warp.marks.pop(register, None)
        warp.marks |= marks
        warp.uses.end_arm()
    warp.uses.leave_arms()
    fragment.pc, fragment.mask = pc, mask
    machine.maybe, machine.arm_start = before
    return budget, _polled(ends, mask)


class _ArmEnd(NamedTuple):
    """What the registers that arms write hold behind one of them, and the marks of those that rest
    on attempts to wait; `passed`: whether an attempt in it has passed."""

    values: dict[int, Value]
    polled: dict[int, int]
    passed: bool

    @staticmethod
    def of(warp: Warp, registers: Collection[int], passed: bool) -> _ArmEnd:
        marks = {r: warp.marks.get(r, 0) for r in registers}
        polled = {register: mark for register, mark in marks.items() if mark & POLL}
        return _ArmEnd({r: warp.registers[r] for r in registers}, polled, passed)


def _polled(ends: list[_ArmEnd], mask: int) -> dict[int, tuple[Value, int, int]]:
    """The registers that rest on attempts to wait, where they are known behind the arms: those that
    every arm leaves the same, and in a run in which attempts may pass, what the arm leaves in which
    one has, as if it were taken. Whichever arm data choose, an attempt decides what is waited for
    later and nothing else (`PollSteered`), and that is in the runs in which it fails.
    """
    found: dict[int, tuple[Value, int, int]] = {}
    passed = [end for end in ends if end.passed]
    for register in {register for end in ends for register in end.polled}:
        columns = [[lane(end.values[register], index) for index in lanes_of(mask)] for end in ends]
        chosen = ends[0]
        if any(column != columns[0] for column in columns):
            if len(passed) != 1 or register not in passed[0].polled:
                continue
            chosen = passed[0]
        value = chosen.values[register]
        if not any(isinstance(lane(value, index), Opaque) for index in lanes_of(mask)):
            marks = functools.reduce(operator.or_, (e.polled.get(register, 0) for e in ends))
            found[register] = value, mask, marks
    return found


def _arm(machine: SimtMachine, fragment: Fragment, stop: int, budget: int) -> int:
    """Run from the fragment's instruction to `stop`; nested branches run all their arms."""
    while fragment.pc != stop:
        budget -= 1
        if budget < 0:
            machine.refuse(fragment, "the arms of a branch on opaque data are too long")
        machine.count += 1
        step = machine.steps[fragment.pc]
        if step.op is Op.FENCE and step.flags[0] == ev.RecordedFence.MEMORY:
            fragment.pc += 1
            continue
        if step.op is Op.BRANCH:
            if step.guard >= 0:
                machine.check_guard(fragment, step)
            taken, maybe = (
                machine.guarded(fragment.warp, step, fragment.mask)
                if step.guard >= 0
                else (fragment.mask, 0)
            )
            if maybe or taken not in (0, fragment.mask):
                join = machine.code.joins[fragment.pc]
                region = machine.code.regions[fragment.pc]
                if join == NO_JOIN:
                    machine.refuse(fragment, "arms of a branch on opaque data do not meet")
                if region.refused >= 0 or region.trapped:
                    machine.refuse(fragment, "an arm of a branch on opaque data divides the warp")
                budget, _ = _both_arms(machine, fragment, step, join, budget)
                for register in region.written:
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
    for place in range(0, len(copies), 3):
        source, target, size = copies[place : place + 3]
        for index in lanes_of(fragment.mask):
            local_memory(machine, fragment.warp, index).copy(source, target, size)


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
    forget_arrivals(warp, mask)
    warp.live &= ~mask
    if rest:
        fragment.mask = rest
        fragment.pc += 1
    else:
        remove(fragment)
    leave_joins(fragment, fragment.join, mask)
    for other in warp.fragments:
        if other.blocked is not None and other.blocked.collective:
            other.blocked = None
    settle_barriers(machine, warp.cta)
    return True


def in_flight(warp: Warp, mask: int) -> tuple[int, ...]:
    """Operations of the lanes whose completion no lane has seen."""
    found = []
    for operation in warp.issued:
        seen = operation.seen | operation.reads_seen
        if operation.done:  # seen by a wait for an mbarrier that it completed, or arrived at
            seen |= operation.arrived
            if operation.queue is None or operation.completes:
                continue
        if operation.lanes & mask & ~seen:
            found.append(operation.number)
    return tuple(found)


def trap(machine: SimtMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """Execute trap: end the run with a fault (raises EndedRun)."""
    machine.fault(fragment, "the program executes `trap`")
