"""Whether arrays share memory, against NumPy's exact answer and by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

import titan
from tests.runtime.packages import linked, package, random_bits
from titan.runtime import launchers
from titan.runtime.arrays import CallError, facts_of
from titan.runtime.sharing import share_memory

TYPES = (np.uint8, np.uint16, np.float32)


def view(chosen: random.Random, memory: np.ndarray) -> np.ndarray:
    """A view of some bytes, with strides of either sign and of 0, that lies within them."""
    while True:
        kind = np.dtype(chosen.choice(TYPES))
        shape = [chosen.choice((0, 1, 2, 3, 4)) for _ in range(chosen.randrange(1, 4))]
        strides = [chosen.randrange(-12, 13) * kind.itemsize for _ in shape]
        start = chosen.randrange(len(memory))
        reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        low = start + sum(one for one in reach if one < 0)
        high = start + sum(one for one in reach if one > 0) + kind.itemsize
        if low >= 0 and high <= len(memory):
            return np.ndarray(tuple(shape), kind, memory.data, start, tuple(strides))


def test_random_views_share_memory_where_numpy_says_so():
    chosen, memory = random.Random(5), np.zeros(160, np.uint8)
    answers = {True: 0, False: 0}
    for _ in range(1500):
        one, other = view(chosen, memory), view(chosen, memory)
        right = np.shares_memory(one, other)
        assert share_memory(facts_of(one), facts_of(other)) == right, (one, other)
        answers[right] += 1
    assert min(answers.values()) > 100


def test_views_of_one_array_as_attention_has_them():
    """Heads of a projection: their ranges of addresses overlap, and no byte is shared."""
    memory = np.zeros((2, 64, 3, 4, 128), np.uint16)
    q, k, _ = (facts_of(memory[:, :, place].transpose(0, 2, 1, 3)) for place in range(3))
    assert not share_memory(q, k)
    assert share_memory(q, facts_of(memory[1, 63, 0, 3]))
    assert not share_memory(q, facts_of(memory[1, 63, 1]))
    assert not share_memory(q, facts_of(memory[:0]))


def test_what_takes_long_to_decide_may_share():
    """Even distances on both sides, and an odd one between them."""
    memory = np.zeros(1 << 22, np.uint8)
    steps = [2 * prime for prime in (10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079)]

    def wide(start):
        return facts_of(np.ndarray((8,) * 8, np.uint8, memory.data, start, tuple(steps)))

    assert share_memory(wide(0), wide(100_001))
    assert share_memory(wide(0), wide(2 * 10007))


@pytest.mark.parametrize("by_library", [False, True])
def test_an_output_lies_apart_from_all_other_arrays(tmp_path, monkeypatch, by_library):
    launched = []
    monkeypatch.setattr(launchers.EmulatedLauncher, "run", lambda self, *a: launched.append(a))
    if by_library:
        packages = titan.Library(linked(tmp_path, "gemm_small_tiles"))

        def gemm(*given, out):
            return packages(*given, kernel="gemm_small_tiles", out=out)
    else:
        gemm = titan.load(package("gemm_small_tiles"))
    memory = random_bits(16, 64)
    with pytest.raises(CallError, match="C shares memory with B, which the kernel reads, too"):
        gemm(random_bits(16, 16), memory[:, :16], out=memory[:, 8:24])
    assert not launched
    gemm(random_bits(16, 16), memory[:, :16], out=memory[:, 16:32])
    assert len(launched) == 1
