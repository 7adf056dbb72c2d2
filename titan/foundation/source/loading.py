"""Reads an input file into a `Source`, or says as a diagnostic why that cannot be done.

At most one byte over the limit is read, whatever the size of the file; only regular files are read.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.span import Source, whole_file

BYTES_MAX = 1 << 20
# What YAML does not allow, and the private use area, which `indexed` needs.
_REFUSED = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\uf900-\ufffd\U00010000-\U0010ffff]")


def load_file(
    path: str | Path, bytes_max: int = BYTES_MAX
) -> tuple[Source | None, list[Diagnostic]]:
    """The decoded file, or None and what is wrong with it."""
    name = str(path)
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return None, [_unreadable(name, "it is not a regular file")]
        with Path(path).open("rb") as stream:
            data = stream.read(bytes_max + 1)
    except OSError as error:
        return None, [_unreadable(name, (error.strerror or "it cannot be opened").lower())]
    except ValueError as error:
        return None, [_unreadable(name, str(error))]
    return load_bytes(data, name, bytes_max)


def load_bytes(
    data: bytes, path: str, bytes_max: int = BYTES_MAX
) -> tuple[Source | None, list[Diagnostic]]:
    """The decoded text of `data` under the name `path`, or None and what is wrong with it."""
    if len(data) > bytes_max:
        headline = f"the file is larger than {bytes_max} bytes"
        return None, [diagnostic("TTN003", headline, whole_file(path))]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = Source(path, data[: error.start].decode("utf-8-sig", "replace"))
        place = before.span(len(before.text), len(before.text))
        headline = f"byte 0x{data[error.start]:02x} is not valid UTF-8"
        return None, [diagnostic("TTN002", headline, place)]
    return load_text(text, path)


def load_text(text: str, path: str) -> tuple[Source | None, list[Diagnostic]]:
    """A source for text that is already decoded.

    Control characters and lone surrogates are refused.
    """
    source = Source(path, text)
    found = _REFUSED.search(text)
    if found is None:
        return source, []
    number = ord(found.group())
    headline = f"character U+{number:04X} is not allowed in a kernel file"
    place = source.span(found.start(), found.end())
    return None, [diagnostic("TTN002", headline, place, "this character")]


def _unreadable(path: str, reason: str) -> Diagnostic:
    return diagnostic("TTN002", f"the file cannot be read: {reason}", whole_file(path))
