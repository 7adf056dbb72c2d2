"""Tensor copies against formulas written down here: swizzles, clipping, multicast, alignment."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampling import sampled
from tests.validate.emulate.kernels import tensor_map
from tests.validate.emulate.kernels_small import CLUSTER, LOAD, STORE, manifest, pointer, tensor
from titan.codegen.tile.dtypes import rounded
from titan.validate.emulate.run import KernelFault, LaunchRefused, emulate


def position(row, column, row_bytes, swizzle):
    """Element number in shared memory of (row, column) of a box of 16-bit elements.

    PTX ISA, tables of the swizzling modes: the pattern repeats after 2, 4 or 8 rows of 128 bytes;
    within 128 bytes, 16-byte chunk c of line l goes to chunk c XOR (l modulo 2, 4 or 8).
    """
    byte = row * row_bytes + column * 2
    line, rest = divmod(byte, 128)
    chunk, inner = divmod(rest, 16)
    lines = {0: 1, 32: 2, 64: 4, 128: 8}[swizzle]
    return (line * 128 + (chunk ^ (line % lines)) * 16 + inner) // 2


def box_of(x, start, box):
    """Rows and columns of a box of a tensor [..., rows, columns]; zero outside."""
    for index in start[2:][::-1]:
        x = x[index]
    found = np.zeros((box[1], box[0]), np.float32)
    for i in range(box[1]):
        for j in range(box[0]):
            row, column = start[1] + i, start[0] + j
            if 0 <= row < x.shape[0] and 0 <= column < x.shape[1]:
                found[i, j] = x[row, column]
    return found


def load(x, start, box, swizzle, seed=0, shared_bytes=None, source=LOAD):
    count = int(np.prod(box))
    text = source.replace("COUNT", str(count)).replace("COORDINATES", ", ".join(map(str, start)))
    whole = manifest(
        "load",
        [tensor("X", "bf16", *x.shape), tensor("out", "f32", count, output=True)],
        [tensor_map("map", "X", list(box), f"{swizzle}B" if swizzle else "none"), pointer("out")],
        shared_bytes=shared_bytes or count * 2 + 8,
    )
    return emulate({"kernel.cu": text}, whole, {"X": x}, {}, seed=seed).outputs["out"]


@pytest.mark.parametrize(
    "swizzle,columns", sampled([(0, 64), (32, 16), (128, 64), (0, 8), (64, 32)], every=2)
)
def test_a_loaded_box_lies_as_the_tables_say(swizzle, columns):
    x = np.arange(40 * 72, dtype=np.float32).reshape(40, 72) % 251
    for seed, start in enumerate([(0, 0), (8, 3), (16, 30), (-8, -2), (70, 39), (400, 400)]):
        box = (columns, 16)
        out = load(x, start, box, swizzle, seed)
        expected = box_of(x, start, box)
        for row in range(16):
            for column in range(columns):
                place = position(row, column, columns * 2, swizzle)
                assert out[place] == expected[row, column], (start, row, column)


def test_higher_dimensions():
    x = np.arange(3 * 10 * 24, dtype=np.float32).reshape(3, 10, 24) % 241
    out = load(x, (8, 4, 2), (16, 8, 1), 32)
    expected = box_of(x, (8, 4, 2), (16, 8))
    assert all(out[position(r, c, 32, 32)] == expected[r, c] for r in range(8) for c in range(16))
    assert not load(x, (8, 4, 3), (16, 8, 1), 32).any(), "outside of the outermost dimension"


@pytest.mark.parametrize(
    "swizzle,columns", sampled([(128, 64), (32, 16), (0, 24), (64, 32)], every=2)
)
@pytest.mark.parametrize("start", [(0, 0), (8, 3), (56, 32), (80, 0)])
def test_a_stored_box_is_clipped(swizzle, columns, start):
    count = columns * 16
    given = rounded(np.arange(1, count + 1) % 255 + 1, "bf16")
    text = STORE.replace("COUNT", str(count)).replace("COORDINATES", ", ".join(map(str, start)))
    whole = manifest(
        "store",
        [tensor("in", "f32", count), tensor("X", "bf16", 40, 72, output=True)],
        [
            tensor_map("map", "X", [columns, 16], f"{swizzle}B" if swizzle else "none"),
            pointer("in"),
        ],
        shared_bytes=count * 2,
    )
    out = emulate({"kernel.cu": text}, whole, {"in": given}, {}, seed=1).outputs["X"]
    expected = np.full((40, 72), np.nan, np.float32)
    for row in range(16):
        for column in range(columns):
            i, j = start[1] + row, start[0] + column
            if i < 40 and j < 72:
                expected[i, j] = given[position(row, column, columns * 2, swizzle)]
    assert np.array_equal(out, expected, equal_nan=True)


X = np.ones((40, 72), np.float32)
LOAD_FAULTS = {
    "shared, &map": ("shared + 64, &map", "multiple of 128"),
    "shared, &map, barrier": ("shared, &map, barrier + 1", "no initialised mbarrier"),
    "  barrier_wait(barrier, 0);\n": ("", "in flight|nobody wrote"),
    "COUNT * 2);\n    tensor": ("COUNT * 2 - 16);\n    tensor", "more bytes|hang|in flight"),
    "COUNT * 2);\n    t": ("COUNT * 2 + 16);\n    t", "hang"),
    "barrier_init(barrier, 1)": ("barrier_init(barrier, 0)", "count 0"),
    "barrier, 0)": ("barrier, 2)", "parity 2"),
    "(u64 *)(shared + COUNT * 2)": ("(u64 *)(shared + COUNT * 2 + 4)", "not aligned"),
    "COORDINATES)": ("COORDINATES, 0)", "3 coordinates"),
}


@pytest.mark.parametrize("old", LOAD_FAULTS)
def test_faults_of_loads(old):
    new, message = LOAD_FAULTS[old]
    assert LOAD.count(old) == 1
    with pytest.raises(KernelFault, match=message):
        for seed in range(12):
            load(X, (0, 0), (64, 16), 128, seed, source=LOAD.replace(old, new), shared_bytes=4096)


def test_a_tile_beyond_the_shared_memory():
    with pytest.raises(KernelFault, match="beyond the shared memory"):
        source = LOAD.replace("shared, &map", "shared + 2048, &map")
        load(X, (0, 0), (64, 16), 128, shared_bytes=3072, source=source)


@pytest.mark.parametrize(
    "box,swizzle,message",
    [((4, 16), 0, "box"), ((64, 300), 0, "box"), ((64, 16), 64, "swizzle 64"), ((64,), 0, "1 box")],
)
def test_maps_that_the_driver_refuses(box, swizzle, message):
    with pytest.raises(LaunchRefused, match=message):
        load(X, (0, 0), box, swizzle)


def pair_manifest():
    return manifest(
        "pair",
        [tensor("X", "bf16", 96, 64), tensor("out", "f32", 3 * 2 * 2048, output=True)],
        [tensor_map("map", "X", [64, 16], "none"), pointer("out")],
        shared_bytes=4096 + 16,
        cluster=2,
        grid="2",
    )


@pytest.mark.parametrize("policy,delay", [("uniform", "mixed"), ("latest", "lazy")])
def test_multicast_and_remote_arrivals(policy, delay):
    x = rounded(np.random.default_rng(0).standard_normal((96, 64)), "bf16")
    for seed in range(4):
        out = emulate(
            {"kernel.cu": CLUSTER}, pair_manifest(), {"X": x}, {},
            seed=seed, policy=policy, delay=delay,
        ).outputs["out"]  # fmt: skip
        expected = np.repeat(x.reshape(3, 1, 2048), 2, axis=1)
        assert np.array_equal(out.reshape(3, 2, 2048), expected)


@pytest.mark.parametrize(
    "old,new",
    [
        ("barrier_init(empty, 2)", "barrier_init(empty, 1)"),
        ("      barrier_wait_cluster(empty, (round & 1) ^ 1);\n", ""),
        ("    fence_barrier_init();\n", ""),
        ("      barrier_arrive_remote(empty, 1);\n", "      barrier_arrive_remote(empty, 0);\n"),
        ("barrier_arrive_expect(full, 4096)", "barrier_arrive_expect(full, 2048)"),
        ("(u16)3", "(u16)1"),
        ("    fence_proxy_async();\n", ""),
        ("  }\n  cluster_sync();\n}", "  }\n}"),
    ],
)
def test_faults_of_clusters(old, new):
    source = CLUSTER.replace(old, new)
    assert source != CLUSTER
    with pytest.raises(KernelFault):
        for seed in range(20):
            emulate({"kernel.cu": source}, pair_manifest(), {"X": np.ones((96, 64))}, {},
                    seed=seed, policy=("uniform", "priority")[seed % 2])  # fmt: skip
