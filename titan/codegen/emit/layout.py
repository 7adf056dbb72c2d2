"""Where things lie on sm_90a: tiles in shared memory, barriers after them, roles in the CTA.

A tile [rows, columns] lies in panels: the bytes of its rows are cut into slices as wide as the
swizzle, and all rows of one slice lie together, so that a panel is one box of a bulk tensor copy.
Panels begin at multiples of the swizzle's repeat: where their rows do not fill it, they are padded.
Source: PTX ISA, tensor copies and swizzling modes; the facts T22 to T32 of the hardware notes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import DTYPE_BYTES, dtype, identifier, integer, mangled
from titan.language.kernel.model import Kernel
from titan.language.kernel.model import Layout as TileLayout
from titan.sync import program as ir
from titan.target.description import target_of

WARP = 32
GROUP = 128
REGISTERS_OF_SM = 65_536
NAMED_BARRIERS = 16
BOX_MAX = 256  # elements in each direction
ALIGNMENT = 1024  # repeat length of the 128-byte swizzle
PLAIN_ALIGNMENT = 128  # of a box without a swizzle; PTX ISA, cp.async.bulk.tensor
PLAIN_BYTES = 16  # of a row without a swizzle
THREADS_MAX = 1024
TRANSACTION_BYTES_MAX = 2**20 - 1  # of one mbarrier; PTX ISA, "mbarrier: Contents"
ARRIVALS_MAX = 2**20 - 1  # of one phase; PTX ISA, mbarrier.init


@dataclass(frozen=True, slots=True)
class Tile:
    """One buffer. `part_rows`: rows of one part.

    Where it is `staged` (written by the groups for a store) each part has panels of its own and
    parts follow each other; else a panel holds the rows of all parts.
    """

    name: str
    rows: int
    columns: int
    dtype: str
    stages: int
    parts: int
    panel_bytes: int  # also the swizzle; of `PLAIN_BYTES` there is none
    offset: int
    staged: bool = False

    @property
    def element_bytes(self) -> int:
        """The bytes of one element."""
        return DTYPE_BYTES[self.dtype]

    @property
    def panel_columns(self) -> int:
        """The columns of one panel."""
        return self.panel_bytes // self.element_bytes

    @property
    def panels(self) -> int:
        """How many panels the columns fill."""
        return self.columns // self.panel_columns

    @property
    def part_rows(self) -> int:
        """The rows of one part."""
        return self.rows // self.parts

    @property
    def panel_stride(self) -> int:
        """Bytes from one panel to the next, padding included."""
        rows = self.part_rows if self.staged else self.rows
        repeat = ALIGNMENT if self.swizzled else PLAIN_ALIGNMENT
        return -(-rows * self.panel_bytes // repeat) * repeat

    @property
    def swizzled(self) -> bool:
        """Whether 16-byte units of a row change places, as all but block scales do."""
        return self.panel_bytes > PLAIN_BYTES

    @property
    def part_stride(self) -> int:
        """The bytes from one part to the next."""
        return self.panels * self.panel_stride if self.staged else self.part_rows * self.panel_bytes

    @property
    def stage_bytes(self) -> int:
        """The bytes of the data of one stage."""
        return self.rows * self.columns * self.element_bytes

    @property
    def stage_stride(self) -> int:
        """Bytes from one stage to the next, padding included."""
        return (self.parts if self.staged else 1) * self.panels * self.panel_stride


@dataclass(frozen=True, slots=True)
class RowBuffer:
    """An f32 number for each row of a sub-tile, in consecutive `stages`."""

    name: str
    rows: int
    stages: int
    offset: int

    @property
    def stage_bytes(self) -> int:
        """The bytes of one stage."""
        return self.rows * DTYPE_BYTES["f32"]


@dataclass(frozen=True, slots=True)
class AnswerBuffer:
    """Slots of 16 bytes for answers of the hardware."""

    name: str
    stages: int
    offset: int


@dataclass(frozen=True, slots=True)
class RolePlace:
    """The threads of a role: `agents` times `warps` warps from `first_warp` on.

    `elected`: one thread of the warp acts for it, the others leave.
    """

    role: ir.Role
    first_warp: int
    warps: int
    registers: int
    elected: bool


@dataclass(frozen=True, slots=True)
class Warpgroup:
    """Four warps (or fewer, where no role needs warpgroups) and the roles in them."""

    first_warp: int
    warps: int
    registers: int
    places: tuple[RolePlace, ...]


@dataclass(frozen=True, slots=True)
class EmissionLayout:
    """Where everything lies in shared memory, and who the warps of the CTA are."""

    tiles: dict[str, Tile]
    barriers: dict[str, int]  # name -> offset of its first stage
    named: dict[str, int]  # name -> id of its first stage
    groups: tuple[Warpgroup, ...]
    threads: int
    shared_bytes: int
    entry_registers: int
    tensor_slot: int = 0  # where the address of tensor memory is kept
    rows: dict[str, RowBuffer] = field(default_factory=dict)
    answers: dict[str, AnswerBuffer] = field(default_factory=dict)

    @property
    def places(self) -> tuple[RolePlace, ...]:
        """The roles in the order of their warps."""
        return tuple(place for group in self.groups for place in group.places)


def lay_out(
    kernel: Kernel,
    program: ir.SyncProgram,
    staged: frozenset[str],
    rows: frozenset[str] = frozenset(),
    answers: frozenset[str] = frozenset(),
) -> EmissionLayout:
    """`staged`: names of the stores; `rows`: buffers of a number a row; `answers`: of the hardware.

    Raises EmissionRefused.
    """
    tiles, end = _tiles(kernel, program, staged, rows | answers)
    between, end = _rows(kernel, program, rows, end)
    asked, end = _answers(program, answers, end)
    barriers: dict[str, int] = {}
    for barrier in program.barriers:
        name = mangled("b", barrier.name, "a barrier")
        if barrier.name in barriers or name in barriers.values():
            raise EmissionRefused(f"two barriers are called {name}")
        if not barrier.initialised:
            raise EmissionRefused(f"{name} is initialised by the program itself")
        barriers[barrier.name] = end
        end += 8 * integer(barrier.stages, f"the stages of {name}", 1, 4096)
    slot = end
    if any(buffer.space is ir.Space.TENSOR for buffer in program.buffers):
        end += 8
    most = target_of(kernel.target).shared_bytes
    if end > most:
        raise EmissionRefused(f"{end} bytes of shared memory; a CTA can have {most}")
    groups = _groups(kernel, program, answers)
    threads = WARP * sum(group.warps for group in groups)
    if not WARP <= threads <= THREADS_MAX:
        raise EmissionRefused(f"{threads} threads; a CTA has up to {THREADS_MAX}")
    entry = min(255, REGISTERS_OF_SM // threads // 8 * 8)
    _check_registers(groups, entry)
    named = _named(program)
    return EmissionLayout(tiles, barriers, named, groups, threads, end, entry, slot, between, asked)


def swizzle_bytes(row_bytes: int) -> int:
    """The widest swizzle that fills the rows of a tile; 0 where there is none."""
    return next((size for size in (128, 64, 32) if row_bytes % size == 0), 0)


def _tiles(
    kernel: Kernel, program: ir.SyncProgram, staged: frozenset[str], rows: frozenset[str]
) -> tuple[dict[str, Tile], int]:
    tiles: dict[str, Tile] = {}
    storages = _Storages()
    end, most = 0, target_of(kernel.target).shared_bytes
    for buffer in program.buffers:
        if buffer.space is ir.Space.TENSOR or buffer.name in rows:
            continue
        layout = _fresh(kernel, buffer, storage=True)
        end = -(-end // ALIGNMENT) * ALIGNMENT
        tile = _tile(buffer, layout.tile, layout.dtype, layout.swizzle, end)
        tile = replace(tile, staged=buffer.name in staged)
        if buffer.storage:
            tile = replace(tile, offset=storages.place(buffer, tile))
        tiles[buffer.name] = tile
        end = max(end, tile.offset + tile.stages * tile.stage_stride)
        if layout.stride not in (None, tile.stage_stride):
            raise EmissionRefused(
                f"stages of {buffer.name} are {layout.stride} bytes apart, the panels of one take "
                f"{tile.stage_stride}"
            )
        if end > most:
            raise EmissionRefused(
                f"over {end - ALIGNMENT} bytes of shared memory; a CTA can have {most}"
            )
    return tiles, end


class _Storages:
    """Where buffers of one storage lie: the first declared is the largest, the others within it.

    A unit of a storage is a fixed number of bytes, as the verdict is on units.
    """

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, int, int]] = {}  # first byte, bytes of a unit, units

    def place(self, buffer: ir.Buffer, tile: Tile) -> int:
        """The first byte of a buffer. Raises EmissionRefused."""
        name = buffer.name
        regions = tile.stages * tile.parts
        each = integer(buffer.units, f"the units of {name}", 1, 4096)
        first = integer(buffer.offset, f"the offset of {name}", 0, 4096)
        apart = tile.part_stride if tile.staged else tile.stage_stride
        if (tile.parts > 1 and not tile.staged) or apart % each:
            raise EmissionRefused(f"regions of {name} are no whole units of their storage")
        unit_bytes = apart // each
        offset, known, units = self.found.setdefault(
            buffer.storage, (tile.offset, unit_bytes, first + regions * each)
        )
        if known != unit_bytes or first + regions * each > units:
            raise EmissionRefused(f"{name} does not lie within the storage that it shares")
        return offset + first * unit_bytes


def _fresh(kernel: Kernel, buffer: ir.Buffer, storage: bool = False) -> TileLayout:
    """The layout of a buffer that has its shared memory for itself, or may be in a `storage`."""
    name = mangled("s", buffer.name, "a buffer")
    if buffer.space is not ir.Space.SHARED or buffer.initial is not None:
        raise EmissionRefused(f"{name} is not a fresh buffer in shared memory")
    if not storage and (buffer.storage not in ("", buffer.name) or buffer.offset):
        raise EmissionRefused(f"{name} shares its memory with another buffer")
    layout = next((one for one in kernel.placement.layouts if one.name == buffer.name), None)
    if layout is None or len(layout.tile) != 2 or layout.base is not None:
        raise EmissionRefused(f"{name} needs a tile of rows and columns, and no base")
    return layout


def _rows(
    kernel: Kernel, program: ir.SyncProgram, rows: frozenset[str], end: int
) -> tuple[dict[str, RowBuffer], int]:
    """After the tiles; also the first byte after these."""
    found: dict[str, RowBuffer] = {}
    for buffer in program.buffers:
        if buffer.name not in rows:
            continue
        layout = _fresh(kernel, buffer)
        stages = integer(buffer.stages, f"the stages of {buffer.name}", 1, 16)
        made = RowBuffer(buffer.name, GROUP, stages, end)
        if sorted(layout.tile) != [1, GROUP] or layout.dtype != "f32" or buffer.parts != 1:
            raise EmissionRefused(f"{buffer.name} has no f32 for each of {GROUP} rows")
        if buffer.bytes_per_stage != made.stage_bytes:
            raise EmissionRefused(
                f"{buffer.name} has stages of {made.stage_bytes} bytes, but was verified with "
                f"{buffer.bytes_per_stage}"
            )
        found[buffer.name] = made
        end += stages * made.stage_bytes
    return found, end


def _answers(
    program: ir.SyncProgram, answers: frozenset[str], end: int
) -> tuple[dict[str, AnswerBuffer], int]:
    """After tiles and rows, at multiples of 16 bytes; also the first byte after these."""
    found: dict[str, AnswerBuffer] = {}
    for buffer in program.buffers:
        if buffer.name in answers:
            stages = integer(buffer.stages, f"the stages of {buffer.name}", 1, 16)
            if buffer.parts != 1 or buffer.storage not in ("", buffer.name) or buffer.offset:
                raise EmissionRefused(f"{buffer.name} is no row of slots")
            mangled("s", buffer.name, "a buffer")
            end = -(-end // buffer.bytes_per_stage) * buffer.bytes_per_stage
            found[buffer.name] = AnswerBuffer(buffer.name, stages, end)
            end += stages * buffer.bytes_per_stage
    return found, end


def _tile(
    buffer: ir.Buffer, shape: tuple[int, ...], element: str, swizzle: object, offset: int
) -> Tile:
    name = buffer.name
    rows = integer(shape[0], f"the rows of {name}", 1, 4096)
    columns = integer(shape[1], f"the columns of {name}", 1, 4096)
    stages = integer(buffer.stages, f"the stages of {name}", 1, 4096)
    parts = integer(buffer.parts, f"the parts of {name}", 1, 64)
    row_bytes = columns * DTYPE_BYTES[dtype(element, name)]
    widest = swizzle_bytes(row_bytes) or (PLAIN_BYTES if row_bytes == PLAIN_BYTES else 0)
    span_bytes = {"none": widest, "128B": 128, "64B": 64, "32B": 32}.get(str(swizzle), 0)
    if not widest or not span_bytes or row_bytes % span_bytes:
        raise EmissionRefused(f"a row of {name} has {row_bytes} bytes, which no swizzle fills")
    tile = Tile(name, rows, columns, element, stages, parts, span_bytes, offset)
    if rows % parts or (parts > 1 and tile.part_rows * span_bytes % ALIGNMENT):
        raise EmissionRefused(
            f"a panel of {name} has {rows // parts} rows of {span_bytes} bytes for each of "
            f"{parts} parts; parts must start at multiples of {ALIGNMENT}"
        )
    if tile.part_rows > BOX_MAX:
        raise EmissionRefused(f"{name} has {tile.part_rows} rows in a box; {BOX_MAX} are the most")
    if tile.stage_bytes != buffer.bytes_per_stage:
        raise EmissionRefused(
            f"{name} has tiles of {tile.stage_bytes} bytes, but was verified with "
            f"{buffer.bytes_per_stage}"
        )
    return tile


def _named(program: ir.SyncProgram) -> dict[str, int]:
    """Hardware barrier 0 is left to the whole CTA."""
    named: dict[str, int] = {}
    following = 1
    for barrier in program.named_barriers:
        name = mangled("named", barrier.name, "a named barrier")
        if barrier.scope is not ir.Scope.CTA:
            raise EmissionRefused(f"{name} is a barrier of the cluster")
        named[barrier.name] = following
        following += integer(barrier.stages, f"the stages of {name}", 1, NAMED_BARRIERS)
    if following > NAMED_BARRIERS:
        raise EmissionRefused(f"{following - 1} named barriers; there are {NAMED_BARRIERS - 1}")
    return named


def _groups(
    kernel: Kernel, program: ir.SyncProgram, answers: frozenset[str]
) -> tuple[Warpgroup, ...]:
    """Roles in their order; roles of single warps side by side share a warpgroup."""
    shapes = {shape.name: shape for shape in kernel.roles}
    wide = any(role.threads == GROUP for role in program.roles)
    groups: list[Warpgroup] = []
    first = 0
    waiting: list[RolePlace] = []

    def close() -> None:
        nonlocal first
        if waiting:
            used = waiting[-1].first_warp + waiting[-1].warps * waiting[-1].role.agents - first
            warps = -(-used // 4) * 4 if wide else used
            counts = {place.registers for place in waiting}
            if len(counts) != 1:
                raise EmissionRefused("warps of one warpgroup ask for different register counts")
            groups.append(Warpgroup(first, warps, counts.pop(), tuple(waiting)))
            first += warps
            waiting.clear()

    for role in program.roles:
        mangled("role", role.name, "a role")
        identifier(role.agent_constant, "an agent's constant")
        agents = integer(role.agents, f"the agents of {role.name}", 1, 32)
        if role.threads not in (1, WARP, GROUP):
            raise EmissionRefused(f"an agent of {role.name} has {role.threads} threads")
        shape = shapes.get(role.name)
        registers = integer(shape.registers if shape else 0, "a register count", 0, 256)
        if role.threads == GROUP:
            close()
            place = RolePlace(role, first, 4, registers, False)
            groups.append(Warpgroup(first, 4 * agents, registers, (place,)))
            first += 4 * agents
            continue
        begin = waiting[-1].first_warp + waiting[-1].role.agents if waiting else first
        waiting.append(RolePlace(role, begin, 1, registers, _acts_alone(role, answers)))
    close()
    return tuple(groups)


def _acts_alone(role: ir.Role, answers: frozenset[str]) -> bool:
    """Whether one thread can do all that the role does; it may read answers of the hardware."""
    together = (ir.BarrierSync, ir.BarrierArrive, ir.BarrierWait, ir.Access, ir.Compute)
    return not any(
        isinstance(operation, together)
        and not (
            isinstance(operation, ir.Access)
            and all(effect.buffer in answers and not effect.write for effect in operation.effects)
        )
        for operation in ir.walk(role.body)
    )


def _check_registers(groups: tuple[Warpgroup, ...], entry: int) -> None:
    """The pool law of setmaxnreg: what all take together is what the CTA has."""
    if not any(group.registers for group in groups):
        return
    for group in groups:
        if group.registers and (group.registers % 8 or not 24 <= group.registers <= 256):
            raise EmissionRefused(f"setmaxnreg takes no {group.registers} registers")
        if group.warps % 4:
            raise EmissionRefused("setmaxnreg needs whole warpgroups")
    taken = sum((group.registers or entry) * group.warps for group in groups)
    if taken > entry * sum(group.warps for group in groups):
        raise EmissionRefused("the roles ask for more registers than the CTA has")
