"""A folder is written whole or not at all: killed at random points, replaced, refused."""

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
from titan.foundation.resources import root
from titan.package.atomic import CannotWrite, refuse_unwritable, write_folder

CHILD = """
import sys, json
from titan.package.atomic import write_folder
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


def test_a_folder_that_is_not_ours_stays(tmp_path):
    place = tmp_path / "mine"
    place.mkdir()
    (place / "thesis.tex").write_text("years of work")
    with pytest.raises(CannotWrite, match="no package"):
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
    with pytest.raises(CannotWrite, match="is no folder"):
        refuse_unwritable(tmp_path / "file" / "out")
    assert (
        run(["build", str(root("protocols") / "tiles" / "gemm.yaml"), "-o", str(tmp_path / "file")])
        == 2
    )
    assert "is no folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
