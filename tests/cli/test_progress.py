"""The line of progress: there on a terminal, wiped before anything else, nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from titan.cli import progress as module
from titan.cli.output import write
from titan.cli.progress import ProgressLine, current, progress, show_part


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ProgressLine, int]]:
    """A line that is shown at once, and the end of a pipe where it is read."""
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.005)
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.0)
    reader, writer = os.pipe()
    shown = ProgressLine(writer)
    yield shown, reader
    shown.end()
    os.close(reader)
    os.close(writer)


def read_until(reader: int, text: bytes) -> bytes:
    found = b""
    while text not in found:
        found += os.read(reader, 4096)
    return found


def test_a_terminal_sees_what_is_done_and_how_far(line: tuple[ProgressLine, int]) -> None:
    shown, reader = line
    shown.show("verifying gemm", 2, 14)
    assert read_until(reader, b" s)").startswith(b"\r\x1b[K2 of 14: verifying gemm (0 s)")
    shown.show("a\n::error::b\x1b[31m")
    told = read_until(reader, b"error")
    assert b"\n" not in told and b"\x1b[31m" not in told


def test_the_line_is_wiped_before_other_output(line, monkeypatch, capsys) -> None:
    shown, reader = line
    monkeypatch.setattr(module, "_current", shown)
    shown.show("deciding")
    read_until(reader, b" s)")
    shown.show("")
    write("VERIFIED\n")
    assert current() is shown and capsys.readouterr().out == "VERIFIED\n"
    shown.end()
    assert not shown._shown


def test_without_a_terminal_nothing_is_shown(capfd) -> None:
    with progress() as shown:
        shown.show("verifying gemm", 1, 2)
        assert shown is current() and shown._thread is None
    assert capfd.readouterr() == ("", "")


def test_many_parts_have_a_line_for_each_tenth_where_there_is_no_terminal(capfd) -> None:
    with progress():
        for done in range(200):
            show_part("rendering", done, 200)
        for done in range(20):
            show_part("few", done, 20)
    lines = capfd.readouterr().err.splitlines()
    assert lines == [f"rendering: {done} of 200" for done in range(0, 200, 20)]
