"""A sync program, or another value of data classes, as one line of text, and back.

What is read is checked by building it again: a text that is not that of the value it yields is
refused.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, Literal, get_args, get_origin, get_type_hints

from titan.sync import expression, program
from titan.sync.declared import refuse_names

_TYPES: dict[str, Any] = {
    name: item
    for module in (program, expression)
    for name, item in vars(module).items()
    if isinstance(item, type) and (is_dataclass(item) or issubclass(item, StrEnum))
}
_HIDDEN = ("span", "label", "contents")
_LEAST = {  # of numbers that the language has no smaller ones of
    "roles": {"agents": 1, "threads": 1, "cta": 0},
    "parameters": {"minimum": 0},
    "barriers": {"count": 0, "stages": 1, "cta": 0},
    "named_barriers": {"stages": 1},
    "pools": {"available": 0},
    "buffers": {"stages": 1, "parts": 1, "units": 1, "offset": 0, "cta": 0},
}


def text_of(value: object) -> str:
    """The value, one line; what only reports show is left out."""
    return json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=True)


def value_of(kind: type, text: str) -> Any:
    """Raises ValueError for a text that `text_of` does not write of a value of this kind."""
    try:
        value = _built(json.loads(text), {**_TYPES, kind.__name__: kind})
        fitting = _fits(value, kind)
    except (TypeError, AttributeError, KeyError, IndexError, RecursionError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from None
    if not fitting or text_of(value) != text:
        raise ValueError(f"not the text of a {kind.__name__}")
    return value


def program_of(text: str) -> program.SyncProgram:
    """The sync program of a text. Raises ValueError, also for what no kernel file can say."""
    value: program.SyncProgram = value_of(program.SyncProgram, text)
    refuse_names(value)
    for part, least in _LEAST.items():
        for item in getattr(value, part):
            for name, number in least.items():
                if getattr(item, name) < number:
                    raise ValueError(f"{name} of {item.name} is less than {number}")
    for size in value.parameters:
        if size.value is not None and size.value < size.minimum:
            raise ValueError(f"{size.name} is less than {size.minimum}")
    for role in value.roles:
        for operation in program.walk(role.body):
            if isinstance(operation, program.Asynchronous) and operation.chunks < 1:
                raise ValueError("an asynchronous operation has no chunk")
    return value


def digest_of(text: str) -> str:
    """The SHA-256 of the text in UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


_HINTS: dict[type, dict[str, object]] = {}  # of the fields of each class met


def _fits(value: object, kind: object) -> bool:
    """Whether the value is what is declared, down to each field: no number is a truth value."""
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        if not isinstance(value, tuple):
            return False
        several = len(arguments) == 2 and arguments[1] is Ellipsis
        kinds = arguments[:1] * len(value) if several else arguments
        return len(value) == len(kinds) and all(map(_fits, value, kinds))
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in arguments
    if arguments:  # one of several
        return any(_fits(value, one) for one in arguments)
    own: type = type(value)
    if not is_dataclass(own):
        return own is kind
    if own not in _HINTS:
        _HINTS[own] = get_type_hints(own)
    return (
        isinstance(kind, type)
        and isinstance(value, kind)
        and all(
            _fits(getattr(value, field.name), _HINTS[own][field.name])
            for field in fields(own)
            if field.name not in _HIDDEN
        )
    )


def _plain(value: object) -> object:
    if isinstance(value, StrEnum):
        return [type(value).__name__, str(value)]
    if is_dataclass(value) and not isinstance(value, type):
        own = [_plain(getattr(value, f.name)) for f in fields(value) if f.name not in _HIDDEN]
        return [type(value).__name__, *own]
    if isinstance(value, tuple):
        return ["", *map(_plain, value)]
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"a program holds {type(value).__name__}")


def _built(value: Any, types: dict[str, Any]) -> Any:
    if not isinstance(value, list):
        return value
    name, *rest = value
    parts = [_built(part, types) for part in rest]
    if name == "":
        return tuple(parts)
    kind = types[name]
    if issubclass(kind, StrEnum):
        return kind(*parts)
    names = [f.name for f in fields(kind) if f.name not in _HIDDEN]
    return kind(**dict(zip(names, parts, strict=True)))
