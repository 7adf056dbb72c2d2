"""The SIMT machine as the front ends call it: one run of one cluster of a launch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from titan.foundation.collector import uncollected
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.source.span import Source
from titan.isa.ptx.module import Module
from titan.isa.simt import events as ev
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.outcome import Run
from titan.isa.simt.run import run

DEPTH_MAX = 16  # stages of a ring


class LaunchRunner(Protocol):
    """What runs clusters of launches, of PTX or of other code."""

    def run(self, launch: Launch, cta: int, seed: int = 0) -> tuple[Run | None, list[Diagnostic]]:
        """The run of the cluster of a CTA; or what is wrong with the launch."""

    def depth(self, base: Run, longer: Run) -> int:
        """Stages of the deepest ring that a run shows; the second one goes through more trips."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs clusters of launches of one module. `steps_max` counts warp instructions of one run."""

    module: Module
    source: Source
    steps_max: int

    @uncollected
    def run(self, launch: Launch, cta: int, seed: int = 0) -> tuple[Run | None, list[Diagnostic]]:
        """The run of the cluster of CTA `cta`, and nothing else of the grid; or what is wrong.

        With odd seeds the first test of a barrier may give true.
        """
        options = Options(
            launch.cluster_members(cta), seed, self.steps_max, first_poll_fails=seed % 2 == 0
        )
        return run(self.module, launch, options, self.source)

    def depth(self, base: Run, longer: Run) -> int:
        """Barriers that copies complete, or groups that may be left in flight, by the first run."""
        completed = {
            completion.barrier
            for event in base.events
            if isinstance(event, ev.AsynchronousEvent)
            for completion in event.completes
        }
        of_cta = Counter(barrier.cta for barrier in completed)
        pending = max(
            (event.pending + 1 for event in base.events if isinstance(event, ev.QueueWaitEvent)),
            default=1,
        )
        return max(1, min(DEPTH_MAX, max(max(of_cta.values(), default=1), pending)))
