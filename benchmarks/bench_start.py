"""How much processor time a short command takes, from an empty process to its answer.

    python benchmarks/bench_start.py [--times 10] [--output FILE]

User and system time of the process, which the load of a machine changes less than the clock; the
least of some runs. Byte code is compiled before the first run that counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TITAN = ["-m", "titan"]
# A command and what it may take, in seconds.
COMMANDS: dict[str, tuple[list[str], float]] = {
    "python": (["-c", "pass"], 0.1),
    "import titan": (["-c", "import titan"], 0.1),
    "titan --help": ([*TITAN, "--help"], 0.15),
    "titan verify protocols/hopper_gemm.yaml": (
        [*TITAN, "verify", "protocols/hopper_gemm.yaml"],
        0.35,
    ),
}


def processor_seconds(arguments: list[str]) -> float:
    """User and system time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print; `--output` writes the numbers with the machine they are from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = {}
    for name, (arguments, goal) in COMMANDS.items():
        processor_seconds(arguments)
        runs = sorted(processor_seconds(arguments) for _ in range(options.times))
        found[name] = {"least_s": round(runs[0], 3), "median_s": round(runs[len(runs) // 2], 3)}
        print(f"{name:42s} {runs[0]:.3f} s, median {runs[len(runs) // 2]:.3f} s (goal {goal} s)")
    if options.output is not None:
        machine = f"{platform.processor() or platform.machine()}, Python {sys.version.split()[0]}"
        content = {"machine": machine, "times": options.times, "commands": found}
        options.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
