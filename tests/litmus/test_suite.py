"""Every litmus file of the repository is decided as its folder records, under every reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sampling import sampled
from titan.foundation.resources import root
from titan.litmus.decide import decide
from titan.litmus.enumerate.candidates import TooManyCandidates, allowed
from titan.litmus.language.printing import format_litmus
from titan.litmus.language.suite import SuiteEntry, find_tests, read_kinds, read_test
from titan.litmus.language.text import read_litmus
from titan.litmus.model.options import FenceRule, InitRule, ModelOptions, TensorRule, WarPolicy

ENTRIES = list(find_tests([root("litmus")]))
FOLDERS = sorted({entry.path.parent for entry in ENTRIES})
AMD = ("amdgpu", "cdna")  # their models do not ask for a reading of PTX
READINGS = [
    ModelOptions(),
    ModelOptions(FenceRule.PATH),
    ModelOptions(FenceRule.WRITER_ALONE),
    ModelOptions(war=WarPolicy.SYNC),
    ModelOptions(init=InitRule.FENCE),
    ModelOptions(FenceRule.PATH, WarPolicy.SYNC, InitRule.FENCE),
    ModelOptions(tensor=TensorRule.FENCE),
]


def of(folder: Path) -> list[SuiteEntry]:
    return [entry for entry in ENTRIES if entry.path.parent == folder]


def test_every_file_has_a_verdict_and_every_verdict_a_file() -> None:
    for folder in FOLDERS:
        assert set(read_kinds(folder / "kinds.txt")) == {entry.path.stem for entry in of(folder)}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("reading", [READINGS[0], *sampled(READINGS[1:], every=6)], ids=str)
def test_verdicts(folder: Path, reading: ModelOptions) -> None:
    if folder.name in AMD and reading != READINGS[0]:
        assert all(entry.expected and not entry.expected.exceptions for entry in of(folder))
        return
    wrong = {}
    for entry in of(folder):
        assert entry.expected is not None
        verdict = decide(read_test(entry.path), reading, recheck=False).verdict
        if verdict != entry.expected.under(reading):
            wrong[entry.path.name] = verdict
    assert wrong == {}


SOURCES = [folder for folder in FOLDERS if folder.name != "cdna"]  # has engines of its own


@pytest.mark.parametrize("folder", SOURCES, ids=lambda folder: folder.name)
def test_the_second_engine_agrees(folder: Path) -> None:
    finished = 0
    for entry in of(folder):
        test = read_test(entry.path)
        try:
            expected = allowed(test, budget=50_000)
        except TooManyCandidates:
            continue
        finished += 1
        assert decide(test).allowed == expected, entry.path.name  # re-checks the witness, too
    assert finished >= 0.9 * len(of(folder))


def test_printing_and_reading_give_the_same_test() -> None:
    for entry in ENTRIES:
        test = read_test(entry.path)
        assert read_litmus(entry.path.name, format_litmus(test)) == test


def test_each_seed_pattern_is_there_in_three_forms() -> None:
    names = {entry.path.stem for entry in ENTRIES}
    patterns = (
        "gw-bulkstore",
        "gw-wgmma",
        "init-cta",
        "init-cluster",
        "map-load",
        "bulkload-gr",
        "gr-bulkload",
        "wgmma-bulkload",
        "bulkstore-gw",
        "bulkstore-gr",
        "gw-bulkload-global",
        "multicast",
        "multicast-war",
        "remote-arrive",
    )
    for pattern in patterns:
        for form in ("minimal", "conservative", "under-fenced"):
            assert f"{pattern}+{form}" in names


def test_forms_mean_what_they_say() -> None:
    for entry in ENTRIES:
        assert entry.expected is not None
        form = entry.path.stem.rpartition("+")[2]
        wanted = {"minimal": "Forbidden", "conservative": "Forbidden", "under-fenced": "Allowed"}
        if form in wanted:
            assert entry.expected.verdict == wanted[form], entry.path.name


def test_laxer_readings_only_forbid_more() -> None:
    """The writer rule orders less than the path rule, fences asked for order less than not."""
    for entry in ENTRIES:
        assert entry.expected is not None
        strict = entry.expected.under(ModelOptions(FenceRule.WRITER, WarPolicy.FENCE))
        for reading in (
            ModelOptions(FenceRule.PATH),
            ModelOptions(FenceRule.WRITER_ALONE),
            ModelOptions(war=WarPolicy.SYNC),
        ):
            assert strict == "Allowed" or entry.expected.under(reading) == "Forbidden"


def test_the_public_sample_is_whole() -> None:
    """How fast it is decided is measured by benchmarks/bench_litmus.py."""
    assert len(of(root("litmus") / "ptx")) == 166
