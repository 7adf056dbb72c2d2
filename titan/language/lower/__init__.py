"""Lowering: from a protocol to the sync program of one target."""

from __future__ import annotations

from dataclasses import replace

from titan.language.lower.model import Lowered, LoweringRefused, Note, refusal
from titan.language.protocol.counters import with_hardware_counters
from titan.language.protocol.model import Protocol
from titan.sync.own_registers import own_registers
from titan.sync.program import SyncProgram
from titan.target.description import GENERATED, target_of

__all__ = ["Lowered", "LoweringRefused", "Note", "lower", "lower_with_notes"]


def lower(
    protocol: Protocol, *, add_fences: bool = True, rewrites: frozenset[str] = frozenset()
) -> SyncProgram:
    """The sync program of the protocol's target. Raises LoweringRefused with diagnostics."""
    return lower_with_notes(protocol, add_fences=add_fences, rewrites=rewrites).program


def lower_with_notes(
    protocol: Protocol, *, add_fences: bool = True, rewrites: frozenset[str] = frozenset()
) -> Lowered:
    """The sync program, and the choices that lowering made (fences, thresholds, rewrites).

    `add_fences` False keeps to the proxy fences of the protocol. `rewrites` names what may be
    changed where a target cannot say the protocol: "drain_all" (sm_100a), "transport", "group",
    "depth", "unspecialise" (gfx942, gfx950). Raises LoweringRefused.
    """
    target = target_of(protocol.target)
    if target.generated and target.nvidia:
        from titan.language.lower.nvidia import lower_nvidia

        return _counted(protocol, lower_nvidia(protocol, add_fences=add_fences, rewrites=rewrites))
    if target.generated and target.amd:
        from titan.language.lower.amd import lower_amd

        return _counted(protocol, lower_amd(protocol, rewrites=rewrites))
    raise refusal(
        "TTN010",
        f"there is no lowering for target {protocol.target}",
        protocol.span,
        f"known targets: {', '.join(GENERATED)}",
    )


def _counted(protocol: Protocol, lowered: Lowered) -> Lowered:
    """Queues are mapped to the counters of the hardware, registers to the agents that have them."""
    program = with_hardware_counters(lowered.program, protocol.queue_kinds)
    return replace(lowered, program=own_registers(program))
