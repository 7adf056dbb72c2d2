"""`titan verify` a second time: only what git says has changed, and verdicts that were kept."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.verify import kernels
from titan.cli.main import run

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


def git(*arguments: str) -> str:
    name = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *name, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def named(text: str, name: str) -> str:
    return text.replace(text.split("kernel: ")[1].split("\n", maxsplit=1)[0], name)


def commit() -> str:
    git("add", "-A")
    git("commit", "-qm", "a commit")
    return git("rev-parse", "HEAD")


@pytest.fixture
def repository() -> str:
    git("init", "-q", "-b", "main")
    Path("kernels").mkdir()
    for name in ("first", "second"):
        Path(f"kernels/{name}.yaml").write_text(named(kernels.GOOD, name), encoding="utf-8")
    return commit()


def verified(capsys: Captured, *options: str) -> tuple[int, str, str]:
    code = run(["verify", "kernels", "--format", "concise", *options])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_only_what_has_changed_since_a_revision(repository: str, capsys: Captured):
    code, out, err = verified(capsys, "--changed-since", repository)
    assert (code, "has changed since" in err) == (0, True)
    assert "first" not in out and "second" not in out
    with Path("kernels/second.yaml").open("a", encoding="utf-8") as file:
        file.write("\n# changed, not committed\n")
    _, out, _ = verified(capsys, "--changed-since", "HEAD")
    assert "verified second" in out and "first" not in out
    commit()
    Path("kernels/new name.yaml").write_text(named(kernels.EARLY, "fresh"), encoding="utf-8")
    code, out, _ = verified(capsys, "--changed-since", repository)
    assert code == 1 and "fresh" in out and "second" in out and "first" not in out


def test_what_the_revision_has_gained_meanwhile_does_not_count(repository: str, capsys: Captured):
    git("checkout", "-qb", "branch")
    Path("kernels/first.yaml").write_text(named(kernels.GOOD, "one"), encoding="utf-8")
    commit()
    git("checkout", "-q", "main")
    Path("kernels/second.yaml").write_text(named(kernels.GOOD, "two"), encoding="utf-8")
    commit()
    git("checkout", "-q", "branch")
    _, out, _ = verified(capsys, "--changed-since", "main")
    assert "one" in out and "second" not in out


def test_a_folder_below_the_top_and_a_link(repository: str, capsys: Captured, monkeypatch):
    Path("kernels/first.yaml").write_text(named(kernels.GOOD, "one"), encoding="utf-8")
    Path("elsewhere").symlink_to("kernels")
    monkeypatch.chdir("elsewhere")
    assert run(["verify", ".", "--format", "concise", "--changed-since", "HEAD"]) == 0
    shown = capsys.readouterr().out
    assert "one" in shown and "second" not in shown


@pytest.mark.parametrize("revision", ["nowhere", "--output=/x", "", "HEAD:kernels"])
def test_a_revision_that_is_none_is_bad_usage(repository: str, revision: str, capsys: Captured):
    code, _, err = verified(capsys, f"--changed-since={revision}")
    assert code == 2 and "revision" in err and "Traceback" not in err


def test_outside_of_a_repository(tmp_path: Path, monkeypatch, capsys: Captured):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    Path("kernels").mkdir()
    Path("kernels/k.yaml").write_text(kernels.GOOD, encoding="utf-8")
    code, _, err = verified(capsys, "--changed-since", "HEAD")
    assert code == 2 and "repository" in err


# ------------------------------------------------------------------------ verdicts that are kept


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that are searched."""
    from titan.verify import pipeline

    searched: list[str] = []
    original = pipeline.verify_kernel

    def counted(kernel, *rest, **options):
        searched.append(kernel.name)
        return original(kernel, *rest, **options)

    monkeypatch.setattr(pipeline, "verify_kernel", counted)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path("config").absolute()))
    monkeypatch.setenv("XDG_DATA_HOME", str(Path("data").absolute()))
    Path("kernels").mkdir()
    Path("kernels/good.yaml").write_text(named(kernels.GOOD, "good"), encoding="utf-8")
    Path("kernels/early.yaml").write_text(named(kernels.EARLY, "early"), encoding="utf-8")
    return searched


def test_verified_is_kept_and_nothing_else(kept: list[str], capsys: Captured):
    first = verified(capsys, "--cache", "c.sqlite")
    assert sorted(kept) == ["early", "good"] and first[0] == 1
    second = verified(capsys, "--cache", "c.sqlite")
    assert sorted(kept) == ["early", "early", "good"]
    assert second[:2] == first[:2]


@pytest.mark.parametrize(
    "change",
    ["the text", "an option", "the code", "the path", "the row", "the verdict of the row"],
)
def test_what_a_verdict_follows_from_is_its_key(
    change: str, kept: list[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    verified(capsys, "--cache", "c.sqlite")
    kept.clear()
    options: list[str] = []
    if change == "the text":
        with Path("kernels/good.yaml").open("a", encoding="utf-8") as file:
            file.write("\n# another file\n")
    elif change == "an option":
        options = ["--policy", "exit_in_flight=allow"]
    elif change == "the code":
        monkeypatch.setattr("titan.verify.kept.code_digest", lambda: "another TITAN")
    elif change == "the path":
        Path("kernels/good.yaml").rename("kernels/moved.yaml")
    else:
        _damage("c.sqlite", whole=change == "the row")
    code, _, err = verified(capsys, "--cache", "c.sqlite", *options)
    assert "good" in kept and code == 1 and "Traceback" not in err


def _damage(path: str, whole: bool) -> None:
    """Change one byte of every row, or put another value under the key with its signature."""
    with sqlite3.connect(path) as database:
        [table] = [
            name
            for (name,) in database.execute(
                "select name from sqlite_master where type = 'table' and name not like 'sqlite%'"
            )
        ]
        columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
        blobs = [
            name
            for name in columns
            if any(
                isinstance(value, bytes)
                for (value,) in database.execute(f"select {name} from {table}")
            )
        ]
        assert blobs
        for name in blobs if whole else blobs[:1]:
            for number, value in database.execute(f"select rowid, {name} from {table}").fetchall():
                changed = bytes([value[0] ^ 1]) + value[1:] if whole else value + b"."
                database.execute(
                    f"update {table} set {name} = ? where rowid = ?", (changed, number)
                )


def test_a_file_that_is_no_database_is_no_verdict(kept: list[str], capsys: Captured):
    Path("c.sqlite").write_text("not a database", encoding="utf-8")
    code, out, err = verified(capsys, "--cache", "c.sqlite")
    assert code in (1, 2) and "Traceback" not in out + err
    assert code == 2 or sorted(kept) == ["early", "good"]
