"""AMD: what a wave must wait for before others may rely on it, and waits that wait for nothing.

Of stores without a counter a warning, since compilers insert waits where they see the access (LLVM
does not where an LDS array is filled by direct loads and by stores). Sources: CDNA3 instruction set
architecture, S_BARRIER and section 4.4; LLVM, AMDGPU usage, memory model.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.sync.expression import ZERO
from titan.sync.program import (
    Access,
    Asynchronous,
    Block,
    Branch,
    Loop,
    QueueWait,
    Space,
)
from titan.verify.legality.case import Case, plain
from titan.verify.legality.rule import rule


@rule("TTN431", "named_barriers")
def store_is_waited_for(case: Case) -> Iterator[Diagnostic]:
    """A store to LDS counts in a counter that must be waited for before a barrier publishes it."""
    if not case.target.amd:
        return
    users = _users(case)
    counter = "dscnt" if "dscnt" in case.counters else "lgkmcnt"
    reported = set()
    for _, item in case.operations:
        if not isinstance(item, Access) or item.label not in ("store", "access"):
            continue
        for effect in item.effects:
            memory = case.memories[plain(effect.buffer)]
            shared = memory.buffer.space is Space.SHARED and len(users[memory.name]) > 1
            if not (effect.write and shared) or memory.name in reported:
                continue
            reported.add(memory.name)
            headline = (
                f"a store to {quoted(memory.name)} is taken to be complete at once; a barrier "
            )
            headline += f"does not wait for {counter}"
            helps = (
                (
                    f"write `async` with a queue of kind `{counter}`, and `drain` it "
                    "before the barrier"
                ),
            )
            yield case.fault("TTN431", headline, item.span, source="named_barriers", helps=helps)


def _users(case: Case) -> dict[str, set[str]]:
    """Of each buffer: who touches it; a role of several agents counts as two."""
    users: dict[str, set[str]] = {}
    for role, item in case.operations:
        for effect in item.effects if isinstance(item, Access | Asynchronous) else ():
            agents = {role.name} | ({f"{role.name}+"} if role.agents > 1 else set())
            users.setdefault(plain(effect.buffer), set()).update(agents)
    return users


@rule("TTN428", "counter_max")
def partial_wait_is_in_order(case: Case) -> Iterator[Diagnostic]:
    """Scalar loads finish in any order: while one is under way, a wait that leaves some is none.

    Judged along the text of each role, a loop as two rounds of it.
    """
    ordered = {queue.name for queue in case.program.queues if queue.ordered}
    for role in case.program.roles:
        found: dict[int, QueueWait] = {}
        _follow(case, role.body, frozenset(), found)
        for wait in found.values():
            if wait.queue not in ordered:
                continue
            headline = f"the wait leaves operations of {quoted(plain(wait.queue))} in flight, and "
            headline += "scalar loads finish in any order"
            helps = ("declare the queue with `ordered: false`, or wait for all of it",)
            yield case.fault("TTN428", headline, wait.span, source="counter_max", helps=helps)


def _follow(
    case: Case, block: Block, loading: frozenset[str], found: dict[int, QueueWait]
) -> frozenset[str]:
    """The queues with scalar loads under way after the block; partial waits of them are `found`."""
    for item in block:
        if isinstance(item, Asynchronous) and item.queue and _is_scalar_load(case, item):
            loading |= {item.queue}
        elif isinstance(item, QueueWait) and item.pending == ZERO:
            kind = case.queue_kind(item.queue)
            loading = frozenset(name for name in loading if case.queue_kind(name) != kind)
        elif isinstance(item, QueueWait) and item.queue in loading:
            found.setdefault(id(item), item)
        elif isinstance(item, Loop):
            once = _follow(case, item.body, loading, found)
            loading |= _follow(case, item.body, loading | once, found)
        elif isinstance(item, Branch):
            arms = (_follow(case, arm, loading, found) for arm in (item.then, item.otherwise))
            loading = frozenset().union(*arms)
    return loading


def _is_scalar_load(case: Case, item: Asynchronous) -> bool:
    """Whether it is from global memory to registers and counts in lgkmcnt."""
    if case.queue_kind(item.queue) != "lgkmcnt":
        return False
    spaces = [(e.write, case.memories[plain(e.buffer)].buffer.space) for e in item.effects]
    return (False, Space.GLOBAL) in spaces and all(
        space is Space.REGISTER for write, space in spaces if write
    )
