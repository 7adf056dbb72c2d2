"""Reads an input file into a `Source`, or says as a diagnostic why that cannot be done.

At most one byte over the limit is read, whatever the size of the file; only regular files are read,
and standard input where a command has taken it (`take_stdin`). A file of a known kind that is no
text (machine code, archives) is named as what it is.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from itertools import islice
from pathlib import Path

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import nearest, quoted
from titan.foundation.source.binary import binary_kind
from titan.foundation.source.span import Source, whole_file

BYTES_MAX = 1 << 20
STDIN = "<stdin>"
NAMES_MAX = 1_000  # that a missing file's name is compared with
# What YAML does not allow, and the private use area, which `indexed` needs.
_REFUSED = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\uf900-\ufffd\U00010000-\U0010ffff]")


_taken: dict[str, bytes] = {}  # standard input, read once, under its name


def take_stdin(bytes_max: int) -> str:
    """Reads standard input, at most one byte over the limit; from now on its name is a file's.

    A second time it is not read again. Raises OSError.
    """
    if STDIN in _taken:
        return STDIN
    if sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    _taken[STDIN] = sys.stdin.buffer.read(bytes_max + 1)
    return STDIN


def head_of(path: str | Path, size: int) -> bytes:
    """How a regular file, or standard input as it was taken, begins; else nothing."""
    if str(path) in _taken:
        return _taken[str(path)][:size]
    try:
        if not Path(path).is_file():  # a pipe would be waited for
            return b""
        with Path(path).open("rb") as stream:
            return stream.read(size)
    except (OSError, ValueError):
        return b""


def regular_bytes(path: str | Path, bytes_max: int) -> bytes:
    """What a regular file holds, at most one byte over the limit. Raises OSError, ValueError.

    Anything else (a pipe, a device) might be waited for, or never end; but standard input, once it
    is taken.
    """
    if str(path) in _taken:
        return _taken[str(path)][: bytes_max + 1]
    mode = Path(path).stat().st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    with Path(path).open("rb") as stream:
        return stream.read(bytes_max + 1)


def load_file(
    path: str | Path, bytes_max: int = BYTES_MAX
) -> tuple[Source | None, list[Diagnostic]]:
    """The decoded file, or None and what is wrong with it."""
    name = str(path)
    try:
        data = regular_bytes(path, bytes_max)
    except OSError as error:
        helps = near_files(path) if error.errno == errno.ENOENT else ()
        return None, [_unreadable(name, (error.strerror or "it cannot be opened").lower(), helps)]
    except ValueError as error:
        return None, [_unreadable(name, str(error))]
    return load_bytes(data, name, bytes_max)


def load_bytes(
    data: bytes, path: str, bytes_max: int = BYTES_MAX
) -> tuple[Source | None, list[Diagnostic]]:
    """The decoded text of `data` under the name `path`, or None and what is wrong with it."""
    kind = binary_kind(data)
    if kind is not None:
        headline = f"this is {kind.words}, not UTF-8 text"
        return None, [diagnostic("TTN002", headline, whole_file(path), helps=kind.helps)]
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


def near_files(path: str | Path) -> tuple[str, ...]:
    """A help that names the file of the same folder whose name is most like a missing one's."""
    folder, missing = Path(path).parent, Path(path).name
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, NAMES_MAX)]
            names = [name for name in names if name != missing]  # a link to nowhere has the name
    except OSError:
        return ()
    close = nearest(missing, names)
    if close is None or nearest(Path(path).stem, [Path(close).stem]) is None:  # the suffix alone
        return ()
    return (f"did you mean {quoted(str(folder / close))}?",)


def near_if_missing(path: str | Path) -> tuple[str, ...]:
    """The same where nothing is at the path, not even a link to nowhere; else nothing."""
    return () if os.path.lexists(path) else near_files(path)
