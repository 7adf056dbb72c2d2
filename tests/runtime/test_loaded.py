"""Packages as functions: what a call computes, and what it refuses, with the words for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import titan
from tests.runtime.packages import linked, numbers, package, package_of, random_bits
from titan.runtime import launchers
from titan.runtime.arrays import CallError, Place, facts_of
from titan.runtime.library import Library
from titan.validate.compare.compile import nvcc

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")


@pytest.fixture(scope="module")
def gemm():
    return titan.load(package("gemm_small_tiles"))


@pytest.fixture
def launched(monkeypatch):
    """The launches that the emulated device would run."""
    found = []
    monkeypatch.setattr(
        launchers.EmulatedLauncher, "run",
        lambda self, launch, arrays, stream: found.append((launch, arrays, stream)),
    )  # fmt: skip
    return found


@needs_nvcc
def test_a_product_by_numpy_arrays(gemm):
    a, b = random_bits(40, 72, seed=1), random_bits(24, 72, seed=2)
    found = gemm(a, b)
    right = numbers(a) @ numbers(b).T
    assert found.shape == (40, 24)
    assert np.abs(numbers(found) - right).max() < 0.02 * np.abs(right).max()
    wide = np.zeros((40, 96), np.uint16)  # rows with gaps, which a tensor map describes
    wide[:, :72] = a
    out = np.zeros((40, 32), np.uint16)
    assert gemm(B=b, A=wide[:, :72], out=out[:, :24]) is not None
    assert (out[:, :24] == found).all()
    assert (out[:, 24:] == 0).all()


def test_the_signature(gemm):
    assert gemm.signature == "gemm_small_tiles(A: bf16[M, K], B: bf16[N, K]) -> C: bf16[M, N]"
    assert gemm.shapes(random_bits(8, 16), random_bits(24, 16)) == {"C": ((8, 24), "bf16")}


def test_a_launch_gets_sizes_strides_and_addresses(gemm, launched):
    a = np.zeros((40, 96), np.uint16)
    gemm(a[:, :72], random_bits(24, 72))
    ((launch, arrays, stream),) = launched
    maps = {item.tensor: item for item in launch.arguments if hasattr(item, "strides_bytes")}
    assert maps["A"].extents == (72, 40)
    assert maps["A"].strides_bytes == (192,)
    assert maps["B"].strides_bytes == (144,)
    assert [item.value for item in launch.arguments if hasattr(item, "value")] == [40, 24, 72]
    assert arrays["A"].address == a.ctypes.data
    assert stream == 0


A, B = random_bits(16, 64), random_bits(24, 64)


@pytest.mark.parametrize(
    ("inputs", "keywords", "words"),
    [
        ((A,), {}, "the input B is not given"),
        ((A, B, B), {}, "3 inputs for"),
        ((A,), {"A": A}, "the input A is given twice"),
        ((A, B), {"X": A}, "no input X"),
        ((A, B[:, :56]), {}, "K is 64 by A and 56 by B"),
        ((A.astype(np.float32), B), {}, "A holds f32, and bf16 is taken"),
        ((A[0], B), {}, r"A has shape \[64\], and \[M, K\] is taken"),
        ((np.asfortranarray(A), B), {}, "the last dimension has to be contiguous"),
        ((A[:, :60].copy(), B[:, :60].copy()), {}, "needs K % 8 == 0"),
        ((np.zeros((16, 65), np.uint16)[:, :64], B), {}, "takes multiples of 16"),
        ((A, [1]), {}, "B is a list, which is no array"),
        ((A, B), {"out": np.zeros((16, 25), np.uint16)}, r"shape \[16, 25\], not \[16, 24\]"),
        ((A, B), {"out": np.zeros((16, 24), np.float32)}, "C has to hold bf16"),
        ((A, B), {"out": (A, B)}, "`out` has to be C"),
    ],
)
def test_what_a_call_does_not_take(gemm, launched, inputs, keywords, words):
    with pytest.raises(CallError, match=words):
        gemm(*inputs, **keywords)
    assert launched == []


def test_all_faults_at_once(gemm, launched):
    with pytest.raises(CallError) as caught:
        gemm(A.astype(np.float16), B[:, :56].astype(np.float32))
    assert str(caught.value).count("; ") >= 2


def test_an_output_that_is_read_only(gemm, launched):
    out = np.zeros((16, 24), np.uint16)
    out.flags.writeable = False
    with pytest.raises(CallError, match="C cannot be written"):
        gemm(A, B, out=out)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ma.masked_array(A, mask=A > 0), "A is a masked array"),
        (np.uint16(3), "A is a uint16, which is no array"),
    ],
    ids=["masked", "a number"],
)
def test_arrays_that_are_not_what_their_memory_holds(gemm, launched, given, words):
    with pytest.raises(CallError, match=words):
        gemm(given, B)
    assert not launched


TWO_OUTPUTS = """
titan: 1
tile: twice
target: [sm_90a]
sizes: {M: any, N: any}
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: bf16, output: true}
  Z: {shape: [M, N], dtype: bf16, output: true}
work: {m: (M + 127) // 128}
groups: 1
loop: {t: (N + 31) // 32}
body:
  - x: {load: "X[m * 128, t * 32]", tile: [128, 32]}
  - wide: {read: x}
  - narrow: {convert: wide, to: bf16}
  - y: {store: narrow, to: "Y[m * 128, t * 32]"}
  - doubled: {scale: wide, by: 2.0}
  - short: {convert: doubled, to: bf16}
  - z: {store: short, to: "Z[m * 128, t * 32]"}
"""


@needs_nvcc
def test_outputs_may_be_columns_of_one_array():
    """One output lies in the gaps between the rows of the other."""
    x = np.random.default_rng(0).integers(-8, 8, (40, 32)).astype(np.float32)
    both = np.full((40, 3, 32), 7, np.uint16)
    titan.load(package_of(TWO_OUTPUTS))(x, out=(both[:, 0], both[:, 2]))
    np.testing.assert_array_equal(numbers(both[:, 0]), x)
    np.testing.assert_array_equal(numbers(both[:, 2]), 2 * x)
    assert (both[:, 1] == 7).all()


def test_no_package(tmp_path):
    with pytest.raises(CallError, match=r"is not a package: it has no manifest\.json$"):
        titan.load(tmp_path)
    with pytest.raises(CallError, match="no packages"):
        titan.Library(tmp_path)


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(package("gemm_small_tiles"), folder / "p"))


@pytest.mark.parametrize("name", ["kernel.cu", "titan_device.cuh", "manifest.json"])
def test_a_file_that_was_changed_is_not_run_as_verified(name, tmp_path):
    folder = copied(tmp_path)
    assert titan.load(folder).name == titan.load(package("gemm_small_tiles")).name
    with (folder / name).open("a") as stream:
        stream.write("\n")
    with pytest.raises(CallError, match=f"{name} is not the file that certificate.json names"):
        titan.load(folder)
    with pytest.raises(CallError, match=name):
        Library(tmp_path)
    (folder / "certificate.json").unlink()
    titan.load(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": {}}', '{"files": []}', "[" * 99_999])
def test_a_certificate_of_something_else(text, tmp_path):
    folder = copied(tmp_path)
    (folder / "certificate.json").write_text(text)
    with pytest.raises(CallError, match=r"certificate.json is none of this package"):
        titan.load(folder)


def test_a_package_and_a_folder_of_packages_are_told_apart(tmp_path):
    folder = linked(tmp_path, "gemm_small_tiles")
    with pytest.raises(CallError, match="packages in it: gemm_small_tiles-sm_90a"):
        titan.load(folder)
    with pytest.raises(CallError, match=r"is a package itself, which titan\.load takes"):
        titan.Library(package("gemm_small_tiles"))
    library = Library(folder)
    assert repr(library) == f"<1 packages of {folder}: gemm_small_tiles>"
    with pytest.raises(CallError, match="`kernel` has to be one of gemm_small_tiles"):
        library(A, B)


def test_arrays_through_dlpack_are_what_numpy_says():
    class Exported:
        """An array of another framework: DLPack alone."""

        def __init__(self, values):
            self.values = values

        def __dlpack__(self):
            return self.values.__dlpack__()

    for values in (
        np.zeros((3, 4, 5), np.float32)[:, ::2, 1:], np.zeros((2, 3), np.float16).T,
        np.zeros(7, np.int32), np.zeros((2, 2), np.uint16),
    ):  # fmt: skip
        found, right = facts_of(Exported(values)), facts_of(values)
        assert (found.address, found.shape, found.strides) == (
            right.address, right.shape, right.strides,
        )  # fmt: skip
        assert (found.dtype, found.place, found.dense) == (right.dtype, Place.CPU, right.dense)


def test_a_library_takes_what_computes_the_same(tmp_path):
    names = ("gemm", "gemm_small_tiles", "gemm_f16", "attention_forward",
             "attention_forward_causal")  # fmt: skip
    library = Library(linked(tmp_path, *names))

    def chosen(*inputs, kernel):
        ranked = library.choices(*inputs, kernel=kernel)
        return [choice.name for choice in ranked if choice.rest is None]

    wide = np.lib.stride_tricks.as_strided(A, (8192, 8192), (16384, 2))  # never read
    assert chosen(A, B, kernel="gemm")[0] == "gemm_small_tiles"
    for_wide = chosen(wide, wide, kernel="gemm")  # apart: pytest would print the array
    assert for_wide == ["gemm", "gemm_small_tiles"]
    q = random_bits(2, 40, 128)
    assert chosen(q, q, q, kernel="attention_forward") == ["attention_forward"]
    with pytest.raises(CallError, match="no package 'gem' here; did you mean"):
        library(A, B, kernel="gem")


@pytest.mark.heavy  # two more packages by nvcc
@needs_nvcc
def test_products_of_a_batch_and_of_factors_row_by_row():
    """A batch that is not the first dimension in memory, by strides; `a @ b` as it stands."""
    batched, rows = titan.load(package("gemm_batched")), titan.load(package("gemm_nn"))
    a, b = random_bits(40, 3, 72, seed=1), random_bits(3, 24, 72, seed=2)
    found = batched(a.transpose(1, 0, 2), b)
    right = numbers(a).transpose(1, 0, 2) @ numbers(b).transpose(0, 2, 1)
    assert np.abs(numbers(found) - right).max() < 0.02 * np.abs(right).max()
    a, b = random_bits(40, 72, seed=3), random_bits(72, 24, seed=4)
    right = numbers(a) @ numbers(b)
    assert np.abs(numbers(rows(a, b)) - right).max() < 0.02 * np.abs(right).max()


@pytest.mark.parametrize(
    ("a", "b", "shape"),
    [
        ((0, 64), (24, 64), (0, 24)),
        ((16, 64), (0, 64), (16, 0)),
        ((2, 0, 64), (24, 64), (2, 0, 24)),
    ],
)
def test_without_elements_of_an_output_nothing_is_launched(gemm, launched, tmp_path, a, b, shape):
    """Also transposed views, and one name of a library."""
    arrays = np.zeros(a, np.uint16), np.zeros(b, np.uint16)
    assert gemm(*arrays).shape == shape
    packages = Library(linked(tmp_path, "gemm_small_tiles"))
    assert packages(*arrays, kernel="gemm_small_tiles").shape == shape
    assert not launched


def test_a_sum_over_nothing_is_refused_for_its_size(gemm, launched):
    a, b = np.zeros((16, 0), np.uint16), np.zeros((24, 0), np.uint16)
    with pytest.raises(CallError, match="K is 0, less than 1"):
        gemm(a, b)
    with pytest.raises(CallError, match="K is 24 by A and 0 by B"):
        gemm(np.zeros((0, 24), np.uint16), b)
    assert not launched


class Tracer:
    """What JAX passes while it traces: it has a shape and no memory."""

    def __dlpack__(self) -> object:
        raise TypeError("Abstract tracer value encountered\nin three\nlines")


def test_what_jax_traces_is_named(gemm):
    traced = type("DynamicJaxprTracer", (Tracer,), {})()
    with pytest.raises(CallError, match=r"A is traced by JAX .* jax.pure_callback"):
        gemm(traced, random_bits(24, 64))
    other = type("Lazy", (), {"__dlpack__": Tracer.__dlpack__})()
    with pytest.raises(CallError, match=r"DLPack: Abstract tracer value encountered$"):
        gemm(other, random_bits(24, 64))
