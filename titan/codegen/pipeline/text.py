"""Writes kernel files: blocks of statements with their indentation. Knows no meaning."""

from __future__ import annotations

from collections.abc import Iterable

Block = list["Line"]
Line = str | tuple[str, Block]  # a statement, or one that holds others: `for: ...` with `do`


def block(lines: Iterable[Line], indent: int) -> list[str]:
    """The lines of a block; a nested one stands under `do:` (or `then:` of an `if`)."""
    made: list[str] = []
    space = " " * indent
    for line in lines:
        if isinstance(line, str):
            head, *options = line.split("\n")
            made.append(f"{space}- {head}")
            made += [f"{space}  {option}" for option in options]
        else:
            head, inner = line
            key = "then" if head.startswith("if:") else "do"
            made += [f"{space}- {head}", f"{space}  {key}:"]
            made += block(inner, indent + 4)
    return made


def section(name: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    """A top-level section; nothing where it has no entries."""
    rows = [f"  {key}: {value}" for key, value in entries]
    return [f"{name}:", *rows] if rows else []


def behind(variable: str, lag: int) -> str:
    """`variable - lag` as one writes it; a negative lag lies ahead."""
    if variable.isdigit():
        return str(int(variable) - lag)
    if not lag:
        return variable
    return f"{variable} - {lag}" if lag > 0 else f"{variable} + {-lag}"


def inner(expression: str) -> str:
    """The expression as an operand: in brackets where it is more than a name."""
    return f"({expression})" if " " in expression else expression
