"""What cp.async has written and an engine reads: the policy `copy_fence`, and where it is named."""

from __future__ import annotations

import pytest

from tests.frontends.test_in_flight_together import HEAD, TAIL
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import chosen
from titan.frontends.ptx.trial import COPY_HELP
from titan.frontends.verify_code import CodeOptions, verify_code

COPY = "cp.async.ca.shared.global [%r3], [%d1], 16;\ncp.async.wait_all;"
STORE = "st.shared.u32 [%r3], %r1;"
FENCE = "fence.proxy.async;"
READ = """
cp.async.bulk.global.shared::cta.bulk_group [%d1+65536], [%r3], 16;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize(
    ("before", "policy", "verdict", "helped"),
    [
        (COPY, "required", Verdict.REFUTED, True),
        (COPY, "assumed", Verdict.VERIFIED, False),
        (COPY + FENCE, "required", Verdict.VERIFIED, False),
        (STORE, "required", Verdict.REFUTED, False),
        (STORE, "assumed", Verdict.REFUTED, False),
        (STORE + FENCE, "required", Verdict.VERIFIED, False),
    ],
)
def test_the_policy_is_named_where_it_matters(before, policy, verdict, helped):
    launch, errors = read_launch_text("{grid: 1, block: 1, parameters: [pointer]}", "l.yaml")
    assert errors == []
    options = CodeOptions(schedules=0, policies=chosen((("copy_fence", policy),)))
    source = Source("k.ptx", HEAD + before + READ + TAIL)
    (finding,) = verify_code(source, launch, options, [], 0.0)
    assert finding.verdict is verdict, finding.diagnostics
    assert [item.code for item in finding.diagnostics] == ["TTN301"] * (verdict is Verdict.REFUTED)
    assert helped == any(COPY_HELP in item.helps for item in finding.diagnostics)
