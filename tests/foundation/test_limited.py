"""Calls within a limit of processor time: answers, faults, and what needs more."""

from __future__ import annotations

import resource
import signal
import sys
import time
from pathlib import Path

import pytest

from titan.foundation.errors import InternalError
from titan.foundation.limited import run_limited, within


def test_an_answer_is_handed_on() -> None:
    assert within(20, lambda: {"answer": 42}) == {"answer": 42}


def test_a_fault_is_the_caller_s() -> None:
    with pytest.raises(ZeroDivisionError):
        within(20, lambda: 1 // 0)


def test_what_needs_more_processor_time_is_ended() -> None:
    def spin() -> int:
        number = 0
        while True:
            number += 1

    assert within(1, spin) is None


def test_waiting_costs_nothing() -> None:
    assert within(1, lambda: time.sleep(1.2) or "awake") == "awake"


def test_another_end_is_no_answer() -> None:
    import os

    with pytest.raises(InternalError, match="ended with 3"):
        within(20, lambda: os._exit(3))


@pytest.fixture(params=["from outside", "by itself"])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which a program is limited, whichever this system has."""
    if request.param == "by itself":
        monkeypatch.delattr(resource, "prlimit", raising=False)


@pytest.mark.usefixtures("limit")
def test_a_program_is_ended_when_its_processor_time_is_spent() -> None:
    done = run_limited([sys.executable, "-c", "while True: pass"], 1)
    assert done.returncode == -signal.SIGXCPU


@pytest.mark.usefixtures("limit")
def test_what_a_program_starts_is_limited_as_it_is() -> None:
    inner = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU))"
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    assert run_limited([sys.executable, "-c", text], 77).stdout == "(77, 78)\n"


@pytest.mark.usefixtures("limit")
def test_what_a_program_writes_is_handed_on() -> None:
    text = "import os, sys; print(os.environ['WORD']); sys.exit(f'{5 * 7} complaints')"
    done = run_limited([sys.executable, "-c", text], 20, {"WORD": "spoken"})
    assert (done.stdout, done.stderr, done.returncode) == ("spoken\n", "35 complaints\n", 1)


@pytest.mark.usefixtures("limit")
def test_what_cannot_be_started_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no such program"):
        run_limited([str(tmp_path / "no such program")], 20)
