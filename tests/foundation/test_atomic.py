"""Files and folders are written whole or not at all: killed, replaced, refused, failing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from titan.cli.main import run
from titan.foundation.atomic import (
    CannotWrite,
    refuse_unwritable,
    write_bytes,
    write_folder,
    write_text,
)
from titan.foundation.resources import root

CHILD = """
import sys, json
from titan.foundation.atomic import write_folder
generation = int(sys.argv[2])
while True:
    generation += 1
    files = {f"file_{i}": (f"{generation} {i} " * 2000).encode() for i in range(6)}
    write_folder(sys.argv[1], files, may_replace=lambda path: True)
    print(generation, flush=True)
"""


def whole(folder: Path) -> int:
    """The generation of a folder that is whole; fails for any other."""
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"file_{i}" for i in range(6)]
    texts = [(folder / name).read_text() for name in names]
    generation = int(texts[0].split()[0])
    assert texts == [f"{generation} {i} " * 2000 for i in range(6)]
    return generation


def test_a_killed_writer_leaves_the_old_folder_or_the_new_one(tmp_path):
    place = tmp_path / "package"
    chance = random.Random(1)
    last, seen = 0, set()
    for _ in range(25):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(place), str(last)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        first = child.stdout.readline()  # it is writing now, again and again
        time.sleep(chance.random() * 0.02)
        os.kill(child.pid, signal.SIGKILL)
        told = [int(line) for line in [first, *child.stdout.read().split("\n")[:-1]]]
        child.wait()
        child.stdout.close()
        last = whole(place)
        assert told[-1] <= last <= told[-1] + 1
        seen.add(last - told[-1])
        assert len(list(tmp_path.iterdir())) <= 2
    assert seen, "generations were written"
    write_folder(place, {"only": b"x"}, may_replace=lambda path: True)
    assert [path.name for path in tmp_path.iterdir()] == ["package"], "what was left over is gone"
    assert (place / "only").read_bytes() == b"x"


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path):
    place = tmp_path / "report.json"
    for text in ("old", "new: \N{GREEK SMALL LETTER ALPHA}\r\n"):
        write_text(place, text, durable=True)
        assert place.read_bytes() == text.encode()
    place.chmod(0o600)
    write_bytes(place, b"newer")
    assert (place.read_bytes(), place.stat().st_mode & 0o777) == (b"newer", 0o600)
    assert os.listdir(tmp_path) == ["report.json"]


def test_the_permissions_of_a_new_file_are_those_of_the_process(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_bytes(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "below" / "file")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "below" / "file").read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_bytes(tmp_path / "pipe", b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    write_bytes(os.devnull, b"nowhere")
    assert Path(os.devnull).is_char_device()


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path, monkeypatch):
    place = tmp_path / "file"
    place.write_bytes(b"old")

    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_bytes(place, b"new")
    assert (place.read_bytes(), os.listdir(tmp_path)) == (b"old", ["file"])
    with pytest.raises(UnicodeEncodeError):
        write_text(place, "\ud800")
    assert place.read_bytes() == b"old"


def test_a_folder_that_is_not_ours_stays(tmp_path):
    place = tmp_path / "mine"
    place.mkdir()
    (place / "thesis.tex").write_text("years of work")
    with pytest.raises(CannotWrite, match="not written by titan"):
        write_folder(place, {"a": b"1"}, may_replace=lambda path: False)
    assert json.dumps(sorted(os.listdir(place))) == '["thesis.tex"]'
    assert os.listdir(tmp_path) == ["mine"]


def test_an_empty_folder_and_missing_parents_are_taken(tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "some" / "where"):
        write_folder(place, {"a": b"1"}, may_replace=lambda path: False)
        assert (place / "a").read_bytes() == b"1"


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_folder_is_not_replaced(tmp_path, kind):
    place = tmp_path / "place"
    (tmp_path / "target").mkdir()
    if kind == "file":
        place.write_text("x")
    else:
        place.symlink_to(tmp_path / "target")
    with pytest.raises(CannotWrite):
        write_folder(place, {"a": b"1"}, may_replace=lambda path: True)
    assert os.listdir(tmp_path / "target") == []
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotWrite):
        write_folder(tmp_path / "file" / "package", {"a": b"1"}, may_replace=lambda path: True)


def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path, capsys):
    refuse_unwritable(tmp_path / "new" / "deep")
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="is not a folder"):
        refuse_unwritable(tmp_path / "file" / "out")
    assert (
        run(["build", str(root("protocols") / "tiles" / "gemm.yaml"), "-o", str(tmp_path / "file")])
        == 2
    )
    assert "is not a folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_several_writers_of_one_folder_leave_one_of_theirs(tmp_path):
    """Each write succeeds, and what stays is whole: nobody takes another's draft for left over."""
    from concurrent.futures import ThreadPoolExecutor

    place = tmp_path / "package"

    def write(number: int) -> None:
        files = {name: str(number).encode() for name in ("a", "b", "c/d")}
        write_folder(place, files, lambda folder: True)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, number) for number in range(60)]:
            done.result()
    assert len({(place / name).read_bytes() for name in ("a", "b", "c/d")}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["package"]


def test_where_no_temporary_file_can_be_written_that_is_told(tmp_path, monkeypatch, capsys):
    import errno
    import tempfile

    from titan.foundation.scratch import NoScratch, scratch

    with pytest.raises(NoScratch, match="no space left"), scratch():
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError), scratch():
        raise FileNotFoundError(errno.ENOENT, "no such file", "kernel.cu")

    def nowhere(*options, **named):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/x']")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", nowhere)
    tile = root("protocols") / "tiles" / "copy.yaml"
    assert run(["build", str(tile), "-o", str(tmp_path / "out"), "--no-cache"]) == 2
    told = capsys.readouterr().err
    assert "temporary files cannot be written: no usable temporary directory" in told
    assert "no shape" not in told and not (tmp_path / "out").exists()


def test_a_tool_that_cannot_write_refuses_nothing(monkeypatch):
    from titan.foundation.scratch import NoScratch
    from titan.validate.compare.toolchain import CannotCompile
    from titan.validate.compare.toolchain import run as run_tool

    full = "echo 'nvcc fatal : Could not open output file' >&2; exit 1"
    with pytest.raises(NoScratch, match="Could not open"):
        run_tool(["sh", "-c", full])
    with pytest.raises(CannotCompile):
        run_tool(["sh", "-c", "echo 'error: no such type' >&2; exit 1"])
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    assert "/nonexistent" not in run_tool(["sh", "-c", "echo $TMPDIR"])
