"""Copies of packed types in kernel files: a barrier counts the bits of the elements."""

from __future__ import annotations

import pytest

import titan
from titan.foundation.verdict import Verdict

KERNEL = """
titan: 1
kernel: packed
target: sm_100a
buffers:
  A: {bytes: 2048}
tensor_maps:
  m: {buffer: A, global_shape: [256, 64], box: [128, 16], dtype: NAME}
barriers:
  full: {count: 1}
roles:
  copier: {warps: 1}
  reader: {warps: 1}
program:
  copier:
    - arrive: full
      bytes: EXPECTED
    - bulk_load: A = 1
      completes: full
  reader:
    - wait: full
      phase: 0
    - load: A = 1
"""


def judged(dtype: str, expected: int, said: str = "") -> titan.Finding:
    text = KERNEL.replace("NAME", dtype).replace("EXPECTED", str(expected))
    (finding,) = titan.verify(text.replace("completes: full", "completes: full" + said))
    return finding


@pytest.mark.parametrize(
    ("dtype", "counted"), [("16u4_align16b", 1024), ("16u6_align16b", 1536), ("u8", 2048)]
)
def test_a_barrier_counts_packed_bytes(dtype, counted):
    for expected in (1024, 1536, 2048):
        finding = judged(dtype, expected)
        wanted = Verdict.VERIFIED if expected == counted else Verdict.REFUTED
        assert finding.verdict is wanted, (expected, finding.diagnostics)
    other = 2048 if counted != 2048 else 1024
    refused = judged(dtype, other, f"\n      bytes: {other}")
    assert "TTN429" in {item.code for item in refused.diagnostics}
