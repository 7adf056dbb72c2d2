"""What Triton 3.9 made of the kernels beside this file, verdicts on it, and lines left out."""

from __future__ import annotations

import re
from pathlib import Path

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ttgir.verify import verify_ttgir
from titan.verify.model import Finding, VerifyOptions

FOLDER = Path(__file__).parent / "ttgir"


def sample(name: str) -> str:
    """The text of a file in the folder."""
    return (FOLDER / f"{name}.ttgir").read_text(encoding="utf-8")


def verified(text: str, **more) -> Finding:
    """The verdict on the only kernel of a text."""
    options = VerifyOptions(save_traces=None, **more)
    (finding,) = verify_ttgir(Source("k.ttgir", text), options)
    return finding


def code_of(finding: Finding) -> str:
    """The code of the fault that a kernel is refuted by."""
    assert finding.verdict is Verdict.REFUTED, finding
    assert finding.trace is not None
    return finding.trace.fault.kind.value


def without(pattern: str, text: str, number: int = 0) -> str:
    """The text without a line that matches."""
    lines = text.split("\n")
    found = [at for at, line in enumerate(lines) if re.search(pattern, line)]
    del lines[found[number]]
    return "\n".join(lines)


def changed(old: str, new: str, text: str) -> str:
    """The text with one place changed."""
    result, count = re.subn(old, new, text, count=1)
    assert count == 1, old
    return result
