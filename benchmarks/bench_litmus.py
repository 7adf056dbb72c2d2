"""Time to decide the litmus suite: count, total, median, 95th percentile and slowest, by folder.

    python benchmarks/bench_litmus.py [--repeat N] [--cvc5] [FOLDER...]

Times are of `decide` alone (unrolling, encoding, solving, extracting the witness), the best of N
runs a test; reading the file and the second engine's re-check of witnesses are not included.
"""

from __future__ import annotations

import argparse
import platform
import statistics
from pathlib import Path

from titan.cli.main import version_text
from titan.foundation.resources import root
from titan.litmus.decide import LitmusDecision, decide
from titan.litmus.language.ast import LitmusTest
from titan.litmus.language.suite import find_tests, read_test


def timed(test: LitmusTest, solver: str, repeat: int) -> LitmusDecision:
    runs = [decide(test, solver=solver, recheck=False) for _ in range(repeat)]
    assert len({run.verdict for run in runs}) == 1, test.name
    return min(runs, key=lambda run: run.seconds)


def row(name: str, decisions: list[LitmusDecision], unexpected: int) -> str:
    seconds = sorted(decision.seconds for decision in decisions)
    p95 = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]
    slowest = max(decisions, key=lambda decision: decision.seconds)
    return (
        f"| {name} | {len(seconds)} | {unexpected} | {sum(seconds):.2f} "
        f"| {statistics.median(seconds) * 1000:.1f} | {p95 * 1000:.1f} "
        f"| {slowest.seconds * 1000:.1f} ({slowest.test.name}) |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cvc5", action="store_true", help="decide with cvc5 instead of z3")
    arguments = parser.parse_args()
    folders = arguments.folders or sorted(p for p in root("litmus").iterdir() if p.is_dir())
    solver = "cvc5" if arguments.cvc5 else "z3"
    print(f"{version_text()}, {solver}, Python {platform.python_version()}\n")
    print("| folder | tests | unexpected | total s | median ms | p95 ms | slowest ms |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    everything: list[LitmusDecision] = []
    wrong = 0
    for folder in folders:
        decisions = []
        unexpected = 0
        for entry in find_tests([folder]):
            decision = timed(read_test(entry.path), solver, arguments.repeat)
            decisions.append(decision)
            if entry.expected is not None:
                unexpected += decision.verdict != entry.expected.under(decision.options)
        print(row(folder.name, decisions, unexpected))
        everything += decisions
        wrong += unexpected
    print(row("all", everything, wrong))


if __name__ == "__main__":
    main()
