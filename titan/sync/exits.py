"""Whether a CTA may end on synchronisation that carries no visibility.

What a thread of another CTA has done to the memory or the mbarriers of a CTA is over when it ends
only if synchronisation that carries visibility says so: a store to the peer before a relaxed
arrival may be performed behind it (PTX, causality order). Happens-before decides that for given
sizes. For every number it is plain where all agents meet at a cluster barrier at their end, by
arrivals and waits that are not relaxed, behind the last use of what belongs to another CTA.
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.parts import barriers_of, effects_of

_MEETINGS = (ir.BarrierSync, ir.BarrierArrive, ir.BarrierWait)


def ends_on_meeting(program: ir.SyncProgram) -> bool:
    """Whether nothing that threads do to another CTA is left when it ends, in every run.

    True as well where no thread does anything there, or a CTA may end while it is used.
    """
    if program.policies.exit_in_flight == "allow":
        return True
    homes = {item.name: item.cta for item in program.barriers}
    homes |= {item.name: item.cta for item in program.buffers if item.space is not ir.Space.GLOBAL}
    reaching = [role for role in program.roles if _reaches(role.body, role.cta, homes)]
    if not reaching:
        return True
    wide = [item.name for item in program.named_barriers if item.scope is ir.Scope.CLUSTER]
    return any(_meet_last(program, name, homes) for name in wide)


def _reaches(block: ir.Block, cta: int, homes: dict[str, int]) -> bool:
    """Whether a thread itself, and no engine for it, uses what belongs to another CTA."""
    for operation in ir.walk(block):
        if isinstance(operation, ir.Asynchronous | ir.QueueArrive):
            continue
        names = [item.name for item in barriers_of(operation)]
        names += [item.buffer for item in effects_of(operation)]
        if any(homes.get(name, cta) != cta for name in names):
            return True
    return False


def _meet_last(program: ir.SyncProgram, name: str, homes: dict[str, int]) -> bool:
    """Whether all meet at this barrier equally often, the last time behind all that reaches far."""
    rounds = set()
    for role in program.roles:
        everywhere = [item for item in ir.walk(role.body) if _at(item, name)]
        places = [n for n, item in enumerate(role.body) if _at(item, name)]
        if len(everywhere) != len(places) or any(
            isinstance(item, _MEETINGS) and item.order is ir.Order.RELAXED for item in everywhere
        ):
            return False  # in a loop or under a condition, or relaxed
        arrivals = [n for n in places if not isinstance(role.body[n], ir.BarrierWait)]
        waits = [n for n in places if not isinstance(role.body[n], ir.BarrierArrive)]
        if not arrivals or not waits or waits[-1] < arrivals[-1]:
            return False
        if _reaches(role.body[arrivals[-1] :], role.cta, homes):
            return False
        rounds.add(len(arrivals))
    return len(rounds) == 1


def _at(operation: ir.Operation, name: str) -> bool:
    return isinstance(operation, _MEETINGS) and operation.barrier.name == name
