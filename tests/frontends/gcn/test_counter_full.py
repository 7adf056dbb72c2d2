"""More vector memory operations in flight than vmcnt can count."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import ONE_WAVE, judged
from tests.frontends.gcn.texts import kernel
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

NOTE = "an operation is issued only when its counter has room"


@pytest.mark.parametrize(
    ("loads", "verdicts"),
    [(63, ("refuted", "refuted")), (64, ("verified", "refuted")), (65, ("verified", "refuted"))],
)
def test_the_oldest_of_more_loads_than_vmcnt_counts_is_done(loads, verdicts):
    head = "\ts_load_dwordx2 s[4:5], s[0:1], 0x0\n\ts_waitcnt lgkmcnt(0)\n\tv_mov_b32_e32 v2, 0\n"
    body = "".join(
        f"\tglobal_load_dword v{10 + min(n, 50)}, v2, s[4:5] offset:{4 * n}\n" for n in range(loads)
    )
    text = kernel(f"{head}{body}\tv_add_u32_e32 v4, 1, v10\n\ts_waitcnt vmcnt(0)\n\ts_endpgm\n")
    for policy, expected in zip(("stalls", "refuse"), verdicts, strict=True):
        finding = judged(text, ONE_WAVE, policies=CodePolicies(counter_full=policy))
        assert finding.verdict is Verdict(expected), finding.diagnostics
        assumed = any(NOTE in note for note in finding.notes)
        assert assumed == (policy == "stalls" and loads > 63)
