"""The JSON Schema of kernel.yaml, made from the table of keys and verbs.

The schema checks shape: known keys, words, forms of values. What a name refers to, whether indices
are affine, and which options go with which object is checked by the decoder alone.
"""

from __future__ import annotations

from titan.foundation.source.json_schema import DIALECT, NAME_PATTERN, Schema
from titan.language.kernel.table import (
    FENCES,
    POLICIES,
    SECTIONS,
    TOP_LEVEL,
    VERBS,
    VERSION,
    WHEN,
    Key,
    Section,
    ValueForm,
    Verb,
)

_REFERENCE = r"^\s*[A-Za-z_][A-Za-z0-9_]*\s*(\[.*\])?\s*(@.*)?\s*(=.*)?"
_RANGE = r"^\s*[A-Za-z_][A-Za-z0-9_]*\s+in\s+.+\.\..+$"


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _one_or_list(item: Schema) -> Schema:
    return {"anyOf": [item, {"type": "array", "items": item}]}


_FORMS: dict[ValueForm, Schema] = {
    ValueForm.EXPRESSION: _ref("expression"),
    ValueForm.CONSTANT: _ref("expression"),
    ValueForm.CONDITION: _ref("expression"),
    ValueForm.BOOLEAN: {"type": "boolean"},
    ValueForm.IDENTIFIER: _ref("name"),
    ValueForm.TEXT: {"type": ["string", "number", "boolean"]},
    ValueForm.NAMES: _one_or_list(_ref("name")),
    ValueForm.NUMBERS: _one_or_list(_ref("expression")),
    ValueForm.REFERENCE: _ref("reference"),
    ValueForm.REFERENCES: _ref("references"),
    ValueForm.MEMORY: _ref("references"),
    ValueForm.CTAS: {"anyOf": [{"const": "all"}, _one_or_list(_ref("expression"))]},
    ValueForm.BLOCK: _ref("block"),
    ValueForm.ASSIGNMENTS: {
        "type": "object",
        "propertyNames": _ref("name"),
        "additionalProperties": _ref("expression"),
    },
    ValueForm.RANGE: {"type": "string", "pattern": _RANGE},
    ValueForm.NOTHING: {"type": "null"},
}


def json_schema() -> Schema:
    """The schema of a kernel file."""
    properties: Schema = {key.name: _value(key) for key in TOP_LEVEL}
    properties["titan"] = {"const": VERSION, "description": "version of the language"}
    properties["sizes"] = _sizes()
    properties |= {section.name: _section(section) for section in SECTIONS}
    properties["policies"] = _mapping(POLICIES, "readings of the hardware contract")
    properties["allow"] = _allow()
    properties["program"] = {
        "type": "object",
        "description": "for each role a list of statements",
        "propertyNames": _ref("name"),
        "additionalProperties": _ref("block"),
    }
    return {
        "$schema": DIALECT,
        "title": "TITAN kernel",
        "description": "The pipeline of a GPU kernel; docs/reference/language.md explains it.",
        "type": "object",
        "properties": properties,
        "required": ["titan", "kernel", "target", "roles", "program"],
        "additionalProperties": False,
        "$defs": _definitions(),
    }


def _definitions() -> Schema:
    verbs = {f"statement {verb.name}": _statement(verb) for verb in VERBS}
    bare = [verb.name for verb in VERBS if not verb.needs_object and not _required(verb)]
    statements: list[Schema] = [_ref(name) for name in verbs]
    return {
        "name": {"type": "string", "pattern": NAME_PATTERN},
        "expression": {
            "description": "integers, names, + - * // %, min, max, comparisons, and, or, not",
            "type": ["integer", "string", "boolean"],
        },
        "reference": {
            "description": "name, name[index], name[index, part], each with @cta and = tile",
            "type": "string",
            "pattern": _REFERENCE + "$",
        },
        "references": {
            "description": "references, separated by commas or as a list",
            "anyOf": [
                {"type": "string", "pattern": _REFERENCE + r"(,.*)?$"},
                {"type": "array", "items": _ref("reference")},
            ],
        },
        "block": {
            "description": "a list of statements",
            "type": ["array", "null"],
            "items": _ref("statement"),
        },
        "statement": {"anyOf": [{"enum": bare}, *statements]},
        **verbs,
    }


def _required(verb: Verb) -> list[str]:
    return [key.name for key in verb.options if key.required]


def _statement(verb: Verb) -> Schema:
    """A statement with its options beside the verb or in braces with its object."""
    options = {key.name: _value(key) for key in (*verb.options, WHEN)}
    required = _required(verb)
    beside: Schema = {
        "type": "object",
        "properties": {verb.name: _object(verb), **options},
        "required": [verb.name, *required],
        "additionalProperties": False,
    }
    if verb.object is ValueForm.ASSIGNMENTS:
        return {"description": verb.about, **beside}
    braces = {
        "type": "object",
        "properties": options,
        "required": required,
        "additionalProperties": {"type": "null"},
    }
    inside: Schema = {
        "type": "object",
        "properties": {verb.name: braces, **options},
        "required": [verb.name],
        "additionalProperties": False,
    }
    return {"description": verb.about, "anyOf": [beside, inside]}


def _object(verb: Verb) -> Schema:
    if verb.name == "fence":
        return {"enum": list(FENCES)}
    shape = _FORMS[verb.object]
    if verb.call:
        called = {"type": "string", "pattern": rf"^\s*{verb.call}\s*\(.*\)\s*$"}
        shape = {"anyOf": [called, shape]}
    return shape if verb.needs_object else {"anyOf": [shape, {"type": "null"}]}


def _value(key: Key) -> Schema:
    shape = {"enum": list(key.words)} if key.form is ValueForm.WORD else dict(_FORMS[key.form])
    return {**shape, "description": key.about}


def _mapping(keys: tuple[Key, ...], about: str) -> Schema:
    found: Schema = {
        "type": "object",
        "description": about,
        "properties": {key.name: _value(key) for key in keys},
        "additionalProperties": False,
    }
    required = [key.name for key in keys if key.required]
    return {**found, "required": required} if required else found


def _section(section: Section) -> Schema:
    shapes = [_mapping(section.keys, section.noun)]
    if section.short:
        shapes.append(_value(next(key for key in section.keys if key.name == section.short)))
    if not any(key.required for key in section.keys):
        shapes.append({"type": "null"})
    return {
        "type": "object",
        "description": section.about,
        "propertyNames": _ref("name"),
        "additionalProperties": shapes[0] if len(shapes) == 1 else {"anyOf": shapes},
    }


def _sizes() -> Schema:
    parameter = {
        "type": "object",
        "properties": {
            "any": {"const": True},
            "minimum": {"type": "integer", "minimum": 0},
            "per": _ref("name"),
        },
        "required": ["any"],
        "additionalProperties": False,
    }
    numbers = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
    return {
        "type": "object",
        "description": "numbers, sweeps, computed sizes, and parameters (`any`)",
        "propertyNames": _ref("name"),
        "additionalProperties": {"anyOf": [_ref("expression"), numbers, parameter]},
    }


def _allow() -> Schema:
    item = {
        "type": "object",
        "properties": {"rule": {"type": "string"}, "reason": {"type": "string"}},
        "required": ["rule", "reason"],
        "additionalProperties": False,
    }
    return {
        "type": "array",
        "description": "warnings that the author accepts, and why",
        "items": item,
    }
