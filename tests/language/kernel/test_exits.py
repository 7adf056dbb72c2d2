"""Roles of a cluster that end before the others meet: the hardware does not wait for them."""

from __future__ import annotations

import pytest

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.sync.fault import FaultKind
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

KERNEL = """\
titan: 1
kernel: exits
target: sm_90a
ctas: 2
buffers: {S: {bytes: 4096}, D: {bytes: 16}}
barriers: {full: 1, go: 1}
named_barriers: {meet: {scope: cluster}}
roles: {load: {warps: 1}, use: {warps: 1}}
program:
  load:
    - FIRST
    - {wait: go, phase: 0}
    - {arrive: full, bytes: 4096}
    - {bulk_load: S = 1, completes: full}
    - LAST
  use:
    - FIRST
    - arrive: go
    - {wait: full, phase: 0}
    - load: S = 1
    - store: D@peer = 2
    - sync: meet
    - load: D = 2
"""


def finding_of(text: str) -> Finding:
    family, errors = decode_text(text.replace("    - LAST\n", ""))
    assert family is not None, errors
    return verify_kernel(family.kernels[0], VerifyOptions(save_traces=None))


@pytest.mark.parametrize("first", ["compute: nothing", "sync: meet"])
@pytest.mark.parametrize("last", ["LAST", "sync: meet", "{sync: meet, when: cta == 1}"])
def test_the_last_meeting_does_not_wait_for_who_has_ended(first: str, last: str):
    """Of another role, of both CTAs or of one; whether it met the others before or not."""
    text = KERNEL.replace("FIRST", first).replace("- LAST", f"- {last}")
    assert finding_of(text).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("    - arrive: go\n", "", FaultKind.DEADLOCK),  # the loading role does not end
        ("    - sync: meet\n    - load: D", "    - load: D", FaultKind.STALE_READ),
        ("    - store: D@peer = 2\n    - sync: meet\n",
         "    - sync: meet\n    - store: D@peer = 2\n", FaultKind.DATA_RACE),
        ("    - {wait: go, phase: 0}\n", "    - for: t in 0..2\n      do: [sync: meet]\n"
         "    - {wait: go, phase: 0}\n", FaultKind.DEADLOCK),
    ],
)  # fmt: skip
def test_what_is_wrong_stays_wrong(old: str, new: str, kind: FaultKind):
    text = KERNEL.replace("FIRST", "compute: nothing")
    assert old in text
    finding = finding_of(text.replace(old, new))
    assert finding.verdict is Verdict.REFUTED
    assert finding.trace is not None and finding.trace.fault.kind is kind


def test_ending_makes_nothing_visible():
    """What a role has stored before it ends is not handed over by a meeting that it skips."""
    text = KERNEL.replace("FIRST", "compute: nothing")
    text = text.replace("    - store: D@peer = 2\n", "").replace("LAST", "store: D@peer = 2")
    finding = finding_of(text)
    assert finding.verdict is Verdict.REFUTED and finding.trace is not None
    assert finding.trace.fault.kind is FaultKind.WEAK_SYNCHRONISATION
