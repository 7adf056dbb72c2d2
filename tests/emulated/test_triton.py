"""Kernels of Triton and Gluon run on the emulated device, unchanged, checked and with numbers."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module

import numpy as np
import pytest

from tests.emulated.tensors import HostTensor
from titan.cli.main import run
from titan.emulated.faults import LaunchFault
from titan.emulated.settings import CheckMode, EmulationSettings
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.isa.numbers.device import LaunchError

SLOW = ("attention_backward_32",)  # its values are traced
triton = pytest.importorskip("triton", reason="Triton is not installed (extra `dev`)")

from tests.emulated import triton_examples as examples  # noqa: E402
from tests.emulated.triton_driver import checking_driver  # noqa: E402
from tests.frontends import triton_kernels  # noqa: E402


@pytest.fixture(autouse=True)
def device(tmp_path_factory, monkeypatch):
    """The driver of the back end, checking every launch; what it replaced comes back after."""
    from titan.emulated.machine import LaunchQueue

    made = checking_driver(tmp_path_factory, monkeypatch, "nvidia")
    assert isinstance(made.queue, LaunchQueue)
    return made


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=(pytest.mark.heavy,) if name in SLOW else ())
        for name in sorted(examples.EXAMPLES)
    ],
)
def test_kernels_agree_with_numpy_and_every_launch_is_verified(name, device):
    example, tolerance = examples.EXAMPLES[name]
    got, right = example(np.random.default_rng(1))
    assert np.abs(got.astype(np.float64) - right).max() <= tolerance
    assert device.queue.checker.verdicts == {Verdict.VERIFIED: device.queue.launches}
    assert device.queue.launches == 1


SECOND_OPINION = """
import sys
import numpy as np
import torch
from tests.emulated.triton_examples import EXAMPLES

made = {
    name: run(np.random.default_rng(1), torch.from_numpy)[0] for name, (run, _) in EXAMPLES.items()
}
np.savez(sys.argv[1], **made)
"""


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_numbers_are_those_of_the_interpreter_of_triton(tmp_path):
    """It works on tiles in NumPy and shares nothing with PTX."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    made = tmp_path / "made.npz"
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", SECOND_OPINION, str(made)]
    subprocess.run(command, env=environment, check=True)
    others = np.load(made)
    for name, (example, tolerance) in examples.EXAMPLES.items():
        got, _ = example(np.random.default_rng(1))
        far = np.abs(got.astype(np.float64) - others[name].astype(np.float64)).max()
        assert far <= max(tolerance, 1e-6), name


def descriptors(*pairs: tuple[np.ndarray, list[int]]) -> list[object]:
    """Descriptors of Triton over arrays, with their boxes."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return [TensorDescriptor.from_tensor(HostTensor(array), box) for array, box in pairs]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("specialised", [False, True])
def test_a_pipeline_of_triton_runs_to_the_bit(specialised, device):
    """Tensor descriptors, three stages, with and without specialised warps."""
    random = np.random.default_rng(2)
    a, b = (random.integers(-3, 4, (128, 192)).astype(np.float16) for _ in range(2))
    c = np.zeros((128, 128), dtype=np.float16)
    triton_kernels.pipelined_gemm[(2,)](
        *descriptors((a, [64, 64]), (b, [128, 64]), (c, [64, 128])), 128, 128, 192,
        ROWS=64, COLUMNS=128, INNER=64, SPECIALISED=specialised, STAGES=3, num_warps=4,
    )  # fmt: skip
    assert np.array_equal(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T)
    assert device.queue.checker.verdicts == {Verdict.VERIFIED: 1}


def ring_gemm(fault: int) -> tuple[np.ndarray, np.ndarray]:
    """One CTA of the warp-specialised GEMM in Gluon, K = 256."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    random = np.random.default_rng(2)
    a, b = (random.integers(-3, 4, (rows, 256)).astype(np.float16) for rows in (64, 128))
    c = np.zeros((64, 128), dtype=np.float16)
    described = []
    for array, box in ((a, [64, 64]), (b, [128, 64]), (c, [64, 128])):
        layout = gl.NVMMASharedLayout.get_default_for(box, gl.float16)
        described.append(TensorDescriptor.from_tensor(HostTensor(array), box, layout))
    triton_kernels.ring_gemm[(1,)](*described, 128, 256, DEPTH=2, FAULT=fault, num_warps=4)
    return c, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gluon_with_descriptors_runs_to_the_bit(device):
    got, right = ring_gemm(0)
    assert np.array_equal(got.astype(np.float32), right)
    assert device.queue.checker.verdicts == {Verdict.VERIFIED: 1}


def test_programs_divide_by_the_registers_of_a_thread(device):
    """As they do for an occupancy: at most what a thread of such a block can have."""
    text = ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k() {line} {{ ret; }}"
    for line, registers in (("", 64), (".reqntid 128", 255), (".reqntid 384", 168)):
        ptx = text.format(line=line).encode()
        _, _, found, spilled, _ = device.utils.load_binary("k", ptx, 0, 0)
        assert (found, spilled) == (registers, 0)


@pytest.fixture
def scratch():
    """Memory for what kernels make, as a program has to set it."""
    from triton.runtime._allocation import NullAllocator

    def memory(size: int, alignment: int, stream: object) -> HostTensor:
        held = np.zeros(size + alignment, dtype=np.int8)
        return HostTensor(held[-held.ctypes.data % alignment :][:size])

    triton.set_allocator(memory)
    yield
    triton.set_allocator(NullAllocator())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_descriptors_that_a_kernel_makes_are_known(device, scratch):
    x = np.arange(96 * 64, dtype=np.float16).reshape(96, 64) % 1000
    out = np.zeros_like(x)
    triton_kernels.described_copy[(2,)](x, out, 96, 64, ROWS=32, COLUMNS=64)
    assert np.array_equal(out, x * 2)
    assert device.queue.checker.verdicts == {Verdict.VERIFIED: 1}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("down", "right"), [(0, 0), (1, 2)])
def test_descriptors_of_pixels_are_filters_over_an_image(down, right, device):
    """A 3 x 3 filter around each pixel, of which one place is loaded; the border is zero."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col

    image = np.arange(1, 4 * 4 * 32 + 1, dtype=np.float32).reshape(1, 4, 4, 32)
    out = np.zeros((16, 32), dtype=np.float32)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    pixels = TensorDescriptorIm2Col.from_tensor(
        HostTensor(image), [16, 32], layout, element_strides=[1, 1, 1, 1],
        pixel_box_lower_corner=[-1, -1], pixel_box_upper_corner=[-1, -1],
    )  # fmt: skip
    to = TensorDescriptor.from_tensor(HostTensor(out), [16, 32], layout)
    triton_kernels.load_pixels[(1,)](pixels, to, down, right, num_warps=1)
    padded = np.pad(image[0], ((1, 1), (1, 1), (0, 0)))
    assert np.array_equal(out, padded[down : down + 4, right : right + 4].reshape(16, 32))
    assert device.queue.checker.verdicts == {Verdict.VERIFIED: 1}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_whose_numbers_lie_in_memory_are_gathered(monkeypatch, device):
    """Their numbers go from warp to warp by stmatrix; memory decides the launch."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    monkeypatch.setattr(device, "settings", EmulationSettings(device="b200"))
    x = np.arange(64 * 64, dtype=np.float16).reshape(64, 64) % 1000
    rows = np.array([3, 60, 3, 0, 17, 18, 63, 5], dtype=np.int32)
    out = np.zeros((8, 64), dtype=np.float16)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    described = [
        TensorDescriptor.from_tensor(HostTensor(array), box, layout)
        for array, box in ((x, [1, 64]), (out, [8, 64]))
    ]
    triton_kernels.gather_rows[(1,)](described[0], rows, described[1], ROWS=8, num_warps=4)
    assert np.array_equal(out, x[rows])
    assert device.queue.checker.verdicts == {Verdict.VERIFIED: 1}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("fault", "line"), [(1, "mbarrier.expect(ready"), (3, "tma.async_load(")])
def test_a_fault_of_the_ring_is_reported_at_the_line_of_python(fault, line, device):
    with pytest.raises(LaunchFault, match=r"triton_kernels\.py:\d+") as caught:
        ring_gemm(fault)
    (found, *_) = caught.value.findings
    assert found.span is not None and line in found.span.excerpt()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("check", [CheckMode.ALL, CheckMode.OFF])
def test_an_access_out_of_bounds_stops_the_program(check, device):
    device.queue.checker.settings = EmulationSettings(check=check)
    x, out = np.zeros(300, dtype=np.float32), np.zeros(300, dtype=np.float32)
    with pytest.raises(LaunchFault) as caught:
        examples.add_kernel[(3,)](x, x, out, 400, BLOCK=128)
    (found, *_) = caught.value.findings
    assert found.code == "TTN218"
    assert found.span is not None and "tl.load(x" in found.span.excerpt()


def test_an_array_of_another_type_is_refused():
    with pytest.raises(LaunchError, match="complex64"):
        array = np.zeros(4, dtype=np.complex64)
        examples.add_kernel[(1,)](array, array, array, 4, BLOCK=128)


def test_the_entry_point_names_a_package_as_triton_wants_it():
    """Triton looks for one class of each kind in `compiler` and in `driver`."""
    from triton.backends import _find_concrete_subclasses
    from triton.backends.compiler import BaseBackend
    from triton.backends.driver import DriverBase

    project = root("protocols").parent / "pyproject.toml"
    points = tomllib.loads(project.read_text())["project"]["entry-points"]["triton.backends"]
    package = points["titan"]
    compiler = import_module(f"{package}.compiler")
    assert _find_concrete_subclasses(compiler, BaseBackend) is compiler.TitanCompiler
    driver = import_module(f"{package}.driver")
    assert _find_concrete_subclasses(driver, DriverBase) is driver.TitanDriver
    assert not compiler.TitanCompiler.supports_target(driver.TitanDriver().get_current_target())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_example_of_the_readme_runs(capsys):
    command = "titan run examples/triton_softmax.py"
    assert command in (root("protocols").parent / "README.md").read_text(encoding="utf-8")
    driver = triton.runtime.driver
    driver._active = driver._default = None
    assert run(["run", str(root("examples") / "triton_softmax.py")]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("8 rows, largest difference from NumPy ")
    assert float(shown.out.split()[-1]) < 1e-6
    assert shown.err == "titan: 1 launch computed: 1 verified\n"


def test_autotuning_counts_instructions_and_checks_each_configuration(device):
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, dtype=np.float32)
    tuned = triton.autotune(
        [triton.Config({"BLOCK": 256}, num_warps=warps) for warps in (8, 1, 4)], key=[]
    )(examples.add_kernel)
    tuned[(1,)](HostTensor(x), HostTensor(x), HostTensor(y), 256)
    assert np.array_equal(y, x + x)
    costs = {config.num_warps: cost[0] for config, cost in tuned.configs_timings.items()}
    assert len(costs) == 3 and all(cost == int(cost) > 0 for cost in costs.values())
    assert tuned.best_config.num_warps == min(costs, key=costs.__getitem__)
    assert device.queue.checker.verdicts[Verdict.VERIFIED] >= 3


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_do_bench_measures_warp_instructions(device):
    """As scripts and tuners call it, who time what they compute."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from triton.testing import do_bench

    example, _ = examples.EXAMPLES["vector_add"]
    example(np.random.default_rng(1))
    once = device.queue.instructions
    measured = do_bench(lambda: example(np.random.default_rng(1)), quantiles=(0.5, 0.8))
    assert measured == pytest.approx([once, once])


class Piece:
    """Bytes at an address, as a tensor gives them."""

    def __init__(self, address: int, count: int) -> None:
        self.address, self.count = address, count

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return 1

    def reshape(self, _: int) -> Piece:
        return self

    def __getitem__(self, part: slice) -> Piece:
        return Piece(self.address + part.start, self.count - part.start)


@pytest.mark.parametrize("start", [0, 64, 100, 192])
def test_scratch_memory_begins_where_a_gpu_would_have_it(start):
    """Descriptors that a kernel makes lie at multiples of 128 bytes."""
    from titan.emulated.triton.launcher import _aligned

    found = _aligned(lambda count, align, stream: Piece(0x1000 + start, count), 300, 128, 0)
    assert found.data_ptr() % 128 == 0
    assert found.count >= 300
    assert found.data_ptr() >= 0x1000 + start
