"""Whether a native core that was found is the one that its Python side is written for."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from titan.foundation.errors import UserError
from titan.foundation.fingerprint import fingerprint

CData: TypeAlias = Any  # what cffi makes has no types


class StaleCoreError(UserError):
    """The native core was built from other sources or tables than those next to it."""


@cache
def expected(folder: Path) -> str:
    """The fingerprint of the sources of a package as written; read once in a process."""
    return fingerprint(folder)


def check_core(module: ModuleType, *folders: Path) -> None:
    """Raises StaleCoreError for a core that was not built from the sources in `folders`."""
    wanted = "".join(expected(folder) for folder in folders)
    if not wanted:
        return
    function = getattr(module.lib, "titan_fingerprint", None)
    if function is None or module.ffi.string(function()).decode("ascii") != wanted:
        name = module.__name__.removesuffix("._core")
        raise StaleCoreError(
            f"the native core of {name} was built from other tables: run `make setup`, or "
            "`python hatch_build.py`"
        )
