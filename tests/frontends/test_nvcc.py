"""What nvcc compiles here and now: small CUDA kernels, clean and with faults."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.verify_code import CodeOptions, verify_code
from titan.validate.compare.compile import nvcc
from titan.verify.model import Finding

FOLDER = Path(__file__).parent / "cuda"
RING = FOLDER / "ring.cu"
LAUNCH = "{grid: 2, block: 160, dynamic_shared: 0, parameters: [pointer, pointer, 7]}"

pytestmark = pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")


def compiled(folder: Path, fault: int) -> Finding:
    out = folder / f"ring{fault}.ptx"
    command = [str(nvcc()), "-arch=sm_90a", "-ptx", "-lineinfo", f"-DFAULT={fault}"]
    subprocess.run([*command, "-o", str(out), str(RING)], check=True, capture_output=True)
    described, errors = read_launch_text(LAUNCH, "ring.yaml")
    assert errors == []
    source = Source(out.name, out.read_text(encoding="utf-8"))
    options = CodeOptions(sweep=fault == 0, ctas=(0,))
    (finding,) = verify_code(source, described, options, [], 0.0)
    return finding


@pytest.mark.parametrize("fault", [0, pytest.param(1, marks=pytest.mark.heavy), 2])
def test_a_ring_in_cuda(tmp_path, fault):
    finding = compiled(tmp_path, fault)
    expected = Verdict.REFUTED if fault else Verdict.VERIFIED
    assert finding.verdict is expected, finding.notes
    if fault:
        labels = " ".join(one.label for item in finding.diagnostics for one in item.annotations)
        assert "ring.cu:" in labels
    else:
        runs = " ".join(finding.coverage.launches)
        assert "parameter 2 = 0, 1, 2, 3, 4, 15 (" in runs


TILES = "map: {data_type: f32, dimensions: [32, 256], box: [32, 32]}"
KERNELS = {  # the launch, and the rules that a fault breaks: one of them is shown
    "copy_pipeline": (
        "{grid: 2, block: 128, parameters: [pointer, pointer, 5]}",
        ("TTN203", "TTN203", "TTN203", "TTN203"),
    ),
    "tensor_map": (
        f"{{grid: 1, block: 128, parameters: [{{{TILES}}}, {{{TILES}}}, 4]}}",
        ("TTN206 or TTN202", "TTN205", "TTN301", "TTN202", "TTN202"),
    ),
    "cluster_sum": (
        "{grid: 4, block: 64, parameters: [pointer, pointer]}",
        ("TTN201", "TTN211", "TTN305"),
    ),
    "named_barriers": (
        "{grid: 1, block: 128, parameters: [pointer, pointer, 5]}",
        ("TTN210", "TTN205 or TTN210", "TTN205", "TTN201"),
    ),
    "block_sum": (
        "{grid: 3, block: 256, parameters: [pointer, pointer, 300]}",
        ("TTN201", "TTN201", "TTN201", "TTN201"),
    ),
    "scan": (
        "{grid: 4, block: 256, parameters: [pointer, pointer, 1000]}",
        (
            "TTN201",
            "TTN201",
        ),
    ),
    "tiles": (
        "{grid: 1, block: 64, parameters: [pointer, pointer, 5]}",
        ("TTN201", "TTN201", "TTN201"),
    ),
    "top_k": (
        "{grid: 2, block: 256, parameters: [pointer, pointer, pointer, 8]}",
        ("TTN201",),
    ),
    "online_softmax": (
        "{grid: 2, block: 128, parameters: [pointer, pointer, 4, 300]}",
        (
            "TTN201",
            "TTN201",
        ),
    ),
    "split_k": (
        "{grid: [2, 3], block: 128, parameters: [pointer, pointer, pointer, pointer, 4]}",
        (),
    ),
    "stream_k": (
        "{grid: 4, block: 128, parameters: [pointer, pointer, pointer, pointer, 6, 8]}",
        (),
    ),
    "look_back": (
        "{grid: 4, block: 128, parameters: [pointer, pointer, pointer]}",
        (),
    ),
    "grid_sync": (
        "{grid: 4, block: 128, parameters: [pointer, pointer, pointer, 512]}",
        (),
    ),
    "gather_rows": (
        "{grid: 3, block: 128, parameters: [pointer, pointer, pointer, pointer, 3]}",
        ("TTN201",),
    ),
    "sparse": (
        "{grid: 3, block: 128, parameters: [pointer, pointer, pointer, pointer, pointer]}",
        ("TTN201",),
    ),
}
# Where data decide: what is assumed, or why it is not decided.
ASSUMED = {
    "gather_rows": "stays in the memory of its pointer",
    "sparse": "of which data decide the rounds comes to an end",
}
UNDECIDED = ("split_k", "stream_k", "look_back")  # blocks that wait for each other
QUICK = (("block_sum", 0), ("sparse", 0), ("block_sum", 1), ("named_barriers", 0))
CASES = [
    pytest.param(
        name, fault, marks=() if (name, fault) in QUICK else pytest.mark.heavy, id=f"{name}-{fault}"
    )
    for name, (_, codes) in KERNELS.items()
    for fault in range(len(codes) + 1)
]


@pytest.mark.parametrize(("name", "fault"), CASES)
def test_kernels_as_people_write_them(tmp_path, name, fault):
    launch, codes = KERNELS[name]
    out = tmp_path / f"{name}.ptx"
    command = [str(nvcc()), "-std=c++17", "-arch=sm_90a", "-ptx", f"-DFAULT={fault}"]
    source = FOLDER / f"{name}.cu"
    subprocess.run([*command, "-o", str(out), str(source)], check=True, capture_output=True)
    described, errors = read_launch_text(launch, "launch.yaml")
    assert errors == []
    text = Source(out.name, out.read_text(encoding="utf-8"))
    (finding,) = verify_code(text, described, CodeOptions(sweep=True), [], 0.0)
    if not fault:
        waits = name in UNDECIDED
        assert finding.verdict is (Verdict.UNDECIDED if waits else Verdict.VERIFIED), finding.notes
        assert ASSUMED.get(name, "") in " ".join(finding.notes)
    else:
        assert finding.verdict is Verdict.REFUTED
        assert set(codes[fault - 1].split(" or ")) & {item.code for item in finding.diagnostics}
