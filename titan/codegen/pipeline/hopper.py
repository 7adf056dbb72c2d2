"""The pipeline of a tile program on Hopper: a loading warp, computing warpgroups, rings between.

The loading role runs over all work items and iterations in the order of the loop and fills every
ring; `groups` warpgroups share the rows of every tile. The turn of their loop is that of the
schedule (`turn.py`). Where operations of two iterations meet in one turn, the first and the last
turn are peeled off; where only drains and releases come one turn late, a condition guards them.
All roles have the same outer bounds and reach `finalize`.

Decides no correctness: the text that it writes is verified like anybody's.
Source: seed formulation, sections 1 and 2; FlashAttention-3 (taking turns at the tensor cores).
"""

from __future__ import annotations

from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing, rings_of
from titan.codegen.pipeline.text import Block, Line, behind, block, inner, section
from titan.codegen.pipeline.turn import TurnItem, TurnKind, by_schedule, in_order, one_behind, turn
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace

THREADS = 128
REGISTERS = {2: (40, 232), 3: (32, 160)}  # setmaxnreg: producer, consumer; the pool is 64 Ki
GROUPS_MAX = 3
ATOM_BYTES = 128
BITS = {"f32": 32, "tf32": 32, "bf16": 16, "f16": 16, "e4m3": 8, "e5m2": 8}


def swizzle_of(value: Value) -> str:
    """The widest swizzle that a row of the tile fills."""
    row_bytes = value.columns * BITS[value.dtype] // 8
    for size in (128, 64, 32):
        if row_bytes % size == 0:
            return f"{size}B"
    return "none"


class Hopper:
    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int], ii: int) -> None:
        if not 1 <= tile.groups <= GROUPS_MAX:
            raise FormRefused(f"{tile.groups} computing warpgroups; there are 1 to {GROUPS_MAX}")
        self.tile = tile
        self.shape = shape
        self.rings = rings_of(tile)
        placed = by_schedule(tile, starts, ii) if shape.overlapped else in_order(tile)
        if shape.behind:
            placed = by_schedule(tile, *one_behind(tile))
        self.items = turn(tile, self.rings, placed, prompt=not shape.specialised)
        heavy = max((item.lag for item in self.items if not item.light), default=0)
        if heavy > 1:
            raise FormRefused(f"operations of {heavy + 1} iterations meet in one turn")
        self.peeled = heavy == 1
        self.stores = [op for op in (*tile.body, *tile.after) if self._staged(op)]
        self.straight = [
            op for op in tile.body
            if op.kind == "store" and any(o in self._loads() for o in op.operands)
        ]  # fmt: skip
        self.position = "n" if shape.persistent else ""
        self.turns = shape.ping_pong
        if self.turns and tile.groups != 2:
            raise FormRefused("two groups take turns, not another number")
        if self.straight and tile.groups != 1:
            raise FormRefused("a straight copy needs one group")

    def _loads(self) -> set[str]:
        return {load.name for ring in self.rings for load in ring.loads}

    def _staged(self, operation: TileOperation) -> bool:
        """Whether a store goes from registers through shared memory."""
        if operation.kind != "store":
            return False
        source = self._value(operation.operands[0])
        return source is not None and source.place is ValuePlace.FRAGMENT

    def _value(self, name: str) -> Value | None:
        for carried in self.tile.carried:
            if carried.value.name == name:
                return carried.value
        for operation in self.tile.operations:
            if operation.name == name:
                return operation.result
        return None

    # ------------------------------------------------------------------------------- the file

    def text(self) -> str:
        tile = self.tile
        minimum = "{any: true, minimum: 1, per: w}" if self.position else "{any: true, minimum: 1}"
        sizes = "work: any, " if self.position else ""
        lines = [
            "titan: 1",
            f"kernel: {tile.name}",
            f"target: {tile.target}",
            f"note: The pipeline of tile program {tile.name}, written by titan build.",
            f"sizes: {{{sizes}tiles: {minimum}, depth: {self.shape.depth}}}",
            *section("buffers", self._buffers()),
            *section("rings", self._rings()),
            *section("barriers", self._barriers()),
            *section("named_barriers", self._named()),
            *section("queues", self._queues()),
            *section("roles", self._roles()),
            "program:",
        ]
        for role, body in self._program():
            lines += [f"  {role}:", *block(body, 4)]
        return "\n".join(lines) + "\n"

    def _program(self) -> list[tuple[str, Block]]:
        if not self.shape.specialised:
            return [("worker", self._worker())]
        return [("producer", self._producer()), ("consumer", self._consumer())]

    def _buffers(self) -> list[tuple[str, str]]:
        found = []
        for ring in self.rings:
            for load in ring.loads:
                assert load.result is not None
                value, stages = load.result, "1" if ring.once else "depth"
                found.append((value.name, self._buffer(value, f"stages: {stages}, ")))
        for store in self.stores:
            source = self._value(store.operands[0])
            assert source is not None
            found.append((store.name, self._buffer(source, f"parts: {self.tile.groups}, ")))
        return found

    def _buffer(self, value: Value, first: str) -> str:
        swizzle = swizzle_of(value)
        return (
            f"{{{first}tile: [{value.rows}, {value.columns}], dtype: {value.dtype}, "
            f"swizzle: {swizzle}}}"
        )

    def _rings(self) -> list[tuple[str, str]]:
        return [
            (
                ring.name,
                f"{{buffers: [{', '.join(load.name for load in ring.loads)}], "
                f"depth: {'1' if ring.once else 'depth'}}}",
            )
            for ring in self.rings
        ]

    def _barriers(self) -> list[tuple[str, str]]:
        return []

    def _queues(self) -> list[tuple[str, str]]:
        return [("output", "bulk")] if self.stores or self.straight else []

    def _named(self) -> list[tuple[str, str]]:
        found = []
        if self.stores:
            found.append(("together", f"{{stages: {self.tile.groups}, threads: {THREADS}}}"))
        if self.turns:
            found.append(("turn", f"{{stages: 2, threads: {2 * THREADS}}}"))
        return found

    def _roles(self) -> list[tuple[str, str]]:
        groups = self.tile.groups
        counter = ", counters: {n: 0}" if self.position else ""
        producer, consumer = REGISTERS.get(groups, (0, 0))
        few = f", registers: {producer}" if producer else ""
        many = f", registers: {consumer}" if consumer else ""
        kind = "warps" if self._alone() else "warpgroups"
        if not self.shape.specialised:
            return [("worker", f"{{{kind}: {groups}}}")]
        return [
            ("producer", f"{{warps: 1{few}{counter}}}"),
            ("consumer", f"{{{kind}: {groups}{many}{counter}}}"),
        ]

    def _alone(self) -> bool:
        """Whether nothing is computed, so that a warp can do it."""
        return not self.stores and all(op.kind in ("load", "store") for op in self.tile.operations)

    # ------------------------------------------------------------------------------ producer

    def _producer(self) -> Block:
        fill: Block = []
        for ring in self.rings:
            if not ring.once:
                fill += self._fill(ring, self.position or "t")
        if self.position:
            fill.append("count: {n: n + 1}")
        work: Block = []
        for ring in self.rings:
            if ring.once:
                work += self._fill(ring, "w" if self.position else "0")
        work.append(("for: t in 0..tiles", fill))
        return [*self._over_work(work), *self._last()]

    def _fill(self, ring: PipelineRing, place: str) -> Block:
        return [f"acquire: {ring.name}[{place}]", f"produce: {ring.name}[{place}]"]

    def _last(self) -> Block:
        """What every role ends with."""
        return ["finalize"]

    def _over_work(self, work: Block) -> Block:
        return [("for: w in 0..work", work)] if self.position else work

    # -------------------------------------------------------------------- no role of its own

    def _worker(self) -> Block:
        """One time loop: turn t fills the stage of iteration t and computes iteration t - P.

        The first group fills; P is one less than the stages. Source: seed formulation, section 2.
        """
        if self.peeled or any(item.lag for item in self.items):
            raise FormRefused("without a loading role one iteration is done at a time")
        ahead = self.shape.depth - 1
        fill: Block = []
        once: Block = []
        for ring in self.rings:
            (once if ring.once else fill).extend(self._fill(ring, "0" if ring.once else "t"))
        made: Block = [("if: self == 0", once)] if once else []
        made += self._before("0")
        consumed: Block = []
        for item in self.items:
            consumed += self._item(item, "t", leaving=0, ahead=-ahead)
        body: Block = [
            ("if: t < tiles and self == 0", fill),
            (f"if: t >= {ahead}", consumed) if ahead else ("if: true", consumed),
        ]
        made.append((f"for: t in 0..tiles + {ahead}", body))
        made += self._ends("0")
        if self.stores or self.straight:
            made.append("drain: output")
        return [*made, "finalize"]

    # ------------------------------------------------------------------------------ consumer

    def _consumer(self) -> Block:
        index = "w" if self.position else "0"
        made: Block = []
        if self.turns:
            made.append("arrive: turn[0]\nwhen: self == 1")
        work = [*self._before(index), *self._loop(), *self._ends(index)]
        made += self._over_work(work)
        if self.stores or self.straight:
            made.append("drain: output")
        return [*made, *self._last()]

    def _before(self, index: str) -> Block:
        """What a work item begins with: loads that it keeps, and the first values."""
        made: Block = [f"wait: {ring.name}[{index}]" for ring in self.rings if ring.once]
        for operation in self.tile.before:
            if operation.kind == "read":
                made.append(f"read: {self._slot(operation.operands[0], index)}")
            if operation.kind != "load":
                made.append(f"compute: {operation.name}")
        return [*made, *(f"compute: {carried.value.name}" for carried in self.tile.carried)]

    def _ends(self, index: str) -> Block:
        """What a work item ends with."""
        made: Block = []
        for ring in self.rings:
            if ring.once:
                made += self._release(ring.name, index)
        for operation in self.tile.after:
            made += self._after(operation, index)
        return made

    def _after(self, operation: TileOperation, index: str) -> Block:
        if self._staged(operation):
            return self._store(operation, index, again=bool(self.position))
        return [f"compute: {operation.name}"]

    def _loop(self) -> Block:
        """All turns of one work item."""
        if not self.peeled:
            body = self._turn("t", guarded=True)
            return [("for: t in 0..tiles", body), *self._last_turns()]
        first = self._turn("0", guarded=False)
        return [*first, ("for: t in 1..tiles", self._turn("t", guarded=True)), *self._last_turns()]

    def _turn(self, t: str, guarded: bool) -> Block:
        """Turn `t`; without `guarded` it is turn 0, which has no iteration behind it."""
        items = [item for item in self.items if guarded or item.lag == 0]
        made: Block = []
        heavy = 1 if self.peeled else 0
        for part in self._taking_turns(items):
            if isinstance(part, str):
                made.append(part)
                continue
            lines = self._item(part, t, leaving=1 if part.behind else 0)
            least = part.lag
            if guarded and least > heavy and not part.behind:
                lines = [_when(line, f"{t} >= {least}") for line in lines]
            made += lines
        if self.position:
            made.append("count: {n: n + 1}")
        return made

    def _last_turns(self) -> Block:
        """The turns after the last iteration has begun, which only end older ones."""
        made: Block = []
        for late in range(max((item.lag for item in self.items), default=0)):
            items = [item for item in self.items if item.lag > late]
            for part in self._taking_turns(items):
                if isinstance(part, str):
                    made.append(part)
                    continue
                lines = self._item(part, "tiles", leaving=0, ahead=late)
                if part.lag > late + 1:
                    lines = [_when(line, f"tiles >= {part.lag - late}") for line in lines]
                made += lines
        return made

    def _taking_turns(self, items: list[TurnItem]) -> list[TurnItem | str]:
        """The items with the barriers between which a group has the tensor cores."""
        issues = [i for i, item in enumerate(items) if item.kind is TurnKind.ISSUE]
        if not self.turns or not issues:
            return list(items)
        made: list[TurnItem | str] = list(items)
        made.insert(issues[-1] + 1, "arrive: turn[1 - self]")
        made.insert(issues[0], "sync: turn[self]")
        return made

    def _item(self, item: TurnItem, t: str, leaving: int, ahead: int = 0) -> Block:
        """The statements of an item in turn `t + ahead`."""
        iteration = behind(t, item.lag - ahead)
        place = behind("n", item.lag - ahead) if self.position else iteration
        match item.kind:
            case TurnKind.WAIT:
                return [f"wait: {item.name}[{place}]"]
            case TurnKind.RELEASE:
                return self._release(item.name, place)
            case TurnKind.DRAIN:
                drain = f"{{{item.name}, leaving: {leaving}}}" if leaving else item.name
                return [f"drain: {drain}"]
            case TurnKind.SENT:
                left = f", leaving: {leaving}" if leaving else ""
                return [f"drain: {{output{left}, until: read}}"]
            case TurnKind.ISSUE:
                return [self._issue(item.name, place)]
            case TurnKind.STORE:
                return self._body_store(item.name, iteration, place)
            case TurnKind.COMPUTE:
                return [f"compute: {item.name}\ntile: {iteration}"]
            case TurnKind.CARRY:
                return [f"compute: {item.name}\ntile: {behind(t, item.lag - ahead - 1)}"]
            case TurnKind.READ:
                read = f"read: {self._slot(self.tile.operation(item.name).operands[0], place)}"
                return [read, f"compute: {item.name}\ntile: {iteration}"]
        raise AssertionError(item.kind)

    def _release(self, name: str, place: str) -> Block:
        """With a fence where threads have read what the next bulk copy overwrites."""
        ring = next(ring for ring in self.rings if ring.name == name)
        by_threads = any(self.tile.operation(reader).kind == "read" for reader in ring.readers)
        return [*(["fence: async"] if by_threads else []), f"release: {name}[{place}]"]

    def _slot(self, value: str, place: str) -> str:
        """The ring slot that holds a loaded tile, and the buffer in it."""
        for ring in self.rings:
            if value in {load.name for load in ring.loads}:
                index = place if not ring.once else "w" if self.position else "0"
                return f"{{{ring.name}[{index}], buffers: [{value}]}}"
        raise FormRefused(f"{value} is read from shared memory, but no load fills it")

    def _issue(self, name: str, place: str) -> str:
        operation = self.tile.operation(name)
        slots = []
        for value in operation.operands[:2]:
            ring = next((r for r in self.rings if value in {x.name for x in r.loads}), None)
            if ring is not None:
                index = place if not ring.once else "w" if self.position else "0"
                slots.append(f"{value}[{index}]")
        return f"issue: {{mma: [{', '.join(slots)}], as: {name}}}"

    def _body_store(self, name: str, iteration: str, place: str) -> Block:
        operation = self.tile.operation(name)
        if self._staged(operation):
            return self._store(operation, place, again=True)
        for value in operation.operands:
            if value in self._loads():
                return [
                    f"bulk_store: {value}[{inner(place)} % depth] = {place}\nqueue: output",
                    "commit: output",
                ]
        return [f"compute: {name}\ntile: {iteration}"]

    def _store(self, operation: TileOperation, index: str, again: bool) -> Block:
        """From registers to shared memory, and from there by a bulk store of one thread."""
        name = operation.name
        before: Block = ["drain: {output, until: read}", "sync: together[self]"] if again else []
        return [
            *before,
            f"store: {name}[0, self] = {index}",
            "fence: async",
            "sync: together[self]",
            f"bulk_store: {name}[0, self] = {index}\nqueue: output",
            "commit: output",
        ]


def _when(line: Line, condition: str) -> Line:
    if not isinstance(line, str):
        raise FormRefused("a block cannot be guarded")
    return f"{line}\nwhen: {condition}"
