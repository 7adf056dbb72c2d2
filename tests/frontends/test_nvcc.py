"""What nvcc compiles here and now: a ring in CUDA, clean and with faults."""

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

RING = Path(__file__).parent / "cuda" / "ring.cu"
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
