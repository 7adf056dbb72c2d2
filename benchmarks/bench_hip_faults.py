"""Mutation score of emitted HIP: every call of the device header left out, one at a time.

A fault is seen by the comparison of the machine code with the sync program, by the run on the CPU
(late, early and mixed landings of copies), or not at all. Needs clang-22 and g++.

Run: python -m benchmarks.bench_hip_faults [--output FILE] [FORM...]
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path

from tests.codegen.emit.hip_kernels import SOURCE, Made, form
from tests.codegen.emit.test_hip_emulation import wrong
from titan.validate.hip.run import EmulationError

_CALL = re.compile(r"\s*titan::\w+(<.*>)?\(.*\);(\s*//.*)?")
KERNELS = ("gemm of 4 waves", "gemm of 8 waves that take turns")


def mutants(made: Made) -> list[tuple[str, Made]]:
    """The calls, and the kernel without each."""
    lines = made.emitted.files[SOURCE].split("\n")
    found = []
    for number, line in enumerate(lines):
        if _CALL.fullmatch(line):
            text = "\n".join([*lines[:number], ";", *lines[number + 1 :]])
            files = {**made.emitted.files, SOURCE: text}
            found.append((line.strip(), replace(made, emitted=replace(made.emitted, files=files))))
    return found


def seen_by(mutant: Made) -> tuple[bool, bool]:
    """Whether the machine code tells, and whether the run on the CPU does."""
    try:
        run = wrong(mutant)
    except EmulationError:
        run = True
    return bool(mutant.faults()), run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("names", nargs="*", default=KERNELS)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.names:
        for call, mutant in mutants(form(name)):
            machine, run = seen_by(mutant)
            rows.append({"kernel": name, "call": call, "machine_code": machine, "run": run})
            print(f"{name}: {call[:60]}: machine code {machine}, run {run}", flush=True)
    both = [row for row in rows if row["machine_code"] or row["run"]]
    print(f"{len(both)} of {len(rows)} seen")
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
