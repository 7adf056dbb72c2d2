"""Scripts of PyTorch that ask for a GPU, under `titan run`: their tensors are on the CPU."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

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
there = host.requires_grad_().to("cuda")
(there.cuda() * 3).sum().backward()
assert host.grad.tolist() == [3.0] * 4, "gradients come back"
assert x.is_cuda and torch.nn.Linear(2, 2).cuda().weight.is_cuda, "as kernels' wrappers assert"
ways = "def way(x): return 'of CUDA' if x.is_cuda else 'of the CPU'"
exec(ways, inside := {"__name__": "torch.nn.functional"})
assert inside["way"](x) == "of the CPU", "PyTorch takes its own ways"
for device in (torch.device("cuda", 0), torch.device(type="cuda", index=0), torch.device(0), 0):
    assert torch.ones(2, device=device).is_cuda and torch.ones(2).to(device).sum() == 2
assert torch.ones(2).to(device=0).cuda(0).sum() == 2 and torch.nn.Linear(2, 2).cuda(0).bias.is_cuda
assert torch.nn.Linear(2, 2).to(0).bias.is_cuda
assert torch.cuda.device(0).idx == 0 and isinstance(torch.cuda.device(x), torch.cuda.device)
with torch.cuda.device_of(x):
    pass
generator = torch.cuda.default_generators[torch.cuda.current_device()]
torch.manual_seed(7)
state = generator.get_state()
assert state.view(torch.int64).tolist() == [7, 0] and generator.initial_seed() == 7
state.view(torch.int64)[1] += 8
generator.set_state(state)
assert generator.get_offset() == 8 and generator.get_state().equal(state), "as kernels draw"
torch.manual_seed(7)
assert generator.get_offset() == 0
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


def alone(folder: Path, script: str, *arguments: str) -> tuple[int, str]:
    """The exit code of `titan run` in a process of its own, and what it prints of launches."""
    path = folder / "script.py"
    path.write_text(script)
    command = [sys.executable, "-m", "titan", "run", str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_graph_does_again_what_was_captured(tmp_path, capfd):
    path = tmp_path / "script.py"
    path.write_text(GRAPH)
    code, found = run(["run", str(path)]), capfd.readouterr()
    assert code == 0, found.err
    assert "one graph at a time" in found.out


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_launches_of_a_graph_are_run_at_each_replay(tmp_path):
    code, text = alone(tmp_path, LAUNCHES)
    assert code == 0, text
    assert "3 launches computed: 3 verified" in text


LISTS = """
import torch, triton, triton.language as tl

@triton.jit
def scale(pointers, sizes, n, BLOCK: tl.constexpr):
    which = tl.program_id(0)
    p = tl.load(pointers + which).to(tl.pointer_type(tl.float32))
    size = tl.load(sizes + which)
    at = tl.arange(0, BLOCK)
    inside = at < size + n
    tl.store(p + at, 2 * tl.load(p + at, mask=inside), mask=inside)

arrays = [torch.ones(count, device="cuda") for count in (5, 64, 17)]
pointers = torch.tensor([a.data_ptr() for a in arrays], device="cuda")
sizes = torch.tensor([a.numel() for a in arrays], dtype=torch.int32, device="cuda")
scale[(3,)](pointers, sizes, 0, 128)
assert all((a == 2).all() for a in arrays), arrays
import sys
if len(sys.argv) > 1:
    scale[(3,)](pointers, sizes, 1, 128)
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_pointers_in_a_tensor_lead_to_tensors(tmp_path):
    """As the lists of a grouped GEMM; what lies behind the storage of one is out of bounds."""
    code, text = alone(tmp_path, LISTS)
    assert code == 0, text
    assert "1 launch computed: 1 verified" in text
    code, text = alone(tmp_path, LISTS, "beyond")
    assert code == 1
    assert "TTN218" in text


SCALED = """
import torch
from triton._C.libtriton import nvidia

torch.manual_seed(0)
blas = nvidia.cublas.CublasLt(torch.empty(64, dtype=torch.uint8, device="cuda"))
m, n, k = 128, 256, 256


def tiled(scales):  # rows by blocks, as cuBLAS has them
    rows, columns = scales.shape
    out = torch.empty(rows * columns, dtype=scales.dtype)
    for row in range(rows):
        for column in range(columns):
            tile = row // 128 * (columns // 4) + column // 4
            out[tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4] = scales[row, column]
    return out


a, b = (torch.randint(-4, 5, (rows, k)).float() for rows in (m, n))
s, t = (torch.randint(125, 130, (rows, k // 32), dtype=torch.uint8) for rows in (m, n))
c = torch.empty(m, n)
e4m3 = torch.float8_e4m3fn
blas.block_scaled_matmul_mxfp8(a.to(e4m3), b.to(e4m3), c, tiled(s), tiled(t))
wide = lambda x, scale, count: x * scale.repeat_interleave(count, 1)
powers = [torch.exp2(x.float() - 127) for x in (s, t)]
assert torch.equal(c, wide(a, powers[0], 32) @ wide(b, powers[1], 32).T)

values = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
x, y = (torch.randint(0, 16, (rows, k), dtype=torch.uint8) for rows in (m, n))
s, t = (torch.tensor([.5, 1, 2, 3])[torch.randint(0, 4, (rows, k // 16))] for rows in (m, n))
packed = [of[:, ::2] | of[:, 1::2] << 4 for of in (x, y)]
blas.block_scaled_matmul_nvfp4(*packed, c, tiled(s).to(e4m3), tiled(t).to(e4m3))
assert torch.equal(c, wide(values[x.long()], s, 16) @ wide(values[y.long()], t, 16).T)
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_products_with_block_scales_are_those_of_cublas(tmp_path):
    code, text = alone(tmp_path, SCALED)
    assert code == 0, text
