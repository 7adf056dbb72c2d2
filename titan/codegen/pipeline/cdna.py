"""The pipeline of a tile program on CDNA: every wave loads its part of each tile and computes.

There is one role, `tile.groups` waves. Each wave fills part `self` of every stage by direct-to-LDS
copies that its vmcnt counts, or through registers (global loads, then `ds_write`): beside the
products of tile t, tile t + 1 is written to LDS and tile t + 2 loaded. A stage is
ready when each wave has waited for its own copies and then all have met at the one barrier of the
workgroup; it is free when the reads of all have returned (lgkmcnt) and all have met again. In the
plain form one barrier does both: the barrier of iteration t publishes tile t and frees the stage of
tile t - 1, which is then filled with tile t + depth - 1. Waves that take turns (`ping_pong`) run
half of them one phase behind, so that one half computes while the other moves data. Through
registers one stage is enough: a second barrier says that all have read it. There, and with two
stages, loads are not guarded: those beyond the last tile bring what the tensor has there, or zeros,
nobody reads it, and they have landed before the kernel ends.

Left operands that are loaded before the loop do not pass through LDS where waves can hold their own
rows in registers (`titan/codegen/tile/held.py`).

With `tail: poison` the last tile is not copied: its iteration, behind the loop, takes the operands
of its products from global memory, within the extents of the tensors.

All copies of one iteration are one operation of the sync program, so that thresholds count tiles.
Decides no correctness: what it prints is verified like any kernel file. Sources: HARDWARE A9 to
A13, A15, A16, A24, A27; mi300_gemm and mi300_pingpong of the library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.document import slot
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.poison import refuse_poison
from titan.codegen.tile.held import held_operands, loads_of, tiles_behind
from titan.codegen.tile.model import TileOperation, TileProgram, Value
from titan.target.description import target_of

LANES = 64
WAVES_MAX = 16
BITS = {"f32": 32, "bf16": 16, "f16": 16, "e4m3": 8, "e5m2": 8}
OWN_NAMES = frozenset(
    ("workgroup", "loads", "reads", "wave", "s", "t", "tiles", "depth", "self", "cta", "ctas")
)
DEPTH_MIN = 2
DEPTH_DEFAULT = 4
AHEAD = 2  # tiles that loads to registers are ahead of the products
LOADS, READS = "loads", "reads"  # the queues
WORKGROUP = slot("workgroup")


def shapes(tile: TileProgram, depth: int = DEPTH_DEFAULT) -> Iterator[Shape]:
    """The candidates in order: counted waits at every depth, products with tiles that pass through
    registers, then vmcnt(0) at depth 2."""
    depth = max(tile.depth or depth, DEPTH_MIN)
    if tile.tail == "poison":
        for stages in range(depth, DEPTH_MIN - 1, -1):
            name = f"depth {stages}, poison, counted waits"
            yield Shape(name, stages, specialised=False, poison=True)
        return
    products = any(operation.kind == "mma" for operation in tile.body)
    turns = tile.groups == 8 and products
    for stages in range(depth, DEPTH_MIN - 1, -1):
        if turns and stages > DEPTH_MIN:
            name = f"depth {stages}, halves of the waves take turns"
            yield Shape(name, stages, specialised=False, ping_pong=True)
        yield Shape(f"depth {stages}, counted waits", stages, specialised=False)
    for stages in (DEPTH_MIN, 1) if products else ():
        name = f"depth {stages}, through registers"
        yield Shape(name, stages, specialised=False, staged=True)
    yield Shape(f"depth {DEPTH_MIN}, vmcnt(0)", DEPTH_MIN, specialised=False, overlapped=False)


def construct(
    tile: TileProgram,
    shape: Shape,
    schedule: Mapping[str, int] | None = None,
    ii: int = 0,
    *,
    staged: bool | None = None,
) -> doc.PipelineDocument:
    """The pipeline. Raises FormRefused.

    `shape.overlapped` False gives vmcnt(0) at every wait. `staged`: whether tiles go through
    registers; None takes that where the shape says so or tiles do not divide into direct-to-LDS
    copies. The order of
    the operations within an iteration is that of the tile program: one wave issues in order, and
    what overlaps is the copies with everything else (`schedule` and `ii` play no part).
    """
    if staged is None:
        staged = shape.staged or not copied_directly(tile)
    return _Cdna(tile, shape, staged).document()


def tile_bytes(value: Value) -> int:
    """Bytes of one tile in shared memory. Raises FormRefused for an unknown type."""
    if value.dtype not in BITS:
        raise FormRefused(f"{value.name} has elements of {value.dtype}")
    return value.rows * value.columns * BITS[value.dtype] // 8


def copied_directly(tile: TileProgram) -> bool:
    """Whether all tiles divide into direct-to-LDS copies."""
    return all(lane_bytes(tile, item.result) for item in loads_of(tile) if item.result)


def shared_bytes_of(tile: TileProgram, depth: int) -> int:
    """LDS of all stages; what is loaded before the loop has one."""
    inside = {item.name for item in tile.body}
    return sum(
        tile_bytes(item.result) * (depth if item.name in inside else 1)
        for item in loads_of(tile)
        if item.result is not None
    )


def lane_bytes(tile: TileProgram, value: Value) -> int:
    """The widest direct-to-LDS copy whose multiples are the waves' shares of a tile; 0: none.

    A copy with idle lanes is not used: a wave of which all lanes idle skips it, and the counts of
    the waves differ.
    """
    row_bytes = value.columns * BITS.get(value.dtype, 0) // 8
    for width in target_of(tile.target).lds_copy_bytes:
        if row_bytes % width == 0 and tile_bytes(value) % (LANES * width * tile.groups) == 0:
            return width
    return 0


def copies_are_guarded(shape: Shape) -> bool:
    """Whether copies straight to LDS are issued only where a tile is left. Two stages leave nothing
    in flight at a wait, so that copies need no guard to be counted.
    """
    return shape.depth != DEPTH_MIN or shape.poison or shape.unified


class _Cdna:
    def __init__(self, tile: TileProgram, shape: Shape, staged: bool) -> None:
        self.tile = tile
        self.shape = shape
        self.staged = staged
        self.guarded = copies_are_guarded(shape)
        self._check()
        self.ahead = [item for item in tile.body if item.kind == "load"]
        shared = {item.name for item in loads_of(tile)}
        self.first = [item for item in tile.before if item.name in shared]

    def _check(self) -> None:
        tile, shape = self.tile, self.shape
        target = target_of(tile.target)
        if not (target.generated and target.amd):
            raise FormRefused(f"{tile.target} is not a target of this form")
        if not 1 <= tile.groups <= WAVES_MAX:
            raise FormRefused(f"{tile.groups} waves; a workgroup has 1 to {WAVES_MAX}")
        if tile.cluster != 1:
            raise FormRefused(f"{tile.target} has no clusters")
        loaded = {operation.name for operation in tile.after if operation.kind == "load"}
        if not loaded <= tiles_behind(tile):
            raise FormRefused("what is loaded after the loop is `read` there, or has no form")
        if not any(operation.kind == "load" for operation in tile.body):
            raise FormRefused("no tile is loaded in the loop")
        if shape.depth < (1 if self.staged else DEPTH_MIN):
            raise FormRefused("one stage cannot be filled and read at once; depth 2 is the least")
        if shape.ping_pong and (tile.groups != 8 or self.staged):
            raise FormRefused("eight waves with direct-to-LDS copies take turns, no others")
        if shape.unified and (shape.ping_pong or self.staged or tile.before):
            raise FormRefused(
                "one loop over time has direct copies, no halves that take turns, and nothing "
                "before the loop"
            )
        if shape.poison:
            if shape.unified or shape.ping_pong or self.staged:
                raise FormRefused("on poison there are direct copies, and no halves or guards")
            refuse_poison(tile)
        if shape.depth == 1 and self._stored_from_shared():
            raise FormRefused("tiles that are stored from LDS need two stages")
        if shape.ping_pong and shape.depth == DEPTH_MIN:
            raise FormRefused("waves that take turns need three stages")
        taken = sorted({item.name for item in loads_of(tile)} & OWN_NAMES)
        if taken:
            raise FormRefused(f"the name {taken[0]} is one of the pipeline's own")
        used, most = shared_bytes_of(tile, shape.depth), target.shared_bytes
        if used > most:
            raise FormRefused(f"{used} bytes of LDS; {tile.target} has {most}")

    # ------------------------------------------------------------------------------- the file

    def document(self) -> doc.PipelineDocument:
        """The kernel file."""
        tile = self.tile
        return doc.PipelineDocument(
            tile.name,
            tile.target,
            doc.DocumentSizes(self.shape.depth),
            buffers=tuple(self._buffers()),
            named_barriers=(doc.NamedBarrierDeclaration(WORKGROUP.name, LANES * tile.groups),),
            queues=(doc.QueueDeclaration(LOADS, "vmcnt"), doc.QueueDeclaration(READS, "lgkmcnt")),
            roles=(doc.RoleDeclaration("wave", warps=tile.groups),),
            program=(("wave", self._program()),),
        )

    def _buffers(self) -> list[doc.BufferDeclaration]:
        found = []
        inside = {item.name for item in self.tile.body}
        for load in loads_of(self.tile):
            value = load.result
            if value is None:
                continue
            whole = doc.BufferDeclaration(
                load.name, value.rows, value.columns, value.dtype,
                stages="depth" if load.name in inside else "1",
                parts=self.tile.groups,
            )  # fmt: skip
            if not self.staged:
                found.append(replace(whole, lane_bytes=lane_bytes(self.tile, value)))
                continue
            name = registers_of(load.name)
            found += [whole, replace(whole, name=name, space="register", stages=str(AHEAD))]
        return found

    def _program(self) -> doc.Block:
        if self.shape.ping_pong:
            main, last = self._taking_turns(), "0"
        else:
            main = self._through_registers() if self.staged else self._direct()
            last = "tiles - 1"
        return (*self._initial(), *main, *self._computations(self.tile.after, last))

    def _initial(self) -> doc.Block:
        """Carried values take their first numbers; vectors of `before` need no tile. What waves
        hold for the whole loop is loaded first."""
        held = held_operands(self.tile)
        made = (
            *(
                doc.ComputeStatement(item.name, "0")
                for item in self.tile.before
                if item.name in held
            ),
            *(doc.ComputeStatement(item.value.name) for item in self.tile.carried),
        )
        if self._reads_before():
            return made
        return (*made, *self._computations(self.tile.before, "0"))

    def _computations(self, operations: tuple[TileOperation, ...], tile: str) -> doc.Block:
        return tuple(
            doc.ComputeStatement(item.name, tile) for item in operations if item.kind != "load"
        )

    # ---------------------------------------------------------------------- what is read where

    def _shared_operands(self, operations: tuple[TileOperation, ...]) -> list[str]:
        shared = {item.name for item in loads_of(self.tile)}
        used = [name for item in operations for name in item.operands if name in shared]
        return list(dict.fromkeys(used))

    def _reads_before(self) -> list[str]:
        return self._shared_operands(self.tile.before)

    def _first_reads(self) -> list[str]:
        """What the body takes from LDS before anything is computed from products."""
        return self._shared_operands(self.tile.body[: self._turn()])

    def _turn(self) -> int:
        """Where the body begins to compute with what it has multiplied; its masks come first, as
        branches, across which reads do not move."""
        kinds = [item.kind for item in self.tile.body]
        if "mma" not in kinds:
            return len(kinds)
        masks = [number for number, kind in enumerate(kinds) if kind == "mask"]
        first = next((n for n, kind in enumerate(kinds) if kind not in ("load", "mma")), len(kinds))
        return max([first, *(number + 1 for number in masks)])

    def _consumed(self, tile: str) -> doc.Block:
        """The computations of the body, with what later products take from LDS read when there is
        something to compute besides."""
        turn = self._turn()
        early, late = self.tile.body[:turn], self.tile.body[turn:]
        names = self._shared_operands(late)
        read = (self._read(names),) if names else ()
        return (*self._computations(early, tile), *read, *self._computations(late, tile))

    def _read(self, names: list[str]) -> doc.DocumentStatement:
        inside = {item.name for item in self.tile.body}
        slots = tuple(
            slot(name, "t % depth", content="t") if name in inside else slot(name, "0", content="0")
            for name in names
        )
        return doc.AsynchronousStatement(READS, reads=slots)

    def _leaving(self, steady: int, last: str) -> doc.DocumentStatement:
        """A drain of the copies; `last`: how many are younger in the tail, if that is guarded."""
        if not self.shape.overlapped or steady <= 0:
            return doc.DrainStatement(LOADS)
        return doc.DrainStatement(LOADS, f"min({steady}, {last})" if self.guarded else str(steady))

    # ------------------------------------------------------------------------------ the forms

    def _copies(
        self, loads: list[TileOperation], index: str, stage: str, when: str = ""
    ) -> doc.DocumentStatement:
        slots = tuple(slot(load.name, stage, "self", content=index) for load in loads)
        return doc.CopyToLdsStatement(slots, LOADS, when=when)

    def _prologue(self) -> doc.Block:
        made: list[doc.DocumentStatement] = []
        if self.first:
            made.append(self._copies(self.first, "0", "0"))
        when = f"s < {self._copied()}" if self.guarded else ""
        fill = self._copies(self.ahead, "s", "s", when=when)
        made.append(doc.ForStatement("s", "0", "depth - 1", (fill,)))
        names = self._reads_before()
        if names:
            made += [
                self._leaving(self.shape.depth - 1, self._copied()),
                doc.SyncStatement(WORKGROUP),
                self._read(names),
                *self._computations(self.tile.before, "0"),
                doc.DrainStatement(READS),
            ]
        return tuple(made)

    def _refill(self) -> doc.DocumentStatement:
        """The copies of the tile that is depth - 1 ahead, into the stage that was freed last."""
        ahead = "t + depth - 1"
        when = f"{ahead} < {self._copied()}" if self.guarded else ""
        return self._copies(self.ahead, ahead, f"({ahead}) % depth", when=when)

    def _copied(self) -> str:
        """How many tiles are copied: all, or all but the poisoned one."""
        return "tiles - 1" if self.shape.poison else "tiles"

    def _direct(self) -> doc.Block:
        if self.shape.unified:
            return (self._over_time(),)
        copied = self._copied()
        body = (
            self._leaving(self.shape.depth - 2, f"{copied} - t - 1"),
            doc.SyncStatement(WORKGROUP),
            self._refill(),
            self._read(self._first_reads()),
            *self._consumed("t"),
            doc.DrainStatement(READS),
        )
        safe = self._computations(self.tile.body, "tiles - 1") if self.shape.poison else ()
        landed = () if self.guarded else (doc.DrainStatement(LOADS),)
        loop = doc.ForStatement("t", "0", copied, body)
        return (*self._prologue(), loop, *landed, *safe)

    def _over_time(self) -> doc.DocumentStatement:
        """One loop: step s copies tile s and computes tile s - P, each behind its guard."""
        ahead = self.shape.depth - 1
        late = f"s >= {ahead}"
        tile = f"s - {ahead}"
        read = self._shared_operands(self.tile.body)
        slots = tuple(slot(name, f"({tile}) % depth", content=tile) for name in read)
        wait = replace(self._leaving(ahead - 1, f"tiles + {ahead} - s - 1"), when=late)
        consumed = (
            doc.AsynchronousStatement(READS, reads=slots),
            *self._computations(self.tile.body, tile),
            doc.DrainStatement(READS),
        )
        body = (
            wait,
            doc.SyncStatement(WORKGROUP),
            self._copies(self.ahead, "s", "s % depth", when="s < tiles"),
            doc.IfStatement(late, consumed),
        )
        return doc.ForStatement("s", "0", f"tiles + {ahead}", body)

    def _taking_turns(self) -> doc.Block:
        """Eight waves: a phase that moves data and one that computes, four waves in each."""
        steady = self.shape.depth - 2
        body = (
            self._read(self._shared_operands(self.tile.body)),
            self._refill(),
            self._leaving(steady, "max(0, tiles - t - 2)"),
            doc.DrainStatement(READS),
            doc.SyncStatement(WORKGROUP),
            *self._computations(self.tile.body, "t"),
            doc.SyncStatement(WORKGROUP),
        )
        return (
            *self._prologue(),
            self._leaving(steady, "tiles - 1"),
            doc.SyncStatement(WORKGROUP),
            doc.SyncStatement(WORKGROUP, when="self >= 4"),
            doc.ForStatement("t", "0", "tiles", body),
            doc.SyncStatement(WORKGROUP, when="self < 4"),
        )

    def _through_registers(self) -> doc.Block:
        """Loads are ahead by two tiles in two sets of registers, of which the one is written to LDS
        while the other is loaded."""
        names = self._reads_before()
        made: list[doc.DocumentStatement] = [
            self._fetch([*self.first, *self.ahead], "0"),
            doc.DrainStatement(LOADS),
            self._put([*self.first, *self.ahead], "0", "0"),
            self._fetch(self.ahead, "1"),
            doc.DrainStatement(READS),
        ]
        if names:
            made += [
                doc.SyncStatement(WORKGROUP),
                self._read(names),
                *self._computations(self.tile.before, "0"),
                doc.DrainStatement(READS),
            ]
        late = self._stored_from_shared()
        whole = late or self.shape.depth == 1
        names = self._shared_operands(self.tile.body) if whole else self._first_reads()
        read = self._read(names)
        free: doc.Block = ()
        if self.shape.depth == 1:
            free = (doc.DrainStatement(READS), doc.SyncStatement(WORKGROUP))
        computed = self._computations(self.tile.body, "t") if whole else self._consumed("t")
        body = (
            doc.SyncStatement(WORKGROUP),
            *(() if late else (read,)),
            *free,
            doc.DrainStatement(LOADS),
            self._put(self.ahead, "t + 1", "(t + 1) % depth"),
            self._fetch(self.ahead, f"t + {AHEAD}"),
            *((read,) if late else ()),
            *computed,
            doc.DrainStatement(READS),
        )
        return (*made, doc.ForStatement("t", "0", "tiles", body), doc.DrainStatement(LOADS))

    def _stored_from_shared(self) -> bool:
        """Whether the loop stores tiles as they are in LDS, which is where they are read."""
        shared = {item.name for item in loads_of(self.tile)}
        return any(item.kind == "store" and shared & {*item.operands} for item in self.tile.body)

    def _fetch(self, loads: list[TileOperation], index: str) -> doc.DocumentStatement:
        """Global loads of a tile into registers."""
        return doc.AsynchronousStatement(LOADS, writes=_registers(loads, index))

    def _put(self, loads: list[TileOperation], index: str, stage: str) -> doc.DocumentStatement:
        """The tile in registers written to shared memory."""
        writes = tuple(slot(load.name, stage, "self", content=index) for load in loads)
        return doc.AsynchronousStatement(READS, _registers(loads, index), writes)


def _registers(loads: list[TileOperation], index: str) -> tuple[doc.Slot, ...]:
    stage = index if index.isdigit() else f"({index}) % {AHEAD}"
    return tuple(slot(registers_of(load.name), stage, "self", content=index) for load in loads)


def registers_of(name: str) -> str:
    """The buffer of the registers that a tile passes through."""
    return f"{name}_registers"
