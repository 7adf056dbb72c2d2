"""TTGIR for AMD GPUs: pipelines, copies to LDS, halves of the waves that alternate.

The samples are what Triton 3.9 made of amd_kernels.py. Their assembly gets the same verdicts, by a
reader that shares nothing with this one (test_triton.py, where Triton is installed).
"""

from __future__ import annotations

import pytest

from tests.frontends.ttgir_samples import changed, code_of, sample, verified, without
from titan.foundation.verdict import Verdict

ALTERNATING = sample("gemm_gfx942_alternating")
COPIES = sample("gemm_gfx950_copies")
STAGED = sample("staged_sum_gfx942")
TOO_FEW = sample("staged_sum_two_stages")


@pytest.mark.parametrize("text", [ALTERNATING, COPIES, STAGED])
def test_samples_are_verified_for_any_number(text):
    finding = verified(text, require="any")
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert [values for _, values in finding.coverage.parameters] == [None]


def test_a_stage_that_one_half_stores_while_the_other_reads_it():
    assert code_of(verified(TOO_FEW)) == "TTN201"


@pytest.mark.parametrize("number", [0, 5, 6, 7, 8])
def test_a_barrier_between_the_halves_left_out(number):
    """Those around the stores: the others of the loop separate reads from reads."""
    assert code_of(verified(without("ttg.barrier local", ALTERNATING, number))) == "TTN201"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{num = 2 ", "{num = 3 "),
        ("{num = 0 ", "{num = 1 "),
        ("(scf.for.*\n(?:.*\n)*.*){num = 2 ", "\\1{num = 4 "),
    ],
)
def test_a_wait_for_too_few_copies(old, new):
    assert code_of(verified(changed(old, new, COPIES))) == "TTN203"


@pytest.mark.parametrize("number", [0, 1])
def test_halves_that_come_to_different_numbers_of_barriers(number):
    finding = verified(without("amdg.cond_barrier", ALTERNATING, number))
    assert finding.verdict is Verdict.REFUSED
    assert "different numbers of barriers" in finding.diagnostics[0].headline


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (ALTERNATING, "rocdl.workitem.id.x", "rocdl.workitem.id.y", "is not known"),
        (ALTERNATING, "amdg.cond_barrier %\\w+", "amdg.cond_barrier %pid", "a half of the waves"),
        (STAGED, "(scf.for.*\n)", "\\1      ttg.barrier local\n", "stages of a warp pipeline"),
        (COPIES, "hip:gfx950", "hip:gfx1250", "the target hip:gfx1250"),
        (COPIES, "ttg.async_wait", "amdg.async_tdm_wait", "is not known"),
    ],
)
def test_what_is_not_read_is_told_with_its_place(text, old, new, said):
    finding = verified(changed(old, new, text))
    assert finding.verdict is Verdict.REFUSED
    assert any(said in item.headline for item in finding.diagnostics), finding.diagnostics
    assert all(item.span is not None for item in finding.diagnostics)


def test_memory_that_is_placed_later_has_no_budget():
    """Two tiles of 48 KB fit into 64 KB of LDS where they are not alive at the same time."""
    text = COPIES.replace("hip:gfx950", "hip:gfx942")
    assert verified(text).verdict is Verdict.VERIFIED
