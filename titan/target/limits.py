"""Reads `backends/<target>/legality.yaml`: what a target accepts, each number with its source.

A file may extend the one of another target and say only what differs. A limit that a target does
not have in its file is not known, and no rule judges by it.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import InternalError
from titan.foundation.records import dataclass
from titan.foundation.resources import root
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.span import Source
from titan.foundation.source.tree import Mapping, Node, Sequence
from titan.foundation.source.yaml import parse, parse_file

VALUE_MAX = 1 << 48
EXTENDS_MAX = 5
NUMBERS = frozenset((
    "shared_bytes", "threads_max", "threads_per_warp", "warps_per_warpgroup", "registers_total",
    "registers_entry_max", "registers_per_lane", "register_granule", "simds", "waves_per_simd",
    "named_barriers", "named_barrier_multiple", "barrier_bytes", "barrier_alignment",
    "barrier_count_max", "transaction_max", "cluster_max", "cluster_portable", "bulk_alignment",
    "tensor_alignment", "interleave_rank_min", "global_alignment", "global_alignment_wide",
    "global_alignment_swizzled", "global_extent_max", "global_stride_multiple",
    "global_stride_multiple_wide", "global_stride_end", "box_max", "box_row_multiple",
    "element_stride_max", "packed_multiple", "channels_max", "pixels_max", "tensor_columns",
    "tensor_lanes", "lds_dma_alignment", "lds_dma_end",
))  # fmt: skip
LISTS = frozenset((
    "setmaxnreg", "map_rank", "im2col_rank", "corner_bits", "tensor_alloc", "lds_dma_widths",
))  # fmt: skip
TABLES = frozenset((
    "swizzle_span", "swizzle_repeat", "counter_max", "operations", "proxies", "proxy_fences",
    "barrier_forms", "memory_reach", "commit_arrivals",
))  # fmt: skip
Value = int | tuple[int, ...] | dict[str, int]


class FaultyLimits(InternalError):
    """A file of limits cannot be read; `diagnostics` says why."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__("; ".join(f"{item.span}: {item.headline}" for item in diagnostics[:5]))
        self.diagnostics = diagnostics


@dataclass(frozen=True, slots=True)
class MatrixShapes:
    """Shapes of one family of matrix instructions: N runs from n[0] to n[1] in steps of n[2]."""

    kind: str
    types: tuple[str, ...]
    accumulators: tuple[str, ...]
    m: tuple[int, ...]
    n: tuple[int, int, int]
    k: int
    mixed: bool = False
    cta_group: int = 1
    source: str = ""

    def takes(self, kind: str, a: str, b: str, cta_group: int) -> bool:
        """Whether the row is about such an instruction at all."""
        types = a in self.types and (b in self.types if self.mixed else a == b)
        return kind == self.kind and types and cta_group == self.cta_group

    def columns(self) -> range:
        """All N that the family accepts, the last included."""
        return range(self.n[0], self.n[1] + 1, self.n[2])


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """What one target accepts."""

    target: str
    values: dict[str, Value] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    matrix: tuple[MatrixShapes, ...] = ()

    def number(self, name: str) -> int | None:
        """A single number; None where the target's file does not have it."""
        assert name in NUMBERS, name
        found = self.values.get(name)
        assert found is None or isinstance(found, int)
        return found

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """A list of numbers; None where the target's file does not have it."""
        assert name in LISTS, name
        found = self.values.get(name)
        assert found is None or isinstance(found, tuple)
        return found

    def table(self, name: str) -> dict[str, int]:
        """Numbers by word; empty where the target's file does not have them."""
        assert name in TABLES, name
        found = self.values.get(name, {})
        assert isinstance(found, dict)
        return found

    def source(self, name: str) -> str:
        """Where the number of this name is documented; empty where no source is given."""
        return self.sources.get(name, "")


def known_targets() -> tuple[str, ...]:
    """The targets that have a file of limits."""
    return tuple(sorted(path.parent.name for path in root("backends").glob("*/legality.yaml")))


@lru_cache(maxsize=64)
def limits(target: str) -> TargetLimits:
    """What a target accepts; nothing is known of one without a file. Raises FaultyLimits."""
    path = root("backends") / target / "legality.yaml"
    if target not in known_targets():
        return TargetLimits(target)
    return load_limits(path)


def load_limits(path: Path) -> TargetLimits:
    """The limits of a file. Raises FaultyLimits."""
    return _finish(*parse_file(path))


def parse_limits(text: str, path: str = "<limits>") -> TargetLimits:
    """The limits of a text. Raises FaultyLimits."""
    return _finish(*parse(Source(path, text)))


def _finish(tree: Node | None, errors: list[Diagnostic]) -> TargetLimits:
    reader = Reader(errors)
    found = _limits(reader, tree) if tree is not None else None
    if found is None or not reader.ok:
        raise FaultyLimits(reader.errors)
    return found


def _limits(reader: Reader, tree: Node) -> TargetLimits | None:
    top = reader.mapping(
        tree,
        required=("titan", "legality", "limits"),
        optional=("extends", "matrix", "without_types", "sources"),
        what="a file of limits",
    )
    if top is None or not all(top.has(key) for key in ("titan", "legality", "limits")):
        return None
    reader.choice(top["titan"], ("1",), "the format version")
    name = reader.identifier(top["legality"], "the target's name") or ""
    below = TargetLimits(name)
    if top.has("extends"):
        other = reader.choice(top["extends"], set(known_targets()) - {name}, "`extends`")
        below = limits(other) if other is not None else below
    values, sources = dict(below.values), dict(below.sources)
    entries = reader.names(top["limits"], "`limits`")
    for key in entries or ():
        assert entries is not None
        _entry(reader, key, entries, values, sources)
    rows = below.matrix + _matrix(reader, top)
    if top.has("without_types"):
        left_out = reader.list_of(
            top["without_types"], lambda node: reader.string(node, "a type"), what="`without_types`"
        )
        rows = tuple(row for row in rows if not set(row.types) & set(left_out))
    return TargetLimits(name, values, sources, rows)


def _entry(
    reader: Reader, key: str, entries: Fields, values: dict[str, Value], sources: dict[str, str]
) -> None:
    what = f"`{key}`"
    if key not in NUMBERS | LISTS | TABLES:
        reader.undeclared(key, entries.key_span(key), NUMBERS | LISTS | TABLES, "limit")
        return
    fields = reader.mapping(entries[key], required=("value", "source"), what=what)
    if fields is None or not fields.has("value") or not fields.has("source"):
        return
    value = _value(reader, key, fields["value"], what)
    source = reader.string(fields["source"], f"the source of {what}")
    if value is not None and source is not None:
        values[key], sources[key] = value, source


def _value(reader: Reader, key: str, node: Node, what: str) -> Value | None:
    def one(item: Node) -> int | None:
        return reader.integer(item, minimum=0, maximum=VALUE_MAX, what=what)

    if key in NUMBERS:
        return one(node)
    if key in LISTS:
        if not isinstance(node, Sequence):
            reader.wrong_type(node, "a list", what)
            return None
        return tuple(reader.list_of(node, one, what=what))
    if not isinstance(node, Mapping):
        reader.wrong_type(node, "a mapping", what)
        return None
    return {
        entry.key.text: number
        for entry in node
        if (number := one(entry.value)) is not None
    }  # fmt: skip


def _matrix(reader: Reader, top: Fields) -> tuple[MatrixShapes, ...]:
    node = top.get("matrix")
    if node is None:
        return ()
    found = reader.list_of(node, lambda item: _shapes(reader, item), what="`matrix`")
    return tuple(found)


def _shapes(reader: Reader, node: Node) -> MatrixShapes | None:
    required = ("kind", "a", "accumulators", "m", "n", "k", "source")
    what = "a row of `matrix`"
    fields = reader.mapping(node, required=required, optional=("mixed", "cta_group"), what=what)
    if fields is None or not all(fields.has(key) for key in required):
        return None

    def words(key: str) -> tuple[str, ...]:
        return tuple(reader.list_of(fields[key], lambda item: reader.string(item, key), what=key))

    def numbers(key: str) -> tuple[int, ...]:
        def one(item: Node) -> int | None:
            return reader.integer(item, minimum=1, maximum=4096, what=key)

        return tuple(reader.list_of(fields[key], one, what=key))

    n = numbers("n")
    if len(n) != 3:
        reader.error("TTN009", "`n` is a first number, a last one, and a step", fields["n"].span)
        return None
    k = reader.integer(fields["k"], minimum=1, maximum=4096, what="k")
    mixed, group = fields.get("mixed"), fields.get("cta_group")
    return MatrixShapes(
        reader.choice(fields["kind"], ("wgmma", "tcgen05"), "`kind`") or "",
        words("a"),
        words("accumulators"),
        numbers("m"),
        (n[0], n[1], n[2]),
        k or 1,
        bool(mixed is not None and reader.boolean(mixed, "`mixed`")),
        (reader.integer(group, minimum=1, maximum=2, what="`cta_group`") or 1) if group else 1,
        reader.string(fields["source"], "a source") or "",
    )
