"""Loads whose values a wgmma takes in registers: they are over when its group is complete.

A product reads the registers of A when it executes, and a load into them is over before that. So
who knows that the group of a product is complete knows also that shared memory from which its
warps have loaded these registers may be overwritten. CUTLASS's products of mixed types and JAX's
rest on that: a warp loads and converts A, and another one of the warpgroup releases the stage.

The value of a load has to come to the registers of A of a product on every way from the load to
it, through whatever computes with registers, and nothing may be written over it under a guard;
this is found in the code, not in the run. Then the load is made one more read of the product, which
lasts until the product is complete, longer than it does. What is verified so is right.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from titan.engines.happens_before.engine import OrderResult
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.order_of_run import order_of_run
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.record import LaunchRecording, Locate, record_together
from titan.isa.simt import events as ev
from titan.isa.simt.control_flow import successors
from titan.isa.simt.footprints import Footprint, MemorySpace
from titan.isa.simt.operations import DecodedCode, DecodedStep, Op
from titan.isa.simt.outcome import Run

STATES_MAX = 4000
_LEAVING = (Op.CALL, Op.RETURN)  # the registers of another function are others


def with_register_operands(run: Run) -> tuple[Run, int] | None:
    """The run whose products also read what is loaded into their registers, and the first such
    product; None where there is none.
    """
    if run.prepared is None:
        return None
    code = run.prepared.code

    @cache
    def passed(load: int, product: int) -> bool:
        return comes_to(code, load, product)

    loads: dict[tuple[int, int], list[ev.AccessEvent]] = {}
    taken: dict[int, list[ev.AccessEvent]] = {}
    for event in run.order or run.events:
        key = event.cta, event.warp
        if isinstance(event, ev.AccessEvent):
            if event.mode is ev.Mode.READ and event.footprint.space is MemorySpace.SHARED:
                loads.setdefault(key, []).append(event)
        elif _takes_registers(event):
            pending = loads.pop(key, [])
            found = [one for one in pending if passed(one.instruction, event.instruction)]
            gone = {one.sequence for one in found}
            loads[key] = [one for one in pending if one.sequence not in gone]
            if found:
                taken[event.sequence] = found
    effects = {
        sequence: tuple(
            ev.RecordedEffect(event.footprint, ev.Mode.READ, ev.AccessProxy.GENERIC)
            for event in found
            if not _read_besides(event, loads.get((event.cta, event.warp), []))
        )
        for sequence, found in taken.items()
    }
    products = [sequence for sequence, reads in effects.items() if reads]
    if not products:
        return None
    events = tuple(_reading(event, effects) for event in run.events)
    order = tuple(_reading(event, effects) for event in run.order)
    return replace(run, events=events, order=order), run.events[products[0]].instruction


def _read_besides(event: ev.AccessEvent, others: list[ev.AccessEvent]) -> bool:
    """Whether a load that no product takes reads some of the same bytes: when that one is over is
    not known, and the engine sees the newest read of the warp alone.
    """
    return any(_common(event.footprint, other.footprint) for other in others)


def _common(one: Footprint, other: Footprint) -> bool:
    if one.cta != other.cta:
        return False
    return any(
        low < beyond and lower < high
        for low, high in one.ranges()
        for lower, beyond in other.ranges()
    )


def order_with_operands(
    run: Run,
    recorded: tuple[str, str, Locate, CodePolicies, int | None, int],
    policies: CodePolicies,
) -> tuple[LaunchRecording, OrderResult] | None:
    """The recording and the verdict where such reads of products verify the run; else None.

    `recorded`: what `record_together` is given behind the runs. Where the groups of a warpgroup
    have no common completion, another warp knows nothing of the product, and there is nothing to
    verify.
    """
    found = with_register_operands(run) if recorded[-1] else None
    if found is None:
        return None
    form, first = found
    (recording,) = record_together([form], *recorded)
    order = order_of_run(form, recording, policies, show=False)
    if order is None or order.verdict is not Verdict.VERIFIED:
        return None
    return replace(recording, remarks={**recording.remarks, "register-operands": (1, first)}), order


def _takes_registers(event: ev.Event) -> bool:
    return (
        isinstance(event, ev.AsynchronousEvent)
        and event.kind is ev.RecordedOperation.WGMMA
        and bool(event.sources)
    )


def _reading(event: ev.Event, effects: dict[int, tuple[ev.RecordedEffect, ...]]) -> ev.Event:
    if isinstance(event, ev.AsynchronousEvent) and event.sequence in effects:
        return replace(event, effects=(*event.effects, *effects[event.sequence]))
    return event


def comes_to(code: DecodedCode, load: int, product: int) -> bool:
    """Whether what instruction `load` gives is in the registers of A of `product` on every way to
    it. False where a way would have to be followed through more than STATES_MAX states.
    """
    steps = code.steps
    work = [(load + 1, frozenset(register for register in steps[load].out if register >= 0))]
    seen: set[tuple[int, frozenset[int]]] = set()
    comes = False
    while work:
        at, holding = state = work.pop()
        if at >= len(steps) or state in seen:
            continue
        seen.add(state)
        step = steps[at]
        if at == product:
            if not holding & set(_operand(step)):
                return False
            comes = True
            continue
        if step.op in _LEAVING or not holding or len(seen) > STATES_MAX:
            return False
        held = _behind(step, holding)
        work += [(following, held) for following in successors(steps, at, len(steps))]
    return comes


def _operand(step: DecodedStep) -> tuple[int, ...]:
    """The registers of A; none where A lies in shared memory."""
    return step.args[2:] if step.op is Op.WGMMA and step.flags[4] else ()


def _behind(step: DecodedStep, holding: frozenset[int]) -> frozenset[int]:
    """The registers that hold what rests on the load, behind a step."""
    if not holding.intersection(step.out) and not holding.intersection(step.args):
        return holding
    written = {register for register in step.out if register >= 0}
    rests = bool(holding.intersection(step.args)) and step.op is not Op.WGMMA
    if step.guard >= 0:
        return holding if rests else holding - written
    return holding | written if rests else holding - written
