"""Hooks of mkdocs: pages and pictures of the gallery, made while the site is built.

Nothing of it is committed: the files of `protocols/` are what is shown. Links out of `docs/` have
no place on the site and become plain text.
"""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- gallery -->"
PLACE = "reference/gallery"
SECONDS = 2.0  # of processor time for the first attempt at a schedule
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:\.\./|schemas|protocols|examples|README)[^)]*\)")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Adds a page for each kernel and a picture for each loop."""
    from mkdocs.structure.files import File

    import titan

    for path in kernels():
        page = titan.verify(str(path.relative_to(ROOT))).html()
        files.append(File.generated(config, f"{PLACE}/{path.stem}.html", content=page))
    for path in loops():
        result = titan.schedule(str(path), solver="rau", budget_seconds=SECONDS)
        if result.schedule is None:
            result = titan.schedule(str(path))
        files.append(File.generated(config, f"{PLACE}/{path.stem}.svg", content=result.svg()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fills the gallery in; links out of `docs/` lose their target."""
    text = _OUTSIDE.sub(r"\1", markdown)
    return text.replace(MARK, listed()) if MARK in text else text


def kernels() -> list[Path]:
    """The kernel files of the library."""
    return sorted((ROOT / "protocols").glob("*.yaml"))


def loops() -> list[Path]:
    """The loops of the library."""
    return sorted((ROOT / "protocols" / "loops").glob("*.yaml"))


def listed() -> str:
    """The kernels with the first words of their files, then the pictures."""
    rows = ["## Kernels", "", "| kernel | what it models |", "| --- | --- |"]
    rows += [f"| [{p.stem}](gallery/{p.stem}.html) | {summary(p)} |" for p in kernels()]
    rows += ["", "## Schedules", ""]
    for path in loops():
        rows += [
            f"### {path.stem}",
            "",
            summary(path),
            "",
            f"![{path.stem}](gallery/{path.stem}.svg)",
        ]
        rows.append("")
    return "\n".join(rows)


def summary(path: Path) -> str:
    """The first sentence of the note of a file, or of the comment at its head."""
    from ruamel.yaml import YAML

    text = path.read_text(encoding="utf-8")
    note = YAML(typ="safe").load(text).get("note") or " ".join(_comment(text))
    return re.split(r"(?<=[.:])\s", " ".join(str(note).split()))[0].replace("|", "\\|")


def _comment(text: str) -> list[str]:
    """The words of the comment at the head of a file."""
    lines = text.splitlines()
    return [line.lstrip("# ").strip() for line in takewhile(lambda x: x.startswith("#"), lines)]
