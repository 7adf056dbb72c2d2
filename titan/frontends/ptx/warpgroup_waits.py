"""`wgmma.wait_group` as a wait of the warpgroup: what a warp then knows of the three others.

A wgmma is one operation that four warps execute together, and `wgmma.commit_group` makes "a new
wgmma-group per warpgroup" (PTX); machine code waits for it by a dependency barrier of the
warpgroup. So a warp that has waited for a group knows that the group is complete, the parts of the
other warps included, and that these have executed it. CUTLASS rests on that: one warp releases a
stage for its whole warpgroup.

In the sync program each warp has a queue of its own. The common completion is a barrier that the
four queues arrive at when the group is done, and that each warp waits for where it waits for the
group. That hands over the completed operations, and nothing that a warp itself stored or read. The
groups of a warpgroup share as many barriers as a warp leaves groups unfinished at a time; a warp
has waited for a group before it commits the next one that has the same barrier.

`groups_left` is 0 where there is nothing to say: the waits are then those of each warp alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from titan.foundation.source.span import Span
from titan.frontends.ptx.agents import RecordedAgent
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run
from titan.isa.simt.queues import WARPGROUP_WARPS
from titan.sync import program as ir
from titan.sync.expression import Constant

BARRIER_BYTES = 8  # in names, which sort by it


def groups_left(runs: Sequence[Run]) -> int:
    """The most wgmma groups that a warp has committed and not waited for, in any of the runs."""
    most = 0
    for run in runs:
        left: dict[tuple[int, int], int] = {}
        for event in run.events:
            if isinstance(event, ev.CommitEvent) and event.queue is ev.RecordedQueue.WGMMA:
                key = event.cta, event.warp
                left[key] = left.get(key, 0) + 1
                most = max(most, left[key])
            elif isinstance(event, ev.QueueWaitEvent) and event.queue is ev.RecordedQueue.WGMMA:
                key = event.cta, event.warp
                left[key] = min(left.get(key, 0), event.pending)
    return most


@dataclass(slots=True)
class GroupBarriers:
    """The barriers of a recording; `slots` for each warpgroup, `warps` in each CTA."""

    slots: int
    warps: int
    clustered: bool
    barriers: dict[str, ir.Barrier] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)  # groups, by number of the agent
    waited: dict[int, int] = field(default_factory=dict)

    def commit(
        self, agent: RecordedAgent, queue: str, span: Span | None
    ) -> Iterator[ir.QueueArrive]:
        """The warp has committed a group, and its part of it arrives when it is done."""
        if self.slots:
            number = self.committed.get(agent.number, 0)
            self.committed[agent.number] = number + 1
            yield ir.QueueArrive(queue, self._barrier(agent, number), span=span)

    def wait(self, agent: RecordedAgent, pending: int, span: Span | None) -> Iterator[ir.Wait]:
        """The warp waits for all but the `pending` newest groups."""
        if self.slots:
            yield from self.wait_until(agent, self.committed.get(agent.number, 0) - pending, span)

    def wait_until(self, agent: RecordedAgent, groups: int, span: Span | None) -> Iterator[ir.Wait]:
        """The warp waits for its first `groups` groups."""
        if self.slots:
            first = self.waited.get(agent.number, 0)
            for number in range(first, groups):
                phase = number // self.slots
                barrier = self._barrier(agent, number)
                yield ir.Wait(barrier, Constant(phase & 1), Constant(phase), span=span)
            self.waited[agent.number] = max(first, groups)

    def _barrier(self, agent: RecordedAgent, number: int) -> ir.Reference:
        first = agent.warp - agent.warp % WARPGROUP_WARPS
        last = min(first + WARPGROUP_WARPS, self.warps) - 1
        offset = number % self.slots * BARRIER_BYTES
        name = f"wgmma groups of warps {first} to {last}+{offset:#x}"
        name += f"@{agent.rank}" if self.clustered else ""
        if name not in self.barriers:
            self.barriers[name] = ir.Barrier(name, last - first + 1, cta=agent.rank)
        return ir.Reference(name)
