"""The statements of one role: every operation of the sync program, spelled by the device header.

A statement is a mapping with a `kind`, which names a macro of backends/sm_90a/kernel.cu.j2, and the
texts that the macro puts together. All texts are made here from checked names and numbers.

One agent of the sync program is a thread, a warp or a warpgroup. Waits are executed by all its
threads; an arrival by one elected lane of each warp, behind a warp barrier, and the hardware counts
of the barriers are those of the program times the warps of an agent; bulk copies, their commits and
waits by one elected thread of its first warp, always the same.
"""

from __future__ import annotations

from typing import Any

from titan.emit.expressions import Scope
from titan.emit.layout import Layout, Place, Tile
from titan.emit.model import EmissionRefused
from titan.emit.names import dtype, identifier, integer, label, mangled, single
from titan.emit.registers import Allocation, packed
from titan.emit.sites import Kind, Site, Tiles
from titan.sync import program as ir
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    binary,
    names_of,
    to_text,
)
from titan.tile.model import Place as Where
from titan.tile.model import TileOperation, View

Statement = dict[str, Any]
ROWS_OF_MMA = 64
FUNCTIONS = ("relu", "gelu", "silu", "tanh")
UNARY = ("exp2", "log2", "reciprocal", "rsqrt")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


class Spelling:
    """Spells one role of one CTA. `iterations`: for each site the iteration it belongs to."""

    def __init__(
        self, place: Place, layout: Layout, tiles: Tiles, queues: dict[str, ir.Queue],
        plan: Allocation, iterations: dict[int, Expression], sync: Scope, tile_scope: Scope,
        work: str | None,
    ) -> None:  # fmt: skip
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
        self.notes: list[str] = []

    def role(self, sites: tuple[Site, ...]) -> list[Statement]:
        made: list[Statement] = []
        scope = self.sync
        for name, initial in self.place.role.variables:
            spelled = mangled("x", name, "a counter")
            made.append({"kind": "variable", "name": spelled, "value": str(integer(initial, name))})
        if self.work is None:
            made.append({"kind": "coordinates", "item": "titan::block_index()"})
        return made + self.block(sites, scope)

    def block(self, sites: tuple[Site, ...], scope: Scope) -> list[Statement]:
        made: list[Statement] = []
        for site in sites:
            for statement in self.site(site, scope):
                if made and statement["kind"] == made[-1]["kind"] == "leader":
                    made[-1]["body"] += statement["body"]
                else:
                    made.append(statement)
        return made

    # -------------------------------------------------------------------------- operations

    def site(self, site: Site, scope: Scope) -> list[Statement]:
        operation = site.operation
        match operation:
            case ir.Loop():
                return [self._loop(site, operation, scope)]
            case ir.Branch() if self._only_waits(site):
                # A wait too many is harmless; one that ptxas sees on every path lets it overlap.
                return self.block(site.inside, scope)
            case ir.Branch(condition=condition):
                then, otherwise = self.block(site.inside, scope), self.block(site.otherwise, scope)
                text = scope.text(condition)
                return [{"kind": "branch", "condition": text, "then": then, "otherwise": otherwise}]
            case ir.Assign(variable=variable, value=value):
                name = scope.text(Name(variable))
                return [{"kind": "assign", "name": name, "value": scope.text(value)}]
            case ir.Wait():
                return [self._wait(operation, scope)]
            case ir.Arrive():
                return [self._arrive(operation, scope)]
            case ir.ExpectTransaction():
                size = self._constant(operation.bytes, "expected bytes", 0, 2**20 - 1)
                barrier = self._barrier(operation.barrier, scope)
                return [self._one({"kind": "expect", "barrier": barrier, "bytes": size})]
            case ir.Commit(queue=queue):
                if self.queues[queue].pipelined:
                    return [{"kind": "wgmma_commit"}]
                return [self._one({"kind": "bulk_commit"})]
            case ir.QueueWait():
                return [self._queue_wait(site, operation)]
            case ir.BarrierSync() | ir.BarrierArrive():
                return [self._named(operation, scope)]
            case ir.Fence(kind=kind):
                if kind is not ir.FenceKind.ASYNC:
                    raise EmissionRefused(f"no spelling for the fence {kind.value}")
                return [{"kind": "fence"}]
            case ir.Asynchronous() | ir.Compute() | ir.Access():
                return self._tile_site(site, scope)
        raise EmissionRefused(f"no spelling for {type(operation).__name__} on sm_90a")

    def _only_waits(self, branch: Site) -> bool:
        """Whether a branch does nothing but wait for tensor-core groups."""
        return not branch.otherwise and all(
            isinstance(site.operation, ir.QueueWait) and self.queues[site.operation.queue].pipelined
            for site in branch.inside
        )

    def _tile_site(self, site: Site, scope: Scope) -> list[Statement]:
        match site.kind:
            case Kind.LOAD:
                return self._load(site, scope)
            case Kind.SEND:
                return self._send(site, scope)
            case Kind.READ:
                return []  # spelled at the Compute behind it
            case Kind.CARRY:
                return self._carry(site)
        inner = self._tile_scope(site, scope)
        made: list[Statement] = []
        for name in self.plan.sequence[site.number]:
            made += self._register_operation(self.tiles.operations[name], site, inner, scope)
        return made

    def _loop(self, site: Site, loop: ir.Loop, scope: Scope) -> Statement:
        name = mangled("x", loop.variable, "a loop variable")
        if loop.variable in scope.spelled:
            raise EmissionRefused(f"{name} is declared twice")
        inner = scope.plus(loop.variable, name, scope.bound(loop.start))
        outermost = not site.loops and loop.variable == self.work
        body: list[Statement] = []
        if outermost:
            item = f"titan::block_index() + {name} * titan::grid_size()"
            body.append({"kind": "coordinates", "item": item})
        body += self.block(site.inside, inner)
        return {
            "kind": "loop", "variable": name, "start": scope.text(loop.start),
            "stop": inner.text(loop.stop), "body": body, "work": outermost,
        }  # fmt: skip

    def _one(self, statement: Statement) -> Statement:
        """By the one thread of the agent that deals with the copy engine."""
        if self.place.elected:
            return statement
        return {"kind": "leader", "body": [statement]}

    def _barrier(self, reference: ir.Reference, scope: Scope) -> str:
        if reference.name not in self.layout.barriers:
            raise EmissionRefused(f"{mangled('b', reference.name, 'a barrier')} is not declared")
        return f"{mangled('b', reference.name, 'a barrier')} + {_inner(scope, reference.index)}"

    def _wait(self, wait: ir.Wait, scope: Scope) -> Statement:
        if wait.order is not ir.Order.SYNCHRONISING:
            raise EmissionRefused("a relaxed wait has no spelling")
        parity = binary("%", wait.parity, Constant(2))
        return {
            "kind": "wait", "barrier": self._barrier(wait.barrier, scope),
            "parity": scope.text(_simple_parity(wait.parity, parity)),
            "cluster": wait.scope is ir.Scope.CLUSTER, "note": _wait_note(wait, scope),
        }  # fmt: skip

    def _arrive(self, arrive: ir.Arrive, scope: Scope) -> Statement:
        if arrive.order is not ir.Order.SYNCHRONISING or arrive.drop or arrive.token:
            raise EmissionRefused("an arrival that is relaxed, drops or keeps its state")
        if arrive.count != Constant(1):
            raise EmissionRefused("an arrival that counts more than once")
        if arrive.scope is ir.Scope.CLUSTER:
            raise EmissionRefused("an arrival at a barrier of another CTA")
        statement = {
            "kind": "arrive", "barrier": self._barrier(arrive.barrier, scope),
            "bytes": self._constant(arrive.transaction, "expected bytes", 0, 2**20 - 1),
            "warps": not self.place.elected, "several": self.wide, "note": label(arrive.label),
        }  # fmt: skip
        return statement

    def _constant(self, expression: Expression, what: str, low: int, high: int) -> int:
        if not isinstance(expression, Constant):
            raise EmissionRefused(f"{what} must be a number that is fixed")
        return integer(expression.value, what, low, high)

    def _queue_wait(self, site: Site, wait: ir.QueueWait) -> Statement:
        pending = self._constant(wait.pending, "groups left unfinished", 0, 7)
        if self.queues[wait.queue].pipelined:
            held = [mangled("v", name, "a value") for name in self.plan.holds.get(site.number, ())]
            shapes = [self._form(name)["m"] for name in self.plan.holds.get(site.number, ())]
            holds = [{"name": n, "m": m} for n, m in zip(held, shapes, strict=True)]
            return {
                "kind": "wgmma_wait",
                "pending": pending,
                "holds": holds,
                "note": label(wait.label),
            }
        read = wait.until is ir.Until.READ
        return self._one({"kind": "bulk_wait", "pending": pending, "read": read})

    def _named(self, operation: ir.BarrierSync | ir.BarrierArrive, scope: Scope) -> Statement:
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
        return {
            "kind": "named", "sync": sync, "id": scope.text(index), "threads": threads,
            "note": identifier(name, "a named barrier"),
        }  # fmt: skip

    # ------------------------------------------------------------------------ bulk copies

    def _stage(self, tile: Tile, effect: ir.Effect, scope: Scope) -> str:
        """The address of the part of a stage that an effect means."""
        text = mangled("s", tile.name, "a buffer")
        if tile.stages > 1:
            text += f" + {_inner(scope, effect.stage)} * {tile.stage_bytes}"
        if tile.parts > 1:
            if effect.part is None:
                raise EmissionRefused(f"{tile.name} is copied whole, but has parts")
            text += f" + {_inner(scope, effect.part)} * {tile.part_stride}"
        return text

    def _tile_scope(self, site: Site, scope: Scope) -> Scope:
        """Names of the tile program: the loop variable is the iteration of the site."""
        loop = self.tiles.tile.loop_variable
        if site.number not in self.iterations:
            return self.outer
        iteration = self.iterations[site.number]
        return self.outer.plus(loop, _inner(scope, iteration), scope.bound(iteration))

    def _coordinates(self, view: View, scope: Scope, rows: str = "") -> tuple[str, list[str]]:
        """The innermost coordinate, and the others from the rows outwards."""
        offsets = [scope.text(offset) for offset in view.offsets]
        if len(offsets) not in (2, 3, 4):
            raise EmissionRefused(f"a tile of a tensor of {len(offsets)} dimensions")
        if rows:
            offsets[-2] = f"{offsets[-2]} + {rows}"
        return offsets[-1], list(reversed(offsets[:-1]))

    def _load(self, site: Site, scope: Scope) -> list[Statement]:
        operation = site.operation
        assert isinstance(operation, ir.Asynchronous)
        tile = self.layout.tiles[site.name]
        load = self.tiles.operations[site.name]
        if len(operation.effects) != 1 or len(operation.completes) != 1 or load.view is None:
            raise EmissionRefused(f"{site.name} is not one copy that completes one barrier")
        completion = operation.completes[0]
        size = self._constant(completion.bytes, "copied bytes", 1, 2**20 - 1)
        if size != tile.stage_bytes or tile.parts != 1:
            raise EmissionRefused(f"{site.name} copies {size} of {tile.stage_bytes} bytes")
        value = self.tiles.value(site.name)
        if (value.rows, value.columns, value.dtype) != (tile.rows, tile.columns, tile.dtype):
            raise EmissionRefused(f"{site.name} has another shape than its buffer")
        first, others = self._coordinates(load.view, self._tile_scope(site, scope))
        copy = {
            "kind": "load", "tile": self._stage(tile, operation.effects[0], scope),
            "map": mangled("map", site.name, "a load"),
            "barrier": self._barrier(completion.barrier, scope), "first": first, "others": others,
            "panels": tile.panels, "panel_stride": tile.panel_stride,
            "panel_columns": tile.panel_columns, "bytes": size,
            "note": identifier(site.name, "a load"),
        }  # fmt: skip
        return [self._one(copy)]

    def _send(self, site: Site, scope: Scope) -> list[Statement]:
        operation = site.operation
        assert isinstance(operation, ir.Asynchronous)
        store = self.tiles.operations[site.name]
        if len(operation.effects) != 1 or store.view is None:
            raise EmissionRefused(f"{site.name} is not one copy of one piece")
        effect = operation.effects[0]
        tile = self.layout.tiles[effect.buffer]
        rows = ""
        if tile.parts > 1 and effect.part is not None:
            rows = f"{_inner(scope, effect.part)} * {tile.part_rows}"
        first, others = self._coordinates(store.view, self._tile_scope(site, scope), rows)
        copy = {
            "kind": "send", "tile": self._stage(tile, effect, scope),
            "map": mangled("map", site.name, "a store"), "first": first, "others": others,
            "panels": tile.panels, "panel_stride": tile.panel_stride,
            "panel_columns": tile.panel_columns, "note": identifier(site.name, "a store"),
        }  # fmt: skip
        return [self._one(copy)]

    # --------------------------------------------------------------------------- registers

    def _form(self, name: str) -> Statement:
        """How a value is kept: name of its registers, form, element type, extents."""
        value = self.tiles.value(name)
        place = self.plan.storage[name]
        operation = self.tiles.operations.get(name)
        if not self.wide:
            raise EmissionRefused(f"{name} is computed by agents that are no warpgroups")
        if self.groups != self.tiles.tile.groups:
            raise EmissionRefused(
                f"{self.groups} agents share rows that the tile program gives to "
                f"{self.tiles.tile.groups}"
            )
        m = 1
        if value.place is not Where.COLUMN:
            if value.rows % (ROWS_OF_MMA * self.groups):
                raise EmissionRefused(
                    f"{value.rows} rows of {name} do not fill {self.groups} warpgroups of 64"
                )
            m = value.rows // (ROWS_OF_MMA * self.groups)
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
            "columns": value.columns, "value": identifier(name, "a value"),
            "row0": f"x_group * {m * ROWS_OF_MMA} + titan_row0",
        }  # fmt: skip

    def declarations(self) -> list[Statement]:
        """One array a storage; what it holds in turn."""
        holders: dict[str, list[str]] = {}
        for name, place in self.plan.storage.items():
            holders.setdefault(place, []).append(name)
        return [
            {**self._form(place), "holds": [identifier(n, "a value") for n in names]}
            for place, names in holders.items()
        ]

    def _carry(self, site: Site) -> list[Statement]:
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
        self, operation: TileOperation, site: Site, inner: Scope, scope: Scope
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

    def _condition(self, operation: TileOperation, inner: Scope) -> dict[str, str]:
        """The condition for the even and the odd column of a pair."""
        assert operation.condition is not None
        row = "titan_row"
        made = {}
        for part, column in (("even", "titan_column"), ("odd", "(titan_column + 1)")):
            scope = inner.plus("row", row, 0).plus("column", column, 0)
            made[part] = scope.text(operation.condition)
        return made

    def _tensor(self, view: View | None, what: str) -> tuple[str, str, list[str], list[str]]:
        """Pointer, element type and texts of shape and offsets need of a direct access."""
        tensors = {tensor.name: tensor for tensor in self.tiles.tile.tensors}
        if view is None or view.tensor not in tensors:
            raise EmissionRefused(f"{what} has no tensor")
        tensor = tensors[view.tensor]
        if len(view.offsets) != len(tensor.shape) or not tensor.shape:
            raise EmissionRefused(f"{what} gives another number of offsets than dimensions")
        pointer = mangled("data", tensor.name, "a tensor")
        return pointer, dtype(tensor.dtype, tensor.name), [], []

    def _linear(self, view: View, inner: Scope, what: str, dimensions: int) -> Statement:
        """Element number of the view's start, and extents and offsets of the last dimensions."""
        pointer, element, _, _ = self._tensor(view, what)
        shape = next(t.shape for t in self.tiles.tile.tensors if t.name == view.tensor)
        extents = [inner.text(extent) for extent in shape]
        offsets = [inner.text(offset) for offset in view.offsets]
        outer = "0LL"
        for extent, offset in zip(extents[:-dimensions], offsets[:-dimensions], strict=True):
            outer = f"({outer} * ({extent}) + ({offset}))"
        return {
            "pointer": pointer, "type": element, "outer": outer, "view": "",
            "extents": extents[-dimensions:], "offsets": offsets[-dimensions:],
        }  # fmt: skip

    def _vector(self, operation: TileOperation, inner: Scope) -> Statement:
        if operation.view is None:
            raise EmissionRefused(f"{operation.name} has no view")
        source = self._linear(operation.view, inner, operation.name, 1)
        return {"kind": "vector", "target": self._form(operation.name), "source": source}

    def _read(self, operation: TileOperation, site: Site, scope: Scope) -> Statement:
        """The stage is that of the read in front of this Compute, which the check has found."""
        access = self.reads.get(site.number)
        if access is None or len(operation.operands) != 1:
            raise EmissionRefused(f"{operation.name} is computed without a read before it")
        effect = next(e for e in access.effects if e.buffer == operation.operands[0])
        tile = self.layout.tiles[effect.buffer]
        return {
            "kind": "read", "target": self._form(operation.name), "group": self._group_rows(tile),
            "tile": self._stage(tile, effect, scope), **_tile_texts(tile),
        }  # fmt: skip

    reads: dict[int, ir.Access] = {}  # noqa: RUF012  (set for each instance)

    def _group_rows(self, tile: Tile) -> int:
        if tile.rows % self.groups:
            raise EmissionRefused(f"{tile.rows} rows of {tile.name} for {self.groups} groups")
        return tile.rows // self.groups

    def _store(
        self, operation: TileOperation, site: Site, inner: Scope, scope: Scope
    ) -> list[Statement]:
        source = self._form(operation.operands[0])
        if site.kind is not Kind.STAGE:
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
        return [{"kind": "stage", "source": source, "tile": place, **_tile_texts(tile)}]

    # ------------------------------------------------------------------------------- wgmma

    def _mma(self, operation: TileOperation, site: Site, scope: Scope) -> list[Statement]:
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
        self, name: str, stages: dict[str, ir.Effect], scope: Scope, rows_along_k: bool
    ) -> Statement:
        """A shared operand: address of its stage and the numbers of its descriptor.

        K-major (rows of memory run along K): a step of K is 32 bytes along the row, and at the end
        of a panel the next panel. Otherwise a step of K is so many rows further, and the next panel
        is the leading offset.
        """
        if name not in stages:
            raise EmissionRefused(f"the tile of {name} is not read where it is multiplied")
        tile = self.layout.tiles[name]
        if tile.parts != 1:
            raise EmissionRefused(f"{name} has parts")
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


def _wait_note(wait: ir.Wait, scope: Scope) -> str:
    if wait.phase is None:
        return label(wait.label)
    scope.text(wait.phase)  # every name in it is known
    return f"{label(wait.label)} (phase {label(to_text(wait.phase))})"


def _simple_parity(parity: Expression, reduced: Expression) -> Expression:
    """The lowest bit of a parity; one that is 0 or 1 already stays as it is."""
    if isinstance(parity, Binary) and parity.operator == "%" and parity.right == Constant(2):
        return parity
    return reduced


def _inner(scope: Scope, expression: Expression) -> str:
    """A text that may stand beside an operator."""
    text = scope.text(expression)
    simple = isinstance(expression, Constant) or (names_of(expression) and " " not in text)
    return text if simple else f"({text})"
