"""What has been tried against proofs and certificates: random programs, planted faults, changes.

    python -m benchmarks.bench_proofs [--programs N] [--kernels NAME...] [--write]

First, the semantics extracted from Coq steps beside the reference interpreter on N random programs,
and with each fault planted in the interpreter until they differ. Then every change of every line of
the certificates of the library (tests/proof/test_all_mutations.py). `--write` puts both tables into
docs/reference/proof_checks.md. Needs coqc and ocamlopt; takes an hour on two cores.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof.test_all_mutations import KERNELS, compare
from tests.proofs.check_module import ROOT, check_module
from tests.proofs.test_semantics import (
    GENERATORS,
    IN_THE_INTERPRETER,
    disagreements,
    random_walk,
)

PAGE = ROOT / "docs" / "reference" / "proof_checks.md"
BATCH = 500  # programs that one process answers for
HEAD = """# What proofs and certificates were tried against

Written by `python -m benchmarks.bench_proofs --write`; what is claimed: [what is
proved](../explanation/proofs.md). First, the semantics extracted from Coq beside the reference
interpreter, on random programs; a planted fault is one in the interpreter, with the number of
programs until it shows. Then certificates with one line changed, every line in every way.
Kernels of the library that are not named were left out of that run (`--kernels`).
"""


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


def change_rows(names: list[str]) -> Iterator[str]:
    """How many changes of lines were tried for each kernel; `compare` fails where one passes."""
    yield "| certificate | changes of lines tried | accepted |"
    yield "| --- | ---: | ---: |"
    for name in names:
        yield f"| `{name}` | {compare(name):,} | 0 |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--kernels", nargs="*", default=KERNELS)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    folder = ROOT / "build" / "semantics"
    folder.mkdir(parents=True, exist_ok=True)
    machine = check_module().build_machine(folder)
    lines = [HEAD]
    for row in semantics_rows(machine, arguments.programs):
        print(row, flush=True)
        lines.append(row)
    lines.append("")
    for row in change_rows(arguments.kernels):
        print(row, flush=True)
        lines.append(row)
    if arguments.write:
        PAGE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
