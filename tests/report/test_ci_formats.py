"""Reports for CI systems: all of them on the same checks, structure and escapes looked at."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as xml

import jsonschema
import pytest

from tests.foundation.diagnostics.fixture import fixture
from titan.cli.main import run
from titan.foundation.verdict import Verdict
from titan.report.checks import CI_FORMATS, Check, relative_uri, render

SCHEMA = json.loads(Path(__file__).with_name("sarif.schema.json").read_text(encoding="utf-8"))
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HOSTILE = "x,y:z%\n::error file=a::forged\x1b[31m"


def checks() -> list[Check]:
    """One check of each verdict; the refuted one has every diagnostic of the fixture."""
    return [
        Check("kernels/a b.yaml", "good", Verdict.VERIFIED, "verified for any tiles, 0 included"),
        Check("kernels/gemm.yaml", "bad", Verdict.REFUTED, "stage 0", tuple(fixture())),
        Check("kernels/gemm.yaml", "open", Verdict.UNDECIDED, "its state budget ran out"),
        Check(HOSTILE, HOSTILE, Verdict.UNDECIDED, HOSTILE),
        Check("kernels/gemm.yaml", "both", Verdict.DISAGREEMENT, "engines disagree"),
        Check("out/gemm", "gemm", Verdict.REFUTED, "altered: kernel.cu", failure="altered"),
        Check("k.yaml", "k", Verdict.UNDECIDED, "bounded: for some", failure="bounded"),
    ]


def test_sarif_has_the_published_shape():
    found = json.loads(render(checks(), "sarif"))
    jsonschema.validate(found, SCHEMA)
    (only,) = found["runs"]
    rules = [rule["id"] for rule in only["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in only["results"])
    kinds = [result["kind"] for result in only["results"]]
    assert kinds.count("open") == 2 and kinds.count("fail") == len(fixture()) + 3
    assert "TTN-disagreement" in rules and "TTN-altered" in rules
    assert [check["verdict"] for check in only["properties"]["checks"]].count("verified") == 1


def test_an_interleaving_is_one_flow_an_agent_in_one_order():
    found = json.loads(render(checks(), "sarif"))
    (flows,) = [r["codeFlows"] for r in found["runs"][0]["results"] if "codeFlows" in r]
    threads = flows[0]["threadFlows"]
    assert [thread["id"] for thread in threads] == [
        "consumer warp 0",
        "consumer warp 1",
        "copy engine",
    ]
    orders = [step["executionOrder"] for thread in threads for step in thread["locations"]]
    assert sorted(orders) == [1, 2, 3]


def test_junit_counts_what_it_holds():
    root = xml.fromstring(render(checks(), "junit"))
    counts = {name: int(root.attrib[name]) for name in ("tests", "failures", "errors")}
    assert counts == {"tests": 7, "failures": 3, "errors": 1}
    assert set(root.attrib) == {"name", *counts}, "the schema of Jenkins knows no others here"
    assert sum(int(suite.attrib["skipped"]) for suite in root) == 2
    for suite in root:
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
    failure, *others = root.iter("failure")
    assert [one.attrib["type"] for one in others] == ["altered", "bounded"]
    assert failure.attrib["type"] == "TTN202" and "copy engine" in (failure.text or "")


def test_annotations_are_one_line_each_and_cannot_be_forged():
    lines = render(checks(), "github").splitlines()
    shape = re.compile(r"::(error|warning|notice) \w+=[^,:]*(,\w+=[^,:]*)*::\S.*")
    assert all(shape.fullmatch(line) for line in lines), lines
    assert not any(line.startswith("::error file=a") for line in lines)
    columns = [line for line in lines if ",col=" in line]
    assert columns and all(re.search(r"line=(\d+),endLine=\1,", line) for line in columns), (
        "columns only where a span is on one line"
    )


def test_issues_of_gitlab_have_distinct_fingerprints():
    twice = [*checks(), *checks()]
    found = json.loads(render(twice, "gitlab"))
    marks = [issue["fingerprint"] for issue in found]
    assert len(marks) == len(set(marks)) == 2 * (len(fixture()) + 5)
    for issue in found:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}


@pytest.mark.parametrize("name", CI_FORMATS)
def test_no_control_character_gets_through(name: str):
    assert all(char.isprintable() or char == "\n" for char in render(checks(), name))


@pytest.mark.parametrize("name", CI_FORMATS)
def test_nothing_is_a_report_too(name: str):
    text = render([], name)
    assert name == "github" or text.strip()


def test_paths_become_relative_uris():
    assert relative_uri("./a b/c%.yaml") == "a%20b/c%25.yaml"
    assert relative_uri("a\\b.yaml") == "a/b.yaml"


@pytest.mark.parametrize("name", (*CI_FORMATS, "json"))
def test_the_command_writes_equal_bytes_from_run_to_run(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [str(EXAMPLES / "ring.yaml"), str(EXAMPLES / "early_release.yaml")]
    for place in ("one", "two"):
        assert run(["verify", *given, "--format", name, "--output", place]) == 1
    assert Path("one").read_bytes() == Path("two").read_bytes() != b""
    assert sorted(path.name for path in tmp_path.iterdir()) == [".titan", "one", "two"]


def test_an_output_that_cannot_be_written_is_bad_usage(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = ["verify", str(EXAMPLES / "ring.yaml"), "--output", "gone/out.json"]
    assert run(given) == 2
    assert "gone/out.json" in capsys.readouterr().err
