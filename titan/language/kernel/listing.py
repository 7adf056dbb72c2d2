"""Several references in one scalar: `A[t], B[t]`, or as operands `mma(A[t], B[t])`.

Outside of brackets and braces such text is a plain scalar to every reader of YAML. Commas within an
index or a call separate nothing; references have none outside of them.
"""

from __future__ import annotations

import re

from titan.foundation.source.tree import Scalar


def pieces(text: str, offset: int = 0) -> list[tuple[int, str]]:
    """The pieces between commas that stand in no bracket, with their offsets plus `offset`."""
    found, depth, start = [], 0, 0
    for position, char in enumerate(text):
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            found.append((offset + start, text[start:position]))
            start = position + 1
    found.append((offset + start, text[start:]))
    return found


def items(node: Scalar, call: str = "") -> tuple[Scalar, ...]:
    """What is listed in a scalar, each with its place; the scalar itself where it lists nothing.

    `call`: the word that may stand before the list in brackets.
    """
    called = re.fullmatch(rf"\s*{call}\s*\((.*)\)\s*", node.text, re.DOTALL) if call else None
    start, text = (called.start(1), called.group(1)) if called else (0, node.text)
    found = pieces(text, start)
    if called is None and len(found) == 1:
        return (node,)
    return tuple(_part(node, at, piece) for at, piece in found)


def _part(node: Scalar, at: int, piece: str) -> Scalar:
    text = piece.strip()
    at += len(piece) - len(piece.lstrip())
    return Scalar(text, node.part(at, max(1, len(text))))
