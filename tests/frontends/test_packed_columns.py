"""Verdicts on tcgen05.ld and .st that pack 16 bits of each column."""

from __future__ import annotations

import pytest

from tests.frontends.test_tensor_allocations import allocated, given_back, one_warp
from tests.frontends.test_verify_code import NOTHING, codes, verified

STORED = "tcgen05.st.sync.aligned.32x32b.x8.b32 [{place}], {{%r9,%r9,%r9,%r9,%r9,%r9,%r9,%r9}};"
HALVES = "tcgen05.st.sync.aligned.32x32b.x4.unpack::16b.b32 [{place}], {{%r9,%r9,%r9,%r9}};"
LOADED = """
tcgen05.ld.sync.aligned.32x32b.x8{word}.b32 {{%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}}, [%r8];
"""
PACKED, PLAIN = LOADED.format(word=".pack::16b"), LOADED.format(word="")
DONE, READ = "tcgen05.wait::st.sync.aligned;", "tcgen05.wait::ld.sync.aligned;"
USED = "st.shared.u32 [s+64], %r17;"
FIRST, SECOND = STORED.format(place="%r8"), STORED.format(place="%r8+8")
NARROW = HALVES.format(place="%r8")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((FIRST, SECOND, DONE, PACKED, READ, USED), []),
        ((FIRST, DONE, SECOND, PLAIN, READ, USED, DONE), []),
        ((FIRST, DONE, SECOND, PACKED, READ, USED, DONE), ["TTN203"]),
        ((NARROW, DONE, PLAIN, READ, USED), []),
        ((SECOND, NARROW, DONE, PACKED, READ, USED), []),
        ((FIRST, DONE, PLAIN, READ, USED, NARROW, DONE), []),
        ((FIRST, DONE, PLAIN, NARROW, READ, USED, DONE), ["TTN202"]),
    ],
)
def test_a_packed_register_is_two_columns(lines, expected):
    text = one_warp(allocated(0), "ld.shared.u32 %r8, [s];", *lines, given_back(0))
    finding = verified(text, NOTHING)
    assert codes(finding) == expected, finding.diagnostics
