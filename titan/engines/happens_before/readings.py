"""Readings of what orders visibility that are wider than the documents."""

from __future__ import annotations

from titan.foundation.records import dataclass


@dataclass(frozen=True, slots=True)
class Readings:
    """`narrow_reads`: a release of CTA scope at a barrier of another CTA lets that CTA overwrite
    what the thread has read before it. `engines_relay`: what an engine completes, a copy or a
    commit, publishes also what its issuer knew when it issued. `counted_arrivals`: an agent may
    arrive at a named barrier of its CTA and then arrive or wait there again in the same generation,
    which counts it each time, as hardware counts. Not at the barrier of a cluster.
    """

    narrow_reads: bool = False
    engines_relay: bool = False
    counted_arrivals: bool = False


STRICT = Readings()
