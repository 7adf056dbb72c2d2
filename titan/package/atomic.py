"""A folder of files, written whole or not at all.

The files are written to a new folder beside the place and made durable, then that folder takes
the place in one step: by `rename` where nothing is there, by exchanging the two names where a
package is. Whoever is killed in between leaves the old folder or the new one, and perhaps a folder
beside it that the next write takes away. A folder that is no package is never replaced.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from titan.foundation.errors import UserError

_MARK = ".titan-"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class CannotWrite(UserError):
    """The folder cannot be written or replaced; what was there is as it was."""


def write_folder(
    folder: str | Path, files: Mapping[str, bytes], may_replace: Callable[[Path], bool]
) -> None:
    """Raises CannotWrite. `may_replace` says whether an existing folder is one of ours."""
    place = Path(os.path.abspath(folder))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_over(place)
        with _new_folder(place) as new:
            _fill(new, files)
            _take_place(new, place, may_replace)
            _sync_folder(place.parent)
    except OSError as error:
        raise CannotWrite(f"{folder}: {(error.strerror or str(error)).lower()}") from None


def refuse_unwritable(folder: str | Path) -> None:
    """What can be told beforehand, so that nobody works for nothing. Raises CannotWrite."""
    place = Path(os.path.abspath(folder))
    there = next(above for above in (place, *place.parents) if os.path.lexists(above))
    if not there.is_dir():
        raise CannotWrite(f"{folder}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise CannotWrite(f"{folder}: permission denied")


@contextlib.contextmanager
def _new_folder(place: Path) -> Iterator[Path]:
    """A new folder beside `place`, locked while it is ours and removed at the end if it is there.

    After an exchange the old folder has its name.
    """
    new = place.parent / f".{place.name}{_MARK}{secrets.token_hex(8)}"
    new.mkdir()
    descriptor = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)
        os.close(descriptor)


def _remove_left_over(place: Path) -> None:
    """Folders of writes to `place` that were killed: those that nobody holds locked."""
    for path in place.parent.glob(f".{_escaped(place.name)}{_MARK}*"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # somebody writes there now
        finally:
            os.close(descriptor)


def _escaped(name: str) -> str:
    from glob import escape

    return escape(name)


def _fill(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        assert name == Path(name).name, "names of files are fixed by us"
        with (folder / name).open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_place(new: Path, place: Path, may_replace: Callable[[Path], bool]) -> None:
    if not os.path.lexists(place):
        os.rename(new, place)
        return
    if place.is_symlink() or not place.is_dir():
        raise CannotWrite(f"{place} is there and no folder")
    if not any(place.iterdir()):
        os.rename(new, place)  # takes the place of an empty folder, in one step
        return
    if not may_replace(place):
        raise CannotWrite(f"{place} is there and no package of titan")
    _exchange(new, place)


def _exchange(one: Path, other: Path) -> None:
    """Both names change their folders in one step (renameat2 of Linux)."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    code = errno.ENOSYS
    if rename is not None:
        paths = os.fsencode(one), os.fsencode(other)
        if rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
            return
        code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EXDEV):
        text = "this file system cannot exchange folders in one step; remove the old one first"
        raise CannotWrite(f"{other}: {text}")
    raise OSError(code, os.strerror(code))
