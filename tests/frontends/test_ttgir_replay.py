"""Traces of TTGIR: what `titan verify` saves and names is what `titan replay` confirms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from titan.cli.main import run

SAMPLES = Path(__file__).parent / "ttgir"
FAULTS = {  # of each file the text that is replaced, or left out to the end of its line
    "pipelined_gemm_sm90_specialised": ("        ttng.wait_barrier %22", ""),
    "gemm_gfx950_copies": ("{num = 2 : i32}", "{num = 4 : i32}"),
}


def refuted(name: str, path: Path) -> None:
    text = (SAMPLES / f"{name}.ttgir").read_text(encoding="utf-8")
    old, new = FAULTS[name]
    at = text.index(old)
    end = at + len(old) if new else text.index("\n", at)
    path.write_text(text[:at] + new + text[end:], encoding="utf-8")


@pytest.mark.parametrize("suffix", [".ttgir", ".mlir"])
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_saved_replays(
    name: str,
    suffix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    refuted(name, Path(f"k{suffix}"))
    assert run(["verify", f"k{suffix}"]) == 1
    (trace,) = Path(".titan/traces").glob("*.json")
    assert f"titan replay {trace}" in capsys.readouterr().out
    assert run(["replay", str(trace)]) == 1
    assert "confirmed: " in capsys.readouterr().out

    changed = json.loads(trace.read_text(encoding="utf-8"))
    changed["steps"].pop()
    trace.write_text(json.dumps(changed), encoding="utf-8")
    assert run(["replay", str(trace)]) == 2
