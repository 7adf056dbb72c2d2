"""Loads of read-only data beside what the kernel writes."""

from __future__ import annotations

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code

KERNEL = """.version 8.7
.target sm_90a
.address_size 64
.entry k(.param .u64 p, .param .u64 q) {{
.reg .b32 %r<16>;
.reg .b64 %d<16>;
ld.param.u64 %d0, [p];
ld.param.u64 %d1, [q];
mov.u32 %r1, %tid.x;
xor.b32 %r2, %r1, 1;
mad.wide.u32 %d2, %r1, 4, %d0;
mad.wide.u32 %d3, %r2, 4, %d0;
mad.wide.u32 %d4, %r1, 4, %d1;
{body}
ret;
}}
"""
CASES = {
    "written by another thread": (
        "st.global.u32 [%d2], %r1; bar.sync 0; ld.global.nc.u32 %r3, [%d3];", Verdict.REFUTED),
    "written afterwards": (
        "ld.global.nc.u32 %r3, [%d3]; bar.sync 0; st.global.u32 [%d2], %r1;", Verdict.REFUTED),
    "read coherently": (
        "st.global.u32 [%d2], %r1; bar.sync 0; ld.global.u32 %r3, [%d3];", Verdict.VERIFIED),
    "another array": (
        "st.global.u32 [%d4], %r1; bar.sync 0; ld.global.nc.u32 %r3, [%d3];", Verdict.VERIFIED),
    "at an index that is read": (
        "ld.global.u32 %r4, [%d4]; mad.wide.u32 %d5, %r4, 4, %d0;"
        "ld.global.nc.u32 %r3, [%d5]; st.global.u32 [%d2], %r3;", Verdict.UNDECIDED),
    "at an address that is read": (
        "ld.global.u32 %r4, [%d4]; mad.wide.u32 %d5, %r4, 4, %d0;"
        "ld.global.nc.u32 %r3, [%d5]; st.global.u32 [%d4], %r3;", Verdict.VERIFIED),
}  # fmt: skip


@pytest.mark.parametrize("read", ["ld.global.nc", "ldu"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_read_as_read_only_data_is_not_written(name: str, read: str) -> None:
    body, verdict = CASES[name]
    if read == "ldu":
        body = body.replace("ld.global.nc.u32", "ldu.global.u32")
    text = "{grid: 1, block: 64, parameters: [pointer, pointer]}"
    launch, errors = read_launch_text(text, "k.yaml")
    assert errors == []
    source = Source("k.ptx", KERNEL.format(body=body))
    (finding,) = verify_code(source, launch, CodeOptions(), [], 0.0)
    if name.endswith("that is read"):
        assert finding.verdict is not Verdict.REFUTED, "which bytes are read is not known"
        return
    assert finding.verdict is verdict
    assert all(item.headline.startswith(read) for item in finding.diagnostics)


def test_what_the_first_instruction_of_the_module_writes_counts() -> None:
    head, _, _ = KERNEL.partition("ld.param.u64 %d0")
    body = "ld.global.nc.u32 %r2, [word]; ret; }"
    head = head.replace(".entry", ".global .u32 word;\n.entry").format()
    source = Source("k.ptx", f"{head} st.global.u32 [word], 1; {body}")
    launch, errors = read_launch_text("{grid: 1, block: 32, parameters: [pointer, pointer]}", "k")
    assert errors == []
    (finding,) = verify_code(source, launch, CodeOptions(), [], 0.0)
    assert finding.verdict is Verdict.REFUTED
    assert [item.code for item in finding.diagnostics] == ["TTN201"]
