"""The named barriers of CTAs and the barrier of a cluster, in the program of a run.

A barrier without a thread count waits for the threads that have not ended (CUDA programming guide,
__syncthreads: "all non-exited threads"; PTX, barrier.cluster: "all the non-exited threads of the
cluster"). So the end of a warp takes the place of its arrival in each generation that others still
complete; such a generation is a barrier of its own. The end of a warp hands over no memory: it
arrives relaxed. A barrier with a thread count waits for that many threads, whoever has ended.
"""

from __future__ import annotations

from collections.abc import Mapping

from titan.frontends.ptx.agents import RecordedAgent
from titan.isa.simt import events as ev
from titan.isa.simt.outcome import Run
from titan.sync import program as ir
from titan.sync.expression import Constant

Generation = tuple[int, int, int]  # CTA, number of the barrier, generation
CLUSTER = -1  # in place of the CTA and the number
WARP_THREADS = 32


class HardwareBarriers:
    """The hardware barriers of a recording; `named` are those of the program so far."""

    def __init__(self, run: Run, agents: Mapping[tuple[int, int], RecordedAgent]) -> None:
        self.agents = agents
        self.several = len({cta for cta, _ in agents}) > 1
        self.warps = run.launch.warps
        self.named: dict[str, ir.NamedBarrier] = {}
        self._seen: dict[tuple[int, Generation, ev.Side], int] = {}  # lanes
        self._here: dict[Generation, set[tuple[int, int]]] = {}
        self._ended: dict[tuple[int, int], ev.Exit] = {}
        gone: dict[tuple[int, int], int] = {}
        for event in run.events:
            warp = event.cta, event.warp
            if isinstance(event, ev.Exit):
                gone[warp] = gone.get(warp, 0) | event.lanes
                threads = min(run.launch.threads - WARP_THREADS * event.warp, WARP_THREADS)
                if gone[warp].bit_count() == threads:
                    self._ended[warp] = event
            elif isinstance(event, ev.RendezvousEvent) and _waits_for_all(event):
                self._here.setdefault(_generation(event), set()).add(warp)

    def step(self, agent: RecordedAgent, event: ev.RendezvousEvent) -> bool:
        """Add a step of a warp; False if the rest of the warp's lanes join an earlier one."""
        if event.meeting is ev.Meeting.NAMED and event.side is ev.Side.PASS:
            return True
        key = agent.number, _generation(event), event.side
        before = self._seen.get(key, 0)
        self._seen[key] = before | event.lanes
        if before and not before & event.lanes:
            return False
        span = agent.locate(event.instruction)
        reference, threads = self._barrier(_generation(event), event.threads)
        if event.side is ev.Side.PASS:
            agent.add(ir.BarrierWait(reference, _order(event), span=span), event, ())
            return True
        kind = ir.BarrierArrive if event.side is ev.Side.ARRIVE else ir.BarrierSync
        agent.add(kind(reference, Constant(threads), _order(event), span=span), event, ())
        return True

    def cluster(self, generation: int) -> ir.Reference:
        """The barrier of the cluster that a generation of it is."""
        return self._barrier((CLUSTER, CLUSTER, generation), 0)[0]

    def leave(self) -> None:
        """Warps that have ended arrive where others still wait for all."""
        for generation in sorted(self._here):
            for warp in self._absent(generation):
                agent, event = self.agents[warp], self._ended[warp]
                reference, threads = self._barrier(generation, 0)
                span = agent.locate(event.instruction)
                arrival = ir.BarrierArrive(
                    reference, Constant(threads), ir.Order.RELAXED, span=span
                )
                agent.add(arrival, event, ())

    def _absent(self, generation: Generation) -> list[tuple[int, int]]:
        """The warps that have ended without a part in a generation."""
        cta, here = generation[0], self._here.get(generation, set())
        return [
            warp for warp in self._ended if warp not in here and cta in (CLUSTER, warp[0]) and here
        ]

    def _barrier(self, generation: Generation, threads: int) -> tuple[ir.Reference, int]:
        """The barrier that a generation is, and how many threads it expects."""
        cta, number, count = generation
        if cta == CLUSTER:
            name, scope, everyone = "cluster barrier", ir.Scope.CLUSTER, len(self.agents)
        else:
            rank = next(agent.rank for (home, _), agent in self.agents.items() if home == cta)
            name = f"bar {number}" + (f"@{rank}" if self.several else "")
            scope, everyone = ir.Scope.CTA, self.warps
        if self._absent(generation):
            name += f", generation {count}"
        self.named.setdefault(name, ir.NamedBarrier(name, scope=scope))
        counted = 0 if cta == CLUSTER else threads
        return ir.Reference(name), counted or everyone * WARP_THREADS


def _generation(event: ev.RendezvousEvent) -> Generation:
    if event.meeting is ev.Meeting.CLUSTER:
        return CLUSTER, CLUSTER, event.generation
    return event.cta, event.number, event.generation


def _waits_for_all(event: ev.RendezvousEvent) -> bool:
    """Whether the barrier has no thread count of its own."""
    if event.meeting is ev.Meeting.CLUSTER:
        return event.side is not ev.Side.PASS
    return event.meeting is ev.Meeting.NAMED and not event.threads


def _order(event: ev.RendezvousEvent) -> ir.Order:
    relaxed = (ev.AccessSemantics.RELAXED, ev.AccessSemantics.VOLATILE)
    return ir.Order.RELAXED if event.semantics in relaxed else ir.Order.SYNCHRONISING
