"""The child process of the watchdog: one job from standard input, records to standard output."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from titan.device.records import Job, Record


def litmus(job: Job) -> Iterator[Record]:
    """Counts of one rendered litmus test."""
    path = Path(job["manifest"])
    manifest = json.loads(path.read_text(encoding="utf-8"))
    source = path.parent / Path(str(manifest["source"])).name
    if manifest["language"] == "c11":
        from titan.device.litmus_cpu import batches

        yield from batches(source, manifest, job)
        return
    if job.get("backend") == "emulated":
        from titan.device.litmus_emulated import batches as emulated_batches

        yield from emulated_batches(source, manifest, job)
        return
    from titan.device.litmus_gpu import batches as gpu_batches

    yield from gpu_batches(source, manifest, job)


def litmus_many(job: Job) -> Iterator[Record]:
    """Several tests in one process. `over` ends each, with its error; `stop` says that the device
    may be in a bad state afterwards, so that the rest needs a new process.
    """
    for path in job["manifests"]:
        yield {"kind": "begin", "manifest": path}
        one: Job = {**job, "manifest": path}
        if job.get("keep"):
            one["keep"] = str(Path(job["keep"]) / Path(path).stem)
            Path(one["keep"]).mkdir(exist_ok=True)
        try:
            yield from litmus(one)
        except Exception as error:  # reported to the parent, whatever it was
            name = type(error).__name__
            stop = name not in ("NotRun", "OtherDevice")
            yield {"kind": "over", "error": f"{name}: {error}", "stop": stop}
            if stop:
                return
            continue
        yield {"kind": "over", "error": "", "stop": False}


def compile_ahead(job: Job) -> Iterator[Record]:
    """Machine code of packages or tests, without a device."""
    if "manifests" in job:
        from titan.device.litmus_gpu import compile_ahead as of_tests

        yield from of_tests(job)
        return
    from titan.device.packages import compile_ahead as of_packages

    yield from of_packages(job)


def facts(job: Job) -> Iterator[Record]:
    """The device, or this machine for the back ends that need none."""
    backend = job.get("backend", "gpu")
    if backend != "gpu":
        from titan.device.litmus_cpu import facts as known

        yield {"kind": "facts", **known(), "backend": backend}
        return
    from titan.device.platforms import facts as of_gpu

    yield {"kind": "facts", **of_gpu()}


def check(job: Job) -> Iterator[Record]:
    """Runs of a package, compared with what it should compute."""
    from titan.device.packages import check as runs

    yield from runs(job)


def measure(job: Job) -> Iterator[Record]:
    """Times of a package."""
    from titan.device.timing import measure as times

    yield from times(job)


def cycles(job: Job) -> Iterator[Record]:
    """Cycles inside a package's kernel."""
    from titan.device.timing import cycles as spans

    yield from spans(job)


def probe(job: Job) -> Iterator[Record]:
    """Counters of a probe."""
    from titan.device.probes import launch

    yield from launch(job)


def peer(job: Job) -> Iterator[Record]:
    """Times of a library for the same work."""
    from titan.device.peers import measure as times

    yield from times(job)


JOBS: dict[str, Callable[[Job], Iterator[Record]]] = {
    "litmus": litmus,
    "litmus many": litmus_many,
    "compile": compile_ahead,
    "facts": facts,
    "check": check,
    "measure": measure,
    "cycles": cycles,
    "peer": peer,
    "probe": probe,
}


def end_with_parent(every_seconds: float = 1.0) -> None:
    """From now on this process ends when its parent does, even one that was killed: a kernel that
    hangs would otherwise hold the GPU."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every_seconds)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Read a job, write its records; exit code 1 and the error on stderr where it fails."""
    end_with_parent()
    job = json.loads(sys.stdin.readline())
    run = JOBS.get(job.get("kind", ""))
    if run is None:
        print(f"no job {job.get('kind')!r}", file=sys.stderr)
        return 2
    try:
        for record in run(job):
            print(json.dumps(record), flush=True)
    except Exception as error:  # reported to the parent, whatever it was
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
