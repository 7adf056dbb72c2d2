"""The pipeline of a tile program on Hopper: a loading warp, computing warpgroups, rings between.

The loading role runs over all work items and iterations in the order of the loop and fills every
ring (`filling.py`); `groups` warpgroups share the rows of every tile. The body of their loop is
that of the schedule (`loop_body.py`). Where operations of two iterations meet in one body, the
first and the last are peeled off; where only drains and releases come one iteration late, a
condition guards them. All roles have the same outer bounds and reach `finalize`.

A unified shape is one loop over time for every role: in step t the stage of iteration t is filled
and iteration t - P is computed, each behind its guard, P one less than the stages.

Decides no correctness: what it prints is verified like any kernel file. Source: seed formulation,
sections 1 and 2; FlashAttention-3 (taking turns at the tensor cores).
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.filling import BULK_COPIES, Filling
from titan.codegen.pipeline.indices import earlier, inner
from titan.codegen.pipeline.loop_body import (
    BodyItem,
    ItemKind,
    by_schedule,
    fenced_since,
    in_order,
    last_product_late,
    loop_body,
)
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.poison import on_safe_path
from titan.codegen.pipeline.rings import PipelineRing, rings_of
from titan.codegen.pipeline.tile_layout import staged_buffer, tile_bytes
from titan.codegen.tile.cost import SHARED_STAGES
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace
from titan.codegen.tile.staging import STAGES, overlaid, slices_of

THREADS = 128
REGISTERS = {2: (40, 232), 3: (32, 160)}  # setmaxnreg: producer, consumer; the pool is 64 Ki
LEAN = 24, 240  # of two groups where the producer only asks for bulk copies, as FlashAttention-3
GROUPS_MAX = 3
OUTPUT = "output"  # the queue of bulk stores


class Hopper:
    """The statements and declarations of one pipeline. Raises FormRefused where there is none."""

    def __init__(
        self,
        tile: TileProgram,
        shape: Shape,
        starts: dict[str, int],
        ii: int,
        filling: Filling = BULK_COPIES,
    ) -> None:
        if not 1 <= tile.groups <= GROUPS_MAX:
            raise FormRefused(f"{tile.groups} computing warpgroups; there are 1 to {GROUPS_MAX}")
        self.tile = tile
        self.computing = tile.groups  # warpgroups that compute
        self.shape = shape
        self.filling = filling
        self.rings = rings_of(tile)
        ordered = by_schedule(tile, starts, ii) if shape.overlapped else in_order(tile)
        if shape.behind:
            ordered = by_schedule(tile, *last_product_late(tile, in_turns=shape.ping_pong))
        at_once = not shape.specialised or shape.unified
        self.items = loop_body(tile, self.rings, ordered, at_once=at_once)
        heavy = max((item.lag for item in self.items if not item.light), default=0)
        if heavy > 1:
            raise FormRefused(f"operations of {heavy + 1} iterations meet in one loop body")
        self.peeled = heavy == 1
        self.stores = [op for op in (*tile.body, *tile.after) if self._staged(op)]
        self.straight = [
            op for op in tile.body
            if op.kind == "store" and any(o in self._loads() for o in op.operands)
        ]  # fmt: skip
        self.overlaid = overlaid(tile) if shape.overlaid else {}
        self.position = "n" if shape.persistent else ""
        self.takes_turns = shape.ping_pong
        self.ahead = shape.depth - 1
        if shape.unified:
            self._check_unified()
        if shape.poison and (self.position or shape.unified):
            raise FormRefused(
                "a stage is poisoned by the index of its iteration: not where it counts the "
                "iterations of all work items, nor in one loop over time"
            )
        if self.takes_turns and tile.groups != 2:
            raise FormRefused("two groups take turns, not another number")
        self.shares = [op for op in tile.body if op.kind == "share"]
        if self.shares and self.takes_turns:
            raise FormRefused("groups that share a fragment meet, and cannot take turns")
        if self.straight and tile.groups != 1:
            raise FormRefused("a straight copy needs one group")

    def _check_unified(self) -> None:
        """Raises FormRefused where work cannot be one loop over time."""
        if self.position:
            raise FormRefused("one loop over time does one work item")
        if self.takes_turns or self.peeled or any(item.lag for item in self.items):
            raise FormRefused("in one loop over time one iteration is done at a time")
        if self.filling.tail:
            raise FormRefused("in one loop over time all iterations are filled alike")

    def _loads(self) -> set[str]:
        return {load.name for ring in self.rings for load in ring.loads}

    def _staged(self, operation: TileOperation) -> bool:
        """Whether a store goes from registers through shared memory."""
        if operation.kind != "store" or self.filling.without_map(operation):
            return False
        source = self._value(operation.operands[0])
        return source is not None and source.place is ValuePlace.FRAGMENT

    def _known(self, name: str) -> Value:
        value = self._value(name)
        if value is None:
            raise FormRefused(f"{name} is no value")
        return value

    def _value(self, name: str) -> Value | None:
        for carried in self.tile.carried:
            if carried.value.name == name:
                return carried.value
        for operation in self.tile.operations:
            if operation.name == name:
                return operation.result
        return None

    # ------------------------------------------------------------------------------- the file

    def document(self) -> doc.PipelineDocument:
        """The kernel file. Raises FormRefused."""
        self.filling.refuse_straight(self.straight, self.rings)
        return doc.PipelineDocument(
            self.tile.name,
            self.tile.target,
            doc.DocumentSizes(self.shape.depth, over_work=bool(self.position)),
            buffers=tuple(self._buffers()),
            rings=tuple(self._rings()),
            barriers=tuple(self._barriers()),
            named_barriers=tuple(self._named()),
            queues=tuple(self._queues()),
            roles=tuple(self._roles()),
            program=tuple(self._program()),
        )

    def _program(self) -> list[tuple[str, doc.Block]]:
        if not self.shape.specialised:
            return [("worker", self._worker())]
        return [("producer", self._producer()), ("consumer", self._consumer())]

    def _buffers(self) -> list[doc.BufferDeclaration]:
        found = []
        for ring in self.rings:
            stages = "1" if ring.once else "depth"
            found += [replace(staged_buffer(value), stages=stages) for value in ring.values]
        for store in self.stores:
            source = self._value(store.operands[0])
            if source is not None:
                slices = self._slices(store)
                if store.writes_transposed:
                    source = replace(source, rows=source.columns, columns=source.rows)
                buffer = staged_buffer(replace(source, columns=source.columns // slices))
                stages = str(STAGES) if slices > 1 else ""
                groups = self.tile.groups
                buffer = replace(buffer, name=store.name, stages=stages, parts=groups)
                home = self.overlaid.get(store.name, "")
                place = next((i for i, item in enumerate(found) if item.name == home), None)
                if place is not None:
                    parts = groups * tile_bytes(self._known(home)) // tile_bytes(source)
                    found[place] = replace(found[place], storage=home, units=parts)
                found.append(replace(buffer, storage=home))
        for share in self.shares:
            buffer = staged_buffer(share.value)
            found.append(replace(buffer, stages=str(SHARED_STAGES), parts=self.tile.groups))
        return found

    def _slices(self, store: TileOperation) -> int:
        """In how many slices of its columns a store is staged."""
        source = self._value(store.operands[0])
        whole = not self.shape.sliced or store not in self.tile.after or store.writes_transposed
        if source is None or whole:
            return 1
        return slices_of(source)

    def _rings(self) -> list[doc.RingDeclaration]:
        return [
            doc.RingDeclaration(
                ring.name,
                tuple(load.name for load in ring.loads),
                "1" if ring.once else "depth",
                "store" if self.filling.by_threads(ring) else "",
            )
            for ring in self.rings
        ]

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        return []

    def _queues(self) -> list[doc.QueueDeclaration]:
        return [doc.QueueDeclaration(OUTPUT, "bulk")] if self.stores or self.straight else []

    def _named(self) -> list[doc.NamedBarrierDeclaration]:
        found = []
        if self.stores:
            found.append(doc.NamedBarrierDeclaration("together", THREADS, self.computing))
        if self.overlaid:
            found.append(doc.NamedBarrierDeclaration("all_read", THREADS * self.computing))
        if self.takes_turns:
            found.append(doc.NamedBarrierDeclaration("turn", 2 * THREADS, 2))
        if self.shares:
            found.append(doc.NamedBarrierDeclaration("shared", self.tile.groups * THREADS))
        if self._mixed() or self._fills_and_computes():
            found.append(doc.NamedBarrierDeclaration("copied", THREADS))
        return found

    def _fills_and_computes(self) -> bool:
        """Whether the threads of one warpgroup both copy tiles and compute on them."""
        return not self.shape.specialised and self.filling.has_loading_threads(self.rings)

    def _mixed(self) -> bool:
        """Whether the loading role both copies by its threads and asks for bulk copies."""
        by_threads = {self.filling.by_threads(ring) for ring in self.rings}
        return by_threads == {True, False}

    def _roles(self) -> list[doc.RoleDeclaration]:
        counters = ("n",) if self.position else ()
        if not self.shape.specialised:
            return [self._computing("worker")]
        lean = self.shape.lean
        if lean and (self.computing != 2 or self.filling.has_loading_threads(self.rings)):
            raise FormRefused("only a warp that asks for bulk copies gets along with few registers")
        few, many = LEAN if lean else REGISTERS.get(self.computing, (0, 0))
        return [
            self._loading(few, counters),
            replace(self._computing("consumer"), registers=many, counters=counters),
        ]

    def _loading(self, registers: int, counters: tuple[str, ...]) -> doc.RoleDeclaration:
        threads = self.filling.has_loading_threads(self.rings)
        warps, warpgroups = (0, 1) if threads else (1, 0)
        return doc.RoleDeclaration("producer", warps, warpgroups, registers, counters)

    def _computing(self, name: str) -> doc.RoleDeclaration:
        """Warpgroups; warps where nothing is computed, so that a warp can do it."""
        copies = all(op.kind in ("load", "store") for op in self.tile.operations)
        if not self.stores and copies:
            return doc.RoleDeclaration(name, warps=self.computing)
        return doc.RoleDeclaration(name, warpgroups=self.computing)

    # ------------------------------------------------------------------------------ producer

    def _producer(self) -> doc.Block:
        tail = self.filling.tail
        again: doc.Block = (doc.CountStatement("n"),) if self.position else ()
        once: list[doc.DocumentStatement] = []
        fill: list[doc.DocumentStatement] = []
        last: list[doc.DocumentStatement] = []
        behind: list[doc.DocumentStatement] = []
        for ring in self.rings:
            if ring.once:
                filled = behind if ring.behind else once
                filled += self._fill(ring, "w" if self.position else "0")
            else:
                fill += self._fill(ring, self.position or "t")
                if tail:
                    last += self.filling.last_stage(ring, self.position or "tiles - 1")
        loop = doc.ForStatement("t", "0", "tiles - 1" if tail else "tiles", (*fill, *again))
        if self.shape.unified:
            guarded = doc.IfStatement("t < tiles", tuple(fill))
            loop = doc.ForStatement("t", "0", self._steps(), (guarded,))
        work = (*once, loop, *last, *(again if tail else ()), *behind)
        return (*self._over_work(work), *self._last())

    def _fill(self, ring: PipelineRing, place: str) -> doc.Block:
        found = self.filling.stage(ring, place)
        if not self._mixed() or self.filling.by_threads(ring):
            return found
        # One thread arrives for the bulk copy: the others' stores must be behind it as well.
        acquire, *produce = found
        return (acquire, doc.SyncStatement(slot("copied", "0")), *produce)

    def _last(self) -> doc.Block:
        """The end of every role."""
        return (doc.FinalizeStatement(),)

    def _over_work(self, work: doc.Block) -> doc.Block:
        return (doc.ForStatement("w", "0", "work", work),) if self.position else work

    # -------------------------------------------------------------------- no role of its own

    def _worker(self) -> doc.Block:
        """One time loop: step t fills the stage of iteration t and computes iteration t - P.

        The first group fills; P is one less than the stages. Where its threads copy, they meet
        behind the copies: each answers for a part of the tile that all of them multiply next.
        Source: seed formulation, section 2.
        """
        if self.peeled or any(item.lag for item in self.items):
            raise FormRefused("without a loading role one iteration is done at a time")
        fill: list[doc.DocumentStatement] = []
        once: list[doc.DocumentStatement] = []
        for ring in self.rings:
            (once if ring.once else fill).extend(self._fill(ring, "0" if ring.once else "t"))
        if self._fills_and_computes():
            for filled in filter(None, (once, fill)):
                filled.append(doc.SyncStatement(slot("copied", "0")))
        made: list[doc.DocumentStatement] = []
        if once:
            made.append(doc.IfStatement("self == 0", tuple(once)))
        made += self._before("0")
        body = (doc.IfStatement("t < tiles and self == 0", tuple(fill)), self._consumed())
        made.append(doc.ForStatement("t", "0", self._steps(), body))
        made += self._ends("0")
        return (*made, *self._sent(), doc.FinalizeStatement())

    def _steps(self) -> str:
        """The end of a loop over time."""
        return f"tiles + {self.ahead}"

    def _consumed(self) -> doc.IfStatement:
        """Iteration t - P in step t of a loop over time."""
        consumed: list[doc.DocumentStatement] = []
        for item in self.items:
            consumed += self._item(item, "t", leaving=0, ahead=-self.ahead)
        return doc.IfStatement(f"t >= {self.ahead}" if self.ahead else "true", tuple(consumed))

    def _sent(self) -> doc.Block:
        """All bulk stores are over."""
        return (doc.DrainStatement(OUTPUT),) if self.stores or self.straight else ()

    # ------------------------------------------------------------------------------ consumer

    def _consumer(self) -> doc.Block:
        index = "w" if self.position else "0"
        made: list[doc.DocumentStatement] = []
        if self.takes_turns:
            made.append(doc.ArriveStatement(slot("turn", "0"), when="self == 1"))
        work = (*self._before(index), *self._loop(), *self._ends(index))
        return (*made, *self._over_work(work), *self._sent(), *self._last())

    def _before(self, index: str) -> doc.Block:
        """The start of a work item: loads that it keeps, and the first values."""
        made: list[doc.DocumentStatement] = [
            doc.WaitStatement(slot(ring.name, index))
            for ring in self.rings
            if ring.once and not ring.only_after
        ]
        for operation in self.tile.before:
            if operation.kind == "read":
                made.append(self._read(operation.operands[0], index))
            if operation.kind != "load":
                made.append(doc.ComputeStatement(operation.name))
        made += [doc.ComputeStatement(carried.value.name) for carried in self.tile.carried]
        return tuple(made)

    def _ends(self, index: str) -> doc.Block:
        """The end of a work item."""
        made: list[doc.DocumentStatement] = []
        for ring in self.rings:
            if ring.once and not ring.after:
                made += self._release(ring.name, index)
        met = not self.overlaid
        for operation in self.tile.after:
            if operation.name in self.overlaid and not met:
                made.append(doc.SyncStatement(slot("all_read", "0")))
                met = True
            made += self._after(operation, index)
        return tuple(made)

    def _after(self, operation: TileOperation, index: str) -> doc.Block:
        if self._staged(operation):
            return self._store(operation, index, again=bool(self.position))
        ring = next((ring for ring in self.rings if operation.name in ring.after), None)
        if ring is not None:
            return self._read_after(operation, ring, index)
        return () if operation.kind == "load" else (doc.ComputeStatement(operation.name),)

    def _read_after(self, operation: TileOperation, ring: PipelineRing, index: str) -> doc.Block:
        """The read of a loaded tile behind the loop, with the wait before the first reader and the
        release behind the last."""
        first = ring.only_after and operation.name == ring.after[0]
        return (
            *((doc.WaitStatement(slot(ring.name, index)),) if first else ()),
            self._read(operation.operands[0], index),
            doc.ComputeStatement(operation.name),
            *(self._release(ring.name, index) if operation.name == ring.after[-1] else ()),
        )

    def _loop(self) -> doc.Block:
        """All iterations of one work item."""
        if self.shape.unified:
            return (doc.ForStatement("t", "0", self._steps(), (self._consumed(),)),)
        first: doc.Block = self._body("0", guarded=False) if self.peeled else ()
        begin = "1" if self.peeled else "0"
        loop = doc.ForStatement("t", begin, "tiles", self._body("t", guarded=True))
        return (*first, loop, *self._last_items())

    def _body(self, t: str, guarded: bool) -> doc.Block:
        """The body at `t`; without `guarded` it is the first one, which has none before it."""
        items = [item for item in self.items if guarded or item.lag == 0]
        made: list[doc.DocumentStatement] = []
        heavy = 1 if self.peeled else 0
        for part in self._taking_turns(items):
            if isinstance(part, doc.DocumentStatement):
                made.append(part)
                continue
            statements = self._item(part, t, leaving=1 if part.leaves_newest else 0)
            least = part.lag
            if guarded and least > heavy and not part.leaves_newest:
                statements = _under(statements, f"{t} >= {least}")
            made += statements
        if self.position:
            made.append(doc.CountStatement("n"))
        return tuple(made)

    def _last_items(self) -> doc.Block:
        """What follows the last iteration's body, which only ends older iterations."""
        made: list[doc.DocumentStatement] = []
        for late in range(max((item.lag for item in self.items), default=0)):
            items = [item for item in self.items if item.lag > late]
            for part in self._taking_turns(items):
                if isinstance(part, doc.DocumentStatement):
                    made.append(part)
                    continue
                statements = self._item(part, "tiles", leaving=0, ahead=late)
                if part.lag > late + 1:
                    statements = _under(statements, f"tiles >= {part.lag - late}")
                made += statements
        return tuple(made)

    def _taking_turns(self, items: list[BodyItem]) -> list[BodyItem | doc.DocumentStatement]:
        """The items with the barriers between which a group has the tensor cores."""
        made: list[BodyItem | doc.DocumentStatement] = list(items)
        issues = [i for i, item in enumerate(items) if item.kind is ItemKind.ISSUE]
        if self.takes_turns and issues:
            made.insert(issues[-1] + 1, doc.ArriveStatement(slot("turn", "1 - self")))
            made.insert(issues[0], doc.SyncStatement(slot("turn", "self")))
        return made

    def _item(self, item: BodyItem, t: str, leaving: int, ahead: int = 0) -> doc.Block:
        """The statements of an item in the body of iteration `t + ahead`."""
        iteration = earlier(t, item.lag - ahead)
        place = earlier("n", item.lag - ahead) if self.position else iteration
        match item.kind:
            case ItemKind.WAIT:
                return (doc.WaitStatement(slot(item.name, place)),)
            case ItemKind.RELEASE:
                return self._release(item.name, place)
            case ItemKind.DRAIN:
                return (doc.DrainStatement(item.name, str(leaving or "")),)
            case ItemKind.SENT:
                return (doc.DrainStatement(OUTPUT, str(leaving or ""), until_read=True),)
            case ItemKind.ISSUE:
                return self._product(item.name, place, iteration)
            case ItemKind.STORE:
                return self._body_store(item.name, iteration, place)
            case ItemKind.SHARE:
                return self._share(item.name, place)
            case ItemKind.COMPUTE:
                return (doc.ComputeStatement(item.name, iteration),)
            case ItemKind.CARRY:
                return (doc.ComputeStatement(item.name, earlier(t, item.lag - ahead - 1)),)
            case ItemKind.READ:
                read = self._read(self.tile.operation(item.name).operands[0], place)
                return (read, doc.ComputeStatement(item.name, iteration))
            case _:
                assert_never(item.kind)

    def _release(self, name: str, place: str) -> doc.Block:
        """With a fence where threads have read what a bulk copy overwrites, if none came since.

        Threads that overwrite what threads have read need no fence in between.
        """
        ring = next(ring for ring in self.rings if ring.name == name)
        release = doc.ReleaseStatement(slot(name, place))
        reads = [one for one in ring.readers if self.tile.operation(one).kind == "read"]
        bare = [one for one in reads if not fenced_since(self.items, one, name)]
        fenced = bool(bare) and not self.filling.by_threads(ring)
        return (doc.FenceStatement(), release) if fenced else (release,)

    def _index(self, ring: PipelineRing, place: str) -> str:
        """The index of a ring's stage: once filled, it is that of the work item."""
        return place if not ring.once else "w" if self.position else "0"

    def _read(self, value: str, place: str) -> doc.ReadStatement:
        """The read of a loaded tile from its ring."""
        for ring in self.rings:
            if value in {load.name for load in ring.loads}:
                return doc.ReadStatement(slot(ring.name, self._index(ring, place)), (value,))
        raise FormRefused(f"{value} is read from shared memory, but no load fills it")

    def _product(self, name: str, place: str, iteration: str) -> doc.Block:
        """A product of tensor cores, with a safe path where its stage may be poisoned."""
        issue = self._issue(name, place)
        rings = [r for r in self.rings if not r.once and name in r.readers]
        if not (self.shape.poison and rings):
            return (issue,)
        return on_safe_path(slot(rings[0].name, place), issue, iteration)

    def _issue(self, name: str, place: str) -> doc.IssueStatement:
        slots, beside = [], []
        for value in self.tile.operation(name).operands[:2]:
            ring = next((r for r in self.rings if value in {x.name for x in r.loads}), None)
            if ring is not None:
                slots.append(slot(value, self._index(ring, place)))
            elif any(value == share.name for share in self.shares):
                beside.append(slot(value, _stage_of_shared(place), content=place))
        return doc.IssueStatement(tuple(slots), name, reads=tuple(beside))

    def _share(self, name: str, place: str) -> doc.Block:
        """Each group writes its rows, and all meet: who is there has multiplied with what the stage
        held before."""
        written = slot(name, _stage_of_shared(place), "self", content=place)
        return (
            doc.StoreStatement(written),
            doc.FenceStatement(),
            doc.SyncStatement(slot("shared", "0")),
        )

    def _body_store(self, name: str, iteration: str, place: str) -> doc.Block:
        operation = self.tile.operation(name)
        if self._staged(operation):
            return self._store(operation, place, again=True)
        for value in operation.operands:
            if value in self._loads():
                sent = slot(value, f"{inner(place)} % depth", content=place)
                return (doc.BulkStoreStatement(sent, OUTPUT), doc.CommitStatement(OUTPUT))
        return (doc.ComputeStatement(name, iteration),)

    def _store(self, operation: TileOperation, index: str, again: bool) -> doc.Block:
        together = doc.SyncStatement(slot("together", "self"))
        slices = self._slices(operation)
        if slices == 1:
            return sent_from(self._staging(operation, "0", index), together, again)
        made: list[doc.DocumentStatement] = []
        for number in range(slices):
            content = f"{index} * {slices} + {number}"
            staged = self._staging(operation, str(number % STAGES), content)
            made += sent_from(staged, together, again, str(STAGES - 1))
        return tuple(made)

    def _staging(self, operation: TileOperation, stage: str, content: str) -> doc.Slot:
        """The staging buffer of this warpgroup."""
        return slot(operation.name, stage, "self", content=content)


def sent_from(
    staged: doc.Slot, together: doc.DocumentStatement, again: bool, leaving: str = ""
) -> doc.Block:
    """From registers to shared memory, and from there by a bulk store of one thread.

    `again`: stores before may still read there, all but the last `leaving` of them.
    """
    before: doc.Block = (doc.DrainStatement(OUTPUT, leaving, until_read=True), together)
    return (
        *(before if again else ()),
        doc.StoreStatement(staged),
        doc.FenceStatement(),
        together,
        doc.BulkStoreStatement(staged, OUTPUT),
        doc.CommitStatement(OUTPUT),
    )


def _stage_of_shared(place: str) -> str:
    return f"{inner(place)} % {SHARED_STAGES}"


def _under(statements: doc.Block, condition: str) -> doc.Block:
    """The statements under a condition."""
    return tuple(replace(statement, when=condition) for statement in statements)
