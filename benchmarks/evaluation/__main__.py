"""Measures what needs no device, and writes the page of the whole evaluation.

Run: python -m benchmarks.evaluation measure [QUESTION ...]   (results are kept)
     python -m benchmarks.evaluation page [FILE]              (from what is kept, and from devices)
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import TypedDict

from benchmarks.evaluation import correctness, performance
from benchmarks.evaluation.correctness import results
from benchmarks.evaluation.page import documents, page
from benchmarks.evaluation.tables import Table, data, from_data
from titan.device.documents import StressDocument

STORED = "evaluation.json"
STRESSED = ("gemm_small_tiles", "gemm_small_tiles_gfx942")
SECONDS = 60.0


class Kept(TypedDict):
    """What is kept between runs."""

    kind: str
    tables: list[dict[str, object]]
    stress: StressDocument | None


def stored() -> Kept:
    """What was measured before; empty where nothing was."""
    path = results() / STORED
    if not path.is_file():
        return {"kind": "evaluation", "tables": [], "stress": None}
    found: Kept = json.loads(path.read_text(encoding="utf-8"))
    return found


def measure(questions: list[str]) -> None:
    """Measures the tables of the questions (all without one) and keeps each set as it comes."""
    made: dict[str, list[Table]] = {}
    for room in (correctness, performance):
        for question, table in room.TABLES:
            if not questions or question in questions:
                made.setdefault(question, []).append(table())
                print(question, made[question][-1].title, flush=True)
                keep(made)
    if not questions or "stress" in questions:
        kept = stored()
        kept["stress"] = stressed()
        save(kept)


def keep(made: dict[str, list[Table]]) -> None:
    """The tables take the place of those of their questions."""
    kept = stored()
    old = [from_data(item) for item in kept["tables"] if item["question"] not in made]
    new = [table for found in made.values() for table in found]
    kept["tables"] = [data(table) for table in sorted([*old, *new], key=lambda t: t.question)]
    save(kept)


def save(kept: Kept) -> None:
    """Writes what is kept."""
    (results() / STORED).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def stressed() -> StressDocument:
    """A stress run of small packages on the emulated device, with their unsafe variants."""
    from titan.codegen.pipeline.build import BuildLimits
    from titan.codegen.tile.load import load_tile, targets_of
    from titan.device.stress import StressSettings, document, stress
    from titan.foundation.resources import root
    from titan.package.produce import produce

    with tempfile.TemporaryDirectory() as name:
        folders = []
        for program in STRESSED:
            path = root("protocols") / "tiles" / f"{program}.yaml"
            tile = load_tile(path, target=targets_of(path)[0])
            text = path.read_text(encoding="utf-8")
            folders.append(produce(tile, text, Path(name), BuildLimits()).folder)
        settings = StressSettings("emulated", policies=("shuffled", "starved"), budget=SECONDS)
        runs = list(stress(folders, settings))
    return document({"name": "emulated device"}, runs)


def write_page(path: Path) -> None:
    """The page of what is kept, with the results of every device."""
    kept = stored()
    tables = [from_data(item) for item in kept["tables"]]
    devices = [*documents(results()), *documents(results().parents[1] / "litmus" / "results")]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(tables, devices, kept["stress"]), encoding="utf-8")
    print(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "page"))
    parser.add_argument("rest", nargs="*")
    options = parser.parse_args()
    if options.what == "measure":
        measure(options.rest)
    else:
        write_page(Path(options.rest[0]) if options.rest else Path("build/report/index.html"))


if __name__ == "__main__":
    main()
