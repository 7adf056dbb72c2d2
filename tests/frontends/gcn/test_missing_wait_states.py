"""Verdicts where wait states are missing: on the path that runs, and on one that does not."""

from __future__ import annotations

import pytest

from tests.frontends.gcn.test_verify_assembly import ONE_WAVE, judged, line_of
from tests.frontends.gcn.texts import RING, kernel
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies

PRODUCT = "v_mfma_f32_16x16x16_f16 v[0:3], v[16:17], v[18:19], v[0:3]"
USED = kernel(f"{PRODUCT}\ns_nop 6\nv_mov_b32_e32 v20, v3", "gfx942")


def test_a_product_is_read_when_it_is_done():
    assert judged(USED, ONE_WAVE).verdict is Verdict.VERIFIED
    early = USED.replace("s_nop 6", "s_nop 5")
    finding = judged(early, ONE_WAVE)
    assert finding.verdict is Verdict.REFUTED
    (fault,) = finding.diagnostics
    assert fault.code == "TTN217"
    assert fault.headline == "v3 needs 7 wait states here, and has 6"
    assert fault.span.start_line == line_of(early, "v_mov_b32")
    assert [one.span.start_line for one in fault.annotations] == [
        line_of(early, "v_mov_b32"), line_of(early, "v_mfma"),
    ]  # fmt: skip
    allowed = judged(early, ONE_WAVE, policies=CodePolicies(register_ready="allow"))
    assert allowed.verdict is Verdict.VERIFIED


@pytest.mark.parametrize("number", [0, 1])
def test_a_copy_needs_its_destination(number):
    at = -1
    for _ in range(number + 1):
        at = RING.index("\ts_nop 0\n", at + 1)
    finding = judged(RING[:at] + RING[at + len("\ts_nop 0\n") :])
    assert finding.verdict is Verdict.REFUTED
    assert {item.headline for item in finding.diagnostics} == {
        "m0 needs 1 wait state here, and has 0"
    }


@pytest.mark.parametrize(("value", "verdict"), [(0, Verdict.VERIFIED), (1, Verdict.REFUTED)])
def test_only_what_runs_is_a_fault(value, verdict):
    lines = f"""s_mov_b32 s4, {value}
        s_cmp_eq_u32 s4, 0
        s_cbranch_scc1 .Lend
        {PRODUCT}
        v_mov_b32_e32 v20, v3
        .Lend:"""
    finding = judged(kernel(lines, "gfx942").replace("\t.Lend:", ".Lend:"), ONE_WAVE)
    assert finding.verdict is verdict
    noted = [note for note in finding.notes if "paths that no launch takes: 1" in note]
    assert bool(noted) is (verdict is Verdict.VERIFIED)
