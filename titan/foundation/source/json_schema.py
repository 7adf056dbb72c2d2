"""Pieces of JSON Schemas (draft 2020-12), which describe the shape of input files to editors.

A schema says which keys and words there are and what form values have. What a name refers to and
how numbers go together is checked by the decoders alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
NAME_PATTERN = "^[A-Za-z_][A-Za-z0-9_]{0,63}$"
NAME: Schema = {"type": "string", "pattern": NAME_PATTERN}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
EXPRESSION: Schema = {
    "description": "integers, names, + - * // %, min, max, comparisons, and, or, not",
    "type": ["integer", "string"],
}


def about(schema: Schema, description: str) -> Schema:
    """The schema with a description, which editors show."""
    return {**schema, "description": description}


def integer(least: int = 0, most: int | None = None) -> Schema:
    """An integer within bounds."""
    found: Schema = {"type": "integer", "minimum": least}
    return found if most is None else {**found, "maximum": most}


def words(names: Iterable[str]) -> Schema:
    """One of a few words."""
    return {"enum": list(names)}


def items(item: Schema, least: int = 0, most: int | None = None) -> Schema:
    """A list."""
    found: Schema = {"type": "array", "items": item, "minItems": least}
    return found if most is None else {**found, "maxItems": most}


def one_or_list(item: Schema) -> Schema:
    """A value, or a list of them."""
    return {"anyOf": [item, items(item, 1)]}


def mapping(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """A mapping with these keys and no others."""
    found: Schema = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    needed = list(required)
    return {**found, "required": needed} if needed else found


def named(item: Schema) -> Schema:
    """A mapping from names that the user chose."""
    return {"type": "object", "propertyNames": NAME, "additionalProperties": item}


def document(title: str, description: str, schema: Schema) -> Schema:
    """The schema of a whole file."""
    return {"$schema": DIALECT, "title": title, "description": description, **schema}
