"""Litmus tests whose verdicts were reasoned by hand before TITAN was asked; both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from titan.litmus.decide import decide
from titan.litmus.language.suite import read_test
from titan.litmus.model.options import ModelOptions

HERE = Path(__file__).parent / "attacks"
FORETOLD = dict(line.split() for line in (HERE / "kinds.txt").read_text("utf-8").splitlines())


@pytest.mark.parametrize("name", FORETOLD)
def test_foretold(name: str) -> None:
    assert decide(read_test(HERE / f"{name}.yaml"), ModelOptions()).verdict == FORETOLD[name]


def test_every_file_has_a_verdict() -> None:
    assert {path.stem for path in HERE.glob("*.yaml")} == set(FORETOLD)
