"""Interleavings of compiled code on the machine of warps: saved, followed, refused if changed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.frontends.test_shipped_patterns import PEEK
from tests.frontends.test_verify_code import BROKEN, NOTHING, kernel, ring, verified
from titan.cli.replay import replay
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.code_trace import (
    CodeTrace,
    CodeTraceError,
    load_code_trace,
    save_code_trace,
)
from titan.frontends.ptx.interleaving import COMPLETES, MachineStep
from titan.frontends.ptx.replay_code import SHOWN, CodeReplayRefused, replay_code
from titan.sync.fault import FaultKind

ORDER_ALONE = {"TTN216"}  # followed, and no state of the machine shows it


def saved(name: str, folder: Path) -> str:
    old, new, _ = BROKEN[name]
    finding = verified(ring().replace(old, new, 1), ctas=(0,), save_traces=str(folder))
    return finding.trace_path


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "reads beyond the stages"])
def test_what_is_refuted_shows_on_the_machine(name, tmp_path):
    replayed = replay_code(load_code_trace(saved(name, tmp_path)))
    code = replayed.trace.interleaving.code
    assert replayed.shown is (code in {kind.value for kind in SHOWN}) or code in ORDER_ALONE
    assert replayed.seen
    assert all(0 < item.line <= ring().count("\n") for item in replayed.steps)


def test_what_the_machine_itself_saw_has_no_interleaving(tmp_path):
    assert saved("reads beyond the stages", tmp_path) == ""


def test_the_command_names_the_lines_and_the_end(tmp_path):
    finding = verified(
        ring().replace(BROKEN["nobody releases"][0], "", 1), ctas=(0,), save_traces=str(tmp_path)
    )
    assert finding.diagnostics[0].trace.path == finding.trace_path
    result = CliRunner().invoke(replay, [saved("nobody releases", tmp_path)], standalone_mode=False)
    assert result.return_value == 1, result.output
    assert re.search(r"warp 1 +mbarrier.try_wait.parity \(line 71, ring.cu:", result.output)
    assert "confirmed: " in result.output and "no warp can proceed" in result.output


def test_the_command_has_json_and_one_line(tmp_path):
    path = saved("nobody releases", tmp_path)
    made = {
        name: CliRunner().invoke(replay, [path, "--format", name], standalone_mode=False)
        for name in ("json", "concise")
    }
    data = json.loads(made["json"].output)
    assert data["verdict"] == "confirmed" and data["code"] == "TTN205"
    assert {"agent", "text", "line", "source"} == set(data["steps"][-1])
    assert made["concise"].output.count("\n") == 1 and "confirmed: " in made["concise"].output
    assert all(result.return_value == 1 for result in made.values())


def test_a_race_is_shown_by_its_bytes(tmp_path):
    text = kernel(PEEK.format(address="s")).replace("\t@!%p3 bra AGAIN;\n", "")
    text = text.replace("@%p3 bra READY;", "bra READY;", 1)
    finding = verified(text, NOTHING, save_traces=str(tmp_path))
    assert finding.verdict is Verdict.REFUTED and finding.diagnostics[0].code == "TTN201"
    replayed = replay_code(load_code_trace(finding.trace_path))
    assert replayed.shown and "shared bytes" in replayed.seen


def changed(path: str, **more: object) -> CodeTrace:
    from dataclasses import replace

    trace = load_code_trace(path)
    return replace(trace, interleaving=replace(trace.interleaving, **more))


def test_steps_that_are_not_possible_are_refused(tmp_path):
    path = saved("half of the bytes expected", tmp_path)
    steps = load_code_trace(path).interleaving.steps
    waits = [at for at, item in enumerate(steps) if item.kind == COMPLETES]
    early = (MachineStep("warp", 0, 1, 10_000), *steps)
    with pytest.raises(CodeReplayRefused, match="cannot proceed"):
        replay_code(changed(path, steps=early, code="TTN202"))
    none = (MachineStep(COMPLETES, 0, 0, 99), *steps)
    with pytest.raises(CodeReplayRefused, match="has not issued its operation 99"):
        replay_code(changed(path, steps=none, code="TTN202"))
    assert waits or steps


def test_a_fault_that_is_not_there_is_refused(tmp_path):
    path = saved("nobody releases", tmp_path)
    with pytest.raises(CodeReplayRefused, match="does not show the fault"):
        replay_code(changed(path, code=FaultKind.DATA_RACE.value))
    whole = load_code_trace(path)
    text = ring()  # with the release the machine goes on
    fixed = CodeTrace(whole.path, whole.kernel, text, whole.launch, whole.cta, whole.seed,
                      whole.interleaving)  # fmt: skip
    with pytest.raises(CodeReplayRefused):
        replay_code(fixed)


def test_a_file_that_was_changed_is_refused(tmp_path):
    path = saved("nobody releases", tmp_path)
    content = json.loads(Path(path).read_text())
    content["cta"] = 1
    Path(path).write_text(json.dumps(content))
    with pytest.raises(CodeTraceError, match="changed after it was saved"):
        load_code_trace(path)
    result = CliRunner().invoke(replay, [path], standalone_mode=False)
    assert result.return_value == 2


def test_what_is_saved_is_what_is_read(tmp_path):
    path = saved("nobody releases", tmp_path)
    trace = load_code_trace(path)
    assert load_code_trace(save_code_trace(trace, str(tmp_path / "again"))) == trace
