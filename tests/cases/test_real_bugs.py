"""Real bugs of public kernels: refuted as they happened, verified as they were fixed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cases.judging import assert_refuted, assert_verified, for_all_sizes, judge_file

HERE = Path(__file__).parent
FOLDER = HERE / "real_bugs"
EXPECTED: dict[str, list[str]] = YAML(typ="safe").load(HERE / "expected.yaml")
# Pipelines with an open number of tiles that are verified up to a bound only: restarted counters,
# free numbers for each turn, slots counted from the end and prologues of one role have no finite
# quotient yet; arrivals of CTA scope at a peer's barrier are judged for the sizes that were run.
BOUNDED = {"AMD-01", "CLU-22", "EPI-20", "GRP-20", "PHS-15", "TAIL-04", "TMAP-01"}
HEAD = re.compile(
    r"titan: 1\nkernel: (?P<kernel>\w+)\ntarget: (?P<target>\w+)\n"
    r"note: >\n(?P<note>(?:  .+\n)+)source: (?P<source>.+)\n"
)


@pytest.mark.parametrize("bug", EXPECTED)
def test_buggy(bug: str) -> None:
    finding = judge_file(FOLDER / f"{bug}.buggy.yaml")
    if EXPECTED[bug]:
        assert_refuted(finding, set(EXPECTED[bug]))
    else:
        assert_verified(finding)


@pytest.mark.parametrize("bug", EXPECTED)
def test_fixed(bug: str) -> None:
    finding = judge_file(FOLDER / f"{bug}.fixed.yaml")
    assert_verified(finding)
    assert for_all_sizes(finding) or bug in BOUNDED


def test_every_file_has_an_expectation() -> None:
    files = {path.name for path in FOLDER.iterdir()}
    assert files == {f"{bug}.{form}.yaml" for bug in EXPECTED for form in ("buggy", "fixed")}


@pytest.mark.parametrize("bug", EXPECTED)
def test_both_forms_say_what_they_model_and_where_it_is_from(bug: str) -> None:
    heads = []
    for form in ("buggy", "fixed"):
        text = (FOLDER / f"{bug}.{form}.yaml").read_text(encoding="utf-8")
        found = HEAD.match(text)
        assert found is not None
        assert ("Fixed:" in " ".join(found["note"].split())) is (form == "fixed")
        assert re.fullmatch(r"[\w.-]+/[\w.-]+[#@]\w+", found["source"])
        heads.append((found["kernel"], found["target"], found["source"]))
    assert heads[0] == heads[1]


def test_the_page_of_bugs_lists_them_all() -> None:
    page = (HERE.parents[1] / "docs" / "reference" / "bugs.md").read_text(encoding="utf-8")
    rows = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and re.fullmatch(r"[A-Z]+-\d+", cells[0]):
            text = (FOLDER / f"{cells[0]}.buggy.yaml").read_text(encoding="utf-8")
            found = HEAD.match(text)
            assert found is not None and f"[{found['source']}](" in cells[1]
            rows[cells[0]] = re.findall(r"TTN\d+", cells[3])
    assert rows == EXPECTED
