"""`--format` of gate, litmus check and stress: every format, equal bytes, the published shape."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as xml

import jsonschema
import pytest

from titan.cli import stress_report
from titan.cli.main import run
from titan.cli.output import CI_FORMATS, FORMATS
from titan.cli.schema import text_of
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.package.failures import MEANING, GateFailure, failure_of, verdict_of
from titan.package.gate import find
from titan.package.gate import gate as judge
from titan.report.checks import Check, render

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SARIF = json.loads(Path(__file__).with_name("sarif.schema.json").read_text(encoding="utf-8"))
ASYNC = root("litmus") / "async"


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "key"))


def litmus(folder: Path) -> list[str]:
    """A test that is as recorded, one that is not, and one that cannot be read."""
    for name in ("gw-bulkstore+minimal", "gw-bulkstore+under-fenced"):
        text = (ASYNC / f"{name}.litmus").read_text(encoding="utf-8")
        (folder / f"{name}.litmus").write_text(text, encoding="utf-8")
    (folder / "kinds.txt").write_text("gw-bulkstore+minimal Allowed\n", encoding="utf-8")
    (folder / "bad.litmus").write_text("PTX bad\n{ x = 0; }\n P0@cta 0 ;\n", encoding="utf-8")
    return ["litmus", "check", str(folder)]


def gate(folder: Path) -> list[str]:
    """A kernel that passes, a certificate that proves nothing, a package without its files."""
    (folder / "p").mkdir()
    (folder / "p" / "certificate.json").write_text("{}", encoding="utf-8")
    (folder / "k.cert").write_text("nothing", encoding="utf-8")
    return ["gate", str(EXAMPLES / "ring.yaml"), str(folder), "--fresh"]


@pytest.mark.parametrize(("made", "code"), [(litmus, 2), (gate, 1)], ids=["litmus", "gate"])
def test_every_format_and_equal_bytes(
    made, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "in").mkdir()
    command = made(tmp_path / "in")
    if made is gate:  # each run of the gate is a second of workers that start
        judged = list(judge(find(tuple(command[1:-1]))))
        monkeypatch.setattr("titan.package.gate.gate", lambda *options: iter(judged))
    written = {}
    for name in (*FORMATS, *CI_FORMATS):
        for place in ("one", "two") if name in ("json", "text") else ("one",):
            assert run([*command, "--format", name, "--output", place]) == code
            text = Path(place).read_text(encoding="utf-8")
            assert text and written.setdefault(name, text) == text, name
    report = jsonschema.Draft202012Validator(json.loads(text_of("report")))
    report.validate(json.loads(written["json"]))
    jsonschema.validate(json.loads(written["sarif"]), SARIF)
    suites = xml.fromstring(written["junit"])
    assert int(suites.attrib["tests"]) == 3 and len(list(suites.iter("testcase"))) == 3
    assert suites.find(".//failure") is not None and suites.find(".//error") is not None
    levels = [line.split()[0] for line in written["github"].splitlines()]
    assert len(levels) == len(json.loads(written["gitlab"])) >= levels.count("::error") == 2


def test_json_of_verify_has_the_published_shape(tmp_path: Path):
    schema = json.loads(text_of("report"))
    jsonschema.Draft202012Validator.check_schema(schema)
    given = [str(EXAMPLES / name) for name in ("ring.yaml", "early_release.yaml")]
    for more, code in (([], 1), (["--timings"], 0)):
        command = ["verify", *given[: code + 1], "--format", "json", "--output", "out", *more]
        assert run(command) == code
        found = json.loads(Path("out").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(schema).validate(found)
        assert ("seconds" in found["findings"][0]) == bool(more)


def test_words_of_the_gate_are_complete():
    assert set(MEANING) | {GateFailure.NONE} == set(GateFailure)
    for verdict in Verdict:
        assert verdict_of(failure_of(verdict)) is verdict


def test_what_fails_by_being_undecided_is_no_skipped_test():
    for failure, element in (("bounded", "failure"), ("", "skipped")):
        text = render([Check("k", "k", Verdict.UNDECIDED, "x", failure=failure)], "junit")
        assert xml.fromstring(text).find(f".//{element}") is not None


def stressed(**changes: object) -> dict:
    row = {
        "package": "gemm", "depth": 2, "variant": "safe", "runs": 3, "trips": [1],
        "states": {"correct": 3}, "seen_to_fail": 0, "first": "", "policies": {},
        "stalls": [], "imbalance": [], **changes,
    }  # fmt: skip
    late = {"package": "gemm", "depth": 2, "variant": "no_wait", "runs": 4, "policies": []}
    return {
        "kind": "stress", "date": "2020-01-01", "device": {}, "runs": 3, "not_run": 0,
        "safe_failures": [], "unsafe_variants": 0, "unsafe_seen_to_fail": 0,
        "skipped": [late], "rows": [row],
    }  # fmt: skip


def test_a_safe_kernel_that_fails_is_a_failure_and_a_late_one_open():
    bad = stressed(states={"wrong": 1, "correct": 2}, seen_to_fail=1, first="C[0]")
    safe, late = stress_report.checks(bad)
    assert safe.failure == "safe kernel failed" and "C[0]" in safe.summary
    assert late.verdict is Verdict.UNDECIDED and late.is_open
    good, _ = stress_report.checks(stressed())
    assert good.verdict is Verdict.VERIFIED
    unsafe, _ = stress_report.checks(stressed(variant="no_wait", seen_to_fail=3))
    assert unsafe.verdict is Verdict.VERIFIED, "an unsafe variant is meant to fail"


def test_a_stress_report_says_nothing_of_the_day():
    text = stress_report.render(stressed(), "json")
    jsonschema.Draft202012Validator(json.loads(text_of("report"))).validate(json.loads(text))
    assert "2020" not in text
    for name in (*FORMATS, *CI_FORMATS):
        assert stress_report.render(stressed(), name)
