"""What the happens-before engine says of a run, and under which readings of the documents.

A verdict that rests on synchronisation that carries no visibility by the documents may hold under
wider readings, which shipped kernels rely on: those that the policies allow are tried, and a remark
names those that were needed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from titan.engines.happens_before.engine import OrderResult, analyse
from titan.engines.happens_before.readings import Readings
from titan.engines.happens_before.scopes import at_cluster_scope
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.alike import merged_alike
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.record import LaunchRecording
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Ending, Run
from titan.sync.fault import FaultKind

WEAK_KIND = FaultKind.WEAK_SYNCHRONISATION
RELEASE_HELP = (
    "`--policy cta_release=all` takes a release of CTA scope at a barrier of a peer as ordering "
    "all before it, as some kernels that ship do; the memory model does not"
)
ENGINE_HELP = (
    "`--policy engine_release=issuer` takes what completes on a barrier (a commit, a copy) as "
    "publishing what its issuer knew, too, as some kernels that ship do; the memory model does not"
)


def order_of_run(
    run: Run,
    recording: LaunchRecording,
    policies: CodePolicies,
    *,
    show: bool,
    relays: bool = False,
    counted: bool = False,
) -> OrderResult | None:
    """What the engine says of the program; None where the recording is not that of a whole run."""
    if run.outcome.ending not in (Ending.FINISHED, Ending.HUNG) or recording.problems:
        return None
    # What all operations use alike is one region; the whole program is only examined again
    # for the places of a fault.
    (program,), _ = merged_alike([recording.program])
    readings = Readings(policies.cta_release != "none", relays, counted)
    return analyse(
        program,
        show=show,
        readings=readings,
        peeks=recording.peeks,
        precedences=tuple(recording.required),
    )


def by_wider_readings(
    run: Run, recording: LaunchRecording, order: OrderResult, policies: CodePolicies
) -> tuple[LaunchRecording, OrderResult]:
    """What is found under the readings that the policies allow; a remark names those needed."""
    narrow = narrow_releases(run)
    ways = []
    if policies.engine_release == "issuer":
        ways.append((False, True))
    if policies.cta_release == "all" and narrow[0]:
        ways += [(True, relays) for relays in {False, policies.engine_release == "issuer"}]
    for widened, relays in ways:
        remarks = dict(recording.remarks)
        if widened:
            remarks["narrow-releases"] = narrow
        if relays:
            remarks["engine-relays"] = _completions(run)
        one = replace(recording, remarks=remarks)
        one = _at_cluster_scope(one) if widened else one
        found = order_of_run(run, one, policies, show=True, relays=relays)
        if found is not None and (found.fault is None or found.fault.kind is not WEAK_KIND):
            return one, found
    return recording, order


def arrives_twice(order: OrderResult | None) -> TypeGuard[OrderResult]:
    """Whether a warp arrives at a named barrier more than once in a generation, or too early."""
    fault = order.fault if order is not None else None
    return fault is not None and fault.kind is FaultKind.NAMED_BARRIER_MISUSE


def with_counted_arrivals(
    run: Run, recording: LaunchRecording, order: OrderResult, policies: CodePolicies
) -> tuple[LaunchRecording, OrderResult]:
    """What is found where warps may arrive twice in a generation, if that verifies the program.

    Each arrival then still has to know that the generation before is complete, so that as many
    arrivals as the barrier counts belong to each in every interleaving.
    """
    found = order_of_run(run, recording, policies, show=False, counted=True)
    if found is None or found.verdict is not Verdict.VERIFIED:
        return recording, order
    first = next(
        event.instruction
        for event in run.events
        if isinstance(event, ev.RendezvousEvent) and event.side is ev.Side.ARRIVE
    )
    remarks = {**recording.remarks, "counted-arrivals": (1, first)}
    return replace(recording, remarks=remarks), found


def weak_helps(run: Run, recording: LaunchRecording, policies: CodePolicies) -> list[str]:
    """The policies under which something else, or nothing, is found."""
    helps = []
    if narrow_releases(run)[0] and policies.cta_release != "all":
        helps.append(RELEASE_HELP)
    if policies.engine_release != "issuer":
        other = order_of_run(run, recording, policies, show=False, relays=True)
        if other is not None and (other.fault is None or other.fault.kind is not WEAK_KIND):
            helps.append(ENGINE_HELP)
    return helps


def narrow_releases(run: Run) -> tuple[int, int]:
    """How many arrivals of CTA scope there are at barriers of other CTAs, and the first place."""
    found = [
        event.instruction
        for event in run.events
        if isinstance(event, ev.ArriveEvent)
        and event.barrier.cta != event.cta
        and event.scope <= ev.AccessScope.CTA
    ]
    return len(found), found[0] if found else -1


def _completions(run: Run) -> tuple[int, int]:
    """How many operations complete on a barrier, and the first place."""
    found = [
        event.instruction
        for event in run.events
        if isinstance(event, ev.AsynchronousEvent) and event.completes
    ]
    return len(found), found[0] if found else 0


def _at_cluster_scope(recording: LaunchRecording) -> LaunchRecording:
    """The recording with each release and acquire at cluster scope."""
    program = at_cluster_scope(recording.program)
    members = dict(recording.members)
    for old, new in zip(recording.program.roles, program.roles, strict=True):
        for before, after in zip(old.body, new.body, strict=True):
            if before is not after and id(before) in members:
                members[id(after)] = members[id(before)]
    return replace(recording, program=program, members=members)
