"""Verdicts on kernels as `titan verify` gives them, in the form that the case tests ask for."""

from __future__ import annotations

from pathlib import Path

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_file, verify_kernel

OPTIONS = VerifyOptions(save_traces=None, states_max=2_000_000, seconds_max=20.0)


def judge_file(path: Path) -> Finding:
    """The verdict on the one kernel of a file."""
    (finding,) = verify_file(str(path), OPTIONS)
    return finding


def judge_text(text: str, name: str = "case.yaml") -> Finding:
    """The verdict on the one kernel of a text, which must be readable."""
    family, diagnostics = decode_text(text, name)
    assert family is not None, [(item.code, item.headline) for item in diagnostics]
    (kernel,) = family.kernels
    return verify_kernel(kernel, OPTIONS)


def codes_of(finding: Finding) -> set[str]:
    """The rules that refute: that of the counterexample, and those of errors without one."""
    codes = {item.code for item in finding.diagnostics if item.severity.value == "error"}
    if finding.trace is not None:
        codes.add(finding.trace.fault.kind.value)
    return codes


def told(finding: Finding) -> str:
    """The verdict in one line, for the message of a failing test."""
    fault = finding.trace.fault if finding.trace is not None else None
    what = f"{fault.kind.value} {fault.message}" if fault is not None else ""
    others = "; ".join(f"{item.code} {item.headline}" for item in finding.diagnostics)
    remarks = "; ".join(f"{r.engine} {r.verdict.value} {r.remark}" for r in finding.engines)
    return f"{finding.verdict.value} {what} {others} [{remarks}]"


def for_all_sizes(finding: Finding) -> bool:
    """Whether the verdict covers every value of every parameter."""
    return all(values is None for _, values in finding.coverage.parameters)


def assert_verified(finding: Finding) -> None:
    assert finding.verdict is Verdict.VERIFIED, told(finding)


def assert_refuted(finding: Finding, codes: set[str]) -> None:
    """Refuted, and by no other rule than those named."""
    assert finding.verdict is Verdict.REFUTED, told(finding)
    found = codes_of(finding)
    assert found and found <= codes, told(finding)
