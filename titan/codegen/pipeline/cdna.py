"""The pipeline of a tile program on CDNA: every wave loads its part of each tile and computes.

There is one role, `tile.groups` waves. Each wave fills part `self` of every stage by direct-to-LDS
copies that its vmcnt counts, or through registers (a global load, then `ds_write`). A stage is
ready when each wave has waited for its own copies and then all have met at the one barrier of the
workgroup; it is free when the reads of all have returned (lgkmcnt) and all have met again. In the
plain form one barrier does both: the barrier of iteration t publishes tile t and frees the stage of
tile t - 1, which is then filled with tile t + depth - 1. Waves that take turns (`ping_pong`) run
half of them one phase behind, so that one half computes while the other moves data.

All copies of one iteration are one operation of the sync program, so that thresholds count tiles.
Decides no correctness: the text is verified like anybody's.
Sources: HARDWARE A9 to A13, A15, A16, A24, A27; mi300_gemm and mi300_pingpong of the library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.text import Block, block, section
from titan.codegen.tile.model import TileOperation, TileProgram, Value

LANES = 64
WAVES_MAX = 16
SHARED_BYTES = {"gfx942": 65536, "gfx950": 163840}
LANE_BYTES = {"gfx942": (4,), "gfx950": (16, 4)}  # what a lane copies to LDS at once, widest first
BITS = {"f32": 32, "bf16": 16, "f16": 16, "e4m3": 8, "e5m2": 8}
OWN_NAMES = frozenset(
    ("workgroup", "loads", "reads", "wave", "s", "t", "tiles", "depth", "self", "cta", "ctas")
)
DEPTH_MIN = 2
DEPTH_DEFAULT = 4


def shapes(tile: TileProgram, depth: int = DEPTH_DEFAULT) -> Iterator[Shape]:
    """The candidates in order: counted waits at every depth, then vmcnt(0) at depth 2."""
    depth = max(tile.depth or depth, DEPTH_MIN)
    turns = tile.groups == 8 and any(operation.kind == "mma" for operation in tile.body)
    for stages in range(depth, DEPTH_MIN - 1, -1):
        if turns and stages > DEPTH_MIN:
            name = f"depth {stages}, halves of the waves take turns"
            yield Shape(name, stages, specialised=False, ping_pong=True)
        yield Shape(f"depth {stages}, counted waits", stages, specialised=False)
    yield Shape(f"depth {DEPTH_MIN}, vmcnt(0)", DEPTH_MIN, specialised=False, overlapped=False)


def construct(
    tile: TileProgram,
    shape: Shape,
    schedule: Mapping[str, int] | None = None,
    ii: int = 0,
    *,
    staged: bool | None = None,
) -> str:
    """The kernel file of the pipeline. Raises FormRefused.

    `shape.overlapped` False gives vmcnt(0) at every wait. `staged`: whether tiles go through
    registers; None takes direct-to-LDS copies wherever the tiles divide into them. The order of
    the operations within an iteration is that of the tile program: one wave issues in order, and
    what overlaps is the copies with everything else (`schedule` and `ii` play no part).
    """
    if staged is None and tile.target in LANE_BYTES:
        staged = any(not lane_bytes(tile, item.result) for item in loads_of(tile) if item.result)
    return _Cdna(tile, shape, bool(staged)).text()


def loads_of(tile: TileProgram) -> list[TileOperation]:
    """The operations that fill shared memory, in order."""
    return [operation for operation in tile.operations if operation.kind == "load"]


def tile_bytes(value: Value) -> int:
    """Bytes of one tile in shared memory. Raises FormRefused for an unknown type."""
    if value.dtype not in BITS:
        raise FormRefused(f"{value.name} has elements of {value.dtype}")
    return value.rows * value.columns * BITS[value.dtype] // 8


def lane_bytes(tile: TileProgram, value: Value) -> int:
    """The widest direct-to-LDS copy whose multiples are the waves' shares of a tile; 0: none.

    A copy with idle lanes is not used: a wave of which all lanes idle skips it, and the counts of
    the waves differ.
    """
    row_bytes = value.columns * BITS.get(value.dtype, 0) // 8
    for width in LANE_BYTES[tile.target]:
        if row_bytes % width == 0 and tile_bytes(value) % (LANES * width * tile.groups) == 0:
            return width
    return 0


class _Cdna:
    def __init__(self, tile: TileProgram, shape: Shape, staged: bool) -> None:
        self.tile = tile
        self.shape = shape
        self.staged = staged
        self._check()
        self.ahead = [item for item in tile.body if item.kind == "load"]
        self.first = [item for item in tile.before if item.kind == "load"]

    def _check(self) -> None:
        tile, shape = self.tile, self.shape
        if tile.target not in SHARED_BYTES:
            raise FormRefused(f"{tile.target} is no target of this form")
        if not 1 <= tile.groups <= WAVES_MAX:
            raise FormRefused(f"{tile.groups} waves; a workgroup has 1 to {WAVES_MAX}")
        if tile.cluster != 1:
            raise FormRefused(f"{tile.target} has no clusters")
        if any(operation.kind == "load" for operation in tile.after):
            raise FormRefused("a tile that is loaded after the loop has no form here")
        if not any(operation.kind == "load" for operation in tile.body):
            raise FormRefused("no tile is loaded in the loop")
        if shape.depth < DEPTH_MIN:
            raise FormRefused("one stage cannot be filled and read at once; depth 2 is the least")
        if shape.ping_pong and (tile.groups != 8 or self.staged):
            raise FormRefused("eight waves with direct-to-LDS copies take turns, no others")
        if shape.ping_pong and shape.depth == DEPTH_MIN:
            raise FormRefused("waves that take turns need three stages")
        taken = sorted({item.name for item in loads_of(tile)} & OWN_NAMES)
        if taken:
            raise FormRefused(f"the name {taken[0]} is one of the pipeline's own")
        used, most = self.shared_bytes(), SHARED_BYTES[tile.target]
        if used > most:
            raise FormRefused(f"{used} bytes of LDS; {tile.target} has {most}")

    def shared_bytes(self) -> int:
        """LDS of all stages."""
        inside = {item.name for item in self.tile.body}
        return sum(
            tile_bytes(item.result) * (self.shape.depth if item.name in inside else 1)
            for item in loads_of(self.tile)
            if item.result is not None
        )

    # ------------------------------------------------------------------------------- the file

    def text(self) -> str:
        tile = self.tile
        lines = [
            "titan: 1",
            f"kernel: {tile.name}",
            f"target: {tile.target}",
            f"note: The pipeline of tile program {tile.name}, written by titan build.",
            f"sizes: {{tiles: {{any: true, minimum: 1}}, depth: {self.shape.depth}}}",
            *section("buffers", self._buffers()),
            *section("named_barriers", [("workgroup", f"{{threads: {LANES * tile.groups}}}")]),
            *section("queues", [("loads", "vmcnt"), ("reads", "lgkmcnt")]),
            *section("roles", [("wave", f"{{warps: {tile.groups}}}")]),
            "program:",
            "  wave:",
            *block(self._program(), 4),
        ]
        return "\n".join(lines) + "\n"

    def _buffers(self) -> list[tuple[str, str]]:
        found = []
        inside = {item.name for item in self.tile.body}
        for load in loads_of(self.tile):
            value = load.result
            assert value is not None
            stages = "depth" if load.name in inside else "1"
            shape = f"tile: [{value.rows}, {value.columns}], dtype: {value.dtype}"
            lane = "" if self.staged else f", lane_bytes: {lane_bytes(self.tile, value)}"
            parts = self.tile.groups
            found.append((load.name, f"{{stages: {stages}, parts: {parts}, {shape}{lane}}}"))
            if self.staged:
                kind = "space: register, stages: 1"
                found.append((registers_of(load.name), f"{{{kind}, parts: {parts}, {shape}}}"))
        return found

    def _program(self) -> Block:
        if self.shape.ping_pong:
            return [*self._initial(), *self._turns(), *self._computations(self.tile.after, "0")]
        main = self._through_registers() if self.staged else self._direct()
        return [*self._initial(), *main, *self._computations(self.tile.after, "tiles - 1")]

    def _initial(self) -> Block:
        """Carried values take their first numbers; vectors of `before` need no tile."""
        made: Block = [f"compute: {item.value.name}" for item in self.tile.carried]
        if not self._reads_before():
            made += self._computations(self.tile.before, "0")
        return made

    def _computations(self, operations: tuple[TileOperation, ...], tile: str) -> Block:
        names = [item.name for item in operations if item.kind != "load"]
        return [f"compute: {name}\ntile: {tile}" for name in names]

    # ---------------------------------------------------------------------- what is read where

    def _shared_operands(self, operations: tuple[TileOperation, ...]) -> list[str]:
        shared = {item.name for item in loads_of(self.tile)}
        used = [name for item in operations for name in item.operands if name in shared]
        return list(dict.fromkeys(used))

    def _reads_before(self) -> list[str]:
        return self._shared_operands(self.tile.before)

    def _read(self, names: list[str]) -> str:
        inside = {item.name for item in self.tile.body}
        places = [
            f"{name}[t % depth] = t" if name in inside else f"{name}[0] = 0" for name in names
        ]
        return f"async: {{reads: [{', '.join(places)}], queue: reads, proxy: generic}}"

    def _leaving(self, steady: int, last: str) -> str:
        """A drain of the copies; `last`: how many are younger in the tail."""
        if not self.shape.overlapped or steady <= 0:
            return "drain: loads"
        return f'drain: {{loads, leaving: "min({steady}, {last})"}}'

    # ------------------------------------------------------------------------------ the forms

    def _copies(self, loads: list[TileOperation], index: str, stage: str) -> str:
        places = [f"{load.name}[{stage}, self] = {index}" for load in loads]
        return f"lds_dma: [{', '.join(places)}]\nqueue: loads"

    def _prologue(self) -> Block:
        made: Block = []
        if self.first:
            made.append(self._copies(self.first, "0", "0"))
        fill = self._copies(self.ahead, "s", "s") + "\nwhen: s < tiles"
        made.append(("for: s in 0..depth - 1", [fill]))
        names = self._reads_before()
        if names:
            depth = self.shape.depth
            made += [
                self._leaving(depth - 1, "tiles"),
                "sync: workgroup",
                self._read(names),
                *self._computations(self.tile.before, "0"),
                "drain: reads",
            ]
        return made

    def _refill(self) -> str:
        """The copies of the tile that is depth - 1 ahead, into the stage that was freed last."""
        fill = self._copies(self.ahead, "t + depth - 1", "(t + depth - 1) % depth")
        return fill + "\nwhen: t + depth - 1 < tiles"

    def _direct(self) -> Block:
        depth = self.shape.depth
        turn: Block = [
            self._leaving(depth - 2, "tiles - t - 1"),
            "sync: workgroup",
            self._refill(),
            self._read(self._shared_operands(self.tile.body)),
            *self._computations(self.tile.body, "t"),
            "drain: reads",
        ]
        return [*self._prologue(), ("for: t in 0..tiles", turn)]

    def _turns(self) -> Block:
        """Eight waves: a phase that moves data and one that computes, four waves in each."""
        steady = self.shape.depth - 2
        turn: Block = [
            self._read(self._shared_operands(self.tile.body)),
            self._refill(),
            self._leaving(steady, "max(0, tiles - t - 2)"),
            "drain: reads",
            "sync: workgroup",
            *self._computations(self.tile.body, "t"),
            "sync: workgroup",
        ]
        return [
            *self._prologue(),
            self._leaving(steady, "tiles - 1"),
            "sync: workgroup",
            "sync: workgroup\nwhen: self >= 4",
            ("for: t in 0..tiles", turn),
            "sync: workgroup\nwhen: self < 4",
        ]

    def _through_registers(self) -> Block:
        """Global loads of tile t + 1 into registers fly while tile t is computed."""
        made: Block = []
        names = self._reads_before()
        if self.first:
            made += [self._fetch(self.first, "0"), "drain: loads"]
            made += [self._put(self.first, "0", "0"), "drain: reads"]
        if names:
            made += ["sync: workgroup", self._read(names)]
            made += [*self._computations(self.tile.before, "0"), "drain: reads"]
        made.append(self._fetch(self.ahead, "0"))
        turn: Block = [
            "drain: loads",
            self._put(self.ahead, "t", "t % depth"),
            "drain: reads",
            self._fetch(self.ahead, "t + 1") + "\nwhen: t + 1 < tiles",
            "sync: workgroup",
            self._read(self._shared_operands(self.tile.body)),
            *self._computations(self.tile.body, "t"),
            "drain: reads",
        ]
        return [*made, ("for: t in 0..tiles", turn)]

    def _fetch(self, loads: list[TileOperation], index: str) -> str:
        places = [f"{registers_of(load.name)}[0, self] = {index}" for load in loads]
        return f"async: {{writes: [{', '.join(places)}], queue: loads, proxy: generic}}"

    def _put(self, loads: list[TileOperation], index: str, stage: str) -> str:
        reads = [f"{registers_of(load.name)}[0, self] = {index}" for load in loads]
        writes = [f"{load.name}[{stage}, self] = {index}" for load in loads]
        lists = f"reads: [{', '.join(reads)}], writes: [{', '.join(writes)}]"
        return f"async: {{{lists}, queue: reads, proxy: generic}}"


def registers_of(name: str) -> str:
    """The buffer of the registers that a tile passes through."""
    return f"{name}_registers"
