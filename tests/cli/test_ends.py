"""However a command ends, it leaves no process behind and gives a documented exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from titan.cli.exit_code import ExitCode

ROOT = Path(__file__).resolve().parents[2]
# A shell's background ignores SIGINT, and `nohup` SIGHUP: the program starts as from a terminal.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from titan.cli.main import main
sys.exit(main())
"""
SLOW = ["--engine", "reference", "--budget-states", "100000000", "--depth", "6"]
PATIENCE_SECONDS = 60
STARTED: list[subprocess.Popen[bytes]] = []

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(autouse=True)
def nothing_left():
    """A test that fails leaves no search behind that the others would have to run beside."""
    yield
    while STARTED:
        process = STARTED.pop()
        for pid in (*children(process.pid), process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def started(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )
    STARTED.append(process)
    return process


def slow_verify(stdout: int) -> subprocess.Popen[bytes]:
    """`titan verify -j 2` on two kernels that take minutes."""
    paths = ["protocols/hopper_gemm.yaml", "protocols/blackwell_gemm.yaml"]
    return started("verify", *paths, *SLOW, "-j", "2", stdout=stdout)


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def with_workers(process: subprocess.Popen[bytes]) -> list[int]:
    """The workers of a command, as soon as both are there."""
    until = time.monotonic() + PATIENCE_SECONDS
    while len(children(process.pid)) < 2 and time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(0.5)  # Python writes of a signal that comes while it forks
    found = children(process.pid)
    assert len(found) == 2
    return found


def gone(pids: list[int]) -> bool:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if not any(Path(f"/proc/{pid}/exe").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, ExitCode.TERMINATED),
        (signal.SIGHUP, ExitCode.HUNG_UP),
        (signal.SIGINT, ExitCode.INTERRUPTED),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_a_signal_ends_the_workers_too(number: signal.Signals, code: int):
    process = slow_verify(subprocess.DEVNULL)
    workers = with_workers(process)
    process.send_signal(number)
    _, shown = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code
    assert b"Traceback" not in shown and b"bug in titan" not in shown
    assert gone(workers)


def test_a_killed_worker_is_no_bug():
    process = slow_verify(subprocess.DEVNULL)
    workers = with_workers(process)
    os.kill(workers[0], signal.SIGKILL)
    _, shown = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == ExitCode.UNDECIDED
    assert b"a worker process was killed" in shown and b"bug in titan" not in shown
    assert gone(workers)


def test_a_full_output_is_no_bug():
    with open("/dev/full", "wb") as full:
        process = started("rules", stdout=full)
        _, shown = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == ExitCode.BAD_INPUT
    assert shown.startswith(b"Error: standard output: no space left")


def test_a_closed_output_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    process = started("rules", stdout=writer)
    os.close(writer)
    _, shown = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == ExitCode.CLOSED_PIPE and shown == b""


@pytest.mark.parametrize(
    ("command", "closed"),
    [
        ("rules", "<&-"),
        ("rules", ">&-"),
        ("rules", "2>&-"),
        ("rules", ">&- 2>&-"),
        ("verify RING", ">&-"),
        ("verify --output report RING", ">&- 2>&-"),
    ],
)
def test_streams_that_are_closed_from_the_start(command: str, closed: str, tmp_path: Path):
    ring = ROOT / "examples" / "ring.yaml"
    line = f'"{sys.executable}" -m titan {command.replace("RING", str(ring))} {closed}'
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    written = ">&-" in closed.split() and "--output" not in command
    assert done.returncode == (ExitCode.CLOSED_PIPE if written else 0), done.stderr
    assert "bug" not in done.stderr + done.stdout and "Traceback" not in done.stderr
    if "--output" in command:
        assert "VERIFIED" in (tmp_path / "report").read_text()


DROPPED = """
import os, signal, sys, time
import titan.cli.main as command_line
from titan.cli.start import main

class Last:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0.001)  # where Python drops what the signal raises

def invoked(arguments):
    last = Last()
    del last
    for _ in range(300):
        time.sleep(0.1)

command_line._invoke = invoked
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED, "interrupted\n"),
        (signal.SIGTERM, ExitCode.TERMINATED, ""),
    ],
)
def test_an_end_that_python_drops_comes_again(number: int, code: int, words: str):
    done = subprocess.run(
        [sys.executable, "-c", DROPPED, str(int(number))], capture_output=True, text=True,
        cwd=ROOT, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, words)


EARLY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "titan.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Slow())
from titan.cli.start import main
main()
"""


def test_an_interrupt_of_the_imports_shows_no_traceback():
    done = subprocess.run(
        [sys.executable, "-c", EARLY], capture_output=True, text=True, cwd=ROOT, check=False,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
