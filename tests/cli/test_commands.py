"""`explain`, `rules` and `doctor`."""

import json
from pathlib import Path

import pytest

from titan.cli import doctor
from titan.cli.exit_code import ExitCode
from titan.cli.main import run
from titan.foundation.diagnostics.codes import CODES
from titan.foundation.diagnostics.rules import HEADINGS


@pytest.mark.parametrize("name", ["TTN212", "ttn212", "212", "lapped-wait"])
def test_explain_by_code_and_name(name, capsys):
    assert run(["explain", name]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("TTN212 lapped-wait: ")
    assert [line for line in shown.split("\n") if line in HEADINGS] == list(HEADINGS)
    assert "\x1b" not in shown


def test_explain_several_as_json(capsys):
    assert run(["explain", "--format", "json", "TTN201", "deadlock"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["code"] for row in rows] == ["TTN201", "TTN205"]
    assert tuple(rows[0]["sections"]) == HEADINGS


def test_explain_as_markdown(capsys):
    assert run(["explain", "--format", "markdown", "deadlock"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# TTN205 deadlock\n")
    assert shown.count("\n## ") == len(HEADINGS)


def test_explain_suggests_the_nearest_rule(capsys):
    assert run(["explain", "data-rac"]) == ExitCode.BAD_INPUT
    assert "did you mean `data-race`?" in capsys.readouterr().err


def test_rules_lists_all(capsys):
    assert run(["rules"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.split("\n") if line.startswith("  TTN")] == [*CODES]


def test_rules_of_a_family_as_json(capsys):
    assert run(["rules", "--family", "visibility", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["code"][:4] for row in rows} == {"TTN3"}
    assert {row["severity"] for row in rows} == {"error", "warning"}


def test_the_committed_page_of_rules_is_up_to_date(capsys):
    assert run(["rules", "--format", "markdown"]) == 0
    page = Path(__file__).parents[2] / "docs" / "reference" / "rules.md"
    assert page.read_text(encoding="utf-8") == capsys.readouterr().out


def test_doctor_tells_what_is_missing(capsys, monkeypatch):
    assert run(["doctor"]) == 0
    assert "MISSING" not in capsys.readouterr().out
    monkeypatch.setattr(doctor, "REQUIRED", ("click", "no-such-package-of-titan"))
    assert run(["doctor"]) == ExitCode.BAD_INPUT
    assert "MISSING" in capsys.readouterr().out


def test_doctor_tells_why_a_core_is_not_used(monkeypatch):
    def broken(name):
        raise ImportError("wrong machine")

    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    assert doctor._core("titan.engines.explore._core").endswith("wrong machine")
