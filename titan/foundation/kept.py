"""Results of earlier runs, in an sqlite file, each signed with a key of this user.

A file that cannot be used holds nothing, nor does a row whose signature does not fit: nobody makes
an answer by writing a row, and none comes with a checkout. What an answer depends on is the
caller's to put into its key; `code_digest` is the part for TITAN itself.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import secrets
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

KEY_BYTES = 32
# What sqlite3 raises for a file that is damaged, its own messages among what it cannot decode.
DAMAGE = (sqlite3.Error, OSError, ValueError)
_CODE = (".py", ".c", ".h", ".yaml", ".json", ".j2", ".pyi")


class SignedStore:
    """Bytes by key. `path` None holds nothing and keeps nothing; `damage` says why a file does."""

    def __init__(self, path: str | Path | None) -> None:
        self.database: sqlite3.Connection | None = None
        self.damage = ""
        self._key = b""
        if path is None:
            return
        try:
            self._key = secret()
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self.database = sqlite3.connect(path, timeout=5)
            self.database.execute(
                "CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value BLOB, mark TEXT)"
            )
        except DAMAGE as error:
            self._give_up(error)

    @classmethod
    def of_user(cls, name: str) -> SignedStore:
        """The file of this name in the user's cache folder."""
        try:
            return cls(cache_folder() / name)
        except OSError:
            return cls(None)

    def _give_up(self, error: Exception) -> None:
        self.database = None
        self.damage = (getattr(error, "strerror", None) or str(error)).lower()

    def get(self, key: str) -> bytes | None:
        """What was kept under the key by this user, byte for byte; else None."""
        if self.database is None:
            return None
        try:
            row = self.database.execute(
                "SELECT value, mark FROM kept WHERE key = ?", (key,)
            ).fetchone()
        except DAMAGE:
            return None
        if row is None or not isinstance(row[0], bytes):
            return None
        return row[0] if hmac.compare_digest(self._mark(key, row[0]), str(row[1])) else None

    def put(self, key: str, value: bytes) -> None:
        """Keep bytes; a file that cannot take them keeps nothing from now on."""
        if self.database is None:
            return
        try:
            with self.database:
                self.database.execute(
                    "INSERT OR REPLACE INTO kept VALUES (?, ?, ?)",
                    (key, value, self._mark(key, value)),
                )
        except DAMAGE as error:
            self._give_up(error)

    def _mark(self, key: str, value: bytes) -> str:
        return hmac.new(self._key, f"{key}\0".encode() + value, hashlib.sha256).hexdigest()

    def close(self) -> None:
        """Close the file."""
        if self.database is not None:
            self.database.close()


def cache_folder() -> Path:
    """Where TITAN keeps what it can make again: in the user's cache folder.

    Raises OSError where no home is known, as of a user of a container that only has a number.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "titan"
    except RuntimeError:
        raise OSError(errno.ENOENT, "the user has no home folder") from None


def secret() -> bytes:
    """A key of this user, beside no repository, by which what is kept is signed.

    Raises OSError where no file for it can be made.
    """
    path = cache_folder() / "gate.key"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        _offer(path, secrets.token_bytes(KEY_BYTES))
    found = path.read_bytes()
    if len(found) != KEY_BYTES:
        raise OSError(f"{path} is not a key")
    return found


def _offer(path: Path, key: bytes) -> None:
    """Make the file, whole from its first moment; another process may have made it before."""
    handle, name = tempfile.mkstemp(prefix=".", suffix=".key", dir=path.parent)  # mode 600
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(key)
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)


@cache
def code_digest() -> str:
    """A hash of all that answers follow from here: modules, cores' sources, facts of targets.

    And of the versions of Python and of the solver.
    """
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from titan.foundation.resources import root

    package = Path(__file__).resolve().parents[1]
    made = hashlib.sha256(platform.python_version().encode())
    for solver in ("z3-solver", "pysmt"):
        try:
            made.update(f"{solver} {version(solver)}\0".encode())
        except PackageNotFoundError:
            continue
    for folder in (package, root("backends")):
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.suffix in _CODE and "_data" not in inside.parts and path.is_file():
                made.update(inside.as_posix().encode() + b"\0" + path.read_bytes())
        cores = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("_core*.so"))
        made.update(repr([name.split(".")[0] for name in cores]).encode())
    return made.hexdigest()
