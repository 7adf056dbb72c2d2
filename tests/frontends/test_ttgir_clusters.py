"""TTGIR of clusters: pairs of CTAs, multicast, shared barriers, and faults in each of them.

The samples are what Triton 3.9 made of cluster_kernels.py.
"""

from __future__ import annotations

import pytest

from tests.frontends.ttgir_samples import changed, code_of, sample, verified, without
from titan.foundation.verdict import Verdict
from titan.frontends.ttgir.model import MemoryType
from titan.frontends.ttgir.places import bases, group, shared_bits

PAIR = sample("two_cta_gemm_sm100")
FOUR = sample("two_cta_gemm_four_ctas")
ROWS = sample("multicast_rows_sm90")
ROUTED = sample("routed_arrival_sm100")
TRITON = sample("pipelined_gemm_two_ctas")
INIT = "(ttng.init_barrier %\\w+), "


@pytest.mark.parametrize("text", [PAIR, ROWS])
def test_clusters_are_verified_for_any_number(text):
    finding = verified(text, require="any")
    assert finding.verdict is Verdict.VERIFIED, finding.diagnostics
    assert finding.coverage.parameters == (("k_per_64", None),)
    assert not finding.diagnostics


def test_an_arrival_that_is_routed():
    """CTA 0 arrives for both (`fromCTA = 0`); for itself alone it leaves CTA 1 waiting."""
    assert verified(ROUTED, require="any").verdict is Verdict.VERIFIED
    assert code_of(verified(changed(INIT + "1", "\\1, 2", ROUTED))) == "TTN205"
    pair_of = changed("CGALayout = \\[\\[1\\]\\]", "CGALayout = [[0]]", ROUTED)
    finding = verified(pair_of)
    assert finding.verdict is Verdict.REFUSED
    assert "routed to a barrier that CTAs share" in finding.diagnostics[0].headline


def test_one_cta_represents_all_that_do_not_touch_each_other():
    finding = verified(TRITON, require="any")
    assert finding.verdict is Verdict.VERIFIED
    assert any("one of 2 CTAs represents all" in note for note in finding.notes)
    assert verified(without("ttng.wait_barrier", TRITON, 1)).verdict is Verdict.REFUTED
    assert not any("represents all" in note for note in verified(ROWS).notes)


@pytest.mark.heavy
def test_two_pairs_that_share_tiles():
    """Commits of one pair reach CTAs of the other, in which nobody has waited yet (TTN216)."""
    assert code_of(verified(FOUR)) == "TTN216"
    finding = verified(FOUR, require="any", policies=(("unobserved_phase", "allow"),))
    assert finding.verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("pattern", "number", "code"),
    [
        ("ttng.cluster_barrier", 0, "TTN202"),
        ("ttng.init_barrier", 0, "TTN208"),
        ("ttng.barrier_expect", 0, "TTN205"),
        ("ttng.async_tma_copy_global_to_local", 0, "TTN205"),
        ("ttng.wait_barrier", 0, "TTN203"),
    ],
)
def test_an_operation_of_the_multicast_left_out(pattern, number, code):
    assert code_of(verified(without(pattern, ROWS, number))) == code


@pytest.mark.parametrize(
    ("pattern", "number", "code"),
    [
        ("ttng.wait_barrier", 1, "TTN202"),  # for a free stage
        ("ttng.wait_barrier", 2, "TTN211"),  # for the last commits
        ("ttng.wait_barrier", 3, "TTN203"),  # of the leader, for the tiles of both CTAs
        ("ttng.tc_gen5_commit", 0, "TTN205"),
    ],
)
def test_an_operation_of_the_pair_left_out(pattern, number, code):
    assert code_of(verified(without(pattern, PAIR, number))) == code


@pytest.mark.parametrize(
    ("text", "old", "new", "code"),
    [
        (PAIR, INIT + "1", "\\1, 2", "TTN205"),
        (PAIR, "24576,", "12288,", "TTN207"),
        (ROWS, INIT + "1", "\\1, 2", "TTN205"),
        (ROWS, "8192,", "4096,", "TTN207"),
        # The copy reaches one CTA, and both expect its bytes.
        (ROWS, "(nvmma_shared.*)CGALayout = \\[\\[0, 0\\]\\]", "\\1CGALayout = [[1, 0]]", "TTN205"),
    ],
)
def test_an_operation_that_is_wrong(text, old, new, code):
    assert code_of(verified(changed(old, new, text))) == code


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("is_async, multicast, two_ctas", "is_async, two_ctas"),  # the other pair is not told
        (INIT + "2", "\\1, 1"),  # a stage is free when one of two pairs has read it
        (" descs %\\w+, %\\w+ : (!ttg.memdesc<4xi64[^>]*>)[^\\n]*", " : \\1"),
    ],
)
def test_a_commit_with_the_wrong_mask(old, new):
    policies = (("unobserved_phase", "allow"),)
    assert verified(changed(old, new, FOUR), policies=policies).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (PAIR, '"ttng.two-ctas" = true', '"ttng.two-ctas" = false', "are no pair"),
        (PAIR, "is_async, multicast, two_ctas", "is_async, multicast", "some products work"),
        (ROWS, ", CGALayout = \\[\\[1\\]\\]", "", "how the CTAs share it"),
        (ROWS, '"ttg.num-ctas" = 2', '"ttg.num-ctas" = 4', "how the CTAs share it"),
    ],
)
def test_what_is_not_read_is_told_with_its_place(text, old, new, said):
    finding = verified(changed(old, new, text))
    assert finding.verdict is Verdict.REFUSED
    assert any(said in item.headline for item in finding.diagnostics), finding.diagnostics
    assert all(item.span is not None for item in finding.diagnostics)


def test_who_shares_what():
    layouts = {"#a": "#ttg.nvmma_shared<{CGALayout = [[1, 0], [0, 0], [0, 1]]}>"}
    found = bases(MemoryType((64, 64), 16, layout="#a"), layouts)
    assert found == ((1, 0), (0, 0), (0, 1))
    assert shared_bits(found) == 2
    assert group(5, 2, 8) == (5, 7)
    assert bases(MemoryType((64,), 16, layout="#b"), layouts) is None
    linear = {"#c": "#ttg.shared_linear<{offset = [[1]], block = [[0, 128]]}, alignment = 16>"}
    assert bases(MemoryType((64,), 16, layout="#c"), linear) == ((0, 128),)
