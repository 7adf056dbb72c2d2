"""Faults beyond the bound of a bounded check, at numbers that the text names."""

from __future__ import annotations

import pytest

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.verify.far_sizes import FAR_MAX, far_size_sets
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import verify_kernel

OPTIONS = VerifyOptions(save_traces=None)
# No search for every number applies: one loop has twice as many rounds as the other.
TEXT = """\
titan: 1
kernel: late
target: sm_90a
sizes: {{tiles: any{more}}}
buffers: {{A: {{bytes: 1024}}}}
barriers: {{full: 1, empty: 1}}
roles: {{p: {{warps: 1}}, c: {{warps: 1}}}}
program:
  p:
    - for: t in 0..2 * tiles
      do:
        - {{wait: empty, phase: t - 1}}
        - {{arrive: full, bytes: 1024}}
        - {{bulk_load: A = t, completes: full}}
  c:
    - for: t in 0..tiles
      do:
        - {{wait: full, phase: 2 * t}}
        - {{load: A = 2 * t}}
        - {{fence: async, when: "{guard}"}}
        - {{arrive: empty}}
        - {{wait: full, phase: 2 * t + 1}}
        - {{load: A = 2 * t + 1}}
        - fence: async
        - {{arrive: empty}}
"""
LATE = (
    "t != 40", "t < 123", "t >= 300 or t < 299", "2 * t < tiles + 20", "tiles != 77",
    "t % 64 != 63", "min(t, 50) == t", "not (t > 90)", "max(tiles, 30) == 30",
    "t // 16 != 3", "3 != t // 30", "t // 8 // 4 != 2", "t // 20 % 8 != 5", "(t + 1) // 50 < 1",
)  # fmt: skip


def verdict_on(guard: str, more: str = "") -> Verdict:
    family, errors = decode_text(TEXT.format(guard=guard, more=more))
    assert family is not None, errors
    return verify_kernel(family.kernels[0], OPTIONS).verdict


@pytest.mark.parametrize("guard", LATE)
def test_a_fence_that_is_left_out_late_is_missed(guard: str):
    assert verdict_on(guard) is Verdict.REFUTED


@pytest.mark.parametrize("guard", ["t != 40 or t == 40", "t < 123 or t >= 122", "tiles >= 0"])
def test_conditions_that_always_hold_refute_nothing(guard: str):
    assert verdict_on(guard) is Verdict.VERIFIED


def test_two_sizes_are_tried_apart_and_together():
    assert verdict_on("m < 50", ", m: any") is Verdict.REFUTED
    assert verdict_on("m < 50 or tiles < 50", ", m: any") is Verdict.REFUTED


def test_only_numbers_beyond_the_bound_are_tried():
    family, _ = decode_text(TEXT.format(guard="t != 40 or t == 3 or t == 9999", more=""))
    assert family is not None and family.kernels[0].program is not None
    tried = [sizes["tiles"] for sizes in far_size_sets(family.kernels[0].program)]
    assert {40, 41, 42, 82} <= set(tried) and min(tried) > 5 and max(tried) <= FAR_MAX
    assert tried == sorted(tried)
