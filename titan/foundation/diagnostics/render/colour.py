"""Whether to colour, and how.

Colour is for a terminal; NO_COLOR (any value) turns it off, FORCE_COLOR on, and an explicit choice
outranks both.
"""

from __future__ import annotations

import os
from typing import TextIO

_CODES = {
    "error": "1;31",
    "warning": "1;33",
    "info": "1;36",
    "frame": "1;34",
    "strong": "1",
    "secondary": "1;34",
}


def wanted(stream: TextIO, choice: str = "auto") -> bool:
    """Whether output to `stream` is coloured; `choice` is auto, always or never."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, on: bool) -> str:
    """`text` in a style of the table, or as it is."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if on and text else text
