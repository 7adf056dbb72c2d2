"""Pools order execution, not memory."""

from __future__ import annotations

import pytest

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.report.findings import diagnostics_of
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

KERNEL = """\
titan: 1
kernel: pools
target: sm_90a
sizes: {tiles: any}
buffers: {X: {bytes: 16}}
barriers: {ready: 1}
pools: {registers: 0}
roles: {writer: {warps: 1}, reader: {warps: 1}}
program:
  writer:
    - FIRST
    - {give: registers, amount: 8}
    - arrive: ready
  reader:
    - {take: registers, amount: 8}
    - {wait: ready, phase: 0}
    - SECOND
"""
ACCESSES = {
    "read after write": ("store: X = 1", "load: X = 1"),
    "write after read": ("load: X", "store: X = 1"),
    "write after write": ("store: X = 1", "store: X = 2"),
}


def finding_of(text: str, engine: str) -> Finding:
    family, errors = decode_text(text, "k.yaml")
    assert family is not None, errors
    return verify_kernel(family.kernels[0], VerifyOptions(save_traces=None, engine=engine))


@pytest.mark.parametrize("engine", ["auto", "explore", "reference"])
@pytest.mark.parametrize("accesses", ACCESSES)
def test_nothing_may_rest_on_a_pool_alone(accesses: str, engine: str):
    first, second = ACCESSES[accesses]
    text = KERNEL.replace("FIRST", first).replace("SECOND", second)
    ordered = finding_of(text, engine)
    assert ordered.verdict is Verdict.VERIFIED
    rests = text.replace("    - {wait: ready, phase: 0}\n", "")
    finding = finding_of(rests, engine)
    assert finding.verdict is Verdict.REFUTED
    (item,) = diagnostics_of(finding)
    assert item.code == "TTN305" and "the pool registers" in item.headline
