"""Mutants of the kernels in protocols/: none survives, and the reference page says the same."""

import json
import re
from pathlib import Path

import pytest

from titan.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "mutants.md"
FATES = ("killed", "equivalent", "over-synchronised", "surviving", "undecided")
QUICK = ("hopper_gemm", "mi300_gemm", "mi300_pingpong", "ampere_gemm_multistage", "bulk_copy")


def table():
    """Kernel -> counts of the fates, as the page says."""
    rows = re.findall(r"^\| `([^`]+)` \| \d+ \| ([\d |]+) \|", PAGE.read_text(), re.MULTILINE)
    return {name: [int(number) for number in numbers.split("|")[:5]] for name, numbers in rows}


def counts_of(path, capsys):
    assert run(["mutants", str(path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    return {row["kernel"]: [row["counts"][fate] for fate in FATES] for row in rows}


@pytest.mark.parametrize("kernel", QUICK)
def test_the_page_tells_what_becomes_of_the_mutants(kernel, capsys):
    found = counts_of(ROOT / "protocols" / f"{kernel}.yaml", capsys)
    assert found == {name: table()[name] for name in found}
    assert all(counts[3:] == [0, 0] for counts in found.values())


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_the_page_tells_what_becomes_of_all_mutants(capsys):
    assert counts_of(ROOT / "protocols", capsys) == table()


def test_no_kernel_is_missing_on_the_page():
    kernels = [
        re.search(r"^kernel: (\S+)", path.read_text(), re.MULTILINE)
        for path in sorted((ROOT / "protocols").glob("*.yaml"))
    ]
    named = {name.split(",")[0] for name in table()}
    assert {found.group(1) for found in kernels if found} == named


def test_the_page_has_no_survivor_and_nothing_undecided():
    assert all(counts[3:] == [0, 0] for counts in table().values())
