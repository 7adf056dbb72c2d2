"""The numbers of benchmarks/virtual_tokens.py: copies in flight, and what counters cannot say."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.virtual_tokens import (
    asked_for,
    configuration,
    corpus,
    flight,
    kernel_of,
    left_in_flight,
    rates,
)
from tests.codegen.pipeline.cdna_programs import gemm
from tests.codegen.pipeline.written import construct
from titan.codegen.pipeline.model import Shape

FOUR = Shape("depth 4, counted waits", 4, specialised=False)


def test_a_ring_of_four_keeps_two_tiles_in_flight_and_vmcnt_0_none():
    row = flight(gemm(), FOUR)
    assert (row.copies_a_turn, row.steady_copies, row.last_copies) == (16, 32, 0)
    assert row.steady_bytes == 2 * 2 * 128 * 32 * 2
    assert row.plain_copies == 0 and row.verdict == "verified"
    plain = kernel_of(construct(gemm(), replace(FOUR, overlapped=False)))
    assert set(left_in_flight(plain)) == {0}


def test_the_tail_waits_for_ever_more():
    counts = left_in_flight(kernel_of(construct(gemm(), FOUR)))
    assert len(counts) == 32 and counts[:30] == [2] * 30 and counts[30:] == [1, 0]


def test_what_is_refused_and_what_it_falls_back_to():
    texts = dict(asked_for())
    plain = configuration("plain", texts["one ring, 2 ahead"])
    assert (plain.refused, plain.fallback, plain.verdict) == ("", "", "verified")
    other = configuration("other", texts["two rings, waited for the other way round"])
    assert other.refused == "TTN401" and "group" in other.fallback
    assert other.verdict == "verified" and other.still_wrong == ""
    late = configuration("late", texts["a loading wave, released one tile late"])
    assert late.refused == "TTN401" and "unspecialise" in late.fallback
    deep = configuration("deep", texts["32 copies a tile, 3 ahead"])
    assert deep.verdict == "verified" and any("TTN403" in note for note in deep.notes)
    large = configuration("large", texts["hopper_gemm of the library"])
    assert large.fallback == "none" and large.still_wrong.startswith("TTN407")


def test_the_corpus_is_of_two_hundred_different_protocols_and_more():
    texts = dict(corpus())
    assert len(set(texts.values())) >= 200
    assert sum("for gfx942" in name for name in texts) >= 14


def test_rates_count_every_protocol_once_and_say_why():
    """One that is taken, one after a rewrite, one that is too large, one that is no AMD kernel."""
    texts = dict(corpus())
    names = (
        "one ring, 2 ahead", "two rings, waited for the other way round",
        "48 copies a tile, more LDS than there is",
    )  # fmt: skip
    found = rates([(name, texts[name]) for name in names] + [("no file", "titan: 1")])
    assert (found.as_they_stand, found.after_rewrites) == (1, 1)
    assert (found.refused, found.unreadable, found.undecided) == (1, 1, 0)
    assert found.configurations == 4
    assert dict(found.reasons)["TTN401"] == 1 and sum(dict(found.reasons).values()) == 3
