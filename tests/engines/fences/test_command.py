"""`titan fences`: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from titan.cli.main import run

PROTOCOLS = Path(__file__).parents[3] / "protocols"


@pytest.fixture
def stripped(tmp_path: Path) -> Path:
    """A kernel without its two fences, with a comment on every other line kept."""
    text = (PROTOCOLS / "fa3_backward.yaml").read_text(encoding="utf-8")
    path = tmp_path / "kernel.yaml"
    lines = [line for line in text.splitlines(keepends=True) if "fence: async" not in line]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_missing_fences_and_where_they_go(
    stripped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = stripped.read_text(encoding="utf-8")
    assert run(["fences", str(stripped)]) == 1
    out = capsys.readouterr().out
    assert "error[TTN301]" in out and "path: program order, generation 0 of dq_full[0]" in out
    store = next(n for n, line in enumerate(before.splitlines(), 1) if "store: dS[0, self]" in line)
    assert f"after line {store}: fence: {{async, spaces: [shared]}}" in out
    assert stripped.read_text(encoding="utf-8") == before


def test_fix_writes_a_verified_kernel(stripped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stripped.chmod(0o640)
    assert run(["fences", "--fix", str(stripped)]) == 0
    assert "written to" in capsys.readouterr().out
    assert stripped.stat().st_mode & 0o777 == 0o640
    assert run(["fences", str(stripped)]) == 0
    out = capsys.readouterr().out
    assert "TTN306" not in out and "2 fences, cost 256" in out
    assert [path.name for path in stripped.parent.iterdir()] == ["kernel.yaml"]


def test_output_leaves_the_file_alone(stripped: Path, tmp_path: Path) -> None:
    before = stripped.read_text(encoding="utf-8")
    target = tmp_path / "fixed.yaml"
    assert run(["fences", "--fix", "--output", str(target), str(stripped)]) == 0
    assert stripped.read_text(encoding="utf-8") == before
    assert target.read_text(encoding="utf-8").count("fence:") == 2


def test_json(stripped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = PROTOCOLS / "fa3_backward.yaml"
    assert run(["fences", "--format", "json", str(stripped), str(original)]) == 1
    first, second = json.loads(capsys.readouterr().out)["files"]
    assert {row["rule"] for row in first["missing"]} == {"TTN301"}
    assert first["to_add"]["verdicts"] == ["verified"] and len(first["to_add"]["fences"]) == 2
    assert [row["state"] for row in second["fences"]] == ["too strong", "too strong"]
    assert second["missing"] == [] and second["cheapest"]["cost"] < second["cost"]


def test_redundant_fence_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (PROTOCOLS / "fa3_backward.yaml").read_text(encoding="utf-8")
    line = "        - fence: async\n"
    path = tmp_path / "twice.yaml"
    path.write_text(text.replace(line, line + line, 1), encoding="utf-8")
    assert run(["fences", str(path)]) == 0
    out = capsys.readouterr().out
    assert "a fence that no pair of accesses needs" in out and "redundant, saves" in out


def test_targets_without_proxies(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fences", str(PROTOCOLS / "mi300_gemm.yaml")]) == 0
    assert "no proxy fences" in capsys.readouterr().out


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fences", str(tmp_path / "none.yaml")]) == 2
    bad = tmp_path / "bad.yaml"
    bad.write_text("titan: 1\n", encoding="utf-8")
    assert run(["fences", str(bad)]) == 2
    assert run(["fences", "--output", "x", str(bad)]) == 2
    capsys.readouterr()
    assert run(["fences", "--format", "json", str(bad), str(PROTOCOLS / "hopper_gemm.yaml")]) == 2
    content = json.loads(capsys.readouterr().out)
    assert content["errors"] and [row["kernel"] for row in content["files"]] == ["hopper_gemm"]


def test_fix_of_a_kernel_that_is_broken_otherwise(
    stripped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fences cannot repair a missing wait; nothing is written."""
    text = stripped.read_text(encoding="utf-8").replace("        - sync: gradient[1]\n", "", 1)
    stripped.write_text(text, encoding="utf-8")
    assert run(["fences", "--fix", str(stripped)]) == 1
    out = capsys.readouterr().out
    assert "one run does not represent all" in out or "nothing is written" in out
    assert stripped.read_text(encoding="utf-8") == text
