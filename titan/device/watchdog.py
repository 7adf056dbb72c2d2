"""Work that may hang, in a child process that is ended when its time is over.

A job is a JSON object on the child's standard input; what the child finds comes back line by line
as JSON objects and is handed on (and kept on disk) as it comes, so that a crash or a hang loses
nothing. A job that hangs leaves a record that says where it was last seen.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar, cast

from titan.device.records import EndRecord, Job, Progress, Record

CHILD = (sys.executable, "-m", "titan.device.child")
GRACE_SECONDS = 2.0
VISIBLE = "CUDA_VISIBLE_DEVICES"


def run_job(
    job: Job,
    seconds: float,
    command: Sequence[str] = CHILD,
    progress: Callable[[], Progress] = Progress,
    idle: float | None = None,
    device: str | None = None,
) -> Iterator[Record]:
    """The records of a job, the last one of kind `end`: done, failed, hung.

    `progress` is asked when the child hangs: what the kernel's roles last reported. A child that
    gives no record for `idle` seconds hangs, too. `device`: the one GPU that the child sees.
    """
    started = time.monotonic()
    environment = dict(os.environ) if device is None else {**os.environ, VISIBLE: device}
    child = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environment,
    )
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    lines: queue.Queue[bytes | None] = queue.Queue()
    errors: list[bytes] = []
    readers = [
        threading.Thread(target=_read, args=(child.stdout, lines.put, None), daemon=True),
        threading.Thread(target=_read, args=(child.stderr, errors.append, b""), daemon=True),
    ]
    for reader in readers:
        reader.start()
    last: Mapping[str, object] = {}
    end = started + seconds
    heard = started
    try:
        _feed(child.stdin, job)
        while True:
            until = end if idle is None else min(end, heard + idle)
            left = until - time.monotonic()
            if left <= 0:
                _kill(child)  # before progress is read: nothing writes there any more
                yield _hung(round(time.monotonic() - started, 3), last, progress())
                return
            try:
                line = lines.get(timeout=left)
            except queue.Empty:
                continue
            if line is None:
                break
            record = _record(line)
            if record is None:
                continue
            last = record
            yield record
            heard = time.monotonic()
        code = _ended(child, end)
        if code is None:
            _kill(child)
            yield _hung(round(time.monotonic() - started, 3), last, progress())
        else:
            readers[1].join(GRACE_SECONDS)  # its last message is the reason
            yield _over(code, errors, time.monotonic() - started)
    finally:
        _kill(child)
        for reader in readers:
            reader.join(GRACE_SECONDS)


Line = TypeVar("Line", bytes, bytes | None)


def _read(stream: IO[bytes], take: Callable[[Line], object], end: Line) -> None:
    for line in stream:
        take(line)
    take(end)


def _feed(stream: IO[bytes], job: Job) -> None:
    try:
        stream.write(json.dumps(job).encode() + b"\n")
        stream.close()
    except BrokenPipeError:
        pass  # the child is gone already; its end shows it


def _record(line: bytes) -> Record | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return cast(Record, found) if isinstance(found, dict) else None


def _ended(child: subprocess.Popen[bytes], deadline: float) -> int | None:
    try:
        return child.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End the child and all that it started."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _hung(seconds: float, last: Mapping[str, object], seen: Progress) -> EndRecord:
    return {"kind": "end", "state": "hung", "seconds": seconds, "last": last, "progress": seen}


def _over(code: int, errors: list[bytes], seconds: float) -> EndRecord:
    if code == 0:
        return {"kind": "end", "state": "done", "seconds": round(seconds, 3)}
    text = b"".join(errors).decode(errors="replace").strip()
    return {
        "kind": "end",
        "state": "failed",
        "code": code,
        "seconds": round(seconds, 3),
        "error": text[-2000:],
    }


def reason(end: Mapping[str, object]) -> str:
    """The last line of what a child wrote of its error; the lines before may be warnings."""
    lines = str(end.get("error", "")).strip().splitlines()
    return lines[-1].strip() if lines else ""


class Log:
    """A file of JSON lines, each on disk before the next is made."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("a", encoding="utf-8")
        self.lock = threading.Lock()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()

    def add(self, record: Mapping[str, object]) -> None:
        """Write one line, and wait until it is on disk."""
        with self.lock:
            self.file.write(json.dumps(record, allow_nan=False) + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())
