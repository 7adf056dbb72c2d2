"""Scalar arguments and shared heads in calls: Python, PyTorch, and launch.h of a C++ program."""

from __future__ import annotations

import ctypes
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import titan
from tests.codegen.tile.scaled import SCALED, SIZES, inputs, scaled
from tests.device import fake_gpu
from tests.runtime.packages import numbers, package, package_for, package_of, random_bits
from titan.codegen.tile.manifest import sizes_by_name
from titan.device import driver, gpu
from titan.device.plan import ScalarNumber, Unlaunchable, plan
from titan.runtime import launchers
from titan.runtime.arrays import CallError
from titan.runtime.library import Library
from titan.validate.compare.compile import nvcc

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
ARRAYS = inputs(np.random.default_rng(1))
X, Z = ARRAYS["X"], ARRAYS["Z"]

TIMES = """\
titan: 1
tile: times
target: sm_90a
sizes: {M: any, N: any, rows: 128, columns: 64}
scalars: {factor: 0.5}
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, output: true}
work: {m: (M + rows - 1) // rows}
groups: 2
loop: {t: (N + columns - 1) // columns}
body:
  - x: {load: "X[m * rows, t * columns]", tile: [rows, columns]}
  - wide: {read: x}
  - times: {scale: wide, by: factor}
  - narrow: {convert: times, to: bf16}
  - y: {store: narrow, to: "Y[m * rows, t * columns]"}
"""


@pytest.fixture(scope="module")
def kernel():
    return titan.load(package_of(SCALED))


@pytest.fixture
def launched(monkeypatch):
    """The scalar arguments of launches that the emulated device would run."""
    found = []

    def note(self, launch, arrays, stream):
        found.append([item.value for item in launch.arguments if isinstance(item, ScalarNumber)])

    monkeypatch.setattr(launchers.EmulatedLauncher, "run", note)
    return found


def test_scalars_go_by_name_and_have_usual_values(kernel, launched):
    assert kernel.signature == (
        "scaled(X: f32[batch, shared, M, N], Z: f32[batch, shared * ratio, N],"
        " factor: f32 = 0.5, eps: f32 = 1e-05) -> Y: bf16[batch, shared * ratio, M, N]"
    )
    for given in ({}, {"factor": 2}, {"eps": 0.25, "factor": 0.125}):
        kernel(X, Z, **given)
    assert launched == [[0.5, 1e-5], [2.0, 1e-5], [0.125, 0.25]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"factor": 0.0}, "factor: 0.0 is not positive"),
        ({"factor": float("nan")}, "factor: nan is not positive"),
        ({"factor": 1e39}, "factor: 1e[+]39 is no number of f32"),
        ({"factor": "2"}, "factor is a str, and a number is taken"),
        ({"factor": True}, "factor is a bool"),
        ({"facto": 2.0}, "has no input facto"),
    ],
)
def test_what_a_call_does_not_take(kernel, launched, given, words):
    with pytest.raises(CallError, match=words):
        kernel(X, Z, **given)
    assert launched == []


def test_numbers_of_numpy_are_numbers(kernel, launched):
    for factor in (2, np.float32(2), np.float64(2), np.int32(2)):
        kernel(X, Z, factor=factor)
    assert launched == [[2.0, 1e-5]] * 4


def test_another_package_that_answers_takes_the_usual_numbers_of_the_one_asked(launched, tmp_path):
    twin = TIMES.replace("tile: times\n", "tile: twin\n").replace("factor: 0.5", "factor: 0.25")
    assert twin.count("0.25") == 1 and "tile: twin" in twin
    for text in (TIMES, twin):
        (tmp_path / package_of(text).name).symlink_to(package_of(text))
    library, given = Library(tmp_path), random_bits(40, 64)
    assert library.choices(given, kernel="twin")[0].name == "times"
    for name, numbers_given in (("twin", {}), ("times", {}), ("twin", {"factor": 2.0})):
        library(given, kernel=name, **numbers_given)
    library(given, kernel="twin", factor=None)
    assert launched == [[0.25], [0.5], [2.0], [0.25]]


def test_a_size_that_only_a_product_has(kernel, launched):
    """The heads of Z give `ratio`; where they are no multiple, the call is refused."""
    assert kernel.shapes(X, Z)["Y"] == ((2, 6, 33, 40), "bf16")
    assert kernel.shapes(X, np.ascontiguousarray(Z[:, :2]))["Y"] == ((2, 2, 33, 40), "bf16")
    with pytest.raises(CallError, match=r"Z has the extent 5 where shared \* ratio = 4 is taken"):
        kernel(X, np.ascontiguousarray(Z[:, :5]))


@pytest.mark.parametrize(
    ("shapes", "asked"),
    [
        ([["a * b", "c"], ["c"]], ["b"]),  # either would do; rows of b are neighbours
        ([["a * b"], ["a", "c"]], []),
        ([["a * b"], ["a + 1", "c"]], []),
        ([["a * b", "b * c"]], ["b"]),
        ([["a"], ["(b + 7) // 8", "c"]], ["b"]),
        ([["a", "b"]], ["c"]),
    ],
)
def test_which_sizes_go_by_name(shapes, asked):
    tensors = [{"name": str(n), "shape": one, "output": False} for n, one in enumerate(shapes)]
    tensors.append({"name": "Y", "shape": ["a", "b", "c"], "output": True})
    manifest = {"parameters": [{"name": name} for name in "abc"], "tensors": tensors}
    assert sizes_by_name(manifest) == asked


@needs_nvcc
def test_query_heads_of_a_group_as_rows_of_one_tile():
    """No shape gives `ratio` or `queries` alone: one goes by name, the other follows."""
    kernel = titan.load(package_for("attention_forward_group_rows_sm_100a", "sm_100a"))
    ratio, queries, keys = 3, 2, 140
    q, k, v = (random_bits(1, 1, rows, 128, seed=rows) for rows in (ratio * queries, keys, keys))
    with pytest.raises(CallError, match="the size queries is not given"):
        kernel(q, k, v)
    with pytest.raises(CallError, match=r"extent 6 where ratio \* queries = 4 is taken"):
        kernel(q, k, v, queries=4)
    found = numbers(kernel(q, k, v, queries=queries)).reshape(ratio, queries, 128)
    for h, one in enumerate(numbers(q).reshape(ratio, queries, 128)):
        scores = one @ numbers(k)[0, 0].T / np.sqrt(128)
        scores[0, -1] = -np.inf  # the last query sees all keys, that before it one less
        p = np.exp(scores - scores.max(-1, keepdims=True))
        right = p / p.sum(-1, keepdims=True) @ numbers(v)[0, 0]
        assert np.abs(found[h] - right).max() < 0.01 * np.abs(right).max()


@needs_nvcc
def test_what_a_call_computes(kernel):
    """Heads in another order in memory, by strides; the usual scalars and others."""
    moved = np.ascontiguousarray(X.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    assert moved.strides != X.strides
    for given in ({}, {"factor": 0.37, "eps": 2.5}):
        right = scaled(X, Z, **given)
        for x in (X, moved):
            assert np.abs(numbers(kernel(x, Z, **given)) - right).max() < 0.01 * np.abs(right).max()


@pytest.mark.skipif(
    shutil.which("g++") is None or fake_gpu.include() is None, reason="no g++, or no cuda.h"
)
def test_launch_header_passes_what_the_runner_passes(kernel, monkeypatch, tmp_path):
    from tests.runtime.test_launch_header import Array, compiled, launched, sizes_in

    source = """
#include "launch.h"
namespace package = titan::scaled_sm_90a;
extern "C" int launch(const int64_t* sizes, const titan::host::Array* arrays, const float* given) {
  CUfunction kernel;
  if (CUresult const error = package::find(nullptr, &kernel)) return error;
  package::Sizes const all = package::detail::sizes_of(sizes);
  package::Arrays const at = package::detail::arrays_of(arrays);
  if (!given) return package::launch(kernel, all, at, 132, nullptr);
  package::Scalars const scalars = {given[0], given[1]};
  return package::launch(kernel, all, at, 132, nullptr, scalars);
}
"""
    fake = driver.typed(fake_gpu.build(tmp_path), driver.FUNCTIONS, "the fake driver")
    folder = f"-I{kernel.folder}"
    made = compiled(source, tmp_path, "-shared", "-fPIC", folder, str(tmp_path / "libcuda.so"))
    library = ctypes.CDLL(str(made))
    monkeypatch.setattr(driver, "driver", lambda: fake)
    monkeypatch.setitem(sys.modules, "cupy", fake_gpu.cupy())
    sizes, manifest = sizes_in(kernel.manifest, SIZES), kernel.manifest
    fake.fake_fail(0)
    letters = {"tensor_map": "m", "pointer": "p", "size": "n", "scalar": "n"}
    fake.fake_kinds("".join(letters[item["kind"]] for item in manifest["arguments"]).encode())
    module = gpu.GpuModule(Path("kernel.cu"), "sm_90a", cubin=b"\x7fELF")
    for given in (None, {"factor": 0.1, "eps": 3.5}):
        planned = plan(manifest, SIZES, 132, given)
        addresses = {item.name: 0x10000 * (n + 1) for n, item in enumerate(planned.tensors)}
        function = module.function(planned.entry, planned.shared_bytes)
        fake.fake_clear()
        gpu.Prepared(function, planned, addresses).run()
        right = launched(fake.fake_log())
        fake.fake_clear()
        values = None if given is None else (ctypes.c_float * 2)(*given.values())
        arrays = (Array * len(addresses))(*(Array(address) for address in addresses.values()))
        assert library.launch(sizes, arrays, values) == 0
        assert launched(fake.fake_log()) == right
        (bits,) = struct.unpack("<i", struct.pack("<f", given["factor"] if given else 0.5))
        assert f"number {bits}," in right[-1]
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        assert library.launch(sizes, arrays, (ctypes.c_float * 2)(0.5, wrong)) == 1
        with pytest.raises(Unlaunchable, match="the scalar eps"):
            plan(manifest, SIZES, 132, {"eps": wrong})


@needs_nvcc
def test_an_operator_of_pytorch_takes_scalars(kernel):
    torch = pytest.importorskip("torch")
    operator = titan.torch_operator(
        kernel, "scaled_for_a_test",
        lambda i, o, g, factor, eps: (
            g[0].float().unflatten(1, (2, 3)).sum(2) * (-1.5 * factor), g[0].float().sum(2)
        ),
    )  # fmt: skip
    assert "float factor=0.5" in str(torch.ops.titan.scaled_for_a_test.default._schema)
    x, z = torch.from_numpy(X).requires_grad_(), torch.from_numpy(Z)
    found = operator(x, z, 0.25, eps=1.0)
    right = scaled(X, Z, factor=0.25, eps=1.0)
    assert np.abs(found.detach().float().numpy() - right).max() < 0.05
    found.float().sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 3 * -1.5 * 0.25))
    compiled = torch.compile(lambda a, b: operator(a, b, 0.25) + 1, backend="eager")
    assert compiled(x.detach(), z).shape == (2, 6, 33, 40)


def grouped_attention(q, k, v, scale):
    """In float64, from [batch, heads, rows, head]."""
    ratio = q.shape[1] // k.shape[1]
    k, v = (np.repeat(one, ratio, axis=1) for one in (k, v))
    p = scale * np.einsum("bhid,bhjd->bhij", q, k)
    p = np.exp(p - p.max(axis=-1, keepdims=True))
    return np.einsum("bhij,bhjd->bhid", p / p.sum(axis=-1, keepdims=True), v)


@pytest.mark.heavy  # nvcc, and attention on the emulated device
@needs_nvcc
@pytest.mark.parametrize(("kv_heads", "ratio"), [(2, 3), (1, 4), (3, 1)])
@pytest.mark.parametrize("scale", [None, 0.03])
def test_attention_with_shared_heads(kv_heads, ratio, scale):
    """Grouped-query, multi-query and plain; in [batch, rows, heads, head] and heads first."""
    attention = titan.load(package("attention_forward_grouped"))
    q = random_bits(2, 40, kv_heads * ratio, 128, seed=1)
    k, v = (random_bits(2, 136, kv_heads, 128, seed=seed) for seed in (2, 3))
    heads_first = [one.transpose(0, 2, 1, 3) for one in (q, k, v)]
    given = {} if scale is None else {"softmax_scale": scale}
    out = np.zeros_like(q)
    attention(*heads_first, out=out.transpose(0, 2, 1, 3), **given)
    dense = attention(*(np.ascontiguousarray(one) for one in heads_first), **given)
    assert (out.transpose(0, 2, 1, 3) == dense).all()
    right = grouped_attention(*(numbers(one).astype(float) for one in heads_first),
                              scale or 128**-0.5)  # fmt: skip
    assert np.abs(numbers(dense) - right).max() < 0.01 * np.abs(right).max()
