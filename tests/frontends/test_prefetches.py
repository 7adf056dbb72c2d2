"""What prefetches and hints ask of their addresses: multiples of 16 and 128 bytes, where known."""

from __future__ import annotations

import pytest

from tests.frontends.test_traced import verified
from titan.foundation.verdict import Verdict

# %r6: a number of each lane.
FORMS = {
    16: "cp.async.bulk.prefetch.L2.global [%d4], 32;",
    128: "applypriority.global.L2::evict_normal [%d4], 128;",
    1: "prefetch.global.L2 [%d4];",
}
PLACE = (
    "ld.param.u64 %d1, [x]; mul.lo.u32 %r6, %r2, {}; cvt.u64.u32 %d4, %r6; add.s64 %d4, %d4, %d1;"
)


@pytest.mark.parametrize("aligned", FORMS)
def test_addresses_are_multiples(aligned):
    for distance in (1, 8, 16, 48, 64, 128, 384):
        for first in (0, 4, 16, 128):
            form = FORMS[aligned].replace("[%d4]", f"[%d4+{first}]")
            finding = verified(PLACE.format(distance) + form)
            wrong = any((distance * lane + first) % aligned for lane in range(32))
            codes = {item.code for item in finding.diagnostics}
            assert codes == ({"TTN219"} if wrong else set()), (distance, first)
            assert finding.verdict is (Verdict.REFUTED if wrong else Verdict.VERIFIED)


@pytest.mark.parametrize("count", [0, 8, 16, 24, 4096])
def test_bytes_are_multiples(count):
    body = f"ld.param.u64 %d1, [x]; mov.u32 %r6, {count};"
    finding = verified(f"{body} cp.async.bulk.prefetch.L2.global [%d1], %r6;")
    codes = [item.code for item in finding.diagnostics]
    assert codes == (["TTN219"] if count % 16 else [])


def test_what_is_not_known_or_not_executed_is_no_fault():
    unknown = """ld.param.u64 %d5, [x]; ld.global.u64 %d4, [%d5];
        cp.async.bulk.prefetch.L2.global [%d4], 16;"""
    never = """setp.gt.u32 %p2, %r1, 99; add.s64 %d4, %d1, 1;
        @%p2 cp.async.bulk.prefetch.L2.global [%d4], 16;"""
    for body in (unknown, never):
        finding = verified(body)
        assert finding.verdict is Verdict.VERIFIED, finding.notes
