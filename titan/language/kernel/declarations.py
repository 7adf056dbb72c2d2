"""Buffers, rings, barriers, queues, pools, roles and policies of a kernel file.

Everything that exists once in each CTA is declared once and expanded later (`Declared.per_cta`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from math import prod
from typing import TypeVar

from titan.foundation.diagnostics.model import Annotation
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.records import dataclass
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Mapping, Node, Scalar
from titan.language.kernel.layout import Layouts
from titan.language.kernel.model import Layout, MatrixInstruction, Placement, TensorMap
from titan.language.kernel.scope import KernelTerms, NameScope
from titan.language.kernel.table import (
    AGENTS_MAX,
    BITS_OF_DTYPE,
    CTAS_MAX,
    POLICIES,
    QUEUE_KINDS,
    RESERVED,
    SECTION_OF,
    STAGES_MAX,
    UNITS_MAX,
    Section,
)
from titan.language.protocol.counters import NOWHERE
from titan.language.protocol.model import PartialTile, ReleaseMode, Ring, Transport
from titan.sync.program import (
    Barrier,
    Buffer,
    NamedBarrier,
    Policies,
    Pool,
    Queue,
    Space,
)  # fmt: skip
from titan.sync.program import (
    Scope as BarrierScope,
)
from titan.target.description import target_of

WARPS_OF = {"warps": 1, "warpgroups": 4, "threads": 0}  # warps of one; 0: a single thread
BYTES_MAX = 2**24

OUTSIDE = NOWHERE + 1  # the first place of a role that is in no CTA of the cluster

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeclarationPlace:
    """Where a declared thing exists: in every CTA, in one, or once for all (`shared`)."""

    cta: int | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class RoleHead:
    """A role without its program."""

    name: str
    agents: int
    threads: int
    registers: int
    index: str
    counters: tuple[tuple[str, int], ...]
    cta: int | None
    span: Span
    outside: bool = False  # not of the cluster; then `cta` is a place of its own


@dataclass(slots=True)
class Declared:
    """All declarations under their names; `kinds` says what a name is."""

    kinds: dict[str, str] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    places: dict[str, DeclarationPlace] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    rings: dict[str, Ring] = field(default_factory=dict)
    ring_of: dict[str, str] = field(default_factory=dict)
    barriers: dict[str, Barrier] = field(default_factory=dict)
    named: dict[str, NamedBarrier] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    roles: dict[str, RoleHead] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    tensor_maps: dict[str, TensorMap] = field(default_factory=dict)
    instructions: dict[str, MatrixInstruction] = field(default_factory=dict)
    kind_of: dict[str, str] = field(default_factory=dict)
    barrier_bases: dict[str, int] = field(default_factory=dict)
    cluster_threads: int = 0  # that a cluster barrier waits for
    cluster_of_groups: bool = False  # one wave of each work-group arrives there

    def placement(self) -> Placement:
        """What was declared of places and kinds."""
        return Placement(
            tuple(self.layouts.values()),
            tuple(self.tensor_maps.values()),
            tuple(self.instructions.values()),
            tuple(self.kind_of.items()),
            tuple(self.barrier_bases.items()),
        )

    def of_kind(self, *kinds: str) -> set[str]:
        """The names declared as any of these kinds."""
        return {name for name, kind in self.kinds.items() if kind in kinds}


class Declarations:
    """Reads the sections of one file."""

    def __init__(self, reader: Reader, scope: NameScope, target: str, ctas: int) -> None:
        self.reader = reader
        self.terms = KernelTerms(reader)
        self.scope = scope
        self.target = target
        self.ctas = ctas
        self.declared = Declared()
        self.layouts = Layouts(reader, self.terms, scope)

    def read(self, top: Fields, sizes: dict[str, Span]) -> Declared:
        """All sections that are there, in the order in which they depend on each other."""
        for name, span in sizes.items():
            self.declared.kinds[name], self.declared.spans[name] = "size", span
        readers: dict[str, Callable[[str, Fields, Span], None]] = {
            "rings": self._ring,
            "buffers": self._buffer,
            "barriers": self._barrier,
            "named_barriers": self._named,
            "queues": self._queue,
            "pools": self._pool,
            "roles": self._role,
            "tensor_maps": self._tensor_map,
            "matrix_instructions": self._matrix_instruction,
        }
        for section_name, read in readers.items():
            node = top.get(section_name)
            if node is not None and not (isinstance(node, Scalar) and node.is_null):
                self._section(SECTION_OF[section_name], node, read)
        self._check_rings()
        agents = sum(role.agents for role in self.declared.roles.values())
        if agents * self.ctas > AGENTS_MAX:
            span = top.key_span("roles")
            self.reader.error("TTN009", f"more than {AGENTS_MAX} agents in all", span)
        self.declared.cluster_threads = self._cluster_threads()
        return self.declared

    def _cluster_threads(self) -> int:
        """The threads whose arrivals complete a cluster barrier: the hardware counts them."""
        target = target_of(self.target)
        self.declared.cluster_of_groups = target.cluster_barrier_counts_groups
        if self.declared.cluster_of_groups:
            return self.ctas * target.threads_per_warp
        return sum(
            role.agents * role.threads * (self.ctas if role.cta is None else 1)
            for role in self.declared.roles.values()
            if not role.outside
        )

    def _section(
        self, section: Section, node: Node, read: Callable[[str, Fields, Span], None]
    ) -> None:
        names = self.reader.names(node, f"`{section.name}`")
        for name in names or ():
            assert names is not None
            span = names.key_span(name)
            if not self._declare(name, section.noun, span):
                continue
            what = f"{section.noun} {quoted(name)}"
            fields = self._fields(section, names[name], what, span)
            # Statements look the name up, so that it represents something even where it is faulty.
            read(name, fields or Fields(Mapping((), span), {}), span)

    def _fields(self, section: Section, node: Node, what: str, span: Span) -> Fields | None:
        """The keys of a declaration; a scalar represents its main key."""
        required = [key.name for key in section.keys if key.required]
        optional = [key.name for key in section.keys if not key.required]
        if isinstance(node, Scalar) and not node.is_null and section.short:
            return Fields(Mapping((), node.span), {section.short: node})
        if isinstance(node, Scalar) and node.is_null and not required:
            return Fields(Mapping((), span), {})
        return self.reader.mapping(node, required=required, optional=optional, what=what)

    def _declare(self, name: str, noun: str, span: Span) -> bool:
        declared = self.declared
        if name in RESERVED and noun != "role":
            self.reader.error("TTN013", f"{quoted(name)} is a reserved word", span)
            return False
        if name in declared.kinds:
            others = (Annotation(declared.spans[name], f"a {declared.kinds[name]}"),)
            headline = f"the name {quoted(name)} is declared twice"
            self.reader.error("TTN013", headline, span, f"and a {noun}", others=others)
            return False
        declared.kinds[name], declared.spans[name] = noun, span
        return True

    # Values of keys

    def _number(
        self, fields: Fields, key: str, default: T, what: str, low: int = 0, high: int = BYTES_MAX
    ) -> int | T:
        node = fields.get(key)
        if node is None:
            return default
        found = self.terms.constant(node, self.scope, f"`{key}` of {what}", low, high)
        return default if found is None else found

    def _word(self, section: str, fields: Fields, key: str, default: str, what: str) -> str:
        node = fields.get(key)
        if node is None:
            return default
        words = next(item.words for item in SECTION_OF[section].keys if item.name == key)
        return self.reader.choice(node, words, f"`{key}` of {what}") or default

    def _flag(self, fields: Fields, key: str, default: bool, what: str) -> bool:
        node = fields.get(key)
        found = self.reader.boolean(node, f"`{key}` of {what}") if node is not None else default
        return default if found is None else found

    def _cta(self, fields: Fields, what: str) -> int | None:
        return self._number(fields, "cta", None, what, 0, self.ctas - 1)

    # Sections

    def _ring(self, name: str, fields: Fields, span: Span) -> None:
        what = f"ring {quoted(name)}"

        def one(node: Node) -> str | None:
            return self.reader.identifier(node, f"a buffer of {what}")

        node = fields.get("buffers")
        buffers = self.reader.list_of(node, one, what=what, at_least=1, single=True) if node else []
        depth = self._number(fields, "depth", 0, what, 1, STAGES_MAX)
        fallback = "lds_dma" if target_of(self.target).copies_direct_to_shared else "bulk"
        self.declared.rings[name] = Ring(
            name,
            tuple(buffers),
            depth,
            self._number(fields, "bytes", -1, what),
            ReleaseMode(self._word("rings", fields, "release", "per_agent", what)),
            PartialTile(self._word("rings", fields, "partial", "zero_bytes", what)),
            Transport(self._word("rings", fields, "transport", fallback, what)),
            self._number(fields, "ready_count", 0, what, 1, 2**20 - 1),
            self._number(fields, "free_count", 0, what, 1, 2**20 - 1),
            span=span,
        )
        self.declared.places[name] = DeclarationPlace()
        for buffer in buffers:
            first = self.declared.ring_of.setdefault(buffer, name)
            if first != name:
                place = node.span if node is not None else span
                headline = f"the buffer {quoted(buffer)} belongs to ring {quoted(first)} already"
                self.reader.error("TTN017", headline, place)

    def _buffer(self, name: str, fields: Fields, span: Span) -> None:
        what = f"buffer {quoted(name)}"
        ring = self.declared.rings.get(self.declared.ring_of.get(name, ""))
        stages = self._number(
            fields, "stages", (ring.depth or 1) if ring else 1, what, 1, STAGES_MAX
        )
        parts = self._number(fields, "parts", 1, what, 1, STAGES_MAX)
        units = self._number(fields, "units", 1, what, 1, UNITS_MAX)
        offset = self._number(fields, "offset", 0, what, 0, UNITS_MAX)
        if stages * parts * units > UNITS_MAX:
            headline = f"{what} has more than {UNITS_MAX} units in all"
            self.reader.error("TTN003", headline, span)
            stages = parts = units = 1
        space = Space(self._word("buffers", fields, "space", "shared", what))
        layout = self.layouts.layout(name, fields, span)
        self.declared.layouts[name] = layout
        if fields.has("base") and space is not Space.SHARED:
            # Read as nothing, two accumulators that overlap would pass for two that do not.
            headline = (
                f"`base` of {what} counts bytes of shared memory, and it is in {space} memory"
            )
            helps = ("buffers that share memory name one `storage`, and their `offset` in it",)
            self.reader.error("TTN017", headline, fields.key_span("base"), helps=helps)
        if fields.has("layout"):
            self.reader.string(fields["layout"], f"`layout` of {what}")
        storage = ""
        if fields.has("storage"):
            storage = self.reader.identifier(fields["storage"], f"`storage` of {what}") or ""
        self.declared.buffers[name] = Buffer(
            name,
            stages,
            parts,
            space,
            storage,
            offset,
            units,
            self._number(fields, "initial", None, what, -1),
            self._bytes(fields, what, layout),
            0,
            span,
        )
        alone = space is Space.GLOBAL and not fields.has("cta")
        self.declared.places[name] = DeclarationPlace(self._cta(fields, what), shared=alone)

    def _bytes(self, fields: Fields, what: str, layout: Layout) -> int:
        """Bytes of one stage, from `bytes` or from tile and dtype; 0 where neither is given."""
        elements = prod(layout.tile) if layout.tile else 0
        bits = elements * BITS_OF_DTYPE.get(layout.dtype, 0)
        if bits % 8 or bits // 8 > BYTES_MAX:
            problem = "is not a whole number of bytes" if bits % 8 else f"is over {BYTES_MAX} bytes"
            self.reader.error("TTN009", f"one stage of {what} {problem}", fields["tile"].span)
        counted = self._number(fields, "bytes", 0, what)
        if counted and bits and counted * 8 != bits:
            headline = f"`bytes` of {what} is {counted}, but its tile has {bits // 8}"
            self.reader.error("TTN017", headline, fields["bytes"].span)
        return counted or bits // 8

    def _barrier(self, name: str, fields: Fields, span: Span) -> None:
        what = f"barrier {quoted(name)}"
        self.declared.barriers[name] = Barrier(
            name,
            # PTX "mbarrier: Contents": the count is between 1 and 2^20 - 1.
            self._number(fields, "count", 1, what, 1, 2**20 - 1),
            self._number(fields, "stages", 1, what, 1, STAGES_MAX),
            self._flag(fields, "initialised", True, what),
            0,
            span,
        )
        kind = self._word("barriers", fields, "kind", "mbarrier", what)
        self.declared.places[name] = DeclarationPlace(self._cta(fields, what))
        if kind != "mbarrier":
            self.declared.kind_of[name] = kind
            # It is in no shared memory: nobody's CTA keeps it, and it is there from the start.
            for key in ("cta", "base", "initialised"):
                if fields.has(key):
                    headline = f"{what} is not an mbarrier, and {quoted(key)} says where one is"
                    self.reader.error("TTN017", headline, fields.key_span(key))
            nobody = replace(self.declared.barriers[name], cta=NOWHERE)
            self.declared.barriers[name] = nobody
            self.declared.places[name] = DeclarationPlace(shared=True)
        base = self._number(fields, "base", None, what)
        if base is not None:
            self.declared.barrier_bases[name] = base

    def _named(self, name: str, fields: Fields, span: Span) -> None:
        what = f"named barrier {quoted(name)}"
        stages = self._number(fields, "stages", 1, what, 1, STAGES_MAX)
        word = self._word("named_barriers", fields, "scope", "cta", what)
        scope = BarrierScope.CTA if word == "warp" else BarrierScope(word)
        if word == "warp":
            self.declared.kind_of[name] = word
        self.declared.named[name] = NamedBarrier(name, stages, scope, span)
        self.declared.threads[name] = self._number(fields, "threads", 0, what, 1, 2**20)
        self.declared.places[name] = DeclarationPlace(shared=scope is BarrierScope.CLUSTER)

    def _queue(self, name: str, fields: Fields, span: Span) -> None:
        what = f"queue {quoted(name)}"
        word = self._word("queues", fields, "kind", "", what)
        self.declared.kind_of[name] = word
        grouped, ordered, pipelined = QUEUE_KINDS.get(word, (True, True, False))
        self.declared.queues[name] = Queue(
            name,
            self._flag(fields, "grouped", grouped, what),
            self._flag(fields, "ordered", ordered, what),
            self._flag(fields, "pipelined", pipelined, what),
            span,
        )

    def _pool(self, name: str, fields: Fields, span: Span) -> None:
        what = f"pool {quoted(name)}"
        available = self._number(fields, "available", 0, what)
        self.declared.pools[name] = Pool(name, available, span)
        self.declared.kind_of[name] = self._word("pools", fields, "kind", "", what)
        self.declared.places[name] = DeclarationPlace(self._cta(fields, what))

    def _role(self, name: str, fields: Fields, span: Span) -> None:
        what = f"role {quoted(name)}"
        given = [key for key in WARPS_OF if fields.has(key)]
        if len(given) > 1:
            headline = f"{what} is counted in {quoted(given[0])} and in {quoted(given[1])}"
            self.reader.error("TTN017", headline, fields.key_span(given[1]))
        unit = given[0] if given else "warps"
        # A wave of CDNA has 64 lanes, one of RDNA (gfx10 and later) 32, as on NVIDIA.
        size = WARPS_OF[unit] * target_of(self.target).threads_per_warp or 1
        most = 2048 if unit == "threads" else AGENTS_MAX
        number = self._number(fields, unit, 1, what, 1, most)
        agents = self._number(fields, "agents", number, what, 1, AGENTS_MAX)
        if number * size % agents:
            headline = f"the {number * size} threads of {what} cannot be {agents} agents"
            place = fields["agents"].span if fields.has("agents") else span
            self.reader.error("TTN017", headline, place)
        index = "self"
        if fields.has("index"):
            index = self.reader.identifier(fields["index"], f"`index` of {what}") or "self"
            if index != "self" and (index in RESERVED or index in self.declared.kinds):
                headline = f"the name {quoted(index)} is already in use"
                self.reader.error("TTN013", headline, fields["index"].span)
        self.declared.roles[name] = RoleHead(
            name,
            agents,
            number * size // agents,
            self._number(fields, "registers", 0, what, 0, 512),
            index,
            self._counters(fields, what, index),
            self._place(fields, what),
            span,
            self._flag(fields, "outside", False, what),
        )

    def _place(self, fields: Fields, what: str) -> int | None:
        """The CTA of a role; each role outside of the cluster has a place of its own behind it."""
        if not self._flag(fields, "outside", False, what):
            return self._cta(fields, what)
        if fields.has("cta"):
            headline = f"{what} is outside of the cluster and in one of its CTAs"
            self.reader.error("TTN017", headline, fields.key_span("cta"))
        return OUTSIDE + sum(role.outside for role in self.declared.roles.values())

    def _tensor_map(self, name: str, fields: Fields, span: Span) -> None:
        found = self.layouts.tensor_map(name, fields, span, self.declared.layouts)
        if found is not None:
            self.declared.tensor_maps[name] = found

    def _matrix_instruction(self, name: str, fields: Fields, span: Span) -> None:
        roles = self.declared.roles
        found = self.layouts.matrix_instruction(name, fields, span, set(roles))
        if found is not None:
            self.declared.instructions[name] = found

    def _counters(self, fields: Fields, what: str, index: str) -> tuple[tuple[str, int], ...]:
        node = fields.get("counters")
        names = self.reader.names(node, f"`counters` of {what}") if node is not None else None
        counters = []
        for counter in names or ():
            assert names is not None
            taken = counter in RESERVED or counter in self.declared.kinds or counter == index
            if taken:
                headline = f"the name {quoted(counter)} is already in use"
                self.reader.error("TTN013", headline, names.key_span(counter))
            value = self.terms.constant(
                names[counter], self.scope, f"counter {quoted(counter)}", -BYTES_MAX, BYTES_MAX
            )
            counters.append((counter, value or 0))
        return tuple(counters)

    def _check_rings(self) -> None:
        """Rings and their buffers agree; depth and bytes are filled in."""
        declared = self.declared
        for name, ring in declared.rings.items():
            span = declared.spans[name]
            known = [declared.buffers[item] for item in ring.buffers if item in declared.buffers]
            for missing in ring.buffers:
                if missing not in declared.buffers:
                    names = declared.of_kind("buffer")
                    self.reader.undeclared(missing, span, names, "buffer")
            depth = ring.depth or max((buffer.stages for buffer in known), default=1)
            for buffer in known:
                if buffer.stages != depth:
                    others = (Annotation(declared.spans[buffer.name], f"{buffer.stages} stages"),)
                    headline = (
                        f"the ring {quoted(name)} and its buffer {quoted(buffer.name)} differ"
                    )
                    self.reader.error("TTN017", headline, span, f"depth {depth}", others=others)
            size = ring.bytes if ring.bytes >= 0 else sum(item.bytes_per_stage for item in known)
            declared.rings[name] = replace(ring, depth=depth, bytes=size)


def read_policies(reader: Reader, node: Node | None) -> Policies:
    """The policies of a file."""
    if node is None:
        return Policies()
    names = [key.name for key in POLICIES]
    fields = reader.mapping(node, optional=names, what="`policies`")
    values: dict[str, object] = {}
    for key in POLICIES:
        item = fields.get(key.name) if fields is not None else None
        if item is None:
            continue
        found: object
        if key.words:
            found = reader.choice(item, key.words, f"`{key.name}`")
        else:
            found = reader.boolean(item, f"`{key.name}`")
        if found is not None:
            values[key.name] = found
    return Policies(**values)  # type: ignore[arg-type]


def read_ctas(reader: Reader, terms: KernelTerms, scope: NameScope, node: Node | None) -> int:
    """The number of CTAs."""
    if node is None:
        return 1
    return terms.constant(node, scope, "`ctas`", 1, CTAS_MAX) or 1
