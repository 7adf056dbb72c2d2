"""The verified sync program of a CDNA pipeline, walked: each operation is spelled at its place.

Nothing is moved or added. A wait for copies counts instructions: the threshold of the program is in
operations, and each of them is at least `each` instructions of the wave, so `pending * each` never
leaves more in flight than was verified. `vmcnt` counts to 62; beyond, the wait is deeper.
"""

from __future__ import annotations

from titan.codegen.emit.expressions import SpellingScope
from titan.codegen.emit.hip_operations import HipSpeller, Places
from titan.codegen.emit.hip_tiles import REGISTERS, LdsTile
from titan.codegen.emit.hip_values import LANES, HipValues
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import integer, label, mangled
from titan.codegen.tile.model import TileOperation
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import Binary, Constant, Expression, Name, linear_form, to_text

TILES = "tiles"
PENDING_MAX = 16
INDENT = "    "


class Walk:
    """Spells the one role of a pipeline; `lines` hold the body, `each` the smallest copy."""

    def __init__(self, kernel: Kernel, program: ir.SyncProgram, values: HipValues,
                 buffers: dict[str, LdsTile], places: Places) -> None:  # fmt: skip
        self.values = values
        self.buffers = buffers
        self.places = places
        self.spell = HipSpeller(places, values, buffers)
        self.kinds = dict(kernel.placement.kinds)
        if len(program.roles) != 1 or program.roles[0].agents != values.tile.groups:
            raise EmissionRefused("the waves of a CDNA pipeline run one role")
        self.role = program.roles[0]
        self.program = program
        self.scope = SpellingScope(
            {TILES: TILES, self.role.agent_constant: "wave"},
            {TILES: 1, self.role.agent_constant: 0},
        )
        self.held: dict[str, str] = {}
        self.sections = {
            item.name: section
            for section, items in (
                ("before", values.tile.before),
                ("body", values.tile.body),
                ("after", values.tile.after),
            )
            for item in items
        }
        self.computed: set[str] = set()
        self.read_for: set[str] = set()  # products whose operands have been read for them
        self.direct: set[str] = set()  # products that take their operands from global memory
        self.each = self._each()
        self.fetched: dict[str, LdsTile] = {}  # loaded to registers, not waited for yet
        self.served: set[str] = set()  # what is computed before the next read
        self.ahead = 0  # how many iterations beyond the last loads without a guard are
        self.guards = 0  # branches around the operation
        self.lines: list[str] = []

    def run(self) -> list[str]:
        """The lines of the role. Raises EmissionRefused."""
        self._block(self.role.body, 1, self.scope)
        wanted = {item.name for item in self.values.tile.operations if item.kind != "load"}
        wanted |= {item.value.name for item in self.values.tile.carried} | self.values.held
        if missing := sorted(wanted - self.computed):
            raise EmissionRefused(f"the pipeline does not compute {missing[0]}")
        return self.lines

    def _each(self) -> int:
        """Instructions of the smallest operation that vmcnt counts."""
        sizes = [
            sum(self.buffers[effect.buffer].copies for effect in operation.effects)
            for operation in ir.walk(self.role.body)
            if isinstance(operation, ir.Asynchronous) and self._copies(operation)
        ]
        return min(sizes, default=1)

    def _copies(self, operation: ir.Asynchronous) -> bool:
        """Whether the operation is a direct-to-LDS copy of whole tiles."""
        return self._kind(operation.queue) == "vmcnt" and all(
            effect.write and effect.buffer in self.buffers for effect in operation.effects
        )

    def _kind(self, queue: str | None) -> str:
        return self.kinds.get(queue, "") if queue is not None else ""

    # -------------------------------------------------------------------------------- statements

    def _say(self, depth: int, *lines: str) -> None:
        self.lines += [INDENT * depth + line for line in lines]

    def _block(
        self, block: ir.Block, depth: int, scope: SpellingScope, section: str = "before"
    ) -> None:
        for number, operation in enumerate(block):
            self.served = self._computed_next(block[number + 1 :])
            match operation:
                case ir.Loop():
                    self._loop(operation, depth, scope)
                case ir.Branch():
                    self._branch(operation, depth, scope, section)
                case ir.Asynchronous():
                    self._asynchronous(operation, depth, scope, section)
                case ir.QueueWait():
                    self._wait(operation, depth, scope)
                case ir.BarrierSync():
                    self._barrier(operation, depth)
                case ir.Compute():
                    self._compute(operation, depth, scope)
                case _:
                    raise EmissionRefused("the pipeline holds an operation without a spelling")

    def _computed_next(self, block: ir.Block) -> set[str]:
        """What is computed before LDS is read again: a read is for these operations."""
        found = set()
        for operation in block:
            match operation:
                case ir.Compute(what=what):
                    found.add(what)
                case ir.Asynchronous(queue=queue, effects=effects):
                    reads = all(not effect.write for effect in effects)
                    if reads and self._kind(queue) == "lgkmcnt":
                        break
        return found

    def _loop(self, loop: ir.Loop, depth: int, scope: SpellingScope) -> None:
        if loop.variable in scope.spelled:
            raise EmissionRefused("a loop variable hides another name")
        variable = mangled("i", loop.variable, "a loop variable")
        inner = scope.plus(loop.variable, variable, scope.bound(loop.start))
        start, stop = scope.text(loop.start), scope.text(loop.stop)
        names = {op.what for op in ir.walk(loop.body) if isinstance(op, ir.Compute)}
        body = any(self.sections.get(name) == "body" for name in names)
        if body:
            self._say(depth, *self.spell.held())
            self._say(depth, f"// Main loop: one pass for each iteration of {self._loop_name()}.")
        else:
            self._say(depth, "// Prologue: the first stages.")
        self._say(depth, "#pragma clang loop unroll(disable)")
        self._say(depth, f"for (int {variable} = {start}; {variable} < {stop}; ++{variable}) {{")
        self._block(loop.body, depth + 1, inner, "body" if body else "before")
        self._say(depth, "}")
        if body:
            self._say(depth, *self.spell.accumulated())

    def _loop_name(self) -> str:
        return label(self.values.tile.loop_variable)

    def _branch(self, branch: ir.Branch, depth: int, scope: SpellingScope, section: str) -> None:
        self._say(depth, f"if ({scope.text(branch.condition)}) {{")
        self.guards += 1
        self._block(branch.then, depth + 1, scope, section)
        if branch.otherwise:
            self._say(depth, "} else {")
            self._block(branch.otherwise, depth + 1, scope, section)
        self.guards -= 1
        self._say(depth, "}")

    def _barrier(self, operation: ir.BarrierSync, depth: int) -> None:
        threads = LANES * self.values.tile.groups
        if len(self.program.named_barriers) != 1 or operation.threads != Constant(threads):
            raise EmissionRefused("a workgroup has one barrier, which all waves meet")
        self._say(depth, "titan::workgroup_barrier();")

    def _wait(self, operation: ir.QueueWait, depth: int, scope: SpellingScope) -> None:
        kind = self._kind(operation.queue)
        if kind == "lgkmcnt":
            if operation.pending != Constant(0):
                raise EmissionRefused("reads of LDS are drained to none")
            self.held.clear()
            self._say(depth, "titan::wait_shared();  // own reads and writes of LDS are done")
            return
        if kind != "vmcnt":
            raise EmissionRefused("a wait for a counter without a spelling")
        most = largest(operation.pending)
        if most is None or not 0 <= most <= PENDING_MAX:
            raise EmissionRefused("how many copies stay in flight has no bound")
        if not most:
            passing = [item.passing for item in self.fetched.values()]
            self._say(depth, *(f"titan::loaded({name});" for name in reversed(passing)))
            self.fetched.clear()
            self._say(depth, "titan::wait_vector<0>();  // all own copies have landed")
            return
        text = label(to_text(operation.pending))
        self._say(
            depth,
            f"// {text} newer operations of {self.each} copies each may stay in flight",
            f"titan::wait_copies<{self.each}, {most}>({scope.text(operation.pending)});",
        )

    # -------------------------------------------------------------------------------- transfers

    def _asynchronous(
        self, operation: ir.Asynchronous, depth: int, scope: SpellingScope, section: str
    ) -> None:
        if operation.completes:
            raise EmissionRefused("there are no mbarriers to complete")
        kind = self._kind(operation.queue)
        writes = [effect for effect in operation.effects if effect.write]
        reads = [effect for effect in operation.effects if not effect.write]
        if kind == "vmcnt" and writes and not reads:
            for effect in writes:
                self._fill(effect, depth, scope)
        elif kind == "lgkmcnt" and reads and not writes:
            self._read(reads, depth, scope, section)
        elif kind == "lgkmcnt" and len(reads) == len(writes):
            for source, target in zip(reads, writes, strict=True):
                self._put(source, target, depth, scope)
        else:
            raise EmissionRefused("an asynchronous operation without a spelling")

    def _own_part(self, effect: ir.Effect) -> None:
        if effect.part != Name(self.role.agent_constant) or effect.tile is None:
            raise EmissionRefused("a wave fills its own part of a tile that is named")

    def _stage(self, effect: ir.Effect, scope: SpellingScope) -> str:
        buffer = self.buffers.get(effect.buffer)
        if buffer is None:
            raise EmissionRefused("an access to what is not a tile in LDS")
        if effect.stage == Constant(0):
            return f"{buffer.offset}u"
        stage = scope.text(effect.stage)
        return f"{buffer.offset}u + {buffer.stage_bytes}u * titan::u32({stage})"

    def _fill(self, effect: ir.Effect, depth: int, scope: SpellingScope) -> None:
        self._own_part(effect)
        assert effect.tile is not None
        name = effect.buffer.removesuffix(REGISTERS)
        staged = effect.buffer not in self.buffers
        buffer = self.buffers.get(name)
        if buffer is None or staged != (buffer.width == 0):
            raise EmissionRefused("a copy into what is not a tile of a load")
        where = "registers" if staged else f"stage {label(to_text(effect.stage))}"
        self._say(depth, f"// {label(name)}, iteration {label(to_text(effect.tile))}: to {where}")
        line = self.spell.fetch(buffer) if staged else None
        if staged:
            self.fetched[name] = buffer
        if not self.guards:
            form = linear_form(effect.tile)
            if form is None:
                raise EmissionRefused("which iteration is loaded is not linear")
            self.ahead = max(self.ahead, form[1])
        self._with_loop(
            depth, scope, effect.tile, self.places.uses_loop(buffer.load.view),
            [line if line is not None else self.spell.fill(buffer, self._stage(effect, scope))],
        )  # fmt: skip

    def _put(self, source: ir.Effect, target: ir.Effect, depth: int, scope: SpellingScope) -> None:
        self._own_part(source)
        self._own_part(target)
        if source.buffer != target.buffer + REGISTERS or source.tile != target.tile:
            raise EmissionRefused("a tile passes from its own registers to LDS")
        buffer = self.buffers[target.buffer]
        if buffer.width:
            raise EmissionRefused("a tile goes to LDS directly or through registers, not both")
        self._say(depth, self.spell.put(buffer, self._stage(target, scope)))

    def _read(
        self, effects: list[ir.Effect], depth: int, scope: SpellingScope, section: str
    ) -> None:
        """What this section takes from LDS, to registers; copies of tiles come where they stand."""
        stages = {effect.buffer: self._stage(effect, scope) for effect in effects}
        names = ", ".join(
            f"{label(effect.buffer)}[{label(to_text(effect.stage))}]" for effect in effects
        )
        self._say(depth, f"// read {names}")
        self.held.update(stages)
        tile = self.values.tile
        items: dict[str, tuple[TileOperation, ...]] = {"before": tile.before, "body": tile.body}
        for operation in items[section]:
            if operation.kind not in ("read", "mma") or operation.name not in self.served:
                continue
            needed = [name for name in operation.operands if name in self.buffers]
            if not needed:
                continue
            if any(name not in stages for name in needed):
                raise EmissionRefused(f"{operation.name} takes a tile that is not read with it")
            self._say(depth, *self.spell.reads(operation, stages))
            self.read_for.add(operation.name)

    # ----------------------------------------------------------------------------- computations

    def _with_loop(
        self, depth: int, scope: SpellingScope, index: Expression, used: bool, lines: list[str]
    ) -> None:
        """The lines with the loop variable of the tile program bound to an iteration."""
        if not used:
            self._say(depth, *lines)
            return
        self._say(depth, "{")
        self._say(depth + 1, f"const int {self.places.loop} = {scope.text(index)};", *lines)
        self._say(depth, "}")

    def _compute(self, operation: ir.Compute, depth: int, scope: SpellingScope) -> None:
        tile = self.values.tile
        carried = {item.value.name: item for item in tile.carried}
        self.computed.add(operation.what)
        if operation.what in carried:
            item = carried[operation.what]
            self._say(depth, *self.spell.initial(operation.what, item.initial))
            return
        found = [item for item in tile.operations if item.name == operation.what]
        if found and operation.what in self.values.held:
            self._say(depth, f"// {label(operation.what)}: held in registers")
            self._say(depth, *self.spell.hold(found[0]))
            return
        if not found or found[0].kind == "load":
            raise EmissionRefused("the pipeline computes what the tile program does not")
        item_of = found[0]
        uses = self.places.uses_loop(item_of.view) or item_of.condition is not None
        lines = self.spell.compute(item_of, self.held)
        if item_of.kind == "mma" and item_of.name not in self.read_for:
            lines = [*self.spell.operands_in_memory(item_of), *lines]
            self.direct.add(item_of.name)
            uses = True
        self.read_for.discard(item_of.name)
        self._with_loop(depth, scope, operation.index, uses, lines)
        last = [item for item in tile.body if item.kind != "load"]
        if last and item_of is last[-1]:
            self._carry(depth)

    def _carry(self, depth: int) -> None:
        """Carried values that have no variable in common with their next: all old ones are read
        before any is written, since a next may be another carried value."""
        pairs = [
            (self.values.variable[old], self.values.variable[new])
            for old, new in self.values.copies
        ]
        read = {new for _, new in pairs}
        if any(old in read for old, _ in pairs):
            raise EmissionRefused("carried values that change places have no spelling here")
        for old, new in pairs:
            self._say(depth, f"titan::elementwise({old}, titan::Same(), {new});")


def largest(pending: Expression) -> int | None:
    """An upper bound of a threshold, where it can be read off."""
    match pending:
        case Constant(value):
            return integer(value, "a threshold")
        case Binary("min", left, right):
            bounds = [bound for bound in (largest(left), largest(right)) if bound is not None]
            return min(bounds, default=None)
    return None
