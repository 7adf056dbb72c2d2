"""Whether code goes on only when a wait for an mbarrier has passed.

test_wait and try_wait give a truth value; code waits if it tries again until that is true. In the
recorded run a wait passes at some round, and its order counts. Where the code would have gone on
after some number of rounds all the same (a bounded number of attempts, a result that nobody looks
at), that order is not there in other runs. So the code is followed from behind the wait with a
result that is false, both ways where a branch depends on anything else: it waits if all ways lead
back to the wait, or into a trap.
"""

from __future__ import annotations

from titan.isa.simt.arithmetic import function_of
from titan.isa.simt.control_flow import successors
from titan.isa.simt.operations import PURE, DecodedCode, DecodedStep, Op, PresetKind
from titan.isa.simt.undefined_results import open_test

STATES_MAX = 4000

Known = dict[int, int]  # registers whose values follow from the result that is false


def waits_until_passed(code: DecodedCode, wait: int) -> bool:
    """Whether every way on from a failed attempt at instruction `wait` tries again.

    Attempts at the same barrier elsewhere on the way fail, too; those at others may do either: a
    loop around several attempts ends when all have passed, in whatever order they do, as nothing
    that others see lies between. False where more than STATES_MAX states would have to be followed.
    """
    steps = code.steps
    constants = {
        preset.register: preset.value
        for preset in code.presets
        if preset.kind is PresetKind.CONSTANT
    }
    work: list[tuple[int, Known]] = [(wait + 1, _failed(steps[wait], {}))]
    seen: set[tuple[int, frozenset[tuple[int, int]]]] = set()
    while work:
        at, known = work.pop()
        state = at, frozenset(known.items())
        if at == wait or state in seen:
            continue
        seen.add(state)
        if at >= len(steps) or len(seen) > STATES_MAX:
            return False
        step = steps[at]
        guard = _holds(step, known, constants)
        if guard is False:
            work.append((at + 1, known))
        elif step.op is Op.TRAP or step.op is Op.BRANCH:
            ways = successors(steps, at, len(steps))
            if guard:
                ways = step.flags[:1] if step.op is Op.BRANCH else ()
            work += [(way, known) for way in ways]
        elif step.op is Op.BARRIER_WAIT and step.guard < 0:
            work.append((at + 1, _failed(step, known)))
            if not _same_barrier(step, steps[wait]):
                work.append((at + 1, _passed(step, known)))
        elif step.op in PURE:
            work.append((at + 1, _computed(step, known, constants, certain=guard is True)))
        else:
            return False  # it goes on: to an access, another wait, the end
    return True


def _failed(wait: DecodedStep, known: Known) -> Known:
    """What is known after an attempt that failed."""
    return {**known, **dict.fromkeys((r for r in wait.out if r >= 0), 0)}


def _passed(wait: DecodedStep, known: Known) -> Known:
    """What is known after an attempt that passed."""
    return {**known, **dict.fromkeys((r for r in wait.out if r >= 0), 1)}


def _same_barrier(step: DecodedStep, wait: DecodedStep) -> bool:
    return (step.flags[:2], step.args) == (wait.flags[:2], wait.args)


def _holds(step: DecodedStep, known: Known, constants: Known) -> bool | None:
    """Whether the guard of a step holds; None if that is not known."""
    if step.guard < 0:
        return True
    value = known.get(step.guard, constants.get(step.guard))
    return None if value is None else bool(value & 1) is not step.negated


def _computed(step: DecodedStep, known: Known, constants: Known, *, certain: bool) -> Known:
    """What is known after arithmetic; nothing of a result whose guard is not known."""
    left = {register: value for register, value in known.items() if register not in step.out}
    if not certain:
        return left
    values = [known.get(register, constants.get(register)) for register in step.args]
    found = _value(step, values)
    if found is not None:
        for place, register in enumerate(step.out[:2]):
            if register >= 0:
                left[register] = _part(step, found, place)
    return left


def _part(step: DecodedStep, found: int, place: int) -> int:
    """One of several results in the bits of a value."""
    if step.op is Op.CARRIED:
        return found >> step.bits if place else found & ((1 << step.bits) - 1)
    return found >> place & 1 if step.op is Op.SETP else found


def _value(step: DecodedStep, values: list[int | None]) -> int | None:
    """What a step computes; of some operations one operand is enough."""
    if step.op is Op.MOV:
        return values[0]
    if step.op is Op.AND and 0 in values:
        return 0
    if step.op is Op.OR and (1 << step.bits) - 1 in values:
        return (1 << step.bits) - 1
    if step.op is Op.SELP and values[2] is not None:
        return values[0] if values[2] & 1 else values[1]
    whole = [value for value in values if value is not None]
    if len(whole) < len(values):
        return None
    test = open_test(step)
    if test is not None and test(whole):
        return None
    try:
        return function_of(step)(*whole)
    except KeyError:
        return None
