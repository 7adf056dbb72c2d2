"""Warps at tensor memory, and what setmaxnreg moves: operations that a warp or warpgroup executes.

A warp reaches the quarter of the lanes that its rank modulo 4 selects, so an agent of w < 4 warps
reaches w of every 4 parts of a tile that covers all lanes, whichever way the parts are cut. The
ranks of a role's warps are not known: which quarter an agent has is judged only by that it has no
second one. Columns are allocated and freed by one warp. Agents of one thread may be warps, unless
`by:` says otherwise. What a pool of registers counts is the file's (of a thread, a warp or a
warpgroup); multiples of 8 stay multiples in every unit.

Sources: PTX ISA, tcgen05.ld and st (access restrictions), tcgen05.alloc and dealloc (one warp of
the CTA), setmaxnreg (multiples of 8 from 24 to 256).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import counted, quoted
from titan.sync.expression import Constant, evaluate, names_of
from titan.sync.program import (
    Access,
    Asynchronous,
    Block,
    Branch,
    Effect,
    Loop,
    Operation,
    PoolGive,
    PoolTake,
    Role,
    Space,
    walk,
)
from titan.verify.legality.case import Case, plain
from titan.verify.legality.matrix import columns_of
from titan.verify.legality.rule import rule

Values = Mapping[str, int]
_BY_THREADS = ("tcgen05_ld", "tcgen05_st")  # products are of one thread, and reach all lanes
_PASSES_MAX = 8  # of a loop with constant bounds that are followed one by one


@rule("TTN425", "tensor_lanes", "threads_per_warp", "warps_per_warpgroup")
def lanes_within_reach(case: Case) -> Iterator[Diagnostic]:
    """A warp loads and stores the lanes of tensor memory that its rank selects, a quarter."""
    lanes, width = case.limits.number("tensor_lanes"), case.limits.number("threads_per_warp")
    most = case.limits.number("warps_per_warpgroup")
    if not lanes or not width or not most:
        return
    for role in case.program.roles:
        loads = any(True for item in walk(role.body) for _ in _by_threads(case, item))
        if role.threads < width or not loads:
            continue
        for agent in range(role.agents):
            yield from _of_agent(case, role, agent, (lanes, width, most))


def _of_agent(
    case: Case, role: Role, agent: int, sizes: tuple[int, int, int]
) -> Iterator[Diagnostic]:
    lanes, width, most = sizes
    reached: dict[str, set[int]] = {}
    for item, values in _executed(role.body, {role.agent_constant: agent}):
        warps = 1 if item.by == "warp" else role.threads // width
        for effect in _by_threads(case, item) if warps < most else ():
            memory = case.memories[plain(effect.buffer)]
            tile, parts = memory.layout.tile, memory.buffer.parts
            if len(tile) != 2 or tile[0] < lanes:
                continue
            seen = reached.setdefault(effect.buffer, set())
            seen |= _parts(effect, parts, values)
            if len(seen) * most > parts * warps:
                what = counted(warps, "warp")
                headline = f"{what} of {quoted(plain(role.name))} "
                headline += f"reach{'es' if warps == 1 else ''} {warps * lanes // most} of the "
                headline += f"{lanes} lanes of {quoted(plain(effect.buffer))}, and no more"
                helps = (f"load a quarter in each of {most} warps (`parts: {most}`), or let a "
                         "warpgroup load",)  # fmt: skip
                yield case.fault("TTN425", headline, item.span, source="tensor_lanes", helps=helps)
                return


def _by_threads(case: Case, item: Operation) -> Iterator[Effect]:
    """The accesses to tensor memory that threads make (tcgen05.ld, st)."""
    if isinstance(item, Asynchronous) and case.queue_kind(item.queue) not in _BY_THREADS:
        return
    for effect in item.effects if isinstance(item, Access | Asynchronous) else ():
        if case.space_of(effect) is Space.TENSOR:
            yield effect


def _parts(effect: Effect, parts: int, values: Values) -> set[int]:
    """The parts that an effect touches at least."""
    if effect.part is None:
        return set(range(parts))
    if names_of(effect.part) <= values.keys():
        return {evaluate(effect.part, dict(values))}
    return set()


def _executed(block: Block, values: Values) -> Iterator[tuple[Operation, Values]]:
    """What one agent executes, as far as its constant decides; short loops pass by pass."""
    for item in block:
        if isinstance(item, Loop):
            start, stop = item.start, item.stop
            passes: range | None = None
            if isinstance(start, Constant) and isinstance(stop, Constant):
                passes = range(start.value, stop.value)[:_PASSES_MAX]
            if passes is None:
                rest = {name: value for name, value in values.items() if name != item.variable}
                yield from _executed(item.body, rest)
            for number in passes or ():
                yield from _executed(item.body, {**values, item.variable: number})
        elif isinstance(item, Branch):
            known = names_of(item.condition) <= values.keys()
            taken = evaluate(item.condition, dict(values)) if known else None
            yield from _executed(item.then, values) if taken or taken is None else ()
            yield from _executed(item.otherwise, values) if not taken else ()
        else:
            yield item, values


@rule("TTN433", "tensor_alloc", "threads_per_warp")
def columns_are_allocated_by_a_warp(case: Case) -> Iterator[Diagnostic]:
    """One warp allocates columns of tensor memory, and one frees them."""
    width = case.limits.number("threads_per_warp")
    if case.limits.numbers("tensor_alloc") is None or not width:
        return
    kinds = dict(case.kernel.placement.kinds)
    source = "PTX, tcgen05.alloc: one warp of the CTA allocates and frees; .sync.aligned"
    for role, item in case.operations:
        if not isinstance(item, PoolTake | PoolGive) or kinds.get(plain(item.pool)) != "tensor":
            continue
        verb = "allocates" if isinstance(item, PoolTake) else "frees"
        if item.by == "thread":
            headline = f"one thread {verb} columns of tensor memory, which takes a warp"
        elif role.threads > width and item.by != "warp":
            headline = f"an agent of {role.threads} threads {verb} columns of tensor memory: "
            headline += f"{role.threads // width} warps would each do so"
        else:
            if role.threads < width:
                case.assume("agents of one thread that allocate columns of tensor memory are warps")
            continue
        helps = ("write `by: warp`, or give the operation to a role of one warp",)
        yield case.fault("TTN433", headline, item.span, source=source, helps=helps)


@rule("TTN418", "tensor_alloc", "tensor_lanes")
def columns_hold_what_is_used(case: Case) -> Iterator[Diagnostic]:
    """A CTA that allocates columns allocates at least those of its tensor memory."""
    if case.limits.numbers("tensor_alloc") is None or not case.kernel.placed:
        return
    kinds = dict(case.kernel.placement.kinds)
    used: dict[str, int] = {}
    for memory in case.memories.values():
        if memory.buffer.space is Space.TENSOR:
            storage = plain(memory.buffer.storage or memory.buffer.name)
            needed = memory.buffer.stages * columns_of(case, memory)
            used[storage] = max(used.get(storage, 0), needed)
    for cta in case.ctas:
        taken = [
            (role, item)
            for role, item in case.operations
            if role.cta == cta and isinstance(item, PoolTake)
            if kinds.get(plain(item.pool)) == "tensor"
        ]
        amounts = [
            role.agents * item.amount.value
            for role, item in taken
            if isinstance(item.amount, Constant)
        ]
        if taken and len(amounts) == len(taken) and sum(amounts) < sum(used.values()):
            headline = f"{counted(sum(amounts), 'column')} of tensor memory are allocated, and "
            headline += f"its buffers have {sum(used.values())}"
            yield case.fault("TTN418", headline, taken[-1][1].span, source="tensor_alloc")
            return


@rule("TTN406", "setmaxnreg", "registers_total", "warps_per_warpgroup", "threads_per_warp")
def register_amounts_move(case: Case) -> Iterator[Diagnostic]:
    """What setmaxnreg gives and takes is a multiple of 8 registers, within its bounds."""
    bounds, total = case.limits.numbers("setmaxnreg"), case.limits.number("registers_total")
    width, warps = case.limits.number("threads_per_warp"), case.limits.number("warps_per_warpgroup")
    if bounds is None or not width or not warps:
        return
    kinds = dict(case.kernel.placement.kinds)
    low, high, step = bounds
    for pool in case.program.pools:
        registers = kinds.get(plain(pool.name)) != "tensor"
        if registers and total and pool.available > total:
            headline = f"{quoted(plain(pool.name))} has {pool.available} registers; a CTA has "
            yield case.fault("TTN406", f"{headline}{total}", pool.span, source="registers_total")
    for role, item in case.operations:
        if not isinstance(item, PoolTake | PoolGive) or kinds.get(plain(item.pool)) == "tensor":
            continue
        threads = max(role.threads, width * warps)
        for amount in case.values_of(item, item.amount):
            if amount < 0:
                continue  # the engines report it
            if amount % step:
                headline = f"{amount} registers are moved; setmaxnreg moves multiples of {step}"
            elif amount > (high - low) * threads:
                headline = f"{amount} registers are moved by {threads} threads at once; setmaxnreg "
                headline += f"goes from {low} to {high} registers a thread"
            else:
                continue
            yield case.fault("TTN406", headline, item.span, source="setmaxnreg")
            break
