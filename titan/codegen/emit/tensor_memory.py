"""Tensor memory (sm_100a): how what touches it is spelled.

One thread multiplies, alone in its role or elected in a warpgroup; warpgroups fetch results into
registers, in the fragment that all other arithmetic uses, but with the 16 rows of a block side by
side in the lanes of a warp, and put fragments back: sums that are scaled between two products, and
narrow numbers that the next product takes as its left operand. A tile has a sub-tile of 128 rows
for each lane; the rows of several sub-tiles are those of the tile program's values. What a role
puts into rows of shared memory for another one is one number a row. Tensor memory is allocated at
the start of the kernel and freed at its end, by the first warp. Every synchronisation of a role
that touches it is surrounded by the tcgen05 fences that PTX requires (`tensor_fences.py`); every
fetch and put is followed by its wait. Source: PTX ISA, tcgen05: tensor memory, memory consistency
model; the facts B1 to B12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from titan.codegen.emit.arithmetic import RoleContext, beside
from titan.codegen.emit.cluster import EverywhereCommit, TogetherProduct
from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.layout import Tile
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import dtype, identifier, mangled
from titan.codegen.emit.packed import packed, unless_one
from titan.codegen.emit.register_array import RegisterArray
from titan.codegen.emit.ring_positions import SpelledNotNegative
from titan.codegen.emit.scales import (
    scale_copy,
    scale_descriptor,
    scaling_of,
    tensor_descriptor,
    with_scales,
)
from titan.codegen.emit.sites import EmissionSite, SiteKind
from titan.codegen.emit.spelling import Spelling
from titan.codegen.emit.statements import (
    SharedOperand,
    SpelledApart,
    SpelledArrive,
    SpelledCall,
    SpelledDirectProduct,
    SpelledDirectStore,
    SpelledElementwise,
    SpelledFetch,
    SpelledPut,
    SpelledRead,
    SpelledRowsFetch,
    SpelledRowsPut,
    SpelledStage,
    SpelledStatement,
    SpelledTensorCommit,
    SpelledTensorProduct,
    SpelledUnlessOne,
    TensorOperand,
)
from titan.codegen.emit.tensor_fences import unfenced, unordered
from titan.codegen.emit.tensor_places import LANES
from titan.codegen.tile.block_scales import in_tensor_memory, scales_of
from titan.codegen.tile.exponentials import polynomial_shares
from titan.codegen.tile.model import TileOperation
from titan.codegen.tile.model import ValuePlace as Where
from titan.sync import program as ir
from titan.sync.expression import ONE, Name

ROW_STEP = 16
PAIR = 2  # CTAs that multiply together
ELECTED = "titan_elected"  # one lane of a warp, elected once a role
CORRECTED_AT_ONCE = 32  # columns of an accumulator: those who correct have few registers
COLUMNS = "titan_tensor"  # where the columns of the kernel begin
COLUMNS_OPAQUE = "titan_columns"  # the same, of which the compiler knows nothing


@dataclass(frozen=True, slots=True)
class FirstTile:
    """The tile whose descriptors others of the same stages are sums with, how its descriptor is
    made, and its leading offset."""

    name: str
    made: Callable[[str], str]
    leading: int


class TensorSpelling(Spelling):
    """Spells a role of a program with accumulators in tensor memory."""

    row_step = ROW_STEP
    keeps_partial = False  # packed sums, and rows that a lane has alone

    def __init__(self, context: RoleContext) -> None:
        super().__init__(context)
        self.first_tiles: dict[tuple[str, int, int, str], FirstTile] = {}
        self.unfenced: frozenset[int] = frozenset()  # sites that need a fence before them
        self.unordered: frozenset[int] = frozenset()  # the same behind them
        self.corrections: dict[int, int] = {}  # sites of fetches, by them those of puts
        self.corrects = any(self.tiles.rescaled(name) for name in self.places)
        self.whole_rows = self.corrects and self._may_have_whole_rows()
        # The products of all groups, before the loop and in it, have most addresses in common. A
        # compiler that keeps them all (of CUDA 12) has no registers left: each is computed again.
        self.opaque = self.corrects and self.tiles.tile.groups > 1

    def _may_have_whole_rows(self) -> bool:
        """Whether threads may have whole rows, as is best where rows have maxima and sums: nothing
        of the role has a number for each column, or comes from tiles in shared memory."""
        values = [self.tiles.value(name) for name in self.plan.storage]
        done = {name for names in self.plan.sequence.values() for name in names}
        read = any(
            self.tiles.operations[name].kind == "read"
            for name in done
            if name in self.tiles.operations
        )
        return not read and all(value.place is not Where.COLUMN for value in values)

    def role(self, sites: tuple[EmissionSite, ...]) -> tuple[SpelledStatement, ...]:
        """The statements of the whole role, and a fence where it may end with a fetch."""
        self.corrections = self._corrections(sites)
        self.unfenced = unfenced(sites, self._moves)
        self.unordered = unordered(sites, self._moves)
        made = super().role(sites)
        done = {name for names in self.plan.sequence.values() for name in names}
        straight = [
            operation
            for operation in self.tiles.operations.values()
            if operation.kind == "store"
            and operation.name in done
            and operation.name not in self.layout.tiles
            and self.tiles.value(operation.operands[0]).place is Where.FRAGMENT
        ]
        fence = (SpelledCall("tensor_fence_before"),) if self.corrects and straight else ()
        return (*made, *fence)

    def block(
        self, sites: tuple[EmissionSite, ...], scope: SpellingScope
    ) -> tuple[SpelledStatement, ...]:
        """Spells sites in order; tensor fences go before arrivals and after waits where needed, and
        around corrections."""
        made: list[SpelledStatement] = []
        touches = self._touches()
        for site in sites:
            if touches and site.number in self.unfenced:
                made.append(SpelledCall("tensor_fence_before"))
            if site.number in self.corrections:
                made.append(SpelledCall("tensor_fence_after"))
            for one in self.site(site, scope):
                made.append(_without_meeting(made[-1], one) if made else one)
            if site.number in self.corrections.values():
                made.append(SpelledCall("tensor_fence_before"))
            if touches and site.number in self.unordered:
                made.append(SpelledCall("tensor_fence_after"))
        columns = CORRECTED_AT_ONCE if self.corrects else 0
        by_row = [
            replace(one, body=by_blocks(list(one.body), columns))
            if isinstance(one, SpelledUnlessOne)
            else one
            for one in unless_one(made)
        ]
        return tuple(self._packed(by_blocks(by_row, columns)))

    def _packed(self, statements: tuple[SpelledStatement, ...]) -> list[SpelledStatement]:
        """With arithmetic on two columns at once, also inside of what is left out at times."""
        inner = [
            replace(one, body=tuple(self._packed(one.body)))
            if isinstance(one, SpelledUnlessOne | SpelledApart)
            else one
            for one in statements
        ]
        return packed(inner, polynomial_shares(self.tiles.tile))

    def _moves(self, site: EmissionSite) -> bool:
        """Whether a site has operations on tensor memory, and no fences of its own around them;
        rows are moved in shared memory."""
        if site.number in self.corrections or site.number in self.corrections.values():
            return False
        if site.kind in (SiteKind.FETCH, SiteKind.PUT):
            return site.name not in self.layout.rows
        return isinstance(site.operation, ir.Asynchronous | ir.QueueArrive)

    def _corrections(self, sites: tuple[EmissionSite, ...]) -> dict[int, int]:
        """Sites of accumulators that are fetched, scaled and put back: of each fetch that of the
        put."""
        found: dict[int, int] = {}
        for first, second, third in zip(sites, sites[1:], sites[2:], strict=False):
            kinds = first.kind, second.kind, third.kind
            scales = self.tiles.rescaled(first.name) == second.name == third.name
            if scales and kinds == (SiteKind.FETCH, SiteKind.COMPUTE, SiteKind.PUT):
                found[first.number] = third.number
        for site in sites:
            found |= self._corrections(site.inside) | self._corrections(site.otherwise)
        return found

    def _known(self, loop: EmissionSite, scope: SpellingScope) -> list[SpelledStatement]:
        """That what the loop itself counts on is not negative, where it never is: no compiler
        knows that of a counter that runs on over work items."""
        counted = [
            site.operation.variable for site in loop.inside if isinstance(site.operation, ir.Assign)
        ]
        known = [(name, scope.bound(Name(name))) for name in dict.fromkeys(counted)]
        return [
            SpelledNotNegative(scope.text(Name(name)))
            for name, least in known
            if least is not None and least >= 0
        ]

    def _arrive(self, arrive: ir.Arrive, scope: SpellingScope) -> SpelledArrive:
        made = super()._arrive(arrive, scope)
        # Whole rows and the counts of work items leave no register for who is elected: ptxas
        # spilled 16 bytes in causal attention that asks for its work.
        if not (self.corrects and self.tiles.tile.persistent):
            made = replace(made, by=ELECTED)
        if not made.relaxed or len(made.remote) != 1 or not made.remote[0].isdecimal():
            return made
        # The barriers of another CTA are mapped once, and not in each iteration.
        (cta,) = made.remote
        barrier, index = arrive.barrier.name, beside(scope, arrive.barrier.index)
        text = f"titan::kept(titan::map_shared({mangled('b', barrier, 'a barrier')}, {cta}))"
        first = self.descriptors.setdefault(text, mangled(f"at{cta}", barrier, "a barrier"))
        return replace(made, mapped=f"(titan::u32){first} + 8 * {index}")

    def _touches(self) -> bool:
        """Whether the role multiplies, fetches or puts."""
        return any(
            effect.buffer in self.places
            for operation in ir.walk(self.place.role.body)
            if isinstance(operation, ir.Access | ir.Asynchronous)
            for effect in operation.effects
        )

    def site(self, site: EmissionSite, scope: SpellingScope) -> tuple[SpelledStatement, ...]:
        """Spells one site with `group` set to its subtile; the former group is restored."""
        before, self.group = self.group, self._subtile(site, scope)
        made = self._site(site, scope)
        self.group = before
        return made

    def _subtile(self, site: EmissionSite, scope: SpellingScope) -> str:
        """The sub-tile that the site deals with; the first, where there is only one."""
        if site.sub is not None:
            return beside(scope, site.sub)
        return "" if self.tiles.tile.groups > 1 else "0"

    def _site(self, site: EmissionSite, scope: SpellingScope) -> tuple[SpelledStatement, ...]:
        operation = site.operation
        if isinstance(operation, ir.QueueArrive):
            if operation.count != ONE:
                raise EmissionRefused("a commit is one arrival of the thread that multiplies")
            everywhere = isinstance(operation, EverywhereCommit)
            if everywhere is not (self.ctas > 1):
                raise EmissionRefused("a commit of a pair of CTAs arrives in both of them")
            barrier = self._barrier(operation.barrier, scope)
            mask = (1 << self.ctas) - 1 if everywhere else 0
            return (self._one(SpelledTensorCommit(barrier, operation.label, mask)),)
        if site.name and not self.group and site.kind not in (SiteKind.LOAD, SiteKind.FILL):
            raise EmissionRefused(f"{site.name} is done for no sub-tile")
        if site.kind is SiteKind.MMA:
            return (self._one(self._tensor_mma(site, scope)),)
        if site.kind is SiteKind.SCALES:
            return (self._one(self._scales(site, scope)),)
        if site.kind is SiteKind.FETCH:
            return (self._fetch(site, scope),)
        if site.kind is SiteKind.PUT:
            return self._put(site, scope)
        return super().site(site, scope)

    def _blocks(self, name: str) -> int:
        """Every sub-tile has 128 rows."""
        rows, groups = self.tiles.value(name).rows, self.tiles.tile.groups
        if rows != LANES * groups:
            raise EmissionRefused(
                f"{rows} rows of {name} are not {groups} times the {LANES} lanes of tensor memory"
            )
        return LANES // self.rows_of_block

    def _column(self, name: str, stage: str, begin: str = COLUMNS) -> str:
        place = self.places[name]
        text = f"{begin} + {place.column}" if place.column else begin
        return text if place.stages == 1 else f"{text} + {stage} * {place.stride}"

    def _begin(self) -> str:
        """Where columns begin, for a product."""
        return COLUMNS_OPAQUE if self.opaque else COLUMNS

    def _row_place(self, effect: ir.Effect, scope: SpellingScope) -> str:
        rows = self.layout.rows[effect.buffer]
        text = mangled("s", rows.name, "a buffer")
        if rows.stages == 1:
            return text
        return f"{text} + {beside(scope, effect.stage)} * {rows.stage_bytes}"

    def _sent_rows(
        self, site: EmissionSite, tile: Tile, effect: ir.Effect, scope: SpellingScope
    ) -> str:
        if tile.parts > 1 or tile.rows != LANES:
            raise EmissionRefused(f"{site.name} does not stage one sub-tile of {LANES} rows")
        return f"{self.group} * {LANES}" if self.tiles.tile.groups > 1 else ""

    def _fetch(self, site: EmissionSite, scope: SpellingScope) -> SpelledStatement:
        """The stage is that of the read in front of it."""
        access = self.reads.get(site.number)
        effects = access.effects if access is not None else ()
        effect = next((item for item in effects if item.buffer == site.name), None)
        target = self._form(site.name)
        if effect is None:
            raise EmissionRefused(f"{site.name} is fetched without a read of its buffer before")
        if site.name in self.layout.rows and target.form == "row":
            return SpelledRowsFetch(target, self._row_place(effect, scope))
        if site.name not in self.places or target.form != "float":
            raise EmissionRefused(f"{site.name} is nothing that is fetched as it is kept")
        if target.columns != self.places[site.name].columns:
            raise EmissionRefused(f"{site.name} has another shape than its accumulator")
        return SpelledFetch(target, self._column(site.name, beside(scope, effect.stage)))

    def _put(self, site: EmissionSite, scope: SpellingScope) -> tuple[SpelledStatement, ...]:
        access = site.operation
        assert isinstance(access, ir.Access)
        (effect,) = access.effects
        source = self._form(site.name)
        if effect.buffer in self.layout.rows and source.form == "row":
            return (SpelledRowsPut(source, self._row_place(effect, scope)),)
        place = self.places.get(effect.buffer)
        wanted = "pair" if place is not None and place.pairs else "float"
        if place is None or source.form != wanted:
            raise EmissionRefused(f"{site.name} is not kept as {effect.buffer} takes it")
        if source.columns != place.columns * (2 if place.pairs else 1):
            raise EmissionRefused(f"{site.name} has another shape than {effect.buffer}")
        column = self._column(effect.buffer, beside(scope, effect.stage))
        return (SpelledPut(source, column), SpelledCall("tensor_put_wait"))

    def _tensor_mma(self, site: EmissionSite, scope: SpellingScope) -> SpelledStatement:
        operation, issue = self.tiles.operations[site.name], site.operation
        assert isinstance(issue, ir.Asynchronous)
        stages = {effect.buffer: effect for effect in issue.effects if not effect.write}
        sums = [effect for effect in issue.effects if effect.write]
        value = self.tiles.value(site.name)
        if len(sums) != 1 or value.place is not Where.FRAGMENT:
            raise EmissionRefused(f"{site.name} does not go to one accumulator of {LANES} rows")
        self._blocks(site.name)
        self._accumulator(operation, sums[0], value.columns)
        left, right = operation.operands[:2]
        flips = (*operation.transpose, False, False)[:2]
        if flips[0]:
            raise EmissionRefused(f"{left} must be K-major")
        a = self._left(left, stages, scope)
        b = self._operand(right, stages, scope, rows_along_k=not flips[1])
        if a.type != b.type or a.type == "f32":
            raise EmissionRefused(f"{site.name} multiplies {a.type} and {b.type}")
        step = 32 // (2 if a.type in ("bf16", "f16") else 1)
        inner = b.columns if flips[1] else b.rows
        columns = (b.rows if flips[1] else b.columns) * self._shares(site)
        if (a.columns, columns) != (inner, value.columns) or inner % step:
            raise EmissionRefused(f"the operands of {site.name} do not fit")
        if step == 32 and not flips[1]:
            raise EmissionRefused(f"8-bit operands of {site.name} must be K-major")
        made = SpelledTensorProduct(
            a, b, steps=inner // step, type=a.type,
            transpose_b=not flips[1], columns=value.columns,
            place=self._column(sums[0].buffer, beside(scope, sums[0].stage), self._begin()),
            accumulate=self._accumulate(site, operation, scope),
            note=identifier(site.name, "an mma"), together=self.ctas > 1,
            left=self._operand_descriptor(left, stages, a, scope),
            right=self._operand_descriptor(right, stages, b, scope),
            opaque=self.opaque,
        )  # fmt: skip
        scales = scales_of(operation)
        if not scales:
            return made
        places = tuple(
            self._column(name, beside(scope, stages[name].stage))
            for name in map(in_tensor_memory, scales)
        )
        row = scaling_of(self.tiles.tile, operation, self.tiles.value(left))
        return with_scales(made, row, inner, places)

    def _operand_descriptor(
        self,
        name: str,
        stages: dict[str, ir.Effect],
        operand: SharedOperand | TensorOperand,
        scope: SpellingScope,
    ) -> str:
        """The descriptor of an operand in shared memory. It is made where it is used if it begins
        with other rows than the tile, or in a kernel with a correction, which has no registers for
        those of first stages."""
        if not isinstance(operand, SharedOperand):
            return ""
        made = partial(tensor_descriptor, operand)
        tile = self.stage(self.layout.tiles[name], stages[name], scope)
        whole = operand.tile == tile
        if self.opaque and not whole:
            ahead = operand.tile.removeprefix(f"{tile} + ")
            return f"titan::descriptor_ahead(titan::opaque({made(tile)}), {ahead})"
        if self.corrects or not whole:
            return f"titan::kept({made(operand.tile)})"
        of_fields = tensor_descriptor(replace(operand, leading=0), "")
        this = FirstTile(name, made, operand.leading)
        return self._beside_first(this, of_fields, stages[name], scope, operand.tile)

    def _beside_first(
        self, this: FirstTile, fields: str, effect: ir.Effect, scope: SpellingScope, place: str
    ) -> str:
        """The descriptor of the stage that an effect means, as far from that of the first tile as
        their memory is apart: of tiles with the same `fields`, the same stages and the same stage.
        One sum in uniform registers is less than a product with the stage that has to go there. A
        larger leading offset is in the same sum."""
        tile = self.layout.tiles[this.name]
        first = this
        if effect.part is None and tile.stages > 1:
            key = fields, tile.stages, tile.stage_stride, scope.text(effect.stage)
            first = self.first_tiles.setdefault(key, this)
        apart = tile.offset - self.layout.tiles[first.name].offset
        more = this.leading - first.leading
        if apart <= 0 or apart % 16 or more < 0 or more % 16:
            return f"titan::kept({self._of_stage(this.name, effect, scope, this.made, place)})"
        text = f"titan::kept({self._of_stage(first.name, effect, scope, first.made, place)})"
        if more:
            return f"titan::descriptor_beside({text}, {apart}, {more})"
        return f"titan::descriptor_ahead({text}, {apart})"

    def _scales(self, site: EmissionSite, scope: SpellingScope) -> SpelledStatement:
        """A tile of scales goes on to the columns that hold it."""
        copy, tile = site.operation, self.layout.tiles[site.name]
        assert isinstance(copy, ir.Asynchronous)
        (read,) = (effect for effect in copy.effects if not effect.write)
        (write,) = (effect for effect in copy.effects if effect.write)
        columns = self._column(write.buffer, beside(scope, write.stage))
        apart = self.places[write.buffer].apart
        this, fields = FirstTile(site.name, scale_descriptor, 0), scale_descriptor("")
        place = self._beside_first(this, fields, read, scope, self.stage(tile, read, scope))
        made = scale_copy(site.name, tile, place, columns, apart)
        if 4 * made.atoms != self.places[write.buffer].columns:
            raise EmissionRefused(f"{site.name} has another shape than its columns")
        return replace(made, together=self._shares(site) > 1)

    def _shares(self, site: EmissionSite) -> int:
        """How many CTAs hold the columns of the right operand, each as many; those that a copy of
        scales is for."""
        together = isinstance(site.operation, TogetherProduct)
        if together is not (self.ctas > 1) or self.ctas > PAIR:
            raise EmissionRefused(f"{site.name} is not done for a pair of CTAs together")
        return self.ctas

    def _accumulator(self, operation: TileOperation, into: ir.Effect, columns: int) -> None:
        """The product goes where its value is expected, and onto nothing else than it says."""
        name = operation.name
        place = self.places[into.buffer]
        if place.pairs or place.columns != columns:
            raise EmissionRefused(f"{name} has another shape than its accumulator")
        if len(operation.operands) < 3:
            if into.buffer != name:
                raise EmissionRefused(f"{name} goes to {into.buffer}")
            return
        carried = self.tiles.carried.get(into.buffer)
        onto = self.tiles.rescaled(into.buffer) or into.buffer
        adds = operation.operands[2] == onto
        if carried is None or carried.next != name or carried.initial != 0 or not adds:
            raise EmissionRefused(f"{name} adds to something else than what begins with 0")
        scaling = self.tiles.operations.get(onto)
        if scaling is not None and not self._keeps_zero(scaling, into.buffer):
            raise EmissionRefused(f"{onto} is not {into.buffer} times a number a row")

    def _keeps_zero(self, scaling: TileOperation, accumulator: str) -> bool:
        """Whether what the first product replaces would have been 0 still."""
        others = [name for name in scaling.operands if name != accumulator]
        row = len(others) == 1 and self.tiles.value(others[0]).place is Where.ROW
        return scaling.kind == "multiply" and accumulator in scaling.operands and row

    def _accumulate(
        self, site: EmissionSite, operation: TileOperation, scope: SpellingScope
    ) -> str:
        """When a step along K adds to what is there: the first product of a work item replaces."""
        if len(operation.operands) < 3:
            return "k > 0"
        if site.number not in self.iterations:
            raise EmissionRefused(f"the iteration of {site.name} cannot be expressed")
        return f"{beside(scope, self.iterations[site.number])} > 0 || k > 0"

    def _left(
        self, name: str, stages: dict[str, ir.Effect], scope: SpellingScope
    ) -> SharedOperand | TensorOperand:
        """The left operand: 128 rows of a tile in shared memory, or pairs in tensor memory."""
        if name not in self.places:
            a = self._operand(name, stages, scope, rows_along_k=False)
            if a.rows != LANES * self.tiles.tile.groups:
                raise EmissionRefused(f"{name} has {a.rows} rows")
            if self.tiles.tile.groups > 1:
                return replace(a, tile=f"{a.tile} + {self.group} * {LANES * a.panel}")
            return a
        place, value = self.places[name], self.tiles.value(name)
        if not place.pairs or name not in stages or value.columns != 2 * place.columns:
            raise EmissionRefused(f"{name} is not read from tensor memory as it lies there")
        column = self._column(name, beside(scope, stages[name].stage), self._begin())
        return TensorOperand(dtype(value.dtype, name), value.columns, column)


def _without_meeting(before: SpelledStatement, one: SpelledStatement) -> SpelledStatement:
    """An arrival of each warp right behind another one, for which the lanes have met."""
    match before, one:
        case SpelledArrive(), SpelledArrive():
            plain = all(s.warps and not s.bytes and len(s.remote) <= 1 for s in (before, one))
            return replace(one, met=True) if plain else one
    return one


SpelledStores = SpelledStage | SpelledDirectStore
Computed = SpelledElementwise | SpelledDirectProduct | SpelledRead
Arithmetic = SpelledFetch | Computed | SpelledPut | SpelledStores


def by_blocks(statements: list[SpelledStatement], columns: int = 0) -> tuple[SpelledStatement, ...]:
    """Fetches with the arithmetic behind them, one block of 16 rows after the other.

    Done where what follows narrows the numbers or puts them back, so that the registers of one
    block are free again before the next one is fetched; apart where tiles are read, too, which the
    assembler would all do first. `columns`: so many at a time, if given.
    """
    made: list[SpelledStatement] = []
    position = 0
    while position < len(statements):
        run = _run(statements[position:])
        if not run:
            made.append(statements[position])
            position += 1
            continue
        for block in range(_array(run[0]).m):
            part = [_of_block(statement, block) for statement in run]
            if columns:
                made += _by_columns(part, columns)
            elif block and any(isinstance(one, SpelledRead) for one in part):
                made.append(SpelledApart(tuple(part)))
            else:
                made += part
        position += len(run)
    return tuple(made)


def _run(statements: list[SpelledStatement]) -> list[Arithmetic]:
    """A fetch, the arithmetic behind it and what ends it; nothing where it has no such end."""
    if not isinstance(statements[0], SpelledFetch):
        return []
    run: list[Arithmetic] = [statements[0]]
    length = 0
    for statement in statements[1:]:
        if isinstance(statement, SpelledPut):
            return [*run, statement]
        if not isinstance(statement, Computed):
            break
        if statement.target.form == "column":
            break
        run.append(statement)
        if statement.target.form == "pair":
            length = len(run)
    store = statements[length] if 0 < length < len(statements) else None
    if isinstance(store, SpelledStores) and store.source.whole:
        ready = store.source.name == _array(run[length - 1]).name
        return [*run[:length], *([store] if ready else [])]
    return run[:length]


def _array(statement: Arithmetic) -> RegisterArray:
    if isinstance(statement, SpelledPut | SpelledStores):
        return statement.source
    return statement.target


def _by_columns(run: list[Arithmetic], columns: int) -> list[SpelledStatement]:
    """The run for so many columns after the other; what it does with rows is done with the first.

    Only a product reads other columns than it writes.
    """
    whole = _array(run[0]).columns
    if whole % columns or any(isinstance(one, SpelledDirectProduct) for one in run):
        return list(run)
    made: list[SpelledStatement] = []
    for begin in range(0, whole, columns):
        for one in run:
            if _array(one).form != "row":
                made.append(_with(one, replace(_array(one), begin=begin, end=begin + columns)))
            elif begin == 0:
                made.append(one)
    return made


def _of_block(statement: Arithmetic, block: int) -> Arithmetic:
    """The statement for one block of rows; operands are reached by the block's number anyway."""
    return _with(statement, replace(_array(statement), first=block, last=block + 1))


def _with(statement: Arithmetic, array: RegisterArray) -> Arithmetic:
    if isinstance(statement, SpelledPut | SpelledStores):
        return replace(statement, source=array)
    return replace(statement, target=array)
