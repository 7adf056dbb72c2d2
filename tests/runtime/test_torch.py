"""Packages in PyTorch, where it is installed: a call, a custom operator, gradients, the example."""

from __future__ import annotations

import runpy
from functools import partial

import pytest

import titan
from tests.runtime.packages import FOLDER, linked, package
from titan.foundation.resources import root
from titan.runtime.arrays import CallError
from titan.runtime.loaded import LoadedKernel
from titan.validate.compare.compile import nvcc

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")


def test_an_operator_with_its_gradient():
    kernel = titan.load(package("gemm_small_tiles"))
    operator = titan.torch_operator(
        kernel, "product_for_a_test", lambda i, o, g: (g[0] @ i[1], g[0].T @ i[0])
    )
    a = torch.randn(16, 64).bfloat16().requires_grad_()
    b = torch.randn(24, 64).bfloat16()
    found = operator(a, b)
    torch.testing.assert_close(found, a @ b.T, atol=0.1, rtol=0.02)
    found.sum().backward()
    torch.testing.assert_close(a.grad, torch.ones(16, 24).bfloat16() @ b, atol=0.1, rtol=0.02)
    torch.library.opcheck(operator, (a.detach(), b))
    compiled = torch.compile(lambda x, y: operator(x, y) + 1, backend="eager")
    torch.testing.assert_close(compiled(a.detach(), b), found.detach() + 1)


def test_an_operator_takes_rows_of_a_batch():
    """[batch, sequence, K] for the rows of [M, K], also where torch.compile sees shapes alone."""
    operator = titan.torch_operator(titan.load(package("gemm_small_tiles")), "rows_for_a_test")
    x, weights = torch.randn(2, 3, 16).bfloat16(), torch.randn(24, 16).bfloat16()
    found = operator(x, weights)
    torch.testing.assert_close(found, x @ weights.T, atol=0.1, rtol=0.02)
    torch.library.opcheck(operator, (x, weights))
    compiled = torch.compile(lambda a, b: operator(a, b) + 1, backend="eager", dynamic=True)
    assert compiled(x, weights).shape == (2, 3, 24)


def test_an_operator_of_a_library_takes_the_best_package(tmp_path, monkeypatch):
    """Also two packages one after the other, and one that is made for a transposed view."""
    names = ("gemm", "gemm_split_k", "gemm_split_k_small_tiles", "sum_parts", "gemm_nn")
    packages = titan.Library(linked(tmp_path, *names))
    launched = []
    launch = LoadedKernel.launch
    monkeypatch.setattr(
        LoadedKernel, "launch", lambda self, *a: launched.append(self.name) or launch(self, *a)
    )
    operator = titan.torch_operator(
        titan.load(package("gemm")), "best_for_a_test", library=packages
    )
    a, b = torch.randn(24, 1032).bfloat16(), torch.randn(16, 1032).bfloat16()
    torch.testing.assert_close(operator(a, b), a @ b.T, atol=0.5, rtol=0.02)
    assert launched == ["gemm_split_k_small_tiles", "sum_parts"]
    few = torch.randn(64, 24).bfloat16().T, torch.randn(64, 16).bfloat16()
    few = few[0].contiguous(), few[1].T
    torch.testing.assert_close(operator(*few), few[0] @ few[1].T, atol=0.2, rtol=0.02)
    assert launched[2:] == ["gemm_nn"]
    compiled = torch.compile(lambda x, y: operator(x, y) + 1, backend="eager")
    torch.testing.assert_close(compiled(a, b), operator(a, b) + 1)


def test_a_package_in_a_function_that_is_compiled(tmp_path):
    """The launch is between two graphs; arrays of its transforms are refused in words."""
    kernel = titan.load(package("gemm_small_tiles"))
    packages = titan.Library(linked(tmp_path, "gemm_small_tiles"))
    a, b = torch.randn(16, 64).bfloat16(), torch.randn(24, 64).bfloat16()
    for product in (kernel, lambda *given: packages(*given, kernel="gemm_small_tiles")):
        compiled = torch.compile(lambda x, y, f=product: f(x + 1, y) * 2, backend="eager")
        torch.testing.assert_close(compiled(a, b), (a + 1) @ b.T * 2, atol=0.2, rtol=0.02)
    with pytest.raises(CallError, match=r"A is a tensor without memory.*torch_operator"):
        torch.vmap(kernel)(a[None], b[None])


def test_shapes_alone_are_checked():
    """The fake kernel refuses what the launch would, also for extents that are symbols."""
    operator = titan.torch_operator(titan.load(package("gemm_small_tiles")), "shapes_for_a_test")
    b = torch.empty(24, 64, dtype=torch.bfloat16, device="meta")
    assert operator(torch.empty_like(b)[:3], b).shape == (3, 24)
    assert operator(torch.empty(3, 64, dtype=torch.int16, device="meta"), b).shape == (3, 24)
    for wrong in (torch.empty_like(b)[:, :32], torch.empty_like(b)[0], torch.empty_like(b).float()):
        with pytest.raises((CallError, RuntimeError), match="gemm_small_tiles"):
            operator(wrong, b)
    a = torch.randn(16, 64).bfloat16()
    compiled = torch.compile(operator, backend="eager", dynamic=True, fullgraph=True)
    assert compiled(a, a[:8]).shape == (16, 8)
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="another extent than K"):
        compiled(a, torch.randn(8, 32).bfloat16())


@pytest.mark.parametrize("name", ["a b", "a.b", "1a"])
def test_names_of_operators(name):
    with pytest.raises(CallError, match="no name of an operator"):
        titan.torch_operator(titan.load(package("gemm_small_tiles")), name)


def test_a_backward_gives_one_gradient_for_each_input():
    kernel = titan.load(package("gemm_small_tiles"))
    a, b = torch.randn(16, 64).bfloat16(), torch.randn(8, 64).bfloat16()
    for number, backward in enumerate((lambda i, o, g: g[0] @ i[1], lambda i, o, g: (g[0],))):
        operator = titan.torch_operator(kernel, f"few_for_a_test_{number}", backward)
        with pytest.raises(CallError, match=r"the backward gave .* where 2 gradients are taken"):
            operator(a.clone().requires_grad_(), b).sum().backward()


def test_a_gradient_through_a_plain_call_is_an_error(tmp_path):
    """And not left out without a word; without recording outputs are as those of any function."""
    kernel = titan.load(package("gemm_small_tiles"))
    packages = titan.Library(linked(tmp_path, "gemm_small_tiles"))
    a, b = torch.randn(16, 64).bfloat16().requires_grad_(), torch.randn(8, 64).bfloat16()
    for product in (kernel, lambda *given: packages(*given, kernel="gemm_small_tiles")):
        with pytest.raises(CallError, match=r"no gradient flows.*titan\.torch_operator"):
            product(a, b).sum().backward()
        with torch.no_grad():
            assert not product(a, b).requires_grad
        assert not product(a.detach(), b).requires_grad


def test_no_gradient_is_left_out_by_out(tmp_path):
    """As PyTorch's own functions with `out` refuse it; what is written is noted as written."""
    kernel = titan.load(package("gemm_small_tiles"))
    packages = titan.Library(linked(tmp_path, "gemm_small_tiles"))
    a, b = torch.randn(16, 64).bfloat16(), torch.randn(8, 64).bfloat16()
    out = torch.zeros(16, 8).bfloat16()
    wanted = a.clone().requires_grad_()
    for product in (kernel, partial(packages, kernel="gemm_small_tiles")):
        for given, place in ((wanted, out), (a, out.clone().requires_grad_())):
            with pytest.raises(CallError, match=r"with `out`; under torch\.no_grad\(\)"):
                product(given, b, out=place)
        with torch.no_grad():
            product(wanted, b, out=out)
        saved = out.clone().requires_grad_().exp()  # its gradient needs what it holds
        product(a, b, out=saved.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            saved.sum().backward()


def test_no_tangent_is_left_out(tmp_path):
    """Forward-mode gradients. `torch.func.jvp` of an operator is PyTorch's own, and gives zeros."""
    kernel = titan.load(package("gemm_small_tiles"))
    packages = titan.Library(linked(tmp_path, "gemm_small_tiles"))
    operator = titan.torch_operator(kernel, "forward_for_a_test", lambda i, o, g: (None, None))
    a, b = torch.randn(16, 64).bfloat16(), torch.randn(8, 64).bfloat16()
    forward = torch.autograd.forward_ad
    for product in (kernel, operator, partial(packages, kernel="gemm_small_tiles")):
        with forward.dual_level(), pytest.raises(CallError, match=r"has a tangent \(jvp"):
            product(forward.make_dual(a, a), b)
        with forward.dual_level():
            assert forward.unpack_dual(product(a, b)).tangent is None
        if product is not operator:
            with pytest.raises(CallError, match=r"has a tangent|without memory"):
                torch.func.jvp(partial(product, a), (b,), (b,))


def test_tensors_that_are_not_what_their_memory_holds():
    kernel = titan.load(package("transform"))
    values = torch.randn(16, 64)
    negated = torch._neg_view(values)
    with pytest.raises(CallError, match=r"X is a view whose.* X\.resolve_neg\(\) makes them"):
        kernel(negated)
    assert torch.equal(kernel(negated.resolve_neg()), (-0.125 * values).bfloat16())
    gone = torch.randn(16, 64)
    gone.untyped_storage().resize_(0)  # as those who share parameters among processes do
    with pytest.raises(CallError, match="X has no memory"):
        kernel(gone)


def test_training_is_traced_though_the_backward_calls_packages():
    kernel = titan.load(package("gemm_small_tiles"))

    def backward(inputs, outputs, gradients):
        a, b = inputs
        (gradient,) = gradients
        columns = kernel(gradient.T.contiguous(), a.T.contiguous())
        return kernel(gradient.contiguous(), b.T.contiguous()), columns

    operator = titan.torch_operator(kernel, "trained_for_a_test", backward)
    a, b = torch.randn(16, 64).bfloat16(), torch.randn(8, 64).bfloat16()
    torch.library.opcheck(operator, (a.clone().requires_grad_(), b.clone().requires_grad_()))
    found = []
    for call in (operator, torch.compile(operator, backend="aot_eager", fullgraph=True)):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        call(x, y).square().sum().backward()
        found.append((x.grad, y.grad))
    torch.testing.assert_close(found[0], found[1])


def test_a_traced_backward_gives_zeros_for_none_and_no_view_of_what_it_was_given():
    kernel = titan.load(package("gemm_small_tiles"))
    operator = titan.torch_operator(
        kernel, "passed_for_a_test", lambda i, o, g: (i[0] if i[0].shape[0] > 1 else i[1], None)
    )
    compiled = torch.compile(operator, backend="aot_eager", fullgraph=True)
    a, b = torch.randn(16, 64).bfloat16().requires_grad_(), torch.randn(8, 64).bfloat16()
    b.requires_grad_()
    compiled(a, b).sum().backward()
    torch.testing.assert_close(a.grad, a.detach())
    assert a.grad.data_ptr() != a.data_ptr()
    assert not b.grad.any()
    with pytest.raises(CallError, match=r"a gradient of shape \[8, 64\] where \[1, 64\]"):
        compiled(a[:1], b).sum().backward()


def test_sizes_that_no_shape_names_are_arguments_of_an_operator():
    """Parts of a product, which lead its output alone; extents that are products."""
    split = titan.torch_operator(
        titan.load(package("gemm_split_k_small_tiles")), "parts_for_a_test"
    )
    a, b = torch.randn(16, 136).bfloat16(), torch.randn(8, 136).bfloat16()
    found = split(a, b, parts=2)
    torch.testing.assert_close(found.sum(0), a.float() @ b.float().T, atol=0.2, rtol=0.02)
    torch.library.opcheck(split, (a, b, 2))
    name = "attention_decode_paged_parts"
    decode = titan.torch_operator(titan.load(package(name)), "decode_for_a_test")
    kinds = {"bf16": torch.bfloat16, "i32": torch.int32}
    sizes = {"batch": 2, "kv_heads": 3, "rows": 4, "keys": 64, "parts": 5}
    shapes = titan.load(package(name)).manifest["tensors"]
    arrays = [
        torch.empty(
            [int(text) if text.isdecimal() else sizes.get(text, 7) for text in item["shape"]],
            dtype=kinds[item["dtype"]], device="meta",
        )
        for item in shapes if not item["output"]
    ]  # fmt: skip
    outputs = decode(*arrays, parts=5)
    assert 3 * 128 in outputs[0].shape, [item["shape"] for item in shapes]


@pytest.mark.heavy
def test_the_example_runs(tmp_path, monkeypatch, capsys):
    for name in ("gemm", "attention_forward_64"):
        package(name)
    (tmp_path / "out").symlink_to(FOLDER)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(root("examples") / "torch_matmul_attention.py"))
    assert "the same as PyTorch's" in capsys.readouterr().out
