"""The semantics extracted from Coq beside the reference interpreter: programs, planted faults.

    python -m benchmarks.bench_proofs [--programs N] [--write]

Both step through N random programs, and with each fault planted in the interpreter until they
differ. `--write` puts the table into docs/reference/proof_checks.md. Needs coqc and ocamlopt.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.pages import write_between
from tests.proofs.check_module import ROOT, check_module
from tests.proofs.test_semantics import (
    GENERATORS,
    IN_THE_INTERPRETER,
    disagreements,
    random_walk,
)

PAGE = ROOT / "docs" / "reference" / "proof_checks.md"
BATCH = 500  # programs that one process answers for
BEGIN, END = "<!-- semantics -->\n", "<!-- end of semantics -->"


def semantics_rows(machine: Path, programs: int) -> Iterator[str]:
    """The comparison of the two semantics, and after how many programs a planted fault shows."""
    faults: Counter[str] = Counter()
    steps = differ = 0
    for first in range(0, programs, BATCH):
        walks = [random_walk(seed) for seed in range(first, min(first + BATCH, programs))]
        differ += len(disagreements(machine, walks))
        steps += sum(walk.steps for walk in walks)
        for walk in walks:
            faults.update(walk.faults)
    yield "| semantics | programs | steps | kinds of faults met | programs that differ |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    yield f"| as it is | {programs:,} | {steps:,} | {len(faults)} | {differ} |"
    for name, planted in IN_THE_INTERPRETER.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(*planted)
            yield planted_row(machine, name, programs)


def planted_row(machine: Path, name: str, programs: int) -> str:
    """The first batch of programs in which a fault of the interpreter shows."""
    size = 2 * len(GENERATORS)
    for first in range(0, programs, size):
        walks = [random_walk(seed) for seed in range(first, first + size)]
        if found := disagreements(machine, walks):
            steps = sum(walk.steps for walk in walks)
            return f"| planted: {name} | {first + size:,} | {steps:,} | | {len(found)} |"
    return f"| planted: {name} | {programs:,} | | | 0: **not found** |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    folder = ROOT / "build" / "semantics"
    folder.mkdir(parents=True, exist_ok=True)
    machine = check_module().build_machine(folder)
    lines = []
    for row in semantics_rows(machine, arguments.programs):
        print(row, flush=True)
        lines.append(row + "\n")
    if arguments.write:
        write_between(PAGE, BEGIN, END, "".join(lines))


if __name__ == "__main__":
    main()
