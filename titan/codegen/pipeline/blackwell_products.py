"""Pipelines of several products on Blackwell: loads, products and arithmetic apart, or together.

`BlackwellProducts`: a warp loads, one thread issues all `tcgen05.mma`, and warpgroups of 128 rows
each fetch results, compute, and put back the fragments that later products take on their left.
Sums stay in tensor memory until the loop is over. In the order of the schedule, products of loaded
tiles run one iteration ahead of the others, so that the tensor core works while the warpgroups
compute; results and fragments then have columns of their own. One iteration at a time, a fragment
lies in the columns of a result that has been fetched before.

`BlackwellTogether` is the deterministic baseline: every warpgroup does all of it in the order of
the file, one of its threads issues, and the first one loads. It also takes a loop of one product,
and loops that correct their accumulator (attention).

Decides no correctness: what is printed of it is verified like anybody's.
Source: PTX, tcgen05; FlashAttention-4, backward; seed formulation, architecture overview.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.filling import refuse_unaligned
from titan.codegen.pipeline.hopper import OUTPUT, THREADS, sent_from
from titan.codegen.pipeline.indices import earlier
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
from titan.codegen.tile.model import Carried, TileOperation, TileProgram, Value
from titan.codegen.tile.products import NotInTensorMemory, tensor_products

GROUPS_MAX = 2
TOGETHER = "together"
# setmaxnreg of the loading and issuing warps, and of the warpgroups; the pool is 64 Ki
REGISTERS = {1: (0, 0), 2: (40, 216)}


class ProductsPipeline(TensorPipeline):
    """What both forms share: products, columns, and what follows the loop."""

    everyone_issues = False

    def __init__(
        self, tile: TileProgram, shape: Shape, starts: dict[str, int], apart: bool
    ) -> None:
        refuse_unaligned(tile)
        if tile.cluster != 1:
            raise FormRefused("clusters have no form together with tensor memory")
        if shape.ping_pong or shape.behind or shape.unified:
            raise FormRefused("the order of several products is that of the issuing thread")
        if not 1 <= tile.groups <= GROUPS_MAX:
            raise FormRefused(f"{tile.groups} warpgroups; there are 1 or {GROUPS_MAX}")
        super().__init__(tile, shape)
        try:
            self.parts = tensor_products(tile)
        except NotInTensorMemory as error:
            raise FormRefused(str(error)) from None
        self.body = in_order_of(tile, starts)
        self.queue = self._fresh("tensor_core")
        self.lefts = {value.name for value in self.parts.lefts}
        self.sums = [item.value for item in self.parts.sums]
        self._check_rings()
        self.storage = {} if apart else self._shared_columns()
        self._check_columns()

    def _check_rings(self) -> None:
        products = {product.name for product in self.parts.products}
        for ring in self.rings:
            if not set(ring.readers) <= products:
                raise FormRefused(f"{ring.loads[0].name} is not read by products alone")
        if self.shape.depth > 1 and all(ring.once for ring in self.rings):
            raise FormRefused("nothing is loaded in the loop")

    def _shared_columns(self) -> dict[str, str]:
        """Which result each fragment replaces: one that has been fetched before it is put."""
        place = {operation.name: number for number, operation in enumerate(self.body)}
        free = sorted((product.name for product in self.parts.fetched), key=place.__getitem__)
        found: dict[str, str] = {}
        for left in sorted(self.lefts, key=place.__getitem__):
            earlier_ones = [name for name in free if place[name] < place[left]]
            if earlier_ones:
                columns = self._fresh(f"columns_{earlier_ones[0]}")
                found[left] = found[earlier_ones[0]] = columns
                free.remove(earlier_ones[0])
        return found

    def _tensor_values(self) -> list[Value]:
        fetched = [result_of(product) for product in self.parts.fetched]
        return [*fetched, *self.parts.lefts, *self.sums]

    def _check_columns(self) -> None:
        taken: dict[str, int] = {}
        for value in self._tensor_values():
            if value.rows != LANES * self.groups:
                raise FormRefused(f"{value.name}: a warpgroup computes {LANES} rows, one a lane")
            if value.columns % COLUMNS_STEP:
                raise FormRefused(f"{value.name}: columns are multiples of {COLUMNS_STEP}")
            left = value.name in self.lefts
            if left and BITS[value.dtype] != 16:
                raise FormRefused(f"{value.name} is {value.dtype}, and not of 16 bits")
            storage = self.storage.get(value.name, value.name)
            columns = value.columns // 2 if left else value.columns
            taken[storage] = max(columns, taken.get(storage, 0))
        columns = self.groups * sum(taken.values())
        if columns > COLUMNS_MAX:
            raise FormRefused(
                f"results, fragments and sums take {columns} columns; tensor memory has "
                f"{COLUMNS_MAX}"
            )

    # ------------------------------------------------------------------------------- the file

    def _document(
        self,
        barriers: list[doc.BarrierDeclaration],
        roles: list[tuple[doc.RoleDeclaration, doc.Block]],
    ) -> doc.PipelineDocument:
        queues = [doc.QueueDeclaration(self.queue, "tcgen05")]
        if self.stores:
            queues.append(doc.QueueDeclaration(OUTPUT, "bulk"))
        named = doc.NamedBarrierDeclaration(TOGETHER, THREADS, self.groups)
        return doc.PipelineDocument(
            self.tile.name,
            self.tile.target,
            doc.DocumentSizes(self.shape.depth),
            buffers=tuple(self._buffers()),
            barriers=tuple(barriers),
            named_barriers=(named,) if self.stores or self.everyone_issues else (),
            queues=tuple(queues),
            policies=(("tensor_pipe", "in_order"),) if self.storage else (),
            roles=tuple(role for role, _ in roles),
            program=tuple((role.name, (*body, doc.FinalizeStatement())) for role, body in roles),
        )

    def _buffers(self) -> list[doc.BufferDeclaration]:
        groups = str(self.groups)
        found = self._ring_buffers()
        for value in self._tensor_values():
            found.append(
                doc.BufferDeclaration(
                    value.name, LANES, value.columns, value.dtype, "tensor", groups,
                    storage=self.storage.get(value.name, ""),
                )
            )  # fmt: skip
        for store in self.stores:
            value = self._value(store.operands[0])
            staged = replace(staged_buffer(value), name=store.name, rows=LANES)
            found.append(replace(staged, stages=groups if self.groups > 1 else ""))
        return found

    # ---------------------------------------------------------------------------- statements

    def _multiply(self, product: TileOperation, place: str, me: str) -> doc.DocumentStatement:
        """The product of iteration `place` for one sub-tile."""
        summed = self.parts.sum_of(product)
        into = summed.value.name if summed is not None else product.name
        operands = tuple(
            slot(name, me, content=place) if name in self.lefts else self._operand(name, place)
            for name in product.operands[:2]
        )
        return doc.MultiplyStatement(operands, self.queue, slot(into, me, content=place))

    def _fetch(self, product: TileOperation, place: str, me: str) -> doc.Block:
        """The result of a product in registers, once it is over."""
        return (
            doc.WaitStatement(slot(self.full[product.name], me), place),
            doc.LoadStatement(slot(product.name, me, content=place)),
            doc.ComputeStatement(product.name, place),
        )

    def _before(self) -> doc.Block:
        """The first values of carried rows, and what is computed before the loop."""
        computed = [
            doc.ComputeStatement(operation.name)
            for operation in self.tile.before
            if operation.kind != "load"
        ]
        return (*computed, *(doc.ComputeStatement(item.value.name) for item in self._rows()))

    def _rows(self) -> list[Carried]:
        """Carried values in registers."""
        return [item for item in self.tile.carried if item not in self.parts.sums]

    def _carried_on(self, place: str) -> doc.Block:
        return tuple(
            doc.ComputeStatement(item.value.name, earlier(place, -1)) for item in self._rows()
        )

    def _after(self, me: str) -> doc.Block:
        """What follows the loop; each sum is fetched before its first reader."""
        made: list[doc.DocumentStatement] = []
        waiting = {value.name for value in self.sums}
        for operation in self.tile.after:
            for name in operation.operands:
                if name in waiting:
                    waiting.remove(name)
                    made.append(doc.LoadStatement(slot(name, me, content="tiles - 1")))
                    made.append(doc.ComputeStatement(name, "tiles"))
            if self._staged(operation):
                staged = slot(operation.name, me if self.groups > 1 else "0", content=me)
                made += sent_from(staged, self._together(me), again=False)
            else:
                made.append(doc.ComputeStatement(operation.name))
        return (*made, *((doc.DrainStatement(OUTPUT),) if self.stores else ()))

    def _together(self, me: str) -> doc.DocumentStatement:
        """All threads of a warpgroup meet."""
        return doc.SyncStatement(slot(TOGETHER, me))


class BlackwellProducts(ProductsPipeline):
    """Loads, products and arithmetic on warps of their own. Raises FormRefused."""

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int]) -> None:
        if not shape.specialised:
            raise FormRefused("here loads, products and arithmetic are apart")
        if tile.persistent or shape.persistent:
            raise FormRefused("a persistent kernel of several products has no form")
        super().__init__(tile, shape, starts if shape.overlapped else {}, shape.overlapped)
        if self.parts.corrects:
            raise FormRefused("an accumulator is corrected between two products")
        self.first = [op for op in self.parts.of_loads if shape.overlapped]
        self.rest = [op for op in self.body if op.kind == "mma" and op not in self.first]
        if shape.overlapped and not (self.first and self.rest):
            raise FormRefused("no product runs ahead of another")
        self.g = self._fresh("g")
        self.roles = tuple(self._fresh(role) for role in ("producer", "issuer", "consumer"))
        self._name(*(ring.loads[0].name for ring in self.rings))
        self._name(*(product.name for product in self.parts.fetched), *sorted(self.lefts))
        self.done = self._fresh("sums_full")

    def document(self) -> doc.PipelineDocument:
        """The kernel file."""
        each = str(self.groups)
        barriers = self._ring_barriers()
        for name in (*(product.name for product in self.parts.fetched), *sorted(self.lefts)):
            barriers.append(doc.BarrierDeclaration(self.full[name], 1, each))
            barriers.append(doc.BarrierDeclaration(self.empty[name], 1, each))
        barriers.append(doc.BarrierDeclaration(self.done, 1, each))
        loading, issuing, computing = self.roles
        few, many = REGISTERS[self.groups]
        return self._document(barriers, [
            (doc.RoleDeclaration(loading, warps=1, registers=few), self._producer()),
            (doc.RoleDeclaration(issuing, warps=1, registers=few), self._issuer()),
            (doc.RoleDeclaration(computing, warpgroups=self.groups, registers=many),
             self._consumer()),
        ])  # fmt: skip

    def _producer(self) -> doc.Block:
        once = [statement for ring in self.once for statement in self._fill(ring, "0")]
        fill = [s for ring in self.rings if not ring.once for s in self._fill(ring, "t")]
        return (*once, doc.ForStatement("t", "0", "tiles", tuple(fill)))

    # ---------------------------------------------------------------------------------- issuer

    def _issuer(self) -> doc.Block:
        once = tuple(self._filled(ring, "0") for ring in self.once)
        each = (
            doc.ForStatement(
                self.g, "0", str(self.groups),
                (doc.CommitStatement(self.queue, slot(self.done, self.g)),),
            ),
        )  # fmt: skip
        if not self.first:
            loop = doc.ForStatement("t", "0", "tiles", self._issued(self.rest, "t", set()))
            return (*once, loop, *each)
        begun = self._rings_of(self.first)
        return (
            *once,
            *self._issued(self.first, "0", set()),
            doc.ForStatement(
                "t", "1", "tiles",
                (
                    *self._issued(self.first, "t", set()),
                    *self._issued(self.rest, "t - 1", begun),
                ),
            ),
            *self._issued(self.rest, "tiles - 1", begun),
            *each,
        )  # fmt: skip

    def _rings_of(self, products: list[TileOperation]) -> set[str]:
        """The rings of the loop that some of the products read."""
        names = {product.name for product in products}
        return {r.name for r in self.rings if not r.once and names & set(r.readers)}

    def _issued(self, products: list[TileOperation], place: str, begun: set[str]) -> doc.Block:
        """Products of one iteration in order; stages are freed behind their last readers."""
        made: list[doc.DocumentStatement] = []
        waited = set(begun)
        for number, product in enumerate(products):
            rest = products[number + 1 :]
            for ring in self.rings:
                if not ring.once and product.name in ring.readers and ring.name not in waited:
                    waited.add(ring.name)
                    made.append(self._filled(ring, place))
            made.append(
                doc.ForStatement(self.g, "0", str(self.groups), self._issue(product, rest, place))
            )
            later = {op.name for op in rest}
            later |= {op.name for op in self.rest} if products is not self.rest else set()
            for ring in self.rings:
                if not ring.once and product.name in ring.readers and not later & set(ring.readers):
                    made.append(doc.CommitStatement(self.queue, self._empty_slot(ring, place)))
        return tuple(made)

    def _issue(self, product: TileOperation, rest: list[TileOperation], place: str) -> doc.Block:
        left, g = product.operands[0], self.g
        made: list[doc.DocumentStatement] = []
        if left in self.lefts:
            made.append(doc.WaitStatement(slot(self.full[left], g), place))
        fetched = product in self.parts.fetched
        if fetched and place != "0":
            empty = slot(self.empty[product.name], g)
            made.append(doc.WaitStatement(empty, earlier(place, 1)))
        made.append(self._multiply(product, place, g))
        if fetched:
            made.append(doc.CommitStatement(self.queue, slot(self.full[product.name], g)))
        if left in self.lefts and not any(left == other.operands[0] for other in rest):
            made.append(doc.CommitStatement(self.queue, slot(self.empty[left], g)))
        return tuple(made)

    # -------------------------------------------------------------------------------- consumer

    def _consumer(self) -> doc.Block:
        me = "self"
        body: list[doc.DocumentStatement] = []
        for operation in self.body:
            if operation in self.parts.fetched:
                body += self._fetch(operation, "t", me)
                body.append(doc.ArriveStatement(slot(self.empty[operation.name], me)))
            elif operation.kind != "mma":
                body.append(doc.ComputeStatement(operation.name, "t"))
            if operation.name in self.lefts:
                body.append(doc.WaitStatement(slot(self.empty[operation.name], me), "t - 1"))
                body.append(doc.StoreStatement(slot(operation.name, me, content="t")))
                body.append(doc.ArriveStatement(slot(self.full[operation.name], me)))
        body += self._carried_on("t")
        return (
            *self._before(),
            *((doc.ForStatement("t", "0", "tiles", tuple(body)),) if body else ()),
            doc.WaitStatement(slot(self.done, me), "0"),
            *self._after(me),
        )


class BlackwellTogether(ProductsPipeline):
    """One role for everything, one iteration at a time. Raises FormRefused."""

    everyone_issues = True

    def __init__(self, tile: TileProgram, shape: Shape) -> None:
        if shape.specialised or shape.overlapped:
            raise FormRefused("here every warpgroup does everything, one iteration at a time")
        super().__init__(tile, shape, {}, apart=False)
        self.worker = self._fresh("worker")
        self.ahead = shape.depth - 1
        self.awaited = [product for product in self.parts.products if self._is_awaited(product)]
        self._name(*(ring.loads[0].name for ring in self.rings))
        self._name(*(product.name for product in self.awaited))
        self.done = self._fresh("sums_full")

    def _is_awaited(self, product: TileOperation) -> bool:
        """Whether the end of a product is waited for in every iteration."""
        summed = self.parts.sum_of(product)
        corrected = summed is not None and summed.value.name in self.parts.corrects
        return summed is None or corrected or product.operands[0] in self.lefts

    def document(self) -> doc.PipelineDocument:
        """The kernel file."""
        barriers = self._ring_barriers(frees=self.groups)
        for name in (*(self.full[product.name] for product in self.awaited), self.done):
            barriers.append(doc.BarrierDeclaration(name, 1, str(self.groups)))
        role = doc.RoleDeclaration(self.worker, warpgroups=self.groups)
        return self._document(barriers, [(role, self._work())])

    def _work(self) -> doc.Block:
        """Step t fills the stage of iteration t and computes iteration t - P.

        The first warpgroup fills; P is one less than the stages. Source: seed formulation,
        section 2.
        """
        me, place = "self", earlier("t", self.ahead)
        once = [statement for ring in self.once for statement in self._fill(ring, "0")]
        fill = [s for ring in self.rings if not ring.once for s in self._fill(ring, "t")]
        done: list[doc.DocumentStatement] = []
        waited: set[str] = set()
        for operation in self.body:
            done += self._one(operation, place, me, waited)
        done += self._carried_on(place)
        condition = f"t >= {self.ahead}" if self.ahead else "true"
        body = (
            doc.IfStatement("t < tiles and self == 0", tuple(fill)),
            doc.IfStatement(condition, tuple(done)),
        )
        return (
            *((doc.IfStatement("self == 0", tuple(once)),) if once else ()),
            *(self._filled(ring, "0") for ring in self.once),
            *self._before(),
            doc.ForStatement("t", "0", f"tiles + {self.ahead}", body),
            doc.CommitStatement(self.queue, slot(self.done, me)),
            doc.WaitStatement(slot(self.done, me), "0"),
            *self._after(me),
        )

    def _over(self, product: str, place: str, me: str) -> doc.DocumentStatement:
        """The wait for the end of a product."""
        return doc.WaitStatement(slot(self.full[product], me), place)

    def _one(self, operation: TileOperation, place: str, me: str, waited: set[str]) -> doc.Block:
        """One operation of the body in iteration `place`."""
        if operation.kind == "mma":
            return self._product(operation, place, me, waited)
        corrected = [n for n, op in self.parts.corrects.items() if op is operation]
        if corrected:
            return self._correct(corrected[0], operation, place, me)
        made: list[doc.DocumentStatement] = [doc.ComputeStatement(operation.name, place)]
        if operation.name in self.lefts:
            for reader in self.parts.readers(operation.name):
                made.append(self._over(reader.name, earlier(place, 1), me))
            made.append(doc.StoreStatement(slot(operation.name, me, content=place)))
        return tuple(made)

    def _product(self, product: TileOperation, place: str, me: str, waited: set[str]) -> doc.Block:
        """All threads meet before one of them issues: it answers for what they put and fetched."""
        made: list[doc.DocumentStatement] = []
        for ring in self._read_by(product):
            if ring.name not in waited:
                waited.add(ring.name)
                made.append(self._filled(ring, place))
        made.append(self._together(me))
        made.append(self._multiply(product, place, me))
        products = [op.name for op in self.body if op.kind == "mma"]
        later = set(products[products.index(product.name) + 1 :])
        for ring in self._read_by(product):
            if not later & set(ring.readers):
                made.append(doc.CommitStatement(self.queue, self._empty_slot(ring, place)))
        if product in self.awaited:
            made.append(doc.CommitStatement(self.queue, slot(self.full[product.name], me)))
        if product in self.parts.fetched:
            made += self._fetch(product, place, me)
        return tuple(made)

    def _read_by(self, product: TileOperation) -> list[PipelineRing]:
        return [ring for ring in self.rings if not ring.once and product.name in ring.readers]

    def _correct(self, name: str, operation: TileOperation, place: str, me: str) -> doc.Block:
        """The sum of the iteration before, multiplied and put back; the first one is 0."""
        summed = next(item for item in self.parts.sums if item.value.name == name)
        sums = slot(name, me, content=earlier(place, 1))
        corrected = (
            self._over(summed.next, earlier(place, 1), me),
            doc.LoadStatement(sums),
            doc.ComputeStatement(name, place),
            doc.ComputeStatement(operation.name, place),
            doc.StoreStatement(sums),
        )
        return (doc.IfStatement(f"t >= {self.ahead + 1}", corrected),)


def in_order_of(tile: TileProgram, starts: dict[str, int]) -> tuple[TileOperation, ...]:
    """The operations of the body without loads, each behind its operands, the earliest first."""
    waiting = {operation.name: operation for operation in tile.body if operation.kind != "load"}
    rank = {name: (starts.get(name, 0), number) for number, name in enumerate(waiting)}
    made: list[TileOperation] = []
    while waiting:
        free = [name for name, op in waiting.items() if not set(op.operands) & set(waiting)]
        if not free:
            raise FormRefused("operations of the loop body need each other")
        made.append(waiting.pop(min(free, key=rank.__getitem__)))
    return tuple(made)
