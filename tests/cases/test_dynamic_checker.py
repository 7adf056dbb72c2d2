"""Small programs with the verdict that a dynamic checker of another compiler gives them.

The kernels of dynamic/ stand for several variants each: a line that ends in `# only A=B` belongs to
the variants with A=B, one with `# not A=B` to the others. The checker looks neither at the
publication of a barrier's initialisation nor at what is in flight when the kernel ends; kernels
where that matters say so in their policies.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cases.judging import assert_refuted, assert_verified, judge_text

HERE = Path(__file__).parent
FOLDER = HERE / "dynamic"
EXPECTED: dict[str, dict[str, list[str]]] = YAML(typ="safe").load(HERE / "dynamic_expected.yaml")
CASES = [(name, variant) for name, variants in EXPECTED.items() for variant in variants]
MARK = re.compile(r"# (?P<what>only|not) (?P<settings>[A-Z]\S*=\S+( [A-Z]\S*=\S+)*)$")


def select(text: str, variant: str) -> str:
    """The lines of one variant."""
    settings = set(re.findall(r"\w+=\w+", variant))
    kept = []
    for line in text.splitlines():
        mark = MARK.search(line)
        if mark is not None:
            inside = set(mark["settings"].split()) <= settings
            if inside is not (mark["what"] == "only"):
                continue
        kept.append(line if mark is None else line[: mark.start()].rstrip())
    return "\n".join(kept) + "\n"


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_verdict(name: str, variant: str) -> None:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    finding = judge_text(select(text, variant), f"{name}.yaml")
    codes = EXPECTED[name][variant]
    if codes:
        assert_refuted(finding, set(codes))
    else:
        assert_verified(finding)


def test_every_kernel_has_expectations_and_every_mark_is_of_a_variant() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(EXPECTED)
    for name, variants in EXPECTED.items():
        text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
        known = {setting for variant in variants for setting in re.findall(r"\w+=\w+", variant)}
        for mark in MARK.finditer(text):
            assert set(mark["settings"].split()) <= known, (name, mark[0])
        assert len({select(text, variant) for variant in variants}) == len(variants), name
