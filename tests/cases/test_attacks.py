"""Models of the hardest kernels, and what breaks them, with the verdicts foretold.

Each file of attacks/ models how a kernel works that people run, and verifies; each edit is a fault
of the kind that such code has had. Verdicts were written down before TITAN was asked; the lists of
rules of nineteen edits grew after it. The same table stands in docs/reference/attacks.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import pytest
from ruamel.yaml import YAML

from tests.cases.judging import assert_refuted, assert_verified, judge_file
from tests.sampling import sampled

HERE = Path(__file__).parent
FOLDER = HERE / "attacks"
PAGE = HERE.parents[1] / "docs" / "reference" / "attacks.md"


class Edit(TypedDict, total=False):
    """What is taken out of a file, what stands there instead, and the rules that then refute it."""

    out: str
    last: bool
    also: list[str]
    rules: list[str]


EXPECTED: dict[str, dict[str, Edit]] = YAML(typ="safe").load(HERE / "attacks_expected.yaml")
# One broken variant of every other kernel with every run; the others in the long one.
SHORT = [(name, next(iter(edits))) for name, edits in EXPECTED.items()]
LONG = [(name, edit) for name, edits in EXPECTED.items() for edit in [*edits][1:]]


def edited(text: str, edit: Edit) -> str:
    """The text with one edit."""
    out, new = edit["out"], str(edit.get("in", ""))
    assert out in text
    if edit.get("last"):
        before, _, after = text.rpartition(out)
        return before + new + after
    text = text.replace(out, new)
    return text.replace(*edit["also"]) if "also" in edit else text


@pytest.mark.parametrize("name", sampled(EXPECTED, every=4))
def test_verified(name: str) -> None:
    assert_verified(judge_file(FOLDER / f"{name}.yaml"))


def broken(name: str, edit: str, folder: Path) -> None:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    file = folder / f"{name}.yaml"
    file.write_text(edited(text, EXPECTED[name][edit]), encoding="utf-8")
    assert_refuted(judge_file(file), set(EXPECTED[name][edit]["rules"]))


@pytest.mark.parametrize(("name", "edit"), sampled(SHORT, every=4))
def test_refuted(name: str, edit: str, tmp_path: Path) -> None:
    broken(name, edit, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "edit"), LONG)
def test_refuted_too(name: str, edit: str, tmp_path: Path) -> None:
    broken(name, edit, tmp_path)


def test_every_file_has_an_expectation() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(EXPECTED)


def test_the_page_lists_every_case() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, edits in EXPECTED.items():
        for edit, how in edits.items():
            rules = ", ".join(f"`{rule}`" for rule in how["rules"])
            assert f"| `{name}` | {edit.replace('_', ' ')} | {rules} |" in page, (name, edit)
