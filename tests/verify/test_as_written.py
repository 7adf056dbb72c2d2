"""What lowering adds is named; a kernel that is taken as written does not have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.report.findings import as_dict, diagnostics_of, render
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

RING = """\
titan: 1
kernel: ring
target: TARGET
sizes: {tiles: any, depth: 2}
buffers: {A: {stages: depth, tile: [64, 64], dtype: bf16}}
rings: {r: {buffers: [A], depth: depth}}
roles: {p: {warps: 1}, c: {warps: 2}}
program:
  p:
    - for: t in 0..tiles
      do:
        - acquire: r[t]
        - produce: r[t]
  c:
    - for: t in 0..tiles
      do:
        - wait: r[t]
        - read: r[t]
        - release: r[t]
"""
OPTIONS = VerifyOptions(save_traces=None)
SOURCE = "source: a kernel that exists\n"


def finding_of(text: str, options: VerifyOptions = OPTIONS) -> Finding:
    family, errors = decode_text(text, "k.yaml")
    assert family is not None, errors
    return verify_kernel(family.kernels[0], options)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_an_added_fence_is_named_first(target: str):
    finding = finding_of(RING.replace("TARGET", target))
    assert finding.verdict is Verdict.VERIFIED
    (added,) = finding.added
    assert "a proxy fence in c at release r[t]" in added and "line 19" in added
    lines = render([finding], "text").splitlines()
    first = next(line for line in lines if line.startswith("VERIFIED"))
    assert first.endswith("with 1 fence that lowering adds")
    assert as_dict(finding)["added"] == [added]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("how", ["option", "source"])
def test_as_written_the_fence_is_missing(target: str, how: str):
    text = RING.replace("TARGET", target)
    options = OPTIONS
    if how == "source":
        text += SOURCE
    else:
        options = replace(OPTIONS, as_written=True)
    finding = finding_of(text, options)
    assert finding.verdict is Verdict.REFUTED and finding.added == ()
    assert [item.code for item in diagnostics_of(finding)] == ["TTN302", "TTN430"]
    written = text.replace("        - release", "        - fence: async\n        - release")
    assert finding_of(written, options).verdict is Verdict.VERIFIED
    if how == "source":
        designed = finding_of(text, replace(OPTIONS, as_written=False))
        assert designed.verdict is Verdict.VERIFIED and designed.added
