"""Descriptors of tcgen05.mma: those that compilers write, and those with one field changed."""

from __future__ import annotations

import pytest

from tests.frontends.test_verify_code import codes, verified
from titan.foundation.verdict import Verdict

KERNEL = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
.reqntid 128
{
  .reg .pred %p<8>;
  .reg .b32 %r<32>;
  .reg .b64 %d<8>;
  .shared .align 1024 .b8 s[32768];
  .shared .align 8 .b64 b;
  .shared .align 4 .b8 t[4];
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %p1, %r0, 32;
  setp.eq.u32 %p2, %r0, 0;
  setp.ne.u32 %p3, 0, 0;
  @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [t], 512;
  @%p2 mbarrier.init.shared.b64 [b], 1;
  mov.u32 %r1, 0;
  shl.b32 %r2, %r0, 4;
  mov.u32 %r3, s;
  add.u32 %r2, %r2, %r3;
FILL:
  st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};
  add.u32 %r2, %r2, 2048;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p4, %r1, 16;
  @%p4 bra FILL;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  ld.shared.u32 %r10, [t];
  shr.u32 %r4, %r3, 4;
  cvt.u64.u32 %d1, %r4;
  or.b64 %d2, %d1, B_BITS;
  or.b64 %d1, %d1, A_BITS;
  mov.u32 %r5, DESCRIPTOR;
  @%p2 tcgen05.mma.cta_group::1.FORM;
  @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [b];
W:
  mbarrier.try_wait.parity.shared.b64 %p5, [b], 0;
  @!%p5 bra W;
  bar.sync 0;
  @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;
  ret;
}
"""
FIXED = 1 << 46 | 16 << 32 | 8 << 16  # cores of 128 bytes, no swizzle
PLAIN = "kind::{} [%r10], %d1, %d2, %r5, %p3"
SCALED = "kind::{}.block_scale.scale_vec::{} [%r10], %d1, %d2, %r5, [%r11], [%r11], %p3"
FORMS = {
    "f16": PLAIN, "tf32": PLAIN, "f8f6f4": PLAIN, "i8": PLAIN,
    "mxf8f6f4": SCALED, "mxf4": SCALED, "mxf4nvf4": SCALED,
}  # fmt: skip
VECTORS = {"mxf8f6f4": "1X", "mxf4": "2X", "mxf4nvf4": "4X"}
# As Triton, CUTLASS and `titan build` write them.
WRITTEN = {
    "f16": [0x8200010, 0x4110010, 0x8040010, 0x8210490, 0x4200010, 0x8410010],
    "tf32": [0x8100910, 0x4020910],
    "f8f6f4": [0x8200010, 0x8100490],
    "i8": [0x81004A0, 0x8100028],
    "mxf8f6f4": [0x28C00010, 0x8A01400, 0x68A01430],
    "mxf4": [0x8A00480, 0x48A004A0],
    "mxf4nvf4": [0x8400480, 0x8200480],
}
TYPES, ROWS, COLUMNS = 7, 24, 17  # where fields begin


def judged(kind: str, descriptor: int, a: int = FIXED, b: int = FIXED):
    form = FORMS[kind].format(kind, VECTORS.get(kind, ""))
    text = KERNEL.replace("FORM", form).replace("DESCRIPTOR", str(descriptor))
    text = text.replace("A_BITS", str(a)).replace("B_BITS", str(b))
    if "%r11" in form:  # scales behind the sums, whose contents no verdict is about
        text = text.replace("  shr.u32 %r4", "  add.u32 %r11, %r10, 256;\n  shr.u32 %r4")
    return verified(text, "{grid: 1, dynamic_shared: 0}", save_traces=None)


@pytest.mark.parametrize(
    ("kind", "descriptor"), [(kind, value) for kind, values in WRITTEN.items() for value in values]
)
def test_what_compilers_write_is_right(kind, descriptor):
    assert "TTN219" not in codes(judged(kind, descriptor))


def test_a_product_with_right_descriptors_is_verified():
    assert judged("f16", 0x8100010).verdict is Verdict.VERIFIED


def put(descriptor: int, low: int, width: int, number: int) -> int:
    return descriptor & ~((1 << width) - 1 << low) | number << low


CHANGED = {
    "a kind of numbers that f16 has not": ("f16", put(0x8100010, TYPES, 3, 2)),
    "B of such a kind": ("f16", put(0x8100010, TYPES + 3, 3, 2)),
    "tf32 of f16": ("tf32", put(0x8100910, TYPES, 3, 0)),
    "a gap of the codes of 8 bits": ("f8f6f4", put(0x8200010, TYPES, 3, 2)),
    "i8 with sums of f32": ("i8", put(0x81004A0, 4, 2, 1)),
    "f16 with sums of s32": ("f16", put(0x8100010, 4, 2, 2)),
    "saturation of f16": ("f16", 0x8100010 | 1 << 3),
    "sparse without .sp": ("f16", 0x8100010 | 1 << 2),
    "a reserved bit": ("f16", 0x8100010 | 1 << 23),
    "another": ("f16", 0x8100010 | 1 << 29),
    "rows of a pair": ("f16", put(0x8100010, ROWS, 5, 16)),
    "96 rows": ("f16", put(0x8100010, ROWS, 5, 6)),
    "columns that 128 rows do not have": ("f16", put(0x8100010, COLUMNS, 6, 9)),
    "more than 256 columns": ("f16", put(0x8100010, COLUMNS, 6, 34)),
    "numbers of 8 bits in mxf4": ("mxf4", put(0x8A00480, TYPES, 3, 0)),
    "64 rows with scales": ("mxf8f6f4", put(0x28C00010, 27, 2, 0)),
    "sparse, with scales": ("mxf4nvf4", 0x8400480 | 1 << 2),
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_field_with_another_number_is_refuted(change):
    kind, descriptor = CHANGED[change]
    found = judged(kind, descriptor)
    assert found.verdict is Verdict.REFUTED
    assert "TTN219" in codes(found), codes(found)


def test_64_rows_have_multiples_of_8_columns():
    assert "TTN219" not in codes(judged("f16", put(0x4100010, COLUMNS, 6, 9)))


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize(
    "bits", [put(FIXED, 46, 3, 0), put(FIXED, 46, 3, 2), FIXED | 1 << 53, FIXED | 1 << 60]
)
def test_the_fixed_bits_of_an_operand(operand, bits):
    found = judged("f16", 0x8100010, **{operand: bits})
    assert codes(found)[:1] == ["TTN219"], codes(found)
