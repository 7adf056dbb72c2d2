"""Tables of what `python -m benchmarks.amd_code FOLDER --store` has measured of AMD assembly.

    python -m benchmarks.amd_rows

Writes docs/reference/real_code.md between its marks from benchmarks/results/amd_code.json.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.amd_code import RESULTS
from benchmarks.pages import write_between

PAGE = Path(__file__).parents[1] / "docs/reference/real_code.md"
_PACKAGE = re.compile(r"(\w+)_gfx\w+-(gfx\w+)$")


def named(name: str) -> str:
    """`package gemm, gfx942` of the name of a folder; files with their targets as they are."""
    package = _PACKAGE.match(name)
    if package is not None:
        return f"package `{package[1]}`, {package[2]}"
    file, comma, target = name.partition(", ")
    return f"`benchmarks/amd/{file}.hip`, {target}" if comma else f"`{name}`"


def mutant_rows(measured: dict[str, dict[str, Any]]) -> list[str]:
    """One row a kernel: how many mutants are refuted, and what becomes of the others."""
    rows = [
        "| kernel | mutants refuted | redundant | equivalent | without an argument |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, found in sorted(measured.items()):
        counts = (len(found[kind]) for kind in ("redundant", "equivalent", "left"))
        cells = (named(name), f"{found['refuted']} of {found['total']}", *map(str, counts))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def any_rows(measured: dict[str, str]) -> list[str]:
    """One row a kernel: for which numbers of trips it is verified, or why not for any."""
    rows = ["| kernel | any number of trips |", "| --- | --- |"]
    return rows + [f"| {named(name)} | {text} |" for name, text in sorted(measured.items())]


def main() -> None:
    """Write both tables."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    for mark, rows in (
        ("amd mutants", mutant_rows(kept.get("mutants", {}))),
        ("amd any number", any_rows(kept.get("any", {}))),
    ):
        text = "\n".join(rows)
        write_between(PAGE, f"<!-- {mark} -->", f"<!-- end of {mark} -->", f"\n{text}\n")


if __name__ == "__main__":
    main()
