"""Reads an input file into a `Source`, or says as a diagnostic why that cannot be done.

At most one byte over the limit is read, whatever the size of the file; only regular files are read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from itertools import islice
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import nearest, quoted
from titan.foundation.source.span import Source, whole_file

BYTES_MAX = 1 << 20
NAMES_MAX = 1_000  # that a missing file's name is compared with
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
        helps = _near(path) if error.errno == errno.ENOENT else ()
        return None, [_unreadable(name, (error.strerror or "it cannot be opened").lower(), helps)]
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


def _unreadable(path: str, reason: str, helps: tuple[str, ...] = ()) -> Diagnostic:
    headline = f"the file cannot be read: {reason}"
    return diagnostic("TTN002", headline, whole_file(path), helps=helps)


def _near(path: str | Path) -> tuple[str, ...]:
    """The file of the same folder whose name is most like that of a missing one."""
    folder = Path(path).parent
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, NAMES_MAX)]
    except OSError:
        return ()
    close = nearest(Path(path).name, names)
    if close is None or nearest(Path(path).stem, [Path(close).stem]) is None:  # the suffix alone
        return ()
    return (f"did you mean {quoted(str(folder / close))}?",)
