"""What ldmatrix gives a lane is traced as the bytes that it reads, whoever else reads them."""

from __future__ import annotations

import struct

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.isa.numbers.run import compute
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.tracing.fragments import matrix_form
from titan.verify.model import Finding

UNKNOWN = "{grid: 1, parameters: {x: pointer, y: pointer}}"
WORDS = ", ".join(f"{4 * lane}: {{u32: {lane * 0x10001 + 7}}}" for lane in range(32))
KNOWN = UNKNOWN.replace("x: pointer", f"x: {{pointer: {{{WORDS}}}}}")
KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
.reqntid 32
{
  .reg .pred %p<8>;
  .reg .b32 %r<32>;
  .reg .b64 %d<16>;
  .shared .align 16 .b8 s[512];
  ld.param.u64 %d1, [x];
  ld.param.u64 %d2, [y];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, s;
  mul.wide.u32 %d3, %r2, 4;
  add.s64 %d1, %d1, %d3;
  ld.global.u32 %r10, [%d1];
  shl.b32 %r4, %r2, 2;
  add.u32 %r4, %r3, %r4;
  st.shared.u32 [%r4], %r10;  // eight rows of 16 bytes
  bar.sync 0;
  and.b32 %r5, %r2, 1;
  bfe.u32 %r6, %r2, 3, 1;
  xor.b32 %r6, %r5, %r6;      // the other row in every second matrix
  shl.b32 %r5, %r5, 4;
  add.u32 %r5, %r3, %r5;      // rows 0 and 1 in turn
  shl.b32 %r6, %r6, 4;
  add.u32 %r6, %r3, %r6;
  setp.lt.u32 %p1, %r2, 16;
  shr.u32 %r7, %r2, 2;
  and.b32 %r8, %r2, 7;        // row and word of a lane whose rows are these
BODY
  mul.wide.u32 %d4, %r9, 4;
  add.s64 %d2, %d2, %d4;
  st.global.u32 [%d2], %r13;
  ret;
}
"""
ONE = "ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 {{%r13}}, [%r5];"
TWO = (
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r11, %r12}}, [{rows}];"
    "selp.b32 %r13, %r11, %r12, %p1; mov.u32 %r9, %r8;"
)
CASES = {  # what holds, and the like where it does not
    "rows of a matrix": (
        ONE.format(trans="") + "mov.u32 %r9, %r8;",
        ONE.format(trans="") + "and.b32 %r9, %r2, 3;",
    ),
    "columns of a matrix": (
        ONE.format(trans=".trans") + "mov.u32 %r9, %r7;",
        ONE.format(trans=".trans") + "shr.u32 %r9, %r7, 1;",
    ),
    "two matrices": (TWO.format(rows="%r5"), TWO.format(rows="%r6")),
    "a matrix and words": (
        ONE.format(trans="") + """shl.b32 %r14, %r8, 2; add.u32 %r14, %r3, %r14;
        ld.shared.u32 %r15, [%r14]; selp.b32 %r13, %r13, %r15, %p1; mov.u32 %r9, %r8;""",
        ONE.format(trans="") + """shl.b32 %r14, %r8, 2; add.u32 %r14, %r3, %r14;
        ld.shared.u32 %r15, [%r14+4]; selp.b32 %r13, %r13, %r15, %p1; mov.u32 %r9, %r8;""",
    ),
}  # fmt: skip


def verified(body: str, launch: str) -> Finding:
    described, errors = read_launch_text(launch, "k.yaml")
    assert errors == []
    source = Source("k.ptx", KERNEL.replace("BODY", body))
    (finding,) = verify_code(source, described, CodeOptions(schedules=2), [], 0.0)
    return finding


@pytest.mark.parametrize(("right", "wrong"), CASES.values(), ids=CASES)
def test_lanes_that_read_the_same_bytes_store_the_same(right, wrong):
    found = verified(right, UNKNOWN)
    assert found.verdict is Verdict.VERIFIED, (found.notes, found.diagnostics)
    assert verified(wrong, UNKNOWN).verdict is Verdict.UNDECIDED
    assert verified(wrong, KNOWN).verdict is Verdict.REFUTED


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_table_of_bytes_is_that_of_the_machine_that_computes(trans, count):
    names = [f"%r{16 + number}" for number in range(count)]
    body = "shl.b32 %r5, %r2, 4; add.u32 %r5, %r3, %r5;  // each lane a row, of 512 bytes\n"
    body += "mov.u32 %r9, 0; " + " ".join(
        f"mad.lo.u32 %r14, %r2, 0x01030507, {0x10203 * word + 5};"
        f"st.shared.u32 [%r5+{4 * word}], %r14;"
        for word in range(4)
    )
    body += f"bar.sync 0; ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 "
    body += "{" + ", ".join(names) + "}, [%r5]; mul.wide.u32 %d5, %r2, 16; add.s64 %d6, %d2, %d5;"
    body += " ".join(
        f"st.global.u32 [%d6+{4 * at + 256}], {name};" for at, name in enumerate(names)
    )
    module, errors = parse_source(
        Source("k.ptx", KERNEL.replace("BODY", body + "mov.u32 %r13, 0;"))
    )
    assert module is not None, errors
    x, y = 0x10000, 0x20000
    parameters = tuple(LaunchParameter(struct.pack("<Q", at)) for at in (x, y))
    memory = {x: bytes(128), y: bytes(1024)}
    launch = Launch("k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, parameters, memory=memory)
    made, faults = compute(module, launch)
    assert made is not None, faults
    left, missing = made.contents(y + 256, 512)
    assert missing == 0
    rows = [
        b"".join(
            struct.pack("<I", (lane * 0x01030507 + 0x10203 * word + 5) & 0xFFFFFFFF)
            for word in range(4)
        )
        for lane in range(32)
    ]
    (loading,) = (item for item in module.instructions if item.opcode == "ldmatrix")
    form = matrix_form(loading)
    for lane in range(32):
        for matrix in range(count):
            expected = bytes(rows[row][byte] for row, byte in form.bytes_of(lane, matrix))
            assert left[16 * lane + 4 * matrix :][:4] == expected, (lane, matrix)
