"""Memory: which cells an effect touches, and what a read, a write and a proxy fence mean.

Assumption: an asynchronous operation may read and write at any time between its start and its
finish. Sources: PTX "Async Proxy", "cp.async.bulk" (undefined behaviour until completion).
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.control import Agent, ControlFlow, Sizes
from titan.sync.expression import evaluate
from titan.sync.fault import FaultKind
from titan.sync.state import (
    ANY_TILE,
    ENGINE,
    Cell,
    CellState,
    Doing,
    Draft,
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
            for other, write, written, _ in flight.accesses:
                if other != cell or not write:
                    continue
                if self._in_pipe(flight, doing, queue):
                    held = written
                    continue
                message = f"{key_text(cell)} is read while a write to it is in flight"
                doing.clash(FaultKind.READ_BEFORE_ARRIVAL, message, cell[0], self.origin(flight))
        if tile not in (ANY_TILE, held):
            message = (
                f"{key_text(cell)} holds {content_text(held)} where {content_text(tile)} is meant"
            )
            doing.fail(FaultKind.STALE_READ, message, cell[0])

    def check_write(self, draft: Draft, doing: Doing, cell: Cell, queue: str | None = None) -> None:
        """Nothing in flight may still use what is written."""
        for flight in draft.flights():
            if self._in_pipe(flight, doing, queue):
                continue
            for other, write, _, _ in flight.accesses:
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
        return getattr(self.operations[flight.site], "queue", None) == queue

    def access(self, draft: Draft, doing: Doing, environment: Environment) -> None:
        """Execute a synchronous access."""
        assert isinstance(doing.operation, ir.Access)
        resolved = [
            (effect.write, *self.resolve(draft, doing, effect, environment))
            for effect in doing.operation.effects
        ]
        for write, cells, tile in resolved:
            for cell in cells:
                if write:
                    self.check_write(draft, doing, cell)
                else:
                    self.check_read(draft, doing, cell, tile)
        for write, cells, tile in resolved:
            for cell in cells:
                if write:
                    self.note_write(draft, cell, tile, doing.agent)
                else:
                    self.note_read(draft, cell, doing.agent)

    @staticmethod
    def note_write(draft: Draft, cell: Cell, tile: int, agent: int) -> None:
        """A generic write: new content, not yet visible to the other proxies."""
        held = draft.cells[cell]
        own = frozenset((agent,))
        draft.cells[cell] = CellState(
            tile, held.writers | own, held.readers, held.authors | own, False
        )

    @staticmethod
    def note_read(draft: Draft, cell: Cell, agent: int) -> None:
        """A generic read, not yet ordered before writes of the other proxies."""
        held = draft.cells[cell]
        draft.cells[cell] = held._replace(readers=held.readers | {agent})

    # ---------------------------------------------------------------------------- proxies

    def check_proxy(
        self, draft: Draft, doing: Doing, cell: Cell, write: bool, proxy: ir.Proxy
    ) -> None:
        """Generic accesses must be fenced before another proxy uses the same memory."""
        held, where = draft.cells[cell], key_text(cell)
        if proxy is ir.Proxy.ASYNC:
            if held.writers:
                message = (
                    f"{where} was written through the generic proxy without a proxy fence before "
                    "this asynchronous access"
                )
                doing.fail(FaultKind.MISSING_FENCE, message, cell[0])
            if write and held.readers and self.program.policies.war_fence:
                message = (
                    f"{where} was read through the generic proxy without a proxy fence before "
                    "this asynchronous write"
                )
                doing.fail(FaultKind.MISSING_FENCE_WAR, message, cell[0])
        elif proxy is ir.Proxy.TENSORMAP and (held.authors or held.released):
            message = f"the tensor map in {where} was written and is used without a tensormap fence"
            doing.fail(FaultKind.MISSING_TENSORMAP_FENCE, message, cell[0])

    def fence(self, draft: Draft, agent: Agent, operation: ir.Fence) -> None:
        """Execute a proxy fence on all memory of the spaces it names."""
        if operation.kind is ir.FenceKind.BARRIER_INIT:
            for key, barrier in draft.barriers.items():
                if barrier.status == 1 and barrier.owner == agent.number:
                    draft.barriers[key] = barrier._replace(status=2)
            return
        spaces = operation.spaces or tuple(ir.Space)
        path_rule = self.program.policies.fence_rule == "path"
        for buffer in self.program.buffers:
            if buffer.space not in spaces:
                continue
            # By the path rule the fence must be executed in the CTA of the other proxy.
            near = buffer.space is ir.Space.GLOBAL or buffer.cta == agent.role.cta
            for stage in range(buffer.stages):
                for cell in cells_of(buffer, stage, None):
                    held = draft.cells[cell]
                    draft.cells[cell] = _fenced(
                        held, operation.kind, agent.number, path_rule and near
                    )


def _fenced(held: CellState, kind: ir.FenceKind, agent: int, everyone: bool) -> CellState:
    """One cell after a proxy fence by `agent`, for its own accesses or for everyone's."""
    gone = held.writers | held.readers | held.authors if everyone else {agent, ENGINE}
    if kind is ir.FenceKind.ASYNC:
        return held._replace(writers=held.writers - gone, readers=held.readers - gone)
    if kind is ir.FenceKind.TENSORMAP_RELEASE:
        authors = held.authors - gone
        return held._replace(authors=authors, released=not authors) if held.authors else held
    return held._replace(released=False)
