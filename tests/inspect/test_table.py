"""The stored table of main loops: complete, and as the page shows it."""

from __future__ import annotations

import json

from benchmarks import bench_sass, sass_roles

PAGE = bench_sass.ROOT / "docs" / "reference" / "sass.md"
STORED = bench_sass.ROOT / "benchmarks" / "results" / "sass.json"


def test_the_page_shows_what_is_stored():
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    assert bench_sass.table(rows) in PAGE.read_text(encoding="utf-8")


def test_attention_issues_no_more_than_its_peers_for_each_product():
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    for problem in (
        f"{causal}attention {size}" for causal in ("", "causal ") for size in (64, 128)
    ):
        of = {row["kernel"]: row["least"] / row["tensor"] for row in rows
              if row["problem"] == problem}  # fmt: skip
        (ours,) = (value for name, value in of.items() if name.endswith("after"))
        peers = [value for name, value in of.items() if name.startswith("FlashAttention")]
        assert peers and ours <= min(peers)


def test_products_issue_less_than_all_peers_for_each_product():
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    for problem in ("gemm", "gemm, pairs", "gemm, persistent"):
        ways = [(row["kernel"], row["least"] / row["tensor"]) for row in rows
                if row["problem"] == problem]  # fmt: skip
        ours = [value for name, value in ways if name.endswith("after")]
        peers = [value for name, value in ways if not name.startswith("`")]
        assert ours and peers and max(ours) <= min(peers)


def test_what_is_emitted_has_no_costly_fence_in_a_loop():
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    ours = [row for row in rows if row["kernel"].endswith("after")]
    assert len(ours) >= 6
    assert all(row["fences"] == 0 and row["spill_bytes"] == 0 for row in ours)


ROLES = bench_sass.ROOT / "benchmarks" / "results" / "sass_roles.json"


def test_the_page_shows_what_is_stored_of_roles():
    rows = json.loads(ROLES.read_text(encoding="utf-8"))
    assert sass_roles.table(rows) in PAGE.read_text(encoding="utf-8")


def test_the_softmax_is_shorter_than_its_peer_and_a_correction_left_out_costs_little():
    rows = json.loads(ROLES.read_text(encoding="utf-8"))
    for problem in ("attention 128", "causal attention 128"):
        of = {row["kernel"]: row for row in rows if row["problem"] == problem}
        (peer,) = (row for name, row in of.items() if name.startswith("FlashAttention"))
        emitted = [row for name, row in of.items() if name.endswith("after")]
        assert emitted
        for ours in emitted:  # by single CTAs, and by pairs
            assert ours["softmax_least"] <= peer["softmax_least"]
            assert ours["two_at_once"] <= peer["two_at_once"] + 1
            assert ours["correction_least"] < 50 and ours["spill_bytes"] == 0
