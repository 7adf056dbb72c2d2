"""A sync program as text, the same for equal programs, and its digest.

Every field that takes part in the equality of programs is written under its name, operations one a
line, blocks indented. Spans and labels are left out: they change nothing that is executed.
Written from the data classes themselves, so that a field that is added later is part of the text.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeGuard

from titan.sync.contents import as_engines_see
from titan.sync.expression import Expression, to_text
from titan.sync.program import SyncProgram, without_computations

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def canonical(program: SyncProgram) -> str:
    """The text of a program, its computations included where it holds them."""
    return "\n".join(_lines(program, 0)) + "\n"


def digest(program: SyncProgram) -> str:
    """sha256 of the canonical text."""
    return hashlib.sha256(canonical(program).encode()).hexdigest()


def for_engines(program: SyncProgram) -> SyncProgram:
    """The program as engines see it: no computations, copies to several CTAs and contents apart."""
    roles = tuple(replace(role, body=without_computations(role.body)) for role in program.roles)
    return as_engines_see(replace(program, roles=roles))


def nameless(program: SyncProgram) -> SyncProgram:
    """What a verdict depends on: the program as engines see it, whatever its name."""
    return replace(for_engines(program), name="")


def _lines(thing: DataclassInstance, depth: int) -> list[str]:
    pad = "  " * depth
    head = [pad + type(thing).__name__]
    below: list[str] = []
    for item in fields(thing):
        if not item.compare:
            continue
        value = getattr(thing, item.name)
        if _is_block(value):
            below.append(f"{pad}  {item.name}:")
            for inner in value:
                below += _lines(inner, depth + 2)
        else:
            head.append(f"{item.name}={_inline(value)}")
    return [" ".join(head), *below]


def _is_block(value: object) -> TypeGuard[tuple[DataclassInstance, ...]]:
    """A tuple of things that get a line each."""
    return isinstance(value, tuple) and bool(value) and all(_is_thing(inner) for inner in value)


def _is_thing(value: object) -> TypeGuard[DataclassInstance]:
    expression = isinstance(value, Expression)
    return is_dataclass(value) and not isinstance(value, type) and not expression


def _inline(value: object) -> str:
    if isinstance(value, Expression):
        return f"[{to_text(value)}]"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "(" + ", ".join(_inline(inner) for inner in value) + ")"
    if _is_thing(value):
        inner = ", ".join(
            f"{item.name}={_inline(getattr(value, item.name))}"
            for item in fields(value)
            if item.compare
        )
        return f"{type(value).__name__}({inner})"
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    raise TypeError(f"a program holds {type(value).__name__}, which has no canonical text")
