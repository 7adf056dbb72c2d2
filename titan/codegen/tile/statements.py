"""One operation of a tile file: its kind, operands, attributes and result, every fault located."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from titan.codegen.tile.dtypes import DTYPES, INDEX_TYPE
from titan.codegen.tile.model import (
    ScalarArgument,
    Tensor,
    TileOperation,
    Value,
    ValuePlace,
    View,
)
from titan.codegen.tile.operations import (
    EVICTIONS,
    FUNCTIONS,
    KINDS,
    REDUCTIONS,
    Given,
    Misfit,
    OperationKind,
    check_places,
    scaling_of,
)
from titan.codegen.tile.rates import Rates
from titan.codegen.tile.terms import TileScope, TileTerms
from titan.foundation.diagnostics.wording import quoted, suggestion
from titan.foundation.source.reader import Fields, Reader
from titan.foundation.source.span import Span
from titan.foundation.source.tree import Node, Scalar, Sequence
from titan.sync.expression import Expression

EXTENT_MAX = 4096
OPERATIONS_MAX = 500
ATTRIBUTES = (
    "tile", "add", "scales", "by", "function", "to", "where", "fill", "below", "evict", "reduce",
)  # fmt: skip
_OPERAND = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)(\.T)?\s*")


@dataclass(slots=True)
class ValueTable:
    """The values that operations may use. None: an operation that was reported already.

    `places` gives for every operation of the file its section, for uses out of place; `stores`
    are those without a value.
    """

    seen: dict[str, Value | None] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    stores: set[str] = field(default_factory=set)

    def child(self) -> ValueTable:
        """A copy of the seen values that grows independently; places and stores are shared."""
        return ValueTable(dict(self.seen), self.places, self.stores)


class Operations:
    """Reads the operations of one section."""

    def __init__(
        self,
        reader: Reader,
        tensors: Mapping[str, Tensor | None],
        rates: Rates,
        section: str,
        scope: TileScope,
        values: ValueTable,
    ) -> None:
        self.reader = reader
        self.terms = TileTerms(reader)
        self.tensors = tensors
        self.rates = rates
        self.section = section
        self.scope = scope
        self.values = values

    def read(self, entries: list[tuple[str, Span, Node]]) -> tuple[TileOperation, ...]:
        """The sound operations in order; a faulty one leaves None under its name, and a report."""
        made = []
        for name, span, node in entries:
            found = self.operation(name, span, node)
            self.values.seen[name] = None if found is None else found.result
            if found is not None:
                made.append(found)
                if found.result is None:
                    self.values.stores.add(name)
        return tuple(made)

    def operation(self, name: str, span: Span, node: Node) -> TileOperation | None:
        """One operation; None after a report where its kind or a key is faulty or missing."""
        what = f"operation {quoted(name)}"
        fields = self.reader.mapping(node, optional=(*KINDS, *ATTRIBUTES), what=what)
        if fields is None:
            return None
        kind = self.kind(name, span, fields)
        if kind is None:
            return None
        for key in fields:
            if key not in (kind.name, *kind.required, *kind.optional):
                text = f"`{kind.name}` has no {quoted(key)}"
                self.reader.error("TTN006", text, fields.key_span(key))
        missing = [key for key in kind.required if not fields.has(key)]
        for key in missing:
            text = f"{what} lacks the key {quoted(key)}"
            self.reader.error("TTN007", text, fields.key_span(kind.name))
        if missing:
            return None
        if kind.reads_view:
            return self.from_view(name, span, kind, fields)
        return self.from_values(name, span, kind, fields)

    def kind(self, name: str, span: Span, fields: Fields) -> OperationKind | None:
        """The only key that is a kind; `add` beside `mma` is an attribute."""
        found = [key for key in fields if key in KINDS]
        if "mma" in found and "add" in found:
            found.remove("add")
        if len(found) == 1:
            return KINDS[found[0]]
        if not found:
            text = f"operation {quoted(name)} does nothing that is known"
            unknown = [entry.key.text for entry in fields.node if entry.key.text not in ATTRIBUTES]
            helps = suggestion(unknown[0], KINDS) if unknown else ()
            self.reader.error("TTN601", text, span, helps=helps)
        else:
            text = f"operation {quoted(name)} does {quoted(found[0])} and {quoted(found[1])}"
            self.reader.error("TTN601", text, fields.key_span(found[1]))
        return None

    # Operations on views

    def from_view(
        self, name: str, span: Span, kind: OperationKind, fields: Fields
    ) -> TileOperation | None:
        """An operation that reads a tensor through a view; reading an output is TTN607."""
        view = self.view(fields[kind.name], f"what {quoted(name)} reads")
        tile = self.tile(fields["tile"], name)
        if view is None or tile is None:
            return None
        tensor = self.tensors[view.tensor]
        assert tensor is not None
        if tensor.output:
            text = f"{quoted(name)} reads the output {quoted(tensor.name)}"
            return self.reader.error("TTN607", text, fields[kind.name].span)
        if tensor.dtype == INDEX_TYPE:
            text = f"{quoted(tensor.name)} holds {INDEX_TYPE}, which lookups read"
            return self.reader.error("TTN604", text, fields[kind.name].span)
        given = Given(name, (), (), tile[0], tile[1], tensor, rates=self.rates)
        result = self.result(kind, given, fields, [])
        if result is None:
            return None
        if not self.fits(view, tensor, result.place, fields[kind.name].span, name):
            return None
        evict = self.eviction(name, fields) if fields.has("evict") else ""
        return TileOperation(name, kind.name, (), result, view, span=span, evict=evict)

    def eviction(self, name: str, fields: Fields) -> str:
        """When the lines of a load leave the L2 cache; empty after a report."""
        node, what = fields["evict"], f"`evict` of {quoted(name)}"
        found = self.reader.choice(node, EVICTIONS, what)
        if found and not self.rates.transfer.engine:
            text = f"copies on {self.rates.name} take no policy for the L2 cache"
            self.reader.error("TTN009", text, node.span)
        return found or ""

    def view(self, node: Node, what: str) -> View | None:
        """The view with its tensor looked up; None after a report where one is unknown."""
        written = self.terms.view(node, self.scope, what)
        if written is None:
            return None
        if written.name not in self.tensors:
            self.reader.undeclared(written.name, written.span, self.tensors, "tensor")
            return None
        if self.tensors[written.name] is None:
            return None
        return View(written.name, written.offsets)

    def looked_up(self, node: Node, name: str) -> View | None:
        """Where a lookup reads; None after a report where it is no element of a tensor of i32."""
        view = self.view(node, f"the lookup {quoted(name)}")
        if view is None:
            return None
        tensor = self.tensors[view.tensor]
        assert tensor is not None
        if tensor.output:
            text = f"{quoted(name)} reads the output {quoted(tensor.name)}"
            return self.reader.error("TTN607", text, node.span)
        if tensor.dtype != INDEX_TYPE:
            text = f"a lookup reads {INDEX_TYPE}, but {quoted(tensor.name)} holds {tensor.dtype}"
            return self.reader.error("TTN604", text, node.span)
        return view if self.fits(view, tensor, ValuePlace.ROW, node.span, name) else None

    def fits(self, view: View, tensor: Tensor, place: ValuePlace, span: Span, name: str) -> bool:
        """One offset for each dimension, and dimensions enough for the tile."""
        least = 2 if place in (ValuePlace.SHARED, ValuePlace.FRAGMENT) else 1
        if len(view.offsets) != len(tensor.shape):
            text = f"the view has {len(view.offsets)} offsets, but {quoted(tensor.name)} has "
            text += f"{len(tensor.shape)} dimensions"
        elif len(tensor.shape) < least:
            text = f"{quoted(name)} has rows and columns, but {quoted(tensor.name)} has 1 dimension"
        else:
            return True
        self.reader.error("TTN607", text, span)
        return False

    def tile(self, node: Node, name: str) -> tuple[tuple[int, int], bool] | None:
        """(rows, columns), and whether one extent was written."""
        what = f"`tile` of {quoted(name)}"
        items = self.reader.sequence(node, what=what, at_least=1, at_most=2)
        extents = [
            self.terms.constant(item, self.scope, f"an extent of {what}", 1, EXTENT_MAX)
            for item in items or ()
        ]
        if not extents or None in extents:
            return None
        known = [extent for extent in extents if extent is not None]
        return ((1, known[0]), True) if len(known) == 1 else ((known[0], known[1]), False)

    # Operations on values

    def from_values(
        self, name: str, span: Span, kind: OperationKind, fields: Fields
    ) -> TileOperation | None:
        """An operation on values or a store; None after a report where an operand is faulty."""
        nodes = self.operand_nodes(kind, fields, name)
        if nodes is None:
            return None
        if kind.name == "mma" and fields.has("add"):
            nodes.append(fields["add"])
        if kind.name == "mma" and fields.has("scales"):
            tiles = self.scale_nodes(fields, name)
            if tiles is None:
                return None
            nodes += tiles
        pairs = [self.operand(node, kind) for node in nodes]
        attributes = self.attributes(name, kind, fields)
        if attributes is None:
            return None
        known = [pair for pair in pairs if pair is not None]
        if len(known) != len(pairs):
            return None
        operands = tuple(value for value, _ in known)
        transpose = tuple(flipped for _, flipped in known)
        tensor = self.tensors[attributes.view.tensor] if attributes.view is not None else None
        given = Given(
            name, operands, transpose, tensor=tensor, dtype=attributes.dtype, rates=self.rates,
            reduction=attributes.reduction,
        )  # fmt: skip
        result = self.result(kind, given, fields, nodes)
        if not result and kind.name != "store":
            return None
        if kind.name == "store":
            assert attributes.view is not None and tensor is not None
            if not self.stores(name, attributes.view, tensor, operands[0], fields["to"].span):
                return None
        flips = transpose if kind.name == "mma" or True in transpose else ()
        scaling = scaling_of(given) if kind.name == "mma" else None
        function = scaling.kind if scaling is not None else attributes.function
        return TileOperation(
            name, kind.name, tuple(value.name for value in operands), result, attributes.view,
            flips, attributes.number, function,
            attributes.condition, span, attributes.scalar, attributes.below,
            reduction=attributes.reduction,
        )  # fmt: skip

    def stores(self, name: str, view: View, tensor: Tensor, value: Value, span: Span) -> bool:
        """Whether the value may be stored there; a tensor that is not an output is TTN607."""
        if not tensor.output:
            text = f"{quoted(name)} writes {quoted(tensor.name)}, which is not an output"
            self.reader.error("TTN607", text, span)
            return False
        return self.fits(view, tensor, value.place, span, name)

    def operand_nodes(self, kind: OperationKind, fields: Fields, name: str) -> list[Node] | None:
        """The nodes of the operands; None after a report (TTN009) if their number is wrong."""
        node = fields[kind.name]
        count = 2 if kind.name == "mma" else len(kind.places)
        items: list[Node] = list(node.items) if isinstance(node, Sequence) else [node]
        if len(items) != count:
            text = f"`{kind.name}` takes {count} operand{'s' * (count > 1)}, not {len(items)}"
            return self.reader.error("TTN009", text, node.span)
        return items

    def scale_nodes(self, fields: Fields, name: str) -> list[Node] | None:
        """The nodes of the scales of an `mma`; None after a report."""
        node = fields["scales"]
        if not fields.has("add"):
            text = f"{quoted(name)} scales its operands, but adds to nothing"
            return self.reader.error("TTN602", text, fields.key_span("scales"))
        items = self.reader.sequence(node, what=f"`scales` of {quoted(name)}", at_least=2)
        return None if items is None else list(items)

    def operand(self, node: Node, kind: OperationKind) -> tuple[Value, bool] | None:
        """A value by its name, and whether it enters transposed."""
        found = _OPERAND.fullmatch(node.text) if isinstance(node, Scalar) else None
        if found is None or not isinstance(node, Scalar):
            text = f"an operand of `{kind.name}` must be the name of a value"
            return self.reader.error("TTN008", text, node.span)
        name, flipped = found.group(1), found.group(2) is not None
        if flipped and kind.name not in ("mma", "store"):
            text = f"only operands of `mma` and `store` are transposed, not those of `{kind.name}`"
            return self.reader.error("TTN602", text, node.span)
        if name not in self.values.seen:
            self.out_of_place(name, node.span)
            return None
        value = self.values.seen[name]
        if value is None:
            if name in self.values.stores:
                text = f"{quoted(name)} stores and has no value"
                return self.reader.error("TTN605", text, node.span)
            return None
        return value, flipped

    def out_of_place(self, name: str, span: Span) -> None:
        """Reports a name that is unknown, used too early, or of another section (TTN605)."""
        section = self.values.places.get(name)
        if section is None:
            known = [known for known, value in self.values.seen.items() if value is not None]
            self.reader.undeclared(name, span, known, "value")
        elif section == self.section:
            self.reader.error("TTN605", f"{quoted(name)} is used before it is defined", span)
        else:
            text = f"{quoted(name)} is a value of `{section}` and not seen in `{self.section}`"
            helps = ("a value of `body` lives on as a carried value",)
            self.reader.error("TTN605", text, span, helps=helps if section == "body" else ())

    def attributes(self, name: str, kind: OperationKind, fields: Fields) -> Attributes | None:
        """What the kind's required keys say; None after a report where one is faulty."""
        reader, made = self.reader, Attributes()
        for key in kind.required:
            node, what = fields[key], f"`{key}` of {quoted(name)}"
            found: object = None
            if key == "fill":
                found = made.number = self.terms.number(node, what) or 0.0
            elif key == "by":
                found = self.terms.multiple(node, self.scope, what) or (0.0, None)
                made.number, made.scalar = found
                if abs(made.number) == float("inf"):
                    reader.error("TTN009", f"{what} must be finite", node.span)
            elif key == "function":
                found = made.function = reader.choice(node, FUNCTIONS, what) or ""
            elif key == "where":
                scope = self.scope.with_names("row", "column")
                positive = scope.positive
                found = made.condition = self.terms.expression(node, scope, what, positive)
            elif kind.name == "convert":
                found = made.dtype = reader.choice(node, DTYPES, what) or ""
            else:
                found = made.view = self.view(node, what)
            if found is None or found == "":
                return None
        if kind.name == "store" and fields.has("below"):
            what = f"`below` of {quoted(name)}"
            made.below = self.terms.expression(fields["below"], self.scope, what)
            if made.below is None:
                return None
        if kind.name == "store" and fields.has("reduce"):
            node, what = fields["reduce"], f"`reduce` of {quoted(name)}"
            made.reduction = reader.choice(node, REDUCTIONS, what) or ""
            if made.reduction and made.below is not None:
                text = f"{quoted(name)} adds whole tiles, with no row from which on it adds nothing"
                return reader.error("TTN009", text, fields["below"].span)
            return made if made.reduction else None
        return made

    def result(
        self, kind: OperationKind, given: Given, fields: Fields, nodes: list[Node]
    ) -> Value | None:
        """The value of the operation. Faults are reported at the operand they concern."""
        try:
            check_places(kind, given)
            found = kind.result(given)
            if found is not None:
                check_fragment(found, self.rates)
        except Misfit as misfit:
            span = fields.key_span(misfit.key or kind.name)
            if misfit.operand is not None and misfit.operand < len(nodes):
                span = nodes[misfit.operand].span
            return self.reader.error(misfit.code, str(misfit), span)
        return found


@dataclass(slots=True)
class Attributes:
    """What stands beside the kind."""

    number: float = 0.0
    scalar: ScalarArgument | None = None
    function: str = ""
    dtype: str = ""
    condition: Expression | None = None
    view: View | None = None
    below: Expression | None = None
    reduction: str = ""


def check_fragment(value: Value, rates: Rates) -> None:
    """What lives in registers has the columns that the target's fragments have. Raises Misfit."""
    columns = value.columns
    if value.place in (ValuePlace.FRAGMENT, ValuePlace.COLUMN) and columns % rates.fragment_columns:
        text = f"`{value.name}` has {columns} columns, but fragments of {rates.name} have multiples"
        raise Misfit("TTN608", f"{text} of {rates.fragment_columns}")
