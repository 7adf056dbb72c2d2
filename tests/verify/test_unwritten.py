"""Reads of memory that nothing has written: against a walk of the text, and what is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

STAGES = 3
ALONE = """\
titan: 1
kernel: alone
target: sm_90a
sizes: {n: any}
buffers: {A: {bytes: 16, stages: 3SPACE}}
roles: {one: {warps: 1}}
program:
  one:
"""
HANDED_OVER = """\
titan: 1
kernel: handed_over
target: sm_90a
sizes: {tiles: any, depth: 3}
buffers: {A: {space: shared, stages: depth, tile: [128, 64], dtype: bf16INITIAL}}
rings: {operands: {buffers: [A], depth: depth}}
roles: {producer: {warps: 1}, consumer: {warpgroups: 1}}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: operands[t]
        - produce: operands[t]
          PRODUCED
    - finalize
  consumer:
    - for: t in 0..tiles
      do:
        - wait: operands[t]
        - issue: mma(READ)
          as: group
        - drain: group
        - release: operands[t]
    - finalize
"""


def verified(text: str) -> Finding:
    family, errors = decode_text(text, "k.yaml")
    assert family is not None, errors
    return verify_kernel(family.kernels[0], VerifyOptions(save_traces=None))


def expected(actions: list[tuple[str, int]], loop: bool) -> bool:
    """Whether some load reads a stage before a store: a walk of the text, twice in a loop."""
    written: set[int] = set()
    for kind, stage in actions * (2 if loop else 1):
        if kind == "load" and stage not in written:
            return True
        if kind == "store":
            written.add(stage)
    return False


@given(
    st.lists(
        st.tuples(st.sampled_from(["load", "store"]), st.integers(0, STAGES - 1)), min_size=1,
        max_size=7,
    ),
    st.booleans(),
)  # fmt: skip
def test_one_role(actions, loop):
    lines = [f"- {kind}: A[{stage}]" for kind, stage in actions]
    head = ["- for: t in 0..n", "  do:"] if loop else []
    body = "\n".join("    " + line for line in [*head, *("    " * loop + x for x in lines)])
    finding = verified(ALONE.replace("SPACE", "") + body + "\n")
    unwritten = expected(actions, loop)
    assert finding.verdict is (Verdict.UNDECIDED if unwritten else Verdict.VERIFIED)
    assert ("TTN222" in {item.code for item in finding.diagnostics}) == unwritten


@pytest.mark.parametrize(
    ("space", "verdict"),
    [
        (", initial: 0", Verdict.VERIFIED), (", space: global", Verdict.VERIFIED),
        (", space: register", Verdict.VERIFIED), (", space: shared", Verdict.UNDECIDED),
    ],
)  # fmt: skip
def test_what_others_fill(space, verdict):
    finding = verified(ALONE.replace("SPACE", space) + "    - load: A[1]\n")
    assert finding.verdict is verdict


@pytest.mark.parametrize(
    ("produced", "initial", "verdict"),
    [
        ("last: true", "", Verdict.VERIFIED),
        # Stages without data: their readers mask what they read.
        ("bytes: 0", "", Verdict.VERIFIED),
    ],
)
def test_stages_of_rings(produced, initial, verdict):
    text = HANDED_OVER.replace("PRODUCED", produced).replace("INITIAL", initial)
    assert verified(text.replace("READ", "A[t], A[t]")).verdict is verdict


def test_a_stage_that_no_copy_reaches():
    """One of two buffers of a ring is never filled, and a product reads it."""
    text = (
        HANDED_OVER.replace("PRODUCED", "buffers: [A]")
        .replace("INITIAL", "")
        .replace("rings: {operands: {buffers: [A]", "rings: {operands: {buffers: [A, B]")
    )
    declared = "B: {space: shared, stages: depth, tile: [128, 64], dtype: bf16}"
    text = text.replace("dtype: bf16}}", "dtype: bf16}, " + declared + "}").replace(
        "READ", "A[t], B[t]"
    )
    assert verified(text).verdict is not Verdict.VERIFIED
