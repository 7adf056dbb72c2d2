"""`titan litmus` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from titan.cli.litmus import litmus
from titan.foundation.resources import root

ASYNC = root("litmus") / "async"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(litmus, list(arguments), standalone_mode=False)


def test_text_and_exit_code() -> None:
    result = call("check", str(ASYNC / "gw-bulkstore+under-fenced.litmus"), "--execution")
    assert result.return_value == 0
    assert result.output.startswith("Test gw-bulkstore+under-fenced Allowed\nStates 2\n")
    assert "Execution" in result.output
    assert "Reading fence rule writer, war fence, init sync" in result.output


def test_json_lists_states_and_execution() -> None:
    result = call("check", "--format", "json", str(ASYNC / "gw-bulkstore+under-fenced.litmus"))
    (row,) = json.loads(result.output)["tests"]
    assert (row["verdict"], row["expected"], row["ok"]) == ("Allowed", "Allowed", True)
    assert {"P1:r0": 0} in row["states"]
    assert row["execution"]["rf"]


def test_readings_change_the_verdict() -> None:
    path = str(ASYNC / "gr-bulkload+under-fenced.litmus")
    assert "Allowed" in call("check", "--format", "concise", path).output
    result = call("check", "--format", "concise", "--war", "sync", path)
    assert "Forbidden" in result.output
    assert result.return_value == 0  # the folder records both


def test_unexpected_verdict_is_exit_1(tmp_path: Path) -> None:
    source = ASYNC / "gw-bulkstore+minimal.litmus"
    copy = tmp_path / source.name
    copy.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "kinds.txt").write_text(f"{source.stem} Allowed\n", encoding="utf-8")
    result = call("check", str(copy))
    assert result.return_value == 1
    assert "Expected Allowed, UNEXPECTED" in result.output


def test_a_second_solver_confirms() -> None:
    result = call("check", "--confirm", "--format", "concise", str(root("litmus") / "tensormap"))
    assert result.return_value == 0
    assert len(result.output.splitlines()) == 22  # 21 tests and the summary


def test_a_cut_loop_is_undecided(tmp_path: Path) -> None:
    path = tmp_path / "loop.litmus"
    path.write_text(
        "PTX loop\n{ x = 0; }\n P0@cta 0,gpu 0 ;\n L: ;\n atom.relaxed.gpu.add r0, x, 1 ;\n"
        " bne r0, 100, L ;\nexists (P0:r0 = 7)\n",
        encoding="utf-8",
    )
    (tmp_path / "kinds.txt").write_text("loop Forbidden\n", encoding="utf-8")
    assert call("check", str(path)).return_value == 3


def test_graphs_are_written(tmp_path: Path) -> None:
    call("check", "--graph", str(tmp_path), str(ASYNC / "gw-bulkstore+under-fenced.litmus"))
    written = {path.suffix for path in tmp_path.iterdir()}
    assert written == {".dot", ".svg"}


def test_faults_show_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.litmus"
    path.write_text(
        "PTX bad\n{ x = 0; }\n P0@cta 0,gpu 0 ;\n st.week x, 1 ;\nexists (x=1)\n", encoding="utf-8"
    )
    result = call("check", str(path))
    assert result.return_value == 2
    assert "bad.litmus:4:2" in result.output and "^^^" in result.output


def test_list_shows_verdicts_and_exceptions() -> None:
    result = call("list", str(ASYNC))
    line = next(row for row in result.output.splitlines() if "gr-bulkload+under-fenced" in row)
    assert line.startswith("Allowed")
    assert line.endswith("war=sync:Forbidden")


TEST = ASYNC / "gw-bulkstore+minimal.litmus"


def test_a_limit_of_time_goes_with_either_solver() -> None:
    for extra in (["--solver", "cvc5"], ["--confirm"], []):
        result = call("check", "--format", "concise", "--timeout", "60", *extra, str(TEST))
        assert result.return_value == 0 and "Forbidden" in result.output


def test_a_test_beyond_its_time_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titan.foundation.limited.within", lambda seconds, call: None)
    result = call("check", "--timeout", "5", str(TEST))
    assert result.return_value == 3
    assert "Undecided" in result.output and "Bounded" not in result.output


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    bad = tmp_path / "bad.litmus"
    bad.write_text("x\n", encoding="utf-8")
    result = call("check", "--format", "concise", str(bad), str(TEST))
    assert result.return_value == 2
    assert "starts with `PTX`" in result.output and f"{TEST.stem}.litmus: Forb" in result.output


HEAD = "PTX x\n{ x = 0; }\n P0@cta 0,gpu 0 ;\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD + "(" * 20_000 + " ;\nexists (x = 0)\n", "brackets nested more than 64 deep"),
        (HEAD + f" st.weak x, {'9' * 50_000} ;\nexists (x = 0)\n", "more than 19 digits"),
        (HEAD + f" st.weak x, 1 ;\nexists ({'~' * 5_000}x = 0)\n", "more than 64 negations"),
        (HEAD + " st.weak x, 1 ;\n" * 1_001 + "exists (x = 0)\n", "1002 rows, of at most 1000"),
        ("PTX x\n{ x = 0; }\n" + " | ".join(f"P{i}@cta 0,gpu 0" for i in range(99)) + " ;\n"
         + " st.weak x, 1 ;\nexists (x = 0)\n", "99 threads, of at most 64"),
    ],
    ids=["brackets", "digits", "negations", "rows", "threads"],
)  # fmt: skip
def test_what_is_too_large_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "large.litmus"
    path.write_text(text, encoding="utf-8")
    result = call("check", str(path))
    assert result.return_value == 2 and told in result.output
    assert len(result.output) < 2_000
