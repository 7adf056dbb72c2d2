"""Programs for targets with wait counters: a register is a buffer, a load an operation in flight.

An instruction that is counted twice (its result in one counter, its address in another) is two
operations; what the hardware drains by itself is written out as a drain.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cases.judging import assert_refuted, assert_verified, for_all_sizes, judge_file

HERE = Path(__file__).parent
FOLDER = HERE / "amd_wait"
EXPECTED: dict[str, list[str]] = YAML(typ="safe").load(HERE / "amd_wait_expected.yaml")


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict(name: str) -> None:
    finding = judge_file(FOLDER / f"{name}.yaml")
    if EXPECTED[name]:
        assert_refuted(finding, set(EXPECTED[name]))
    else:
        assert_verified(finding)
        assert for_all_sizes(finding)


def test_every_file_has_an_expectation() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(EXPECTED)
