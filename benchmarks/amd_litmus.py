"""The AMD litmus tests on one page: verdicts of two engines, kernels, and what clang makes of them.

    python -m benchmarks.amd_litmus [--write] [--only TEXT]

Every test below `litmus/amdgpu` and `litmus/cdna` is decided by both engines, compared with its
recorded verdict, rendered as HIP, compiled by clang 22 for each of its targets, and the assembly of
source tests is read back and explored by the model of the machine. With `--write` the table
replaces the one in docs/reference/amd_litmus.md. Takes about ten minutes on one core; exit code 1
where an engine disagrees, or where compiled code shows what the source forbids beyond the cases
that the page names.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from titan.foundation.resources import root
from titan.foundation.scratch import scratch
from titan.litmus.decide import decide
from titan.litmus.enumerate.candidates import TooManyCandidates, allowed
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.suite import SuiteEntry, find_tests, read_test
from titan.litmus.machine.answers import reaches
from titan.litmus.machine.compiled import CompiledOtherwise, sequences_of
from titan.litmus.machine.decision import decide_machine
from titan.litmus.machine.explorer import MachineExplorer
from titan.litmus.machine.lowering import programs_of
from titan.litmus.render.hip import TARGETS, render_hip
from titan.litmus.render.refusal import NotRenderable
from titan.validate.compare.gcn_compile import compile_hip, hip_assembly
from titan.validate.compare.toolchain import CannotCompile

FOLDERS = ("amdgpu", "cdna")
PAGE = root("litmus").parent / "docs" / "reference" / "amd_litmus.md"
BEGIN, END = "<!-- counts: python -m benchmarks.amd_litmus --write -->", "<!-- end of counts -->"
CANDIDATES_MAX = 200_000
WEAKER = "transitive+workgroup+agent"  # its compiled code shows what the source forbids


@dataclass(slots=True)
class Counts:
    """What became of the tests of one folder; `faults` are lines for people."""

    of: Counter[str] = field(default_factory=Counter)
    shown: Counter[tuple[str, bool, bool]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def judge(entry: SuiteEntry, counts: Counts, folder: Path) -> None:
    """One test through all stages."""
    test = read_test(entry.path)
    counts.of["tests"] += 1
    decision = decide(test, recheck=False)
    counts.of["second engine"] += _second(test, decision.allowed is True, counts)
    if entry.expected is not None:
        good = decision.verdict == entry.expected.under(decision.options)
        counts.of["as recorded"] += good
        if not good:
            counts.faults.append(f"{test.name}: {decision.verdict}, not as recorded")
    try:
        rendering = render_hip(test)
    except NotRenderable as error:
        counts.reasons[error.kind] += 1
        return
    counts.of["rendered"] += 1
    source = folder / "test.hip.cpp"
    source.write_text(rendering.source, encoding="utf-8")
    for target in map(str, rendering.manifest["targets"]):  # type: ignore[call-overload]
        try:
            if test.dialect.machine is not None:
                compile_hip(source, target)
                counts.of[f"compiled {target}"] += 1
            else:
                text = hip_assembly(source, target)
                counts.of[f"compiled {target}"] += 1
                _read_back(test, target, text, decision.allowed is True, counts)
        except (CannotCompile, CompiledOtherwise) as error:
            counts.faults.append(f"{test.name} for {target}: {error}")


def _second(test: LitmusTest, verdict: bool, counts: Counts) -> int:
    """1 where the second engine decided the test alone and says the same."""
    try:
        if test.dialect.machine is not None:
            return int(decide_machine(test).rechecked)  # which compares all outcomes
        same = allowed(test, budget=CANDIDATES_MAX) == verdict
    except TooManyCandidates:
        return 0
    if not same:
        counts.faults.append(f"{test.name}: the engines disagree")
    return int(same)


def _read_back(test: LitmusTest, target: str, text: str, verdict: bool, counts: Counts) -> None:
    programs = programs_of(test, target, compiled=sequences_of(text, test))
    shown = any(reaches(test, o) for p in programs for o in MachineExplorer(p).outcomes())
    counts.shown[target, verdict, shown] += 1
    if shown and not verdict and test.name != WEAKER:
        counts.faults.append(f"{test.name} for {target}: compiled code shows what is forbidden")


def table(found: dict[str, Counts]) -> str:
    """The counts as Markdown."""
    rows = [
        "| | `litmus/amdgpu` (source) | `litmus/cdna` (instructions) |",
        "| --- | ---: | ---: |",
    ]
    names = ["tests", "as recorded", "second engine", "rendered"]
    labels = {
        "as recorded": "decided as recorded",
        "second engine": "decided by the second engine alone, with the same answer",
        "rendered": "rendered as HIP",
    }
    names += [f"compiled {target}" for target in TARGETS]
    for name in names:
        cells = " | ".join(f"{found[folder].of[name]}" for folder in FOLDERS)
        rows.append(f"| {labels.get(name, name)} | {cells} |")
    for reason in sorted({r for counts in found.values() for r in counts.reasons}):
        cells = " | ".join(f"{found[folder].reasons[reason]}" for folder in FOLDERS)
        rows.append(f"| not rendered: {reason} | {cells} |")
    rows += [
        "",
        "| compiled code of source tests | " + " | ".join(TARGETS) + " |",
        "| --- |" + " ---: |" * len(TARGETS),
    ]
    shown = found["amdgpu"].shown
    for label, key in (
        ("allowed, and shown", (True, True)),
        ("allowed, not shown", (True, False)),
        ("forbidden, not shown", (False, False)),
        ("forbidden, but shown", (False, True)),
    ):
        rows.append(f"| {label} | " + " | ".join(f"{shown[t, *key]}" for t in TARGETS) + " |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    found = {}
    with scratch("titan-amd-") as place:
        for name in FOLDERS:
            counts = found[name] = Counts()
            for entry in find_tests([root("litmus") / name]):
                if options.only in entry.path.stem:
                    judge(entry, counts, Path(place))
    text = table(found)
    faults = [line for counts in found.values() for line in counts.faults]
    print("\n".join([text, *faults]))
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        inner = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.S)
        page = inner.sub(lambda _: f"{BEGIN}\n\n{text}\n\n{END}", page)
        PAGE.write_text(page, encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
