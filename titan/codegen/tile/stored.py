"""Tile programs as plain data (JSON), so that a machine without a YAML reader can know one.

`load_tile(...)` and `from_data(as_data(...))` are the same program but for places in files. What is
read is not trusted: unknown keys, wrong types and broken expressions raise BadProgram.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from titan.codegen.tile.model import (
    Carried,
    Lookup,
    ScalarArgument,
    Tensor,
    TileOperation,
    TileProgram,
    Value,
    ValuePlace,
    View,
    WorkDimension,
)
from titan.foundation.errors import UserError
from titan.sync.expression import Expression, ExpressionError, parse_expression, to_text
from titan.sync.program import Parameter

Data = dict[str, Any]


class BadProgram(UserError):
    """The data is not a tile program; the text says what is wrong."""


def as_data(tile: TileProgram) -> Data:
    """The program without the places where it was read; -inf and inf are words."""
    return {
        "name": tile.name,
        "target": tile.target,
        "sizes": dict(tile.sizes),
        "parameters": {parameter.name: parameter.minimum for parameter in tile.parameters},
        "tensors": [
            {
                "name": tensor.name,
                "shape": [to_text(extent) for extent in tensor.shape],
                "dtype": tensor.dtype,
                "output": tensor.output,
                "aligned": tensor.aligned,
            }
            for tensor in tile.tensors
        ],
        "work": {dimension.name: to_text(dimension.count) for dimension in tile.work},
        "loop_variable": tile.loop_variable,
        "trip_count": to_text(tile.trip_count),
        "before": [_operation(operation) for operation in tile.before],
        "body": [_operation(operation) for operation in tile.body],
        "after": [_operation(operation) for operation in tile.after],
        "carried": [
            {**_value(item.value), "initial": _number(item.initial), "next": item.next}
            for item in tile.carried
        ],
        "persistent": tile.persistent,
        "groups": tile.groups,
        "cluster": tile.cluster,
        "depth": tile.depth,
        "tail": tile.tail,
        **({"scalars": {one.name: one.value for one in tile.scalars}} if tile.scalars else {}),
        **({"lookups": [_lookup(one) for one in tile.lookups]} if tile.lookups else {}),
        **({"dependent_launch": True} if tile.dependent_launch else {}),
        **({"launch_control": True} if tile.launch_control else {}),
        **({"descending": list(tile.descending)} if tile.descending else {}),
    }


def _value(value: Value) -> Data:
    return {
        "name": value.name,
        "rows": value.rows,
        "columns": value.columns,
        "dtype": value.dtype,
        "place": value.place.value,
    }


def _number(number: float) -> float | str:
    return number if abs(number) != float("inf") else str(number)


def _lookup(lookup: Lookup) -> Data:
    return {"name": lookup.name, "view": _stored_view(lookup.view)}


def _stored_view(view: View) -> Data:
    return {"tensor": view.tensor, "offsets": [to_text(offset) for offset in view.offsets]}


def _operation(operation: TileOperation) -> Data:
    data: Data = {"name": operation.name, "kind": operation.kind}
    if operation.operands:
        data["operands"] = list(operation.operands)
    if operation.result is not None:
        data["result"] = _value(operation.result)
    if operation.view is not None:
        data["view"] = _stored_view(operation.view)
    if operation.transpose:
        data["transpose"] = list(operation.transpose)
    if operation.number:
        data["number"] = _number(operation.number)
    if operation.scalar is not None:
        data["scalar"] = operation.scalar.name
    if operation.function:
        data["function"] = operation.function
    if operation.condition is not None:
        data["condition"] = to_text(operation.condition)
    if operation.below is not None:
        data["below"] = to_text(operation.below)
    if operation.evict:
        data["evict"] = operation.evict
    if operation.reduction:
        data["reduction"] = operation.reduction
    return data


def from_data(data: Mapping[str, Any]) -> TileProgram:
    """The program of `as_data`. Raises BadProgram."""
    try:
        return _program(data)
    except (KeyError, TypeError, ValueError, AttributeError, ExpressionError) as error:
        raise BadProgram(f"no tile program: {type(error).__name__} {error}") from None


def _program(data: Mapping[str, Any]) -> TileProgram:
    known = {
        "name", "target", "sizes", "parameters", "tensors", "work", "loop_variable", "trip_count",
        "before", "body", "after", "carried", "persistent", "groups", "cluster", "depth",
        "tail", "scalars", "lookups", "dependent_launch", "launch_control", "descending",
    }  # fmt: skip
    if strange := set(data) - known:
        raise ValueError(f"unknown key {sorted(strange)[0]!r}")
    given = data.get("scalars", {}).items()
    scalars = {str(name): ScalarArgument(str(name), float(value)) for name, value in given}
    return TileProgram(
        name=str(data["name"]),
        target=str(data["target"]),
        sizes=tuple((str(name), int(value)) for name, value in data["sizes"].items()),
        parameters=tuple(
            Parameter(str(name), minimum=int(least)) for name, least in data["parameters"].items()
        ),
        tensors=tuple(
            Tensor(
                str(item["name"]), tuple(_read(extent) for extent in item["shape"]),
                str(item["dtype"]), bool(item["output"]), bool(item.get("aligned", True)),
            )
            for item in data["tensors"]
        ),
        work=tuple(WorkDimension(str(n), _read(count)) for n, count in data["work"].items()),
        loop_variable=str(data["loop_variable"]),
        trip_count=_read(data["trip_count"]),
        before=_operations(data["before"], scalars),
        body=_operations(data["body"], scalars),
        after=_operations(data["after"], scalars),
        carried=tuple(
            Carried(_read_value(item), float(item["initial"]), str(item["next"]))
            for item in data["carried"]
        ),
        persistent=bool(data["persistent"]),
        groups=int(data["groups"]),
        cluster=int(data["cluster"]),
        depth=int(data["depth"]),
        tail=str(data.get("tail", "boxes")),
        scalars=tuple(scalars.values()),
        lookups=tuple(
            Lookup(str(item["name"]), _read_view(item["view"]))
            for item in data.get("lookups", ())
        ),
        dependent_launch=bool(data.get("dependent_launch", False)),
        launch_control=bool(data.get("launch_control", False)),
        descending=tuple(str(name) for name in data.get("descending", ())),
    )  # fmt: skip


def _read(text: Any) -> Expression:
    if not isinstance(text, str):
        raise TypeError("an expression is a text")
    return parse_expression(text)


def _read_value(item: Mapping[str, Any]) -> Value:
    return Value(
        str(item["name"]), int(item["rows"]), int(item["columns"]), str(item["dtype"]),
        ValuePlace(item["place"]),
    )  # fmt: skip


def _operations(
    items: Sequence[Mapping[str, Any]], scalars: Mapping[str, ScalarArgument]
) -> tuple[TileOperation, ...]:
    return tuple(
        TileOperation(
            str(item["name"]),
            str(item["kind"]),
            tuple(str(name) for name in item.get("operands", ())),
            _read_value(item["result"]) if "result" in item else None,
            _read_view(item["view"]) if "view" in item else None,
            tuple(bool(flag) for flag in item.get("transpose", ())),
            float(item.get("number", 0.0)),
            str(item.get("function", "")),
            _read(item["condition"]) if "condition" in item else None,
            scalar=scalars[item["scalar"]] if "scalar" in item else None,
            below=_read(item["below"]) if "below" in item else None,
            evict=str(item.get("evict", "")),
            reduction=str(item.get("reduction", "")),
        )
        for item in items
    )


def _read_view(item: Mapping[str, Any]) -> View:
    return View(str(item["tensor"]), tuple(_read(offset) for offset in item["offsets"]))
