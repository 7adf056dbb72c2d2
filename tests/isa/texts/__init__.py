"""Small PTX texts, written for the tests."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.ptx")))


def text_of(name: str) -> str:
    """The PTX text called `name`."""
    return (FOLDER / f"{name}.ptx").read_text(encoding="utf-8")
