"""libcu++'s tests of barriers and pipelines on the emulated device.

    python -m benchmarks.bench_libcudacxx CCCL --programs FOLDER [--only TEXT] [--write]

CCCL is a checkout of its repository (`libcudacxx/include` and `libcudacxx/test`), `--programs`
where compiled programs are kept; nvcc is needed. Each test asserts in its kernel. It runs twice:
with `--check off` for its own result, which counts only if a launch was computed, and with
`--check first` for the verdict on its launch in all interleavings. A test whose name ends in
`runfail` has to fail in its kernel. `--write` puts the table into docs/reference/cutlass.md and
benchmarks/results/libcudacxx.json, where rows of other tests stay.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_cutlass import COMMON, PAGE, UNUSABLE, without_folders
from benchmarks.real_code import RESULTS, Row, store, table_text, write
from titan.emulated.cuda.library import build_flags
from titan.foundation.resources import root

HEAD: Row = ("test", "result", "launches", "verdict", "seconds", "why")
FOLDERS = ("cuda/barrier", "std/thread/thread.barrier", "heterogeneous", "cuda/pipeline")
NAMES = {"heterogeneous": "barrier*.pass.cpp"}  # where a folder has tests of other things, too
DEFINES = ("--extended-lambda", "-DCCCL_IGNORE_DEPRECATED_API")
RUN_SECONDS_MAX = 600  # of a child that has hung; what it computes ends by its steps
WHY_MAX = 160


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """What one run of a test gave: its exit code, what `titan run` counted, and its first words."""

    code: int
    launches: int
    verdicts: str
    why: str


def tests_of(cccl: Path, only: str) -> list[Path]:
    """The sources of the tests whose names hold `only`."""
    base = cccl / "libcudacxx" / "test" / "libcudacxx"
    found = [
        path
        for folder in FOLDERS
        for path in sorted((base / folder).glob(NAMES.get(folder, "*.cpp")))
        if path.name.endswith((".pass.cpp", ".runfail.cpp"))
    ]
    return [path for path in found if only in path.name]


def compiled(test: Path, cccl: Path, programs: Path) -> tuple[Path, str]:
    """The executable, made where it is not there, and the compiler's first complaint."""
    name = f"{test.parent.name}_{test.stem}"
    made = programs / name
    if made.is_file():
        return made, ""
    base = cccl / "libcudacxx"
    included = (base / "test" / "libcudacxx" / "force_include.h", test)
    whole = programs / f"{name}.cu"
    whole.write_text("".join(f'#include "{one}"\n' for one in included), encoding="utf-8")
    folders = [f"-I{one}" for one in (base / "include", base / "test" / "support", test.parent)]
    command = ["nvcc", *build_flags(90), *COMMON, *DEFINES, *folders, str(whole), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = re.findall(r"undefined reference to \S+|.*\berror\b.*", done.stderr)
    complaint = (told or [done.stderr[:WHY_MAX]])[0] if done.returncode else ""
    return made, without_folders(complaint)


def ran(made: Path, check: str) -> DeviceRun:
    """Run a test on the emulated device."""
    command = [sys.executable, "-m", "titan", "run", "--check", check, str(made)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=RUN_SECONDS_MAX,
            cwd=root("protocols").parent,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return DeviceRun(UNUSABLE, 0, "", "it has not ended")
    summary = re.search(r"titan: (\d+) launch\w* computed(?:: (.*))?", done.stderr)
    return DeviceRun(
        done.returncode,
        int(summary[1]) if summary else 0,
        (summary[2] or "") if summary else "",
        without_folders(reason(done.stderr)),
    )


def reason(err: str) -> str:
    """The first diagnostic, else why the launch hangs or is undecided, else the first words."""
    lines = [line for line in err.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.startswith("error["):
            located = next((one for one in lines[number:] if "^" in one), "")
            return f"{line} {located.partition('^')[2].strip('^ ')}".strip()
    for pattern in (r".* hangs", r"titan: .* is undecided", r"(Error|error):", r"titan: (?!\d)"):
        for line in lines:
            if re.match(pattern, line):
                return line.removeprefix("titan: ").split("; ", 1)[0]
    return ""


def result_of(run: DeviceRun, *, fails: bool) -> str:
    """The word for a run that was not checked before; the device itself stops at a fault."""
    if run.code == UNUSABLE:
        return "not supported"
    stopped = run.code != 0 and run.why.startswith("error[")
    if stopped:
        return "fails as it should" if fails else "refuted"
    if " hangs" in run.why:
        return "hangs"
    return "passed" if run.code == 0 and run.launches and not fails else "failed"


def row(test: Path, cccl: Path, programs: Path) -> Row:
    """Compile and run one test."""
    name = test.name.removesuffix(".cpp").removesuffix(".pass")
    shown = f"{test.parent.name}/{name}"
    made, complaint = compiled(test, cccl, programs)
    if complaint:
        return (shown, "does not compile", "", "", "", complaint[:WHY_MAX])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    plain, checked = ran(made, "off"), ran(made, "first")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    fails = test.name.endswith(".runfail.cpp")
    result = result_of(plain, fails=fails)
    why = checked.why if result == "passed" else plain.why
    verdict = re.sub(r"^1 ", "", checked.verdicts)
    return (shown, result, str(plain.launches), verdict, f"{seconds:.1f}", why[:WHY_MAX])


def joined(found: list[Row]) -> list[Row]:
    """The rows that were stored before with those that were found, by name."""
    path = RESULTS / "libcudacxx.json"
    stored = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    kept = {item["test"]: tuple(item[name] for name in HEAD) for item in stored}
    kept.update({one[0]: one for one in found})
    return [kept[name] for name in sorted(kept)]


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("cccl", type=Path)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.programs.mkdir(parents=True, exist_ok=True)
    cccl, programs = options.cccl.resolve(), options.programs.resolve()
    for test in tests_of(cccl, options.only):
        found = row(test, cccl, programs)
        print(" | ".join(found), flush=True)
        if options.write:
            rows = joined([found])
            store("libcudacxx", HEAD, rows)
            write("libcudacxx", table_text(HEAD, rows), PAGE)


if __name__ == "__main__":
    main()
