"""Products of narrow elements, plain and block-scaled, against sums of fractions written here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titan.isa.numbers.device import EmulatedDevice, LaunchError, LaunchShape
from titan.isa.numbers.native import core

pytestmark = pytest.mark.skipif(core() is None, reason="the native core is not built")

ROWS, COLUMNS, SCALE_BYTES = 128, 16, 512
KERNEL = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 sa, .param .u64 sb, .param .u64 out)
{
.reg .b32 %r<60>; .reg .b64 %d<20>; .reg .pred %p<9>;
.shared .align 128 .b8 left[4096];
.shared .align 128 .b8 right[512];
.shared .align 128 .b8 scales[1024];
.shared .align 8 .b8 bars[16];
.shared .align 4 .b8 held[4];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.s32 %p1, %r1, 0; setp.eq.s32 %p2, %r2, 0;
mov.u32 %r3, left; mov.u32 %r4, right; mov.u32 %r5, bars; mov.u32 %r6, held; mov.u32 %r7, scales;
@%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r6], 64;
@!%p1 bra START;
mbarrier.init.shared::cta.b64 [%r5], 1;
mbarrier.init.shared::cta.b64 [%r5+8], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 5632;
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [sa]; ld.param.u64 %d4, [sb];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d1], 4096, [%r5];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d2], 512, [%r5];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%d3], 512, [%r5];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7+512], [%d4], 512, [%r5];
START:
bar.sync 0;
ld.shared.b32 %r8, [%r6];
@!%p1 bra MULTIPLIED;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0;
@!%p3 bra WAIT;
cvt.u64.u32 %d5, %r7; shr.u64 %d5, %d5, 4; or.b64 %d5, %d5, PLAIN;
add.s32 %r9, %r8, 32;
add.s32 %r10, %r8, 40;
SCALES
cvt.u64.u32 %d1, %r3; shr.u64 %d1, %d1, 4; or.b64 %d1, %d1, LEFT;
cvt.u64.u32 %d2, %r4; shr.u64 %d2, %d2, 4; or.b64 %d2, %d2, RIGHT;
mov.u32 %r11, INSTRUCTION;
tcgen05.mma.cta_group::1.KIND [%r8], %d1, %d2, %r11OPERANDS, 0;
tcgen05.mma.cta_group::1.KIND [%r8], %d1, %d2, %r11OPERANDS, 1;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5+8];
MULTIPLIED:
DONE:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5+8], 0;
@!%p3 bra DONE;
shl.b32 %r12, %r2, 21; add.s32 %r8, %r8, %r12;
ld.param.u64 %d3, [out]; mul.wide.u32 %d4, %r1, 64; add.s64 %d3, %d3, %d4;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {REGISTERS}, [%r8];
tcgen05.wait::ld.sync.aligned;
STORES
bar.sync 0;
ret;
}
"""
COPIES = """tcgen05.cp.cta_group::1.32x128b.warpx4 [%r9], %d5;
add.s64 %d5, %d5, 32;
tcgen05.cp.cta_group::1.32x128b.warpx4 [%r10], %d5;
"""


@dataclass(frozen=True)
class Element:
    """A format: bits of exponent and fraction, what is infinite or no number, its code."""

    exponent: int
    fraction: int
    code: int
    special: str = ""

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction


ELEMENTS = {
    "e4m3": Element(4, 3, 0, "nan"), "e5m2": Element(5, 2, 1, "ieee"), "e2m3": Element(2, 3, 3),
    "e3m2": Element(3, 2, 4), "e2m1": Element(2, 1, 5),
}  # fmt: skip
SCALED_KINDS = {  # elements along K, blocks of them, the words
    "mxf8f6f4": (32, 1, "kind::mxf8f6f4.block_scale.scale_vec::1X"),
    "mxf4": (64, 2, "kind::mxf4.block_scale.scale_vec::2X"),
    "mxf4nvf4 of 32": (64, 2, "kind::mxf4nvf4.block_scale.block32"),
    "mxf4nvf4 of 16": (64, 4, "kind::mxf4nvf4.block_scale.scale_vec::4X"),
}
Term = tuple[Fraction | float, int]  # a number, and the exponent that it is aligned by


def number(bits: int, form: Element) -> Term:
    """A number and its exponent; that of zero is -126."""
    bias = 2 ** (form.exponent - 1) - 1
    sign = -1 if bits >> (form.bits - 1) & 1 else 1
    field, fraction = bits >> form.fraction & (2**form.exponent - 1), bits % 2**form.fraction
    top = field == 2**form.exponent - 1
    if form.special == "ieee" and top:
        return (math.nan if fraction else sign * math.inf), 0
    if form.special == "nan" and top and fraction == 2**form.fraction - 1:
        return math.nan, 0
    exponent = max(field, 1) - bias
    whole = Fraction(fraction + (2**form.fraction if field else 0), 2**form.fraction)
    return sign * whole * Fraction(2) ** exponent, exponent if whole else -126


def scale(bits: int, power: bool) -> Term:
    """ue8m0, or ue4m3 whose sign does not count."""
    if power:
        return (math.nan, 0) if bits == 255 else (Fraction(2) ** (bits - 127), bits - 127)
    return number(bits & 127, ELEMENTS["e4m3"])


def cut(value: Fraction, place: int) -> Fraction:
    """Without what is below 2 ** place, toward zero."""
    unit = Fraction(2) ** place
    return math.trunc(value / unit) * unit


def summed(terms: list[Term], kept: int) -> float:
    """Terms aligned to the largest exponent, cut, added, and the sum cut to binary32."""
    numbers = [value for value, _ in terms]
    if any(not isinstance(value, Fraction) for value in numbers):
        return float(sum(float(value) for value in numbers))
    largest = max(exponent for _, exponent in terms)
    total = sum((cut(Fraction(value), largest - kept) for value in numbers), Fraction(0))
    if not total:
        return 0.0
    lead = math.floor(math.log2(abs(total)))
    lead += (abs(total) >= Fraction(2) ** (lead + 1)) - (abs(total) < Fraction(2) ** lead)
    if lead > 127:
        return math.copysign(math.inf, total)
    return float(cut(total, max(lead, -126) - 23))


def times(*factors: Term) -> Term:
    """A product of numbers; exponents add."""
    values = [value for value, _ in factors]
    exponent = sum(power for _, power in factors)
    if all(isinstance(value, Fraction) for value in values):
        return math.prod(values), exponent
    return float(math.prod(float(value) for value in values)), exponent


@dataclass
class Case:
    """Bits of the operands and their scales, and how they are multiplied."""

    a: np.ndarray
    b: np.ndarray
    left: Element
    right: Element
    kind: str = ""
    scales: tuple[np.ndarray, np.ndarray] | None = None
    power: bool = True
    first: tuple[int, int] = (0, 0)

    def once(self, row: int, column: int, before: float) -> float:
        """One result element."""
        x = [number(int(bits), self.left) for bits in self.a[row]]
        y = [number(int(bits), self.right) for bits in self.b[column]]
        c = Fraction(before) if math.isfinite(before) else before
        power = -126 if before == 0 else max(math.frexp(before)[1] - 1, -126)
        if self.scales is None:
            found = [(v, -126 if v == 0 else e) for v, e in map(times, x, y)]
            return summed([(c, power), *found], 25)
        depth, blocks, _ = SCALED_KINDS[self.kind]
        each = depth // blocks
        factors = [
            [scale(int(item[line, first + n]), self.power) for n in range(blocks)]
            for item, line, first in zip(self.scales, (row, column), self.first, strict=True)
        ]
        if depth == 32:
            found = [times(p, q, factors[0][0], factors[1][0]) for p, q in zip(x, y, strict=True)]
            return summed([(c, power), *found], 25)
        found = []
        for k in range(0, depth, 16):
            inner = sum((times(x[n], y[n])[0] for n in range(k, k + 16)), Fraction(0))
            found.append(times((inner, 0), factors[0][k // each], factors[1][k // each]))
        return summed([(c, power), *found], 35)


def units(bits: np.ndarray, width: int, packed: bool) -> np.ndarray:
    """Rows of elements as 16-byte units without a swizzle: unit after unit, of all rows each."""
    rows, depth = bits.shape
    per = 128 // width if packed else 16
    found = np.zeros((depth // per, rows, 16), np.uint8)
    for unit in range(depth // per):
        for row in range(rows):
            word = sum(int(v) << width * n for n, v in enumerate(bits[row, unit * per :][:per]))
            found[unit, row] = np.frombuffer(word.to_bytes(16, "little"), np.uint8)
    return found.reshape(-1)


def laid_out(scales: np.ndarray) -> np.ndarray:
    """128 rows of four bytes as tcgen05.cp.32x128b takes them."""
    found = np.zeros((32, 4, 4), np.uint8)
    for row in range(len(scales)):
        found[row % 32, row // 32] = scales[row]
    return found.reshape(-1)


def computed(case: Case, exact: bool = True, copies: str = COPIES) -> np.ndarray:
    """What the emulated device makes of two products into one accumulator."""
    device = EmulatedDevice(exact=exact)
    packed = case.kind.startswith("mxf4")
    codes = (1, 1) if packed else (case.left.code, case.right.code)
    fields = COLUMNS >> 3 << 17 | ROWS >> 4 << 24 | codes[0] << 7 | codes[1] << 10
    if case.scales is None:
        words, operands, fields = "kind::f8f6f4", "", fields | 1 << 4
    else:
        words, operands = SCALED_KINDS[case.kind][2], ", [%r9], [%r10]"
        fields |= case.power << 23 | case.first[0] << 29 | case.first[1] << 4
    plain = 1 << 46 | (128 >> 4) << 32
    text = KERNEL
    for name, value in (
        ("SCALES", "" if case.scales is None else copies), ("OPERANDS", operands),
        ("KIND", words), ("INSTRUCTION", str(fields)), ("PLAIN", str(plain)),
        ("LEFT", str(plain | (16 * ROWS >> 4) << 16)),
        ("RIGHT", str(plain | (16 * COLUMNS >> 4) << 16)),
        ("REGISTERS", ", ".join(f"%r{20 + n}" for n in range(16))),
        ("STORES", "".join(f"st.global.b32 [%d3+{4 * n}], %r{20 + n};\n" for n in range(16))),
    ):  # fmt: skip
        text = text.replace(name, value)
    scales = case.scales or (np.zeros((ROWS, 4), np.uint8),) * 2
    out = device.array(np.full((ROWS, COLUMNS), np.nan, np.float32))
    given = [
        units(case.a, case.left.bits, packed), units(case.b, case.right.bits, packed),
        *map(laid_out, scales),
    ]  # fmt: skip
    arguments = [device.array(item) for item in given]
    device.launch(text, LaunchShape((1, 1, 1), (128, 1, 1)), [*arguments, out])
    return out.values


def drawn(random: np.random.Generator, left: str, right: str, kind: str, near: bool) -> Case:
    """Random bits; `near`: scales of about one, else of any size."""
    depth = SCALED_KINDS[kind][0] if kind else 32
    one, other = ELEMENTS[left], ELEMENTS[right]
    a, b = (
        random.integers(0, 2**form.bits, size=(count, depth))
        for count, form in ((ROWS, one), (COLUMNS, other))
    )
    if not kind:
        return Case(a, b, one, other)
    power = "nvf4 of 16" not in kind
    low, high = (120, 136) if near and power else (0, 254) if power else (0, 126)
    scales = tuple(
        random.integers(low, high, size=(count, 4)).astype(np.uint8) for count in (ROWS, COLUMNS)
    )
    room = 4 // SCALED_KINDS[kind][1]
    first = tuple(int(n) * SCALED_KINDS[kind][1] for n in random.integers(0, room, size=2))
    return Case(a, b, one, other, kind, (scales[0], scales[1]), power, (first[0], first[1]))


def check(case: Case, rows: list[int], columns: list[int]) -> None:
    """Some elements, to the bit; any NaN is one."""
    found = computed(case)
    for row in rows:
        for column in columns:
            wanted = np.float32(case.once(row, column, float(case.once(row, column, 0.0))))
            got = found[row, column]
            assert np.array_equal(got, wanted, equal_nan=True), (row, column, got, wanted)


PAIRS = [("e4m3", "e5m2"), ("e2m1", "e4m3"), ("e3m2", "e2m3"), ("e2m1", "e2m1"), ("e5m2", "e3m2")]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_narrow_elements(left, right):
    check(drawn(np.random.default_rng(1), left, right, "", False), [0, 1, 40, 127], [0, 7, 15])


@pytest.mark.parametrize("kind", SCALED_KINDS)
@pytest.mark.parametrize("near", [True, False], ids=["near one", "any size"])
def test_scaled_products(kind, near):
    for left, right in PAIRS[:2] if kind == "mxf8f6f4" else [("e2m1", "e2m1")]:
        check(drawn(np.random.default_rng(2), left, right, kind, near), [0, 33, 95, 127], [0, 15])


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(["", *SCALED_KINDS]), st.sampled_from(PAIRS),
    st.booleans(), st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1),
)  # fmt: skip
def test_any_product(seed, kind, pair, near, row, column):
    left, right = ("e2m1", "e2m1") if kind.startswith("mxf4") else pair
    check(drawn(np.random.default_rng(seed), left, right, kind, near), [row], [column])


@pytest.mark.parametrize("kind", ["", *SCALED_KINDS])
def test_quick_sums_are_near(kind):
    case = drawn(np.random.default_rng(3), "e2m1", "e2m1", kind, True)
    found, wanted = computed(case, exact=False), computed(case)
    assert np.abs(found - wanted).max() <= 2.0**-16 * np.abs(wanted).max()


def test_a_scale_that_is_not_there_is_unknown():
    case = drawn(np.random.default_rng(4), "e4m3", "e4m3", "mxf8f6f4", True)
    for copies in (COPIES.replace("[%r10]", "[%r9]"), COPIES.replace(".warpx4", "")):
        with pytest.raises(LaunchError, match="are not known"):
            computed(case, copies=copies)


def test_a_scale_without_a_number():
    case = drawn(np.random.default_rng(5), "e2m1", "e2m1", "mxf4", True)
    assert case.scales is not None
    case.scales[0][3] = 255
    found = computed(case)
    assert np.isnan(found[3]).all() and not np.isnan(found[2]).any()
