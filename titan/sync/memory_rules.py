"""Memory: which cells an effect touches, and what a read and a write through a proxy mean.

Assumption: an asynchronous operation may read and write at any time between its start and its
finish. Sources: PTX "Async Proxy", "cp.async.bulk" (undefined behaviour until completion).
"""

from __future__ import annotations

from titan.sync import program as ir
from titan.sync.contents import contents_of
from titan.sync.control import ControlFlow, tile_of
from titan.sync.expression import evaluate
from titan.sync.fault import FaultKind
from titan.sync.lifetime import CtaLifetime
from titan.sync.parts import queue_of
from titan.sync.pipe_order import PipePair, PipeUse, keeps, pipe_pairs, pipe_use
from titan.sync.proxy_marks import CacheDomains, is_outside, missing_fence, went_inside
from titan.sync.reductions import Reduction, commute, reduction_of
from titan.sync.state import (
    ANY_TILE,
    Cell,
    CellState,
    Draft,
    Environment,
    ExecutionContext,
    Extent,
    Flight,
    content_text,
    key_text,
)
from titan.sync.turns import place_of


def cells_of(buffer: ir.Buffer, stage: int, part: int | None) -> list[Cell]:
    """The cells of one stage, or of one part of it."""
    storage = buffer.storage or buffer.name
    parts = range(buffer.parts) if part is None else (part,)
    return [
        (storage, buffer.offset + (stage * buffer.parts + p) * buffer.units + unit)
        for p in parts
        for unit in range(buffer.units)
    ]


class MemoryRules:
    """What accesses do to a draft state, and the faults of those that may not be made."""

    def __init__(self, control: ControlFlow, lifetime: CtaLifetime, domains: CacheDomains) -> None:
        program = control.program
        self._control = control
        self._lifetime = lifetime
        self._domains = domains
        self._buffers = {buffer.name: buffer for buffer in program.buffers}
        self._pairs = {queue.name: pipe_pairs(queue, program.policies) for queue in program.queues}
        self._contents = contents_of(program)
        self._ctas = tuple(agent.role.cta for agent in control.agents)
        self._war_fence = program.policies.war_fence

    def resolve(
        self, draft: Draft, context: ExecutionContext, effect: ir.Effect, environment: Environment
    ) -> tuple[list[Cell], int]:
        """The cells and the tile of one effect; ANY_TILE where no tile is named."""
        buffer = self._buffers[effect.buffer]
        stage = place_of(buffer.name, evaluate(effect.stage, environment), environment)
        part = None if effect.part is None else evaluate(effect.part, environment)
        if not 0 <= stage < buffer.stages or not 0 <= (part or 0) < buffer.parts:
            where = f"stage {stage}" if part is None else f"stage {stage} part {part}"
            message = f"{buffer.name} has no {where}"
            context.fail(FaultKind.INDEX_OUT_OF_RANGE, message, buffer.name)
        home = self._ctas[context.agent]
        if buffer.space is not ir.Space.GLOBAL and buffer.cta != home:
            self._lifetime.check_alive(draft, context, buffer.cta, buffer.name)
        tile = ANY_TILE if effect.tile is None else tile_of(effect.tile, environment)
        return cells_of(buffer, stage, part), tile

    # ------------------------------------------------------------- reads, writes, conflicts

    def check_read(
        self,
        draft: Draft,
        context: ExecutionContext,
        cell: Cell,
        tile: int,
        queue: str | None = None,
    ) -> None:
        """What a read meets must be written to its end, and be the tile that is meant."""
        content = draft.cells[cell].tile
        for flight in draft.flights():
            for other, write, written, _, extent, _ in flight.accesses:
                if other != cell or not write:
                    continue
                earlier = pipe_use(write, extent is not None)
                if keeps(self._pairs_with(flight, context, queue), earlier, PipeUse.READ, False):
                    content = written  # such as a copy before the product that reads it
                    continue
                message = f"{key_text(cell)} is read while a write to it is in flight"
                kind, other_issue = FaultKind.READ_BEFORE_ARRIVAL, self._control.issue_of(flight)
                context.clash(kind, message, cell[0], other_issue)
        self._check_tile(context, cell, tile, content)

    def _check_tile(self, context: ExecutionContext, cell: Cell, tile: int, held: int) -> None:
        if tile not in (ANY_TILE, held):
            names = self._contents.get(cell[0], ())
            message = (
                f"{key_text(cell)} holds {content_text(held, names)} where "
                f"{content_text(tile, names)} is expected"
            )
            context.fail(FaultKind.STALE_READ, message, cell[0])

    def check_write(
        self,
        draft: Draft,
        context: ExecutionContext,
        cell: Cell,
        queue: str | None = None,
        extent: Extent | None = None,
        reduction: Reduction | None = None,
    ) -> None:
        """Nothing in flight may still use what is written, but reductions of one kind, and what
        the pipe of its queue orders."""
        later = pipe_use(True, extent is not None)
        for flight in draft.flights():
            pairs = self._pairs_with(flight, context, queue)
            for other, write, _, _, theirs, reduces in flight.accesses:
                earlier, same = pipe_use(write, theirs is not None), theirs == extent
                if other != cell or commute(reduction, reduces):
                    continue
                if keeps(pairs, earlier, later, same):
                    continue
                if write or flight.reading:
                    message = (
                        f"{key_text(cell)} is overwritten while an operation in flight still "
                        f"{'writes' if write else 'reads'} it"
                    )
                    kind = FaultKind.OVERWRITE_IN_FLIGHT
                    context.clash(kind, message, cell[0], self._control.issue_of(flight))

    def kind_of(self, context: ExecutionContext, effect: ir.Effect) -> Reduction | None:
        """The kind of reduction that the effect is for who executes it."""
        return reduction_of(effect, self._ctas[context.agent])

    def check_sum(
        self, draft: Draft, context: ExecutionContext, cell: Cell, tile: int, effect: ir.Effect
    ) -> None:
        """A reduction that names a tile adds to that tile."""
        if effect.reduction:
            self._check_tile(context, cell, tile, draft.cells[cell].tile)

    def _pairs_with(
        self, flight: Flight, context: ExecutionContext, queue: str | None
    ) -> tuple[PipePair, ...]:
        """The pairs that the data path keeps of the flight and a new operation of `queue`."""
        pairs = () if queue is None else self._pairs[queue]
        if not pairs or flight.agent != context.agent:
            return ()
        return pairs if queue_of(self._control.operations[flight.site]) == queue else ()

    def access(
        self,
        draft: Draft,
        context: ExecutionContext,
        operation: ir.Access,
        environment: Environment,
    ) -> None:
        """Execute a synchronous access."""
        resolved = [
            (effect, *self.resolve(draft, context, effect, environment))
            for effect in operation.effects
        ]
        for effect, cells, tile in resolved:
            for cell in cells:
                self.check_cached(draft, context, cell, effect)
                if effect.write:
                    self.check_write(draft, context, cell, reduction=self.kind_of(context, effect))
                    self.check_sum(draft, context, cell, tile, effect)
                else:
                    self.check_read(draft, context, cell, tile)
        for effect, cells, tile in resolved:
            for cell in cells:
                if effect.proxy in ir.CACHED:
                    self.note_cached(draft, cell, tile, context.agent, effect)
                elif effect.write:
                    left = draft.cells[cell].tile if effect.reduction else tile
                    self.note_write(draft, cell, left, context.agent)
                else:
                    self.note_read(draft, cell, context.agent)

    def note_write(self, draft: Draft, cell: Cell, tile: int, agent: int) -> None:
        """A generic write: new content, not yet visible to the other proxies."""
        cell_state = draft.cells[cell]
        own = frozenset((agent,))
        marks = self.outside(cell_state, cell, True).marks
        draft.cells[cell] = CellState(
            tile,
            cell_state.writers | own,
            cell_state.readers,
            cell_state.authors | own,
            False,
            marks,
        )

    def note_read(self, draft: Draft, cell: Cell, agent: int) -> None:
        """A generic read, not yet ordered before writes of the other proxies."""
        cell_state = self.outside(draft.cells[cell], cell, False)
        draft.cells[cell] = cell_state._replace(readers=cell_state.readers | {agent})

    @staticmethod
    def note_cached(draft: Draft, cell: Cell, tile: int, agent: int, effect: ir.Effect) -> None:
        """An access through a cached proxy: its domain alone knows of it."""
        cell_state = draft.cells[cell]
        marks = went_inside(cell_state.marks, effect.proxy, agent, effect.write)
        draft.cells[cell] = cell_state._replace(
            tile=tile if effect.write else cell_state.tile, marks=marks
        )

    def outside(self, cell_state: CellState, cell: Cell, write: bool) -> CellState:
        """The cell after an access that the cached proxies have yet to see."""
        domains = self._domains.cached.get(cell[0], ())
        return (
            cell_state._replace(marks=is_outside(cell_state.marks, domains, write))
            if domains
            else cell_state
        )

    # ---------------------------------------------------------------------------- proxies

    def check_proxy(
        self, draft: Draft, context: ExecutionContext, cell: Cell, effect: ir.Effect
    ) -> None:
        """Generic accesses must be fenced before an asynchronous one uses the same memory."""
        cell_state, where, proxy = draft.cells[cell], key_text(cell), effect.proxy
        if proxy is ir.Proxy.ASYNC:
            pending = {
                wrote for _, issuer, wrote in cell_state.marks.released if issuer == context.agent
            }
            if cell_state.writers or True in pending:
                message = (
                    f"{where} was written through the generic proxy without a proxy fence before "
                    "this asynchronous access"
                )
                context.fail(FaultKind.MISSING_FENCE, message, cell[0])
            if effect.write and (cell_state.readers or pending) and self._war_fence:
                message = (
                    f"{where} was read through the generic proxy without a proxy fence before "
                    "this asynchronous write"
                )
                context.fail(FaultKind.MISSING_FENCE_WAR, message, cell[0])
        elif proxy is ir.Proxy.TENSORMAP and (cell_state.authors or cell_state.released):
            message = f"the tensor map in {where} was written and is used without a tensormap fence"
            context.fail(FaultKind.MISSING_TENSORMAP_FENCE, message, cell[0])

    def check_cached(
        self, draft: Draft, context: ExecutionContext, cell: Cell, effect: ir.Effect
    ) -> None:
        """Where one of two proxies is a cached one: a fence of each that is not generic."""
        if cell[0] not in self._domains.cached:
            return
        cell_state, own = draft.cells[cell], self._ctas[context.agent]
        buffer, proxy = self._buffers[effect.buffer], effect.proxy
        if isinstance(context.operation, ir.Access) and proxy not in ir.CACHED:
            proxy = ir.Proxy.GENERIC
        # An asynchronous access may be fenced for in its issuer's CTA, or in that of the memory.
        places = {own}
        if proxy is ir.Proxy.ASYNC and buffer.space is not ir.Space.GLOBAL:
            places.add(buffer.cta)
        found = [
            missing_fence(cell_state.marks, proxy, place, self._ctas, effect.write)
            for place in sorted(places)
        ]
        if all(found):
            message = (
                f"{key_text(cell)} was {found[0]} without the proxy fences before this "
                f"{'write' if effect.write else 'read'} through the {proxy} proxy"
            )
            context.fail(FaultKind.MISSING_CACHED_FENCE, message, cell[0])
