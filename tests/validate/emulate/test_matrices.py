"""wgmma against NumPy: every operand layout and element type, from images made by formulas here.

The layouts are written as the shapes and strides of CUTLASS's comments on descriptors (in units of
16 bytes, before the swizzle), the fragments as the tables of the PTX ISA.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.sampling import sampled
from tests.validate.emulate.kernels_small import MULTIPLY, manifest, pointer, tensor
from titan.codegen.tile.dtypes import decode, encode, rounded
from titan.validate.emulate.run import KernelFault, emulate

BYTES = {"bf16": 2, "f16": 2, "e4m3": 1, "e5m2": 1}
WIDTH = {0: 1, 32: 2, 64: 4, 128: 8}  # of the pattern, in units of 16 bytes
MODE = {0: 0, 128: 1, 64: 2, 32: 3}


def unit_of(row, k, each, swizzle, transposed, leading, stride):
    """Unit and byte in it of element (row, k); leading and stride count units."""
    per = 16 // each
    width = WIDTH[swizzle]
    if not transposed:  # ((8, n), 2) : ((width, stride), 1 or leading)
        unit = row % 8 * width + row // 8 * stride + k // per * (1 if swizzle else leading)
        return unit, k % per * each
    chunk = row // per
    if swizzle == 0:  # ((1, n), (8, k)) : ((x, stride), (1, leading))
        unit = chunk * stride + k % 8 + k // 8 * leading
    else:  # ((width, n), (8, k)) : ((1, leading), (width, stride))
        unit = chunk % width + chunk // width * leading + k % 8 * width + k // 8 * stride
    return unit, row % per * each


def swizzled(unit, swizzle):
    """Swizzle<B, 4, 3>: bits 0 .. B - 1 of the unit XOR bits 3 .. B + 2."""
    return unit ^ ((unit >> 3) & (WIDTH[swizzle] - 1))


def image_of(codes, each, swizzle, transposed, leading, stride, size, start=0):
    """Bytes of shared memory (from a multiple of 1024) with the operand [rows, k] at unit start."""
    image = np.zeros(size, np.uint8)
    raw = np.ascontiguousarray(codes).view(np.uint8).reshape(*codes.shape, each)
    for row, k in itertools.product(*map(range, codes.shape)):
        unit, byte = unit_of(row, k, each, swizzle, transposed, leading, stride)
        place = swizzled(start + unit, swizzle) * 16 + byte
        image[place : place + each] = raw[row, k]
    return image


def descriptor(offset, leading, stride, swizzle):
    """Fields in units of 16 bytes; shared memory of a CTA starts at address 1024."""
    return (1024 + offset) >> 4 | leading << 16 | stride << 32 | MODE[swizzle] << 62


def multiply(image, registers, columns, instruction, initial="0.0f", source=MULTIPLY):
    text = (
        source.replace("BYTES", str(image.size))
        .replace("INSTRUCTION", instruction)
        .replace("COLUMNS", str(columns))
        .replace("INITIAL", initial)
    )
    words = image.size // 4
    whole = manifest(
        "multiply",
        [
            tensor("image", "f32", words),
            tensor("registers", "f32", 512),
            tensor("out", "f32", 128 * columns // 2, output=True),
        ],
        [pointer("image"), pointer("registers"), pointer("out")],
        block=128,
        shared_bytes=image.size,
    )
    given = {"image": image.view(np.float32), "registers": registers.view(np.float32)}
    out = emulate({"kernel.cu": text}, whole, given, {}, seed=2).outputs["out"]
    d = np.zeros((64, columns), np.float32)
    for thread, i in itertools.product(range(128), range(columns // 2)):
        row = thread // 32 * 16 + thread % 32 // 4 + (8 if i % 4 >= 2 else 0)
        column = i // 4 * 8 + thread % 4 * 2 + i % 2
        d[row, column] = out[thread * (columns // 2) + i]
    return d


def operand(rows, k, dtype, seed):
    """Numbers of small size, so that every sum is exact, and their codes."""
    numbers = np.random.default_rng(seed).integers(-3, 4, (rows, k)).astype(np.float32)
    codes = encode(numbers, dtype)
    assert np.array_equal(decode(codes, dtype), numbers)
    return numbers, codes


def check(dtype, columns, swizzle, transpose_a, transpose_b, initial="0.0f", accumulate=1):
    each = BYTES[dtype]
    depth = 32 // each
    a, a_codes = operand(64, depth, dtype, 1)
    b, b_codes = operand(columns, depth, dtype, 2)
    places = []
    for transposed, rows in ((transpose_a, 64), (transpose_b, columns)):
        width = WIDTH[swizzle]
        if not transposed:
            # (leading, stride): rows of units; without swizzle the halves of K lie behind all rows
            places.append((rows if swizzle == 0 else 1, 8 * width))
        elif swizzle == 0:
            places.append((rows, 8))  # 8 values of K, then the next 8 rows; K's second half last
        else:
            places.append((16 * width, 8 * width))  # panels of all 16 values of K
    size = 32768
    images = [
        image_of(codes, each, swizzle, t, *place, size)
        for codes, t, place in zip(
            (a_codes, b_codes), (transpose_a, transpose_b), places, strict=True
        )
    ]
    da, db = (
        descriptor(offset, *place, swizzle) for offset, place in zip((0, size), places, strict=True)
    )
    flags = ", ".join(str(bool(t)).lower() for t in (transpose_b, transpose_a))
    text = f"wgmma_ss<{dtype}, {columns}, {flags}>(d, {da}ull, {db}ull, {accumulate})"
    d = multiply(np.concatenate(images), np.zeros(512, np.uint32), columns, text, initial)
    start = float(initial.removesuffix("f")) if accumulate else 0.0
    assert np.array_equal(d, start + a @ b.T)


@pytest.mark.parametrize("swizzle", sampled([128, 0, 32, 64]))
@pytest.mark.parametrize("transpose", list(itertools.product([False, True], repeat=2)))
def test_layouts_of_16_bit_operands(swizzle, transpose):
    for columns in (8, 64, 128, 256):
        if transpose[1] and columns * 2 < (swizzle or 16):
            continue
        check("bf16", columns, swizzle, *transpose)


@pytest.mark.parametrize("dtype", ["f16", "e4m3", "e5m2"])
@pytest.mark.parametrize("swizzle", sampled([128, 32], every=2))
def test_other_element_types(dtype, swizzle):
    check(dtype, 72, swizzle, False, False)


def test_accumulation():
    check("bf16", 64, 128, False, False, "5.0f")
    check("bf16", 64, 128, False, False, "5.0f", accumulate=0)


def test_steps_along_k_within_a_pattern():
    """The start of the descriptor moves by 32 bytes; the swizzle stays that of the whole tile."""
    a, a_codes = operand(64, 64, "bf16", 3)
    b, b_codes = operand(64, 64, "bf16", 4)
    images = []
    for codes in (a_codes, b_codes):
        image = np.zeros(8192, np.uint8)
        for row, k in itertools.product(range(64), range(64)):
            unit = swizzled(row * 8 + k // 8, 128)
            place = unit * 16 + k % 8 * 2
            image[place : place + 2] = codes[row, k : k + 1].view(np.uint8)
        images.append(image)
    steps = "; ".join(
        f"wgmma_ss<bf16, 64, false>(d, {descriptor(32 * step, 1, 64, 128)}ull,"
        f" {descriptor(8192 + 32 * step, 1, 64, 128)}ull, 1)"
        for step in range(4)
    )
    d = multiply(np.concatenate(images), np.zeros(512, np.uint32), 64, steps)
    assert np.array_equal(d, a @ b.T)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "e4m3", "e5m2"])
def test_a_in_registers(dtype):
    """PTX ISA, register fragment of A: rows as in D; registers 0 and 1 have the lower half of K."""
    each = BYTES[dtype]
    depth, per = 32 // each, 4 // each
    a, a_codes = operand(64, depth, dtype, 5)
    b, b_codes = operand(32, depth, dtype, 6)
    registers = np.zeros((128, 4), np.uint32)
    for thread, r, e in itertools.product(range(128), range(4), range(per)):
        row = thread // 32 * 16 + thread % 32 // 4 + (8 if r in (1, 3) else 0)
        k = thread % 4 * per + e + (depth // 2 if r >= 2 else 0)
        registers[thread, r] |= np.uint32(int(a_codes[row, k]) << (8 * each * e))
    image = image_of(b_codes, each, 128, False, 1, 64, 4096)
    text = f"wgmma_rs<{dtype}, 32, false>(d, a, {descriptor(0, 1, 64, 128)}ull, 1)"
    assert np.array_equal(multiply(image, registers.reshape(-1), 32, text), a @ b.T)


GOOD = "wgmma_ss<bf16, 8, false>(d, {0}ull, {0}ull, 1)".format(descriptor(0, 1, 64, 128))


@pytest.mark.parametrize(
    "old,new,message",
    [
        ("  wgmma_fence();\n", "", "without wgmma_fence"),
        ("  wgmma_wait<0>();\n", "", "nobody waited"),
        ("  wgmma_commit();\n", "", "nobody waited"),
        ("  fence_proxy_async();\n", "", "missing proxy fence"),
        ("  wgmma_commit();\n", "  d[1] = 0;\n  wgmma_commit();\n", "register 1 was written"),
        ("  wgmma_commit();\n", "  store_shared32(shared, 7);\n  wgmma_commit();\n", "in flight"),
        ("  INSTRUCTION", "  if (thread < 96) INSTRUCTION", "hang"),
        ("ull, 1)", "ull, thread < 7)", "differ between the threads"),
        ("(d, ", "(d, 1ull << 50 | ", "base offset"),
        ("(d, ", "(d, 1ull << 15 | ", "outside of its fields"),
        ("(d, ", "(d, 1000 + ", "beyond the shared memory"),
    ],
)
def test_faults(old, new, message):
    source = MULTIPLY.replace("INSTRUCTION", GOOD)
    old, new = (text.replace("INSTRUCTION", GOOD) for text in (old, new))
    assert source.count(old) == 1, source
    with pytest.raises(KernelFault, match=message):
        multiply(
            np.zeros(16384, np.uint8), np.zeros(512, np.uint32), 8, "",
            source=source.replace(old, new),
        )  # fmt: skip


def test_a_result_is_poison_before_the_wait():
    source = MULTIPLY.replace("  wgmma_wait<0>();\n", "").replace(
        "d[i]);\n", "d[i]);\n  wgmma_wait<0>();\n"
    )
    image = np.zeros(16384, np.uint8)
    out = multiply(image, np.zeros(512, np.uint32), 8, GOOD, source=source)
    assert np.isnan(out).all()


def test_conversions_agree_with_numpy():
    """Through a kernel: packing, unpacking and rounding of every element type."""
    numbers = np.concatenate(
        [
            np.random.default_rng(0).standard_normal(200) * 10.0 ** np.arange(-10, 10).repeat(10),
            [0.0, -0.0, 448, 464, 465, 57344, 61440, 65504, 65519, 65520, 2.0**-9, 2.0**-10],
        ]
    ).astype(np.float32)
    for dtype in BYTES:
        source = (
            '#include "titan_device.cuh"\nusing namespace titan;\n'
            "TITAN_KERNEL(32) convert(const void *in, void *out) {\n"
            f"  for (int i = thread_index(); i < {numbers.size}; i += 32)\n"
            f"    store_global<f32>(out, i, rounded<{dtype}>(load_global<f32>(in, i)));\n}}\n"
        )
        whole = manifest(
            "convert",
            [tensor("in", "f32", numbers.size), tensor("out", "f32", numbers.size, output=True)],
            [pointer("in"), pointer("out")],
        )
        out = emulate({"kernel.cu": source}, whole, {"in": numbers}, {}).outputs["out"]
        bad = out != rounded(numbers, dtype)
        assert not bad.any(), (dtype, numbers[bad], out[bad], rounded(numbers, dtype)[bad])
