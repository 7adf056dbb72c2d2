"""Files and folders written whole or not at all.

A file gets a new name beside its place, and takes the place in one step. So does a folder: by
`rename` where nothing is there, by exchanging the two names where a folder of ours is; its files
are made durable first. Whoever is killed in between leaves the old or the new one, and perhaps
something next to it; of a folder, the next write removes that. Of several who write one folder at
the same time the last one stays, whole. A folder that is not ours is never replaced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from titan.foundation.errors import UserError

_MARK = ".titan-"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
TRIES = 100


class CannotWrite(UserError):
    """The folder cannot be written or replaced; what was there is as it was."""


def write_text(path: str | Path, text: str, *, durable: bool = False) -> None:
    """As `write_bytes`, in UTF-8. Raises OSError, and UnicodeEncodeError before anything else."""
    write_bytes(path, text.encode("utf-8"), durable=durable)


def write_bytes(path: str | Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file in one step: it holds the old bytes or the new ones, never a part.

    The file keeps its permissions, and a link to it stays a link. What is not an ordinary file (a
    device, a pipe) is written to. `durable`: after a power cut, too. Raises OSError, which names
    the file.
    """
    place = Path(os.path.realpath(path))
    mode = place.stat().st_mode if place.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        place.write_bytes(data)
        return
    new = _beside(place)
    try:
        with new.open("xb") as stream:
            stream.write(data)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        if mode is not None:
            new.chmod(stat.S_IMODE(mode))
        os.replace(new, place)
    except OSError as error:
        _remove(new)
        raise OSError(error.errno, error.strerror, str(path)) from None
    except BaseException:
        _remove(new)
        raise


def _remove(new: Path) -> None:
    with contextlib.suppress(OSError):
        new.unlink(missing_ok=True)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder that may hold others: moved there only when all are whole.

    Raises OSError; then no file is in its place unless moving itself failed midway.
    """
    import tempfile

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=_MARK, dir=folder) as draft:
        for name, data in files.items():
            (Path(draft) / name).write_bytes(data)
        for name in files:
            os.replace(Path(draft) / name, folder / name)


def _beside(place: Path) -> Path:
    import secrets

    return place.parent / f".{place.name}{_MARK}{secrets.token_hex(8)}"


def write_folder(
    folder: str | Path, files: Mapping[str, bytes], may_replace: Callable[[Path], bool]
) -> None:
    """Write a folder of files, by their names in it. Raises CannotWrite.

    `may_replace` says whether an existing folder is one of ours.
    """
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
    """Refuse beforehand what cannot be written, before the work is done. Raises CannotWrite."""
    place = Path(os.path.abspath(folder))
    there = next(above for above in (place, *place.parents) if os.path.lexists(above))
    if not there.is_dir():
        raise CannotWrite(f"{folder}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise CannotWrite(f"{folder}: permission denied")


@contextlib.contextmanager
def _new_folder(place: Path) -> Iterator[Path]:
    """A new folder beside `place`, locked while it is ours and removed at the end if it is there.

    After an exchange the old folder has its name.
    """
    import shutil

    while True:
        new = _beside(place)
        new.mkdir()
        descriptor = _locked(new)
        if descriptor is not None:
            break  # else another writer took it for left over before it was locked
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)
        os.close(descriptor)


def _locked(folder: Path) -> int | None:
    """A descriptor of the folder, locked by us; None where another writer was faster."""
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass  # it is being removed, or is gone
    os.close(descriptor)
    return None


def _remove_left_over(place: Path) -> None:
    """Folders of writes to `place` that were killed: those that no process holds locked."""
    import fcntl
    import shutil

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
    folders = {folder}
    for name, data in files.items():
        assert ".." not in PurePosixPath(name).parts, "file names are fixed by TITAN"
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        folders.update(item for item in path.parents if item.is_relative_to(folder))
        with path.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    for below in sorted(folders, reverse=True):
        _sync_folder(below)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_place(new: Path, place: Path, may_replace: Callable[[Path], bool]) -> None:
    """Where another writer changes the place between a look and a step, look again."""
    for _ in range(TRIES):
        try:
            _step_into(new, place, may_replace)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise
        else:
            return
    raise CannotWrite(f"{place}: other programs write there")


def _step_into(new: Path, place: Path, may_replace: Callable[[Path], bool]) -> None:
    if not os.path.lexists(place):
        os.rename(new, place)
        return
    if place.is_symlink() or not place.is_dir():
        raise CannotWrite(f"{place} exists and is not a folder")
    if not any(place.iterdir()):
        os.rename(new, place)  # takes the place of an empty folder, in one step
        return
    if not may_replace(place):
        raise CannotWrite(f"{place} exists and was not written by titan")
    _exchange(new, place)


def _exchange(one: Path, other: Path) -> None:
    """Both names change their folders in one step (renameat2 of Linux)."""
    import ctypes

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
