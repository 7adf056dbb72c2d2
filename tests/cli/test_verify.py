"""`titan verify`, `replay` and `export` as a user calls them: exit codes, formats, options."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.verify import kernels
from titan.cli.main import run


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")


def written(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")
    return name


@pytest.mark.parametrize(
    ("text", "code"),
    [(kernels.GOOD, 0), (kernels.EARLY, 1), (kernels.HANGS, 1), (kernels.MISTYPED, 2), ("", 2)],
)
def test_exit_codes(text: str, code: int, capsys: pytest.CaptureFixture[str]):
    assert run(["verify", written("k.yaml", text)]) == code
    assert "Traceback" not in capsys.readouterr().out


def test_undecided_is_3():
    path = written("k.yaml", kernels.GOOD)
    assert run(["verify", path, "--engine", "reference", "--budget-states", "10"]) == 3
    assert run(["verify", path, "--engine", "reference", "--require", "any"]) == 3


def test_the_worst_of_several_files(capsys: pytest.CaptureFixture[str]):
    written("all/good.yaml", kernels.GOOD)
    written("all/bad/early.yaml", kernels.EARLY)
    written("all/other.yaml", "name: something else\n")
    written("all/loop.yaml", "titan: 1\nloop: l\n")
    written("all/.hidden/k.yaml", kernels.MISTYPED)
    assert run(["verify", "all", "--format", "concise"]) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1] == "2 kernels: 1 verified, 1 refuted"
    assert "all/loop.yaml is a loop" in shown.err
    assert run(["verify", "all", written("k.yaml", kernels.MISTYPED)]) == 2


def test_files_of_other_levels_alone_verify_nothing(capsys: pytest.CaptureFixture[str]):
    assert run(["verify", written("loop.yaml", "titan: 1\nloop: l\n")]) == 2
    shown = capsys.readouterr().err
    assert "`titan schedule` takes it" in shown and "no kernel file is among" in shown


def test_a_pipe_is_not_waited_for(capsys: pytest.CaptureFixture[str]):
    os.mkfifo("pipe.yaml")
    assert run(["verify", "pipe.yaml"]) == 2
    assert "it is not a regular file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("things", "statement", "note"),
    [
        ("named_barriers: {b: {threads: 64}}", "sync: b", "32 of 64 threads are at b"),
        ("pools: {p: 100}", "{take: p, amount: 128}", "p has 100 left and 128 are requested"),
    ],
)
def test_a_deadlock_says_what_is_lacking(
    things: str, statement: str, note: str, capsys: pytest.CaptureFixture[str]
):
    roles = "roles: {w: {warps: 1}, v: {warps: 1}}"
    program = "program: {v: [], w: [" + statement + "]}"
    text = "\n".join(("titan: 1", "kernel: k", "target: sm_90a", things, roles, program, ""))
    assert run(["verify", written("k.yaml", text)]) == 1
    assert f"= note: {note}" in capsys.readouterr().out


def test_a_refutation_in_words(capsys: pytest.CaptureFixture[str]):
    assert run(["verify", written("k.yaml", kernels.EARLY), "--tiles", "3"]) == 1
    shown = capsys.readouterr().out
    for part in (
        "error[TTN202] overwrite-while-in-flight: A[0] is overwritten",
        "--> k.yaml:21:11",
        "^^^^^^^^^^^^^^^^^^^ here, by producer",
        "in flight since consumer[",
        "= note: with depth = 2, tiles = 3",
        "= help: wait for the operation first",
        "starts bulk_load writing A[0] (tile 2)",
        "full[0] completes phase 0; A[0] holds tile 0",
        "explain: titan explain TTN202",
        "replay: titan replay .titan/traces/ring-TTN202-",
        "REFUTED ring (k.yaml)",
    ):
        assert part in shown


def test_json(capsys: pytest.CaptureFixture[str]):
    assert run(["verify", written("k.yaml", kernels.EARLY), "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["verdict"], finding["exit_code"]) == ("refuted", 1)
    assert finding["diagnostics"][0]["code"] == "TTN202"
    assert finding["diagnostics"][0]["trace"]["steps"]
    assert Path(finding["trace"]).exists()
    assert finding["scope"]["roles"][1] == {"name": "consumer", "agents": 2, "threads": 128}


def test_sweeps_and_jobs(capsys: pytest.CaptureFixture[str]):
    path = written("k.yaml", kernels.GOOD)
    arguments = ["verify", path, "--depth", "1..2", "--set", "tiles=0,3", "--format", "concise"]
    assert run(arguments) == 0
    alone = [line.partition("(")[0] for line in capsys.readouterr().out.splitlines()]
    assert alone[-1] == "4 kernels: 4 verified"
    assert run([*arguments, "-j", "2"]) == 0
    assert [line.partition("(")[0] for line in capsys.readouterr().out.splitlines()] == alone


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "tile=3"],
        ["--set", "tiles"],
        ["--set", "tiles=x"],
        ["--depth", "4..2"],
        ["--policy", "fence=path"],
        ["--policy", "fence_rule=paths"],
        ["--engine", "magic"],
        ["--budget-states", "0"],
    ],
)
def test_bad_usage(arguments: list[str]):
    assert run(["verify", written("k.yaml", kernels.GOOD), *arguments]) == 2


def test_nothing_to_verify():
    assert run(["verify"]) == 2
    assert run(["verify", "missing.yaml"]) == 2
    Path("empty").mkdir()
    assert run(["verify", "empty"]) == 2


def test_policies(capsys: pytest.CaptureFixture[str]):
    path = written("k.yaml", kernels.GOOD)
    assert run(["verify", path, "--policy", "fence_rule=path"]) == 0
    assert "fence_rule path" in capsys.readouterr().out


def saved_trace(text: str) -> str:
    assert run(["verify", written("k.yaml", text), "--save-trace", "traces"]) == 1
    (path,) = Path("traces").iterdir()
    return str(path)


@pytest.mark.parametrize("text", [kernels.EARLY, kernels.HANGS, kernels.WEAK])
def test_replay_confirms(text: str, capsys: pytest.CaptureFixture[str]):
    path = saved_trace(text)
    Path("k.yaml").unlink()
    capsys.readouterr()
    assert run(["replay", path]) == 1
    assert "confirmed: " in capsys.readouterr().out
    assert run(["replay", path, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["verdict"] == "refuted"


def resigned(content: dict[str, object]) -> str:
    """The trace with a digest that fits: a careful forger."""
    plain = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return json.dumps({**plain, "digest": hashlib.sha256(text.encode()).hexdigest()})


def test_replay_refuses_what_was_tampered_with(capsys: pytest.CaptureFixture[str]):
    content = json.loads(Path(saved_trace(kernels.EARLY)).read_text(encoding="utf-8"))
    forgeries = [
        {**content, "steps": content["steps"][:-1]},
        {**content, "steps": content["steps"][1:]},
        {**content, "steps": [["agent", 99, -1]]},
        {**content, "steps": 3},
        {**content, "fault": {"code": "TTN204", "message": ""}},
        {**content, "fault": {"code": "TTN305", "message": ""}},
        {**content, "fault": {"code": "TTN999", "message": ""}},
        {**content, "parameters": {}},
        {**content, "parameters": {"tiles": 0}},
        {**content, "text": kernels.GOOD},
        {**content, "text": "titan: 1"},
        {**content, "sizes": {"depth": 10**30}},
        {key: value for key, value in content.items() if key != "text"},
    ]
    capsys.readouterr()
    assert run(["replay", written("t.json", json.dumps({**content, "kernel": "x"}))]) == 2
    for forgery in forgeries:
        assert run(["replay", written("t.json", resigned(forgery))]) == 2, forgery["fault"]
    assert run(["replay", "missing.json"]) == 2
    assert "confirmed" not in capsys.readouterr().out


def test_export(capsys: pytest.CaptureFixture[str]):
    path = written("k.yaml", kernels.GOOD)
    assert run(["export", path, "--to", "promela", "--tiles", "2"]) == 0
    assert "init {" in capsys.readouterr().out
    assert run(["export", path, "--tiles", "2", "-o", "m.pml"]) == 0
    assert Path("m.pml").read_text(encoding="utf-8").startswith("/* ring */")
    assert run(["export", path]) == 2
    assert run(["export", path, "--tiles", "1,2"]) == 2
    assert run(["export", written("bad.yaml", kernels.MISTYPED)]) == 2


TEXTURE = """\
titan: 1
kernel: table
target: sm_90a
buffers:
  table: {space: global, initial: 0}
named_barriers:
  both: {threads: 64}
roles:
  writer: {warps: 1}
  reader: {warps: 1}
program:
  writer:
    - store: table = 1
    - sync: both
  reader:
    - sync: both
    - load: table = 1
      proxy: texture
"""


def test_a_cached_read_of_what_the_kernel_writes(capsys: pytest.CaptureFixture[str]):
    """Refuted; the formal fence is not an instruction; without the conflict it verifies."""
    assert run(["verify", written("k.yaml", TEXTURE)]) == 1
    told = capsys.readouterr().out
    assert "TTN307" in told and "load table (tile 1) through the texture proxy" in told
    assert run(["fences", "k.yaml"]) == 1
    assert "TTN307" in capsys.readouterr().out
    fenced = TEXTURE.replace("    - load", "    - fence: texture\n    - load")
    assert run(["verify", written("k.yaml", fenced)]) == 1
    told = capsys.readouterr().out
    assert "TTN426" in told and "TTN307" not in told
    generic = TEXTURE.replace("      proxy: texture\n", "")
    assert run(["verify", written("k.yaml", generic)]) == 0
    untouched = TEXTURE.replace("store: table = 1", "load: table = 0")
    untouched = untouched.replace("load: table = 1", "load: table = 0")
    assert run(["verify", written("k.yaml", untouched)]) == 0
