"""Programs of CuTe DSL under `titan run` (`make cute` installs it): numbers, verdicts, places."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("nvidia_cutlass_dsl", "torch")),
    reason="CuTe DSL and PyTorch are not installed (`make cute`)",
)
REVERSED = """
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    tile = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(128), 16)
    tile[thread] = x[block * 128 + thread]
    {barrier}
    y[block * 128 + thread] = tile[127 - thread] * 2.0


@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=[4, 1, 1], block=[128, 1, 1])


x, y = torch.arange(512.0, device="cuda"), torch.zeros(512, device="cuda")
launch(from_dlpack(x), from_dlpack(y))
torch.cuda.synchronize()
assert torch.equal(y.view(4, 128), 2 * x.view(4, 128).flip(1))
print("as it should be")
"""
BARRIER = "cute.arch.sync_threads()"


def ran(tmp_path, text, *options):
    path = tmp_path / "script.py"
    path.write_text(text)
    command = [sys.executable, "-m", "titan", "run", *options, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("device", ["h100", "b200"])
def test_a_program_is_checked_and_computed(tmp_path, device):
    done = ran(tmp_path, REVERSED.format(barrier=BARRIER), "--device", device)
    assert done.returncode == 0, done.stderr
    assert "as it should be" in done.stdout
    assert "titan: 1 launch computed: 1 verified" in done.stderr


def test_a_race_is_refuted_at_the_line_of_the_script(tmp_path):
    done = ran(tmp_path, REVERSED.format(barrier="pass"))
    assert done.returncode == 1
    line = 1 + REVERSED[: REVERSED.index("    tile[thread] =")].count("\n")
    assert "TTN204" in done.stderr or "TTN201" in done.stderr
    assert f"script.py:{line}" in done.stderr or f"script.py:{line + 2}" in done.stderr
    assert "as it should be" not in done.stdout


def test_nothing_is_changed_where_a_program_does_not_use_it(tmp_path):
    done = ran(tmp_path, "import sys; assert 'cutlass' not in sys.modules; print('alone')")
    assert done.returncode == 0 and "alone" in done.stdout
