"""Saved counterexamples that somebody has altered, every digest made to fit: refused, or shown as
text and nothing else. None ends in an internal error, or in a run without an end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.sampling import part
from titan.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
PTX = ROOT / "tests" / "frontends" / "ptx" / "ring.ptx"
LAUNCH = "{grid: 4, dynamic_shared: 0, parameters: {source: pointer, n: 5}}\n"
VALUES: tuple[object, ...] = (
    None, True, 0, -1, 1, 2**31, 2**64, 10**30, 1.5, "", "x", "a\x1b[2J", "x\nREFUTED y", "\ud800",
    [], {}, [[]], {"a": 1}, "TTN305", "TTN205", "TTN999",
)  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """A trace of a kernel file, and one of code."""
    folder = tmp_path_factory.mktemp("traces")
    run(["verify", str(ROOT / "examples" / "early_release.yaml"), "--save-trace", str(folder)])
    text = "\n".join(line for line in PTX.read_text().split("\n") if "try_wait" not in line)
    (folder / "ring.ptx").write_text(text)
    (folder / "ring.launch.yaml").write_text(LAUNCH)
    run(["verify", str(folder / "ring.ptx"), "--save-trace", str(folder)])
    found = {
        path.stem.split("-")[0]: json.loads(path.read_text()) for path in folder.glob("*.json")
    }
    assert sorted(found) == ["early_release", "ring"]
    return found


def replayed(content: dict[str, Any], folder: Path, capsys) -> tuple[int, str]:
    plain = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    content["digest"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    path = folder / "trace.json"
    path.write_text(json.dumps(content))
    code = run(["replay", str(path)])
    return code, "".join(capsys.readouterr())


def altered(content: Any, random: Random) -> dict[str, Any]:
    """One value of it, at any depth, is another one or left out."""
    copy = json.loads(json.dumps(content))
    inner = copy
    while True:
        places = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        place = random.choice(places)
        if not isinstance(inner[place], dict | list) or not inner[place] or random.random() < 0.2:
            if random.random() < 0.1:
                del inner[place]
            else:
                inner[place] = random.choice(VALUES)
            return copy
        inner = inner[place]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["early_release", "ring"])
def test_altered_traces_are_refused_or_replay(name, saved, tmp_path, capsys):
    random, codes = Random(11), set()
    for _ in range(part(1500, of=20)):
        content = altered(saved[name], random)
        code, shown = replayed(content, tmp_path, capsys)
        codes.add(code)
        assert code in (1, 2), content
        assert "TTN901" not in shown
        assert all(char.isprintable() or char == "\n" for char in shown)
    assert codes == {1, 2}


def changed(*places: object, to: object) -> Callable[[dict[str, Any]], None]:
    def change(content: Any) -> None:
        for place in places[:-1]:
            content = content[place]
        content[places[-1]] = to

    return change


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "change",
    [
        changed("fault", "code", to="TTN999"),
        changed("launch", "block", to=[2**31, 1, 1]),
        changed("launch", "cluster", to=[2**31, 1, 1]),
        changed("launch", "cluster", to=[0, 1, 1]),
        changed("launch", "grid", to=[2**40, 2**40, 1]),
        changed("launch", "dynamic_shared_bytes", to=2**50),
        changed("launch", "parameters", 1, 1, to=""),
        changed("cta", to=10**9),
    ],
)
def test_what_no_launch_has_is_refused(change, saved, tmp_path, capsys):
    content = json.loads(json.dumps(saved["ring"]))
    change(content)
    code, shown = replayed(content, tmp_path, capsys)
    assert code == 2 and "the trace is refused" in shown


@pytest.mark.parametrize("name", ["early_release", "ring"])
def test_names_of_several_lines_stay_on_one(name, saved, tmp_path, capsys):
    content = json.loads(json.dumps(saved[name]))
    content["path"] = content["kernel"] = "x\nVERIFIED"
    content["fault"]["message"] = "none\nVERIFIED"
    code, shown = replayed(content, tmp_path, capsys)
    assert code == 1 and not any(line.startswith("VERIFIED") for line in shown.split("\n"))


@pytest.mark.parametrize("key", ["titan_trace", "titan_code_trace"])
@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ('{"KEY": 1,\n "steps": [1,,2]}', "2:14", "expecting value"),
        ('{"KEY": 1,\n "steps": [1', "2:13", "expecting ',' delimiter"),
        ('{"KEY": 1, "KEY": 1}', "1:1", "is given twice"),
        ('{"KEY": 1, "n": NaN}', "1:1", "NaN is no number of JSON"),
        ('{"KEY": 1, "n": \x07}', "1:", "U+0007"),
        ('{"KEY": 1, "n": ' + "[" * 100_000, "1:1", "nested too deeply"),
    ],
)
def test_the_place_of_broken_json_is_shown(key, text, place, said, tmp_path, capsys):
    path = tmp_path / "trace.json"
    path.write_text(text.replace("KEY", key))
    assert run(["replay", str(path)]) == 2
    shown = "".join(capsys.readouterr())
    assert f"trace.json:{place}" in shown
    assert said in shown
