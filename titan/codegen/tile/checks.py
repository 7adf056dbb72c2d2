"""Faults of a tile program as a whole: carried values, rows of groups, unused values, stores."""

from __future__ import annotations

from collections.abc import Mapping

from titan.codegen.tile.model import Carried, TileOperation, TileProgram, Value, ValuePlace
from titan.codegen.tile.rates import Rates
from titan.codegen.tile.statements import ValueTable
from titan.foundation.diagnostics.model import Annotation
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.source.reader import Reader
from titan.foundation.source.span import Span
from titan.sync.expression import Constant, Expression, Name, linear_form, names_of

Spans = Mapping[str, Span]


def next_values(
    reader: Reader,
    carried: list[Carried],
    body: tuple[TileOperation, ...],
    values: ValueTable,
    spans: Spans,
) -> None:
    """Every `next` is a value of the body that has the shape, type and place of what it becomes."""
    results = {operation.name: operation.result for operation in body}
    for item in carried:
        span, name = spans[item.value.name], item.value.name
        if item.next not in results:
            if item.next in values.seen and values.places.get(item.next) == "body":
                continue  # reported where it stands
            text = f"the next {quoted(name)} is {quoted(item.next)}, which the body does not define"
            reader.error("TTN606", text, span)
            continue
        found = results[item.next]
        if found is None:
            reader.error("TTN606", f"{quoted(item.next)} stores and has no value", span)
        elif (found.rows, found.columns, found.dtype, found.place) != (
            item.value.rows, item.value.columns, item.value.dtype, item.value.place,
        ):  # fmt: skip
            text = f"{quoted(name)} is {_described(item.value)}, but the next one, "
            text += f"{quoted(item.next)}, is {_described(found)}"
            reader.error("TTN606", text, span)


def _described(value: Value) -> str:
    return f"a {value.place.value} of {value.rows} x {value.columns} {value.dtype}"


def whole(reader: Reader, tile: TileProgram, rates: Rates, spans: Spans) -> None:
    """All checks that need the program as a whole."""
    _rows_of_groups(reader, tile, rates, spans)
    _unused(reader, tile, spans)
    _group_names(reader, tile, spans)
    _outputs(reader, tile, spans)
    _shared(reader, tile, spans)
    for operation in tile.operations:
        if operation.writes_transposed and tile.groups > 1:
            text = f"{quoted(operation.name)} writes transposed, which one group does alone"
            reader.error("TTN602", text, spans[operation.name])
    for operation in tile.operations:
        if operation.kind == "store" and not operation.reduction:
            _overlap(reader, tile, operation, spans)


def _rows_of_groups(reader: Reader, tile: TileProgram, rates: Rates, spans: Spans) -> None:
    """Every group computes whole fragments."""
    each = tile.groups * rates.fragment_rows
    values = [item.value for item in tile.carried]
    values += [operation.result for operation in tile.operations if operation.result is not None]
    for value in values:
        if value.place in (ValuePlace.FRAGMENT, ValuePlace.ROW) and value.rows % each:
            text = f"{quoted(value.name)} has {value.rows} rows, but {tile.groups} "
            text += f"group{'s' * (tile.groups > 1)} of {rates.name} take multiples of {each}"
            reader.error("TTN608", text, spans[value.name])


def _unused(reader: Reader, tile: TileProgram, spans: Spans) -> None:
    used = {name for operation in tile.operations for name in operation.operands}
    used |= {item.next for item in tile.carried}
    names = [item.value.name for item in tile.carried]
    names += [operation.name for operation in tile.operations if operation.result is not None]
    for name in names:
        if name not in used:
            reader.error("TTN609", f"nothing uses {quoted(name)}", spans[name])
    multiplied = {op.scalar.name for op in tile.operations if op.scalar is not None}
    for scalar in tile.scalars:
        if scalar.name not in multiplied:
            reader.error("TTN609", f"nothing uses {quoted(scalar.name)}", spans[scalar.name])
    _unused_lookups(reader, tile, spans)
    read = {op.view.tensor for op in tile.operations if op.view is not None}
    read |= {lookup.view.tensor for lookup in tile.lookups}
    for tensor in tile.tensors:
        if tensor.name not in read:
            reader.error("TTN609", f"nothing uses {quoted(tensor.name)}", spans[tensor.name])


def _unused_lookups(reader: Reader, tile: TileProgram, spans: Spans) -> None:
    views = [op.view for op in tile.operations if op.view is not None]
    views += [lookup.view for lookup in tile.lookups]
    named = {name for view in views for offset in view.offsets for name in names_of(offset)}
    named |= names_of(tile.trip_count)
    for operation in tile.operations:
        for expression in (operation.condition, operation.below):
            named |= names_of(expression) if expression is not None else set()
    for lookup in tile.lookups:
        if lookup.name not in named:
            reader.error("TTN609", f"nothing uses {quoted(lookup.name)}", spans[lookup.name])


def _group_names(reader: Reader, tile: TileProgram, spans: Spans) -> None:
    """What group 0 computes of `x` is called `x_0`: nothing else may be."""
    names = {operation.name for operation in tile.operations}
    for name in sorted(names):
        stem, _, digits = name.rpartition("_")
        if digits.isdigit() and int(digits) < tile.groups and stem in names:
            text = f"{quoted(name)} is what group {int(digits)} computes of {quoted(stem)}"
            others = (Annotation(spans[stem], "this operation"),)
            reader.error("TTN013", text, spans[name], others=others)


def _outputs(reader: Reader, tile: TileProgram, spans: Spans) -> None:
    """Every output is written by one store."""
    for tensor in tile.tensors:
        if not tensor.output:
            continue
        stores = [
            operation
            for operation in tile.operations
            if operation.kind == "store" and operation.view is not None
            and operation.view.tensor == tensor.name
        ]  # fmt: skip
        if len(stores) > 1:
            text = f"{quoted(tensor.name)} is written by {quoted(stores[0].name)} and "
            text += quoted(stores[1].name)
            reader.error("TTN610", text, spans[stores[1].name])


def _shared(reader: Reader, tile: TileProgram, spans: Spans) -> None:
    """What groups share is made in the loop and read by products of the same iteration alone."""
    for operation in tile.operations:
        if operation.kind != "share":
            continue
        name = operation.name
        if operation not in tile.body:
            reader.error("TTN602", f"{quoted(name)} is shared outside of the loop", spans[name])
        for other in tile.operations:
            if name in other.operands and (other.kind != "mma" or name in other.operands[2:]):
                text = f"{quoted(other.name)} reads {quoted(name)}, which only products take"
                reader.error("TTN602", text, spans[other.name])


def _overlap(reader: Reader, tile: TileProgram, operation: TileOperation, spans: Spans) -> None:
    """No two work items and no two iterations write one element.

    Proved where the offset of each dimension distinguishes its coordinates and every coordinate is
    in one of them; everything else is refused.
    """
    view = operation.tensor_view
    listed = _listed(tile, operation)
    named = {name for offset in view.offsets for name in names_of(offset)} - set(listed)
    steered = [lookup.name for lookup in tile.lookups if lookup.name in named]
    if steered:
        text = f"the same {quoted(steered[0])} twice writes the same elements of "
        reader.error("TTN612", text + quoted(view.tensor), spans[operation.name])
        return
    value = _value(tile, operation.operands[0])
    extents = _extents(value, len(view.offsets))
    if operation.writes_transposed:
        extents = (*extents[:-2], *extents[:-3:-1])
    counts = {dimension.name: dimension.count for dimension in tile.work}
    if operation in tile.body:
        counts[tile.loop_variable] = tile.trip_count
    moved: set[str] = set()
    for offset, extent in zip(view.offsets, extents, strict=True):
        form = linear_form(offset)
        if form is None:
            continue
        found = _distinguished(form[0], counts, extent)
        moved |= found | {listed[name] for name in form[0] if name in listed}
    left = [name for name in counts if name not in moved and counts[name] != Constant(1)]
    if left:
        text = f"different {quoted(left[0])} may write the same elements of "
        text += quoted(view.tensor)
        reader.error("TTN612", text, spans[operation.name])


def _listed(tile: TileProgram, operation: TileOperation) -> dict[str, str]:
    """The lookup at which the rows of a store begin, and the coordinate that it sets apart.

    Rows from `offsets[b]` on, below `offsets[b + 1]`: a list that ascends gives each b rows of its
    own. That it ascends is the caller's part, as the documentation says.
    """
    lookups = {lookup.name: lookup.view for lookup in tile.lookups}
    coordinates = {dimension.name for dimension in tile.work}
    end = operation.below
    if not isinstance(end, Name) or end.name not in lookups:
        return {}
    row = operation.tensor_view.offsets[
        -1 if _value(tile, operation.operands[0]).place is ValuePlace.ROW else -2
    ]
    form, last = linear_form(row), lookups[end.name]
    behind = linear_form(last.offsets[-1])
    if form is None or behind is None or form[1] < 0 or min(form[0].values(), default=0) < 1:
        return {}
    begins = [name for name in form[0] if name in lookups]
    if len(begins) != 1 or form[0][begins[0]] != 1:
        return {}
    first = lookups[begins[0]]
    place = linear_form(first.offsets[-1])
    if place is None or (first.tensor, len(first.offsets)) != (last.tensor, 1):
        return {}
    alone = len(place[0]) == 1 and set(place[0]) <= coordinates and set(place[0].values()) == {1}
    if not alone or behind != (place[0], place[1] + 1):
        return {}
    return {begins[0]: next(iter(place[0]))}


def _distinguished(
    coefficients: Mapping[str, int], counts: Mapping[str, Expression], extent: int
) -> set[str]:
    """The coordinates in one offset, when tiles of all their values lie apart; else none.

    Taken by rising steps, each coordinate steps over all that the ones before it reach.
    """
    steps = sorted((abs(c), name) for name, c in coefficients.items() if name in counts)
    reach, endless = extent, False
    for step, name in steps:
        if step < reach or endless:
            return set()
        count = counts[name]
        endless = not isinstance(count, Constant)
        reach = step * count.value if isinstance(count, Constant) else reach
    return {name for _, name in steps}


def _value(tile: TileProgram, name: str) -> Value:
    for item in tile.carried:
        if item.value.name == name:
            return item.value
    return tile.operation(name).value


def _extents(value: Value, rank: int) -> tuple[int, ...]:
    """What a tile spans in each dimension of a tensor."""
    if value.place is ValuePlace.ROW:
        return (*[1] * (rank - 1), value.rows)
    return (*[1] * (rank - 2), value.rows, value.columns)
