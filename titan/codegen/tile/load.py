"""Reads a tile file: what one CTA computes on tiles; every fault located, all of them at once.

The language is documented in docs/reference/tile_language.md. Names of fixed sizes are replaced by
their numbers, shapes and types are inferred, and what no target could run is refused: values that
nobody uses, stores of several work items to one place, tiles that the fragments of the target do
not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from titan.codegen.tile import checks
from titan.codegen.tile.dtypes import TENSOR_TYPES
from titan.codegen.tile.model import (
    Carried,
    Lookup,
    ScalarArgument,
    Tensor,
    TileOperation,
    TileProgram,
    Value,
    ValuePlace,
    WorkDimension,
    names_by_way,
)
from titan.codegen.tile.operations import KINDS, Misfit
from titan.codegen.tile.rates import Rates, known_targets, rates
from titan.codegen.tile.scalar_values import scalar_fault
from titan.codegen.tile.statements import (
    EXTENT_MAX,
    OPERATIONS_MAX,
    Operations,
    ValueTable,
    check_fragment,
)
from titan.codegen.tile.terms import NUMBER_MAX, TileScope, TileTerms
from titan.foundation.diagnostics.model import sort_key
from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.foundation.source.loading import load_file
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.span import Source, Span
from titan.foundation.source.tree import Mapping, Node, Scalar, Sequence, as_integer
from titan.foundation.source.yaml import parse
from titan.sync.expression import Constant, Expression, Name
from titan.sync.program import Parameter
from titan.target.load import TargetRefused

REQUIRED = ("titan", "tile", "target", "sizes", "tensors", "work", "loop", "body")
OPTIONAL = (
    "note", "before", "after", "carried", "groups", "persistent", "cluster", "depth", "tail",
    "scalars", "lookups", "dependent_launch", "launch_control", "descending",
)  # fmt: skip
TAILS = ("boxes", "threads", "poison")
SECTIONS = ("before", "body", "after")
RANK_MAX = 5
DEPTH_MAX = 16
CHOICES_MAX = 8  # numbers of one size
COMBINATIONS_MAX = 32
RESERVED = frozenset(
    ("row", "column", "and", "or", "not", "div", "mod", "min", "max", "true", "false", "any",
     "all", "in", "inf", "T", "processors")
)  # fmt: skip
# Names that pipelines give to what is not of the tile file.
OF_PIPELINES = frozenset(
    ("work", "tiles", "depth", "t", "w", "n", "self", "cta", "ctas", "peer", "output", "together",
     "producer", "consumer")
)  # fmt: skip


def load_tile(path: str | Path, target: str | None = None) -> TileProgram:
    """The tile program of a file, for its first target or for `target`.

    Raises TargetRefused with every fault; ValueError when the file is not for `target`.
    """
    source, errors = load_file(path)
    if source is None:
        raise TargetRefused(errors)
    return read_tile(source, target)


def parse_tile(text: str, path: str = "<tile>", target: str | None = None) -> TileProgram:
    """The tile program of a text. Raises as `load_tile`."""
    return read_tile(Source(path, text), target)


def read_tile(source: Source, target: str | None = None) -> TileProgram:
    """The tile program of a source, for one of its targets. Raises TargetRefused."""
    root, errors = parse(source)
    reader = Reader(errors)
    found = _Decoder(reader, target).program(root) if root is not None else None
    if found is None or not reader.ok:
        raise TargetRefused(sorted(dict.fromkeys(reader.errors), key=sort_key))
    return found


def targets_of(path: str | Path) -> tuple[str, ...]:
    """The targets that a file names, in its order. Raises TargetRefused."""
    source, errors = load_file(path)
    if source is None:
        raise TargetRefused(errors)
    root, errors = parse(source)
    reader = Reader(errors)
    node = root.get("target") if isinstance(root, Mapping) else None
    found = _targets(reader, node) if node is not None else []
    if reader.ok and not found:
        read_tile(source)  # reports what else the file lacks
        reader.error("TTN007", "the file lacks the key `target`", source.span(0, 0))
    if not reader.ok:
        raise TargetRefused(reader.errors)
    return tuple(found)


def is_tile(root: Node) -> bool:
    """Does the tree of a file say that it is a tile file?"""
    return isinstance(root, Mapping) and "tile" in root


def _targets(reader: Reader, node: Node) -> list[str]:
    def one(item: Node) -> str | None:
        name = reader.string(item, "a target")
        if name is None or name in known_targets():
            return name
        text = f"the target {quoted(name)} runs no tile programs"
        return reader.error("TTN010", text, item.span, helps=suggestion(name, known_targets()))

    return reader.list_of(node, one, what="`target`", at_least=1, at_most=16, single=True)


@dataclass(frozen=True, slots=True)
class LoopRead:
    """The loop of a file, and what names mean outside of it and inside."""

    variable: str | None
    trips: Expression | None
    lookups: tuple[Lookup, ...]
    outside: TileScope
    inside: TileScope


class _Decoder:
    def __init__(self, reader: Reader, target: str | None) -> None:
        self.reader = reader
        self.terms = TileTerms(reader)
        self.target = target
        self.spans: dict[str, Span] = {}
        self.rates: Rates = rates("sm_90a")
        self.sizes: dict[str, int] = {}
        self.combinations = 1
        self.parameters: list[Parameter] = []
        self.tensors: dict[str, Tensor | None] = {}
        self.values = ValueTable()

    def program(self, root: Node) -> TileProgram | None:
        reader = self.reader
        if reader.is_other(root, "tile"):
            return None
        top = reader.mapping(root, required=REQUIRED, optional=OPTIONAL, what="a tile program")
        if top is None or not self.version(top):
            return None
        name = reader.identifier(top["tile"], "the program's name") if top.has("tile") else None
        target = self.read_target(top)
        scope = self.read_sizes(top)
        scope.scalars = self.read_scalars(top)
        self.read_tensors(top, scope)
        work = self.read_work(top, scope)
        inner = scope.with_names(*(dimension.name for dimension in work))
        loop = self.read_loop(top, inner)
        entries = {section: self.entries(top, section) for section in SECTIONS}
        carried = self.read_carried(top, scope)
        sections = self.sections(entries, loop, carried)
        groups = self.number(top, scope, "groups", self.rates.groups.most)
        cluster = self.number(top, scope, "cluster", self.rates.cluster)
        depth = self.number(top, scope, "depth", DEPTH_MAX, 0)
        persistent = top.has("persistent") and reader.boolean(top["persistent"], "`persistent`")
        dependent = self.read_dependent(top)
        asking = self.read_asking(top, bool(persistent))
        descending = self.read_descending(top, work, cluster)
        tail = reader.choice(top["tail"], TAILS, "`tail`") if top.has("tail") else TAILS[0]
        note = reader.string(top["note"], "the note", 10_000) if top.has("note") else ""
        if name is None or target is None or loop.variable is None or loop.trips is None:
            return None
        if not reader.ok:
            return None
        made = TileProgram(
            name,
            target,
            tuple(self.sizes.items()),
            tuple(self.parameters),
            tuple(tensor for tensor in self.tensors.values() if tensor is not None),
            work,
            loop.variable,
            loop.trips,
            sections[0],
            sections[1],
            sections[2],
            carried=tuple(carried),
            persistent=bool(persistent),
            groups=groups,
            cluster=cluster,
            depth=depth,
            tail=tail or TAILS[0],
            note=note or "",
            span=top.key_span("tile"),
            scalars=tuple(scope.scalars.values()),
            lookups=loop.lookups,
            dependent_launch=dependent,
            launch_control=asking,
            descending=descending,
        )
        checks.whole(reader, made, self.rates, self.spans)
        return made

    def read_asking(self, top: Fields, persistent: bool) -> bool:
        """Whether work items come from the hardware: only where a CTA does several of them."""
        if not top.has("launch_control"):
            return False
        node = top["launch_control"]
        wanted = bool(self.reader.boolean(node, "`launch_control`"))
        if wanted and not persistent:
            self.reader.error("TTN009", "`launch_control` needs `persistent: true`", node.span)
        if wanted and self.rates.matrix.result != "tensor":
            self.reader.error("TTN009", "the target has no `launch_control`", node.span)
        return wanted

    def read_descending(
        self, top: Fields, work: tuple[WorkDimension, ...], cluster: int
    ) -> tuple[str, ...]:
        """The work coordinates that go from the last to the first."""
        if not top.has("descending"):
            return ()
        node, names = top["descending"], [dimension.name for dimension in work]
        if not self.rates.transfer.engine:
            text = f"work items on {self.rates.name} are in ascending order"
            self.reader.error("TTN009", text, node.span)

        def one(item: Node) -> str | None:
            name = self.reader.string(item, "a work coordinate")
            if name is None or name in names:
                return name
            text = f"{quoted(name)} is no work coordinate"
            return self.reader.error("TTN010", text, item.span, helps=suggestion(name, names))

        found = self.reader.list_of(node, one, what="`descending`", at_least=1, at_most=RANK_MAX)
        if cluster > 1 and names[-1:] and names[-1] in found:
            text = f"CTAs of a cluster have neighbouring {quoted(names[-1])}, in ascending order"
            self.reader.error("TTN009", text, node.span)
        if len(set(found)) != len(found):
            self.reader.error("TTN009", "a work coordinate is named twice", node.span)
        return tuple(found)

    def version(self, top: Fields) -> bool:
        if not top.has("titan"):
            return True
        number = self.reader.integer(top["titan"], what="`titan`")
        if number in (None, 1):
            return True
        text = f"version {number} of the language is not known"
        helps = ("this version of titan reads `titan: 1`",)
        self.reader.error("TTN016", text, top["titan"].span, helps=helps)
        return False

    def read_target(self, top: Fields) -> str | None:
        found = _targets(self.reader, top["target"]) if top.has("target") else []
        if not found:
            return None
        target = self.target or found[0]
        if target not in found:
            raise ValueError(f"the file is for {', '.join(found)}, not for {target}")
        self.rates = rates(target)
        return target

    # Names

    def declare(self, name: str, span: Span, noun: str) -> bool:
        """Take a name of the one namespace."""
        reserved = name in RESERVED or (noun in ("operation", "value") and name in OF_PIPELINES)
        if reserved:
            self.reader.error("TTN013", f"{quoted(name)} is a reserved word", span)
        elif name in self.spans:
            self.reader.declared_twice(name, span, self.spans[name], noun)
        else:
            self.spans[name] = span
            return True
        return False

    def declared(self, top: Fields, key: str, noun: str) -> Iterable[tuple[str, Node]]:
        """The names of a section, each with its node."""
        fields = self.reader.names(top[key], f"`{key}`") if top.has(key) else None
        for name in fields or ():
            assert fields is not None
            if self.declare(name, fields.key_span(name), noun):
                yield name, fields[name]

    def read_dependent(self, top: Fields) -> bool:
        """Whether a launch may begin before the one in front of it ends."""
        key = "dependent_launch"
        if not top.has(key) or not self.reader.boolean(top[key], f"`{key}`"):
            return False
        if not self.rates.transfer.engine:
            text = f"launches on {self.rates.name} begin when the ones before them have ended"
            self.reader.error("TTN009", text, top[key].span)
        return True

    def number(self, top: Fields, scope: TileScope, key: str, most: int, least: int = 1) -> int:
        if not top.has(key):
            return least
        return self.terms.constant(top[key], scope, f"`{key}`", least, most) or least

    # Sections

    def read_sizes(self, top: Fields) -> TileScope:
        """Numbers (of lists the first), parameters, and sizes computed from numbers before."""
        scope = TileScope()
        for name, node in self.declared(top, "sizes", "size"):
            what = f"the size {quoted(name)}"
            if isinstance(node, Scalar) and node.plain and node.text == "any":
                self.parameters.append(Parameter(name, None, 1))
                scope.positive.add(name)
                scope.names[name] = Name(name)
                continue
            if isinstance(node, Sequence):
                value = self.first_of(node, what)
            elif as_integer(node) is not None:
                value = self.reader.integer(node, minimum=0, maximum=NUMBER_MAX, what=what)
            else:
                value = self.terms.constant(node, scope, what, 0)
            self.sizes[name] = 1 if value is None else value
            scope.names[name] = Constant(self.sizes[name])
        return scope

    def first_of(self, node: Sequence, what: str) -> int | None:
        """The first of the numbers of which a build takes one."""

        def one(item: Node) -> int | None:
            return self.reader.integer(item, minimum=1, maximum=NUMBER_MAX, what=what)

        found = self.reader.list_of(node, one, what=what, at_least=1, at_most=CHOICES_MAX)
        if len(set(found)) != len(found):
            self.reader.error("TTN009", f"{what} has a number twice", node.span)
        self.combinations *= max(1, len(found))
        if self.combinations > COMBINATIONS_MAX:
            text = f"sizes have more than {COMBINATIONS_MAX} combinations"
            self.reader.error("TTN009", text, node.span)
        return found[0] if found else None

    def read_scalars(self, top: Fields) -> dict[str, ScalarArgument]:
        """Numbers of f32 that a launch may bring, each with its value where it brings none."""
        made = {}
        for name, node in self.declared(top, "scalars", "scalar argument"):
            value = self.terms.number(node, f"the scalar {quoted(name)}")
            if value is not None and (fault := scalar_fault(value)):
                self.reader.error("TTN009", f"the scalar {quoted(name)}: {fault}", node.span)
            made[name] = ScalarArgument(name, 1.0 if value is None else value)
        return made

    def read_tensors(self, top: Fields, scope: TileScope) -> None:
        reader = self.reader
        for name, node in self.declared(top, "tensors", "tensor"):
            self.tensors[name] = None
            fields = reader.mapping(
                node, required=("shape", "dtype"), optional=("output", "aligned"),
                what=f"tensor {name}",
            )  # fmt: skip
            if fields is None or not fields.has("shape") or not fields.has("dtype"):
                continue
            shape = self.extents(fields["shape"], scope, name)
            dtype = reader.choice(fields["dtype"], TENSOR_TYPES, f"the type of {quoted(name)}")
            output = fields.has("output") and reader.boolean(fields["output"], "`output`")
            aligned = not fields.has("aligned") or reader.boolean(fields["aligned"], "`aligned`")
            if shape is not None and dtype is not None:
                self.tensors[name] = Tensor(
                    name, shape, dtype, bool(output), aligned is not False, self.spans[name]
                )

    def extents(self, node: Node, scope: TileScope, name: str) -> tuple[Expression, ...] | None:
        what = f"the shape of {quoted(name)}"
        items = self.reader.sequence(node, what=what, at_least=1, at_most=RANK_MAX)
        found = [self.terms.expression(item, scope, f"an extent of {what}") for item in items or ()]
        for item, extent in zip(items or (), found, strict=True):
            if isinstance(extent, Constant) and extent.value < 1:
                self.reader.error("TTN009", f"an extent of {what} is at least 1", item.span)
        known = tuple(extent for extent in found if extent is not None)
        return known if items and len(known) == len(items) else None

    def read_work(self, top: Fields, scope: TileScope) -> tuple[WorkDimension, ...]:
        made = []
        for name, node in self.declared(top, "work", "work coordinate"):
            count = self.terms.expression(node, scope, f"the count of {quoted(name)}")
            if isinstance(count, Constant) and count.value < 1:
                text = f"the count of {quoted(name)} must be at least 1, not {count.value}"
                self.reader.error("TTN009", text, node.span)
            made.append(WorkDimension(name, count if count is not None else Constant(1)))
        if top.has("work") and not made and self.reader.ok:
            self.reader.error("TTN009", "there is at least one work coordinate", top["work"].span)
        return tuple(made)

    def read_loop(self, top: Fields, scope: TileScope) -> LoopRead:
        """The loop variable and lookups, then the trip count, which lookups may be part of."""
        found = list(self.declared(top, "loop", "loop variable"))
        if len(found) != 1:
            if top.has("loop") and self.reader.ok:
                text = f"there is one loop variable, not {len(found)}"
                self.reader.error("TTN009", text, top["loop"].span)
            return LoopRead(None, None, (), scope, scope)
        name, node = found[0]
        read = self.read_lookups(top, scope.with_names(name))
        lookups = tuple(one for one in read.values() if one is not None)
        changing = {one.name for one in lookups if name in names_by_way(lookups, one.view.offsets)}
        outside = scope.with_names(*(one for one in read if one not in changing))
        what = "the number of iterations"
        trips = self.terms.expression(node, outside, what, outside.positive)
        return LoopRead(name, trips, lookups, outside, scope.with_names(name, *read))

    def read_lookups(self, top: Fields, here: TileScope) -> dict[str, Lookup | None]:
        """Integers of tensors of i32; each may name those above it. None: it was reported."""
        made: dict[str, Lookup | None] = {}
        for name, node in self.declared(top, "lookups", "lookup"):
            decoder = Operations(self.reader, self.tensors, self.rates, "", here, self.values)
            view = decoder.looked_up(node, name)
            here = here.with_names(name)
            made[name] = None if view is None else Lookup(name, view, self.spans[name])
        return made

    def read_carried(self, top: Fields, scope: TileScope) -> list[Carried]:
        made = []
        for name, node in self.declared(top, "carried", "value"):
            self.values.seen[name] = None
            self.values.places[name] = "carried"
            found = self.carried(name, node, scope)
            if found is not None:
                made.append(found)
                self.values.seen[name] = found.value
        return made

    def carried(self, name: str, node: Node, scope: TileScope) -> Carried | None:
        reader, keys = self.reader, ("shape", "initial", "next")
        fields = reader.mapping(node, required=keys, what=f"the carried value {name}")
        if fields is None or not all(fields.has(key) for key in keys):
            return None
        what = f"the shape of {quoted(name)}"
        items = reader.sequence(fields["shape"], what=what, at_least=1, at_most=2)
        extents = [
            self.terms.constant(item, scope, f"an extent of {what}", 1, EXTENT_MAX)
            for item in items or ()
        ]
        initial = self.terms.number(fields["initial"], f"`initial` of {quoted(name)}")
        following = reader.identifier(fields["next"], f"`next` of {quoted(name)}")
        if not extents or None in extents or initial is None or following is None:
            return None
        rows, columns = [extent or 1 for extent in (*extents, 1)][:2]
        place = ValuePlace.FRAGMENT
        if columns == 1:
            place = ValuePlace.ROW
        elif rows == 1:
            place = ValuePlace.COLUMN
        value = Value(name, rows, columns, "f32", place)
        try:
            check_fragment(value, self.rates)
        except Misfit as misfit:
            reader.error(misfit.code, str(misfit), fields["shape"].span)
        return Carried(value, initial, following)

    # Operations

    def entries(self, top: Fields, section: str) -> list[tuple[str, Span, Node]]:
        """The operations of a section, not yet decoded: each with its name and node."""
        if not top.has(section):
            return []
        what = f"`{section}`"
        items = self.reader.sequence(top[section], what=what, at_most=OPERATIONS_MAX)
        if section == "body" and items == ():
            self.reader.error("TTN009", "the body has at least one operation", top[section].span)
        made = []
        for item in items or ():
            if not isinstance(item, Mapping) or len(item) != 1:
                text = f"an operation of {what} is `name: {{kind: operands}}`"
                self.reader.error("TTN008", text, item.span)
                continue
            entry = item.entries[0]
            name = self.reader.identifier(entry.key, "the operation's name")
            if name is not None and self.declare(name, entry.key.span, "operation"):
                self.values.places[name] = section
                made.append((name, entry.key.span, entry.value))
        return made

    def sections(
        self,
        entries: dict[str, list[tuple[str, Span, Node]]],
        loop: LoopRead,
        carried: list[Carried],
    ) -> list[tuple[TileOperation, ...]]:
        """`before`, `body` and `after`, each with the values that it sees."""
        held = self.values.seen
        self.values.seen = {}
        made = []
        for section in SECTIONS:
            if section == "body":
                self.values.seen.update(held)
            values = self.values.child() if section == "body" else self.values
            here = loop.inside if section == "body" else loop.outside
            decoder = Operations(self.reader, self.tensors, self.rates, section, here, values)
            made.append(decoder.read(entries[section]))
            if section == "body":
                checks.next_values(self.reader, carried, made[1], values, self.spans)
        return made


__all__ = ["KINDS", "Sequence", "TargetRefused", "is_tile", "load_tile", "parse_tile", "targets_of"]
