"""`--cluster` on a cluster of processes of this machine: the same answers, whoever dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from titan.cli.main import run
from titan.foundation.cluster import ClusterRefused, cluster
from titan.foundation.resources import root

RING = str(root("examples") / "ring.yaml")
ASYNC = root("litmus") / "async"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as local:
        yield local.scheduler_address


def slow(place: str, number: int) -> int:
    """Says which process works on it, and takes long enough for that to be killed."""
    (Path(place) / str(number)).write_text(str(os.getpid()))
    time.sleep(0.3)
    return number * number


@pytest.mark.heavy
@pytest.mark.parametrize(
    "command",
    [
        ["verify", RING, "--depth", "2..4", "--format", "json"],
        ["mutants", RING, "--all"],
        ["litmus", "check", str(ASYNC / "gw-bulkstore+minimal.litmus"),
         str(ASYNC / "gw-bulkstore+under-fenced.litmus"), "--timeout", "60"],
    ],
    ids=["verify", "mutants", "litmus"],
)  # fmt: skip
def test_the_answers_are_those_of_one_process(address, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = run([*command, "-j", "1"])
    here = capsys.readouterr().out
    assert run([*command, "--cluster", address]) == code
    assert capsys.readouterr().out == here != ""


@pytest.mark.heavy
def test_a_build_takes_the_same_candidate(address, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tile = str(root("protocols") / "tiles" / "row_sum.yaml")
    for place, more in (("here", []), ("there", ["--cluster", address])):
        assert run(["build", tile, "-o", place, "--no-cache", "--no-compile", *more]) == 0
    files = [path for path in Path("here").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert path.read_bytes() == (Path("there") / path.relative_to("here")).read_bytes()


@pytest.mark.heavy
def test_a_killed_worker_loses_nothing(address, tmp_path):
    killed = 0
    with cluster(address) as spread:
        results = spread(slow, [(str(tmp_path), number) for number in range(12)])
        found = [next(results)]
        for path in sorted(tmp_path.iterdir()):
            pid = int(path.read_text())
            if pid != os.getpid() and not killed:
                os.kill(pid, signal.SIGKILL)
                killed = pid
        found += list(results)
    assert killed and found == [number * number for number in range(12)]


@pytest.mark.heavy
def test_workers_with_another_titan_are_refused(address, monkeypatch, capsys):
    monkeypatch.setattr("titan.foundation.cluster.code_digest", os.getpid)  # differs
    with pytest.raises(ClusterRefused, match="another TITAN"), cluster(address):
        pass


def test_no_cluster_is_bad_usage(capsys, monkeypatch):
    monkeypatch.setattr("titan.foundation.cluster.CONNECT_SECONDS", 1)
    assert run(["verify", RING, "--cluster", "tcp://127.0.0.1:1"]) == 2
    assert "--cluster" in capsys.readouterr().err
