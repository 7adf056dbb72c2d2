"""Decoding in parts: found by numbers, chosen for few long sequences, right on the device."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.packages import linked, numbers, package, random_bits
from tests.runtime.test_chains import edited
from tests.sampling import sampled
from titan.runtime.chains import chains
from titan.runtime.library import Library
from titan.runtime.loaded import LoadedKernel
from titan.runtime.table import tables
from titan.validate.compare.compile import nvcc

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
PARTS, COMBINE = "attention_decode_paged_parts", "attention_combine_parts"
NAMES = ("attention_decode_paged", PARTS, COMBINE)
BOTH = f"{PARTS}, {COMBINE}"
PAGES = 24


@pytest.fixture
def library(tmp_path):
    return Library(linked(tmp_path, *NAMES))


def unread(*shape, dtype=np.uint16):
    """An array of this shape whose elements nobody reads."""
    strides = [int(np.prod(shape[place + 1 :])) for place in range(len(shape))]
    size = np.dtype(dtype).itemsize
    return np.lib.stride_tricks.as_strided(
        np.zeros(8, dtype), shape, [size * stride for stride in strides]
    )


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def direct(q, keys, values, table, lengths, scale):
    """One sequence and one head after the other."""
    found = np.zeros(q.shape)
    for b, h in np.ndindex(q.shape[:2]):
        pages = table[b, : -(-lengths[b] // 64)]
        k, v = (numbers(part)[pages, h].reshape(-1, 128)[: lengths[b]] for part in (keys, values))
        found[b, h] = softmax(numbers(q)[b, h] @ k.T * scale) @ v
    return found


def problem(lengths, heads=2, ratio=4, seed=0):
    """Arrays of a call, with NaN in every page that no sequence has."""
    most = PAGES // len(lengths)
    names = np.random.default_rng(seed).permutation(PAGES).astype(np.int32)
    table = names.reshape(len(lengths), most)
    q = random_bits(len(lengths), heads, ratio, 128, seed=seed)
    keys, values = (random_bits(PAGES, heads, 64, 128, seed=seed + more) for more in (1, 2))
    for b, length in enumerate(lengths):
        for part in (keys, values):
            part[table[b, -(-length // 64) :]] = 0x7FC0
    return q, keys, values, table, np.array(lengths, np.int32)


@pytest.mark.heavy
@pytest.mark.long
def test_few_long_sequences_are_split_and_many_are_not(library):
    def first(batch, heads, most):
        cache = unread(batch * most, heads, 64, 128)
        table, lengths = unread(batch, most, dtype=np.int32), unread(batch, dtype=np.int32)
        best = library.choices(
            unread(batch, heads, 8, 128), cache, cache, table, lengths, kernel=NAMES[0]
        )[0]
        return best.name, best.parts

    assert first(1, 8, 2048) == (BOTH, 16)
    assert first(4, 8, 512)[0] == BOTH
    assert first(128, 8, 512) == first(1, 8, 1) == first(1, 8, 2) == (NAMES[0], 1)


EDITS = [
    (COMBINE, "behind: {subtract: [high_part, ", "behind: {subtract: [high, "),
    (PARTS, "min(j * parts + s,", "min(j * parts,"),
    (COMBINE, "multiply: [sum_part, weight]", "multiply: [sum_part, shrink]"),
    (COMBINE, "{maximum: [high, high_part]}", "{add: [high, high_part]}"),
    (COMBINE, 'vector: "top[s, ', 'vector: "top[0, '),
    (PARTS, "{scale: high, by: 1.44269504 * softmax_scale}", "{scale: high, by: 1.44269504}"),
    (PARTS, "column < length", "column <= length"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [pytest.param(*one, marks=pytest.mark.heavy) for one in EDITS],
)
def test_a_pair_that_computes_something_else_is_none(name, old, new):
    wanted, *both = (LoadedKernel(package(one)) for one in NAMES)
    right = chains(wanted, both)
    assert [one.links for one in right] == [(("P", "P"), ("top", "top"), ("total", "total"))]
    pair = dict(zip(NAMES[1:], both, strict=True))
    pair[name] = edited(name, change=(old, new))
    assert chains(wanted, pair.values()) == []


@needs_nvcc
@pytest.mark.parametrize("lengths", sampled([[700, 1], [1500], [130, 64, 65, 500]], every=3))
def test_sequences_in_parts_on_the_emulated_device(library, lengths):
    """Some parts of short sequences are empty; what no sequence has is NaN."""
    given = problem(lengths)
    best = library.choices(*given, kernel=NAMES[0])[0]
    if best.chain is None:
        (best,) = (one for one in library.choices(*given, kernel=NAMES[0]) if one.chain)
        library._best = lambda *whatever: best
    assert best.name == BOTH and best.parts > 1
    for scale in (0.0883883476, 0.3):
        found = library(*given, kernel=NAMES[0], softmax_scale=scale)
        right = direct(*given, scale)
        assert np.abs(numbers(found) - right).max() < 0.02 * np.abs(right).max()
        assert np.array_equal(found, library(*given, kernel=NAMES[0], softmax_scale=scale))


@needs_nvcc
def test_more_parts_than_pages_weigh_nothing():
    given = problem([200, 3])
    made = LoadedKernel(package(PARTS))(*given, parts=7)
    assert all(np.isfinite(one).all() for one in made)
    assert (made[1][4:, 0] < -1e28).all() and (made[1][1:, 1] < -1e28).all()
    found = numbers(LoadedKernel(package(COMBINE))(*made))
    right = direct(*given, 0.0883883476)
    assert np.abs(found - right).max() < 0.02 * np.abs(right).max()


@pytest.mark.heavy
@pytest.mark.long
def test_a_pair_with_another_usual_scale_is_for_the_library_alone(tmp_path):
    """Rows of the table launch with usual values: those of the parts have to be the same."""
    linked(tmp_path, *NAMES)
    assert "const int pair_count = 1;" in tables(tmp_path)["packages_cuda.h"]
    other = edited(PARTS, change=("softmax_scale: 0.0883883476", "softmax_scale: 0.25"))
    (tmp_path / package(PARTS).name).unlink()
    (tmp_path / other.folder.name).symlink_to(other.folder)
    library = Library(tmp_path)
    wanted = next(one for one in library.kernels if one.name == NAMES[0])
    assert len(library.chains(wanted)) == 1
    assert "const int pair_count = 0;" in tables(tmp_path)["packages_cuda.h"]
