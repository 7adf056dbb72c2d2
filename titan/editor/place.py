"""The context of an editor's position: the enclosing keys and the word under the cursor.

From the text alone, so that completion also works in a file that cannot be read at the moment.
Lines and columns count from 0, as the protocol has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = re.compile(r"^(\s*)((?:- )*)\s*([A-Za-z_][\w ]*?)\s*:(?:\s|$)")


@dataclass(frozen=True, slots=True)
class CursorContext:
    """`keys` are the enclosing keys from the outside in, those of list items included.

    `before` is the text of the line before the position; `statement` are the keys of the list item
    that the position stands in, the first one first; `new_item`: it stands behind a dash.
    """

    keys: tuple[str, ...]
    before: str
    statement: tuple[str, ...] = ()
    new_item: bool = False


def word_at(text: str, line: int, column: int) -> tuple[str, int]:
    """The name at a position and its first column; empty if there is none."""
    lines = text.split("\n")
    if not 0 <= line < len(lines):
        return "", 0
    for found in _WORD.finditer(lines[line]):
        if found.start() <= column <= found.end():
            return found.group(), found.start()
    return "", 0


def place_at(text: str, line: int, column: int) -> CursorContext:
    """The keys around a position, by indentation."""
    lines = text.split("\n")
    current = lines[line] if 0 <= line < len(lines) else ""
    before = current[:column]
    indent = _indent(before)
    keys: list[str] = []
    statement: list[str] = []
    in_item = not before.lstrip().startswith("-")
    level = indent
    for number in range(min(line, len(lines)) - 1, -1, -1):
        row = lines[number]
        if not row.strip() or row.lstrip().startswith("#"):
            continue
        found = _KEY.match(row)
        here = _indent(row)
        dash = row.lstrip().startswith("- ")
        content = here + 2 if dash else here
        if found is None:
            continue
        if in_item and content == indent:  # a key of the same list item, or mapping
            statement.insert(0, found.group(3))
            if dash:
                in_item = False
                level = here
                keys.insert(0, "-")
            continue
        if content < level or (dash and here < level):
            in_item = False
            keys.insert(0, found.group(3))
            level = here
            if dash:
                keys.insert(0, "-")
        if level == 0:
            break
    return CursorContext(tuple(keys), before, tuple(statement), before.lstrip().startswith("-"))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))
