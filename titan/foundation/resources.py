"""Finds the data folders that stand beside the package: protocols, litmus, backends and others.

In a checkout the live files at the top level are used, also under an editable install; a wheel
carries copies under `titan/_data`. The checkout comes first, because a stale copy beside the
package would otherwise hide the live files.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template

KINDS = ("protocols", "litmus", "backends", "proofs", "schemas", "examples")
_PROJECT = re.compile(r'^\[project\]\nname = "titan-verify"$', re.MULTILINE)


@cache
def checkout() -> Path | None:
    """The source tree that this package is run from, or None when it is installed from a wheel.

    The name in pyproject.toml is checked, so that a copy inside another project is not taken for
    it.
    """
    folder = Path(__file__).resolve().parents[2]
    try:
        content = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return folder if _PROJECT.search(content) else None


def root(kind: str) -> Path:
    """The folder of one kind of data. Raises ValueError for a kind that is not in `KINDS`."""
    if kind not in KINDS:
        raise ValueError(f"no kind of data {kind!r}; known are {', '.join(KINDS)}")
    tree = checkout()
    if tree is not None:
        return tree / kind
    return Path(__file__).resolve().parents[1] / "_data" / kind


def template(backend: str, name: str) -> Template:
    """A source template of `backends/<backend>/`, which may extend one of `backends/common/`.

    Names that a template does not know are errors. Nothing is escaped: the texts are C and C++, and
    whoever fills a template has checked what goes into it.
    """
    return _environment(root("backends") / backend).get_template(name)


@cache
def _environment(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([folder, folder.parent / "common"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
