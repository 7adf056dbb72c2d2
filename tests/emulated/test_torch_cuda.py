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
