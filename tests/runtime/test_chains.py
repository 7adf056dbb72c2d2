"""Two packages one after the other: found by numbers, chosen by shape, right on the device."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.packages import linked, numbers, package, package_of, random_bits
from titan.device.plan import Unlaunchable, plan
from titan.foundation.resources import root
from titan.runtime.arrays import CallError
from titan.runtime.chains import chains, counts_of_parts
from titan.runtime.library import Library
from titan.runtime.loaded import LoadedKernel
from titan.validate.compare.compile import nvcc

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
TILES = root("protocols") / "tiles"
SPLIT = ("gemm", "gemm_split_k", "gemm_split_k_small_tiles", "sum_parts")


def loaded(name):
    return LoadedKernel(package(name))


def edited(name, **changes):
    """The package of a tile program with some words of its text replaced."""
    text = (TILES / f"{name}.yaml").read_text()
    for number, (old, new) in enumerate(changes.values()):
        assert old in text
        text = text.replace(old, new).replace(f"tile: {name}\n", f"tile: {name}_{number}\n")
    return LoadedKernel(package_of(text))


def unread(rows, k):
    """A matrix of this shape whose elements nobody reads."""
    return np.lib.stride_tricks.as_strided(np.zeros(8, np.uint16), (rows, k), (2 * k, 2))


@pytest.fixture
def library(tmp_path):
    return Library(linked(tmp_path, *SPLIT))


def test_few_tiles_are_split_and_many_are_not(library):
    def first(m, n, k):
        ranked = library.choices(unread(m, k), unread(n, k), kernel="gemm")
        best = next(one for one in ranked if one.rest is None)  # without shares of rows
        return best.name, best.parts

    assert first(128, 128, 16384) == ("gemm_split_k_small_tiles, sum_parts", 16)
    assert first(1024, 1024, 16384) == ("gemm_split_k, sum_parts", 2)
    assert first(8192, 8192, 8192) == ("gemm", 1)
    assert first(128, 96, 64) == ("gemm", 1)  # one iteration: nothing to split


def test_parts_fill_waves_and_have_iterations_of_their_own():
    assert counts_of_parts(4, 256, 132) == [2, 4, 8, 16, 32, 33, 64, 66, 99, 128, 132]
    assert counts_of_parts(132, 256, 132) == [2, 3, 4]
    assert counts_of_parts(1000, 256, 132) == []
    assert counts_of_parts(1, 3, 132) == [2, 3]
    assert counts_of_parts(1, 1, 132) == []


def test_a_pair_is_one_that_gives_the_same_numbers():
    gemm, split, total = loaded("gemm"), loaded("gemm_split_k"), loaded("sum_parts")
    found = chains(gemm, (gemm, split, total))
    assert {(one.first.name, one.second.name, one.parts) for one in found} == {
        ("gemm_split_k", "sum_parts", "parts")
    }
    assert chains(loaded("gemm_bias_relu"), (split, total)) == []
    assert chains(gemm, (split,)) == chains(gemm, (total,)) == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("sum_parts", "{add: [total, part]}", "{maximum: [total, part]}"),
        ("sum_parts", 'load: "P[s, ', 'load: "P[0, '),
        ("sum_parts", "initial: 0", "initial: 1"),
        ("gemm_split_k", " + k) * k_tile]", " + k + 1) * k_tile]"),
        ("gemm_split_k", '- b: {load: "B[n', '- b: {load: "B[m'),
    ],
)  # fmt: skip
def test_a_pair_that_computes_something_else_is_none(name, old, new):
    pair = {one: loaded(one) for one in ("gemm_split_k", "sum_parts")}
    gemm = loaded("gemm")
    assert chains(gemm, pair.values())
    pair[name] = edited(name, change=(old, new))
    assert chains(gemm, pair.values()) == []


@needs_nvcc
def test_a_split_product_on_the_emulated_device(library):
    m, n, k = 70, 40, 1032
    a, b = random_bits(m, k, seed=1), random_bits(n, k, seed=2)
    best = library.choices(a, b, kernel="gemm")[0]
    assert best.chain is not None and best.parts > 1
    found = library(a, b, kernel="gemm")
    right = numbers(a) @ numbers(b).T
    assert np.abs(numbers(found) - right).max() < 0.02 * np.abs(right).max()
    assert np.array_equal(found, library(a, b, kernel="gemm"))


@needs_nvcc
@pytest.mark.parametrize("layout", [pytest.param("tn"), *(
    pytest.param(one, marks=pytest.mark.heavy) for one in ("nn", "tt")
)])  # fmt: skip
def test_transposed_views_are_split_too(tmp_path, layout):
    packages = Library(linked(tmp_path, *SPLIT, f"gemm_split_k_{layout}", f"gemm_{layout}"))
    m, n, k = 72, 40, 1032
    a = random_bits(k, m, seed=1).T if layout[0] == "t" else random_bits(m, k, seed=1)
    b = random_bits(n, k, seed=2) if layout[1] == "t" else random_bits(k, n, seed=2).T
    best = packages.choices(a, b, kernel="gemm")[0]
    assert best.name == f"gemm_split_k_{layout}, sum_parts" and best.parts > 1
    found = packages(a, b, kernel="gemm")
    right = numbers(a) @ numbers(b).T
    assert np.abs(numbers(found) - right).max() < 0.02 * np.abs(right).max()


@needs_nvcc
def test_a_call_by_itself_gives_the_parts():
    a, b = random_bits(20, 200, seed=3), random_bits(24, 200, seed=4)
    found = loaded("gemm_split_k")(a, b, parts=3)  # 4 iterations in shares of 2: the third is empty
    assert found.shape == (3, 20, 24) and found.dtype == np.float32
    for part, share in enumerate((slice(0, 128), slice(128, 256))):
        right = numbers(a)[:, share] @ numbers(b)[:, share].T
        assert np.abs(found[part] - right).max() < 1e-4 * np.abs(right).max()
    assert not found[2].any()
    with pytest.raises(CallError, match="the size parts is not given"):
        loaded("gemm_split_k")(a, b)


def test_a_launch_whose_last_offset_leaves_31_bits_is_refused():
    manifest = loaded("gemm_split_k").manifest
    sizes = {"M": 1, "N": 4, "K": 64}
    plan(manifest, {**sizes, "parts": 2**25}, 132)
    with pytest.raises(Unlaunchable, match="2147483647"):
        plan(manifest, {**sizes, "parts": 2**25 + 1}, 132)


def test_a_choice_is_made_once_for_arrays_that_lie_alike(library, monkeypatch):
    ranked, launched = [], []
    rank = library._ranked
    monkeypatch.setattr(library, "_ranked", lambda *a: ranked.append(1) or rank(*a))
    monkeypatch.setattr(LoadedKernel, "launch", lambda self, *a: launched.append(self.name))
    for rows in (16, 16, 24, 16):
        library(random_bits(rows, 64), random_bits(24, 64), kernel="gemm")
    assert len(ranked) == 2 and launched == ["gemm"] * 4
