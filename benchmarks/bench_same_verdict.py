"""The same input, again and again, beside busy processes: is the text the same each time?

    python benchmarks/bench_same_verdict.py [--busy 8] [--times 10] [--only NAME ...]

Runs `titan verify` on kernels of every verdict (of the library the half that takes least, and cases
of real bugs, attacks and wrong verdicts), on compiled code and `titan litmus check` on tests,
alone first and then beside processes that do nothing but compute; prints a line a command, and
exits with 1 where an exit code or a text differs. Litmus texts show the time that a test took; that
line is left out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNDECIDED = ["--budget-states", "60", "--require", "any"]
LAUNCH = "{grid: 4, dynamic_shared: 0, parameters: {source: pointer, n: 5}}\n"
LIBRARY = (
    "ampere_gemm_multistage", "bulk_copy", "blackwell_gemm", "fa4_forward", "mi300_gemm",
    "mi300_pingpong", "split_k_cluster",
)  # fmt: skip
CASES = (
    "attacks/two_cta_products", "attacks/halo_exchange", "attacks/shift_of_accumulators",
    "real_bugs/CLU-22.buggy", "real_bugs/CLU-22.fixed", "real_bugs/AMD-04.buggy",
    "invented/commit_to_a_peer_that_has_ended", "invented/three_trip_counts_in_a_row",
)  # fmt: skip
COMMANDS: dict[str, list[str]] = {
    "verified": ["verify", "protocols/hopper_gemm.yaml"],
    "persistent": ["verify", "protocols/hopper_gemm_persistent.yaml"],
    "undecided": ["verify", "protocols/grouped_gemm.yaml", *UNDECIDED],
    "library": ["verify", *(f"protocols/{name}.yaml" for name in LIBRARY)],
    "cases": ["verify", *(f"tests/cases/{name}.yaml" for name in CASES)],
    "litmus": ["litmus", "check", "litmus/tensormap"],
}


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands, with one kernel of compiled code, whose launch is written to the folder."""
    code = ROOT / "tests" / "frontends" / "ptx" / "ring.ptx"
    launch = folder / "ring.launch.yaml"
    launch.write_text(LAUNCH, encoding="utf-8")
    return {**COMMANDS, "ptx": ["verify", str(code), "--launch", str(launch)]}


def answer(arguments: list[str]) -> tuple[int, str]:
    """Exit code and text of one run."""
    done = subprocess.run(
        [sys.executable, "-m", "titan", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (done.stdout + done.stderr).splitlines()
    return done.returncode, "\n".join(line for line in lines if not line.startswith("Time "))


def compute() -> None:
    """Busy until it is ended."""
    number = 1
    while True:
        number = number * 3 % 1_000_003


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=int, default=8, help="processes next to it")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=[], help="commands of these names")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asked = commands(Path(folder))
        names = given.only or list(asked)
        return compare({name: asked[name] for name in names}, given.busy, given.times)


def compare(asked: dict[str, list[str]], busy: int, times: int) -> int:
    """1 where an answer beside `busy` processes differs from the one without them."""
    calm = {name: answer(arguments) for name, arguments in asked.items()}
    others = [multiprocessing.Process(target=compute, daemon=True) for _ in range(busy)]
    for process in others:
        process.start()
    different = 0
    try:
        for name, arguments in asked.items():
            same = sum(answer(arguments) == calm[name] for _ in range(times))
            different += times - same
            print(f"{name:12} exit {calm[name][0]}  {same} of {times} the same", flush=True)
    finally:
        for process in others:
            process.terminate()
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
