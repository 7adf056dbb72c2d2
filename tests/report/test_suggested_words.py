"""Where the file lacks a word for what it models, the diagnostic names it.

An agent on another device and the end of a grid cannot be told from a warp of the work-group and
from an mbarrier by what they do; reading them so would verify kernels that are wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from titan.cli.main import run

FOLDER = Path(__file__).parents[1] / "cases" / "wrong_verdicts"


def verified(text: str, folder: Path) -> int:
    """The exit code of `titan verify` on a kernel file."""
    path = folder / "kernel.yaml"
    path.write_text(text, encoding="utf-8")
    return run(["verify", str(path)])


CASES = {
    "receiver_on_another_device": (
        (", outside: true", ""),
        (", kind: flag", ""),
        "if `receiver` run elsewhere (another GPU, another grid, the host), declare "
        "`outside: true` for the role, and `kind: flag` of the barrier `head` and `tail`",
    ),
    "end_of_a_grid": (
        (", kind: grid", ""),
        (", outside: true", ""),
        "if first_grid models the end of a grid (griddepcontrol), declare it with `kind: grid`",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_word_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    *edits, words = CASES[name]
    assert verified(text, tmp_path) == 0
    for old, new in edits:
        text = text.replace(old, new)
    assert verified(text, tmp_path) == 1
    assert words in " ".join(capsys.readouterr().out.split())


def test_a_race_is_told_before_a_missing_fence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A generic read that nothing orders before a bulk reduction: a fence would not help."""
    monkeypatch.chdir(tmp_path)
    text = (FOLDER / "reduction_and_a_reader.yaml").read_text(encoding="utf-8")
    assert verified(text, tmp_path) == 1
    output = " ".join(capsys.readouterr().out.split())
    assert "error[TTN201] data-race: C is read by half[" in output
    assert "and nothing orders that before this asynchronous access of half[" in output
    assert "has passed no barrier after it; a fence alone orders nothing between agents" in output
