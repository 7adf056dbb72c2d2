"""Bytes of an mbarrier that are read as memory, while it is live and when it is over."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, kernel, verified

LAUNCH = "{grid: 1, dynamic_shared: 0, parameters: [pointer]}"
INIT = "@%p1 mbarrier.init.shared.b64 [b], 1; bar.sync 0;"
OVER = "bar.sync 0; @%p1 mbarrier.inval.shared.b64 [b]; @%p1 st.shared.u64 [b], 0; bar.sync 0;"
COPY = """
	fence.proxy.async; bar.sync 0;
	@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 16;
	@%p1 cp.async.bulk.commit_group;
	@%p1 cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((INIT, "ld.shared.u32 %r6, [b];"), ["TTN209"]),
        ((INIT, "ld.shared.u8 %r6, [b+7];"), ["TTN209"]),
        ((INIT, "ld.relaxed.cta.shared.u32 %r6, [b+4];"), ["TTN209"]),
        ((INIT, "@%p1 st.shared.u64 [b+8], 1;", COPY), ["TTN209"]),
        ((INIT, "@%p1 st.shared.u64 [b+8], 1; bar.sync 0; ld.shared.u32 %r6, [b+8];"), []),
        ((INIT, OVER, "ld.shared.u32 %r6, [b];"), []),
        ((INIT, OVER, "@%p1 st.shared.u64 [b+8], 1;", COPY), []),
    ],
)
def test_reads_of_an_mbarrier(steps, expected):
    begin = ".reg .b64 %rd<2>; ld.param.u64 %rd1, [g]; setp.eq.u32 %p1, %r0, 0; mov.u32 %r3, b;"
    text = kernel(begin + "".join(steps)).replace("align 8 .b8 b", "align 16 .b8 b")
    finding = verified(text.replace(".entry k()", ".entry k(.param .u64 g)"), LAUNCH)
    assert codes(finding)[:1] == expected, finding.notes
