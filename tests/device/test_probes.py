"""Probes compile, launch on paper, and every answer that they could give is told apart."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from titan.device import probes
from titan.device.__main__ import main
from titan.device.expressions import evaluate
from titan.device.plan import plan
from titan.foundation.resources import root
from titan.litmus.language.suite import find_tests

FOLDER = root("litmus") / "probes"
PATHS = probes.manifests(FOLDER)
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")

# Counters under each reading; the key is the answer.
CASES = {
    "parity": {
        "as the formula says": [4, 0, 4, 4, 4, 0, 1, 1],
        "a fresh barrier does not count as behind an odd phase": [4, 0, 3, 4, 4, 0, 1, 0],
        "true for the phase that is not complete": [4, 1, 4, 4, 4, 0, 1, 1],
        None: [4, 0, 3, 4, 4, 0, 1, 1],
    },
    "box_bytes": {
        "the probe itself failed": [8, 2, 2, 1, 0, 2],
        "the whole box is counted, zeros outside": [8, 8, 0, 9, 0, 0],
        "the whole box is counted, something else than zeros outside": [8, 8, 0, 8, 1, 0],
        "only bytes inside are counted": [8, 2, 6, 9, 0, 0],
        None: [8, 2, 5, 9, 0, 0],
    },
    "overwrite": {
        "the probe itself failed": [9, 0, 9, 0, 1],
        "reads are overwritten even with a fence": [9, 1, 9, 1, 0],
        "a fence is needed": [9, 1, 9, 0, 0],
        "never seen without a fence": [9, 0, 9, 0, 0],
        None: [0, 0, 0, 0, 0],
    },
    "init_publication": {
        "missed even with the fence": [9, 1, 0, 9, 0, 1],
        "the copy engine misses it without the fence": [9, 1, 1, 9, 0, 0],
        "another CTA misses it without the fence": [9, 0, 1, 9, 0, 0],
        "never missed without the fence": [9, 0, 0, 9, 0, 0],
        None: [0, 0, 0, 0, 0, 0],
    },
    "fence_cost": {
        "a fence takes a cycle or less": [9, 90, 95, 95, 95, 95],
        "a fence of shared memory alone takes less than one of all spaces": [
            9,
            90,
            900,
            300,
            95,
            99,
        ],
        "a fence of shared memory takes as long as one of all spaces": [9, 90, 900, 900, 95, 99],
        None: [0, 0, 9, 9, 0, 0],
    },
    "elect": {
        "not exactly one lane": [9, 9, 1, 0, 9, 9, 0, 0],
        "one lane, not always the same": [9, 5, 0, 4, 9, 9, 0, 0],
        "the lowest lane of the mask, every time": [9, 9, 0, 0, 9, 9, 0, 0],
        "the same lane every time, not the lowest": [9, 9, 0, 0, 9, 0, 0, 0],
        None: [0, 0, 0, 0, 0, 1, 0, 0],
    },
}


def fake(counters):
    record = json.dumps({"kind": "counters", "counters": counters})
    return {"command": (sys.executable, "-c", f"print({record!r})")}


def test_every_disputed_fact_has_its_probe():
    facts = {fact for path in PATHS for fact in probes.read(path)["facts"]}
    assert {"M30", "T14", "P27", "M24", "R10"} <= facts
    assert {path.stem for path in PATHS} == set(CASES)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_answer_is_told_apart(path):
    manifest = probes.read(path)
    cases = CASES[manifest["probe"]]
    answers = {reading["answer"] for reading in manifest["readings"]}
    assert answers == set(cases) - {None}
    for answer, values in cases.items():
        counters = dict(zip(manifest["counters"], values, strict=True))
        (found,) = probes.run([path], **fake(counters))
        assert (found.answer or None) == answer
        assert found.state == ("answered" if answer else "no reading fits")
        assert str(values[0]) in probes.line(found)


@needs_nvcc
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_probes_compile_and_take_the_arguments_that_are_given(path, tmp_path):
    manifest = probes.read(path)
    assert manifest["target"] == "sm_90a"
    out = tmp_path / "probe.ptx"
    command = ["nvcc", "-arch=sm_90a", "-std=c++17", "-ptx", "-Werror", "all-warnings"]
    source = FOLDER / manifest["source"]
    subprocess.run([*command, str(source), "-o", str(out)], check=True, capture_output=True)
    subprocess.run(
        ["ptxas", "-arch=sm_90a", str(out), "-o", str(tmp_path / "probe.cubin")], check=True
    )
    text = out.read_text()
    (entry,) = re.findall(rf"\.entry {manifest['entry']}\((.*?)\)", text, re.S)
    kinds = {"u64": "pointer", "b64": "pointer", "u32": "size", "b32": "size", "b8": "tensor_map"}
    types = [kinds[kind] for kind in re.findall(r"\.param (?:\.align \d+ )?\.(\w+)", entry)]
    assert types == [argument["kind"] for argument in manifest["arguments"]]
    cluster = re.search(
        r"\.reqnctapercluster (\d+)|\.explicitcluster\s+\.reqnctapercluster (\d+)", text
    )
    assert manifest["launch"]["cluster"] == (
        int(cluster.group(1) or cluster.group(2)) if cluster else 1
    )


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_kernel_counts_as_the_manifest_names(path):
    """Counters that the source adds to are those that are named, none left out, none beyond."""
    manifest = probes.read(path)
    text = (FOLDER / manifest["source"]).read_text()
    used = {0} if re.search(r"atomicAdd\(counters,", text) else set()
    for offset in re.findall(r"atomicAdd\(counters \+ (\d+|\(\w+ \? \d+ : \d+\))", text):
        used |= {int(number) for number in re.findall(r"\d+", offset)}
    if "counters + 4, part" in text:
        used |= {number + 4 for number in used}
    assert used == set(range(len(manifest["counters"])))


def test_the_edges_of_the_box_are_those_of_the_tensor():
    """What box_bytes.cu takes as lying inside, recomputed from its manifest."""
    manifest = probes.read(FOLDER / "box_bytes.json")
    (data,) = [tensor for tensor in manifest["tensors"] if tensor["name"] == "data"]
    rows, columns = map(int, data["shape"])
    wide, high = manifest["arguments"][0]["box"]
    text = (FOLDER / "box_bytes.cu").read_text()

    def numbers(name):
        (inner,) = re.findall(rf"{name}\[4\] = {{(.*?)}}", text)
        return [
            evaluate(part.replace("BYTES", str(4 * wide * high)), {}) for part in inner.split(",")
        ]

    for column, row, inside in zip(
        numbers("columns"), numbers("rows"), numbers("inside"), strict=True
    ):
        across = max(0, min(columns, column + wide) - max(0, column))
        down = max(0, min(rows, row + high) - max(0, row))
        assert inside == 4 * across * down


@pytest.mark.parametrize(
    ("code", "state"),
    [("import time; time.sleep(60)", "hung"), ("raise SystemExit('x')", "failed"), ("", "failed")],
)
def test_a_probe_that_goes_wrong(code, state):
    (found,) = probes.run(PATHS[:1], seconds=0.5, command=(sys.executable, "-c", code))
    assert found.state == state
    data = probes.document({"name": "x"}, [found])
    assert json.loads(json.dumps(data))["probes"][0]["state"] == state


@pytest.mark.parametrize(
    "change",
    [
        {"readings": [{"when": "nothing > 0", "answer": "a", "means": "b"}]},
        {"readings": [{"when": "1 > 0", "answer": "a", "means": ""}]},
        {"counters": ["one"]},
        {"sizes": {}},
        {"facts": []},
    ],
)
def test_broken_manifests_are_refused(change, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(json.dumps({**json.loads(PATHS[0].read_text()), **change}))
    with pytest.raises(probes.BadProbe):
        probes.read(path)


def test_launches_fit_any_device():
    for path in PATHS:
        manifest = probes.read(path)
        grid = int(manifest["launch"]["grid"])
        assert plan(manifest, manifest["sizes"], 132).grid == grid


def test_probes_do_not_count_as_litmus_tests():
    assert not [test for test in find_tests([root("litmus")]) if "probes" in test.path.parts]


def test_without_a_device(capsys):
    if main(["probes", str(FOLDER)]) != 2:
        pytest.skip("there is a GPU")
    assert "no device" in capsys.readouterr().err
