"""tcgen05 on the native core: products into tensor memory, and every shape that reads them back."""

from __future__ import annotations

import numpy as np
import pytest

from titan.isa.numbers.device import EmulatedDevice, LaunchError, LaunchShape, TiledMap
from titan.isa.numbers.native import ENGINES, SCHEDULES, core

pytestmark = pytest.mark.skipif(core() is None, reason="the native core is not built")

DEPTH, COLUMNS = 64, 64
DESCRIPTOR = 1 << 46 | 2 << 61 | (1024 >> 4) << 32 | 1 << 16
KERNEL = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .u64 out)
{
.reg .b32 %r<100>; .reg .b64 %d<20>; .reg .pred %p<9>;
.shared .align 1024 .b8 left[16384];
.shared .align 1024 .b8 right[8192];
.shared .align 8 .b8 bars[16];
.shared .align 4 .b8 held[4];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.s32 %p1, %r1, 0; setp.eq.s32 %p2, %r2, 0;
mov.u32 %r3, left; mov.u32 %r4, right; mov.u32 %r5, bars; mov.u32 %r6, held;
@%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r6], 64;
@!%p1 bra START;
mbarrier.init.shared::cta.b64 [%r5], 1;
mbarrier.init.shared::cta.b64 [%r5+8], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], BYTES;
mov.u32 %r7, 0;
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
    [%r3], [a, {%r7, %r7}], [%r5];
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
    [%r4], [b, {%r7, %r7}], [%r5];
START:
bar.sync 0;
ld.shared.b32 %r8, [%r6];
@!%p1 bra MULTIPLIED;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0;
@!%p3 bra WAIT;
cvt.u64.u32 %d1, %r3; shr.u64 %d1, %d1, 4; or.b64 %d1, %d1, DESCRIPTOR;
cvt.u64.u32 %d2, %r4; shr.u64 %d2, %d2, 4; or.b64 %d2, %d2, DESCRIPTOR;
mov.u32 %r9, INSTRUCTION;
setp.ne.s32 %p4, %r7, 0;
PRODUCTS
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5+8];
MULTIPLIED:
DONE:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5+8], 0;
@!%p3 bra DONE;
shl.b32 %r10, %r2, 21; add.s32 %r8, %r8, %r10;
ld.param.u64 %d3, [out]; mul.wide.u32 %d4, %r1, 256; add.s64 %d3, %d3, %d4;
READ
bar.sync 0;
ret;
}
"""


def bf16(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def product(
    rows: int, read: str, count: int, *, seed: int = 0, wait: bool = True, text: str = KERNEL,
    schedule: str = "turn", engines: str = "soon", last: str = "%r9, %p4;",
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """What each of 128 threads stores of `count` registers that `read` gave it, and A @ B.T."""
    random, device = (
        np.random.default_rng(seed),
        EmulatedDevice(seed, schedule=schedule, engines=engines),
    )
    x, y = (random.integers(-8, 9, size=(n, DEPTH)) / 4 for n in (rows, COLUMNS))
    a, b = device.array(bf16(x)), device.array(bf16(y))
    out = device.array(np.full((128, 64), np.nan, np.float32))
    step = "add.s64 %d1, %d1, 2; add.s64 %d2, %d2, 2; setp.eq.s32 %p4, %r7, 0;\n"
    multiply = f"tcgen05.mma.cta_group::1.kind::f16 [%r8], %d1, %d2, {last}\n"
    registers = ", ".join(f"%r{20 + n}" for n in range(count))
    stores = "".join(f"st.global.b32 [%d3+{4 * n}], %r{20 + n};\n" for n in range(count))
    wait_text = "tcgen05.wait::ld.sync.aligned;\n" if wait else ""
    for name, value in (
        ("BYTES", str(2 * DEPTH * (rows + COLUMNS))), ("DESCRIPTOR", str(DESCRIPTOR)),
        ("INSTRUCTION", str(1 << 4 | 1 << 7 | 1 << 10 | COLUMNS >> 3 << 17 | rows >> 4 << 24)),
        ("PRODUCTS", step.join([multiply] * (DEPTH // 16))),
        ("READ", read.replace("REGISTERS", registers) + wait_text + stores),
    ):  # fmt: skip
        text = text.replace(name, value)
    maps = [TiledMap(array, "bf16", (DEPTH, n), (2 * DEPTH,), (64, n), "128B")
            for array, n in ((a, rows), (b, COLUMNS))]  # fmt: skip
    device.launch(text, LaunchShape((1, 1, 1), (128, 1, 1)), [*maps, out])
    return out.values.view(np.float32), (x @ y.T).astype(np.float32)


READS = {
    "32x32b": ("tcgen05.ld.sync.aligned.32x32b.x64.b32 {REGISTERS}, [%r8];\n", 64),
    "16x256b": ("tcgen05.ld.sync.aligned.16x256b.x8.b32 {REGISTERS}, [%r8];\n", 32),
    "16x128b": ("tcgen05.ld.sync.aligned.16x128b.x16.b32 {REGISTERS}, [%r8];\n", 32),
    "16x64b": ("tcgen05.ld.sync.aligned.16x64b.x32.b32 {REGISTERS}, [%r8];\n", 32),
    "16x32bx2": ("tcgen05.ld.sync.aligned.16x32bx2.x32.b32 {REGISTERS}, [%r8], 32;\n", 32),
}


def held(shape: str, thread: int, number: int) -> tuple[int, int]:
    """Row of the warp's part and column of a register (CUTLASS's layouts of the same copies)."""
    if shape == "32x32b":
        return thread, number
    if shape == "16x32bx2":
        return thread % 16, number + thread // 16 * 32
    if shape == "16x64b":  # bits of a row of 64: (2, 2, 8) threads at (512, 32, 64)
        bit = thread % 2 * 512 + thread // 2 % 2 * 32 + thread // 4 * 64
        return bit // 64, bit % 64 // 32 + 2 * number
    if shape == "16x128b":  # (4, 8) threads at (32, 128), 2 registers at 1024
        bit = thread % 4 * 32 + thread // 4 * 128 + number % 2 * 1024
        return bit // 128, bit % 128 // 32 + number // 2 * 4
    bit = thread % 4 * 64 + thread // 4 * 256 + number % 2 * 32 + number // 2 % 2 * 2048
    return bit // 256, bit % 256 // 32 + number // 4 * 8


@pytest.mark.parametrize("shape", READS)
@pytest.mark.parametrize("rows", [64, 128])
def test_products_are_read_back_in_every_shape(rows, shape):
    if rows == 64 and shape == "32x32b":
        pytest.skip("half of the lanes hold nothing")
    read, count = READS[shape]
    found, wanted = product(rows, read, count)
    each = rows // 4
    for thread in range(128):
        for number in range(count):
            row, column = held(shape, thread % 32, number)
            expected = wanted[each * (thread // 32) + row, column]
            assert found[thread, number] == expected, (thread, number)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_register_that_is_read_before_the_wait_is_waited_for(seed):
    read, count = READS["32x32b"]
    found, wanted = product(128, read, count, seed=seed, wait=False)
    assert np.array_equal(found, wanted)


def test_what_was_never_written_is_unknown():
    read, count = READS["32x32b"]
    with pytest.raises(LaunchError, match="are not known"):
        product(64, read, count)


@pytest.mark.parametrize("engines", ENGINES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_numbers_are_the_same_under_adversarial_schedules(schedule, engines):
    read, count = READS["32x32b"]
    for seed in (0, 1, 2):
        found, wanted = product(128, read, count, seed=seed, schedule=schedule, engines=engines)
        assert np.array_equal(found, wanted)


def test_late_engines_show_products_that_are_not_waited_for():
    read, count = READS["32x32b"]
    text = KERNEL.replace("@!%p3 bra DONE;", "")
    with pytest.raises(LaunchError, match="are not known"):
        product(128, read, count, text=text, engines="late")


def test_random_engines_show_operands_that_are_not_waited_for():
    read, count = READS["32x32b"]
    text = KERNEL.replace("@!%p3 bra WAIT;", "")
    with pytest.raises(LaunchError, match="are not known"):
        for seed in range(1, 9):
            product(128, read, count, text=text, seed=seed, engines="random")


def test_disabled_output_lanes_are_not_made_up():
    read, count = READS["32x32b"]
    for number, known in ((0, True), (1, False)):
        masks = f"mov.u32 %r11, {number};\n"
        text = KERNEL.replace("PRODUCTS", masks + "PRODUCTS")
        multiply = "%r9, {%r11, %r11, %r11, %r11}, %p4;"
        if known:
            found, wanted = product(128, read, count, text=text, last=multiply)
            assert np.array_equal(found, wanted)
            continue
        with pytest.raises(LaunchError) as refused:
            product(128, read, count, text=text, last=multiply)
        assert "lanes of its output may be switched off" in str(refused.value.findings)


def test_an_accumulator_can_be_enabled_by_a_constant():
    """CuTe DSL writes 0 or 1 for the predicate; with 0 each product replaces the one before."""
    read, count = READS["32x32b"]
    found, _ = product(128, read, count, last="%r9, 0;")
    random = np.random.default_rng(0)
    x, y = (random.integers(-8, 9, size=(n, DEPTH))[:, -16:] / 4 for n in (128, COLUMNS))
    assert np.array_equal(found, x @ y.T)


def test_an_operand_is_kept_while_the_other_one_is_read():
    """Thirty operands more than the two of the first product: of the last one, B is known from it
    and A replaces the oldest one that the core keeps, which is that B.
    """
    read, count = READS["32x32b"]
    multiply = "tcgen05.mma.cta_group::1.kind::f16 [%r8], {}, {}, {}, 0;\n"
    fields = 1 << 4 | 1 << 7 | 1 << 10 | 128 >> 4 << 24
    others = [(columns, step) for columns in range(8, 64, 8) for step in range(4)]
    lines = ["mov.u64 %d5, %d1; mov.u64 %d6, %d2;\n", multiply.format("%d5", "%d6", "%r9")]
    for columns, step in others:
        lines.append(
            f"add.s64 %d2, %d6, {2 * step}; mov.u32 %r11, {fields | columns >> 3 << 17};\n"
        )
        lines.append(multiply.format("%d5", "%d2", "%r11"))
    lines.append("add.s64 %d1, %d5, 2; add.s64 %d2, %d6, 2;\n")
    lines.append(multiply.format("%d1", "%d2", "%r9"))
    lines.append("add.s64 %d1, %d5, 4;\n" + multiply.format("%d1", "%d6", "%r9"))
    found, _ = product(128, read, count, text=KERNEL.replace("PRODUCTS", "".join(lines)))
    random = np.random.default_rng(0)
    x, y = (random.integers(-8, 9, size=(n, DEPTH)) / 4 for n in (128, COLUMNS))
    assert np.array_equal(found, x[:, 32:48] @ y[:, :16].T)


@pytest.mark.parametrize("saturates", [False, True], ids=["wraps", "saturates"])
def test_products_of_integers(saturates):
    """kind::i8: two products of signed times unsigned bytes, 32 of each row."""
    random, device = np.random.default_rng(4), EmulatedDevice()
    x = random.integers(-128, 128, size=(128, 64)).astype(np.int8)
    y = random.integers(0, 256, size=(COLUMNS, 64)).astype(np.uint8)
    a, b = device.array(x.view(np.uint8)), device.array(y)
    out = device.array(np.full((128, 64), -1, np.int32))
    read, count = READS["32x32b"]
    registers = ", ".join(f"%r{20 + n}" for n in range(count))
    stores = "".join(f"st.global.b32 [%d3+{4 * n}], %r{20 + n};\n" for n in range(count))
    step = "add.s64 %d1, %d1, 2; add.s64 %d2, %d2, 2; setp.eq.s32 %p4, %r7, 0;\n"
    multiply = "tcgen05.mma.cta_group::1.kind::i8 [%r8], %d1, %d2, %r9, %p4;\n"
    wait = "tcgen05.wait::ld.sync.aligned;\n"
    fields = 2 << 4 | 1 << 7 | COLUMNS >> 3 << 17 | 128 >> 4 << 24 | saturates << 3
    text = KERNEL
    for name, value in (
        ("BYTES", str(64 * (128 + COLUMNS))),
        ("DESCRIPTOR", str(1 << 46 | 4 << 61 | (512 >> 4) << 32 | 1 << 16)),
        ("INSTRUCTION", str(fields)), ("PRODUCTS", step.join([multiply] * 2)),
        ("READ", read.replace("REGISTERS", registers) + wait + stores),
    ):  # fmt: skip
        text = text.replace(name, value)
    maps = [TiledMap(array, "u8", (64, n), (64,), (64, n), "64B")
            for array, n in ((a, 128), (b, COLUMNS))]  # fmt: skip
    device.launch(text, LaunchShape((1, 1, 1), (128, 1, 1)), [*maps, out])
    assert np.array_equal(out.values, x.astype(np.int32) @ y.astype(np.int32).T)


def test_lanes_from_0_on_are_those_of_the_quarter_of_the_warp():
    read, count = READS["32x32b"]
    lane = "shl.b32 %r10, %r2, 21; add.s32 %r8, %r8, %r10;"
    assert KERNEL.count(lane) == 1
    found, wanted = product(128, read, count, text=KERNEL.replace(lane, ""))
    assert np.array_equal(found, wanted)
    other = lane.replace("21;", "21; xor.b32 %r10, %r10, 0x200000;")
    with pytest.raises(LaunchError, match="does not reach"):
        product(128, read, count, text=KERNEL.replace(lane, other))
