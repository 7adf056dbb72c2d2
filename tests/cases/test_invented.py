"""Faulty kernels that nobody has reported yet: written to be missed."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cases.judging import assert_refuted, judge_file
from titan.language.kernel.decode import decode_text

HERE = Path(__file__).parent
FOLDER = HERE / "invented"
EXPECTED: dict[str, list[str]] = YAML(typ="safe").load(HERE / "invented_expected.yaml")
IN_A_GROUP = """\
titan: 1
kernel: load_in_a_group
target: sm_90a
buffers:
  A: {bytes: 1024}
barriers:
  full: {count: 1}
queues:
  copies: bulk
roles:
  warp: {warps: 1}
program:
  warp:
    - arrive: full
      bytes: 1024
    - bulk_load: A = 1
      completes: full
      queue: copies
    - commit: copies
    - wait: full
      phase: 0
"""


@pytest.mark.parametrize("name", EXPECTED)
def test_refuted(name: str) -> None:
    assert_refuted(judge_file(FOLDER / f"{name}.yaml"), set(EXPECTED[name]))


def test_every_file_has_an_expectation() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(EXPECTED)


def test_a_copy_is_waited_for_by_its_barrier_or_by_its_group() -> None:
    """In a group, a copy that completes on a barrier would prove that older stores are done."""
    family, diagnostics = decode_text(IN_A_GROUP, "kernel.yaml")
    assert family is None and [item.code for item in diagnostics] == ["TTN017"]
    assert decode_text(IN_A_GROUP.replace("      queue: copies\n", ""), "kernel.yaml")[0]
