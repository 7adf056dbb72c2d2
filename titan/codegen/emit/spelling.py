"""The statements of one role: every operation of the sync program, spelled by the device header.

The statements are those of `statements.py`; all their texts are made here from checked names and
numbers.

One agent of the sync program is a thread, a warp or a warpgroup. Waits are executed by all its
threads; an arrival by one elected lane of each warp, after a warp barrier, and the hardware counts
of the barriers are those of the program times the warps of an agent; bulk copies, their commits and
waits by one elected thread of its first warp, always the same.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.emit.arithmetic import RoleArithmetic, beside
from titan.codegen.emit.asking import ITEM, SpelledAnswer, SpelledAsk, answer_slot
from titan.codegen.emit.cluster import RANK, LedCopy, Multicast, RemoteArrive
from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.guarded import fill_statement
from titan.codegen.emit.layout import TRANSACTION_BYTES_MAX, Tile
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import identifier, integer, label, mangled, shown
from titan.codegen.emit.parted import parted
from titan.codegen.emit.registers import walk_sites
from titan.codegen.emit.ring_positions import (
    PositionKey,
    SpelledBefore,
    agrees,
    computed,
    lowest_bit,
    position_at,
    position_reads,
    steps_by_one,
)
from titan.codegen.emit.sites import EmissionSite, SiteKind
from titan.codegen.emit.statements import (
    PanelCopy,
    SpelledAdvance,
    SpelledArrive,
    SpelledAssignment,
    SpelledBranch,
    SpelledBulkWait,
    SpelledCall,
    SpelledCoordinates,
    SpelledExpect,
    SpelledGroupWait,
    SpelledHold,
    SpelledLeader,
    SpelledLoad,
    SpelledLoop,
    SpelledNamed,
    SpelledPosition,
    SpelledSend,
    SpelledStatement,
    SpelledVariable,
    SpelledWait,
)
from titan.codegen.tile.model import View
from titan.codegen.tile.operations import EVICTIONS
from titan.sync import program as ir
from titan.sync.expression import (
    Constant,
    Expression,
    Name,
    binary,
    linear_form,
    names_of,
    to_text,
)


class Spelling(RoleArithmetic):
    """Spells one role of one CTA."""

    def role(self, sites: tuple[EmissionSite, ...]) -> tuple[SpelledStatement, ...]:
        """The statements of the whole role. Raises EmissionRefused."""
        made: list[SpelledStatement] = []
        scope = self.sync
        multiplies = any(site.kind is SiteKind.MMA for site in walk_sites(sites))
        self.keeps_positions = self.wide and not self.places and multiplies
        for name, initial in self.place.role.variables:
            spelled = mangled("x", name, "a counter")
            made.append(SpelledVariable(spelled, str(integer(initial, name))))
            if steps_by_one(self.place.role.body, name):
                kept = self._positions(self.place.role.body, name, initial)
                scope = scope.keeping(kept)
                made += _declared(kept, initial)
        if self.work is None:
            made.append(SpelledCoordinates("titan::block_index()"))
        return (*made, *self.block(sites, scope))

    def block(
        self, sites: tuple[EmissionSite, ...], scope: SpellingScope
    ) -> tuple[SpelledStatement, ...]:
        """The statements of sites one after the other. Raises EmissionRefused."""
        made: list[SpelledStatement] = []
        for site in sites:
            for statement in self.site(site, scope):
                both = _together(made[-1], statement) if made else None
                if both is not None:
                    made[-1] = both
                else:
                    made.append(statement)
        return tuple(made)

    # -------------------------------------------------------------------------- operations

    def site(self, site: EmissionSite, scope: SpellingScope) -> tuple[SpelledStatement, ...]:
        """The statements of one site. Raises EmissionRefused."""
        operation = site.operation
        match operation:
            case ir.Loop():
                return self._loop(site, operation, scope)
            case ir.Branch() if self._only_waits(site):
                # A wait too many is harmless; one that ptxas sees on every path lets it overlap.
                return self.block(site.inside, scope)
            case ir.Branch(condition=condition):
                inside = self.block(site.inside, self._within(condition, scope))
                otherwise = self.block(site.otherwise, scope)
                return (SpelledBranch(scope.text(condition), inside, otherwise),)
            case ir.Assign(variable=variable, value=value):
                name = scope.text(Name(variable))
                kept = {key: at for key, at in scope.positions.items() if key[0] == variable}
                return (SpelledAssignment(name, scope.text(value)), *_advanced(kept))
            case ir.Wait():
                return (self._wait(operation, scope),)
            case ir.Arrive():
                return (self._arrive(operation, scope),)
            case ir.ExpectTransaction():
                size = self._constant(operation.bytes, "expected bytes", 0, TRANSACTION_BYTES_MAX)
                barrier = self._barrier(operation.barrier, scope)
                return (self._one(SpelledExpect(barrier, size)),)
            case ir.Commit(queue=queue):
                if self.queues[queue].pipelined:
                    return (SpelledCall("wgmma_commit"),)
                return (self._one(SpelledCall("bulk_commit")),)
            case ir.QueueWait():
                return (self._queue_wait(site, operation),)
            case ir.BarrierSync() | ir.BarrierArrive():
                return (self._named(operation, scope, loops=bool(site.loops)),)
            case ir.Fence(kind=kind):
                if kind is not ir.FenceKind.ASYNC:
                    raise EmissionRefused(f"no spelling for the fence {kind.value}")
                return (SpelledCall("fence_proxy_async"),)
            case ir.Asynchronous() | ir.Compute() | ir.Access():
                return self._tile_site(site, scope)
        raise EmissionRefused(f"no spelling for {type(operation).__name__} on this target")

    def _within(self, condition: Expression, scope: SpellingScope) -> SpellingScope:
        """What the condition implies for names that nothing inside changes."""
        counters = {name for name, _ in self.place.role.variables}
        return scope if names_of(condition) & counters else scope.where(condition)

    def _only_waits(self, branch: EmissionSite) -> bool:
        """Whether a branch does nothing but wait for tensor-core groups."""
        return not branch.otherwise and all(
            isinstance(site.operation, ir.QueueWait) and self.queues[site.operation.queue].pipelined
            for site in branch.inside
        )

    def _tile_site(self, site: EmissionSite, scope: SpellingScope) -> tuple[SpelledStatement, ...]:
        match site.kind:
            case SiteKind.LOAD:
                return (self._load(site, scope),)
            case SiteKind.FILL:
                return (fill_statement(self, site, scope),)
            case SiteKind.SEND:
                return (self._send(site, scope),)
            case SiteKind.ASK:
                return (self._ask(site, scope),)
            case SiteKind.ANSWER:
                return (SpelledAnswer(answer_slot(site, self.layout, scope)),)
            case SiteKind.READ:
                return ()  # spelled at the Compute after it
            case SiteKind.CARRY:
                return tuple(self._carry(site))
        inner = self.tile_scope(site, scope)
        made: list[SpelledStatement] = []
        for name in self.plan.sequence[site.number]:
            made += self._register_operation(self.tiles.operations[name], site, inner, scope)
        return tuple(made)

    def _positions(self, block: ir.Block, counter: str, start: int) -> dict[PositionKey, str]:
        """The places in rings that the block reads off a counter that goes up by one.

        Only where warpgroups issue products themselves: elsewhere one thread acts, whose
        instructions cost nothing. Raises EmissionRefused where a position is not what it stands
        for.
        """
        kept: dict[PositionKey, str] = {}
        for read, expression in position_reads(block):
            if not self.keeps_positions or read.counter != counter:
                continue
            if not agrees(read, expression, start):
                raise EmissionRefused(f"no position gives {label(to_text(expression))}")
            name = mangled("r", f"{counter}_{read.depth}", "a position")
            kept[read.key] = f"{name}_before" if read.lag else name
        clashing = set(kept.values()) & self.position_names
        self.position_names |= set(kept.values())
        return {} if clashing else kept

    def _loop(
        self, site: EmissionSite, loop: ir.Loop, scope: SpellingScope
    ) -> tuple[SpelledStatement, ...]:
        name = mangled("x", loop.variable, "a loop variable")
        if loop.variable in scope.spelled:
            raise EmissionRefused(f"{name} is declared twice")
        inner = scope.plus(loop.variable, name, scope.bound(loop.start))
        outermost = not site.loops and loop.variable == self.work
        body: list[SpelledStatement] = []
        if outermost:
            item = f"titan::block_index() + {name} * titan::grid_size()"
            item = ITEM if self.tiles.answers else item
            body.append(SpelledCoordinates(item))
        first = loop.start.value if isinstance(loop.start, Constant) else None
        kept = self._positions(loop.body, loop.variable, first) if first is not None else {}
        made_again = computed(kept)
        body += [SpelledBefore(kept[key], source) for key, source in made_again.items()]
        body += self._known(site, scope)
        body += self.block(site.inside, inner.keeping(kept))
        carried = {key: at for key, at in kept.items() if key not in made_again}
        body += _advanced(carried)
        start, stop = scope.text(loop.start), inner.text(loop.stop)
        made = SpelledLoop(name, start, stop, tuple(body), outermost)
        return (*_declared(carried, first or 0), *parted(made, self.parted_names))

    def _known(self, loop: EmissionSite, scope: SpellingScope) -> list[SpelledStatement]:
        """What the body of a loop begins with to let a compiler know of counters."""
        return []

    def _one(self, statement: SpelledStatement) -> SpelledStatement:
        """By the one thread of the agent that deals with the copy engine."""
        if self.place.elected:
            return statement
        return SpelledLeader((statement,))

    def _barrier(self, reference: ir.Reference, scope: SpellingScope) -> str:
        if reference.name not in self.layout.barriers:
            raise EmissionRefused(f"{mangled('b', reference.name, 'a barrier')} is not declared")
        return f"{mangled('b', reference.name, 'a barrier')} + {beside(scope, reference.index)}"

    def _wait(self, wait: ir.Wait, scope: SpellingScope) -> SpelledStatement:
        return SpelledWait(
            self._barrier(wait.barrier, scope),
            scope.text(lowest_bit(wait.parity)),
            wait.scope is ir.Scope.CLUSTER,
            wait.order is ir.Order.RELAXED,
            _wait_note(wait, scope),
        )

    def _arrive(self, arrive: ir.Arrive, scope: SpellingScope) -> SpelledArrive:
        if arrive.drop or arrive.token:
            raise EmissionRefused("an arrival that drops or keeps its state")
        if arrive.count != Constant(1):
            raise EmissionRefused("an arrival that counts more than once")
        remote: tuple[str, ...] = ()
        if isinstance(arrive, RemoteArrive):
            remote = (scope.text(arrive.cta),)
            if arrive.transaction != Constant(0) or self.place.elected:
                raise EmissionRefused("an arrival at another CTA that expects bytes or is alone")
        elif arrive.scope is ir.Scope.CLUSTER:
            raise EmissionRefused("an arrival at a barrier of another CTA")
        elif arrive.order is ir.Order.RELAXED:
            raise EmissionRefused("a relaxed arrival within the CTA has no spelling")
        return SpelledArrive(
            self._barrier(arrive.barrier, scope),
            self._constant(arrive.transaction, "expected bytes", 0, TRANSACTION_BYTES_MAX),
            warps=not self.place.elected,
            several=self.wide,
            note=label(arrive.label) or f"arrive at {identifier(arrive.barrier.name, 'it')}",
            remote=remote,
            relaxed=arrive.order is ir.Order.RELAXED,
        )

    def _constant(self, expression: Expression, what: str, low: int, high: int) -> int:
        if not isinstance(expression, Constant):
            raise EmissionRefused(f"{what} must be a number that is fixed")
        return integer(expression.value, what, low, high)

    def _queue_wait(self, site: EmissionSite, wait: ir.QueueWait) -> SpelledStatement:
        pending = self._constant(wait.pending, "groups left unfinished", 0, 7)
        if self.queues[wait.queue].pipelined:
            holds = tuple(
                SpelledHold(mangled("v", name, "a value"), self._form(name).m)
                for name in self.plan.holds.get(site.number, ())
            )
            return SpelledGroupWait(pending, holds, label(wait.label))
        read = wait.until is ir.Until.READ
        return self._one(SpelledBulkWait(pending, read))

    def _named(
        self, operation: ir.BarrierSync | ir.BarrierArrive, scope: SpellingScope, *, loops: bool
    ) -> SpelledStatement:
        if operation.order is not ir.Order.SYNCHRONISING:
            raise EmissionRefused("a relaxed barrier has no spelling")
        name = operation.barrier.name
        if name not in self.layout.named:
            raise EmissionRefused(f"{mangled('named', name, 'a barrier')} is not declared")
        threads = self._constant(operation.threads, "threads of a named barrier", 32, 1024)
        if threads % 32 or self.place.role.threads < 32:
            raise EmissionRefused("a named barrier counts whole warps")
        sync = isinstance(operation, ir.BarrierSync)
        index = binary("+", operation.barrier.index, Constant(self.layout.named[name]))
        text = scope.text(index)
        form = linear_form(index)
        others = form is not None and list(form[0].values()) == [-1]
        if loops and others and {scope.spelled[one] for one in names_of(index)} == {"x_group"}:
            # The same in all iterations; ptxas would make the difference again in each.
            made = f"titan::kept((titan::u64)({text}))"
            number = f"{mangled('named', name, 'a barrier')}_{len(self.descriptors)}"
            text = f"(int){self.descriptors.setdefault(made, number)}"
        return SpelledNamed(sync, text, threads, identifier(name, "a named barrier"))

    # ------------------------------------------------------------------------ bulk copies

    def _coordinates(
        self, view: View, scope: SpellingScope, rows: str = ""
    ) -> tuple[str, tuple[str, ...]]:
        """The innermost coordinate, and the others from the rows outwards."""
        offsets = [scope.text(offset) for offset in view.offsets]
        if len(offsets) not in (2, 3, 4):
            raise EmissionRefused(f"a tile of a tensor of {len(offsets)} dimensions")
        if rows:
            offsets[-2] = f"{offsets[-2]} + {rows}"
        return offsets[-1], tuple(reversed(offsets[:-1]))

    def _load(self, site: EmissionSite, scope: SpellingScope) -> SpelledStatement:
        operation = site.operation
        assert isinstance(operation, ir.Asynchronous)
        tile = self.layout.tiles[site.name]
        load = self.tiles.operations[site.name]
        if len(operation.effects) != 1 or len(operation.completes) != 1 or load.view is None:
            raise EmissionRefused(f"{site.name} is not one copy that completes one barrier")
        completion = operation.completes[0]
        size = self._constant(completion.bytes, "copied bytes", 1, TRANSACTION_BYTES_MAX)
        effect = operation.effects[0]
        whole = tile.stage_bytes if effect.part is None else tile.stage_bytes // tile.parts
        if size != whole:
            raise EmissionRefused(f"{site.name} copies {size} of {whole} bytes")
        if (effect.part is None) != (tile.parts == 1):
            raise EmissionRefused(f"{site.name} has parts and is copied whole")
        rows, columns = self._first_of_share(site, tile, effect, scope)
        first, others = self._coordinates(load.view, self.tile_scope(site, scope), rows)
        if columns:
            first = f"{first} + {columns}"
        multicast = isinstance(operation, Multicast)
        if multicast:
            self._check_shared(load.view, site.name)
        copy = PanelCopy(
            self.stage(tile, effect, scope), mangled("map", site.name, "a load"), first, others,
            tile.panels, tile.panel_stride, tile.panel_columns, identifier(site.name, "a load"),
        )  # fmt: skip
        mask = (1 << self.ctas) - 1 if multicast else 0
        barrier = self._barrier(completion.barrier, scope)
        policy = self._policy(load.evict) if load.evict else ""
        led = isinstance(operation, LedCopy)
        if policy and led:
            raise EmissionRefused(f"{site.name} has a policy of the L2 cache in a pair of CTAs")
        return self._one(SpelledLoad(copy, barrier, size, mask, policy, led))

    def _first_of_share(
        self, site: EmissionSite, tile: Tile, effect: ir.Effect, scope: SpellingScope
    ) -> tuple[str, str]:
        """Where the rows and columns that are copied begin within those of the view; empty where
        it is there.

        CTAs that multiply together may each hold a share of the rows, or of the columns.
        """
        value, load = self.tiles.value(site.name), self.tiles.operations[site.name]
        led = isinstance(site.operation, LedCopy)
        in_rows = self.ctas if led and value.rows != tile.rows else 1
        in_columns = self.ctas if led and value.columns != tile.columns else 1
        shape = (tile.rows * in_rows, tile.columns * in_columns, tile.dtype)
        if (value.rows, value.columns, value.dtype) != shape or min(in_rows, in_columns) > 1:
            raise EmissionRefused(f"{site.name} has another shape than its buffer")
        if max(in_rows, in_columns) > 1 and load.view is not None:
            self._check_shared(load.view, site.name)
            if effect.part is not None:
                raise EmissionRefused(f"{site.name} has parts in each CTA of a pair")
            rank = scope.text(Name(RANK))
            if in_rows > 1:
                return f"{rank} * {tile.rows}", ""
            return "", f"{rank} * {tile.columns}"
        part = effect.part
        return "" if part is None else f"{beside(scope, part)} * {tile.part_rows}", ""

    def _ask(self, site: EmissionSite, scope: SpellingScope) -> SpelledStatement:
        operation = site.operation
        assert isinstance(operation, ir.Asynchronous)
        answer = answer_slot(site, self.layout, scope)
        return self._one(SpelledAsk(answer, self._barrier(operation.completes[0].barrier, scope)))

    def _policy(self, evict: str) -> str:
        """The policy of the L2 cache, made once a role."""
        if evict not in EVICTIONS:
            raise EmissionRefused(f"an unknown policy of the L2 cache: {shown(evict)}")
        return self.descriptors.setdefault(f"titan::evict_{evict}()", f"titan_evict_{evict}")

    def _check_shared(self, view: View, name: str) -> None:
        """What all CTAs of a cluster receive must be the same for all their work items."""
        work = self.tiles.tile.work
        last = work[-1].name if work else ""
        if last in self.tiles.tile.names_in(*view.offsets):
            raise EmissionRefused(f"{name} differs between the CTAs that receive it")

    def _send(self, site: EmissionSite, scope: SpellingScope) -> SpelledStatement:
        operation = site.operation
        assert isinstance(operation, ir.Asynchronous)
        store = self.tiles.operations[site.name]
        if len(operation.effects) != 1 or store.view is None:
            raise EmissionRefused(f"{site.name} is not one copy of one region")
        if store.below is not None:
            raise EmissionRefused(f"{site.name} ends within a tile, which is sent whole")
        effect = operation.effects[0]
        tile = self.layout.tiles[effect.buffer]
        inner = self.tile_scope(site, scope)
        least = [inner.bound(offset) for offset in store.view.offsets]
        if any(bound is None or bound < 0 for bound in least):
            raise EmissionRefused(f"{site.name} may begin before its tensor does")
        rows = self._sent_rows(site, tile, effect, scope)
        first, others = self._coordinates(store.view, inner, rows)
        if site.slice:
            first = f"{first} + {site.slice * tile.columns}"
        copy = PanelCopy(
            self.stage(tile, effect, scope), mangled("map", site.name, "a store"), first, others,
            tile.panels, tile.panel_stride, tile.panel_columns, identifier(site.name, "a store"),
        )  # fmt: skip
        if store.reduction not in ("", "add"):
            raise EmissionRefused(f"no spelling for {shown(store.reduction)} onto a tensor")
        return self._one(SpelledSend(copy, bool(store.reduction)))

    def _sent_rows(
        self, site: EmissionSite, tile: Tile, effect: ir.Effect, scope: SpellingScope
    ) -> str:
        """Where the rows that are sent begin within those of the view; empty where it is there."""
        if tile.parts > 1 and effect.part is not None:
            return f"{beside(scope, effect.part)} * {tile.part_rows}"
        return ""


def _together(first: SpelledStatement, second: SpelledStatement) -> SpelledStatement | None:
    """Two statements as one that does the same in the same order; None where there is none."""
    match first, second:
        case SpelledLeader(), SpelledLeader():
            return SpelledLeader((*first.body, *second.body))
        case SpelledArrive(), SpelledArrive() if first.remote and second.remote:
            both = replace(first, remote=first.remote + second.remote)
            return both if replace(second, remote=both.remote, note=both.note) == both else None
        case SpelledBranch(), SpelledBranch():
            # Between arrivals nothing changes the condition.
            alone = isinstance(first.then[-1], SpelledArrive) and len(first.then) == 1
            if not alone or first.otherwise or second.otherwise or len(second.then) != 1:
                return None
            then = _together(first.then[0], second.then[0])
            same = first.condition == second.condition and then is not None
            return SpelledBranch(first.condition, (then,), ()) if same and then else None
    return None


def _declared(kept: dict[PositionKey, str], start: int) -> list[SpelledStatement]:
    """Positions where the counter begins."""
    return [
        SpelledPosition(name, depth, *position_at(start - lag, depth))
        for (_, depth, lag), name in sorted(kept.items())
    ]


def _advanced(kept: dict[PositionKey, str]) -> list[SpelledStatement]:
    """Positions one further; the one before is where the other was."""
    made: list[SpelledStatement] = []
    for (counter, depth, lag), name in sorted(kept.items(), reverse=True):
        made.append(SpelledAdvance(name, kept.get((counter, depth, 0), "") if lag else ""))
    return made


def _wait_note(wait: ir.Wait, scope: SpellingScope) -> str:
    purpose = label(wait.label) or f"wait for {identifier(wait.barrier.name, 'a barrier')}"
    if wait.phase is None:
        return purpose
    scope.text(wait.phase)  # every name in it is known
    return f"{purpose} (phase {label(to_text(wait.phase))})"
