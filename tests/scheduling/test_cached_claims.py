"""What a file of cached results claims is not believed but where it is derived again, or signed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.sampling import part
from titan.foundation.kept import SignedStore
from titan.foundation.resources import root
from titan.scheduling import cache as module
from titan.scheduling.cache import Cache
from titan.scheduling.loop.load import load_loop
from titan.scheduling.model import Evidence
from titan.scheduling.run import Request, ScheduleRun, run

LOOP = root("examples").parent / "protocols" / "loops" / "toy_gemm.yaml"


@pytest.fixture(autouse=True)
def key_of_this_test(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))


def with_evidence(monkeypatch: pytest.MonkeyPatch, evidence: Evidence) -> None:
    """Searches end with this evidence."""

    def searched(loop, request) -> ScheduleRun:
        return replace(run(loop, request), evidence=evidence)

    monkeypatch.setattr(module, "run", searched)


def altered(path: Path, **changes: object) -> None:
    """The one row with another part in its evidence, or another schedule."""
    with Cache(path) as cache:
        assert cache.database is not None
        ((text,),) = cache.database.execute("SELECT content FROM results").fetchall()
        content = json.loads(text)
        for name, value in changes.items():
            (content["evidence"] if name in content["evidence"] else content)[name] = value
        cache.database.execute("UPDATE results SET content = ?", (json.dumps(content),))


def found_again(path: Path) -> bool:
    with Cache(path) as cache:
        return cache.run(load_loop(LOOP), Request()).cached


STATED = Evidence("agreement", 2, "two solvers")


@pytest.mark.parametrize("evidence", [None, STATED, Evidence("none", 2, "")])
def test_what_this_user_has_kept_is_found(evidence, tmp_path, monkeypatch):
    if evidence is not None:
        with_evidence(monkeypatch, evidence)
    path = tmp_path / "c.sqlite"
    assert not found_again(path)
    assert found_again(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "refutation"}, {"kind": "agreement"}, {"kind": "proof"}, {"lower_bound": 1},
        {"detail": "all is well"}, {"complete": False}, {"lengths_to": 5}, {"starts": [0, 1]},
        {"teams": None}, {"ii": 2**70}, {"ii": "2"}, {"evidence": {}}, {"mark": "0" * 64},
        {"mark": None},
    ],
)  # fmt: skip
@pytest.mark.parametrize("stated", [True, False])
def test_an_altered_row_is_a_miss(changes, stated, tmp_path, monkeypatch):
    path = tmp_path / "c.sqlite"
    if stated:
        with_evidence(monkeypatch, STATED)
    assert not found_again(path)
    altered(path, **changes)
    same = stated and changes == {"kind": "agreement"}
    derived = not stated and "mark" in changes  # a bound needs no signature
    assert found_again(path) == (same or derived)


def test_what_another_user_states_is_a_miss(tmp_path, monkeypatch):
    path = tmp_path / "c.sqlite"
    with_evidence(monkeypatch, STATED)
    assert not found_again(path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert not found_again(path)


def test_damaged_files_hold_nothing_and_end_nothing(tmp_path):
    """Bytes of both kinds of files, overwritten at random."""
    schedules, kept = tmp_path / "c.sqlite", tmp_path / "k.sqlite"
    assert not found_again(schedules)
    store = SignedStore(kept)
    store.put("key", b"value" * 100)
    store.close()
    whole = {path: path.read_bytes() for path in (schedules, kept)}
    random, damaged = Random(3), 0
    for _ in range(part(400, of=10)):
        for path, data in whole.items():
            bad = bytearray(data)
            for _ in range(random.choice((1, 30, 300, 3000))):
                bad[random.randrange(len(bad))] = random.randrange(256)
            path.write_bytes(bytes(bad))
        found_again(schedules)
        store = SignedStore(kept)
        assert store.get("key") in (None, b"value" * 100)
        store.put("other", b"x")
        damaged += bool(store.damage)
        store.close()
    assert damaged


def test_the_key_is_whole_from_its_first_moment(tmp_path, monkeypatch):
    from titan.foundation import kept

    first = kept.secret()
    assert len(first) == kept.KEY_BYTES and kept.secret() == first
    folder = kept.cache_folder()
    assert [path.name for path in folder.iterdir()] == ["gate.key"]
    kept._offer(folder / "gate.key", b"x" * 32)  # another process that came to it later
    assert kept.secret() == first
