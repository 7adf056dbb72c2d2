"""Kernels that look numbers up in memory, as functions: pages of keys, experts of tokens."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import titan
from tests.runtime.packages import numbers, package, random_bits
from titan.device.emulated import CHECKED, EmulatedPackage
from titan.runtime.arrays import CallError
from titan.validate.compare.compile import nvcc

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
LENGTHS = (130, 1, 64)
TABLE = np.array([[4, 0, 3], [2, 9, 9], [1, -1, 7]], np.int32)  # what no sequence has is not read


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@needs_nvcc
def test_decoding_from_pages_as_caches_keep_them() -> None:
    """The cache is [pages, tokens, heads, head], as vLLM's; its view by heads is not copied."""
    kernel = titan.load(package("attention_decode_paged"))
    q = random_bits(3, 2, 4, 128, seed=1)
    cache = [random_bits(5, 64, 2, 128, seed=seed) for seed in (2, 3)]
    keys, values = (part.transpose(0, 2, 1, 3) for part in cache)
    lengths = np.array(LENGTHS, np.int32)
    found = numbers(kernel(q, keys, values, TABLE, lengths, softmax_scale=0.125))
    for b, length in enumerate(LENGTHS):
        pages = TABLE[b, : -(-length // 64)]
        for h in range(2):
            k, v = (numbers(part)[pages, :, h].reshape(-1, 128)[:length] for part in cache)
            right = softmax(numbers(q)[b, h] @ k.T * 0.125) @ v
            assert np.abs(found[b, h] - right).max() < 0.02 * np.abs(right).max()


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gemm_grouped", {"experts": 2, "M": 256, "N": 8, "K": 136}),
        ("attention_decode_paged",
         {"batch": 2, "kv_heads": 1, "ratio": 2, "pages": 4, "pages_most": 3}),
        ("attention_decode_paged_parts",
         {"batch": 2, "kv_heads": 1, "ratio": 2, "pages": 4, "pages_most": 3, "parts": 2}),
        ("attention_combine_parts", {"parts": 3, "batch": 2, "kv_heads": 1, "ratio": 2}),
    ],
)  # fmt: skip
def test_launches_are_right_in_all_interleavings(name: str, sizes: dict[str, int]) -> None:
    from titan.codegen.tile.outputs import difference, sample_inputs
    from titan.codegen.tile.semantics import run
    from titan.codegen.tile.stored import from_data

    folder = package(name)
    manifest = titan.load(folder).manifest
    tile = from_data(manifest["program"])
    inputs = sample_inputs(tile, sizes, 5)
    files = {path.name: path.read_text() for path in folder.glob("*.cu*")}
    case = {"policy": CHECKED, "sizes": sizes, "seed": 0}
    found = EmulatedPackage(manifest, files).outputs(case, inputs)
    for output, right in run(tile, inputs, sizes).items():
        assert difference(tile, output, found[output], right).error <= 1


def test_integers_of_another_width_are_refused() -> None:
    kernel = titan.load(package("gemm_grouped"))
    a, b = random_bits(128, 64), random_bits(2, 24, 64)
    with pytest.raises(CallError, match="expert_of holds int64, and i32 is taken"):
        kernel(a, b, np.zeros(1, np.int64))
    with pytest.raises(CallError, match="expert_of has the extent 2 where"):
        kernel(a, b, np.zeros(2, np.int32))


@needs_nvcc
def test_sequences_one_behind_the_other() -> None:
    kernel = titan.load(package("attention_forward_causal_packed"))
    offsets = np.array([0, 70, 70, 205], np.int32)
    q, k, v = (random_bits(205, heads, 128, seed=heads) for heads in (4, 2, 1))
    v = random_bits(205, 2, 128, seed=5)
    given = [part.transpose(1, 0, 2) for part in (q, k, v)]
    with pytest.raises(CallError, match="the size longest is not given"):
        kernel(*given, offsets)
    with pytest.raises(CallError, match=r"longest is 1\.5, and a size is taken"):
        kernel(*given, offsets, longest=1.5)
    found = numbers(kernel(*given, offsets, longest=np.int64(135)))
    for begin, end in itertools.pairwise(offsets):
        later = np.arange(end - begin)[None, :] > np.arange(end - begin)[:, None]
        for h in range(4):
            one, kk, vv = (
                numbers(part)[begin:end, at] for part, at in ((q, h), (k, h // 2), (v, h // 2))
            )
            scores = np.where(later, -np.inf, one @ kk.T / np.sqrt(128))
            right = softmax(scores) @ vv if end > begin else one
            assert np.allclose(found[h, begin:end], right, atol=0.02)
