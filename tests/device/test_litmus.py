"""Litmus runs: counts next to verdicts, findings told, nothing lost, on the CPU."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from titan.cli.main import run as titan
from titan.device.__main__ import main
from titan.device.litmus import RunSettings, document, manifests, run_tests
from titan.device.outcomes import BadManifest, holds, judge, values_of
from titan.device.page import page
from titan.foundation.resources import root
from titan.litmus.render.files import render_all, write_all

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
WORDS = [{"means": "a", "values": [0, 1]}, {"means": "b", "values": [5, 6, 7]}]
MANIFEST = {
    "test": "T",
    "outcomes": {"words": [{"word": 0}, *WORDS], "buckets": 12, "incomplete_bucket": 12},
    "condition": {"relation": "==", "left": {"word": 1}, "right": 1},
    "filter": None,
    "verdict": {
        "readings": [{"allowed": [[0, 5], [1, 6], [1, 7]]}, {"allowed": [[0, 5]]}],
        "complete": True,
    },
}


def key(*digits):
    bases = [len(word["values"]) + 1 for word in WORDS]
    return digits[0] * bases[1] + digits[1]


@pytest.mark.parametrize("digits", [(a, b) for a in range(3) for b in range(4)])
def test_keys_are_the_mixed_radix_of_the_manifest(digits):
    values = values_of(key(*digits), WORDS)
    expected = tuple(
        word["values"][digit] if digit < len(word["values"]) else None
        for word, digit in zip(WORDS, digits, strict=True)
    )
    assert values == expected


def test_states_of_outcomes():
    histogram = [0] * 13
    for digits, count in {(0, 0): 7, (1, 1): 3, (0, 1): 2, (2, 0): 1}.items():
        histogram[key(*digits)] = count
    histogram[12] = 4
    verdict = judge(MANIFEST, histogram)
    states = {outcome.values: (outcome.state, outcome.asked) for outcome in verdict.outcomes}
    assert states == {
        (0, 5): ("allowed", False),
        (1, 6): ("decides", True),
        (0, 6): ("forbidden", False),
        (None, 5): ("forbidden", False),
    }
    assert verdict.unseen == ((1, 7),)
    assert (verdict.observations, verdict.incomplete, verdict.state) == (13, 4, "finding")


def test_an_incomplete_verdict_forbids_nothing():
    manifest = {**MANIFEST, "verdict": {**MANIFEST["verdict"], "complete": False}}
    histogram = [0] * 13
    histogram[key(0, 1)] = 1
    assert judge(manifest, histogram).outcomes[0].state == "open"


def test_a_filter_leaves_observations_out():
    manifest = {**MANIFEST, "filter": {"relation": "!=", "left": {"word": 2}, "right": 6}}
    histogram = [0] * 13
    histogram[key(0, 1)], histogram[key(0, 0)] = 5, 6
    verdict = judge(manifest, histogram)
    assert [outcome.values for outcome in verdict.outcomes] == [(0, 5)]


def test_conditions():
    tree = {
        "connective": "or",
        "parts": [
            {"connective": "not", "parts": [{"relation": "==", "left": {"word": 1}, "right": 0}]},
            {"relation": "==", "left": {"word": 2}, "right": {"word": 1}},
        ],
    }
    assert [holds(tree, values) for values in ((0, 1), (0, 0), (1, 0))] == [False, True, True]
    assert not holds({"relation": "==", "left": {"word": 1}, "right": 0}, (None, 0))
    assert holds({"relation": "!=", "left": {"word": 1}, "right": 0}, (None, 0))


@pytest.mark.parametrize("broken", [{"outcomes": {}}, {"verdict": {"readings": []}}])
def test_broken_manifests(broken):
    with pytest.raises(BadManifest):
        judge({**MANIFEST, **broken}, [0] * 13)


# --------------------------------------------------------------------------- on this machine


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rendered")
    names = ("SB", "MP+weak", "CoRR")
    files, refused = render_all([root("litmus") / "classic" / f"{n}.litmus" for n in names], "c11")
    assert not refused
    write_all(folder, files)
    return folder


@needs_compiler
def test_a_run_on_the_cpu(rendered, tmp_path):
    files = {name: tmp_path / name for name in ("result.json", "page.html", "log.jsonl")}
    code = main([
        "litmus", str(rendered), "--backend", "cpu", "--seconds", "0.01", "--scale", "0.05",
        "--result", str(files["result.json"]), "--page", str(files["page.html"]),
        "--log", str(files["log.jsonl"]),
    ])  # fmt: skip
    assert code == 0
    data = json.loads(files["result.json"].read_text())
    assert data["findings"] == []
    assert {test["test"] for test in data["tests"]} == {"SB", "MP+weak", "CoRR"}
    assert all(test["instances"] > 0 and test["outcomes"] for test in data["tests"])
    lines = [json.loads(line) for line in files["log.jsonl"].read_text().splitlines()]
    counted = sum(sum(line["histogram"]) for line in lines if line["kind"] == "counts")
    assert counted == data["instances"]
    assert well_formed(files["page.html"].read_text())


@needs_compiler
def test_an_outcome_that_the_model_forbids_is_a_finding(rendered, tmp_path):
    """The verdict of a test is falsified: whatever is seen is then forbidden."""
    for path in rendered.glob("*SB*"):
        shutil.copy(path, tmp_path)
    manifest = next(tmp_path.glob("*.json"))
    data = json.loads(manifest.read_text())
    for reading in data["verdict"]["readings"]:
        reading["allowed"] = []
    manifest.write_text(json.dumps(data))
    result = tmp_path / "out" / "result.json"
    options = ["--backend", "cpu", "--seconds", "0.01", "--scale", "0.05"]
    assert main(["litmus", str(tmp_path), *options, "--result", str(result)]) == 1
    found = json.loads(result.read_text())
    assert found["findings"] == ["SB"]
    assert found["tests"][0]["seeds"][0] == 1
    assert "model forbids were seen in SB" in page(found)


@needs_compiler
def test_litmus_files_are_rendered_first(capsys):
    path = root("litmus") / "classic" / "CoRR.litmus"
    options = ["--backend", "cpu", "--seconds", "0.01", "--scale", "0.05"]
    assert titan(["litmus", "run", str(path), *options]) == 0
    assert "1/1 CoRR:" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["litmus", "run"], ["litmus", "run", "--backend", "gpu"]])
def test_without_a_device_it_says_what_it_needs(command, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    if titan(command) != 2:
        pytest.skip("there is a GPU")
    assert "no device" in capsys.readouterr().err


def fake(code):
    return {"command": (sys.executable, "-u", "-c", code)}


@pytest.mark.parametrize(
    ("code", "state", "error"),
    [
        ("import time; time.sleep(60)", "hung", "hung"),
        ("raise SystemExit('NotRun: no textures')", "not run", "no textures"),
        ("import os; os.abort()", "failed", ""),
    ],
)
def test_a_test_that_goes_wrong_does_not_end_the_run(rendered, code, state, error):
    rows = list(run_tests(manifests(rendered)[:2], RunSettings(0.01, hang=0.5), **fake(code)))
    assert [row.state for row in rows] == [state] * 2
    assert all(error in row.error for row in rows)
    assert well_formed(page(document({"name": "x"}, rows)))


def test_what_was_counted_before_a_hang_is_kept(rendered):
    path = manifests(rendered)[0]
    size = json.loads(path.read_text())["outcomes"]["incomplete_bucket"] + 1
    histogram = [9] + [0] * (size - 1)
    record = {"kind": "counts", "histogram": histogram, "seconds": 0.1, "seed": 4}
    code = f"import time; print('{json.dumps(record)}'); time.sleep(60)"
    (row,) = run_tests([path], RunSettings(0.01, hang=0.5), **fake(code))
    assert (row.state, row.instances, row.seeds) == ("hung", 9, (4,))


def test_the_runner_needs_nothing_but_python_and_numpy():
    """It runs on machines without solvers: besides itself it loads exceptions and types only."""
    code = (
        "import sys, titan.device.__main__, titan.device.child, titan.device.plan;"
        "import titan.device.gpu, titan.device.litmus_gpu, titan.device.litmus_cpu;"
        "bad = [m for m in sys.modules if m.startswith('titan.') "
        "and not m.startswith('titan.device')];"
        "ours = {'titan.foundation', 'titan.foundation.errors', 'titan.foundation.verdict',"
        "        'titan.foundation.atomic', 'titan.foundation.version',"
        "        'titan.codegen', 'titan.codegen.tile', 'titan.codegen.tile.manifest',"
        "        'titan.codegen.tile.scalar_values'};"
        "bad = sorted(set(bad) - ours);"
        "heavy = {'z3', 'click', 'networkx', 'ruamel', 'pysmt', 'cffi'} & set(sys.modules);"
        "assert not bad and not heavy, (bad, heavy)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def well_formed(html):
    """Every element that is opened is closed, in order."""
    stack = []

    class Check(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag not in ("meta", "!doctype"):
                stack.append(tag)

        def handle_endtag(self, tag):
            assert stack.pop() == tag

    Check().feed(html)
    return not stack


# ---------------------------------------------------------------- several tests in one process

MANY = """
import json, sys, time
job = json.loads(sys.stdin.readline())
for path in job["manifests"]:
    manifest = json.load(open(path))
    print(json.dumps({"kind": "begin", "manifest": path}), flush=True)
    if manifest["test"] == WHICH:
        DO
    histogram = [0] * (manifest["outcomes"]["incomplete_bucket"] + 1)
    histogram[0] = 7
    print(json.dumps({"kind": "counts", "histogram": histogram, "seconds": 0.1, "seed": 1,
                      "number": 0}), flush=True)
    print(json.dumps({"kind": "over", "error": "", "stop": False}), flush=True)
"""


@pytest.mark.parametrize(
    ("what", "state", "told"),
    [
        ("time.sleep(60)", "hung", "hung"),
        ("sys.exit('no memory')", "failed", "no memory"),
        (
            "print(json.dumps({'kind': 'over', 'error': 'NotRun: no textures', 'stop': False}),"
            " flush=True); continue", "not run", "no textures",
        ),
        (
            "print(json.dumps({'kind': 'over', 'error': 'DeviceError: x', 'stop': True}),"
            " flush=True); sys.exit(0)", "failed", "DeviceError: x",
        ),
    ],
)  # fmt: skip
def test_one_of_many_that_goes_wrong_does_not_take_the_others_with_it(rendered, what, state, told):
    paths = manifests(rendered)
    assert len(paths) >= 3
    names = [json.loads(path.read_text())["test"] for path in paths]
    code = MANY.replace("WHICH", repr(names[1])).replace("DO", what)
    command = (sys.executable, "-c", code)
    rows = list(run_tests(paths, RunSettings(0.01, hang=1.0, together=10), command=command))
    assert [row.test for row in rows] == names
    assert rows[1].state == state
    assert told in rows[1].error
    assert all(row.instances == 7 for number, row in enumerate(rows) if number != 1)


def test_groups_of_tests(rendered):
    code = MANY.replace("WHICH", "None").replace("DO", "pass")
    paths = manifests(rendered)
    command = (sys.executable, "-c", code)
    rows = list(run_tests(paths, RunSettings(0.01, together=2), command=command))
    assert [row.manifest for row in rows] == [path.name for path in paths]
    assert {row.instances for row in rows} == {7}


def test_a_test_for_another_device_is_told_as_not_run(tmp_path):
    files, _ = render_all([root("litmus") / "async" / "gw-tcgen05+minimal.litmus"])
    write_all(tmp_path, files)
    told = "OtherDevice: built for sm_100a; this device has compute capability 9.0"
    command = (sys.executable, "-c", f"import sys; sys.exit({told!r})")
    (row,) = run_tests(manifests(tmp_path), RunSettings(0.1), command=command)
    assert (row.state, row.error, row.instances) == ("not run", told, 0)
