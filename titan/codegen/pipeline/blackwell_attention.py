"""The pipeline of attention on Blackwell: loads, products, softmax and correction apart.

A warp loads and one thread issues all `tcgen05.mma`. Every warpgroup of the softmax owns a sub-tile
of 128 rows: it fetches the scores from tensor memory, computes, and puts the probabilities into the
same columns, where the second product finds them. One more warpgroup corrects: between two products
it multiplies the accumulator of each sub-tile by a row factor, and it does what follows the loop.
Row values that both sides need go through shared memory.

    issuer, iteration t: second product of t - 1, then first product of t, one sub-tile after the
    other, so that the tensor core serves one sub-tile while the softmax of the other runs.

The first product of a work item overwrites the accumulator: the factor of iteration 0 would
multiply zeros, and is handed over unused. That it is a number, not NaN or infinite, is assumed.

Which operation stands where follows from who reads what (`titan/codegen/tile/attention.py`).
Decides no correctness: what it prints is verified like any kernel file. Source: FlashAttention-4
(roles, order of products, correction); PTX, tcgen05.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.filling import refuse_unloaded
from titan.codegen.pipeline.hopper import OUTPUT, THREADS, sent_from
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.pipeline.tensor_pipeline import (
    COLUMNS_MAX,
    COLUMNS_STEP,
    LANES,
    TensorPipeline,
    result_of,
)
from titan.codegen.pipeline.tile_layout import BITS, staged_buffer
from titan.codegen.tile.attention import NotAttention, attention_of
from titan.codegen.tile.model import TileOperation, TileProgram

# setmaxnreg of the loading and issuing warps, of the softmax, of the correction; the pool is 64 Ki
REGISTERS = {1: (56, 240, 208), 2: (48, 184, 96)}
WIDE = {1: (56, 240, 208), 2: (48, 152, 160)}  # accumulators of more than LANES columns
ROLES = ("producer", "issuer", "softmax", "correction")


class BlackwellAttention(TensorPipeline):
    """The statements and declarations of one pipeline. Raises FormRefused where there is none."""

    registers = REGISTERS
    ctas = 1

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int]) -> None:
        refuse_unloaded(tile)
        if not shape.specialised:
            raise FormRefused("tensor memory is read by others than who fills it")
        if shape.ping_pong or shape.behind:
            raise FormRefused("the order of the products is that of the issuing thread")
        if shape.unified:
            raise FormRefused("products of two iterations meet in the issuer's loop body")
        if tile.cluster != self.ctas:
            raise FormRefused("clusters have no form together with tensor memory")
        try:
            self.parts = attention_of(tile, starts if shape.overlapped else {})
        except NotAttention as error:
            raise FormRefused(str(error)) from None
        super().__init__(tile, shape)
        if tile.persistent:
            self.item, self.position = "w", "n"
        self.scores = result_of(self.parts.first)
        if tile.groups not in REGISTERS:
            raise FormRefused(f"{tile.groups} softmax warpgroups; there are 1 or 2")
        self._fits()
        self._names()

    def _fits(self) -> None:
        """Shapes that lanes and columns of tensor memory take."""
        parts = self.parts
        scores, left, accumulator = self.scores, parts.left, parts.accumulator
        if any(value.rows != LANES * self.groups for value in (scores, left, accumulator)):
            raise FormRefused(f"a warpgroup computes {LANES} rows, one for each lane")
        if left.columns != scores.columns:
            raise FormRefused(f"{left.name} has other columns than {scores.name}")
        if BITS[left.dtype] != 16:
            raise FormRefused(f"{left.name} is {left.dtype}, and not of 16 bits")
        if any(value.columns % COLUMNS_STEP for value in (scores, accumulator)):
            raise FormRefused(f"products of {LANES} rows have multiples of {COLUMNS_STEP} columns")
        columns = self.groups * (scores.columns + accumulator.columns)
        if columns > COLUMNS_MAX:
            raise FormRefused(
                f"scores and accumulators take {columns} columns; tensor memory has {COLUMNS_MAX}"
            )
        products = {parts.first.name, parts.second.name}
        for ring in self.rings:
            if len(ring.readers) != 1 or not set(ring.readers) <= products:
                raise FormRefused(f"{ring.loads[0].name} is not read by one product alone")
        if any(operation.kind != "load" for operation in self.tile.before):
            raise FormRefused("before the loop there is more than loads")
        self.early = self._of(parts.first)
        self.late = self._of(parts.second)
        if not self.early or not self.late:
            raise FormRefused("a product takes nothing that is loaded in the loop")

    def _of(self, product: TileOperation) -> list[PipelineRing]:
        """The rings of the loop that a product reads."""
        return [ring for ring in self.rings if not ring.once and product.name in ring.readers]

    def _names(self) -> None:
        """Names of what is not in the tile program."""
        self.roles = tuple(self._fresh(role) for role in ROLES)
        self.g = self._fresh("g")
        self.queue = self._fresh("tensor_core")
        self.columns = self._fresh(f"columns_{self.parts.first.name}")
        rings = [ring.loads[0].name for ring in self.rings]
        ours = [self.parts.factor.name, *(value.name for value in self.parts.handed)]
        self._name(
            *rings, self.parts.first.name, self.parts.left.name, self.parts.accumulator.name, *ours
        )

    # ------------------------------------------------------------------------------- the file

    def document(self) -> doc.PipelineDocument:
        """The kernel file."""
        tile = self.tile
        queues = [doc.QueueDeclaration(self.queue, "tcgen05")]
        if self.stores:
            queues.append(doc.QueueDeclaration(OUTPUT, "bulk"))
        together = doc.NamedBarrierDeclaration("together", THREADS)
        bodies = (self._producer(), self._issuer(), self._softmax(), self._correction())
        end = self._end()
        return doc.PipelineDocument(
            tile.name,
            tile.target,
            doc.DocumentSizes(self.shape.depth, over_work=bool(self.position)),
            buffers=tuple(self._buffers()),
            barriers=tuple(self._barriers()),
            named_barriers=(*((together,) if self.stores else ()), *self._meetings()),
            queues=tuple(queues),
            policies=(("tensor_pipe", "in_order"),),  # scores are written over what a product read
            roles=self._roles(),
            program=tuple(
                (role, (*body, *end)) for role, body in zip(self.roles, bodies, strict=True)
            ),
        )

    def _end(self) -> doc.Block:
        """What every role ends with."""
        return (doc.FinalizeStatement(),)

    def _meetings(self) -> tuple[doc.NamedBarrierDeclaration, ...]:
        """Barriers at which all threads meet."""
        return ()

    def _roles(self) -> tuple[doc.RoleDeclaration, ...]:
        wide = self.parts.accumulator.columns > LANES
        few, many, some = (WIDE if wide else self.registers)[self.groups]
        counters = ("n",) if self.position else ()
        loading, issuing, computing, correcting = self.roles
        return (
            doc.RoleDeclaration(loading, 1, registers=few, counters=counters),
            doc.RoleDeclaration(issuing, 1, registers=few, counters=counters),
            doc.RoleDeclaration(computing, 0, self.groups, many, counters),
            doc.RoleDeclaration(correcting, 0, 1, some, counters),
        )

    def _buffers(self) -> list[doc.BufferDeclaration]:
        parts, groups = self.parts, str(self.groups)
        found = self._ring_buffers()
        for value, columns in (
            (self.scores, self.columns),
            (parts.left, self.columns),
            (parts.accumulator, ""),
        ):
            found.append(
                doc.BufferDeclaration(
                    value.name, LANES, value.columns, value.dtype, "tensor", groups,
                    storage=columns,
                )
            )  # fmt: skip
        for value in (parts.factor, *parts.handed):
            found.append(doc.BufferDeclaration(value.name, 1, LANES, "f32", stages=groups))
        for store in self.stores:
            value = self._value(store.operands[0])
            found.append(replace(staged_buffer(value), name=store.name, rows=LANES))
        return found

    def _barriers(self) -> list[doc.BarrierDeclaration]:
        parts, groups = self.parts, str(self.groups)
        found = self._ring_barriers()
        for name, count in (
            (self.full[self.scores.name], 1),
            (self.full[parts.left.name], 2),  # written, and the accumulator corrected
            (self.full[parts.factor.name], 1),
            (self.empty[parts.factor.name], 1),
            (self.full[parts.accumulator.name], 1),
            *((self.full[value.name], 1) for value in parts.handed),
            *((self.empty[value.name], 1) for value in parts.handed if self.position),
        ):
            found.append(doc.BarrierDeclaration(name, count, groups))
        return found

    # ------------------------------------------------------------------------ places and waits

    def _freed(self, ring: PipelineRing, place: str) -> doc.Block:
        """A stage given back once all products issued so far are done."""
        return self._commit(self._empty_slot(ring, place))

    def _commit(self, barrier: doc.Slot) -> doc.Block:
        """The end of all products so far arrives in every CTA that took part."""
        return (doc.CommitStatement(self.queue, barrier),)

    def _multiplied(self, operands: tuple[doc.Slot, ...], into: doc.Slot) -> doc.DocumentStatement:
        """A product of what lies in every CTA that takes part."""
        return doc.MultiplyStatement(operands, self.queue, into)

    def _left_full(self, sub: str) -> doc.DocumentStatement:
        """An arrival of who wrote the left operand, or corrected the accumulator."""
        return doc.ArriveStatement(slot(self.full[self.parts.left.name], sub))

    def _left_waited(self, place: str) -> doc.DocumentStatement:
        return doc.WaitStatement(slot(self.full[self.parts.left.name], self.g), place)

    def _each(self, *statements: doc.DocumentStatement) -> doc.Block:
        """For every sub-tile."""
        return (doc.ForStatement(self.g, "0", str(self.groups), statements),)

    # -------------------------------------------------------------------------------- producer

    def _producer(self) -> doc.Block:
        """Of a work item that follows another, what the loop loads first comes before what is
        loaded once, whose place the products of the item before have longer."""
        once, early, late = (
            tuple(one for ring in rings for one in self._fill(ring, place))
            for rings, place in (
                (self.once, self.item), (self.early, self.now), (self.late, self.now),
            )
        )  # fmt: skip
        if not self.position:
            return (*once, doc.ForStatement("t", "0", "tiles", (*early, *late)))
        loop = doc.ForStatement("t", "1", "tiles", (*early, *late, *self._counted()))
        work = (*early, *once, *late, *self._counted(), loop)
        # Nothing else waits for the commits behind the last products of the last item.
        last = (doc.WaitStatement(self._empty_slot(ring, self.last),
                                  self._round(ring, self.last)) for ring in self.late)  # fmt: skip
        return (*self._over_items(work), *last)

    # ------------------------------------------------------------------------ several work items

    @property
    def now(self) -> str:
        """The iteration of a loop body, counted over all work items where there are several."""
        return self.position or "t"

    @property
    def before(self) -> str:
        """The iteration before."""
        return f"{self.now} - 1"

    @property
    def first(self) -> str:
        """The first iteration of a work item, in front of its loop."""
        return self.position or "0"

    @property
    def last(self) -> str:
        """The last iteration of a work item, behind its loop."""
        return f"{self.position or 'tiles'} - 1"

    def _counted(self) -> doc.Block:
        return (doc.CountStatement(self.position),) if self.position else ()

    def _over_items(self, work: doc.Block) -> doc.Block:
        return (doc.ForStatement("w", "0", "work", work),) if self.position else work

    # ---------------------------------------------------------------------------------- issuer

    def _issuer(self) -> doc.Block:
        scores_done = self._commit(slot(self.full[self.scores.name], self.g))
        all_done = self._commit(slot(self.full[self.parts.accumulator.name], self.g))
        now, before, first, last = self.now, self.before, self.first, self.last
        body = (
            *(self._filled(ring, before) for ring in self.late),
            *(self._filled(ring, now) for ring in self.early),
            *self._each(*self._second(before), self._first(now), *scores_done),
            *(one for ring in self.late for one in self._freed(ring, before)),
            *(one for ring in self.early for one in self._freed(ring, now)),
            *self._counted(),
        )
        again = bool(self.position)
        work = (
            *(self._filled(ring, self.item) for ring in self.once),
            *(self._filled(ring, first) for ring in self.early),
            *self._each(self._first(first), *scores_done),
            *(one for ring in self.early for one in self._freed(ring, first)),
            *self._counted(),
            doc.ForStatement("t", "1", "tiles", body),
            *(one for ring in self.once if again for one in self._freed(ring, self.item)),
            *(self._filled(ring, last) for ring in self.late),
            *self._each(*self._second(last), *all_done),
            *(
                one
                for ring in self.late
                if again or self.ctas > 1
                for one in self._freed(ring, last)
            ),
        )
        return self._over_items(work)

    def _first(self, place: str) -> doc.DocumentStatement:
        operands = tuple(self._operand(name, place) for name in self.parts.first.operands)
        into = slot(self.scores.name, self.g, content=place)
        return self._multiplied(operands, into)

    def _second(self, place: str) -> doc.Block:
        """Once the left operand is written and the accumulator corrected."""
        parts, g = self.parts, self.g
        left = slot(parts.left.name, g, content=place)
        right = self._operand(parts.second.operands[1], place)
        into = slot(parts.accumulator.name, g, content=place)
        return (
            self._left_waited(place),
            self._multiplied((left, right), into),
        )

    # --------------------------------------------------------------------------------- softmax

    def _softmax(self) -> doc.Block:
        parts, me, now = self.parts, "self", self.now
        scores, factor, left = self.scores.name, parts.factor.name, parts.left.name
        computed = [doc.ComputeStatement(operation.name, "t") for operation in parts.softmax]
        body = (
            doc.WaitStatement(slot(self.full[scores], me), now),
            doc.LoadStatement(slot(scores, me, content=now)),
            doc.ComputeStatement(scores, "t"),
            *computed[: parts.until_factor],
            doc.WaitStatement(slot(self.empty[factor], me), self.before),
            doc.StoreStatement(slot(factor, me, content=now)),
            doc.ArriveStatement(slot(self.full[factor], me)),
            *computed[parts.until_factor : parts.until_left],
            doc.StoreStatement(slot(left, me, content=now)),
            self._left_full(me),
            *computed[parts.until_left :],
            *(doc.ComputeStatement(item.value.name, "t + 1") for item in parts.rows),
            *self._counted(),
        )
        work: list[doc.DocumentStatement] = [
            doc.ComputeStatement(item.value.name) for item in parts.rows
        ]
        work.append(doc.ForStatement("t", "0", "tiles", body))
        for value in parts.handed:
            if self.position:
                work.append(doc.WaitStatement(slot(self.empty[value.name], me), "w - 1"))
            work.append(doc.StoreStatement(slot(value.name, me, content=self.item)))
            work.append(doc.ArriveStatement(slot(self.full[value.name], me)))
        return self._over_items(tuple(work))

    # ------------------------------------------------------------------------------ correction

    def _correction(self) -> doc.Block:
        """An accumulator is declared free behind the fetch of its sums, for the next work
        item; for the first item, at the start. The factor is given back behind the arrival that the
        next product waits for: the softmax hands the next one over behind that product."""
        parts, g, now = self.parts, self.g, self.now
        accumulator, factor = parts.accumulator.name, parts.factor.name
        sums = slot(accumulator, g, content=self.before)
        factor_written = slot(self.full[factor], g)
        free = doc.ArriveStatement(slot(self.empty[factor], g))
        corrected = self._corrected()
        body = self._each(
            doc.WaitStatement(factor_written, now),
            doc.LoadStatement(slot(factor, g, content=now)),
            doc.ComputeStatement(factor, "t"),
            doc.LoadStatement(sums),
            doc.ComputeStatement(accumulator, "t"),
            doc.ComputeStatement(parts.correct.name, "t"),
            doc.StoreStatement(sums),
            corrected,
            free,
        )
        begun = () if self.position else (corrected,)
        work = (
            *self._each(doc.WaitStatement(factor_written, self.first), *begun, free),
            *self._counted(),
            doc.ForStatement("t", "1", "tiles", (*body, *self._counted())),
            *self._each(*self._finish()),
        )
        return (
            *(self._each(corrected) if self.position else ()),
            *self._over_items(work),
            *((doc.DrainStatement(OUTPUT),) if self.stores else ()),
        )

    def _corrected(self) -> doc.DocumentStatement:
        return self._left_full(self.g)

    def _finish(self) -> doc.Block:
        """What follows the loop, for one sub-tile. The place of what is stored is free before the
        sums are fetched, so that no registers keep what is ready."""
        g, accumulator = self.g, self.parts.accumulator.name
        made: list[doc.DocumentStatement] = []
        for value in self.parts.handed:
            made.append(doc.WaitStatement(slot(self.full[value.name], g), self.item))
            made.append(doc.LoadStatement(slot(value.name, g, content=self.item)))
            made.append(doc.ComputeStatement(value.name, "tiles"))
            if self.position:
                made.append(doc.ArriveStatement(slot(self.empty[value.name], g)))
        emptied, stored = self._stored()
        made += emptied
        made.append(doc.WaitStatement(slot(self.full[accumulator], g), self.item))
        made.append(doc.LoadStatement(slot(accumulator, g, content=self.last)))
        made.append(doc.ComputeStatement(accumulator, "tiles"))
        fetched = not self.position
        for operation in self.tile.after:
            if operation.name in stored:
                first, *others = stored[operation.name]
                made += [first, *(() if fetched else (self._corrected(),)), *others]
                fetched = True
            else:
                if operation.kind == "store" and not self.stores and not fetched:
                    made.append(self._corrected())
                    fetched = True
                made.append(doc.ComputeStatement(operation.name))
        if not fetched:
            made.append(self._corrected())
        return tuple(made)

    def _stored(self) -> tuple[doc.Block, dict[str, doc.Block]]:
        """What goes from registers to shared memory, and from there by a bulk store of one thread:
        what empties the place of the first one before, and of each the write and what follows."""
        together = doc.SyncStatement(slot("together", "0"))
        content = f"w * {self.groups} + {self.g}" if self.position else self.g
        emptied: doc.Block = ()
        stored: dict[str, doc.Block] = {}
        for operation in self.stores:
            staged = slot(operation.name, "0", content=content)
            if self.groups > 1 or self.position:
                emptied = (doc.DrainStatement(OUTPUT, until_read=True), together)
            stored[operation.name] = sent_from(staged, together, again=False)
        return emptied, stored
