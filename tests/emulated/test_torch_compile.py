"""`torch.compile` under `titan run`: Inductor writes Triton, and each launch is verified."""

from __future__ import annotations

import importlib.util

import pytest

from tests.emulated.test_torch_cuda import alone

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "triton")),
    reason="PyTorch or Triton is not installed",
)
HEAD = """
import torch, triton, triton.language as tl
import torch.nn.functional as F

torch.manual_seed(0)
made = lambda *shape: torch.randn(*shape, device="cuda")


def agree(function, *given, close=1e-5, **options):
    # results and gradients of the function, compiled and not
    found = []
    for called in (torch.compile(function, **options), function):
        inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in given]
        result = called(*inputs)
        if result.requires_grad:
            (result * torch.linspace(-1, 1, result.numel()).view(result.shape)).sum().backward()
        found.append([result.detach(), *(x.grad for x in inputs if x.grad is not None)])
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, atol=close, rtol=close)
"""
FUNCTIONS = """
agree(lambda x, y: torch.sigmoid(x) * y + torch.tanh(y), made(33, 50), made(33, 50))
agree(lambda x: torch.softmax(x * 2, -1), made(9, 100))
agree(lambda x: torch.cat([x, 2 * x], 1).relu(), made(5, 33))
agree(lambda w, at: F.embedding(at, w) * 2, made(10, 64), torch.tensor([1, 2, 2, 7], device="cuda"))
agree(lambda x: x + torch.tensor([1.0, 2.0, 3.0] * 5, device="cuda"), made(4, 15))
agree(lambda x: torch.sort(x, -1)[0].cumsum(-1), made(3, 20))
agree(lambda x: (x.relu() * 2).sum(-1), made(6, 33), mode="reduce-overhead")
agree(torch.nn.BatchNorm1d(6).cuda(), made(8, 6))
agree(lambda x: x.std(0), made(100, 5))
agree(lambda x: torch.zeros(3, 7, device=x.device) + x.to("cuda").flip(1)[1:], made(4, 7))
"""
OTHERS = """
shapes = torch.compile(lambda x: (x.relu() + 1).sum(-1), dynamic=True)
for rows, columns in ((5, 7), (9, 70)):
    x = made(rows, columns)
    torch.testing.assert_close(shapes(x), (x.relu() + 1).sum(-1))

x = made(1000).requires_grad_()
y = torch.compile(lambda x: F.dropout(x, 0.5))(x)
y.sum().backward()
assert ((y == 0) == (x.grad == 0)).all() and 300 < (y == 0).sum() < 700


@triton.jit
def double(x, y, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def twice(x):
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), block=64)
    return y.relu() + 1


x = made(300)
torch.testing.assert_close(torch.compile(twice)(x), (2 * x).relu() + 1)

found = []
for compiled in (True, False):
    torch.manual_seed(3)
    weights = [torch.nn.Parameter(torch.randn(*size, device="cuda")) for size in ((7, 9), (50,))]
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    step = torch.compile(optimizer.step) if compiled else optimizer.step
    for _ in range(2):
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        step()
    found.append([weight.detach() for weight in weights])
for one, other in zip(*found):
    torch.testing.assert_close(one, other)
"""


def verified(folder, script):
    code, text = alone(folder, HEAD + script)
    assert code == 0, text
    assert "computed: " in text
    assert "refuted" not in text
    assert "undecided" not in text
    return int(text.rpartition("titan: ")[2].split()[0])


def test_functions_are_compiled_to_triton_and_agree(tmp_path):
    assert verified(tmp_path, FUNCTIONS) >= 20


def test_shapes_random_numbers_kernels_of_the_program_and_optimizers(tmp_path):
    assert verified(tmp_path, OTHERS) >= 6


MUTANT = """
from torch._inductor.codegen.triton import TritonKernel

before = TritonKernel.codegen_kernel
TritonKernel.codegen_kernel = lambda *a, **k: before(*a, **k).replace({old!r}, {new!r})
x = made(5000)
torch.compile(lambda x: x.sin() + 1)(x)
"""
STORED = "tl.store(out_ptr0 + (x0), tmp3, xmask)"


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (STORED, ""),
        (STORED.replace("xmask", "None"), "TTN218"),
        (STORED.replace("x0", "x0 - xoffset"), "TTN201"),
    ],
)
def test_a_generated_kernel_that_is_broken_is_refuted(tmp_path, new, code):
    """It stores beyond the tensor, or all programs store to one place."""
    found, text = alone(tmp_path, HEAD + MUTANT.format(old=STORED, new=new))
    assert found == (1 if code else 0), text
    assert f"error[{code}]" in text if code else " verified" in text
