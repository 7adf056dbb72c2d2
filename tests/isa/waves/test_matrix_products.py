"""Matrix products in runs that compute, against NumPy: every shape and format.

The reference puts numbers into lanes one by one, as the manual says, and knows formats by lists of
their values. Numbers are small, so that sums are exact in any order, but where the order is tried.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.frontends.gcn.texts import kernel
from titan.foundation.source.span import Source
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.isa.waves.contents import Contents
from titan.isa.waves.machine import WaveMachine

SOURCE, RESULT, STRIDE = 0x10_0000, 0x20_0000, 512
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
E2M3 = [n / 8 for n in range(16)] + [n / 4 for n in range(8, 16)] + [n / 2 for n in range(8, 16)]
E3M2 = [n / 16 for n in range(8)] + [
    (4 + n) * 2.0**power for power in range(-3, 3) for n in range(4)
]  # fmt: skip


def signed(values):
    return [float(one) for one in values] + [-float(one) for one in values]


def of_bytes(exponent_bits, fraction_bits, bias):
    """The numbers of an 8-bit format, of which special ones are left out."""
    made = []
    for code in range(128):
        exponent, fraction = divmod(code, 1 << fraction_bits)
        if exponent:
            number = (1 + fraction / 2.0**fraction_bits) * 2.0 ** (exponent - bias)
        else:
            number = fraction / 2.0**fraction_bits * 2.0 ** (1 - bias)
        made.append(number)
    return made


VALUES = {
    "e2m1": signed(E2M1),
    "e2m3": signed(E2M3),
    "e3m2": signed(E3M2),
    "e4m3": signed(of_bytes(4, 3, 7)),
    "e5m2": signed(of_bytes(5, 2, 15)),
    "e4m3fnuz": signed(of_bytes(4, 3, 8)),
    "e5m2fnuz": signed(of_bytes(5, 2, 16)),
}
WIDTH = {"e2m1": 4, "e2m3": 6, "e3m2": 6, "f16": 16, "bf16": 16, "f32": 32, "xf32": 32, "f64": 64}


def bits_of(number, name):
    """The code of a small number."""
    if name == "i8":
        return int(number) & 0xFF
    if name == "f16":
        return int(np.float16(number).view(np.uint16))
    if name == "f64":
        return int(np.float64(number).view(np.uint64))
    if name in VALUES:
        return VALUES[name].index(number)
    word = int(np.float32(number).view(np.uint32))
    return word >> 16 if name == "bf16" else word


def along(name, rows, depth, lane, at, mixed):
    """Where along K the number `at` of a lane lies."""
    group, each = lane // rows, depth * rows // 64
    if mixed and WIDTH.get(name, 8) == 8:
        return depth // 2 * (at // 16) + 16 * group + at % 16
    return each * group + at


def lanes_words(numbers, name, mixed=False):
    """The words of each lane of a factor of which `numbers` has the rows."""
    rows, depth = len(numbers), len(numbers[0])
    words = []
    for lane in range(64):
        whole = 0
        for at in range(depth * rows // 64):
            code = bits_of(numbers[lane % rows][along(name, rows, depth, lane, at, mixed)], name)
            whole |= code << WIDTH.get(name, 8) * at
        count = depth * rows // 64 * WIDTH.get(name, 8) // 32
        words.append([whole >> 32 * one & 0xFFFF_FFFF for one in range(count)])
    return words


def run(line, target, words, results):
    """The words of the result by lane; `words`: of each lane, loaded to v16 and upwards."""
    count = len(words[0])
    lines = ["s_load_dwordx2 s[4:5], s[0:1], 0x0", f"v_mul_u32_u24_e32 v1, {STRIDE}, v0"]
    lines += ["s_mov_b32 s8, 0x200000", "s_mov_b32 s9, 0", "s_waitcnt lgkmcnt(0)"]
    for at in range(count):
        lines.append(f"global_load_dword v{16 + at}, v1, s[4:5] offset:{4 * at}")
    lines += ["s_waitcnt vmcnt(0)", line, "s_nop 15", "s_nop 15"]
    for at in range(results):
        lines.append(f"global_store_dword v1, v{100 + at}, s[8:9] offset:{4 * at}")
    code, errors = parse_assembly(Source("k.s", kernel("\n".join(lines), target=target)))
    assert not errors, errors
    source = np.zeros((64, STRIDE // 4), np.uint32)
    source[:, :count] = words
    result = np.zeros(64 * STRIDE, np.uint8)
    contents = Contents([(SOURCE, source.view(np.uint8).ravel()), (RESULT, result)])
    given = (LaunchParameter(SOURCE.to_bytes(8, "little")), LaunchParameter(bytes(4)))
    launch = Launch(None, (1, 1, 1), (64, 1, 1), parameters=given)
    done = WaveMachine(code, code.kernels[0], launch, 0, 1000, contents=contents).run()
    assert done.outcome.ending is Ending.FINISHED, done.outcome.reason
    return result.view(np.uint32).reshape(64, -1)[:, :results]


def place(rows, lane, register, wide=False):
    """Row and column of a result."""
    if wide:
        return 4 * register + lane // rows, lane % rows
    return 8 * (register // 4) + 4 * (lane // 32) + register % 4 if rows == 32 else (
        4 * (lane // 16) + register
    ), lane % rows  # fmt: skip


FORMS = [
    ("gfx942", "v_mfma_f32_16x16x4_f32", 16, 4, "f32", "f32"),
    ("gfx950", "v_mfma_f32_32x32x2_f32", 32, 2, "f32", "f32"),
    ("gfx90a", "v_mfma_f32_32x32x2f32", 32, 2, "f32", "f32"),
    ("gfx942", "v_mfma_f32_16x16x8_xf32", 16, 8, "xf32", "xf32"),
    ("gfx942", "v_mfma_f32_32x32x4_xf32", 32, 4, "xf32", "xf32"),
    ("gfx942", "v_mfma_f32_32x32x8_f16", 32, 8, "f16", "f16"),
    ("gfx950", "v_mfma_f32_16x16x32_bf16", 16, 32, "bf16", "bf16"),
    ("gfx90a", "v_mfma_f32_32x32x8bf16_1k", 32, 8, "bf16", "bf16"),
    ("gfx90a", "v_mfma_f32_16x16x8bf16", 16, 8, "bf16", "bf16"),
    ("gfx942", "v_mfma_f32_16x16x32_fp8_bf8", 16, 32, "e4m3fnuz", "e5m2fnuz"),
    ("gfx950", "v_mfma_f32_32x32x16_bf8_fp8", 32, 16, "e5m2", "e4m3"),
    ("gfx942", "v_mfma_i32_32x32x16_i8", 32, 16, "i8", "i8"),
    ("gfx942", "v_mfma_i32_16x16x32_i8", 16, 32, "i8", "i8"),
    ("gfx950", "v_mfma_i32_32x32x32_i8", 32, 32, "i8", "i8"),
    ("gfx950", "v_mfma_i32_16x16x64_i8", 16, 64, "i8", "i8"),
    ("gfx90a", "v_mfma_i32_32x32x8i8", 32, 8, "i8", "i8"),
    ("gfx942", "v_mfma_f64_16x16x4_f64", 16, 4, "f64", "f64"),
    ("gfx90a", "v_mfma_f64_16x16x4f64", 16, 4, "f64", "f64"),
]
MIXED = ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"]  # by their codes
for _rows, _depth in ((16, 128), (32, 64)):
    for _a in MIXED:
        for _b in MIXED:
            FORMS.append(("gfx950", f"v_mfma_f32_{_rows}x{_rows}x{_depth}_f8f6f4",
                          _rows, _depth, _a, _b))  # fmt: skip


def numbers_of(random, name, rows, depth):
    if name in VALUES and name != "i8":
        small = [one for one in VALUES[name] if one == 0 or 0.5 <= abs(one) <= 6]
        return [[float(one) for one in random.choice(small, depth)] for _ in range(rows)]
    lowest = -128 if name == "i8" else -4
    return [[int(one) for one in random.integers(lowest, 5, depth)] for _ in range(rows)]


def product(a, b, start, scales=None):
    """Sums by NumPy; `scales`: powers of two by row and 32 numbers along K."""
    left, right = np.array(a, np.float64), np.array(b, np.float64)
    if scales is not None:
        left, right = (
            one * np.repeat(2.0 ** np.array(powers), 32, axis=1)
            for one, powers in zip((left, right), scales, strict=True)
        )
    return left @ right.T + start


def options_of(a, b, more=""):
    return f"{more} cbsz:{MIXED.index(a)} blgp:{MIXED.index(b)}" if a in MIXED else more


@pytest.mark.parametrize(("target", "name", "rows", "depth", "left", "right"), FORMS)
def test_products_of_every_form_are_those_of_numpy(target, name, rows, depth, left, right):
    random = np.random.default_rng(depth)
    a, b = numbers_of(random, left, rows, depth), numbers_of(random, right, rows, depth)
    mixed = name.endswith("f8f6f4")
    wide, count = left == "f64", rows * rows // 64
    start = [[int(one) for one in random.integers(-9, 9, rows)] for _ in range(rows)]
    words = [x + y for x, y in zip(lanes_words(a, left, mixed), lanes_words(b, right, mixed),
                                   strict=True)]  # fmt: skip
    first, second = (len(lanes_words(one, kind, mixed)[0]) for one, kind in ((a, left), (b, right)))
    for lane in range(64):
        if len(words[lane]) % 2:
            words[lane].append(0)
        for register in range(count):
            row, column = place(rows, lane, register, wide)
            number = start[row][column]
            if wide:
                bits = int(np.float64(number).view(np.uint64))
                words[lane] += [bits & 0xFFFF_FFFF, bits >> 32]
            else:
                kind = np.int32 if left == "i8" else np.float32
                words[lane].append(int(kind(number).view(np.uint32)))
    size = count * (2 if wide else 1)
    added = 16 + len(words[0]) - size

    def registers(at, many):
        return f"v[{at}:{at + many - 1}]" if many > 1 else f"v{at}"

    line = (
        f"{name} {registers(100, size)}, {registers(16, first)}, {registers(16 + first, second)}, "
        f"{registers(added, size)}" + (options_of(left, right) if mixed else "")
    )
    if (16 + first) % 2 and second > 1:
        pytest.fail("odd registers")
    found = run(line, target, words, size)
    wanted = product(a, b, start)
    for lane in range(64):
        if wide:
            got = np.ascontiguousarray(found[lane]).view(np.float64)
        else:
            got = found[lane].view(np.int32 if left == "i8" else np.float32)
        for register in range(count):
            row, column = place(rows, lane, register, wide)
            assert got[register] == wanted[row][column], (lane, register)


@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize(("left", "right"), [("e4m3", "e4m3"), ("e2m1", "e5m2"), ("e2m3", "e2m1")])
@pytest.mark.parametrize("byte", range(4))
def test_scales_are_of_the_row_and_32_numbers(rows, left, right, byte):
    random = np.random.default_rng(rows + byte)
    depth = {16: 128, 32: 64}[rows]
    a, b = numbers_of(random, left, rows, depth), numbers_of(random, right, rows, depth)
    scales = [
        [[int(one) for one in random.integers(-2, 3, depth // 32)] for _ in range(rows)]
        for _ in "ab"
    ]
    zeros = [[0] * rows for _ in range(rows)]
    words = [x + y for x, y in zip(lanes_words(a, left, True), lanes_words(b, right, True),
                                   strict=True)]  # fmt: skip
    first, second = (len(lanes_words(one, kind, True)[0]) for one, kind in ((a, left), (b, right)))
    for lane in range(64):
        for shift, factor in ((byte, scales[0]), (3 - byte, scales[1])):
            noise = int(random.integers(0, 1 << 32)) & ~(0xFF << 8 * shift)
            words[lane].append(noise | factor[lane % rows][lane // rows] + 127 << 8 * shift)
    at = 16 + first + second
    bits = [[byte & 1, 3 - byte & 1, 0], [byte >> 1, 3 - byte >> 1, 0]]
    chosen = f" op_sel:{bits[0]} op_sel_hi:{bits[1]}".replace(", ", ",")
    size = rows * rows // 64
    line = (
        f"v_mfma_scale_f32_{rows}x{rows}x{depth}_f8f6f4 v[100:{99 + size}], v[16:{15 + first}], "
        f"v[{16 + first}:{at - 1}], 0, v{at}, v{at + 1}" + options_of(left, right, chosen)
    )
    found = run(line, "gfx950", words, size).view(np.float32)
    wanted = product(a, b, zeros, scales)
    for lane in range(64):
        for register in range(size):
            row, column = place(rows, lane, register)
            assert found[lane, register] == wanted[row][column]


@pytest.mark.parametrize(("name", "depth", "kind"), [
    ("v_mfma_f32_16x16x4_f32", 4, np.float32), ("v_mfma_f64_16x16x4_f64", 4, np.float64),
])  # fmt: skip
def test_products_of_whole_words_are_added_one_by_one(name, depth, kind):
    """Each is rounded once, as by a fused multiply-add."""
    random = np.random.default_rng(9)
    a, b = (
        (random.standard_normal((16, depth)) * 2.0 ** random.integers(-9, 9, (16, depth)))
        .astype(kind).tolist()
        for _ in "ab"
    )  # fmt: skip
    wide = kind is np.float64
    kind_name = "f64" if wide else "f32"
    words = [x + y for x, y in zip(lanes_words(a, kind_name), lanes_words(b, kind_name),
                                   strict=True)]  # fmt: skip
    size = 8 if wide else 4
    pairs = ("v[16:17]", "v[18:19]") if wide else ("v16", "v17")
    found = run(f"{name} v[100:{99 + size}], {pairs[0]}, {pairs[1]}, 0", "gfx942", words, size)
    for lane in range(64):
        got = np.ascontiguousarray(found[lane]).view(kind)
        for register in range(4):
            row, column = place(16, lane, register, wide)
            total = kind(0)
            for x, y in zip(a[row], b[column], strict=True):
                exact = Fraction(x) * Fraction(y) + Fraction(float(total))
                total = kind(float(exact)) if wide else nearest(exact)
            assert got[register] == total


def nearest(exact):
    """The number of binary32 nearest to a fraction."""
    near = np.float32(float(exact))
    around = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    far = [abs(Fraction(float(one)) - exact) for one in around]
    ties = [one for one, distance in zip(around, far, strict=True) if distance == min(far)]
    return min(ties, key=lambda one: int(one.view(np.uint32)) & 1)


def test_a_product_of_integers_wraps():
    words = [[0x8080_8080] * 4 + [0x8080_8080] * 4 + [0x7FFF_0000] * 4] * 64
    line = "v_mfma_i32_16x16x64_i8 v[100:103], v[16:19], v[20:23], v[24:27]"
    found = run(line, "gfx950", words, 4)
    assert (found == (0x7FFF_0000 + 64 * 128 * 128) % (1 << 32)).all()


def test_a_scale_of_all_ones_is_no_number():
    words = [[0] * 8 + [0] * 8 + [0xFF if lane % 16 == 3 else 127, 127] for lane in range(64)]
    line = "v_mfma_scale_f32_16x16x128_f8f6f4 v[100:103], v[16:23], v[24:31], 0, v32, v33"
    found = run(line, "gfx950", words, 4).view(np.float32)
    for lane in range(64):
        for register in range(4):
            row, _ = place(16, lane, register)
            assert np.isnan(found[lane, register]) == (row == 3)


def test_products_write_lanes_that_are_not_active():
    words = [lane for lane in lanes_words([[1] * 16] * 16, "f16")]
    words = [one + one for one in words]
    line = (
        "s_mov_b64 exec, 1\ns_nop 4\n"
        "v_mfma_f32_16x16x16_f16 v[100:103], v[16:17], v[18:19], 0\ns_mov_b64 exec, -1"
    )
    assert (run(line, "gfx942", words, 4).view(np.float32) == 16).all()
