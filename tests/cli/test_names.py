"""Names of files come from a checkout that somebody else has made: none forges a line of a log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from titan.cli.main import run
from titan.cli.output import CI_FORMATS, FORMATS
from titan.foundation.resources import root

HOSTILE = "a\n::error file=x::forged\n\x1b[31m.{}"
FORGED = re.compile(r"(?m)^(::error file=x|\.yaml|\.litmus|forged)|\x1b\[31m")
KERNEL = (root("examples") / "ring.yaml").read_text(encoding="utf-8")
CONTENTS = {
    "good": ("yaml", KERNEL),
    "bad": ("yaml", KERNEL.replace("titan: 1", "titan: 9")),
    "old": ("yaml", KERNEL.replace("mma(A[t], B[t])", "{mma: [A[t], B[t]]}")),
    "loop": ("yaml", "titan: 1\nloop: x\n"),
    "tile": ("yaml", "titan: 1\ntile: x\n"),
    "litmus": ("litmus", "PTX x\n"),
    "no file": ("yaml", ""),
}
CASES = [
    *(("good", ["verify", "--format", name]) for name in (*FORMATS, *CI_FORMATS)),
    *(("bad", ["verify", "--format", name]) for name in (*FORMATS, *CI_FORMATS)),
    ("old", ["verify"]),
    ("loop", ["verify"]),
    ("loop", ["schedule"]),
    ("tile", ["verify"]),
    ("tile", ["build"]),
    ("tile", ["gate"]),
    ("bad", ["mutants"]),
    ("bad", ["fences"]),
    ("bad", ["fmt", "--check"]),
    ("bad", ["gate", "--fresh"]),
    *(("litmus", ["litmus", "check", "--format", name]) for name in ("text", "github", "json")),
    ("litmus", ["litmus", "list"]),
    ("litmus", ["litmus", "render", "-o", "out"]),
    ("litmus", ["litmus", "run", "--backend", "cpu"]),
]


@pytest.mark.parametrize(("content", "command"), CASES, ids=str)
def test_no_name_forges_a_line(
    content: str, command: list[str], tmp_path: Path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    suffix, text = CONTENTS[content]
    file = tmp_path / "in" / HOSTILE.format(suffix)
    file.write_text(text, encoding="utf-8")
    for given in ("in", str(file)):
        assert run([*command, given]) in (0, 1, 2)
        out, err = capfd.readouterr()
        assert not FORGED.search(out + err), out + err
    assert "control character" in err, "an argument with a line break is refused, and told escaped"
