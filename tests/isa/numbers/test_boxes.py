"""Boxes of tensors on both machines: gathered rows, pixels of im2col, elements of 4 and 6 bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titan.isa.numbers.native import core
from titan.isa.numbers.run import compute
from titan.isa.ptx.parse import parse
from titan.isa.simt import events as ev
from titan.isa.simt.launch import Allocation, Launch, LaunchParameter, LaunchTensorMap
from titan.isa.simt.outcome import Ending
from titan.isa.simt.run import run as run_simt

BASE, OUT, BYTES_MAX = 0x7000_0000, 0x7100_0000, 4096
NAME = b"map" + bytes(125)
HEAD = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .u64 out)
{
.reg .b32 %r<20>; .reg .b64 %d<9>; .reg .pred %p<9>; .reg .b16 %h<4>;
.shared .align 1024 .b8 tile[4096];
.shared .align 8 .b8 bar[8];
mov.u32 %r1, %tid.x; setp.eq.s32 %p1, %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar;
"""
# Thread t moves the words of unit t, of unit t + 32 and so on that hold elements.
LOAD = (
    HEAD
    + """
@!%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], COUNTED;
COPY
READY:
bar.sync 0;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WAIT;
ld.param.u64 %d1, [out];
shl.b32 %r4, %r1, 4;
NEXT:
setp.ge.u32 %p3, %r4, BYTES;
@%p3 bra DONE;
add.u32 %r5, %r2, %r4; cvt.u64.u32 %d2, %r4; add.s64 %d2, %d2, %d1;
WORDS
add.u32 %r4, %r4, 512;
bra NEXT;
DONE:
ret;
}
"""
)
STORE = (
    HEAD
    + """
shl.b32 %r4, %r1, 2;
NEXT:
setp.ge.u32 %p3, %r4, BYTES;
@%p3 bra FILLED;
add.u32 %r5, %r2, %r4; mad.lo.u32 %r6, %r4, 40503, 7;
st.shared.b32 [%r5], %r6;
add.u32 %r4, %r4, 128;
bra NEXT;
FILLED:
fence.proxy.async.shared::cta;
bar.sync 0;
@!%p1 bra DONE;
COPY
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:
ret;
}
"""
)
WIDTHS = (16, 32, 64, 128)


def run(text: str, map_: LaunchTensorMap, source: np.ndarray, native: bool) -> tuple[bytes, bytes]:
    """What a launch leaves in the tensor and in the output, on one of the machines."""
    module, findings = parse(text, "boxes")
    assert module is not None, findings
    out = bytes([0xEE]) * BYTES_MAX
    memory = {BASE: memoryview(bytearray(source.tobytes())), OUT: memoryview(bytearray(out))}
    launch = Launch(
        "k", (1, 1, 1), (32, 1, 1), parameters=(
            LaunchParameter(NAME), LaunchParameter(OUT.to_bytes(8, "little")),
        ), tensor_maps={NAME: map_}, memory=memory,
        allocations=tuple(Allocation(at, len(data)) for at, data in memory.items()),
    )  # fmt: skip
    made, faults = compute(module, launch, native=native)
    assert made is not None, faults
    assert made.run.outcome.ending is Ending.FINISHED, made.run.outcome
    found = [made.contents(at, len(data)) for at, data in memory.items()]
    assert [unknown for _, unknown in found] == [0, 0]
    return found[0][0], found[1][0]


def swizzled(rows: np.ndarray, width: int) -> np.ndarray:
    """Rows of bytes as they lie in shared memory: units exchanged within 8 times `width` bytes."""
    flat = rows.reshape(-1, 16)
    found = np.zeros_like(flat)
    for unit in range(len(flat)):
        line = unit * 16 // 128 % (width // 16)
        found[unit ^ line if width > 16 else unit] = flat[unit]
    return found.reshape(-1)


def loaded(
    map_: LaunchTensorMap, source: np.ndarray, copy: str, wanted: np.ndarray, words: int
) -> None:
    """The box in shared memory is the wanted rows of bytes; of each unit so many words count."""
    count = wanted.size
    moves = "".join(
        f"ld.shared.b32 %r7, [%r5+{4 * n}]; st.global.b32 [%d2+{4 * n}], %r7;\n"
        for n in range(words)
    )
    text = LOAD.replace("COPY", copy).replace("BYTES", str(count)).replace("WORDS", moves)
    text = text.replace("COUNTED", str(count // 4 * words))  # what a barrier counts
    expected = np.full((count // 16, 16), 0xEE, np.uint8)
    laid = swizzled(wanted, WIDTHS[map_.swizzle]).reshape(-1, 16)
    expected[:, : 4 * words] = laid[:, : 4 * words]
    for native in (True, False) if core() is not None else (False,):
        _, out = run(text, map_, source, native)
        assert out[:count] == expected.tobytes(), native


def matrix(rows: int, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 16, size=(rows, columns), dtype=np.uint16)


GATHERED = st.lists(st.integers(-2, 13), min_size=4, max_size=4)


@settings(max_examples=8, deadline=None)
@given(GATHERED, st.integers(-40, 100))
def test_gathered_rows(rows, column):
    source = matrix(12, 96, 1)
    map_ = LaunchTensorMap(1, BASE, (96, 12), (192,), (64, 1), (1, 1), swizzle=3)
    place = ", ".join(str(n) for n in (column, *rows))
    copy = (
        "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
        f"[%r2], [m, {{{place}}}], [%r3];"
    )
    wanted = np.zeros((4, 64), np.uint16)
    for number, row in enumerate(rows):
        for n in range(64):
            if 0 <= row < 12 and 0 <= column + n < 96:
                wanted[number, n] = source[row, column + n]
    loaded(map_, source, copy, wanted.view(np.uint8), 4)


def test_scattered_rows():
    rows, column = [3, 0, 11, 12], 32
    map_ = LaunchTensorMap(1, BASE, (96, 12), (192,), (64, 1), (1, 1), swizzle=0)
    place = ", ".join(str(n) for n in (column, *rows))
    copy = (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group "
        f"[m, {{{place}}}], [%r2];"
    )
    tile = (np.arange(0, 512, 4, dtype=np.uint32) * 40503 + 7).view(np.uint16).reshape(4, 64)
    source = matrix(12, 96, 2)
    wanted = source.copy()
    for number, row in enumerate(rows[:3]):
        wanted[row, column:] = tile[number]
    text = STORE.replace("COPY", copy).replace("BYTES", "512")
    for native in (True, False) if core() is not None else (False,):
        assert run(text, map_, source, native)[0] == wanted.tobytes(), native


MANY, ALL = 1 << 30, 0x7FFF_0000  # of rows, and of two dimensions that move the base


def ragged(rows: np.ndarray) -> tuple[LaunchTensorMap, str]:
    """A map of groups of rows of unequal length, as Triton makes one: two more dimensions, whose
    strides add up to 2^66, so that a box at MANY in the one begins where the other says."""
    count = rows.shape[1] * 2
    strides = (count, count, (1 << 36) - count)
    map_ = LaunchTensorMap(
        1, BASE, (rows.shape[1], MANY, ALL, ALL), strides, (64, 8, 1, 1), (1, 1, 1, 1), swizzle=3
    )
    copy = (
        "cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
        f"[%r2], [m, {{0, ROW, END, {MANY}}}], [%r3];"
    )
    return map_, copy


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 12), st.integers(1, 12), st.integers(0, 11))
def test_rows_of_a_group_end_with_it(start, size, row):
    source = matrix(24, 64, 5)
    map_, copy = ragged(source)
    copy = copy.replace("ROW", str(MANY - size + row)).replace("END", str(start + size))
    wanted = np.zeros((8, 64), np.uint16)
    inside = max(0, min(8, size - row))
    wanted[:inside] = source[start + row : start + row + inside]
    loaded(map_, source, copy, wanted.view(np.uint8), 4)


@pytest.mark.parametrize(("end", "fault"), [(24, False), (25, True), (7, True)])
@pytest.mark.parametrize("native", [True, False])
def test_a_group_that_lies_outside_is_found(end, fault, native):
    """Of a map that covers all addresses the places of a box say whether it is in the memory."""
    if native and core() is None:
        pytest.skip("no core")
    source = matrix(24, 64, 5)
    map_, copy = ragged(source)
    copy = copy.replace("ROW", str(MANY - 8)).replace("END", str(end))
    text = LOAD.replace("COPY", copy).replace("BYTES", "0").replace("WORDS", "")
    module, _ = parse(text.replace("COUNTED", "1024"), "boxes")
    assert module is not None
    launch = Launch(
        "k", (1, 1, 1), (32, 1, 1),
        parameters=(LaunchParameter(NAME), LaunchParameter(OUT.to_bytes(8, "little"))),
        tensor_maps={NAME: map_}, allocations=(Allocation(BASE, source.nbytes),),
    )  # fmt: skip
    made, faults = run_simt(module, launch, native=native)
    assert made is not None, faults
    found = [event for event in made.events if isinstance(event, ev.MemoryFault)]
    assert bool(found) is fault


@settings(max_examples=8, deadline=None)
@given(st.integers(-1, 4), st.integers(-1, 3), st.integers(0, 2), st.integers(0, 2),
       st.integers(0, 2), st.integers(-8, 40))  # fmt: skip
def test_pixels_of_a_filter(w, h, n, right, down, channel):
    """Images of 5 by 6 pixels and 48 channels, a filter of 3 by 3 with a border of one."""
    images, high, wide, channels = 3, 5, 6, 48
    source = matrix(images * high * wide, channels, 3).reshape(images, high, wide, channels)
    map_ = LaunchTensorMap(
        1, BASE, (channels, wide, high, images),
        (2 * channels, 2 * channels * wide, 2 * channels * wide * high), (), (1, 1, 1, 1),
        swizzle=2, lower=(-1, -1), upper=(-1, -1), channels=32, pixels=16,
    )  # fmt: skip
    copy = (
        f"mov.u16 %h1, {right}; mov.u16 %h2, {down};\n"
        "cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes "
        f"[%r2], [m, {{{channel}, {w}, {h}, {n}}}], [%r3], {{%h1, %h2}};"
    )
    bases = [(i, y, x) for i in range(images + 2) for y in range(-1, high - 1)
             for x in range(-1, wide - 1)]  # fmt: skip
    first = bases.index((n, h, w))
    wanted = np.zeros((16, 32), np.uint16)
    for number, (i, top, left) in enumerate(bases[first : first + 16]):
        y, x = top + down, left + right
        for c in range(32):
            if i < images and 0 <= y < high and 0 <= x < wide and 0 <= channel + c < channels:
                wanted[number, c] = source[i, y, x, channel + c]
    loaded(map_, source, copy, wanted.view(np.uint8), 4)


@pytest.mark.parametrize(
    ("data_type", "bits", "words"),
    [(13, 4, 4), (14, 4, 2), (15, 6, 3)],
    ids=["4", "4 of 8", "6 of 8"],
)
@pytest.mark.parametrize("row", [0, -1, 5])
def test_narrow_elements(data_type, bits, words, row):
    bytes_ = 128 * bits // 8
    source = matrix(8, bytes_ // 2, 4).view(np.uint8)
    map_ = LaunchTensorMap(data_type, BASE, (128, 8), (bytes_,), (128, 4), (1, 1), swizzle=3)
    if data_type == 13:
        map_ = replace(map_, swizzle=2)
    copy = (
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
        f"[%r2], [m, {{0, {row}}}], [%r3];"
    )
    part = 16 if data_type == 13 else 2 * bits  # bytes of a unit that hold elements
    wanted = np.zeros((4, bytes_ // part, 16), np.uint8)
    for number in range(4):
        if 0 <= row + number < 8:
            wanted[number, :, :part] = source[row + number].reshape(-1, part)
    loaded(map_, source, copy, wanted, words)


@pytest.mark.parametrize("data_type", [7, 10, 11, 12], ids=["f32", "f32 ftz", "tf32", "tf32 ftz"])
def test_loads_round_to_the_type_of_the_map(data_type):
    random = np.random.default_rng(7)
    source = random.integers(0, 1 << 32, size=(4, 32), dtype=np.uint32)
    source[0, :9] = [0x3F801000, 0x3F803000, 0x3F801001, 0x7F7FFFFF, 0x7F800000, 0xFF800001,
                     0x00000001, 0x807FF000, 0x80000000]  # fmt: skip
    source[2] = random.standard_normal(32).astype(np.float32).view(np.uint32)
    map_ = LaunchTensorMap(data_type, BASE, (32, 4), (128,), (32, 4), (1, 1), swizzle=3)
    copy = (
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
        "[%r2], [m, {0, 0}], [%r3];"
    )
    wanted = source.copy()
    small = (source & 0x7F800000) == 0
    if data_type in (10, 12):
        wanted[small] &= 0x80000000
    if data_type in (11, 12):  # half a unit of the last place is 2^12: ties go to the even one
        finite = (source & 0x7F800000) != 0x7F800000
        low, even = wanted & 0x1FFF, (wanted >> 13 & 1) == 0
        up = (low > 0x1000) | ((low == 0x1000) & ~even)
        nearest = (wanted - low + np.where(up, 0x2000, 0)).astype(np.uint32)
        wanted = np.where(finite, nearest, wanted)
    loaded(map_, source.view(np.uint8), copy, wanted.view(np.uint8), 4)
