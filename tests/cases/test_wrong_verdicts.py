"""Kernels that were once judged wrongly: one for each class, with the verdict that it ought to get.

Each stands for a class that a test of its own tries at random or exhaustively: what completes by
what (tests/target), bytes (tests/verify/legality), waits and pipes (tests/agreement).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cases.judging import assert_refuted, assert_verified, judge_file

HERE = Path(__file__).parent
FOLDER = HERE / "wrong_verdicts"
EXPECTED: dict[str, list[str]] = YAML(typ="safe").load(HERE / "wrong_verdicts_expected.yaml")


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict(name: str) -> None:
    finding = judge_file(FOLDER / f"{name}.yaml")
    if EXPECTED[name]:
        assert_refuted(finding, set(EXPECTED[name]))
    else:
        assert_verified(finding)


def test_every_file_has_an_expectation() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(EXPECTED)
