"""The emulated device beside its goals: processor seconds, unchecked and with every launch checked.

    python -m benchmarks.bench_emulated_speed FOLDER [--write]

FOLDER holds the corpus (docs/reference/real_code.md says how it is made). Each kernel runs whole,
is compared with NumPy, and is measured from the launch to the end, once without checking and once
with `check="all"`. Goals are for two free processors, of which launches use both: so a goal counts
as met where half of the processor seconds do. `--write` puts the table into
docs/reference/emulated.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_numbers import FAMILIES, Kernel, Measured
from benchmarks.real_code import Row, store, table_text, write
from titan.emulated.machine import Emulated

HEAD: Row = (
    "work", "kernel", "warp instructions", "seconds", "goal", "checked", "factor",
)  # fmt: skip
PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "emulated.md"
PROCESSORS = 2
RATE_MILLIONS = 20.0  # the goal for arithmetic: warp instructions a second on two processors
TOLERANCE = 2.0**-9  # of attention in binary16, relative to the largest number


@dataclass(frozen=True, slots=True)
class Goal:
    """A kernel of the corpus at a size, and how many seconds two processors may take."""

    work: str
    kernel: str
    size: int
    seconds: float | None


GOALS = (
    Goal("GEMM 512 x 512 x 512", "triton_gemm_sm90_128x128x64_w8_ws0_s4", 512, 0.2),
    Goal("GEMM 2048 x 2048 x 2048", "triton_gemm_sm90_128x128x64_w8_ws0_s4", 2048, None),
    Goal("GEMM 4096 x 4096 x 4096", "triton_gemm_sm90_128x256x64_w8_ws0_s3", 4096, 20.0),
    # Two heads of 64 have the products of one head of 128, and twice its softmax.
    Goal("attention, 2 heads of 2048 x 64", "triton_attention_sm90_ws0", 2048, 1.0),
    Goal("the same, sm_100", "triton_attention_sm100_ws1", 2048, 1.0),
)


def measured(goal: Goal, folder: Path, check: str) -> Measured:
    """One run. Raises LaunchFault where the launch is wrong, AssertionError for wrong numbers."""
    text = (folder / f"{goal.kernel}.ptx").read_text(encoding="utf-8")
    launch = json.loads((folder / f"{goal.kernel}.json").read_text(encoding="utf-8"))
    run = next(run for stem, run in FAMILIES if goal.kernel.startswith(stem))
    device = Emulated(check=check)
    found = run(Kernel(goal.kernel, text, launch, goal.size), device)
    assert found.far <= TOLERANCE * found.largest, found.line()
    summary = device.queue.checker.summary()
    assert check == "off" or summary == "1 verified", summary
    return found


def row(goal: Goal, folder: Path) -> Row:
    """The row of one kernel; `met` where half of the seconds are within the goal."""
    plain, checked = (measured(goal, folder, check) for check in ("off", "all"))
    shown = ""
    if goal.seconds is not None:
        met = "met" if plain.cpu_s / PROCESSORS <= goal.seconds else "not met"
        shown = f"{goal.seconds:g} on {PROCESSORS}: {met}"
    return (
        goal.work, goal.kernel, f"{plain.instructions:,}", f"{plain.cpu_s:.2f}", shown,
        f"{checked.cpu_s:.2f}", f"{checked.cpu_s / plain.cpu_s:.1f}",
    )  # fmt: skip


def arithmetic() -> Row:
    """What `bench_arithmetic` prints, as a row."""
    command = [sys.executable, "-m", "benchmarks.bench_arithmetic"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = printed.replace("(", "").split()
    count, seconds, rate = words[0], words[6], float(words[-3])
    met = "met" if PROCESSORS * rate >= RATE_MILLIONS else "not met"
    return (
        "integers and binary32 in a loop", "bench_arithmetic", f"{count} million", seconds,
        f"{RATE_MILLIONS:g} million a second on {PROCESSORS}: {met} ({rate:.0f} on each)", "", "",
    )  # fmt: skip


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = [arithmetic()]
    print(" | ".join(rows[0]), flush=True)
    for goal in GOALS:
        rows.append(row(goal, options.folder))
        print(" | ".join(rows[-1]), flush=True)
    if options.write:
        store("emulated_speed", HEAD, rows)
        write("emulated speed", table_text(HEAD, rows), PAGE)


if __name__ == "__main__":
    main()
