"""Packages in PyTorch, where it is installed: a call, a custom operator, gradients, the example."""

from __future__ import annotations

import runpy

import pytest

import titan
from tests.runtime.packages import FOLDER, package
from titan.foundation.resources import root
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


@pytest.mark.heavy
def test_the_example_runs(tmp_path, monkeypatch, capsys):
    for name in ("gemm", "attention_forward_64"):
        package(name)
    (tmp_path / "out").symlink_to(FOLDER)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(root("examples") / "torch_matmul_attention.py"))
    assert "the same as PyTorch's" in capsys.readouterr().out
