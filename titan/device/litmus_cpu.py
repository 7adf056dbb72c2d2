"""A litmus test rendered as C11, compiled and run on the CPU; the back end that needs no GPU.

Runs in a child process: a test that hangs or crashes takes only that with it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from titan.device.manifests import LitmusManifest
from titan.device.records import BatchCounts, DeviceFacts, Job
from titan.foundation.errors import Refusal

ERRORS = {1: "no memory", 2: "no threads"}
COMPILERS = ("cc", "gcc", "clang")


class CannotRun(Refusal):
    """The test does not compile or run here; the text says why."""


def batches(source: Path, manifest: LitmusManifest, job: Job) -> Iterator[BatchCounts]:
    """Counts of batches with different seeds and delays, as long as the time lasts (one at least).

    The job has `seconds`, `seed`, `scale`; `only`: the number of the one batch that is run, as
    often as the time lasts; `keep`: a folder for what was compiled. Raises CannotRun.
    """
    launch = manifest["launch"]
    seconds, seed, scale = job["seconds"], job["seed"], job.get("scale", 1.0)
    only = job.get("only")
    size = int(manifest["outcomes"]["incomplete_bucket"]) + 1
    with tempfile.TemporaryDirectory(prefix="titan-") as folder:
        library = Path(folder) / "test.so"
        _compile(source, manifest, library)
        if job.get("keep"):
            shutil.copyfile(library, Path(job["keep"]) / library.name)
        entry = getattr(ctypes.CDLL(str(library)), _name(str(manifest["entry"])))
        started = time.monotonic()
        number = done = 0
        while done == 0 or time.monotonic() - started < seconds:
            number = done if only is None else int(only)
            histogram = (ctypes.c_ulonglong * size)()
            instances = max(1, int(int(launch["instances"]) * scale))
            # Every second batch without delays, the others with shorter and longer ones.
            spread = 0 if number % 2 == 0 else max(1, int(launch["spread"]) >> (number // 2 % 6))
            begin = time.monotonic()
            code = entry(
                ctypes.c_uint(instances), ctypes.c_uint(int(launch["rounds"])),
                ctypes.c_uint(int(launch["patience"])), ctypes.c_uint(seed + number),
                ctypes.c_uint(spread), histogram,
            )  # fmt: skip
            if code:
                raise CannotRun(ERRORS.get(code, f"code {code}"))
            yield {
                "kind": "counts",
                "histogram": list(histogram),
                "number": number,
                "seed": seed + number,
                "spread": spread,
                "seconds": time.monotonic() - begin,
            }
            done += 1


def _name(entry: str) -> str:
    if not entry.isidentifier():
        raise CannotRun("the entry of the manifest is not a valid name")
    return entry


def _compile(source: Path, manifest: LitmusManifest, library: Path) -> None:
    compiler, *flags = manifest["compile"]
    if compiler not in COMPILERS or any(not str(flag).startswith("-") for flag in flags):
        raise CannotRun("the manifest requires a compiler other than a C compiler")
    command = [
        os.environ.get("CC", compiler), *map(str, flags), "-fPIC", "-shared", str(source),
        "-o", str(library),
    ]  # fmt: skip
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"the C compiler does not run: {error}") from None
    if ran.returncode:
        raise CannotRun(f"{source.name} does not compile: {ran.stderr.strip()[:500]}")


def facts() -> DeviceFacts:
    """The machine that the results are from."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {"name": model, "backend": "cpu", "cores": os.cpu_count(), "machine": platform.machine()}
