"""How long code takes from its text to a verdict: processor seconds, the best of some runs.

    python -m benchmarks.bench_real_code FOLDER [--times 5] [--only TEXT] [--instructions] [--write]

FOLDER is a corpus as for `benchmarks.real_code`. Each row is the first CTA of one launch, with the
number of trips where one is named: the text is parsed, run and recorded, and all interleavings are
decided. With `--instructions` a GEMM of 4,096 tiles is run and recorded, a million warp
instructions. Imports are not counted. `--write` puts the table into docs/reference/real_code.md and
all numbers into benchmarks/results/real_code_speed.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.real_code import REPAIRED, RESULTS, Row, launch_of, table_text, write
from titan.foundation.collector import uncollected
from titan.foundation.source.loading import load_file
from titan.foundation.source.span import Source, whole_file
from titan.frontends.ptx.launch import completed, read_launch
from titan.frontends.ptx.machine import Runner
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.record import record
from titan.frontends.ptx.sweep import drivers_of
from titan.frontends.ptx.trial import judge_run
from titan.frontends.verify_code import STEPS_MAX, TEXT_BYTES_MAX
from titan.isa.ptx.module import Module
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Run

Result = TypeVar("Result")
HEAD: Row = (
    "file", "trips", "parse", "run", "judge", "all", "warp instructions", "operations", "verdict",
)  # fmt: skip
MILLION = ("gluon_ws_gemm_sm90_d3_seeded0", 4096)
CASES = (  # file, trips (0: as given)
    ("gluon_ws_gemm_sm90_d3_seeded0", 128),
    ("cutlass_ws", 128),
    ("cutlass_cooperative_cluster2", 8),
    ("fa3_prefill_causal0", 0),
    ("fa3_prefill_causal0", 8),
    ("fa3_prefill_causal1", 0),
    ("triton_attention_sm90_ws0", 0),
    ("triton_attention_sm100_ws0", 0),
)


class BenchmarkRunError(RuntimeError):
    """A case does not run."""


@dataclass(frozen=True, slots=True)
class SpeedCase:
    """A text with its launch; the fault of FlashInfer's epilogue is taken out."""

    source: Source
    module: Module
    launch: Launch

    @property
    def runner(self) -> Runner:
        """The machine."""
        return Runner(self.module, self.source, STEPS_MAX)


def read_case(folder: Path, name: str, trips: int) -> SpeedCase:
    """The case of a file. Raises FileNotFoundError."""
    path = folder / f"{name}.ptx"
    loaded, _ = load_file(str(path), TEXT_BYTES_MAX)
    place = launch_of(path)
    if loaded is None or place is None:
        raise FileNotFoundError(path)
    text = loaded.text
    if name in REPAIRED:
        text = re.sub(rf"^.*{re.escape(REPAIRED[name])},.*;$", "", text, flags=re.MULTILINE)
    source = Source(str(path), text)
    module, _ = parse_source(source)
    assert module is not None
    launch, _, _ = completed(read_launch(place)[0], module.entries()[0], whole_file(str(path)))
    assert launch is not None
    case = SpeedCase(source, module, launch)
    if trips:
        driver = drivers_of(case.runner, module.entries()[0], launch)[0][0]
        launch = driver.launch(launch, trips)
    return SpeedCase(source, module, launch)


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Processor seconds, and what came of it."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def executed(case: SpeedCase) -> Run:
    """The run of the first CTA. Raises BenchmarkRunError."""
    run, errors = case.runner.run(case.launch, 0)
    if run is None:
        raise BenchmarkRunError(errors[0].headline)
    return run


def row(case: SpeedCase, times: int) -> tuple[list[float], Row]:
    """Seconds for parsing, running, judging and all of it, the best of each; what was judged."""
    places = CodePlaces(case.module, case.source)
    best: list[float] = []
    texts: Row = ()
    for _ in range(times):
        parsed, _ = timed(lambda: parse_source(case.source))
        ran, run = timed(lambda: executed(case))
        started = time.process_time()
        trial = judge_run(run, ("", ""), "k", places, CodePolicies())
        judged = time.process_time() - started
        seconds = [parsed, ran, judged, parsed + ran + judged]
        best = seconds if not best else list(map(min, best, seconds))
        texts = f"{run.instructions:,}", f"{trial.operations:,}", trial.verdict.value
    return best, texts


def main() -> None:
    """Print the rows that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.instructions or options.write:
        case = read_case(options.folder, *MILLION)
        ran, run = timed(lambda: executed(case))
        places = CodePlaces(case.module, case.source)
        recording = uncollected(record)
        noted, _ = timed(lambda: recording(run, "k", "", places.span, CodePolicies()))
        million = f"{run.instructions:,} warp instructions: {ran:.2f} s, as a program {noted:.2f} s"
        print(million)
        if not options.write:
            return
    print(" | ".join(HEAD))
    rows: list[Row] = []
    for name, trips in CASES:
        if options.only in name:
            seconds, texts = row(read_case(options.folder, name, trips), options.times)
            cells = [f"{item:.3f}" for item in seconds]
            rows.append((name, str(trips or "as given"), *cells, *texts))
            print(" | ".join(rows[-1]), flush=True)
    if options.write:
        found = {
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "times": options.times,
            "million": million,
            "rows": [dict(zip(HEAD, item, strict=True)) for item in rows],
        }
        path = RESULTS / "real_code_speed.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        write("speed", table_text(HEAD, rows))


if __name__ == "__main__":
    main()
