"""Memory: which cells an effect touches, and what a read, a write and a proxy fence mean.

Assumption: an asynchronous operation may read and write at any time between its start and its
finish. Sources: PTX "Async Proxy", "cp.async.bulk" (undefined behaviour until completion).
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow, Sizes
from titan.sync.expression import evaluate
from titan.sync.fault import FaultKind
from titan.sync.parts import effects_of, queue_of
from titan.sync.proxy_marks import Domain, fenced, is_outside, missing_fence, went_inside
from titan.sync.state import (
    ANY_TILE,
    ENGINE,
    BarrierStatus,
    Cell,
    CellState,
    Doing,
    Draft,
    Extent,
    Flight,
    content_text,
    key_text,
)

Environment = dict[str, int]


def cells_of(buffer: ir.Buffer, stage: int, part: int | None) -> list[Cell]:
    """The cells of one stage, or of one part of it."""
    storage = buffer.storage or buffer.name
    parts = range(buffer.parts) if part is None else (part,)
    return [
        (storage, buffer.offset + (stage * buffer.parts + p) * buffer.units + unit)
        for p in parts
        for unit in range(buffer.units)
    ]


class MemoryRules(ControlFlow):
    """What accesses do to a draft state."""

    def __init__(self, program: ir.SyncProgram, sizes: Sizes | None = None) -> None:
        super().__init__(program, sizes)
        self._buffers = {buffer.name: buffer for buffer in program.buffers}
        self._queues = {queue.name: queue for queue in program.queues}
        self._ctas = tuple(agent.role.cta for agent in self.agents)
        self._cached, self._async = _domains(program)
        self._issuers = tuple(
            agent.number for agent in self.agents if _issues_async(agent.role, program)
        )

    def ended_ctas(self, draft: Draft) -> frozenset[int]:
        """The CTAs whose agents are all at their end: their memory is no longer theirs."""
        running = {agent.role.cta for agent in self.agents if draft.positions[agent.number].frames}
        return frozenset(agent.role.cta for agent in self.agents) - running

    def check_alive(self, draft: Draft, doing: Doing, cta: int, name: str) -> None:
        """A CTA other than the own one must not have ended."""
        if self.program.policies.exit_in_flight == "allow":
            return
        if cta in self.ended_ctas(draft):
            message = f"{name} belongs to CTA {cta}, which has ended"
            doing.fail(FaultKind.LEAK_AT_EXIT, message, name)

    def resolve(
        self, draft: Draft, doing: Doing, effect: ir.Effect, environment: Environment
    ) -> tuple[list[Cell], int]:
        """The cells and the tile of one effect; ANY_TILE where no tile is named."""
        buffer = self._buffers[effect.buffer]
        stage = evaluate(effect.stage, environment)
        part = None if effect.part is None else evaluate(effect.part, environment)
        if not 0 <= stage < buffer.stages or not 0 <= (part or 0) < buffer.parts:
            where = f"stage {stage}" if part is None else f"stage {stage} part {part}"
            message = f"{buffer.name} has no {where}"
            doing.fail(FaultKind.INDEX_OUT_OF_RANGE, message, buffer.name)
        home = self.agents[doing.agent].role.cta
        if buffer.space is not ir.Space.GLOBAL and buffer.cta != home:
            self.check_alive(draft, doing, buffer.cta, buffer.name)
        tile = ANY_TILE if effect.tile is None else evaluate(effect.tile, environment)
        return cells_of(buffer, stage, part), tile

    # ------------------------------------------------------------- reads, writes, conflicts

    def check_read(
        self, draft: Draft, doing: Doing, cell: Cell, tile: int, queue: str | None = None
    ) -> None:
        """What a read meets must be written to its end, and be the tile that is meant."""
        held = draft.cells[cell].tile
        for flight in draft.flights():
            for other, write, written, _, extent in flight.accesses:
                if other != cell or not write:
                    continue
                if extent is None and self._in_pipe(flight, doing, queue):
                    held = written  # a copy before the matrix instruction that reads it
                    continue
                message = f"{key_text(cell)} is read while a write to it is in flight"
                doing.clash(FaultKind.READ_BEFORE_ARRIVAL, message, cell[0], self.origin(flight))
        if tile not in (ANY_TILE, held):
            message = (
                f"{key_text(cell)} holds {content_text(held)} where {content_text(tile)} is meant"
            )
            doing.fail(FaultKind.STALE_READ, message, cell[0])

    def check_write(
        self,
        draft: Draft,
        doing: Doing,
        cell: Cell,
        queue: str | None = None,
        extent: Extent | None = None,
    ) -> None:
        """Nothing in flight may still use what is written, but in the pipe of an accumulator."""
        for flight in draft.flights():
            piped = extent is not None and self._in_pipe(flight, doing, queue)
            for other, write, _, _, theirs in flight.accesses:
                if piped and (not write or theirs == extent):
                    continue
                if other == cell and (write or flight.reading):
                    message = (
                        f"{key_text(cell)} is overwritten while an operation in flight still "
                        f"{'writes' if write else 'reads'} it"
                    )
                    kind = FaultKind.OVERWRITE_IN_FLIGHT
                    doing.clash(kind, message, cell[0], self.origin(flight))

    def origin(self, flight: Flight) -> Doing:
        """Who issued what is in flight."""
        return Doing(flight.agent, self.operations[flight.site])

    def _in_pipe(self, flight: Flight, doing: Doing, queue: str | None) -> bool:
        """Whether the data path itself orders the flight before a new operation of `queue`."""
        if queue is None or flight.agent != doing.agent or not self._queues[queue].pipelined:
            return False
        return queue_of(self.operations[flight.site]) == queue

    def access(
        self, draft: Draft, doing: Doing, operation: ir.Access, environment: Environment
    ) -> None:
        """Execute a synchronous access."""
        resolved = [
            (effect, *self.resolve(draft, doing, effect, environment))
            for effect in operation.effects
        ]
        for effect, cells, tile in resolved:
            for cell in cells:
                self.check_cached(draft, doing, cell, effect)
                if effect.write:
                    self.check_write(draft, doing, cell)
                else:
                    self.check_read(draft, doing, cell, tile)
        for effect, cells, tile in resolved:
            for cell in cells:
                if effect.proxy in ir.CACHED:
                    self.note_cached(draft, cell, tile, doing.agent, effect)
                elif effect.write:
                    self.note_write(draft, cell, tile, doing.agent)
                else:
                    self.note_read(draft, cell, doing.agent)

    def note_write(self, draft: Draft, cell: Cell, tile: int, agent: int) -> None:
        """A generic write: new content, not yet visible to the other proxies."""
        held = draft.cells[cell]
        own = frozenset((agent,))
        marks = self.outside(held, cell, True).marks
        draft.cells[cell] = CellState(
            tile, held.writers | own, held.readers, held.authors | own, False, marks
        )

    def note_read(self, draft: Draft, cell: Cell, agent: int) -> None:
        """A generic read, not yet ordered before writes of the other proxies."""
        held = self.outside(draft.cells[cell], cell, False)
        draft.cells[cell] = held._replace(readers=held.readers | {agent})

    @staticmethod
    def note_cached(draft: Draft, cell: Cell, tile: int, agent: int, effect: ir.Effect) -> None:
        """An access through a cached proxy: its domain alone knows of it."""
        held = draft.cells[cell]
        marks = went_inside(held.marks, effect.proxy, agent, effect.write)
        draft.cells[cell] = held._replace(tile=tile if effect.write else held.tile, marks=marks)

    def outside(self, held: CellState, cell: Cell, write: bool) -> CellState:
        """The cell after an access that the cached proxies have yet to see."""
        domains = self._cached.get(cell[0], ())
        return held._replace(marks=is_outside(held.marks, domains, write)) if domains else held

    # ---------------------------------------------------------------------------- proxies

    def check_proxy(self, draft: Draft, doing: Doing, cell: Cell, effect: ir.Effect) -> None:
        """Generic accesses must be fenced before an asynchronous one uses the same memory."""
        held, where, proxy = draft.cells[cell], key_text(cell), effect.proxy
        if proxy is ir.Proxy.ASYNC:
            pending = {wrote for _, issuer, wrote in held.marks.released if issuer == doing.agent}
            if held.writers or True in pending:
                message = (
                    f"{where} was written through the generic proxy without a proxy fence before "
                    "this asynchronous access"
                )
                doing.fail(FaultKind.MISSING_FENCE, message, cell[0])
            if effect.write and (held.readers or pending) and self.program.policies.war_fence:
                message = (
                    f"{where} was read through the generic proxy without a proxy fence before "
                    "this asynchronous write"
                )
                doing.fail(FaultKind.MISSING_FENCE_WAR, message, cell[0])
        elif proxy is ir.Proxy.TENSORMAP and (held.authors or held.released):
            message = f"the tensor map in {where} was written and is used without a tensormap fence"
            doing.fail(FaultKind.MISSING_TENSORMAP_FENCE, message, cell[0])

    def check_cached(self, draft: Draft, doing: Doing, cell: Cell, effect: ir.Effect) -> None:
        """Where one of two proxies is a cached one: a fence of each that is not generic."""
        if cell[0] not in self._cached:
            return
        held, own = draft.cells[cell], self._ctas[doing.agent]
        buffer, proxy = self._buffers[effect.buffer], effect.proxy
        if isinstance(doing.operation, ir.Access) and proxy not in ir.CACHED:
            proxy = ir.Proxy.GENERIC
        # An asynchronous access may be fenced for in its issuer's CTA, or in that of the memory.
        places = {own}
        if proxy is ir.Proxy.ASYNC and buffer.space is not ir.Space.GLOBAL:
            places.add(buffer.cta)
        found = [
            missing_fence(held.marks, proxy, place, self._ctas, effect.write)
            for place in sorted(places)
        ]
        if all(found):
            message = (
                f"{key_text(cell)} was {found[0]} without the proxy fences before this "
                f"{'write' if effect.write else 'read'} through the {proxy} proxy"
            )
            doing.fail(FaultKind.MISSING_CACHED_FENCE, message, cell[0])

    def fence(self, draft: Draft, agent: Agent, operation: ir.Fence) -> None:
        """Execute a proxy fence on all memory of the spaces it names."""
        if operation.kind is ir.FenceKind.BARRIER_INIT:
            for key, barrier in draft.barriers.items():
                if barrier.status is BarrierStatus.UNPUBLISHED and barrier.owner == agent.number:
                    draft.barriers[key] = barrier._replace(status=BarrierStatus.USABLE)
            return
        path_rule = self.program.policies.fence_rule == "path"
        for buffer in self.program.buffers:
            if not covers(operation, buffer, agent.role.cta):
                continue
            # By the path rule the fence must be executed in the CTA of the other proxy.
            near = buffer.space is ir.Space.GLOBAL or buffer.cta == agent.role.cta
            for stage in range(buffer.stages):
                for cell in cells_of(buffer, stage, None):
                    held = draft.cells[cell]
                    gone = frozenset({agent.number, ENGINE})
                    if path_rule and near:
                        gone |= held.writers | held.readers | held.authors
                        gone |= {author for author, _, _ in held.marks.released}
                    draft.cells[cell] = self._fenced(held, cell[0], operation.kind, agent, gone)

    def _fenced(
        self,
        held: CellState,
        storage: str,
        kind: ir.FenceKind,
        agent: Agent,
        gone: frozenset[int],
    ) -> CellState:
        """One cell after a proxy fence by `agent`, for the accesses of the agents `gone`."""
        marks, cta = held.marks, agent.role.cta
        match kind:
            case ir.FenceKind.ASYNC:
                released = frozenset(mark for mark in marks.released if mark[0] not in gone)
                marks = marks._replace(released=released)
                marks, _ = fenced(marks, (ir.Proxy.ASYNC, cta), self._ctas, ())
                writers, readers = held.writers - gone, held.readers - gone
                return held._replace(writers=writers, readers=readers, marks=marks)
            case ir.FenceKind.ASYNC_RELEASE:
                mine = {(author, True) for author in held.writers & gone}
                mine |= {(author, False) for author in held.readers & gone}
                owed = {(who, issuer, wrote) for who, wrote in mine for issuer in self._issuers}
                marks = marks._replace(released=marks.released | owed)
                writers, readers = held.writers - gone, held.readers - gone
                return held._replace(writers=writers, readers=readers, marks=marks)
            case ir.FenceKind.ASYNC_ACQUIRE:
                owed = {mark for mark in marks.released if mark[1] != agent.number}
                return held._replace(marks=marks._replace(released=frozenset(owed)))
            case ir.FenceKind.TENSORMAP_RELEASE:
                authors = held.authors - gone
                if not held.authors:
                    return held
                return held._replace(authors=authors, released=not authors)
            case ir.FenceKind.TENSORMAP_ACQUIRE:
                return held._replace(released=False)
        domains = (*self._cached.get(storage, ()), *self._async.get(storage, ()))
        marks, left = fenced(marks, (ir.CACHED_FENCES[kind], cta), self._ctas, domains)
        if left:  # a write that has left its cache is one to be released for the tensormap proxy
            return held._replace(marks=marks, authors=held.authors | left, released=False)
        return held._replace(marks=marks)


def covers(fence: ir.Fence, buffer: ir.Buffer, cta: int) -> bool:
    """Whether a fence executed in a CTA acts on the memory of the buffer."""
    if fence.kind is ir.FenceKind.ASYNC_RELEASE:
        return buffer.space is ir.Space.SHARED and buffer.cta == cta
    if fence.kind is ir.FenceKind.ASYNC_ACQUIRE:
        return buffer.space is ir.Space.SHARED
    return not fence.spaces or buffer.space in fence.spaces


def _domains(
    program: ir.SyncProgram,
) -> tuple[dict[str, tuple[Domain, ...]], dict[str, tuple[Domain, ...]]]:
    """Of each storage that a cached proxy reaches: the domains of those, and of the async proxy."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    cached: dict[str, set[Domain]] = {}
    others: dict[str, set[Domain]] = {}
    for role in program.roles:
        for operation in ir.walk(role.body):
            for effect in effects_of(operation):
                buffer = buffers[effect.buffer]
                storage = buffer.storage or buffer.name
                if effect.proxy in ir.CACHED:
                    cached.setdefault(storage, set()).add((effect.proxy, role.cta))
                elif effect.proxy is ir.Proxy.ASYNC:
                    places = {role.cta}
                    if buffer.space is not ir.Space.GLOBAL:
                        places.add(buffer.cta)
                    found = others.setdefault(storage, set())
                    found |= {(ir.Proxy.ASYNC, place) for place in places}
    return (
        {storage: tuple(sorted(found)) for storage, found in cached.items()},
        {storage: tuple(sorted(found)) for storage, found in others.items() if storage in cached},
    )


def _issues_async(role: ir.Role, program: ir.SyncProgram) -> bool:
    """Whether a one-way release of the program is for agents of the role, too."""
    halves = any(
        isinstance(operation, ir.Fence) and operation.kind is ir.FenceKind.ASYNC_RELEASE
        for other in program.roles
        for operation in ir.walk(other.body)
    )
    return halves and any(
        effect.proxy is ir.Proxy.ASYNC
        for operation in ir.walk(role.body)
        if isinstance(operation, ir.Asynchronous)
        for effect in operation.effects
    )
