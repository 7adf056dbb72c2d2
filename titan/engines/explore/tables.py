"""The flat tables of a sync program: what titan/engines/explore/flatten.py fills and the core
executes."""

from __future__ import annotations

from dataclasses import field

from titan.engines.explore.layout import (
    LIMITS,
    RECORDS,
    BarrierWord,
    CellWord,
    FenceNumber,
    MarkWord,
    NativeNodeKind,
    ProxyNumber,
)
from titan.foundation.errors import Refusal
from titan.foundation.records import dataclass
from titan.foundation.verdict import Reason
from titan.sync import program as ir
from titan.sync.expression import Expression
from titan.sync.interpreter import Agent

AGENTS_MAX = LIMITS["AGENTS_MAX"]
CTAS_MAX = 60
REGIONS_MAX = 20_000
EFFECTS_MAX = LIMITS["EFFECTS_MAX"]
VARIABLES_MAX = 60
FLIGHT_WORDS_MAX = LIMITS["FLIGHT_WORDS_MAX"]
LEVEL_LIMIT = 4096
WINDOW = 12

PROXIES = {
    ir.Proxy.GENERIC: ProxyNumber.GENERIC,
    ir.Proxy.ASYNC: ProxyNumber.ASYNC,
    ir.Proxy.TENSORMAP: ProxyNumber.TENSORMAP,
    ir.Proxy.CONSTANT: ProxyNumber.CONSTANT,
    ir.Proxy.TEXTURE: ProxyNumber.TEXTURE,
    ir.Proxy.SURFACE: ProxyNumber.SURFACE,
}
FENCES = {
    ir.FenceKind.ASYNC: FenceNumber.ASYNC,
    ir.FenceKind.TENSORMAP_RELEASE: FenceNumber.RELEASE,
    ir.FenceKind.TENSORMAP_ACQUIRE: FenceNumber.ACQUIRE,
    ir.FenceKind.BARRIER_INIT: FenceNumber.INIT,
    ir.FenceKind.CONSTANT: FenceNumber.CONSTANT,
    ir.FenceKind.TEXTURE: FenceNumber.TEXTURE,
    ir.FenceKind.SURFACE: FenceNumber.SURFACE,
    ir.FenceKind.ASYNC_RELEASE: FenceNumber.ASYNC_RELEASE,
    ir.FenceKind.ASYNC_ACQUIRE: FenceNumber.ASYNC_ACQUIRE,
}
BARRIER_WORDS = BarrierWord.WORDS
CELL_WORDS, MARK_WORDS = CellWord.WORDS, MarkWord.RELEASED
EVENTS_MAX = DOMAINS_MAX = 60


class TooLargeError(Refusal):
    """The program has more of something than the native explorer has room for."""

    reason = Reason.TOO_LARGE


@dataclass(slots=True)
class FlatNode:
    """One node; the first fields are those of `node_t` (layout.py)."""

    kind: int
    next: int = -1
    alt: int = -1
    a: int = -1
    b: int = -1
    c: int = -1
    x: int = 0
    y: int = 0
    effect: int = 0
    effects: int = 0
    completion: int = 0
    completions: int = 0
    chunks: int = 1
    flags: int = 0
    live: int = 0
    restart: int = 0
    reads: int = 0
    rewinds: int = 0
    role: int = 0
    uses: frozenset[str] = frozenset()
    value: Expression | None = None  # of an assignment
    operation: ir.Operation | None = None  # what it executes; none for tests and the end

    def words(self) -> list[int]:
        """The row of the node: one word for each field of `node_t`."""
        return [getattr(self, name) for name in RECORDS["node_t"]]


@dataclass(slots=True)
class Flat:
    """The tables, and the names that numbers in them represent.

    `program` is what is compiled, `source` what traces are for: the loops of the two may differ in
    the names of their variables (loops.py).
    """

    program: ir.SyncProgram
    agents: tuple[Agent, ...]
    parameters: tuple[ir.Parameter, ...]
    source: ir.SyncProgram
    nodes: list[FlatNode] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    effects: list[list[int]] = field(default_factory=list)
    completions: list[list[int]] = field(default_factory=list)
    covers: list[list[int]] = field(default_factory=list)
    buffers: list[list[int]] = field(default_factory=list)
    regions: list[list[int]] = field(default_factory=list)
    cells: list[list[int]] = field(default_factory=list)
    cell_buffers: list[set[str]] = field(default_factory=list)
    barriers: list[list[int]] = field(default_factory=list)
    barrier_first: dict[str, int] = field(default_factory=dict)
    named_first: dict[str, int] = field(default_factory=dict)
    named_count: int = 0
    entries: list[int] = field(default_factory=list)
    variables: list[dict[str, int]] = field(default_factory=list)
    parameter_rows: list[list[int]] = field(default_factory=list)
    per_sizes: list[int] = field(default_factory=list)
    initial: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    role_queue: list[int] = field(default_factory=list)
    symmetric: list[bool] = field(default_factory=list)
    sizes: dict[str, int | tuple[int, ...]] = field(default_factory=dict)
    outer: list[list[int]] = field(default_factory=list)
    classes: list[list[int]] = field(default_factory=list)
    variable_class: list[list[int]] = field(default_factory=list)
    parameter_class: list[int] = field(default_factory=list)
    cell_shift: list[list[int]] = field(default_factory=list)
    cell_ancient: list[list[int]] = field(default_factory=list)
    barrier_shift: list[list[int]] = field(default_factory=list)
    follows: bool = False
    write_events: list[int] = field(default_factory=list)
    overwrite_events: list[int] = field(default_factory=list)
    read_events: list[int] = field(default_factory=list)
    concerned: list[int] = field(default_factory=list)
    event_batches: int = 1
    mark_fields: int = 0
    domain_ctas: int = 0
    cell_domains: list[list[int]] = field(default_factory=list)
    domains: list[int] = field(default_factory=list)
    issuers: int = 0

    window: int = WINDOW
    scope: str = ""

    @property
    def one_way(self) -> bool:
        """Whether the marks name authors: agents cannot change places then."""
        return self.mark_fields > MARK_WORDS

    @property
    def split_queues(self) -> set[str]:
        """Queues some wait of which looks only at reads."""
        return {
            op.queue
            for role in self.program.roles
            for op in ir.walk(role.body)
            if isinstance(op, ir.QueueWait) and op.until is ir.Until.READ
        }

    @property
    def variables_max(self) -> int:
        """The size of the largest table of variables; 0 where there is none."""
        return max((len(names) for names in self.variables), default=0)

    @property
    def flight_words(self) -> int:
        """Words that the largest flight takes: six, and two for each effect and completion."""
        flying = (NativeNodeKind.ISSUE, NativeNodeKind.QUEUE_ARRIVE)
        values = [2 * (n.effects + n.completions) for n in self.nodes if n.kind in flying]
        return 6 + max(values, default=0)
