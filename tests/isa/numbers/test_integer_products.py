"""mma.sync and wgmma of 8-bit integers against NumPy, on both engines; what a clock shows."""

from __future__ import annotations

import numpy as np
import pytest

from titan.isa.numbers.native import core
from titan.isa.numbers.run import compute
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, Options
from titan.isa.simt.outcome import Ending

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
IN_AT, OUT_AT = 0x70000000, 0x70100000
ENGINES = [
    pytest.param(True, id="native", marks=pytest.mark.skipif(core() is None, reason="not built")),
    pytest.param(False, id="python"),
]
DTYPES = {"s8": np.int8, "u8": np.uint8}
EXTREMES = {"s8": [-128, 127], "u8": [0, 255]}


def run(body: str, given: np.ndarray, size: int, threads: int, native: bool) -> np.ndarray:
    """What a kernel with parameters x and y leaves at y, as 32-bit integers."""
    registers = ".reg .b32 %r<40>; .reg .b64 %d<10>; .reg .pred %p<4>;"
    entry = ".visible .entry k(.param .u64 x, .param .u64 y)"
    module, findings = parse(f"{HEAD}{entry}\n{{\n{registers}\n{body}\nret;\n}}\n", "k.ptx")
    assert module is not None, findings
    memory = {IN_AT: given.tobytes(), OUT_AT: bytes(size)}
    launch = Launch(
        None, (1, 1, 1), (threads, 1, 1), memory=memory,
        parameters=tuple(LaunchParameter(at.to_bytes(8, "little")) for at in (IN_AT, OUT_AT)),
        allocations=tuple(Allocation(at, len(data)) for at, data in memory.items()),
    )  # fmt: skip
    computed, findings = compute(module, launch, Options(), native=native)
    assert computed is not None, findings
    assert computed.run.outcome.ending is Ending.FINISHED, computed.run.outcome
    data, unknown = computed.contents(OUT_AT, size)
    assert not unknown
    return np.frombuffer(data, np.int32)


def drawn(random: np.random.Generator, form: str, shape: tuple[int, int]) -> np.ndarray:
    """Numbers of the whole range, half of the matrices of the extreme ones alone."""
    limits = np.iinfo(DTYPES[form])
    if random.integers(2):
        return random.choice(EXTREMES[form], size=shape).astype(DTYPES[form])
    return random.integers(limits.min, limits.max + 1, size=shape).astype(DTYPES[form])


def accumulated(a: np.ndarray, b: np.ndarray, c: np.ndarray, saturates: bool) -> np.ndarray:
    total = a.astype(np.int64) @ b.astype(np.int64).T + c
    if saturates:
        return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32)
    return total.astype(np.uint32).view(np.int32)


@pytest.mark.parametrize("native", ENGINES)
@pytest.mark.parametrize("saturates", [False, True], ids=["wraps", "saturates"])
@pytest.mark.parametrize(("depth", "a_form", "b_form"), [(32, "s8", "u8"), (16, "u8", "s8")])
def test_products_of_integers_in_registers(depth, a_form, b_form, saturates, native):
    random = np.random.default_rng(depth + saturates)
    a_count, b_count = depth // 8, depth // 16
    word = ".satfinite" if saturates else ""
    loads = "".join(f"ld.global.b32 %r{n}, [%d1+{4 * n}];\n" for n in range(a_count + b_count + 4))
    names = [f"%r{n}" for n in range(a_count + b_count + 4)]
    a_names, b_names = names[:a_count], names[a_count : a_count + b_count]
    c_names = names[a_count + b_count :]
    lists = ["{" + ", ".join(part) + "}" for part in (a_names, b_names, c_names)]
    body = (
        "mov.u32 %r30, %tid.x; mul.wide.u32 %d3, %r30, 64; ld.param.u64 %d1, [x];\n"
        "add.s64 %d1, %d1, %d3; mul.wide.u32 %d3, %r30, 16; ld.param.u64 %d2, [y];\n"
        f"add.s64 %d2, %d2, %d3;\n{loads}"
        f"mma.sync.aligned.m16n8k{depth}.row.col{word}.s32.{a_form}.{b_form}.s32 "
        f"{{%r20, %r21, %r22, %r23}}, {', '.join(lists)};\n"
        "st.global.v4.b32 [%d2], {%r20, %r21, %r22, %r23};"
    )
    for _ in range(4):
        a, b = drawn(random, a_form, (16, depth)), drawn(random, b_form, (8, depth))
        c = random.choice([0, -5, 2**31 - 1, -(2**31)], size=(16, 8)).astype(np.int64)
        given = np.zeros((32, 16), np.uint32)
        for lane in range(32):  # PTX, "Matrix Fragments for mma.m16n8k16" and k32
            row, first = lane // 4, lane % 4 * 4
            for n in range(a_count):
                at = first + 16 * (n // 2)
                given[lane, n] = a[row + 8 * (n % 2), at : at + 4].copy().view(np.uint32)[0]
            for n in range(b_count):
                at = first + 16 * n
                given[lane, a_count + n] = b[row, at : at + 4].copy().view(np.uint32)[0]
            for n in range(4):
                value = c[row + 8 * (n // 2), lane % 4 * 2 + n % 2]
                given[lane, a_count + b_count + n] = value & 0xFFFFFFFF
        found = run(body, given, 512, 32, native).reshape(32, 4)
        wanted = accumulated(a, b, c, saturates)
        for lane in range(32):
            for n in range(4):
                place = lane // 4 + 8 * (n // 2), lane % 4 * 2 + n % 2
                assert found[lane, n] == wanted[place]


@pytest.mark.parametrize("native", ENGINES)
def test_wgmma_of_integers_in_shared_memory(native):
    """64 x 32 times 32 x 8, no swizzle: core matrices of 8 rows of 16 bytes."""
    random = np.random.default_rng(3)
    a, b = drawn(random, "s8", (64, 32)), drawn(random, "u8", (8, 32))
    given = np.concatenate([a.reshape(8, 8, 2, 16).transpose(0, 2, 1, 3).reshape(-1).view(np.uint8),
                            b.reshape(1, 8, 2, 16).transpose(0, 2, 1, 3).reshape(-1)])  # fmt: skip
    descriptor = 8 << 16 | 16 << 32  # 128 bytes along K, 256 from 8 rows to the next
    body = f"""
    .shared .align 128 .b8 tile[2304];
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; mov.u32 %r30, %tid.x; mov.u32 %r29, tile;
    mul.wide.u32 %d3, %r30, 16; add.s64 %d1, %d1, %d3; shl.b32 %r28, %r30, 4;
    add.u32 %r28, %r28, %r29;
    ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%d1]; st.shared.v4.b32 [%r28], {{%r0, %r1, %r2, %r3}};
    setp.lt.u32 %p1, %r30, 16;
    @%p1 ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%d1+2048];
    @%p1 st.shared.v4.b32 [%r28+2048], {{%r0, %r1, %r2, %r3}};
    fence.proxy.async; bar.sync 0;
    shr.u32 %r29, %r29, 4; cvt.u64.u32 %d4, %r29; or.b64 %d4, %d4, {descriptor};
    add.s64 %d5, %d4, {2048 >> 4};
    mov.u32 %r20, 7; mov.u32 %r21, 7; mov.u32 %r22, 7; mov.u32 %r23, 7;
    wgmma.fence.sync.aligned;
    setp.ne.u32 %p2, %r20, 0;
    wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {{%r20, %r21, %r22, %r23}}, %d4, %d5, %p2;
    wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {{%r20, %r21, %r22, %r23}}, %d4, %d5, %p2;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    mul.wide.u32 %d3, %r30, 16; add.s64 %d2, %d2, %d3;
    st.global.v4.b32 [%d2], {{%r20, %r21, %r22, %r23}};
    """
    found = run(body, given, 2048, 128, native).reshape(4, 32, 4)
    wanted = 2 * (a.astype(np.int64) @ b.astype(np.int64).T) + 7
    for warp in range(4):
        for lane in range(32):
            for n in range(4):
                row, column = 16 * warp + lane // 4 + 8 * (n // 2), lane % 4 * 2 + n % 2
                assert found[warp, lane, n] == wanted[row, column]


@pytest.mark.parametrize("native", ENGINES)
def test_clocks_move_on(native):
    """A wait of so many cycles ends; the two halves are those of the whole."""
    body = """
    ld.param.u64 %d1, [y]; mov.u64 %d2, %clock64;
    AGAIN:
    mov.u64 %d3, %clock64; sub.s64 %d3, %d3, %d2; setp.lt.s64 %p1, %d3, 100; @%p1 bra AGAIN;
    mov.u32 %r1, %clock; mov.u32 %r2, %clock_hi; mov.u32 %r3, %globaltimer_lo;
    setp.gt.u32 %p2, %r1, 99; selp.u32 %r1, 1, 0, %p2; setp.gt.u32 %p2, %r3, 99;
    selp.u32 %r3, 1, 0, %p2; mov.u32 %r4, %tid.x; setp.ne.u32 %p3, %r4, 0;
    @!%p3 st.global.u32 [%d1], %r1; @!%p3 st.global.u32 [%d1+4], %r2;
    @!%p3 st.global.u32 [%d1+8], %r3;
    """
    assert list(run(body, np.zeros(4, np.uint8), 12, 32, native)) == [1, 0, 1]
