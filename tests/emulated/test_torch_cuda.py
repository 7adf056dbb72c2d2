"""Scripts of PyTorch that ask for a GPU, under `titan run`: their tensors are on the CPU."""

from __future__ import annotations

import importlib.util

import pytest

from titan.cli.main import run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (`make gauss`)"
)
SCRIPT = """
import torch

assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
assert torch.cuda.get_device_properties(0).multi_processor_count == 132
x = torch.arange(8.0, device="cuda")
y = x.to(torch.device("cuda:0")) * 2 + torch.ones(8).cuda()
assert y.cpu().tolist() == [2.0 * n + 1 for n in range(8)]
copy = x.cuda()
copy[0] = 7
assert x[0] == 0, "a copy"
assert x.data_ptr() % 256 == 0 and x.untyped_storage().nbytes() == 32
host = torch.zeros(4)
there = host.to("cuda")
there += 1
back = there.cpu()
there += 1
assert host.sum() == 0 and back.sum() == 4 and there.to("cpu").sum() == 8, "two memories"
w = torch.zeros(2, 3, device="cuda", requires_grad=True)
assert w.is_leaf and w.requires_grad
t = torch.arange(6.0).view(2, 3).t().to("cuda")
assert t.stride() == (1, 3) and t[2, 1] == 5
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
    z = torch.nn.Linear(8, 2).to("cuda")(x)
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0 and torch.cuda.current_stream().cuda_stream == 0
z.sum().backward()
print("all on the CPU", z.device)
"""


def test_a_script_for_a_gpu_runs(tmp_path, capfd):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    code, found = run(["run", str(path)]), capfd.readouterr()
    assert code == 0, found.err
    assert "all on the CPU cpu" in found.out
    import torch

    assert not torch.cuda.is_available(), "PyTorch is as it was"
    with pytest.raises((AssertionError, RuntimeError)):
        torch.ones(1, device="cuda")


GRAPH = """
import torch

x = torch.zeros(8, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.stream(torch.cuda.Stream()):
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = x * 2
        x.add_(y + 1)
        z = x.view(2, 4).sum(0)
assert not torch.cuda.is_current_stream_capturing()
x.zero_()
for _ in range(2):
    graph.replay()
torch.cuda.synchronize()
assert x.tolist() == [4.0] * 8 and y.tolist() == [2.0] * 8 and z.tolist() == [8.0] * 4, (x, y, z)
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()), torch.cuda.graph(torch.cuda.CUDAGraph()):
        pass
except RuntimeError:
    assert not torch.cuda.is_current_stream_capturing()
    print("one graph at a time")
"""
LAUNCHES = """
import torch, triton, triton.language as tl

@triton.jit
def add(p, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(p + at, tl.load(p + at) + 1)

x = torch.zeros(64, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    add[(1,)](x, 64)
    x *= 2
graph.replay()
x.zero_()
graph.replay()
graph.replay()
assert x.tolist() == [6.0] * 64, x
from triton._C.libtriton import nvidia
a, b, c = torch.ones(4, 8).half(), torch.ones(6, 8).half(), torch.zeros(4, 6).half()
blas = nvidia.cublas.CublasLt(torch.empty(64, dtype=torch.uint8, device="cuda"))
blas.matmul(a, b, c)
assert c.tolist() == [[8.0] * 6] * 4
blas.gemm(a, b, c, c, 0.5, 2.0)
assert c.tolist() == [[20.0] * 6] * 4
"""


def test_a_graph_does_again_what_was_captured(tmp_path, capfd):
    path = tmp_path / "script.py"
    path.write_text(GRAPH)
    code, found = run(["run", str(path)]), capfd.readouterr()
    assert code == 0, found.err
    assert "one graph at a time" in found.out


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_launches_of_a_graph_are_run_at_each_replay(tmp_path, capfd):
    path = tmp_path / "script.py"
    path.write_text(LAUNCHES)
    code, found = run(["run", str(path)]), capfd.readouterr()
    assert code == 0, found.err
    assert "3 launches computed: 3 verified" in found.err
