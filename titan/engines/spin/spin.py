"""Run Spin on an exported model: `spin -a`, a C compiler, and the verifier, with limits.

Needs `spin` and `gcc` on the search path (`SpinMissingError` otherwise). Everything happens in a
temporary directory. What Spin says is a verdict only when its search was complete: a full stack,
spent memory or time, or too small a capacity of the model give UNDECIDED.
"""

from __future__ import annotations

import math
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from titan.engines.spin.promela_layout import OUT_OF_CAPACITY, number_of
from titan.foundation.errors import InternalError, Refusal
from titan.foundation.limited import limited
from titan.foundation.verdict import Reason
from titan.sync.fault import FaultKind

DEADLOCK = number_of(FaultKind.DEADLOCK)
_OPTIONS = ("-DSAFETY", "-DNOREDUCE", "-DNOCLAIM", "-DVECTORSZ=65536", "-w")


class SpinMissingError(Refusal):
    """`spin` or `gcc` is not installed."""

    reason = Reason.MISSING_TOOL


class SpinFailedError(InternalError):
    """Spin or the compiler rejected the model."""


@dataclass(frozen=True, slots=True)
class SpinResult:
    """`verdict`: "verified", "refuted" or "undecided"; `rule` as in TTN204, `states` stored."""

    verdict: str
    rule: str | None = None
    states: int = 0
    depth: int = 0
    search_s: float = 0.0
    build_s: float = 0.0
    output: str = field(default="", compare=False, repr=False)


def spin_available() -> bool:
    """Whether both `spin` and `gcc`, which builds its verifier, are on the path."""
    return shutil.which("spin") is not None and shutil.which("gcc") is not None


def run_spin(
    model: str,
    time_s: float = 60.0,
    memory_mib: int = 2048,
    depth_max: int = 1_000_000,
    optimise: str = "-O2",
    breadth_first: bool = False,
) -> SpinResult:
    """Verify one model of `to_promela`; `breadth_first` finds counterexamples of fewest steps."""
    with tempfile.TemporaryDirectory(prefix="titan-spin-") as folder:
        extra = ("-DBFS",) if breadth_first else ()
        build_s = _build(Path(folder), model, optimise, extra)
        started = time.monotonic()
        output = _run_verifier(Path(folder), [f"-m{depth_max}"], time_s, memory_mib)
        search_s = time.monotonic() - started
    return _parse(output, search_s, build_s)


def run_spin_batch(
    model: str,
    programs: int,
    time_s: float = 120.0,
    memory_mib: int = 2048,
    depth_max: int = 1_000_000,
) -> list[frozenset[str]] | None:
    """For each program of `to_promela_batch` the rules that it can break; None: undecided.

    The set of a program whose capacity was too small contains "capacity".
    """
    with tempfile.TemporaryDirectory(prefix="titan-spin-") as folder:
        _build(Path(folder), model, "-O0", ())
        arguments = ["-E", "-c0", "-w18", f"-m{depth_max}"]
        output = _run_verifier(Path(folder), arguments, time_s, memory_mib)
    if output is None or not _complete(output):
        return None
    found: list[set[str]] = [set() for _ in range(programs)]
    for program, number in re.findall(r"^TITAN (\d+) (\d+)$", output, re.MULTILINE):
        found[int(program)].add(_rule(int(number)))
    return [frozenset(rules) for rules in found]


def _rule(number: int) -> str:
    return "capacity" if number == OUT_OF_CAPACITY else f"TTN{number}"


def _build(folder: Path, model: str, optimise: str, extra: tuple[str, ...]) -> float:
    """Make `folder`/pan; returns the seconds it took."""
    if not spin_available():
        raise SpinMissingError("spin and gcc must be installed")
    started = time.monotonic()
    (folder / "model.pml").write_text(model, encoding="ascii")
    _check(["spin", "-a", "model.pml"], folder)
    _check(["gcc", optimise, *_OPTIONS, *extra, "-o", "pan", "pan.c"], folder)
    return time.monotonic() - started


def _check(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        raise SpinFailedError(f"{command[0]} failed: {output[:2000]}")


def _run_verifier(folder: Path, arguments: list[str], time_s: float, memory_mib: int) -> str | None:
    """What pan printed; None when its processor time ran out."""

    processor_time = limited(math.ceil(time_s))

    def limit() -> None:
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        size = memory_mib * 2**20
        size = size if most == resource.RLIM_INFINITY else min(size, most)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        processor_time()

    done = subprocess.run(
        ["./pan", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        preexec_fn=limit,
        check=False,
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    return done.stdout + done.stderr


def _complete(output: str) -> bool:
    """Whether the search was exhaustive or ended at an error."""
    cut = (
        "max search depth too small",
        "out of memory",
        "memory limit",
        "resizing hashtable failed",
    )
    return "State-vector" in output and not any(text in output for text in cut)


def _parse(output: str | None, search_s: float, build_s: float) -> SpinResult:
    if output is None:
        return SpinResult("undecided", search_s=search_s, build_s=build_s, output="time ran out")
    states = _number(r"([\d.e+]+) states, stored", output)
    depth = _number(r"depth reached (\d+)", output)
    violated = re.search(r"assertion violated \(?\(?fault\s*!=\s*(\d+)", output)
    if violated:
        number = int(violated.group(1))
        verdict = "undecided" if number == OUT_OF_CAPACITY else "refuted"
        return SpinResult(verdict, _rule(number), states, depth, search_s, build_s, output)
    if re.search(r"^pan:\d+: invalid end state", output, re.MULTILINE):
        return SpinResult("refuted", _rule(DEADLOCK), states, depth, search_s, build_s, output)
    sound = _complete(output) and re.search(r"errors: 0\b", output) is not None
    verdict = "verified" if sound else "undecided"
    return SpinResult(verdict, None, states, depth, search_s, build_s, output)


def _number(pattern: str, output: str) -> int:
    found = re.search(pattern, output)
    return int(float(found.group(1))) if found else 0
