"""`reads` of an `issue`: what an engine reads beside rings is an access like any other."""

from __future__ import annotations

import pytest

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.language.lower import LoweringRefused
from titan.sync.fault import FaultKind
from titan.verify import lowering
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_kernel

KERNEL = """
titan: 1
kernel: beside
target: sm_90a
sizes: {tiles: {any: true, minimum: 1}}
buffers:
  A: {stages: 2, tile: [64, 64], dtype: bf16, swizzle: 128B}
  S: {stages: 2, tile: [64, 64], dtype: bf16, swizzle: 128B}
rings:
  ring: {buffers: [A], depth: 2}
named_barriers:
  met: {threads: 128}
roles:
  producer: {warps: 1}
  consumer: {warpgroups: 1}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: ring[t]
        - produce: ring[t]
    - finalize
  consumer:
    - for: t in 0..tiles
      do:
        - wait: ring[t]
        - store: S[t % 2] = t
        - fence: async
        - sync: met
        - issue: mma(A[t])
          as: product
          reads: [S[t % 2] = t]
        - drain: product
        - release: ring[t]
    - finalize
"""


def verdict(text: str) -> tuple[Verdict, FaultKind | None]:
    family, errors = decode_text(text, "beside.yaml")
    assert family is not None, errors
    found = verify_kernel(family.kernels[0], VerifyOptions(save_traces=None))
    return found.verdict, found.trace.fault.kind if found.trace is not None else None


def test_what_is_read_beside_a_ring_is_verified() -> None:
    assert verdict(KERNEL) == (Verdict.VERIFIED, None)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("reads: [S[t % 2] = t]", "reads: [S[(t + 1) % 2] = t]", FaultKind.STALE_READ),
        ("        - drain: product\n", "", FaultKind.OVERWRITE_IN_FLIGHT),
        ("        - fence: async\n", "", FaultKind.MISSING_FENCE),
    ],
)
def test_each_step_is_needed(old: str, new: str, kind: FaultKind) -> None:
    assert old in KERNEL
    assert verdict(KERNEL.replace(old, new)) == (Verdict.REFUTED, kind)


def test_a_stage_of_a_ring_is_an_operand() -> None:
    _, errors = decode_text(KERNEL.replace("reads: [S[t % 2] = t]", "reads: [A[0] = t]"), "k.yaml")
    assert [(item.code, item.headline) for item in errors] == [
        ("TTN017", "`A` belongs to the ring `ring`")
    ]


def test_matrix_units_that_read_registers_have_none() -> None:
    text = KERNEL.replace("sm_90a", "gfx942").replace("        - fence: async\n", "")
    text = text.replace("        - sync: met\n", "").replace(
        "named_barriers:\n  met: {threads: 128}\n", ""
    )
    text = text.replace("{warpgroups: 1}", "{warps: 1}")
    text = text.replace(
        "  ring: {buffers: [A], depth: 2}", "  ring: {buffers: [A], depth: 2, transport: lds_dma}"
    )
    family, errors = decode_text(text, "k.yaml")
    assert family is not None, errors
    with pytest.raises((LoweringRefused, lowering.NotLowered), match="belongs to no ring"):
        lowering.sync_program(family.kernels[0])
