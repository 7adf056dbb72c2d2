"""The arithmetic of a tile program as statements: values in registers and tensor-core operations.

Says how each value is kept (`_form`), and which numbers descriptors and loops are made with; the
templates of backends/sm_90a spell them. A fragment is spread over a warpgroup as wgmma spreads its
accumulators; see the device header. Source: PTX ISA, wgmma: register fragments, matrix descriptors,
canonical layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.layout import EmissionLayout, RolePlace, Tile
from titan.codegen.emit.lookups import lookups_of_item, with_lookups
from titan.codegen.emit.manifest import substitute_sizes
from titan.codegen.emit.masks import (
    MaskCondition,
    column_range,
    holds_below,
    solved,
    worst_corner,
)
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import dtype, identifier, mangled, single, spelled_number
from titan.codegen.emit.register_array import RegisterArray
from titan.codegen.emit.registers import RegisterAllocation, packed
from titan.codegen.emit.sites import EmissionSite, SiteKind, Tiles
from titan.codegen.emit.statements import (
    DirectOperand,
    GlobalRegion,
    PanelLayout,
    RowsOffset,
    SharedOperand,
    SpelledCopy,
    SpelledDirectProduct,
    SpelledDirectStore,
    SpelledElementwise,
    SpelledFill,
    SpelledProduct,
    SpelledRead,
    SpelledReduction,
    SpelledStage,
    SpelledStatement,
    SpelledVector,
    SpelledWholeSum,
)
from titan.codegen.emit.tensor_places import TensorPlace
from titan.codegen.emit.trace import has_whole_tiles
from titan.codegen.emit.transposed import SpelledTransposed
from titan.codegen.tile.model import TileOperation, View
from titan.codegen.tile.model import ValuePlace as Where
from titan.codegen.tile.operations import VECTORS
from titan.codegen.tile.partial_sums import PartialSums, partial_sums
from titan.codegen.tile.staging import COLUMNS_TOGETHER
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression, names_of

ROWS_OF_MMA = 64
ROWS_OF_WARPGROUP = 128  # one for each thread
# Sums with one descriptor that a loop keeps: two uniform registers each, of 63, and as many beside
# them for the other operand.
DESCRIPTORS_KEPT = 11
FUNCTIONS = ("relu", "gelu", "silu", "tanh")
UNARY = ("exp2", "log2", "reciprocal", "rsqrt")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "raise")


@dataclass(frozen=True, slots=True)
class RoleContext:
    """What is known of a role of one CTA when it is spelled.

    `iterations`: for each site the iteration it belongs to; `reads`: for each site the access in
    front of it; `work`: the loop variable over work items; `tensor`: the buffers in tensor memory.
    """

    place: RolePlace
    layout: EmissionLayout
    tiles: Tiles
    queues: dict[str, ir.Queue]
    plan: RegisterAllocation
    iterations: dict[int, Expression]
    sync_scope: SpellingScope
    tile_scope: SpellingScope
    work: str | None
    reads: dict[int, ir.Access]
    ctas: int
    tensor: dict[str, TensorPlace]


class RoleArithmetic:
    """The arithmetic of one role of one CTA.

    `row_step`: rows from one block of a warp to its next. `group`: which of the parts of a tile's
    rows is dealt with; empty where an agent has all rows of its tiles. `whole_rows`: a thread has
    all columns of one row.
    """

    row_step = ROWS_OF_MMA
    group = "x_group"
    whole_rows = False
    keeps_partial = True  # row sums that lanes may keep apart until the loop is over

    def __init__(self, context: RoleContext) -> None:
        self.place = context.place
        self.layout = context.layout
        self.tiles = context.tiles
        self.queues = context.queues
        self.plan = context.plan
        self.iterations = context.iterations
        self.sync = context.sync_scope
        self.outer = context.tile_scope
        self.work = context.work
        self.wide = context.place.role.threads == 128
        self.groups = context.place.role.agents
        if has_whole_tiles(context.place.role, self.tiles.tile):
            self.groups, self.group = 1, ""
        self.reads = context.reads
        self.ctas = context.ctas
        self.places = context.tensor
        self.descriptors: dict[str, str] = {}
        self.partial = partial_sums(self.tiles.tile) if self.keeps_partial else PartialSums()
        self.keeps_positions = False
        self.position_names: set[str] = set()
        self.parted_names: set[str] = set()

    def stage(self, tile: Tile, effect: ir.Effect, scope: SpellingScope) -> str:
        """The address of the part of a stage that an effect means."""
        text = mangled("s", tile.name, "a buffer")
        if tile.stages > 1:
            text += f" + {beside(scope, effect.stage)} * {tile.stage_stride}"
        if tile.parts > 1:
            if effect.part is not None:
                text += f" + {beside(scope, effect.part)} * {tile.part_stride}"
            elif tile.staged:
                raise EmissionRefused(f"{tile.name} is copied whole, but has parts")
        return text

    def tile_scope(self, site: EmissionSite, scope: SpellingScope) -> SpellingScope:
        """Names of the tile program: the loop variable is the iteration of the site."""
        loop = self.tiles.tile.loop_variable
        if site.number not in self.iterations:
            return self.outer
        iteration = self.iterations[site.number]
        # An iteration is never below 0: the runs of `trace.py` count them from there.
        inner = self.outer.plus(loop, beside(scope, iteration), 0)
        return with_lookups(inner, self.tiles.tile)

    # --------------------------------------------------------------------------- registers

    def _form(self, name: str) -> RegisterArray:
        """How a value is kept: name of its registers, form, element type, extents."""
        value = self.tiles.value(name)
        place = self.plan.storage[name]
        operation = self.tiles.operations.get(name)
        if not self.wide:
            raise EmissionRefused(f"{name} is computed by agents that are not warpgroups")
        m = self._blocks(name) if value.place is not Where.COLUMN else 1
        if value.place in (Where.FRAGMENT, Where.COLUMN) and value.columns % 8:
            raise EmissionRefused(f"{value.columns} columns of {name} are not a multiple of 8")
        pair = packed(value, operation)
        form = {Where.FRAGMENT: "pair" if pair else "float", Where.ROW: "row",
                Where.COLUMN: "column"}.get(value.place, "")  # fmt: skip
        if not form:
            raise EmissionRefused(f"{name} is in shared memory, not in registers")
        rows = m * self.rows_of_block
        return RegisterArray(
            mangled("v", place, "a value"), form, dtype(value.dtype, name),
            m=m, rows=rows, first=0, last=m,
            columns=value.columns, value=identifier(name, "a value"),
            row0=f"{self.group} * {rows} + titan_row0" if self.group else "titan_row0",
            step=self.row_step, whole=self.whole_rows,
        )  # fmt: skip

    @property
    def rows_of_block(self) -> int:
        """Rows of which the warpgroup has something in one block of its registers."""
        return ROWS_OF_WARPGROUP if self.whole_rows else ROWS_OF_MMA

    def _blocks(self, name: str) -> int:
        """How many times 64 rows of a value an agent has."""
        groups = self.groups
        if groups != self.tiles.tile.groups:
            raise EmissionRefused(
                f"{groups} agents share rows that the tile program gives to "
                f"{self.tiles.tile.groups}"
            )
        rows = self.tiles.value(name).rows
        if rows % (ROWS_OF_MMA * groups):
            raise EmissionRefused(f"{rows} rows of {name} do not fill {groups} warpgroups of 64")
        return rows // (ROWS_OF_MMA * groups)

    def declarations(self) -> tuple[RegisterArray, ...]:
        """One array a storage; the values that it holds one after the other."""
        holders: dict[str, list[str]] = {}
        for name, place in self.plan.storage.items():
            holders.setdefault(place, []).append(name)
        return tuple(
            replace(self._form(place), holds=tuple(identifier(n, "a value") for n in names))
            for place, names in holders.items()
        )

    def _carry(self, site: EmissionSite) -> list[SpelledStatement]:
        carried = self.tiles.carried[site.name]
        target = self._form(site.name)
        if self.plan.initial.get(site.number, True):
            number = single(carried.initial, f"the initial number of {site.name}")
            return [SpelledFill(target, number)]
        source = self._form(carried.next)
        if source.name == target.name:
            return []
        if (source.form, source.m, source.columns) != (target.form, target.m, target.columns):
            raise EmissionRefused(f"{site.name} and {carried.next} are kept differently")
        return [SpelledCopy(target, source)]

    def _register_operation(
        self,
        operation: TileOperation,
        site: EmissionSite,
        inner: SpellingScope,
        scope: SpellingScope,
    ) -> list[SpelledStatement]:
        kind = operation.kind
        if kind == "mma" and site.kind is SiteKind.DIRECT:
            return [self._direct_product(operation, inner)]
        if kind == "mma":
            return self._mma(operation, site, scope)
        if kind in ("store", "share"):
            return self._store(operation, site, inner, scope)
        if kind in VECTORS:
            return [self._vector(operation, inner)]
        if kind == "read":
            return [self._read(operation, site, scope)]
        target = self._form(operation.name)
        operands = tuple(self._form(name) for name in operation.operands)
        whole: list[SpelledStatement] = [
            SpelledWholeSum(self._form(name)) for name in self.partial.completed(operation.name)
        ]
        return [*whole, *self._computed(operation, target, operands, inner)]

    def _computed(
        self,
        operation: TileOperation,
        target: RegisterArray,
        operands: tuple[RegisterArray, ...],
        inner: SpellingScope,
    ) -> list[SpelledStatement]:
        kind = operation.kind
        expected = 2 if kind in BINARY else 1
        if len(operands) != expected:
            raise EmissionRefused(f"{operation.name} takes {expected} operands")
        if kind in ("row_max", "row_sum"):
            return [SpelledReduction(kind, target, operands, operation.name in self.partial.sums)]
        function, number, condition = kind, "", None
        if kind in ("scale", "offset", "raise"):
            number = spelled_number(operation)
        elif kind == "activation" and operation.function in FUNCTIONS:
            function = operation.function
        elif kind == "mask" and operation.condition is not None:
            number = single(operation.number, f"the fill of {operation.name}")
            condition = self._mask_condition(operation.condition, inner, target, operands)
        elif kind not in (*BINARY, *UNARY, "convert"):
            raise EmissionRefused(f"no spelling for {identifier(operation.kind, 'a kind')}")
        return [SpelledElementwise(function, target, operands, number, condition)]

    def _mask_condition(
        self,
        condition: Expression,
        inner: SpellingScope,
        target: RegisterArray,
        operands: tuple[RegisterArray, ...],
    ) -> MaskCondition:
        """The condition of each element, and where in place that of the tile as a whole."""
        even, odd = (
            inner.plus("row", "titan_row", 0).plus("column", column, 0).text(condition)
            for column in ("titan_column", "(titan_column + 1)")
        )
        rows = target.rows
        known = substitute_sizes(self.tiles.tile, condition)
        whole = worst_corner(known, rows, target.columns)
        spans = column_range(known) if target.columns % 8 == 0 else None
        begin, end = (
            inner.plus("row", "titan_row", 0).text(bound) if bound is not None else ""
            for bound in spans or (None, None)
        )
        made = MaskCondition(even, odd, begin=begin, end=end)
        if whole is None or target.name != operands[0].name:
            return made
        first = inner.plus("row", f"({self.group} * {rows})" if self.group else "0", 0)
        loop = self.tiles.tile.loop_variable
        whole = solved(whole, loop)
        made = replace(made, whole=first.text(whole))
        bound = holds_below(whole, loop)
        changing = {one.name for one in self.tiles.tile.lookups} - {
            one.name for one in lookups_of_item(self.tiles.tile)
        }
        if bound is None or changing & names_of(bound):
            # Behind a branch, what a range is made of would take registers of all iterations.
            return made if target.whole else replace(made, begin="", end="")
        return replace(made, counter=inner.spelled[loop], until=first.text(bound))

    def region(self, view: View, inner: SpellingScope, what: str, dimensions: int) -> GlobalRegion:
        """Element number of the view's start, and extents and offsets of the last dimensions."""
        tensors = {tensor.name: tensor for tensor in self.tiles.tile.tensors}
        tensor = tensors.get(view.tensor)
        if (
            tensor is None
            or len(view.offsets) != len(tensor.shape)
            or len(tensor.shape) < dimensions
        ):
            raise EmissionRefused(f"{what} has no tensor of its rank")
        pointer = mangled("data", tensor.name, "a tensor")
        element, shape = dtype(tensor.dtype, tensor.name), tensor.shape
        extents = [inner.text(extent) for extent in shape]
        offsets = [inner.text(offset) for offset in view.offsets]
        outer = "0LL"
        inside: list[str] = []
        for extent, offset in zip(extents[:-dimensions], offsets[:-dimensions], strict=True):
            outer = f"({outer} * ({extent}) + ({offset}))"
            inside.append(f"(titan::u32)({offset}) < (titan::u32)({extent})")
        return GlobalRegion(
            pointer, element, outer, " && ".join(inside) or "true",
            tuple(extents[-dimensions:]), tuple(offsets[-dimensions:]),
        )  # fmt: skip

    def _vector(self, operation: TileOperation, inner: SpellingScope) -> SpelledStatement:
        if operation.view is None:
            raise EmissionRefused(f"{operation.name} has no view")
        source = self.region(operation.view, inner, operation.name, 1)
        every = operation.kind == "element"
        return SpelledVector(self._form(operation.name), source, every)

    def _read(
        self, operation: TileOperation, site: EmissionSite, scope: SpellingScope
    ) -> SpelledStatement:
        """The stage is that of the read in front of this Compute, which the check has found."""
        access = self.reads.get(site.number)
        if access is None or len(operation.operands) != 1:
            raise EmissionRefused(f"{operation.name} is computed without a read before it")
        effects = [e for e in access.effects if e.buffer == operation.operands[0]]
        if len(effects) != 1:
            raise EmissionRefused(f"{operation.name} is computed without a read before it")
        effect = effects[0]
        tile = self.layout.tiles[effect.buffer]
        target = self._form(operation.name)
        if target.form != "column" and tile.rows % self.groups:
            raise EmissionRefused(f"{tile.rows} rows of {tile.name} for {self.groups} groups")
        place = self.stage(tile, effect, scope)
        return SpelledRead(target, place, _tile_layout(tile), self.row_step)

    def _store(
        self,
        operation: TileOperation,
        site: EmissionSite,
        inner: SpellingScope,
        scope: SpellingScope,
    ) -> list[SpelledStatement]:
        source = self._form(operation.operands[0])
        if site.kind is not SiteKind.STAGE:
            if operation.view is None:
                raise EmissionRefused(f"{operation.name} has no view")
            if operation.reduction or operation.writes_transposed:
                raise EmissionRefused(f"{operation.name} adds or transposes, but by no copy engine")
            dimensions = 1 if source.form in ("row", "column") else 2
            target = self.region(operation.view, inner, operation.name, dimensions)
            if operation.below is not None:
                target = replace(target, below=inner.text(operation.below))
            return [SpelledDirectStore(source, target)]
        if operation.below is not None:
            raise EmissionRefused(f"{operation.name} ends within a tile, which is sent whole")
        access = site.operation
        assert isinstance(access, ir.Access)
        tile = self.layout.tiles[operation.name]
        if len(access.effects) != 1 or source.form not in ("float", "pair"):
            raise EmissionRefused(f"{operation.name} does not stage one fragment")
        slices = self.tiles.slices.get(operation.name, 1)
        if operation.writes_transposed:
            return [self._transposed(operation, source, tile, access.effects[0], scope)]
        if tile.part_rows != source.rows or tile.columns * slices != source.columns:
            raise EmissionRefused(f"{operation.name} has a buffer of another shape")
        if slices > 1 and tile.columns % COLUMNS_TOGETHER:
            raise EmissionRefused(f"{operation.name} has slices of {tile.columns} columns")
        if tile.dtype != source.type:
            raise EmissionRefused(f"{operation.name} has a buffer of another element type")
        place = self.stage(tile, access.effects[0], scope)
        begin = 0
        if slices > 1:
            begin = site.slice * tile.columns
            source = replace(source, begin=begin, end=begin + tile.columns)
        return [SpelledStage(source, place, _tile_layout(tile), self.row_step, begin)]

    def _transposed(
        self,
        operation: TileOperation,
        source: RegisterArray,
        tile: Tile,
        effect: ir.Effect,
        scope: SpellingScope,
    ) -> SpelledStatement:
        """A fragment of pairs, to the staging buffer of its transpose."""
        shape = (tile.rows, tile.columns, tile.dtype, tile.parts)
        if shape != (source.columns, source.rows, source.type, 1) or source.form != "pair":
            raise EmissionRefused(f"{operation.name} has a buffer of another shape")
        if source.whole or source.columns % COLUMNS_TOGETHER or tile.panel_columns != ROWS_OF_MMA:
            raise EmissionRefused(f"{operation.name} has no form that is written transposed")
        place = self.stage(tile, effect, scope)
        return SpelledTransposed(source, place, tile.panel_bytes, tile.panel_stride)

    def _direct_product(self, operation: TileOperation, inner: SpellingScope) -> SpelledStatement:
        """A product whose operands no shared memory holds: each thread computes its elements."""
        target = self._form(operation.name)
        left, right = (self.tiles.value(name) for name in operation.operands[:2])
        flips = (*operation.transpose, False, False)[:2]
        depths = (
            left.rows if flips[0] else left.columns,
            right.columns if flips[1] else right.rows,
        )
        if target.form != "float" or depths[0] != depths[1]:
            raise EmissionRefused(f"the operands of {operation.name} do not fit")
        a, b = (
            DirectOperand(self._in_global_memory(value.name, inner), along)
            for value, along in ((left, flips[0]), (right, not flips[1]))
        )
        return SpelledDirectProduct(target, a, b, depths[0], identifier(operation.name, "an mma"))

    def _in_global_memory(self, load: str, inner: SpellingScope) -> GlobalRegion:
        view = self.tiles.operations[load].view
        if view is None:
            raise EmissionRefused(f"{load} has no view")
        return self.region(view, inner, load, 2)

    # ------------------------------------------------------------------------------- wgmma

    def _mma(
        self, operation: TileOperation, site: EmissionSite, scope: SpellingScope
    ) -> list[SpelledStatement]:
        issue = site.operation
        assert isinstance(issue, ir.Asynchronous)
        target = self._form(operation.name)
        if target.form != "float" or not 8 <= target.columns <= 256:
            raise EmissionRefused(f"{operation.name} has {target.columns} columns")
        left, right = operation.operands[:2]
        flips = (*operation.transpose, False, False)[:2]
        stages = {effect.buffer: effect for effect in issue.effects}
        if len(stages) != len(issue.effects):
            raise EmissionRefused(f"{operation.name} reads one buffer twice")
        b = self._operand(right, stages, scope, rows_along_k=not flips[1])
        of_right = self._descriptor(right, stages[right], b, scope)
        of_left = ""
        a: RegisterArray | SharedOperand
        if self.tiles.in_registers(left):
            a = self._form(left)
            if a.form != "pair" or flips[0]:
                raise EmissionRefused(f"{left} cannot enter a tensor-core operation from registers")
            depth = a.columns
        else:
            shared = self._operand(left, stages, scope, rows_along_k=flips[0])
            rows = shared.columns if flips[0] else shared.rows
            depth = shared.rows if flips[0] else shared.columns
            if rows != target.rows * self.groups:
                raise EmissionRefused(f"{left} has {rows} rows, {operation.name} others")
            offsets = _left_offsets(shared, target, flips[0])
            a = replace(shared, offsets=offsets)
            group = f" + {self.group} * {offsets.of_group}" if self.group else ""
            of_left = self._descriptor(left, stages[left], shared, scope, group)
        types = {a.type, b.type}
        if len(types) != 1 or types == {"f32"}:
            raise EmissionRefused(f"{operation.name} multiplies {' and '.join(sorted(types))}")
        step = 32 // (2 if types & {"bf16", "f16"} else 1)
        inner = b.columns if flips[1] else b.rows
        columns = b.rows if flips[1] else b.columns
        if inner != depth or depth % step or columns != target.columns:
            raise EmissionRefused(f"the operands of {operation.name} do not fit")
        if step == 32 and (not flips[1] or flips[0]):
            raise EmissionRefused(f"8-bit operands of {operation.name} must be K-major")
        again = ""
        if of_left and depth // step * target.m > DESCRIPTORS_KEPT:
            again = self._again(of_left, stages[left], stages[right], scope)
        return [SpelledProduct(
            target, a, b, of_left, of_right, steps=depth // step, type=b.type,
            transpose_a=flips[0], transpose_b=not flips[1],
            adds=len(operation.operands) > 2, note=identifier(operation.name, "an mma"),
            again=again, kept=DESCRIPTORS_KEPT,
        )]  # fmt: skip

    def _again(self, kept: str, left: ir.Effect, right: ir.Effect, scope: SpellingScope) -> str:
        """The descriptor of a tile with one stage as a sum with 0 that a compiler does not know to
        be 0, from the number of the stage of the other operand; empty where there is no such."""
        stage = scope.text(right.stage)
        of_ring = self.layout.tiles[right.buffer].stages > 1 and not stage.isdecimal()
        if self.layout.tiles[left.buffer].stages > 1 or not of_ring:
            return ""
        zero = f"(titan::u32)titan::kept((titan::u64)(titan::u32)({stage})) >> 16"
        return f"titan::descriptor_of_stage<16>({kept}, (int)({zero}))"

    def _descriptor(
        self,
        name: str,
        effect: ir.Effect,
        operand: SharedOperand,
        scope: SpellingScope,
        behind: str = "",
    ) -> str:
        """The descriptor of the stage that an effect means. `behind`: what of the tile's rows lies
        in front of those of the group.
        """
        made = f"titan::shared_descriptor<{operand.swizzle}>"
        numbers = f"{operand.leading}, {operand.stride}"
        return self._of_stage(
            name, effect, scope, lambda start: f"{made}({start}{behind}, {numbers})", operand.tile
        )

    def _of_stage(
        self,
        name: str,
        effect: ir.Effect,
        scope: SpellingScope,
        made: Callable[[str], str],
        place: str,
    ) -> str:
        """The descriptor of the stage that an effect means, which begins at `place`.

        That of the buffer is `made` once a role; the stage adds a constant to it.
        """
        tile = self.layout.tiles[name]
        if effect.part is not None:
            return made(place)
        text = f"titan::kept({made(mangled('s', tile.name, 'a buffer'))})"
        if text not in self.descriptors:
            self.descriptors[text] = f"d{len(self.descriptors)}_{identifier(name, 'a tile')}"
        kept = self.descriptors[text]
        if tile.stages == 1:
            return kept
        stage = scope.text(effect.stage)
        return f"titan::descriptor_of_stage<{tile.stage_stride}>({kept}, {stage})"

    def _operand(
        self, name: str, stages: dict[str, ir.Effect], scope: SpellingScope, rows_along_k: bool
    ) -> SharedOperand:
        """A shared operand: address of its stage and the numbers of its descriptor.

        K-major (rows of memory run along K): a step of K is 32 bytes along the row, and at the end
        of a panel the next panel. Otherwise a step of K is so many rows further, and the next panel
        is the leading offset.
        """
        if name not in stages:
            raise EmissionRefused(f"the tile of {name} is not read where it is multiplied")
        tile = self.layout.tiles[name]
        if tile.staged or not tile.swizzled:
            raise EmissionRefused(f"{name} is not a loaded tile with a swizzle")
        panel = tile.panel_bytes
        step_rows = 32 // tile.element_bytes
        return SharedOperand(
            self.stage(tile, stages[name], scope), panel, tile.dtype, tile.rows, tile.columns,
            k_rows=rows_along_k, panel=panel, panel_stride=tile.panel_stride,
            leading=tile.panel_stride if rows_along_k else 16, stride=8 * panel,
            step=step_rows * panel if rows_along_k else 32,
            panel_columns=tile.panel_columns,
        )  # fmt: skip


def _left_offsets(a: SharedOperand, target: RegisterArray, transposed: bool) -> RowsOffset:
    """Bytes from one group's rows to the next one's, and from one 64 rows to the next."""
    if not transposed:
        return RowsOffset(target.rows * a.panel, ROWS_OF_MMA * a.panel)
    if ROWS_OF_MMA % a.panel_columns:
        raise EmissionRefused("a transposed left operand whose panels 64 rows do not fill")
    block = ROWS_OF_MMA // a.panel_columns * a.panel_stride
    return RowsOffset(target.m * block, block)


def _tile_layout(tile: Tile) -> PanelLayout:
    if not tile.swizzled:
        raise EmissionRefused(f"threads touch no tile without a swizzle, as {tile.name}")
    return PanelLayout(tile.panel_bytes, tile.panel_stride, tile.dtype, tile.element_bytes)


def beside(scope: SpellingScope, expression: Expression) -> str:
    """A text that may stand beside an operator."""
    text = scope.text(expression)
    simple = isinstance(expression, Constant) or " " not in text
    return text if simple else f"({text})"
