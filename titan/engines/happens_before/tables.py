"""State of a run: operations in flight, queues, barriers, cells; and data shared by all runs."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

from titan.engines.happens_before.proxy_state import ProxyState
from titan.engines.happens_before.unfolding import (
    AgentProgram,
    Cell,
    Instance,
    Key,
    Touch,
    Unfolder,
    cells_of,
)
from titan.foundation.records import dataclass
from titan.sync import program as ir
from titan.sync.parts import peer_commits
from titan.sync.pipe_order import PipePair

ENGINE = -1
UNDEFINED = "undefined content"
OTHER = "some other value"
ALL_SPACES = tuple(ir.Space)


@dataclass(slots=True, eq=False)
class IssuedOperation:
    """An asynchronous operation; `position` counts those of its queue, `group` their groups."""

    agent: int
    ordinal: int
    instance: Instance
    index: int
    queue: QueueTable | None
    chunks: int
    reading: bool
    position: int = -1
    group: int = 0
    over: bool = False


@dataclass(slots=True, eq=False)
class QueueTable:
    """A queue of one agent; groups count from 1.

    `closed` are the flights that may finish, in order: those of closed groups, and of the open one
    what a marker stands behind that is to arrive (their group is the next one to be closed).
    `pairs` are those that its data path keeps in order.
    """

    agent: int
    declaration: ir.Queue
    split: bool
    pairs: tuple[PipePair, ...] = ()
    groups: int = 0
    issued: int = 0
    group_ends: list[int] = field(default_factory=list)
    closed: list[IssuedOperation] = field(default_factory=list)
    open: list[IssuedOperation] = field(default_factory=list)

    def outstanding(self, reads: bool) -> int:
        """How many committed groups a wait would count."""
        busy = [
            flight.group
            for flight in self.closed
            if flight.group <= self.groups and (flight.reading or not reads)
        ]
        if not busy:
            return 0
        return self.groups - min(busy) + 1 if self.declaration.ordered else len(set(busy))


class MbarrierStatus(IntEnum):
    """The life of an mbarrier in a run; only DEAD is false."""

    DEAD = 0  # not yet initialised, or invalidated
    INITIALISED = 1  # and no fence has published that
    LIVE = 2


@dataclass(slots=True, eq=False)
class Mbarrier:
    """`generation` counts the initialisations."""

    key: Key
    cta: int
    status: MbarrierStatus
    expected: int
    pending: int
    owner: int = ENGINE
    transaction: int = 0
    phase: int = 0
    generation: int = 0
    tokens: set[int] = field(default_factory=set)
    observed: bool = True
    armed: set[int] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The name and the index as reports show them, `name[index]`."""
        return f"{self.key[0]}[{self.key[1]}]"


@dataclass(slots=True, eq=False)
class NamedTrack:
    """`members`: who has arrived in this generation, True where it waits in a sync."""

    key: Key
    declaration: ir.NamedBarrier
    arrived: int = 0
    threads: int = 0
    generation: int = 0
    members: dict[int, bool] = field(default_factory=dict)
    armed: set[int] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The name and the index as reports show them, `name[index]`."""
        return f"{self.key[0]}[{self.key[1]}]"


@dataclass(slots=True, eq=False)
class CellTable:
    """Content, unfenced generic accessors, tensor map state, and the flights that hold the cell.

    `authors` have yet to release what they wrote of a tensor map; `released` waits for an acquire.
    """

    tile: int | str
    writers: set[int] = field(default_factory=set)
    readers: set[int] = field(default_factory=set)
    authors: set[int] = field(default_factory=set)
    released: bool = False
    proxy_state: ProxyState = field(default_factory=ProxyState)
    holders: list[tuple[IssuedOperation, Touch]] = field(default_factory=list)

    def fill(self, touch: Touch) -> None:
        """What the cell holds after the access; a reduction keeps the tile."""
        if touch.write and touch.reduction is None:
            self.tile = OTHER if touch.tile is None else touch.tile


class RunLayout:
    """What is the same in all runs of one unfolded program."""

    def __init__(self, unfolder: Unfolder, counted_arrivals: bool = False) -> None:
        self.counted_arrivals = counted_arrivals
        self.program = unfolder.program
        self.sizes = unfolder.sizes
        self.agents: tuple[AgentProgram, ...] = unfolder.agents()
        self.ctas = [agent.role.cta for agent in self.agents]
        self.split = {
            operation.queue
            for role in self.program.roles
            for operation in ir.walk(role.body)
            if isinstance(operation, ir.QueueWait) and operation.until is ir.Until.READ
        }
        self.homes: dict[str, int] = {}
        self.spaces: dict[Cell, dict[ir.Space, None]] = {}
        self.tiles: dict[Cell, int | str] = {}
        self.covering: dict[Cell, list[ir.Buffer]] = {}
        for buffer in self.program.buffers:
            if buffer.space is not ir.Space.GLOBAL:
                self.homes[buffer.storage or buffer.name] = buffer.cta
            for stage in range(buffer.stages):
                for cell in cells_of(buffer, stage, None):
                    self.covering.setdefault(cell, []).append(buffer)
                    self.spaces.setdefault(cell, {})[buffer.space] = None
                    if cell not in self.tiles or buffer.initial is not None:
                        self.tiles[cell] = UNDEFINED if buffer.initial is None else buffer.initial
        self.cached = {
            touch.cell
            for agent in self.agents
            for instance in agent.instances
            for touch in instance.touches
            if touch.proxy in ir.CACHED
        }
        self.barrier_ctas = {barrier.name: barrier.cta for barrier in self.program.barriers}
        self.peer_commits = peer_commits(self.program)

    def fence_covers(self, fence: ir.Fence, cell: Cell, cta: int) -> tuple[bool, bool]:
        """Whether a fence covers the cell, and whether it is executed near to it."""
        one_way = fence.kind in (ir.FenceKind.ASYNC_RELEASE, ir.FenceKind.ASYNC_ACQUIRE)
        spaces = (ir.Space.SHARED,) if one_way else fence.spaces or ALL_SPACES
        covered = near = False
        for buffer in self.covering[cell]:
            if buffer.space in spaces:
                covered = True
                near = near or buffer.space is ir.Space.GLOBAL or buffer.cta == cta
        if fence.kind is ir.FenceKind.ASYNC_RELEASE:
            return near, near  # of its own CTA only
        return covered, near
