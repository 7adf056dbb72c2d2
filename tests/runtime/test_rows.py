"""A call in two shares of rows: chosen where whole waves leave few tiles, right on the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.runtime.packages import linked, numbers, package, package_of, random_bits
from tests.runtime.test_chains import unread
from titan.codegen.tile.rates import rates
from titan.foundation.resources import root
from titan.runtime import library as library_module
from titan.runtime.arrays import CallError, facts_of
from titan.runtime.library import Library
from titan.runtime.loaded import LoadedKernel
from titan.runtime.rows import ROWS_STEP, WAVES_LEFT_MOST, rows_of_waves, rows_size, shares
from titan.validate.compare.compile import nvcc

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
TILES = root("protocols") / "tiles"
SPLIT = ("gemm_split_k", "sum_parts")
SINGLE = ("gemm", "gemm_persistent", "gemm_small_tiles")


def manifest_of(name):
    return LoadedKernel(package(name)).manifest


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return Library(linked(tmp_path_factory.mktemp("rows"), *SINGLE, *SPLIT))


def choices(library, m, n, k):
    return library.choices(unread(m, k), unread(n, k), kernel="gemm")


def test_rows_are_shared_where_the_last_wave_has_few_tiles(library):
    """132 multiprocessors, and 12 tiles of 128 x 256 for 3072 columns: 11 rows of them a wave."""
    best, *others = choices(library, 1536, 3072, 8192)
    assert best.name == "gemm_persistent, gemm_split_k, sum_parts"
    assert (best.rows, best.rest.parts, best.rest.rows) == (1408, 5, 0)
    assert best.cycles < min(one.cycles for one in others)
    assert not any(one.rest for one in others)
    assert best.explanation.startswith(
        "rows 0 to 1407 by gemm_persistent, the others by gemm_split_k in 5 parts, then sum_parts: "
    )
    best = choices(library, 1536, 3072, 512)[0]  # too few iterations for parts
    assert (best.name, best.rows) == ("gemm_persistent, gemm_small_tiles", 1408)


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1408, 3072, 8192),  # one whole wave
        (2816, 3072, 8192),  # two
        (1024, 1024, 16384),  # less than one: parts over K alone
        (4096, 4096, 4096),  # the last wave is nearly full
        (128, 96, 64),
        (1, 8, 64),
    ],
)
def test_rows_stay_together_elsewhere(library, m, n, k):
    assert not any(one.rest for one in choices(library, m, n, k))


def test_the_estimate_is_that_of_both_shares_and_of_a_launch(library):
    m, n, k = 1536, 3072, 8192
    best = choices(library, m, n, k)[0]
    first = choices(library, best.rows, n, k)
    others = choices(library, m - best.rows, n, k)
    own = next(one.cycles for one in first if one.name == "gemm_persistent")
    assert others[0].name == best.rest.name
    assert best.cycles == own + rates("sm_90a").launch_cycles + others[0].cycles


def test_a_launch_that_takes_too_long_keeps_rows_together(library, monkeypatch):
    best, second = choices(library, 1536, 3072, 8192)[:2]
    for more, shared in ((-1, True), (0, False)):
        launch = rates("sm_90a").launch_cycles + second.cycles - best.cycles + more
        slow = replace(rates("sm_90a"), launch_cycles=launch)
        with monkeypatch.context() as patch:
            patch.setattr(library_module, "rates", lambda target, slow=slow: slow)
            assert (choices(library, 1536, 3072, 8192)[0].rest is not None) is shared


def test_every_target_says_what_a_launch_takes():
    for target in ("sm_90a", "sm_100a", "gfx942", "gfx950"):
        assert rates(target).launch_cycles > 0


def test_rows_of_waves_are_the_most_that_fit():
    random = np.random.default_rng(5)
    for _ in range(60):
        tile, columns = int(random.integers(1, 20)) * 8, int(random.integers(1, 9))
        band = int(random.integers(1, 4))
        work = f"((M + {tile * band - 1}) // {tile * band}) * {band} * {columns}"
        sizes = {"M": int(random.integers(1, 4000)), "K": 64}
        processors = int(random.integers(1, 40))

        def items(rows, per=tile * band, each=band * columns):
            return -(-rows // per) * each

        waves = -(-items(sizes["M"]) // processors)
        right = []
        for count in range(max(1, waves - WAVES_LEFT_MOST), waves):
            fit = [
                rows
                for rows in range(ROWS_STEP, sizes["M"], ROWS_STEP)
                if items(rows) <= count * processors
            ]
            right += fit[-1:]
        found = rows_of_waves({"work": work}, sizes, "M", processors)
        assert found == sorted(set(right), reverse=True)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("gemm", "M"), ("gemm_bias_relu", "M"), ("gemm_fp8", "M"),
        ("gemm_tn", None),  # rows of the output are columns of the left operand
        ("gemm_batched", None), ("gemm_grouped", None), ("attention_forward_causal", None),
        ("gemm_split_k", None), ("state_space_scan", None),
    ],
)  # fmt: skip
def test_which_size_counts_rows(name, size):
    assert rows_size(manifest_of(name)) == size


def test_rows_that_depend_on_each_other_are_not_shared():
    text = (TILES / "gemm.yaml").read_text()
    old = 'load: "A[m * rows, '
    assert old in text
    text = text.replace(old, 'load: "A[(M + rows - 1) // rows * rows - rows - m * rows, ')
    text = text.replace("tile: gemm\n", "tile: gemm_upside\n")
    assert rows_size(LoadedKernel(package_of(text)).manifest) is None


def test_shares_are_views_at_multiples_of_16_bytes():
    manifest = manifest_of("gemm")
    arrays = {
        "A": facts_of(random_bits(64, 40).T), "B": facts_of(random_bits(24, 64)),
        "C": facts_of(np.zeros((40, 32), np.uint16)[:, :24]),
    }  # fmt: skip
    first, others = shares(manifest, "M", arrays, 16)
    assert first["B"] == others["B"] == arrays["B"]
    assert (first["A"].shape, others["A"].shape) == ((16, 64), (24, 64))
    assert others["A"].address == arrays["A"].address + 32
    assert others["C"].address == arrays["C"].address + 16 * 64
    with pytest.raises(CallError, match="row 20 of A lies 40 bytes behind the first"):
        shares(manifest, "M", arrays, 20)
    for rows in (0, 40):
        with pytest.raises(CallError, match="A has 40 rows"):
            shares(manifest, "M", arrays, rows)


@pytest.fixture
def small_device(monkeypatch):
    """The estimate for two multiprocessors and no time to begin: small calls have several waves."""
    monkeypatch.setattr(library_module, "_processors", lambda target: 2)
    monkeypatch.setattr(library_module, "FILL_CYCLES", 0)
    monkeypatch.setattr(
        library_module, "rates", lambda target: replace(rates(target), launch_cycles=1)
    )


@needs_nvcc
@pytest.mark.parametrize(
    ("names", "shape", "launched"),
    [
        (("gemm", *SPLIT), (300, 40, 1032), ["gemm", "gemm_split_k", "sum_parts"]),
        (("gemm", *SPLIT), (384, 128, 1024), ["gemm", "gemm_split_k", "sum_parts"]),
        (("gemm", "gemm_small_tiles"), (257, 136, 72), ["gemm", "gemm_small_tiles"]),
        (
            ("gemm", "gemm_persistent", "gemm_small_tiles"), (288, 256, 72),
            ["gemm_persistent", "gemm_small_tiles"],
        ),
        (("gemm", "gemm_small_tiles"), (256, 128, 72), ["gemm"]),
    ],
)  # fmt: skip
def test_numbers_of_shares_on_the_emulated_device(
    tmp_path, monkeypatch, small_device, names, shape, launched
):
    packages = Library(linked(tmp_path, *names))
    m, n, k = shape
    a, b = random_bits(m, k, seed=1), random_bits(n, k, seed=2)
    calls = []
    launch = LoadedKernel.launch
    monkeypatch.setattr(
        LoadedKernel, "launch", lambda self, *rest: calls.append(self.name) or launch(self, *rest)
    )
    c = np.full((m, n + 16), 7, np.uint16)
    best = packages.choices(a, b, kernel="gemm")[0]
    assert packages(a, b, kernel="gemm", out=c[:, :n]) is not None
    assert calls == launched
    assert (best.rest is None) is (len(launched) == 1)
    right = numbers(a) @ numbers(b).T
    assert np.abs(numbers(c[:, :n]) - right).max() < 0.02 * np.abs(right).max()
    assert (c[:, n:] == 7).all()
    again = packages(a, b, kernel="gemm")
    assert np.array_equal(again, c[:, :n])
    if best.rest is not None and best.rest.chain is None:
        parts = [best.kernel(a[: best.rows], b), best.rest.kernel(a[best.rows :], b)]
        assert np.array_equal(again, np.concatenate(parts))


@needs_nvcc
def test_rows_of_a_batch_are_shared_and_batches_are_not(tmp_path, small_device):
    packages = Library(linked(tmp_path, "gemm", "gemm_small_tiles", "gemm_batched"))
    rows, b = random_bits(3, 100, 72, seed=1), random_bits(136, 72, seed=2)
    best = packages.choices(rows, b, kernel="gemm")[0]
    assert (best.name, best.rows) == ("gemm, gemm_small_tiles", 256)  # of 300
    right = numbers(rows) @ numbers(b).T
    found = packages(rows, b, kernel="gemm")
    assert found.shape == (3, 100, 136)
    assert np.abs(numbers(found) - right).max() < 0.02 * np.abs(right).max()
    batch = random_bits(3, 300, 72, seed=4), random_bits(3, 136, 72, seed=5)
    assert not any(one.rest for one in packages.choices(*batch, kernel="gemm_batched"))


@pytest.mark.heavy  # two more packages by nvcc
@needs_nvcc
def test_a_transposed_operand_is_shared_as_it_lies(tmp_path, small_device):
    names = ("gemm", "gemm_tn", "gemm_split_k", "gemm_split_k_tn", "sum_parts")
    packages = Library(linked(tmp_path, *names))
    a, b = random_bits(1032, 304, seed=3).T, random_bits(1032, 40, seed=2).T
    best = packages.choices(a, b, kernel="gemm")[0]
    assert (best.name, best.rows) == ("gemm_tn, gemm_split_k_tn, sum_parts", 256)
    found = packages(a, b, kernel="gemm")
    right = numbers(a) @ numbers(b).T
    assert np.abs(numbers(found) - right).max() < 0.02 * np.abs(right).max()
