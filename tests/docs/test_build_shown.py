"""The report of a build in docs/how-to/build_a_kernel.md is that of this version.

What a compiler reports is not compared: it is another with each version of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from titan.cli.main import run
from titan.foundation.resources import root

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "build_a_kernel.md"
OF_THE_COMPILER = ("compiled", "loop", "issues", "ranked", "rates")


def test_the_report_of_a_build_is_shown_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "protocols").symlink_to(root("protocols"))
    command = ["build", "protocols/tiles/gemm.yaml", "-o", "out/", "--target", "sm_90a"]
    assert run([*command, "--explain", "--no-compile", "--no-cache"]) == 0
    page = PAGE.read_text(encoding="utf-8")
    lines = capsys.readouterr().out.splitlines()
    compared = [line for line in lines if line.split()[0] not in OF_THE_COMPILER]
    assert len(compared) == 11
    without_slots = [line.split(", issue slots")[0] for line in compared]  # counted, if compiled
    assert [line for line in without_slots if line not in page] == []
    predicted = next(line for line in lines if line.startswith("  issues")).split(",")[0]
    assert f"{predicted}, " in page
    for item in (tmp_path / "out" / "gemm-sm_90a").iterdir():
        assert f"`{item.name}`" in page, item.name
