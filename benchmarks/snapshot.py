"""Takes a snapshot of what TITAN answers, and compares two: a change of form changes none of it.

    python -m benchmarks.snapshot check [PATH...] [--jobs N]
    python -m benchmarks.snapshot store [--jobs N]
    python -m benchmarks.snapshot take FILE [PATH...] [--cache FILE] [--jobs N]
    python -m benchmarks.snapshot compare OLD NEW

A snapshot holds, for each kernel of each file, the verdict, the states that each engine visited and
the codes of the diagnostics; for each tile program and target, the shape that was taken, the
reasons of those that were not, the verdict, the states, and the SHA-256 of every file of the
package. PATH is a kernel file, a tile program or a folder of them; without one, `take` goes through
the whole library.

`check` (`make same`) answers the kernels of the library and tile programs of every target, and
compares with the snapshot in benchmarks/results/. `store` writes that again: a change
that means to change answers stores them in its commit, and the difference of the file shows which.

Packages are built without the toolchain, which belongs to the machine and not to TITAN. What a
search for a schedule finds may depend on its budget of processor time: `--cache` keeps what was
found for a second run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from titan.codegen.pipeline.build import BuildLimits, BuildRefused
from titan.codegen.tile.load import load_tile, targets_of
from titan.package.produce import produce
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_file

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "benchmarks" / "results" / "snapshot.json"
LIBRARY = (ROOT / "protocols", ROOT / "protocols" / "tiles")
STORED_TILES = (
    "copy", "gemm", "gemm_sm_100a", "gemm_gfx942", "gemm_fp8_gfx950", "softmax_rows",
    "softmax_rows_gfx942", "attention_forward", "attention_forward_64_sm_100a", "layer_norm",
    "transform",
)  # fmt: skip
REPRESENTATIVE = (
    ROOT / "protocols",
    *(ROOT / "protocols" / "tiles" / f"{name}.yaml" for name in STORED_TILES),
)
DIFFERENCES_MAX = 40  # that are printed
BUDGET_SECONDS = 600.0  # of one verification; nothing of the library comes near it
SCHEDULE_SECONDS = 5.0  # of the search for a schedule

Answer = dict[str, object]
Snapshot = dict[str, Answer]


def answer_of(finding: Finding) -> Answer:
    """The verdict on a kernel and what it cost, without times."""
    return {
        "verdict": str(finding.verdict),
        "states": {report.engine: report.states for report in finding.engines},
        "codes": [item.code for item in finding.diagnostics],
    }


def kernels(path: Path) -> Snapshot:
    """The verdicts on the kernels of a file, with the options of `titan verify`."""
    options = VerifyOptions(save_traces=None, seconds_max=BUDGET_SECONDS)
    name = shown(path)
    return {
        f"{name}#{number}": answer_of(finding)
        for number, finding in enumerate(verify_file(str(path), options))
    }


def packages(path: Path, cache: str | None) -> Snapshot:
    """The packages of a tile program, one for each target."""
    found: Snapshot = {}
    for target in targets_of(path):
        with tempfile.TemporaryDirectory() as folder:
            found[f"{shown(path)}@{target}"] = _package(path, target, Path(folder), cache)
    return found


def _package(path: Path, target: str, folder: Path, cache: str | None) -> Answer:
    limits = BuildLimits(SCHEDULE_SECONDS, verify_seconds=BUDGET_SECONDS, cache=cache)
    tile, text = load_tile(path, target=target), path.read_text(encoding="utf-8")
    try:
        produced = produce(tile, text, folder, limits, with_toolchain=False)
    except BuildRefused as refused:
        steps = {step.shape.name: step.reason for step in refused.steps}
        return {"verdict": "refused", "reason": str(refused), "not taken": steps}
    built = produced.built
    return {
        **answer_of(built.finding),
        "shape": built.shape.name,
        "not taken": {step.shape.name: step.reason for step in built.steps if not step.taken},
        "sha256": {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(produced.folder.iterdir())
        },
    }


def one(path: Path, cache: str | None) -> Snapshot:
    """What TITAN answers to one file."""
    return packages(path, cache) if path.parent.name == "tiles" else kernels(path)


def files_of(paths: list[Path]) -> Iterator[Path]:
    """The files, those of folders in alphabetical order."""
    for path in paths or LIBRARY:
        yield from sorted(path.glob("*.yaml")) if path.is_dir() else (path,)


def shown(path: Path) -> str:
    """The path from the root of the repository, wherever that lies."""
    whole = path.resolve()
    return whole.relative_to(ROOT).as_posix() if whole.is_relative_to(ROOT) else path.name


def take(paths: list[Path], cache: str | None, jobs: int) -> Snapshot:
    """The snapshot of all files; progress goes to standard error."""
    files = list(files_of(paths))
    found: Snapshot = {}
    with ProcessPoolExecutor(jobs) as pool:
        answers = pool.map(one, files, [cache] * len(files))
        for number, (path, answer) in enumerate(zip(files, answers, strict=True), start=1):
            found |= answer
            print(f"{number} of {len(files)} {shown(path)}", file=sys.stderr)
    return found


def differences(old: Snapshot, new: Snapshot) -> list[str]:
    """One line for each value that differs, by its path in the snapshot."""
    before, after = dict(_leaves("", old)), dict(_leaves("", new))
    return [
        f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{name} {key}".strip(), inner)
    else:
        yield name, json.dumps(value)


def of_files(stored: Snapshot, names: set[str]) -> Snapshot:
    """The answers to some files alone."""
    return {
        key: value
        for key, value in stored.items()
        if key.partition("@")[0].partition("#")[0] in names
    }


def report(old: Snapshot, new: Snapshot) -> int:
    """Print what differs; 1 where something does."""
    found = differences(old, new)
    print("\n".join(found[:DIFFERENCES_MAX]))
    print(f"{len(found)} differences in {len(old.keys() | new.keys())} answers")
    return 1 if found else 0


def read(path: Path) -> Snapshot:
    """A snapshot from its file."""
    found: Snapshot = json.loads(path.read_text(encoding="utf-8"))
    return found


def write(path: Path, snapshot: Snapshot) -> None:
    """Writes a snapshot to its file."""
    path.write_text(json.dumps(snapshot, indent=1) + "\n", encoding="utf-8")
    print(f"{len(snapshot)} answers")


def main() -> int:
    """Exit code 1 where two snapshots differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("take", help="write a snapshot")
    taking.add_argument("file", type=Path)
    taking.add_argument("paths", type=Path, nargs="*")
    taking.add_argument("--cache", default=".titan/snapshot.sqlite")
    taking.add_argument("--jobs", type=int, default=1)
    checking = commands.add_parser("check", help="compare with the stored snapshot")
    checking.add_argument("paths", type=Path, nargs="*")
    storing = commands.add_parser("store", help="write the stored snapshot again")
    for command in (checking, storing):
        command.add_argument("--jobs", type=int, default=1)
    comparing = commands.add_parser("compare", help="print what differs")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.command == "take":
        write(options.file, take(options.paths, options.cache, options.jobs))
        return 0
    if options.command == "store":
        write(STORED, take(list(REPRESENTATIVE), None, options.jobs))
        return 0
    if options.command == "check":
        paths = options.paths or list(REPRESENTATIVE)
        wanted = {shown(path) for path in files_of(paths)}
        return report(of_files(read(STORED), wanted), take(paths, None, options.jobs))
    return report(read(options.old), read(options.new))


if __name__ == "__main__":
    sys.exit(main())
