"""What a native core was built from, as a number that the core carries and its Python side knows.

A core whose sources or tables have changed since it was built would answer nonsense, or something
subtly wrong. So `titan_fingerprint` in the core gives the hash of what it was built from, and
`titan.foundation.native_core` compares it when the core is loaded. The module imports nothing of
the package, because the builds read it before the package is installed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

DECLARATION = "const char *titan_fingerprint(void);\n"
_SCRIPTS = ("_build_core.py", "layout.py")


def fingerprint(folder: Path) -> str:
    """The hash of the C files of the package in `folder` and below it, and of what builds them.

    The empty text where there are no sources to compare with. Raises OSError and
    UnicodeDecodeError.
    """
    sources = sorted(path for path in folder.rglob("*.[ch]") if path.is_file())
    if not sources:
        return ""
    made = hashlib.sha256()
    for path in (*sources, *(folder / name for name in _SCRIPTS if (folder / name).is_file())):
        text = path.read_text(encoding="utf-8")
        made.update(f"{path.relative_to(folder).as_posix()}\0{len(text)}\0{text}".encode())
    return made.hexdigest()[:16]


def definition(*folders: Path) -> str:
    """The function as C text, for the end of the sources of a core made from some packages."""
    found = "".join(fingerprint(folder) for folder in folders)
    return f'\nconst char *titan_fingerprint(void) {{ return "{found}"; }}\n'
