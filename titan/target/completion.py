"""What each asynchronous operation of a target completes by: `backends/<target>/completion.yaml`.

A row says which memory an operation reads and writes, by which counter, group or barrier it is
observed, and whom it can reach. A counter says how it is waited for and at which mbarriers it can
arrive. Legality, lowering and emission read the same rows; each has its source, and instructions
that an assembler takes or refuses (`tests/target/test_completion.py` asks it).

Assumption: an operation is known by its verb and by the spaces of its effects. A side that a model
leaves out (the global source of a copy) is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import InternalError
from titan.foundation.records import dataclass
from titan.foundation.resources import root
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.span import Source
from titan.foundation.source.tree import Node
from titan.foundation.source.yaml import parse, parse_file

MBARRIER = "mbarrier"  # completes by transaction bytes on an mbarrier
ANY_VERB = "async"  # the verb that names no operation


class OperationReach(StrEnum):
    """Whose shared or tensor memory, or whose mbarrier, an operation can name.

    `PEER`: of the other CTAs of the cluster, not its own.
    """

    NOWHERE = "nowhere"
    OWN = "own"
    PEER = "peer"
    CLUSTER = "cluster"


class CompletionHome(StrEnum):
    """In which CTA the mbarrier of an operation lies: in that of the memory that it writes.

    `PAIR`: or in the other one of the pair that differs from it in the last bit of its rank.
    """

    DESTINATION = "destination"
    PAIR = "pair"


class Waits(StrEnum):
    """How a counter is waited for: not at all, for everything, or leaving a number unfinished."""

    NONE = "none"
    ALL = "all"
    COUNT = "count"


class Vendor(StrEnum):
    """Who makes the device; decides which ways of completion exist."""

    NVIDIA = "nvidia"
    AMD = "amd"


class FaultyCompletion(InternalError):
    """A file of TITAN's own about completion cannot be read; `diagnostics` says why."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__("; ".join(f"{item.span}: {item.headline}" for item in diagnostics[:5]))
        self.diagnostics = diagnostics


@dataclass(frozen=True, slots=True)
class Signature:
    """What is seen of an operation: its verb, the spaces it reads and writes, and its proxies.

    Reads of tensor maps are not among them.
    """

    verb: str
    reads: frozenset[str]
    writes: frozenset[str]
    proxies: frozenset[str]


@dataclass(frozen=True, slots=True)
class CompletionRow:
    """One kind of asynchronous operation. `by`: queue kinds, or `mbarrier`."""

    verb: str
    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    proxy: str
    by: tuple[str, ...]
    reads_in: OperationReach
    writes_in: OperationReach
    source: str
    assembles: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    completes_in: CompletionHome = CompletionHome.DESTINATION

    def fits(self, seen: Signature) -> bool:
        """Whether the operation can be of this row."""
        return (
            seen.verb in (ANY_VERB, self.verb)
            and seen.reads <= set(self.reads)
            and seen.writes <= set(self.writes)
            and (self.proxy == "any" or seen.proxies <= {self.proxy})
        )


@dataclass(frozen=True, slots=True)
class CounterRow:
    """A counter or kind of group. `reads`: waits for reads alone exist; `commits`: has groups."""

    kind: str
    waits: Waits
    arrives: OperationReach
    reads: bool
    commits: bool
    source: str
    assembles: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionTable:
    """The table of one target."""

    target: str
    vendor: Vendor
    operations: tuple[CompletionRow, ...]
    counters: dict[str, CounterRow]

    def rows(self, seen: Signature) -> tuple[CompletionRow, ...]:
        """The rows that the operation can be of; empty where the target has no such operation."""
        return tuple(row for row in self.operations if row.fits(seen))

    def counter_of(self, verb: str) -> str:
        """The counter that operations of a verb are waited for by; empty without one."""
        for row in self.operations:
            if row.verb == verb:
                return next((kind for kind in row.by if kind != MBARRIER), "")
        return ""


@lru_cache(maxsize=64)
def completion(target: str) -> CompletionTable | None:
    """The table of a target; None where it has no file. Raises FaultyCompletion."""
    path = root("backends") / target / "completion.yaml"
    return load_completion(path) if path.is_file() else None


def known_completions() -> tuple[str, ...]:
    """The targets that have a table."""
    return tuple(sorted(path.parent.name for path in root("backends").glob("*/completion.yaml")))


@lru_cache(maxsize=1)
def all_completions() -> tuple[CompletionTable, ...]:
    """The tables of all targets. Raises FaultyCompletion."""
    found = (completion(target) for target in known_completions())
    return tuple(item for item in found if item is not None)


def load_completion(path: Path) -> CompletionTable:
    """The table of a file. Raises FaultyCompletion."""
    return _finish(*parse_file(path))


def parse_completion(text: str, path: str = "<completion>") -> CompletionTable:
    """The table of a text. Raises FaultyCompletion."""
    return _finish(*parse(Source(path, text)))


def _finish(tree: Node | None, errors: list[Diagnostic]) -> CompletionTable:
    reader = Reader(errors)
    found = _completion(reader, tree) if tree is not None else None
    if found is None or not reader.ok:
        raise FaultyCompletion(reader.errors)
    return found


def _completion(reader: Reader, tree: Node) -> CompletionTable | None:
    optional = ("extends", "without", "vendor", "operations", "counters")
    top = reader.mapping(
        tree, required=("titan", "completion"), optional=optional, what="a table of completion"
    )
    if top is None or not (top.has("titan") and top.has("completion")):
        return None
    reader.choice(top["titan"], ("1",), "the format version")
    name = reader.identifier(top["completion"], "the target's name") or ""
    below = None
    if top.has("extends"):
        other = reader.choice(top["extends"], set(known_completions()) - {name}, "`extends`")
        below = completion(other) if other is not None else None
    vendor = below.vendor if below is not None else None
    if top.has("vendor"):
        word = reader.choice(top["vendor"], tuple(Vendor), "`vendor`")
        vendor = Vendor(word) if word is not None else vendor
    if vendor is None:
        reader.error("TTN007", "a table of completion lacks `vendor` or `extends`", tree.span)
        return None
    rows = {(row.verb, row.name): row for row in (below.operations if below else ())}
    counters = dict(below.counters) if below is not None else {}
    gone = frozenset(_words(reader, top, "without", counters))
    counters = {kind: row for kind, row in counters.items() if kind not in gone}
    rows = {key: row for key, row in rows.items() if set(row.by) - gone}
    if top.has("operations"):
        for row in reader.list_of(
            top["operations"], lambda item: _row(reader, item), what="`operations`"
        ):
            rows[(row.verb, row.name)] = row
    entries = reader.names(top["counters"], "`counters`") if top.has("counters") else None
    if entries is not None:
        counters |= _counters(reader, entries)
    return CompletionTable(name, vendor, tuple(rows.values()), counters)


def _words(reader: Reader, fields: Fields, key: str, known: Iterable[str] = ()) -> tuple[str, ...]:
    """A list of words, each of `known` where that is given; empty where the key is absent."""
    node = fields.get(key)
    if node is None:
        return ()

    def one(item: Node) -> str | None:
        return reader.choice(item, known, key) if known else reader.string(item, key)

    return tuple(reader.list_of(node, one, what=f"`{key}`"))


def _row(reader: Reader, node: Node) -> CompletionRow | None:
    required = ("verb", "reads", "writes", "proxy", "by", "source")
    optional = ("name", "reads_in", "writes_in", "completes_in", "assembles", "rejected")
    fields = reader.mapping(node, required=required, optional=optional, what="an operation")
    if fields is None or not all(fields.has(key) for key in required):
        return None
    spaces = ("shared", "tensor", "global", "register")
    reads, writes = (_words(reader, fields, key, spaces) for key in ("reads", "writes"))
    verb = reader.string(fields["verb"], "`verb`") or ""
    default = f"{verb} from {' or '.join(reads)} to {' or '.join(writes)}"
    return CompletionRow(
        verb,
        (reader.string(fields["name"], "`name`") or "") if fields.has("name") else default,
        reads,
        writes,
        reader.choice(fields["proxy"], ("generic", "async", "any"), "`proxy`") or "any",
        _words(reader, fields, "by"),
        _reach(reader, fields, "reads_in"),
        _reach(reader, fields, "writes_in"),
        reader.string(fields["source"], "a source") or "",
        _words(reader, fields, "assembles"),
        _words(reader, fields, "rejected"),
        _home(reader, fields),
    )


def _home(reader: Reader, fields: Fields) -> CompletionHome:
    if not fields.has("completes_in"):
        return CompletionHome.DESTINATION
    word = reader.choice(fields["completes_in"], tuple(CompletionHome), "`completes_in`")
    return CompletionHome(word) if word is not None else CompletionHome.DESTINATION


def _reach(reader: Reader, fields: Fields, key: str) -> OperationReach:
    node = fields.get(key)
    word = reader.choice(node, tuple(OperationReach), f"`{key}`") if node is not None else None
    return OperationReach(word) if word is not None else OperationReach.NOWHERE


def _counters(reader: Reader, entries: Fields) -> dict[str, CounterRow]:
    optional = ("arrives", "reads", "commits", "assembles", "rejected")
    found: dict[str, CounterRow] = {}
    for kind in entries:
        what = f"counter `{kind}`"
        fields = reader.mapping(
            entries[kind], required=("waits", "source"), optional=optional, what=what
        )
        if fields is None or not (fields.has("waits") and fields.has("source")):
            continue
        word = reader.choice(fields["waits"], tuple(Waits), f"`waits` of {what}")
        reads, commits = fields.get("reads"), fields.get("commits")
        found[kind] = CounterRow(
            kind,
            Waits(word) if word is not None else Waits.NONE,
            _reach(reader, fields, "arrives"),
            bool(reads is not None and reader.boolean(reads, f"`reads` of {what}")),
            bool(commits is not None and reader.boolean(commits, f"`commits` of {what}")),
            reader.string(fields["source"], f"the source of {what}") or "",
            _words(reader, fields, "assembles"),
            _words(reader, fields, "rejected"),
        )
    return found
