"""The JSON Schema of tile files, made from the table of operations; shape only."""

from __future__ import annotations

from titan.codegen.tile.dtypes import DTYPES, TENSOR_TYPES
from titan.codegen.tile.load import CHOICES_MAX, RANK_MAX, REQUIRED, SECTIONS, TAILS
from titan.codegen.tile.operations import EVICTIONS, FUNCTIONS, KINDS, REDUCTIONS, OperationKind
from titan.codegen.tile.rates import known_targets
from titan.foundation.source.json_schema import (
    EXPRESSION,
    FLAG,
    NAME,
    TEXT,
    Schema,
    about,
    document,
    items,
    mapping,
    named,
    one_or_list,
    words,
)

_NUMBER: Schema = {"type": ["number", "string"]}
_VIEW: Schema = {
    "description": "tensor[offset, ...]",
    "type": "string",
    "pattern": r"^\s*[A-Za-z_][A-Za-z0-9_]*\s*\[.*\]\s*$",
}
_SIZE: Schema = {"anyOf": [EXPRESSION, items({"type": "integer", "minimum": 1}, 1, CHOICES_MAX)]}
_OPERAND: Schema = {
    "description": "the name of a value; of an `mma`, also `name.T`",
    "type": "string",
    "pattern": r"^\s*[A-Za-z_][A-Za-z0-9_]*(\.T)?\s*$",
}
_ATTRIBUTES: dict[str, Schema] = {
    "tile": items(EXPRESSION, 1, 2),
    "add": about(_OPERAND, "what is added to"),
    "scales": about(
        items(_OPERAND, 2), "tiles of scales of the left operand, and of the right one"
    ),
    "by": about(_NUMBER, "a number, a scalar argument, or `number * scalar`"),
    "function": words(FUNCTIONS),
    "where": about(EXPRESSION, "a condition on `row` and `column`"),
    "fill": _NUMBER,
    "evict": words(EVICTIONS),
    "reduce": about(words(REDUCTIONS), "to add to what the tensor holds"),
    "below": about(EXPRESSION, "the row of the tensor from which on nothing is written"),
}


def json_schema() -> Schema:
    """The schema of a tile file."""
    tensor = mapping(
        {
            "shape": items(EXPRESSION, 1, RANK_MAX),
            "dtype": words(TENSOR_TYPES),
            "output": about(FLAG, "the program writes it"),
            "aligned": about(FLAG, "false: its address may be any multiple of its elements"),
        },
        ["shape", "dtype"],
    )
    carried = mapping(
        {"shape": items(EXPRESSION, 1, 2), "initial": _NUMBER, "next": NAME},
        ["shape", "initial", "next"],
    )
    operation = {
        "type": "object",
        "propertyNames": NAME,
        "additionalProperties": {"anyOf": [_operation(kind) for kind in KINDS.values()]},
        "minProperties": 1,
        "maxProperties": 1,
    }
    sections = {section: items({"$ref": "#/$defs/operation"}) for section in SECTIONS}
    shape = mapping(
        {
            "titan": {"const": 1, "description": "version of the language"},
            "tile": about(NAME, "name of the program"),
            "target": about(one_or_list(words(known_targets())), "hardware"),
            "note": TEXT,
            "sizes": about(named(_SIZE), "numbers, computed sizes, and parameters (`any`)"),
            "scalars": about(named(_NUMBER), "numbers of f32 that a launch may bring"),
            "tensors": named(tensor),
            "lookups": about(named(_VIEW), "integers that are read from tensors of i32"),
            "work": about(named(EXPRESSION), "coordinates of a CTA, each with its count"),
            "loop": {**about(named(EXPRESSION), "the loop variable and its trips"),
                     "minProperties": 1, "maxProperties": 1},
            "carried": about(named(carried), "values that live from one iteration to the next"),
            "groups": about(EXPRESSION, "warpgroups that compute"),
            "cluster": about(EXPRESSION, "CTAs of a cluster"),
            "depth": about(EXPRESSION, "stages of the rings"),
            "persistent": about(FLAG, "a CTA takes several work items"),
            "descending": about(items(NAME), "coordinates that go from the last to the first"),
            "launch_control": about(FLAG, "the next work item comes from the hardware"),
            "dependent_launch": about(FLAG, "a launch begins while the one before it ends"),
            "tail": words(TAILS),
            **sections,
        },
        REQUIRED,
    )  # fmt: skip
    made = document(
        "TITAN tile program",
        "What one CTA computes on tiles; docs/reference/tile_language.md explains it.",
        shape,
    )
    return {**made, "$defs": {"operation": operation}}


def _operation(kind: OperationKind) -> Schema:
    """One kind with its attributes."""
    operand: Schema = _VIEW
    if not kind.reads_view:
        count = 2 if kind.name == "mma" else len(kind.places)
        operand = items(_OPERAND, count, count)
        if count == 1:
            operand = {"anyOf": [_OPERAND, operand]}
    attributes = {key: _ATTRIBUTES[key] for key in (*kind.required, *kind.optional) if key != "to"}
    if "to" in kind.required:
        attributes["to"] = words(DTYPES) if kind.name == "convert" else _VIEW
    found = mapping({kind.name: operand, **attributes}, [kind.name, *kind.required])
    return about(found, kind.summary)
