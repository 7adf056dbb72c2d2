"""Certificates of verdicts: of every kernel of the library, and of every package that has one.

    python -m benchmarks.bench_certificates [NAME...] [--write] [--states N]

Prints a table: configurations, those followed by one step, bytes, bytes packed with gzip, and the
processor seconds that the checker takes; `--write` puts it into docs/reference/certificates.md. A
package is built with the schedules of `.titan/schedules.sqlite`, without a toolchain; packages
whose sync programs differ in nothing but names are one row.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Iterator
from pathlib import Path

from titan.codegen.pipeline.build import BuildLimits, BuildRefused, build
from titan.codegen.tile.load import load_tile, targets_of
from titan.foundation.resources import root
from titan.package.canonical import for_engines, nameless
from titan.proof.check import check
from titan.proof.write import write
from titan.sync.open_numbers import NotCoveredError
from titan.sync.program import SyncProgram
from titan.verify.lowering import sync_program
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import read_family

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "certificates.md"
MARK = "<!-- table -->"
HEAD = (
    "| program | target | configurations | by one step | bytes | gzip | checked in, s |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
)


def library() -> Iterator[tuple[str, SyncProgram]]:
    """The first kernel of each file."""
    for path in sorted(root("protocols").glob("*.yaml")):
        family, _, _ = read_family(str(path), VerifyOptions())
        assert family is not None
        yield path.stem, sync_program(family.kernels[0]).program


def packages() -> Iterator[tuple[str, SyncProgram]]:
    """Every tile program for each of its targets; what is refused is left out."""
    limits = BuildLimits(5.0, verify_seconds=20.0, cache=".titan/schedules.sqlite")
    for path in sorted((root("protocols") / "tiles").glob("*.yaml")):
        text = path.read_text("utf-8")
        for target in targets_of(str(path)):
            try:
                made = build(load_tile(str(path), target=target), text, limits)
            except BuildRefused:
                continue
            yield f"{path.stem} (package)", for_engines(made.program)


def row(name: str, program: SyncProgram, states_max: int) -> str:
    """One line of the table."""
    head = f"| `{name}` | {program.target} |" if "(" not in name else (
        f"| `{name.split(maxsplit=1)[0]}` (package) | {program.target} |"
    )  # fmt: skip
    try:
        text = write(program, states_max=states_max)
    except NotCoveredError as reason:
        return f"{head} none: {reason} | | | | |"
    started = time.process_time()
    covered = check(text)
    spent = time.process_time() - started
    packed = len(gzip.compress(text.encode()))
    counts = f"{covered.states:,} | {covered.alone:,} | {len(text):,} | {packed:,}"
    return f"{head} {counts} | {spent:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--states", type=int, default=12_000)
    arguments = parser.parse_args()
    rows = [HEAD]
    print(HEAD)
    seen: dict[SyncProgram, str] = {}
    for source in (library(), packages()):
        for name, program in source:
            if arguments.names and name.split()[0] not in arguments.names:
                continue
            if nameless(program) in seen:
                continue
            seen[nameless(program)] = name
            rows.append(row(name, program, arguments.states))
            print(rows[-1], flush=True)
    if arguments.write:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(page[: page.index(MARK)] + MARK + "\n" + "\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
