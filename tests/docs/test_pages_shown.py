"""What tutorials show is what their commands print, and examples have the verdict they announce.

`TITAN_UPDATE_RULES=1 pytest tests/docs` writes what is printed today into the tutorials.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.rules.literate import called, replayed

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
_ANNOUNCED = re.compile(r"^# (titan \w+ EXAMPLE.*): exit (\d)(?:, (TTN\d{3}))?$", re.M)


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_what_a_tutorial_shows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = replayed(text)
    if os.environ.get("TITAN_UPDATE_RULES"):
        page.write_text(shown, encoding="utf-8")
    assert shown == page.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_the_verdict_that_it_announces(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    announced = _ANNOUNCED.findall(text)
    assert announced, f"{path.name} announces no command"
    Path("example.yaml").write_text(text, encoding="utf-8")
    for command, code, rule in announced:
        printed, found = called(command.replace("EXAMPLE", "example.yaml"))
        assert found == int(code), printed
        assert rule in printed
