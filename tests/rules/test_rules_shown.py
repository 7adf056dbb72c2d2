"""Every rule is shown firing, in a document of its own, with the words that a user sees.

tests/rules/TTNnnn.md holds an input that breaks the rule and what the command prints of it, and for
many rules the mended input too. `TITAN_UPDATE_RULES=1 pytest tests/rules` writes them anew; read
the difference before committing it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.rules.literate import replayed
from titan.foundation.diagnostics.codes import CODES

FOLDER = Path(__file__).parent
PAGES = sorted(FOLDER.glob("TTN*.md"))

# Rules that no input file breaks, each with the test that shows it.
ELSEWHERE = {
    "TTN018": "tests/frontends/test_launch.py::test_a_block_that_nothing_tells_is_asked_for",
    "TTN516": "tests/scheduling/loop/test_load.py::test_too_many_operations_have_a_rule",
    "TTN901": "tests/cli/test_main.py",
    "TTN902": "tests/foundation/diagnostics/fixture.py",
}


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_printed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = replayed(text)
    if os.environ.get("TITAN_UPDATE_RULES"):
        page.write_text(shown, encoding="utf-8")
    assert shown == page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_rule_of_the_page_fires(page: Path) -> None:
    printed = "".join(re.findall(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S))
    assert page.stem in printed


def test_every_rule_has_its_page() -> None:
    shown = {page.stem for page in PAGES}
    assert sorted(set(CODES) - shown - set(ELSEWHERE)) == []
    assert sorted(shown - set(CODES)) == []
    assert sorted(shown & set(ELSEWHERE)) == [], "an exception that is no longer needed"
    for place in ELSEWHERE.values():
        path, _, name = place.partition("::")
        source = (FOLDER.parents[1] / path).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in source, place
