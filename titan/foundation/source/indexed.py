"""Lets an indexed name stand in a YAML flow collection: `[A[t], B[t]]`, `{stage: min(a, b)}`.

YAML ends a plain scalar at a bracket or comma inside brackets or braces. Before parsing, the
brackets and commas of an index or call are replaced, one character for one, by characters of the
private use area, and put back in each scalar: offsets stay true, and other text stays as it is.
The loader refuses characters of that area, so that nothing else is put back.

Other readers of YAML refuse such text, or read it otherwise (`{stage: min(a, b)}` has two keys for
them). It is read for the sake of old files; `titan fmt` rewrites them.
"""

from __future__ import annotations

import re

_PLAIN = "[],"
_HIDDEN = "\ue000\ue001\ue002"
_HIDE = dict(zip(map(ord, _PLAIN), _HIDDEN, strict=True))
_SHOW = dict(zip(map(ord, _HIDDEN), _PLAIN, strict=True))
_OPENING = re.compile(r"[A-Za-z0-9_][\[(]")
_INSIDE = re.compile(r"[\w\s+\-*/%<>=!.@,\[\]()]")
_CLOSING = {"[": "]", "(": ")"}
LENGTH_MAX = 400
NESTING_MAX = 8  # with the length it bounds the work for text full of open brackets


def hide(text: str) -> str:
    """`text` with the brackets and commas of every index and call on one line hidden."""
    pieces: list[str] = []
    done = 0
    while (found := _OPENING.search(text, done)) is not None:
        start = found.end() - 1
        end = _end_of_group(text, start)
        pieces.append(text[done:start])
        pieces.append(text[start:end].translate(_HIDE))
        done = end
    pieces.append(text[done:])
    return "".join(pieces)


def show(text: str) -> str:
    """What `hide` has hidden, as it was."""
    return text.translate(_SHOW)


def _end_of_group(text: str, start: int) -> int:
    """The offset behind the bracket that closes the one at `start`; `start` if there is none.

    Without a partner the bracket is left to the parser, which reports it.
    """
    expected = [_CLOSING[text[start]]]
    for position in range(start + 1, min(len(text), start + LENGTH_MAX)):
        char = text[position]
        if char in "\r\n" or _INSIDE.match(char) is None:
            break
        if char in _CLOSING:
            expected.append(_CLOSING[char])
            if len(expected) > NESTING_MAX:
                break
        elif char in "])":
            if char != expected.pop():
                break
            if not expected:
                return position + 1
    return start
