"""What cp.async has written and an engine reads: the policy `copy_fence`, and where it is named."""

from __future__ import annotations

import pytest

from tests.frontends.test_in_flight_together import HEAD, TAIL
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import chosen
from titan.frontends.ptx.remarks import COPY_HELP, REMARKS
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.verify.model import Finding

COPY = "cp.async.ca.shared.global [%r3], [%d1], 16;\n"
WAITED = COPY + "cp.async.wait_all;\n"
INIT = "mbarrier.init.shared.b64 [b], 1;\n"
SIGNAL = "cp.async.mbarrier.arrive.noinc.shared.b64 [b];\n"
WAIT = """
W: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0;
@!%p3 bra W;
"""
ARRIVED = INIT + COPY + SIGNAL + WAIT
STORE = "st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};\n"
FENCE = "fence.proxy.async;"
READ = """
cp.async.bulk.global.shared::cta.bulk_group [%d1+65536], [%r3], 16;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""


def finding_of(before: str, policy: tuple[tuple[str, str], ...] = (), entry: str = "k") -> Finding:
    """What is found of one thread that fills shared memory and stores it with the copy engine."""
    launch, errors = read_launch_text("{grid: 1, block: 1, parameters: [pointer]}", "l.yaml")
    assert errors == []
    options = CodeOptions(schedules=0, policies=chosen(policy))
    head = HEAD.replace(".reg", ".shared .align 8 .b64 b;\n.reg .pred %p<4>;\n.reg", 1)
    text = (head + before + READ + TAIL).replace(".entry k(", f".entry {entry}(")
    assert f".entry {entry}(" in text
    (finding,) = verify_code(Source("k.ptx", text), launch, options, [], 0.0)
    return finding


@pytest.mark.parametrize(
    ("before", "policy", "verdict", "helped"),
    [
        (WAITED, "required", Verdict.REFUTED, True),
        (WAITED, "arrivals", Verdict.REFUTED, True),
        (WAITED, "assumed", Verdict.VERIFIED, False),
        (WAITED + FENCE, "required", Verdict.VERIFIED, False),
        (ARRIVED, "required", Verdict.REFUTED, True),
        (ARRIVED, "arrivals", Verdict.VERIFIED, False),
        (ARRIVED, "assumed", Verdict.VERIFIED, False),
        (ARRIVED + FENCE, "required", Verdict.VERIFIED, False),
        (INIT + WAITED + SIGNAL + WAIT, "arrivals", Verdict.REFUTED, True),
        (STORE, "required", Verdict.REFUTED, False),
        (STORE, "assumed", Verdict.REFUTED, False),
        (INIT + STORE + SIGNAL + WAIT, "arrivals", Verdict.REFUTED, False),
        (STORE + FENCE, "required", Verdict.VERIFIED, False),
    ],
)
def test_the_policy_is_named_where_it_matters(before, policy, verdict, helped):
    finding = finding_of(before, (("copy_fence", policy),))
    assert finding.verdict is verdict, finding.diagnostics
    assert [item.code for item in finding.diagnostics] == ["TTN301"] * (verdict is Verdict.REFUTED)
    assert helped == any(COPY_HELP in item.helps for item in finding.diagnostics)
    rests = verdict is Verdict.VERIFIED and FENCE not in before
    assert rests == any(REMARKS["copy-fence"] in note for note in finding.notes)


def test_what_is_not_waited_for_is_refuted_whatever_the_policy():
    finding = finding_of(INIT + COPY + SIGNAL)
    assert [item.code for item in finding.diagnostics] == ["TTN203"]


@pytest.mark.parametrize(
    ("before", "entry", "verdict"),
    [
        (ARRIVED, "_ZN7cutlass13device_kernelIXE", Verdict.VERIFIED),
        (ARRIVED, "_ZN4mine13device_kernelIXE", Verdict.REFUTED),
        (ARRIVED, "k", Verdict.REFUTED),
        (WAITED, "_ZN7cutlass13device_kernelIXE", Verdict.REFUTED),
        (INIT + STORE + SIGNAL + WAIT, "_ZN7cutlass13device_kernelIXE", Verdict.REFUTED),
        (ARRIVED + FENCE, "k", Verdict.VERIFIED),
    ],
)
def test_by_default_an_arrival_is_enough_in_kernels_of_cutlass_alone(before, entry, verdict):
    """In anybody else's code a fence that is left out may have been forgotten."""
    finding = finding_of(before, entry=entry)
    assert finding.verdict is verdict, finding.diagnostics
    rests = verdict is Verdict.VERIFIED and FENCE not in before
    assert rests == any(REMARKS["copy-fence"] in note for note in finding.notes)
