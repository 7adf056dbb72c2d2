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
from titan.codegen.pipeline.filling import refuse_unaligned
from titan.codegen.pipeline.hopper import BITS, OUTPUT, THREADS, sent_from, staged_buffer
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing
from titan.codegen.pipeline.tensor_pipeline import (
    COLUMNS_MAX,
    COLUMNS_STEP,
    LANES,
    TensorPipeline,
    result_of,
)
from titan.codegen.tile.attention import NotAttention, attention_of
from titan.codegen.tile.model import TileOperation, TileProgram

# setmaxnreg of the loading and issuing warps, of the softmax, of the correction; the pool is 64 Ki
REGISTERS = {1: (56, 240, 208), 2: (48, 184, 96)}
WIDE = {1: (56, 240, 208), 2: (48, 152, 160)}  # accumulators of more than LANES columns
ROLES = ("producer", "issuer", "softmax", "correction")


class BlackwellAttention(TensorPipeline):
    """The statements and declarations of one pipeline. Raises FormRefused where there is none."""

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int]) -> None:
        refuse_unaligned(tile)
        if not shape.specialised:
            raise FormRefused("tensor memory is read by others than who fills it")
        if shape.ping_pong or shape.behind:
            raise FormRefused("the order of the products is that of the issuing thread")
        if shape.unified:
            raise FormRefused("products of two iterations meet in the issuer's loop body")
        if tile.cluster != 1:
            raise FormRefused("clusters have no form together with tensor memory")
        if tile.persistent or shape.persistent:
            raise FormRefused("a persistent kernel of two products has no form in tensor memory")
        try:
            self.parts = attention_of(tile, starts if shape.overlapped else {})
        except NotAttention as error:
            raise FormRefused(str(error)) from None
        super().__init__(tile, shape)
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
        end = (doc.FinalizeStatement(),)
        return doc.PipelineDocument(
            tile.name,
            tile.target,
            doc.DocumentSizes(self.shape.depth),
            buffers=tuple(self._buffers()),
            barriers=tuple(self._barriers()),
            named_barriers=(together,) if self.stores else (),
            queues=tuple(queues),
            policies=(("tensor_pipe", "in_order"),),  # scores are written over what a product read
            roles=self._roles(),
            program=tuple(
                (role, (*body, *end)) for role, body in zip(self.roles, bodies, strict=True)
            ),
        )

    def _roles(self) -> tuple[doc.RoleDeclaration, ...]:
        wide = self.parts.accumulator.columns > LANES
        few, many, some = (WIDE if wide else REGISTERS)[self.groups]
        loading, issuing, computing, correcting = self.roles
        return (
            doc.RoleDeclaration(loading, warps=1, registers=few),
            doc.RoleDeclaration(issuing, warps=1, registers=few),
            doc.RoleDeclaration(computing, warpgroups=self.groups, registers=many),
            doc.RoleDeclaration(correcting, warpgroups=1, registers=some),
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
        ):
            found.append(doc.BarrierDeclaration(name, count, groups))
        return found

    # ------------------------------------------------------------------------ places and waits

    def _freed(self, ring: PipelineRing, place: str) -> doc.DocumentStatement:
        """A stage given back once all products issued so far are done."""
        return self._commit(self._empty_slot(ring, place))

    def _commit(self, barrier: doc.Slot) -> doc.DocumentStatement:
        return doc.CommitStatement(self.queue, barrier)

    def _each(self, *statements: doc.DocumentStatement) -> doc.Block:
        """For every sub-tile."""
        return (doc.ForStatement(self.g, "0", str(self.groups), statements),)

    # -------------------------------------------------------------------------------- producer

    def _producer(self) -> doc.Block:
        once = [statement for ring in self.once for statement in self._fill(ring, "0")]
        rings = (*self.early, *self.late)
        fill = [statement for ring in rings for statement in self._fill(ring, "t")]
        return (*once, doc.ForStatement("t", "0", "tiles", tuple(fill)))

    # ---------------------------------------------------------------------------------- issuer

    def _issuer(self) -> doc.Block:
        scores_done = self._commit(slot(self.full[self.scores.name], self.g))
        all_done = self._commit(slot(self.full[self.parts.accumulator.name], self.g))
        body = (
            *(self._filled(ring, "t - 1") for ring in self.late),
            *(self._filled(ring, "t") for ring in self.early),
            *self._each(*self._second("t - 1"), self._first("t"), scores_done),
            *(self._freed(ring, "t - 1") for ring in self.late),
            *(self._freed(ring, "t") for ring in self.early),
        )
        return (
            *(self._filled(ring, "0") for ring in (*self.once, *self.early)),
            *self._each(self._first("0"), scores_done),
            *(self._freed(ring, "0") for ring in self.early),
            doc.ForStatement("t", "1", "tiles", body),
            *(self._filled(ring, "tiles - 1") for ring in self.late),
            *self._each(*self._second("tiles - 1"), all_done),
        )

    def _first(self, place: str) -> doc.DocumentStatement:
        operands = tuple(self._operand(name, place) for name in self.parts.first.operands)
        into = slot(self.scores.name, self.g, content=place)
        return doc.MultiplyStatement(operands, self.queue, into)

    def _second(self, place: str) -> doc.Block:
        """Once the left operand is written and the accumulator corrected."""
        parts, g = self.parts, self.g
        left = slot(parts.left.name, g, content=place)
        right = self._operand(parts.second.operands[1], place)
        into = slot(parts.accumulator.name, g, content=place)
        return (
            doc.WaitStatement(slot(self.full[parts.left.name], g), place),
            doc.MultiplyStatement((left, right), self.queue, into),
        )

    # --------------------------------------------------------------------------------- softmax

    def _softmax(self) -> doc.Block:
        parts, me = self.parts, "self"
        scores, factor, left = self.scores.name, parts.factor.name, parts.left.name
        computed = [doc.ComputeStatement(operation.name, "t") for operation in parts.softmax]
        body = (
            doc.WaitStatement(slot(self.full[scores], me), "t"),
            doc.LoadStatement(slot(scores, me, content="t")),
            doc.ComputeStatement(scores, "t"),
            *computed[: parts.until_factor],
            doc.WaitStatement(slot(self.empty[factor], me), "t - 1"),
            doc.StoreStatement(slot(factor, me, content="t")),
            doc.ArriveStatement(slot(self.full[factor], me)),
            *computed[parts.until_factor : parts.until_left],
            doc.StoreStatement(slot(left, me, content="t")),
            doc.ArriveStatement(slot(self.full[left], me)),
            *computed[parts.until_left :],
            *(doc.ComputeStatement(item.value.name, "t + 1") for item in parts.rows),
        )
        work: list[doc.DocumentStatement] = [
            doc.ComputeStatement(item.value.name) for item in parts.rows
        ]
        work.append(doc.ForStatement("t", "0", "tiles", body))
        for value in parts.handed:
            work.append(doc.StoreStatement(slot(value.name, me, content="0")))
            work.append(doc.ArriveStatement(slot(self.full[value.name], me)))
        return tuple(work)

    # ------------------------------------------------------------------------------ correction

    def _correction(self) -> doc.Block:
        parts, g = self.parts, self.g
        accumulator, factor = parts.accumulator.name, parts.factor.name
        sums = slot(accumulator, g, content="t - 1")
        factor_written = slot(self.full[factor], g)
        free = doc.ArriveStatement(slot(self.empty[factor], g))
        corrected = doc.ArriveStatement(slot(self.full[parts.left.name], g))
        body = self._each(
            doc.WaitStatement(factor_written, "t"),
            doc.LoadStatement(slot(factor, g, content="t")),
            doc.ComputeStatement(factor, "t"),
            free,
            doc.LoadStatement(sums),
            doc.ComputeStatement(accumulator, "t"),
            doc.ComputeStatement(parts.correct.name, "t"),
            doc.StoreStatement(sums),
            corrected,
        )
        return (
            *self._each(doc.WaitStatement(factor_written, "0"), free, corrected),
            doc.ForStatement("t", "1", "tiles", body),
            *self._each(*self._finish()),
            *((doc.DrainStatement(OUTPUT),) if self.stores else ()),
        )

    def _finish(self) -> doc.Block:
        """What follows the loop, for one sub-tile."""
        g, accumulator = self.g, self.parts.accumulator.name
        made: list[doc.DocumentStatement] = []
        for value in self.parts.handed:
            made.append(doc.WaitStatement(slot(self.full[value.name], g), "0"))
            made.append(doc.LoadStatement(slot(value.name, g, content="0")))
            made.append(doc.ComputeStatement(value.name, "tiles"))
        made.append(doc.WaitStatement(slot(self.full[accumulator], g), "0"))
        made.append(doc.LoadStatement(slot(accumulator, g, content="tiles - 1")))
        made.append(doc.ComputeStatement(accumulator, "tiles"))
        for operation in self.tile.after:
            if self._staged(operation):
                made += self._store(operation)
            else:
                made.append(doc.ComputeStatement(operation.name))
        return tuple(made)

    def _store(self, operation: TileOperation) -> doc.Block:
        """From registers to shared memory, and from there by a bulk store of one thread."""
        together = doc.SyncStatement(slot("together", "0"))
        staged = slot(operation.name, "0", content=self.g)
        return sent_from(staged, together, again=self.groups > 1)
