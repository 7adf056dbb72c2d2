"""The arithmetic of a tile program as statements: values in registers and tensor-core operations.

Says how each value is kept (`_form`), and which numbers descriptors and loops are made with; the
templates of backends/sm_90a spell them. A fragment is spread over a warpgroup as wgmma spreads its
accumulators; see the device header. Source: PTX ISA, wgmma: register fragments, matrix descriptors,
canonical layouts.
"""

from __future__ import annotations

from typing import Any

from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.layout import EmissionLayout, RolePlace, Tile
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import dtype, identifier, mangled, single
from titan.codegen.emit.registers import RegisterAllocation, packed
from titan.codegen.emit.sites import EmissionSite, SiteKind, Tiles
from titan.codegen.tile.model import TileOperation, View
from titan.codegen.tile.model import ValuePlace as Where
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression

Statement = dict[str, Any]
ROWS_OF_MMA = 64
FUNCTIONS = ("relu", "gelu", "silu", "tanh")
UNARY = ("exp2", "log2", "reciprocal", "rsqrt")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


class RoleArithmetic:
    """One role of one CTA. `iterations`: for each site the iteration it belongs to.

    `row_step`: rows from one block of a warp to its next. `group`: which of the parts of a tile's
    rows is dealt with.
    """

    row_step = ROWS_OF_MMA
    group = "x_group"

    def __init__(
        self,
        place: RolePlace,
        layout: EmissionLayout,
        tiles: Tiles,
        queues: dict[str, ir.Queue],
        plan: RegisterAllocation,
        iterations: dict[int, Expression],
        sync: SpellingScope,
        tile_scope: SpellingScope,
        work: str | None,
        reads: dict[int, ir.Access],
        ctas: int,
    ) -> None:
        self.place = place
        self.layout = layout
        self.tiles = tiles
        self.queues = queues
        self.plan = plan
        self.iterations = iterations
        self.sync = sync
        self.outer = tile_scope
        self.work = work
        self.wide = place.role.threads == 128
        self.groups = place.role.agents
        self.reads = reads
        self.ctas = ctas

    def _stage(self, tile: Tile, effect: ir.Effect, scope: SpellingScope) -> str:
        """The address of the part of a stage that an effect means."""
        text = mangled("s", tile.name, "a buffer")
        if tile.stages > 1:
            text += f" + {beside(scope, effect.stage)} * {tile.stage_bytes}"
        if tile.parts > 1:
            if effect.part is not None:
                text += f" + {beside(scope, effect.part)} * {tile.part_stride}"
            elif tile.staged:
                raise EmissionRefused(f"{tile.name} is copied whole, but has parts")
        return text

    def _tile_scope(self, site: EmissionSite, scope: SpellingScope) -> SpellingScope:
        """Names of the tile program: the loop variable is the iteration of the site."""
        loop = self.tiles.tile.loop_variable
        if site.number not in self.iterations:
            return self.outer
        iteration = self.iterations[site.number]
        # An iteration is never below 0: the runs of `trace.py` count them from there.
        return self.outer.plus(loop, beside(scope, iteration), 0)

    # --------------------------------------------------------------------------- registers

    def _form(self, name: str) -> Statement:
        """How a value is kept: name of its registers, form, element type, extents."""
        value = self.tiles.value(name)
        place = self.plan.storage[name]
        operation = self.tiles.operations.get(name)
        if not self.wide:
            raise EmissionRefused(f"{name} is computed by agents that are no warpgroups")
        m = self._blocks(name) if value.place is not Where.COLUMN else 1
        if value.place in (Where.FRAGMENT, Where.COLUMN) and value.columns % 8:
            raise EmissionRefused(f"{value.columns} columns of {name} are no multiple of 8")
        pair = packed(value, operation)
        form = {Where.FRAGMENT: "pair" if pair else "float", Where.ROW: "row",
                Where.COLUMN: "column"}.get(value.place, "")  # fmt: skip
        if not form:
            raise EmissionRefused(f"{name} is in shared memory, not in registers")
        return {
            "name": mangled("v", place, "a value"), "form": form,
            "type": dtype(value.dtype, name), "m": m, "rows": m * ROWS_OF_MMA,
            "first": 0, "last": m, "columns": value.columns, "value": identifier(name, "a value"),
            "row0": f"{self.group} * {m * ROWS_OF_MMA} + titan_row0", "step": self.row_step,
        }  # fmt: skip

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

    def declarations(self) -> list[Statement]:
        """One array a storage; what it holds in turn."""
        holders: dict[str, list[str]] = {}
        for name, place in self.plan.storage.items():
            holders.setdefault(place, []).append(name)
        return [
            {**self._form(place), "holds": [identifier(n, "a value") for n in names]}
            for place, names in holders.items()
        ]

    def _carry(self, site: EmissionSite) -> list[Statement]:
        carried = self.tiles.carried[site.name]
        target = self._form(site.name)
        if self.plan.initial.get(site.number, True):
            number = single(carried.initial, f"the initial number of {site.name}")
            return [{"kind": "fill", "target": target, "number": number}]
        source = self._form(carried.next)
        if source["name"] == target["name"]:
            return []
        if (source["form"], source["m"], source["columns"]) != (
            target["form"], target["m"], target["columns"]
        ):  # fmt: skip
            raise EmissionRefused(f"{site.name} and {carried.next} are kept differently")
        return [{"kind": "copy", "target": target, "source": source}]

    def _register_operation(
        self,
        operation: TileOperation,
        site: EmissionSite,
        inner: SpellingScope,
        scope: SpellingScope,
    ) -> list[Statement]:
        kind = operation.kind
        if kind == "mma":
            return self._mma(operation, site, scope)
        if kind == "store":
            return self._store(operation, site, inner, scope)
        if kind == "vector":
            return [self._vector(operation, inner)]
        if kind == "read":
            return [self._read(operation, site, scope)]
        target = self._form(operation.name)
        operands = [self._form(name) for name in operation.operands]
        expected = 2 if kind in BINARY else 1
        if len(operands) != expected:
            raise EmissionRefused(f"{operation.name} takes {expected} operands")
        if kind in ("row_max", "row_sum"):
            return [{"kind": kind, "target": target, "operands": operands}]
        statement: Statement = {"kind": "elementwise", "target": target, "operands": operands}
        if kind in BINARY or kind in UNARY:
            statement["function"] = kind
        elif kind in ("scale", "offset"):
            statement["function"] = kind
            statement["number"] = single(operation.number, f"the number of {operation.name}")
        elif kind == "activation" and operation.function in FUNCTIONS:
            statement["function"] = operation.function
        elif kind == "convert":
            statement["function"] = "convert"
        elif kind == "mask" and operation.condition is not None:
            statement["function"] = "mask"
            statement["number"] = single(operation.number, f"the fill of {operation.name}")
            statement["condition"] = self._condition(operation, inner)
        else:
            raise EmissionRefused(f"no spelling for {identifier(operation.kind, 'a kind')}")
        return [statement]

    def _condition(self, operation: TileOperation, inner: SpellingScope) -> dict[str, str]:
        """The condition for the even and the odd column of a pair."""
        assert operation.condition is not None
        row = "titan_row"
        made = {}
        for part, column in (("even", "titan_column"), ("odd", "(titan_column + 1)")):
            scope = inner.plus("row", row, 0).plus("column", column, 0)
            made[part] = scope.text(operation.condition)
        return made

    def _linear(self, view: View, inner: SpellingScope, what: str, dimensions: int) -> Statement:
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
        return {
            "pointer": pointer, "type": element, "outer": outer,
            "inside": " && ".join(inside) or "true",
            "extents": extents[-dimensions:], "offsets": offsets[-dimensions:],
        }  # fmt: skip

    def _vector(self, operation: TileOperation, inner: SpellingScope) -> Statement:
        if operation.view is None:
            raise EmissionRefused(f"{operation.name} has no view")
        source = self._linear(operation.view, inner, operation.name, 1)
        return {"kind": "vector", "target": self._form(operation.name), "source": source}

    def _read(
        self, operation: TileOperation, site: EmissionSite, scope: SpellingScope
    ) -> Statement:
        """The stage is that of the read in front of this Compute, which the check has found."""
        access = self.reads.get(site.number)
        if access is None or len(operation.operands) != 1:
            raise EmissionRefused(f"{operation.name} is computed without a read before it")
        effects = [e for e in access.effects if e.buffer == operation.operands[0]]
        if len(effects) != 1:
            raise EmissionRefused(f"{operation.name} is computed without a read before it")
        effect = effects[0]
        tile = self.layout.tiles[effect.buffer]
        return {
            "kind": "read", "target": self._form(operation.name), "group": self._group_rows(tile),
            "tile": self._stage(tile, effect, scope), "step": self.row_step, **_tile_texts(tile),
        }  # fmt: skip

    def _group_rows(self, tile: Tile) -> int:
        if tile.rows % self.groups:
            raise EmissionRefused(f"{tile.rows} rows of {tile.name} for {self.groups} groups")
        return tile.rows // self.groups

    def _store(
        self,
        operation: TileOperation,
        site: EmissionSite,
        inner: SpellingScope,
        scope: SpellingScope,
    ) -> list[Statement]:
        source = self._form(operation.operands[0])
        if site.kind is not SiteKind.STAGE:
            if operation.view is None:
                raise EmissionRefused(f"{operation.name} has no view")
            dimensions = 1 if source["form"] in ("row", "column") else 2
            target = self._linear(operation.view, inner, operation.name, dimensions)
            return [{"kind": "direct_store", "source": source, "target": target}]
        access = site.operation
        assert isinstance(access, ir.Access)
        tile = self.layout.tiles[operation.name]
        if len(access.effects) != 1 or source["form"] not in ("float", "pair"):
            raise EmissionRefused(f"{operation.name} does not stage one fragment")
        if tile.part_rows != source["rows"] or tile.columns != source["columns"]:
            raise EmissionRefused(f"{operation.name} has a buffer of another shape")
        if tile.dtype != source["type"]:
            raise EmissionRefused(f"{operation.name} has a buffer of another element type")
        place = self._stage(tile, access.effects[0], scope)
        texts = {"step": self.row_step, **_tile_texts(tile)}
        return [{"kind": "stage", "source": source, "tile": place, **texts}]

    # ------------------------------------------------------------------------------- wgmma

    def _mma(
        self, operation: TileOperation, site: EmissionSite, scope: SpellingScope
    ) -> list[Statement]:
        issue = site.operation
        assert isinstance(issue, ir.Asynchronous)
        target = self._form(operation.name)
        if target["form"] != "float" or not 8 <= target["columns"] <= 256:
            raise EmissionRefused(f"{operation.name} has {target['columns']} columns")
        left, right = operation.operands[:2]
        flips = (*operation.transpose, False, False)[:2]
        stages = {effect.buffer: effect for effect in issue.effects}
        if len(stages) != len(issue.effects):
            raise EmissionRefused(f"{operation.name} reads one buffer twice")
        b = self._operand(right, stages, scope, rows_along_k=not flips[1])
        types = {b["type"]}
        if self.tiles.in_registers(left):
            a: Statement = self._form(left)
            if a["form"] != "pair" or flips[0]:
                raise EmissionRefused(f"{left} cannot enter a tensor-core operation from registers")
            a["registers"] = True
            depth = a["columns"]
        else:
            a = self._operand(left, stages, scope, rows_along_k=flips[0])
            a["registers"] = False
            rows = a["columns"] if flips[0] else a["rows"]
            depth = a["rows"] if flips[0] else a["columns"]
            if rows != target["rows"] * self.groups:
                raise EmissionRefused(f"{left} has {rows} rows, {operation.name} others")
            a["group"] = self._left_group(a, target, flips[0])
        types.add(a["type"])
        if len(types) != 1 or types == {"f32"}:
            raise EmissionRefused(f"{operation.name} multiplies {' and '.join(sorted(types))}")
        step = 32 // (2 if types & {"bf16", "f16"} else 1)
        inner = b["columns"] if flips[1] else b["rows"]
        columns = b["rows"] if flips[1] else b["columns"]
        if inner != depth or depth % step or columns != target["columns"]:
            raise EmissionRefused(f"the operands of {operation.name} do not fit")
        if step == 32 and (not flips[1] or flips[0]):
            raise EmissionRefused(f"8-bit operands of {operation.name} must be K-major")
        return [{
            "kind": "mma", "target": target, "a": a, "b": b, "steps": depth // step,
            "type": types.pop(), "transpose_a": flips[0], "transpose_b": not flips[1],
            "adds": len(operation.operands) > 2, "note": identifier(operation.name, "an mma"),
        }]  # fmt: skip

    def _operand(
        self, name: str, stages: dict[str, ir.Effect], scope: SpellingScope, rows_along_k: bool
    ) -> Statement:
        """A shared operand: address of its stage and the numbers of its descriptor.

        K-major (rows of memory run along K): a step of K is 32 bytes along the row, and at the end
        of a panel the next panel. Otherwise a step of K is so many rows further, and the next panel
        is the leading offset.
        """
        if name not in stages:
            raise EmissionRefused(f"the tile of {name} is not read where it is multiplied")
        tile = self.layout.tiles[name]
        if tile.staged:
            raise EmissionRefused(f"{name} is no loaded tile")
        panel = tile.panel_bytes
        step_rows = 32 // tile.element_bytes
        return {
            "tile": self._stage(tile, stages[name], scope), "swizzle": panel,
            "type": tile.dtype, "rows": tile.rows, "columns": tile.columns,
            "k_rows": rows_along_k, "panel": panel, "panel_stride": tile.panel_stride,
            "leading": tile.panel_stride if rows_along_k else 16, "stride": 8 * panel,
            "step": step_rows * panel if rows_along_k else 32,
            "panel_columns": tile.panel_columns, "registers": False,
        }  # fmt: skip

    def _left_group(self, a: Statement, target: Statement, transposed: bool) -> Statement:
        """Bytes from one group's rows to the next one's, and from one 64 rows to the next."""
        if not transposed:
            return {"self": target["rows"] * a["panel"], "m": ROWS_OF_MMA * a["panel"]}
        if ROWS_OF_MMA % a["panel_columns"]:
            raise EmissionRefused("a transposed left operand whose panels 64 rows do not fill")
        panels = ROWS_OF_MMA // a["panel_columns"]
        return {"self": target["m"] * panels * a["panel_stride"], "m": panels * a["panel_stride"]}


def _tile_texts(tile: Tile) -> Statement:
    return {
        "swizzle": tile.panel_bytes, "panel_stride": tile.panel_stride, "type_in": tile.dtype,
        "element": tile.element_bytes,
    }  # fmt: skip


def beside(scope: SpellingScope, expression: Expression) -> str:
    """A text that may stand beside an operator."""
    text = scope.text(expression)
    simple = isinstance(expression, Constant) or " " not in text
    return text if simple else f"({text})"
