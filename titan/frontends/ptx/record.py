"""From the events of a run to a straight-line sync program, decided by the engines that exist.

Each warp is an agent; each asynchronous operation goes into the queue, or completes the barriers,
by which the code itself waits for it. The program has no control flow: it is what the warps did in
this run. Whether that covers all interleavings is decided elsewhere (`conditions`, and the
happens-before engine, which checks that every barrier operation falls into its phase).

Assumptions: lanes of a warp run in the order of the recording (each use of that is counted);
memory of other CTAs than those that ran is not examined; what `policies` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from titan.engines.happens_before.peeks import Peek
from titan.engines.happens_before.precedences import Mark, Precedence
from titan.frontends.ptx.agents import Locate, Member, RecordedAgent
from titan.frontends.ptx.copy_arrivals import raised_counts
from titan.frontends.ptx.fence_patterns import with_fence_patterns
from titan.frontends.ptx.hardware_barriers import HardwareBarriers
from titan.frontends.ptx.lane_fences import SPACES, LaneFences
from titan.frontends.ptx.lanes_abreast import LanesAbreast, Parts
from titan.frontends.ptx.map_reads import maps_waited_for
from titan.frontends.ptx.memory import RecordedMemory
from titan.frontends.ptx.pair_allocations import PairAllocations
from titan.frontends.ptx.peeks import peeks_of_run
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.resources import ResourcePools
from titan.frontends.ptx.uses import uses_of_run
from titan.frontends.ptx.warpgroup_waits import GroupBarriers
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Box, Footprint, MemorySpace
from titan.isa.simt.outcome import WGMMA_GROUPS, Run, Waiter
from titan.isa.simt.required_orders import RequiredOrder, required_orders
from titan.sync import program as ir
from titan.sync.expression import Constant

FENCES = {
    ev.RecordedFence.PROXY_ASYNC: ir.FenceKind.ASYNC,
    ev.RecordedFence.TENSORMAP_ACQUIRE: ir.FenceKind.TENSORMAP_ACQUIRE,
    ev.RecordedFence.TENSORMAP_RELEASE: ir.FenceKind.TENSORMAP_RELEASE,
    ev.RecordedFence.BARRIER_INIT: ir.FenceKind.BARRIER_INIT,
    ev.RecordedFence.ASYNC_ACQUIRE: ir.FenceKind.ASYNC_ACQUIRE,
    ev.RecordedFence.ASYNC_RELEASE: ir.FenceKind.ASYNC_RELEASE,
    ev.RecordedFence.PROXY_CONSTANT: ir.FenceKind.CONSTANT,
}
_SPACES = {
    "": (),
    "global": (ir.Space.GLOBAL,),
    "shared::cta": (ir.Space.SHARED,),
    "shared::cluster": (ir.Space.SHARED,),
}
_QUEUE_NAMES = {
    ev.RecordedQueue.BULK: "bulk group",
    ev.RecordedQueue.COPY: "cp.async",
    ev.RecordedQueue.WGMMA: "wgmma",
    ev.RecordedQueue.TENSOR_LOAD: "tcgen05.ld",
    ev.RecordedQueue.TENSOR_STORE: "tcgen05.st",
    ev.RecordedQueue.TENSOR_CORE: "tcgen05.mma",
}
_OF_A_THREAD = (ev.RecordedQueue.BULK, ev.RecordedQueue.TENSOR_CORE)
_GROUPED = (ev.RecordedQueue.BULK, ev.RecordedQueue.COPY, ev.RecordedQueue.WGMMA)
_PIPELINED = (ev.RecordedQueue.WGMMA, ev.RecordedQueue.TENSOR_CORE)
BARRIER_BYTES = 8


@dataclass(slots=True)
class LaunchRecording:
    """The program of one run. `members`: what each operation was made of, by its identity.

    `problems` are what the sync program cannot say of this run, with an instruction: no verdict
    follows then. `remarks` are assumptions that were used: name, times, first instruction. `peeks`
    are tests of barriers of which the order of the program has to say which phase they see, and
    `required` what else has to be ordered in it.
    """

    program: ir.SyncProgram
    members: dict[int, list[Member]]
    memory: RecordedMemory
    problems: list[tuple[str, int]] = field(default_factory=list)
    remarks: dict[str, tuple[int, int]] = field(default_factory=dict)
    peeks: list[Peek] = field(default_factory=list)
    required: dict[Precedence, RequiredOrder] = field(default_factory=dict)


def record(
    run: Run,
    name: str,
    target: str,
    locate: Locate,
    policies: CodePolicies,
    registers_per_thread: int | None = None,
) -> LaunchRecording:
    """The sync program of a run of one cluster (or CTA).

    `registers_per_thread`: what the kernel is launched with (`.maxnreg`), if known.
    """
    return record_together([run], name, target, locate, policies, registers_per_thread)[0]


def record_together(
    runs: Sequence[Run],
    name: str,
    target: str,
    locate: Locate,
    policies: CodePolicies,
    registers_per_thread: int | None = None,
    groups_left: int = 0,
) -> list[LaunchRecording]:
    """The sync programs of runs of one cluster under several launches, over one set of regions.

    Bytes are cut into regions by the footprints of all runs, so that a region has the same name in
    each of the programs. `groups_left`: see `titan/frontends/ptx/warpgroup_waits.py`.
    """
    memory: RecordedMemory | None = None
    recorders = []
    for run in runs:
        recorder = _Recorder(run, locate, policies, registers_per_thread, memory)
        recorder.groups.slots = groups_left
        recorder.note()
        memory = recorder.memory
        recorders.append(recorder)
    if memory is not None:
        memory.settle()
    return [recorder.recording(name, target) for recorder in recorders]


class _Recorder:
    def __init__(
        self,
        run: Run,
        locate: Locate,
        policies: CodePolicies,
        registers: int | None,
        memory: RecordedMemory | None,
    ) -> None:
        self.run = run = with_fence_patterns(run)
        self.locate = locate
        self.policies = policies
        waiting = {waiter.cta for waiter in run.outcome.waiters}
        ctas = sorted({event.cta for event in run.events} | waiting)
        members = run.launch.cluster_members(ctas[0]) if ctas else (0,)
        self.ranks = {cta: rank for rank, cta in enumerate(members)}
        warps = run.launch.warps
        self.memory = RecordedMemory(self.ranks, warps) if memory is None else memory
        self.agents: dict[tuple[int, int], RecordedAgent] = {}
        for cta, rank in self.ranks.items():
            for warp in range(run.launch.warps):
                label = f"warp {warp}" + (f"@{rank}" if len(self.ranks) > 1 else "")
                number = len(self.agents)
                self.agents[(cta, warp)] = RecordedAgent(number, label, cta, rank, warp, locate)
        self.barriers: dict[str, ir.Barrier] = {}
        self.hardware = HardwareBarriers(run, self.agents)
        self.pairs = PairAllocations(len(self.ranks))
        self.queues: dict[str, ir.Queue] = {}
        # With an order of its own a run has an event for each lane that copies.
        self.of_a_thread = _OF_A_THREAD + ((ev.RecordedQueue.COPY,) if run.order else ())
        self.groups = GroupBarriers(0, run.launch.warps, len(self.ranks) > 1)
        self.problems: list[tuple[str, int]] = []
        self.remarks: dict[str, tuple[int, int]] = {}
        self.resources = ResourcePools(self.ranks, registers, run.launch.warps)
        self.lane_fences: dict[RecordedAgent, LaneFences] = {}
        self.lanes: dict[RecordedAgent, LanesAbreast] = {}
        numbers = {key: agent.number for key, agent in self.agents.items()}
        found = uses_of_run(run, numbers, policies)
        self.uses, self.allocations = found.of, found.allocations
        for remarked, sequence in found.remarks():
            self.remark(remarked, run.events[sequence].instruction)
        tests = peeks_of_run(run)
        self.open_peeks, self.peeks = tests.open, list[Peek]()
        for instruction in tests.astray[:1]:
            text = "a test of a barrier may see another phase than the wait after it"
            self.problems.append((text, instruction))
        self.required = required_orders(run.events)
        marked = {event.sequence for item in self.required for event in (item.first, *item.others)}
        self.marks: dict[int, Mark] = dict.fromkeys(marked, (-1, 0))
        self.waited_maps = maps_waited_for(run)
        self.raised, unfit = raised_counts(run)
        if unfit is not None:
            self.problems.append(
                ("an arrival that raises the pending count is not modelled", unfit)
            )

    def note(self) -> None:
        """Register with the memory what the run uses."""
        for uses in self.uses.values():
            for use in uses:
                self.memory.note(use)
        for event in self.run.events:
            if isinstance(event, ev.BarrierInit | ev.BarrierInvalidate):
                self.memory.note_barrier(_object(event.barrier))

    def recording(self, name: str, target: str) -> LaunchRecording:
        """The program; the memory has been settled."""
        for event in self.run.order or self.run.events:
            if event.sequence in self.open_peeks:
                self._peek(self.agents[(event.cta, event.warp)], self.open_peeks[event.sequence])
            if event.sequence in self.marks:
                self._mark(self.agents[(event.cta, event.warp)], event)
            handler = _HANDLERS.get(type(event))
            if handler is None and not isinstance(event, ev.Elect):
                continue
            agent = self.agents[(event.cta, event.warp)]
            if not self.run.order:
                self._lanes(agent, event)
            if handler is not None:
                handler(self, agent, event)
        for waiter in self.run.outcome.waiters:
            self._waiting(self.agents[(waiter.cta, waiter.warp)], waiter)
        self.hardware.leave()
        members: dict[int, list[Member]] = {}
        roles = []
        for agent in self.agents.values():
            agent.flush()
            members |= agent.members
            roles.append(ir.Role(agent.name, tuple(agent.operations), cta=agent.rank))
        program = ir.SyncProgram(
            name,
            target,
            tuple(roles),
            (),
            (
                *self.barriers.values(),
                *self.groups.barriers.values(),
                *self.pairs.barriers.values(),
            ),
            tuple(self.hardware.named.values()),
            tuple(self.memory.buffers.values()),
            tuple(self.queues.values()),
            self.resources.pools(),
            self.policies.of_program(),
        )
        asked = {self._precedence(item): item for item in self.required}
        return LaunchRecording(
            program, members, self.memory, self.problems, self.remarks, self.peeks, asked
        )

    def _precedence(self, item: RequiredOrder) -> Precedence:
        first, *others = (self.marks[event.sequence] for event in (item.first, *item.others))
        return Precedence(first, tuple(others))

    def _mark(self, agent: RecordedAgent, event: ev.Event) -> None:
        agent.flush()
        self.marks[event.sequence] = agent.number, agent.counted

    def _peek(self, agent: RecordedAgent, poll: ev.Poll) -> None:
        """A test of a barrier that is none of the program's waits."""
        name = self.mbarrier(poll.barrier).name
        self.peeks.append(Peek(agent.number, agent.counted, (name, 0), poll.phase))

    # ----------------------------------------------------------------------- assumptions

    def remark(self, name: str, instruction: int) -> None:
        """An assumption was used here."""
        times, first = self.remarks.get(name, (0, instruction))
        self.remarks[name] = (times + 1, first)

    def _lanes(self, agent: RecordedAgent, event: ev.Event) -> None:
        """Remark on lanes whose place after the others is that of the run."""
        lanes = self.lanes.setdefault(agent, LanesAbreast())
        found = lanes.step(event, event.sequence in self.run.same_step)
        if found is not Parts.TOGETHER:
            self.remark("lane-order", event.instruction)
        if found is Parts.SIDE_BY_SIDE:
            text = f"two parts of {agent.name} run side by side, which is not modelled"
            self.problems.append((text, event.instruction))

    # ------------------------------------------------------------------------- accesses

    def effects(self, event: ev.Event) -> tuple[ir.Effect, ...]:
        """The effects of all uses of an event."""
        uses = self.uses.get(event.sequence, ())
        return tuple(effect for use in uses for effect in self.memory.effects(use))

    def access(self, agent: RecordedAgent, event: ev.Event) -> None:
        """A synchronous access, or what counts as one."""
        if event.sequence in self.allocations:
            # As by the engine, and over at once: nothing asks for a proxy fence then.
            name = self.queue(ev.RecordedQueue.TENSOR_STORE, event.lanes)
            agent.issue(event, self.effects(event), name)
            agent.add(ir.QueueWait(name, span=self.locate(event.instruction)), event, ())
            return
        uses = self.uses.get(event.sequence, ())
        for use in uses:
            if use.write or self.policies.war_fence == "true":
                self._fences_of(agent).access(event.lanes, use.footprint.space)
        agent.access(event, self.effects(event))

    def asynchronous(self, agent: RecordedAgent, event: ev.AsynchronousEvent) -> None:
        """An asynchronous operation starts."""
        if event.completes:
            self._completing(agent, event)
        elif event.queue is None:
            # Nothing waits for it: it may end at any time, and is in flight until the end.
            operation = ir.Asynchronous(self.effects(event), span=self.locate(event.instruction))
            agent.add(operation, event, operation.effects)
        else:
            effects = self.effects(event)
            copies = event.kind is ev.RecordedOperation.TENSOR_MEMORY_COPY
            if event.queue in _PIPELINED and not copies:
                effects = tuple(
                    replace(item, accumulates=True) if item.write else item for item in effects
                )
            if event.queue is ev.RecordedQueue.TENSOR_LOAD:
                agent.loads.append(event.operation)
                if self.policies.load_ready == "use":
                    agent.flush()  # each load ends by itself
            agent.issue(event, effects, self.queue(event.queue, event.lanes))

    def _completing(self, agent: RecordedAgent, event: ev.AsynchronousEvent) -> None:
        """What a multicast does in each CTA is known there alone: one operation for each."""
        uses = self.uses.get(event.sequence, [])
        span = self.locate(event.instruction)
        if event.sequence in self.waited_maps:
            of_map = [use for use in uses if use.proxy is ir.Proxy.TENSORMAP]
            effects = tuple(effect for use in of_map for effect in self.memory.effects(use))
            agent.issue(event, effects, self.queue(ev.RecordedQueue.BULK, event.lanes))
            uses = [use for use in uses if use.proxy is not ir.Proxy.TENSORMAP]
            self.remark("map-wait", event.instruction)
        homes = [one.footprint.cta for one in event.effects if one.mode is ev.Mode.WRITE]
        if len(homes) != len(event.completes):  # of a CTA that has no such memory
            homes = [one.barrier.cta for one in event.completes]
        for index, completion in enumerate(event.completes):
            if len(event.completes) == 1:
                mine = uses
            else:  # of a pair: both may signal in one CTA
                home = homes[index]
                mine = [use for use in uses if use.write and use.footprint.cta == home]
                mine += [use for use in uses if not use.write and index == 0]
            effects = tuple(effect for use in mine for effect in self.memory.effects(use))
            done = ir.Completion(self.mbarrier(completion.barrier), Constant(completion.bytes))
            agent.add(ir.Asynchronous(effects, None, (done,), span=span), event, effects)

    # --------------------------------------------------------------------------- queues

    def queue(self, queue: ev.RecordedQueue, lanes: int) -> str:
        """The queue of a warp, or of the lowest of the lanes where each thread has its own."""
        name = _QUEUE_NAMES[queue]
        if queue in self.of_a_thread:
            lane = (lanes & -lanes).bit_length() - 1
            name = f"{name} of lane {lane}" if lane else name
        if name not in self.queues:
            self.queues[name] = ir.Queue(
                name, grouped=queue in _GROUPED, pipelined=queue in _PIPELINED
            )
        return name

    def _queues_of(
        self, agent: RecordedAgent, queue: ev.RecordedQueue, event: ev.Event
    ) -> list[str]:
        """The queues of the agent that an event of these lanes concerns.

        Copies of a warp share a queue: an event of other lanes than those that issued says nothing
        that is true for all of them, and is left out, which can only leave out order.
        """
        base = _QUEUE_NAMES[queue]
        if queue not in self.of_a_thread:
            issued = agent.queues.get(base, 0)
            if queue is ev.RecordedQueue.COPY and issued & ~event.lanes:
                self.remark("partial-group", event.instruction)
                return []
            return [base] if issued else []
        return [
            name
            for name, lanes in agent.queues.items()
            if name.startswith(base) and (lanes & -lanes) & event.lanes
        ]

    def commit(self, agent: RecordedAgent, event: ev.CommitEvent) -> None:
        """Close the open group."""
        for name in self._queues_of(agent, event.queue, event):
            span = self.locate(event.instruction)
            agent.add(ir.Commit(name, span=span), event, ())
            if event.queue is ev.RecordedQueue.WGMMA:
                for arrival in self.groups.commit(agent, name, span):
                    agent.add(arrival, event, ())

    def queue_wait(self, agent: RecordedAgent, event: ev.QueueWaitEvent) -> None:
        """Wait for all but the newest groups."""
        until = ir.Until.READ if event.reads_only else ir.Until.DONE
        for name in self._queues_of(agent, event.queue, event):
            span = self.locate(event.instruction)
            agent.add(ir.QueueWait(name, Constant(event.pending), until, span=span), event, ())
            if event.queue is ev.RecordedQueue.WGMMA:
                for wait in self.groups.wait(agent, event.pending, span):
                    agent.add(wait, event, ())
                    self.remark("warpgroup-wait", event.instruction)

    def register_read(self, agent: RecordedAgent, event: ev.RegisterBreach) -> None:
        """Under `load_ready` "use" the first use of a loaded register waits for its load."""
        if self.policies.load_ready != "use" or event.write or event.operation not in agent.loads:
            return
        pending = len(agent.loads) - 1 - agent.loads.index(event.operation)
        name, span = _QUEUE_NAMES[ev.RecordedQueue.TENSOR_LOAD], self.locate(event.instruction)
        agent.add(ir.QueueWait(name, Constant(pending), span=span), event, ())
        self.remark("load-use", event.instruction)

    def tensor_commit(self, agent: RecordedAgent, event: ev.TensorCommitEvent) -> None:
        """tcgen05.commit: a marker after the thread's work for each barrier."""
        name = self.queue(ev.RecordedQueue.TENSOR_CORE, event.lanes)
        for barrier in event.barriers:
            reference, span = self.mbarrier(barrier), self.locate(event.instruction)
            agent.add(ir.QueueArrive(name, reference, span=span), event, ())
            agent.queues[name] = agent.queues.get(name, 0) | event.lanes

    def copy_arrive(self, agent: RecordedAgent, event: ev.CopyArrive) -> None:
        """cp.async.mbarrier.arrive of each lane."""
        name = self.queue(ev.RecordedQueue.COPY, event.lanes)
        count = Constant(event.lanes.bit_count())
        reference, span = self.mbarrier(event.barrier), self.locate(event.instruction)
        agent.add(ir.QueueArrive(name, reference, count, span=span), event, ())
        agent.queues[name] = agent.queues.get(name, 0) | event.lanes

    # ------------------------------------------------------------------------ mbarriers

    def mbarrier(self, barrier: ev.BarrierAddress) -> ir.Reference:
        """The barrier of the program that an object in shared memory is."""
        rank = self.ranks.get(barrier.cta, 0)
        name = f"mbarrier+{barrier.offset:#x}" + (f"@{rank}" if len(self.ranks) > 1 else "")
        if name not in self.barriers:
            self.barriers[name] = ir.Barrier(name, 0, initialised=False, cta=rank)
        return ir.Reference(name)

    def init(self, agent: RecordedAgent, event: ev.BarrierInit) -> None:
        """Initialisation writes the eight bytes of the object."""
        agent.access(event, self.memory.barrier_effects(_object(event.barrier)))
        reference, span = self.mbarrier(event.barrier), self.locate(event.instruction)
        count = Constant(event.count + self.raised.get(event.barrier, 0))
        agent.add(ir.Init(reference, count, span=span), event, ())

    def invalidate(self, agent: RecordedAgent, event: ev.BarrierInvalidate) -> None:
        """Invalidation ends the object; its bytes are memory again."""
        reference, span = self.mbarrier(event.barrier), self.locate(event.instruction)
        agent.add(ir.Invalidate(reference, span=span), event, ())
        agent.access(event, self.memory.barrier_effects(_object(event.barrier)))

    def arrive(self, agent: RecordedAgent, event: ev.ArriveEvent) -> None:
        """Arrivals of each lane, counted together."""
        lanes = event.lanes.bit_count()
        operation = ir.Arrive(
            self.mbarrier(event.barrier),
            Constant(event.count * lanes),
            Constant(event.expect_bytes * lanes),
            event.drop,
            order=_order(event.semantics),
            scope=_scope(event.scope),
            span=self.locate(event.instruction),
        )
        agent.add(operation, event, ())

    def expect(self, agent: RecordedAgent, event: ev.ExpectBytes) -> None:
        """Bytes expected without an arrival.

        What a thread completes (complete_tx) counts as an engine's: of the phase that is current
        when it happens, and publishing nothing (PTX, mbarrier.complete_tx: relaxed) unless a fence
        is before it.
        """
        amount = event.bytes * event.lanes.bit_count()
        reference, span = self.mbarrier(event.barrier), self.locate(event.instruction)
        operation: ir.Operation = ir.ExpectTransaction(reference, Constant(amount), span=span)
        if amount < 0:
            released = event.semantics is ev.AccessSemantics.RELEASE
            done = ir.Completion(
                reference, Constant(-amount), _scope(event.scope) if released else None
            )
            operation = ir.Asynchronous((), None, (done,), span=span)
        agent.add(operation, event, ())

    def wait(self, agent: RecordedAgent, event: ev.WaitEvent) -> None:
        """A wait that passed; the phase that it observed is the one that is meant."""
        operation = ir.Wait(
            self.mbarrier(event.barrier),
            Constant(event.phase & 1),
            Constant(event.phase),
            _order(event.semantics),
            _scope(event.scope),
            span=self.locate(event.instruction),
        )
        agent.add(operation, event, ())

    # ------------------------------------------------------------------- hardware barriers

    def rendezvous(self, agent: RecordedAgent, event: ev.RendezvousEvent) -> None:
        """A step at a named barrier or the cluster barrier."""
        if event.meeting is not ev.Meeting.WARP and not self.hardware.step(agent, event):
            self.remark("lane-order", event.instruction)

    # --------------------------------------------------------------------------- fences

    def fence(self, agent: RecordedAgent, event: ev.FenceEvent) -> None:
        """Proxy fences; memory fences order nothing here that synchronisation does not.

        A fence of some lanes fences their accesses only. Where other lanes of the warp have
        accessed memory and not fenced it, it is left out (under the writer rule).
        """
        kind = FENCES.get(event.kind)
        if kind is None:
            return
        spaces = _SPACES.get(event.space, ()) if kind is ir.FenceKind.ASYNC else ()
        if kind in (ir.FenceKind.ASYNC, ir.FenceKind.ASYNC_RELEASE):
            shared = kind is ir.FenceKind.ASYNC_RELEASE
            wanted = (ir.Space.SHARED,) if shared else spaces or SPACES
            over = self._fences_of(agent).fence(event.lanes, wanted)
            if self.policies.fence_rule == "writer" and over != wanted:
                self.remark("partial-fence", event.instruction)
                if not over:
                    return
                spaces = over
        agent.add(ir.Fence(kind, spaces, span=self.locate(event.instruction)), event, ())

    def _fences_of(self, agent: RecordedAgent) -> LaneFences:
        return self.lane_fences.setdefault(agent, LaneFences())

    # ------------------------------------------------------------------------ resources

    def allocate(self, agent: RecordedAgent, event: ev.TensorAllocate) -> None:
        """Tensor memory is taken, and is this warp's to hand out."""
        pool = self.resources.tensor_pool(agent.rank)
        span = self.locate(event.instruction)
        agent.add(ir.PoolTake(pool, Constant(event.columns), span=span), event, ())
        agent.access(event, self.effects(event))
        if event.cta_group == 2:
            for operation in self.pairs.meet(agent.rank, span):
                agent.add(operation, event, ())

    def deallocate(self, agent: RecordedAgent, event: ev.TensorDeallocate) -> None:
        """Whoever uses the columns must be done."""
        agent.access(event, self.effects(event))
        pool = self.resources.tensor_pool(agent.rank)
        span = self.locate(event.instruction)
        agent.add(ir.PoolGive(pool, Constant(event.columns), span=span), event, ())

    def registers(self, agent: RecordedAgent, event: ev.RegisterCount) -> None:
        """setmaxnreg moves registers between a warp and the pool of its CTA."""
        made = self.resources.registers(agent.rank, agent.warp, event, self.locate)
        if made is None:
            self.remark("register-pool", event.instruction)
        elif not isinstance(made, bool):
            agent.add(made, event, ())

    # ------------------------------------------------------------------------------ end

    def _waiting(self, agent: RecordedAgent, waiter: Waiter) -> None:
        """The run ended with these lanes waiting at this operation."""
        span = self.locate(waiter.instruction)
        event = ev.Event(-1, waiter.cta, waiter.warp, waiter.lanes, waiter.instruction)
        operation: ir.Operation | None = None
        if waiter.what == "mbarrier" and waiter.barrier is not None:
            phase = Constant(waiter.phase)
            reference = self.mbarrier(waiter.barrier)
            operation = ir.Wait(reference, Constant(waiter.phase & 1), phase, span=span)
        elif waiter.what == "cluster barrier":
            operation = ir.BarrierWait(self.hardware.cluster(waiter.phase), span=span)
        elif waiter.what == "tensor memory":
            pool = self.resources.tensor_pool(agent.rank)
            operation = ir.PoolTake(pool, Constant(waiter.pending), span=span)
        elif waiter.what == WGMMA_GROUPS:
            for wait in self.groups.wait_until(agent, waiter.pending, span):
                agent.add(wait, event, ())
        if operation is not None:
            agent.add(operation, event, ())


def _object(barrier: ev.BarrierAddress) -> Footprint:
    """The eight bytes of an mbarrier."""
    return Footprint(MemorySpace.SHARED, barrier.cta, (Box(barrier.offset, BARRIER_BYTES),))


def _order(semantics: ev.AccessSemantics) -> ir.Order:
    relaxed = (ev.AccessSemantics.RELAXED, ev.AccessSemantics.VOLATILE)
    return ir.Order.RELAXED if semantics in relaxed else ir.Order.SYNCHRONISING


def _scope(scope: ev.AccessScope) -> ir.Scope:
    return ir.Scope.CTA if scope <= ev.AccessScope.CTA else ir.Scope.CLUSTER


_HANDLERS: dict[type, Callable[..., None]] = {
    ev.AccessEvent: _Recorder.access,
    ev.Skipped: _Recorder.access,
    ev.AsynchronousEvent: _Recorder.asynchronous,
    ev.CommitEvent: _Recorder.commit,
    ev.QueueWaitEvent: _Recorder.queue_wait,
    ev.RegisterBreach: _Recorder.register_read,
    ev.TensorCommitEvent: _Recorder.tensor_commit,
    ev.CopyArrive: _Recorder.copy_arrive,
    ev.BarrierInit: _Recorder.init,
    ev.BarrierInvalidate: _Recorder.invalidate,
    ev.ArriveEvent: _Recorder.arrive,
    ev.ExpectBytes: _Recorder.expect,
    ev.WaitEvent: _Recorder.wait,
    ev.RendezvousEvent: _Recorder.rendezvous,
    ev.FenceEvent: _Recorder.fence,
    ev.TensorAllocate: _Recorder.allocate,
    ev.TensorDeallocate: _Recorder.deallocate,
    ev.RegisterCount: _Recorder.registers,
}
