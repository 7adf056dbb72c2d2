"""Arrays as they lie: any order of dimensions, gaps, repeated batches, transposed factors.

`computed` launches by the tile program: it reads and writes memory through the tensor maps of the
launch, so that a wrong stride, extent or address gives wrong numbers.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import titan
from tests.runtime.packages import bits, linked, numbers, package, random_bits
from tests.sampling import part
from titan.codegen.tile.semantics import run
from titan.codegen.tile.stored import from_data
from titan.device.plan import BYTES, Number, TensorMapArguments
from titan.runtime import launchers
from titan.runtime.arrays import CallError, facts_of
from titan.runtime.leading import foldable
from titan.runtime.library import Library
from titan.validate.compare.compile import nvcc

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
FORTY = settings(
    max_examples=part(40, of=2),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PRODUCTS = ("gemm", "gemm_nn", "gemm_tn", "gemm_tt", "gemm_batched", "gemm_batched_nn",
            "gemm_batched_tn", "gemm_batched_tt")  # fmt: skip


def _in_memory(launch, arrays, name, shape):
    """Numbers of bf16 as the tensor map of the launch sees them."""
    maps = [
        item
        for item in launch.arguments
        if isinstance(item, TensorMapArguments) and item.tensor == name
    ]
    assert maps
    assert {item.extents for item in maps} == {tuple(reversed(shape))}
    (strides,) = {item.strides_bytes for item in maps}
    assert all(stride % 16 == 0 for stride in strides)
    reach = 1 + sum(
        (extent - 1) * stride // 2
        for extent, stride in zip(reversed(shape), (2, *strides), strict=True)
    )
    memory = (ctypes.c_uint16 * reach).from_address(arrays[name].address)
    return np.lib.stride_tricks.as_strided(
        np.frombuffer(memory, np.uint16), shape, (*reversed(strides), 2)
    )


@pytest.fixture
def computed(monkeypatch):
    """Launches of the emulated device, computed by the tile program."""

    def compute(self, launch, arrays, stream):
        manifest = self.manifest
        program = from_data(manifest["program"])
        numbers_given = [item.value for item in launch.arguments if isinstance(item, Number)]
        names = [item["name"] for item in manifest["parameters"]]
        sizes = dict(zip(names, numbers_given, strict=True))
        memory = {
            item.name: _in_memory(launch, arrays, item.name, item.shape) for item in launch.tensors
        }
        assert all(BYTES[item.dtype] == 2 for item in launch.tensors)
        inputs = {item.name: numbers(memory[item.name]) for item in launch.tensors
                  if not item.output}  # fmt: skip
        for name, values in run(program, inputs, sizes).items():
            memory[name][...] = bits(values)

    begin = launchers.EmulatedLauncher.__init__

    def noted(self, manifest, files):
        begin(self, manifest, files)
        self.manifest = manifest

    monkeypatch.setattr(launchers.EmulatedLauncher, "__init__", noted)
    monkeypatch.setattr(launchers.EmulatedLauncher, "run", compute)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return linked(tmp_path_factory.mktemp("products"), *PRODUCTS)


@pytest.fixture
def library(folder):
    return Library(folder)


def near(found, right):
    return np.abs(numbers(found) - right).max() <= 0.02 * max(np.abs(right).max(), 1e-3)


def laid(values, order, gap):
    """The same numbers, dimensions in this order in memory, with a gap behind each row."""
    shape = [values.shape[axis] for axis in order]
    wide = -(-shape[-1] // 8) * 8 + 8 * gap
    memory = np.zeros((*shape[:-1], wide), np.uint16)[..., : shape[-1]]
    memory[...] = values.transpose(order)
    return memory.transpose(np.argsort(order))


@given(
    st.sampled_from(["gemm", "gemm_nn", "gemm_tn", "gemm_tt"]),
    st.tuples(*[st.integers(1, 40)] * 3), st.tuples(st.booleans(), st.booleans()),
    st.integers(0, 2), st.integers(0, 100),
)  # fmt: skip
@FORTY
def test_any_product_of_two_factors(computed, library, name, extents, turned, gap, seed):
    """Each factor plain or transposed, rows with gaps, for every name that a user may give."""
    m, n, k = extents
    shapes = [(m, k), (n, k)] if name == "gemm" else [(m, k), (k, n)]
    shapes = {"gemm_tn": [(k, m), (k, n)], "gemm_tt": [(k, m), (n, k)]}.get(name, shapes)
    a, b = (
        laid(random_bits(*shape, seed=seed + at), (1, 0) if turn else (0, 1), gap)
        for at, (shape, turn) in enumerate(zip(shapes, turned, strict=True))
    )
    left = numbers(a).T if name in ("gemm_tn", "gemm_tt") else numbers(a)
    right = numbers(b).T if name in ("gemm", "gemm_tt") else numbers(b)
    out = laid(np.zeros((m, n), np.uint16), (0, 1), gap)
    assert library(a, b, kernel=name, out=out) is out
    assert near(out, left @ right)


ORDERS = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 0, 1)]


@given(
    st.tuples(*[st.integers(1, 24)] * 3), st.sampled_from(ORDERS), st.sampled_from(ORDERS),
    st.integers(1, 4), st.booleans(),
)  # fmt: skip
@FORTY
def test_any_order_of_a_batch(computed, library, extents, first, second, batch, repeated):
    """Dimensions in any order in memory, and one factor for the whole batch."""
    m, n, k = extents
    a = laid(random_bits(batch, m, k, seed=1), first, 0)
    b = laid(random_bits(batch, n, k, seed=2), second, 0)
    if repeated:
        b = np.broadcast_to(b[:1], b.shape)
    out = laid(np.zeros((batch, m, n), np.uint16), (1, 0, 2), 1)
    library(a, b, kernel="gemm_batched", out=out)
    assert near(out, numbers(a) @ numbers(b).transpose(0, 2, 1))


def test_a_batch_that_is_innermost_in_memory(computed, library):
    a, b = random_bits(16, 8, 4).transpose(2, 1, 0), random_bits(4, 24, 16)
    with pytest.raises(CallError, match=r"no package takes the call: .*last dimension has to be"):
        library(a, b, kernel="gemm_batched")


def test_leading_dimensions_come_as_several(computed, library):
    """Rows of a batch of sequences; their weights' gradient; a batch of batches, or none."""
    x, w = random_bits(2, 3, 16, seed=1), random_bits(24, 16, seed=2)
    found = library(x, w, kernel="gemm")
    assert found.shape == (2, 3, 24)
    assert near(found, numbers(x) @ numbers(w).T)
    grown = random_bits(2, 3, 24, seed=3)
    right = np.einsum("bsn,bsk->nk", numbers(grown), numbers(x))
    assert near(library(grown, x, kernel="gemm_tn"), right)
    a, b = random_bits(2, 3, 8, 16, seed=4), random_bits(2, 3, 24, 16, seed=5)
    found = library(a, b, kernel="gemm_batched")
    assert found.shape == (2, 3, 8, 24)
    assert near(found, numbers(a) @ numbers(b).transpose(0, 1, 3, 2))
    one = library(a[0, 0], b[0, 0], kernel="gemm_batched")
    assert (one == found[0, 0]).all()
    shared = np.broadcast_to(b[:1, :1], b.shape)
    right = numbers(a) @ numbers(shared).transpose(0, 1, 3, 2)
    assert near(library(a, shared, kernel="gemm_batched"), right)


def test_attention_in_either_order(computed):
    """[B, H, S, D] and views of [B, S, H, D], and of queries, keys and values in one array."""
    attention = titan.load(package("attention_forward_grouped"))
    packed = random_bits(2, 20, 3, 4, 128, seed=1)
    q, k, v = (packed[:, :, at].transpose(0, 2, 1, 3) for at in range(3))
    out = np.zeros((2, 20, 4, 128), np.uint16)
    attention(q, k, v, out=out.transpose(0, 2, 1, 3))
    dense = attention(*map(np.ascontiguousarray, (q, k, v)))
    assert (out.transpose(0, 2, 1, 3) == dense).all()
    scores = np.einsum("bhid,bhjd->bhij", numbers(q), numbers(k)) * 128**-0.5
    p = np.exp(scores - scores.max(-1, keepdims=True))
    right = np.einsum("bhij,bhjd->bhid", p / p.sum(-1, keepdims=True), numbers(v))
    assert near(dense, right)
    assert (attention(q[0], k[0], v[0]) == dense[0]).all()
    one_head = np.broadcast_to(k[:, :1], k.shape)
    repeated = attention(q, one_head, v)
    assert (repeated == attention(q, np.ascontiguousarray(one_head), v)).all()


def test_attention_without_a_batch_takes_one_that_lies_close(computed):
    attention = titan.load(package("attention_forward"))
    q = random_bits(2, 3, 20, 128, seed=1)
    found = attention(q, q, q)
    assert found.shape == q.shape
    assert (found.reshape(6, 20, 128) == attention(*[q.reshape(6, 20, 128)] * 3)).all()
    turned = random_bits(2, 20, 3, 128, seed=1).transpose(0, 2, 1, 3)
    with pytest.raises(CallError, match="first 2 dimensions cannot be taken as one"):
        attention(turned, turned, turned)
    with pytest.raises(CallError, match=r"heads is \[2, 3\] by Q and \[3, 2\] by K"):
        attention(q, q.reshape(3, 2, 20, 128), q)


A, B = random_bits(16, 64), random_bits(24, 64)
OVERLAPPING = np.lib.stride_tricks.as_strided(np.zeros(400, np.uint16), (16, 24), (32, 2))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a, b: (a[::-1], b, None), "the others not negative"),
        (lambda a, b: (a[:, ::2], b[:, ::2], None), "the last dimension has to be contiguous"),
        (lambda a, b: (a, b, np.broadcast_to(np.zeros((1, 24), np.uint16), (16, 24))), "written"),
        (lambda a, b: (a, b, OVERLAPPING), "share memory"),
        (lambda a, b: (a[:, 4:], b[:, 4:], None), "takes multiples of 16"),
        (lambda a, b: (a[:, :60], b[:, :60].copy(), None), "B: rows of 120 bytes are not a mult"),
        (lambda a, b: (a, b[:20], None), "needs N % 8 == 0"),
    ],
)  # fmt: skip
def test_what_no_tensor_map_describes(computed, change, words):
    kernel = titan.load(package("gemm"))
    a, b, out = change(A, B)
    with pytest.raises(CallError, match=words):
        kernel(a, b, out=out)


def test_rows_of_any_length_where_strides_are_multiples(computed):
    """K = 60 and N = 20, in arrays whose rows begin at multiples of 16 bytes."""
    kernel = titan.load(package("gemm"))
    out = np.zeros((16, 24), np.uint16)
    kernel(A[:, :60], B[:20, :60], out=out[:, :20])
    assert near(out[:, :20], numbers(A[:, :60]) @ numbers(B[:20, :60]).T)
    assert not out[:, 20:].any()


def test_a_stride_over_one_element_means_nothing(computed):
    kernel = titan.load(package("gemm_batched"))
    a, b = random_bits(1, 8, 16, seed=1), random_bits(1, 24, 16, seed=2)
    odd = np.lib.stride_tricks.as_strided(a, a.shape, (2, *a.strides[1:]))
    assert facts_of(odd).strides[0] == 1
    assert (kernel(odd, b) == kernel(a, b)).all()
    wide = np.zeros((1, 8, 40), np.uint16)[:, :, :16]
    wide[...] = a
    odd = np.lib.stride_tricks.as_strided(wide, a.shape, (6, *wide.strides[1:]))
    assert (kernel(odd, b) == kernel(a, b)).all()


def test_which_sizes_may_come_as_several_dimensions():
    assert foldable(titan.load(package("gemm")).manifest) == {"M": False}
    assert foldable(titan.load(package("gemm_tn")).manifest) == {"K": False}
    assert foldable(titan.load(package("gemm_batched")).manifest) == {"batch": True}
    assert foldable(titan.load(package("attention_forward")).manifest) == {"heads": True}


def test_a_transposed_view_alone_says_who_takes_it(library):
    with pytest.raises(CallError, match="the last dimension has to be contiguous"):
        titan.load(package("gemm"))(A, np.asfortranarray(B))
    (choice, *_) = library.choices(A, np.asfortranarray(B), kernel="gemm")
    assert choice.kernel.name == "gemm_nn"
    assert {item.other: (item.name, item.axes) for item in choice.how.tensors}["B"] == ("B", (1, 0))


@needs_nvcc
def test_transposed_factors_on_the_emulated_device(library):
    a, b = random_bits(40, 72, seed=1), random_bits(72, 24, seed=2)
    found = library(a, b.T, kernel="gemm")
    assert near(found, numbers(a) @ numbers(b))


@pytest.mark.heavy
@pytest.mark.long  # seven packages by nvcc
@needs_nvcc
@pytest.mark.parametrize("shape", [(40, 72, 24), (136, 8, 200), (8, 150, 8)])
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_all_layouts_on_the_emulated_device(library, shape, turned):
    m, n, k = (-(-extent // 8) * 8 for extent in shape)
    a, b = random_bits(2, m, k, seed=1), random_bits(2, n, k, seed=2)
    right = numbers(a) @ numbers(b).transpose(0, 2, 1)
    a, b = (
        laid(one, (0, 2, 1) if turn else (1, 0, 2), 1)
        for one, turn in zip((a, b), turned, strict=True)
    )
    assert near(library(a, b, kernel="gemm_batched"), right)
    assert near(library(a[1], b[1], kernel="gemm"), right[1])
    repeated = np.broadcast_to(b[:1], b.shape)
    right = numbers(a) @ numbers(repeated).transpose(0, 2, 1)
    assert near(library(a, repeated, kernel="gemm_batched"), right)
