"""Folders for temporary files, and the message where there can be none.

A place that cannot be written (TMPDIR names nothing, the disk is full) says nothing of what was to
be done there: it is reported as what it is, never as a refusal of the work.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from titan.foundation.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class NoScratch(UserError):
    """Temporary files cannot be written."""


@contextmanager
def scratch(prefix: str = "titan-") -> Iterator[Path]:
    """A folder that is removed at the end. Raises NoScratch."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise _none(error) from None
    with folder as name:
        try:
            yield Path(name)
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise _none(error) from None


def environment() -> dict[str, str]:
    """The environment of a tool, with the folder that Python has found writable as TMPDIR."""
    try:
        return {**os.environ, "TMPDIR": tempfile.gettempdir()}
    except OSError as error:
        raise _none(error) from None


def _none(error: OSError) -> NoScratch:
    reason = (error.strerror or str(error)).split(" found in ")[0].lower()
    return NoScratch(f"temporary files cannot be written: {reason}; TMPDIR names a folder for them")
