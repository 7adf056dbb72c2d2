"""Whether a warp only loads: asked for, by the machine model, or where nothing is scheduled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from titan.codegen.pipeline import build as building
from titan.codegen.pipeline.build import BuildLimits, BuildRefused, build, subject_of
from titan.codegen.tile.load import load_tile
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.scheduling import run as scheduling
from titan.scheduling.cache import Cache, CacheSubject
from titan.scheduling.model import Evidence

FILE = root("protocols") / "tiles" / "gemm_small_tiles.yaml"
TEXT = FILE.read_text(encoding="utf-8")


def gemm(target="sm_90a"):
    return load_tile(FILE, target=target)


def test_never_takes_forms_without_a_loading_warp_alone():
    made = build(gemm(), TEXT, BuildLimits(2.0, specialise="never"))
    assert not made.shape.specialised and made.finding.verdict is Verdict.VERIFIED
    assert build(gemm(), TEXT, BuildLimits(2.0)).shape.specialised
    blackwell = load_tile(root("protocols") / "tiles" / "gemm_sm_100a.yaml", target="sm_100a")
    with pytest.raises(BuildRefused, match="no form of it without a warp that only loads"):
        build(blackwell, "", BuildLimits(2.0, specialise="never"))


def test_the_heuristic_asks_the_machine_model_and_says_what_it_found(monkeypatch):
    limits = BuildLimits(2.0, specialise="heuristic", iterations=7)
    made = build(gemm(), TEXT, limits)
    assert made.shape.specialised
    assert made.result.notes[-1].startswith(
        "cycles for 7 tiles with warp groups and with one group"
    )
    slow = replace(made.result.schedule, ii=100 * made.result.schedule.ii)
    chosen = building.specialised
    monkeypatch.setattr(
        building,
        "specialised",
        lambda t, s, loop, r, m: chosen(t, s, loop, replace(r, schedule=slow), m),
    )
    made = build(gemm(), TEXT, limits)  # were the schedule with groups slower, they are not used
    assert not made.shape.specialised and made.result.notes[-1].endswith("one group is used")


def test_without_a_schedule_the_plain_kernel_is_built_with_the_reason(monkeypatch):
    real = scheduling.run

    def nothing(loop, request):
        found = real(loop, request)
        return replace(found, schedule=None, evidence=Evidence("none", 1, "the budget ran out"))

    monkeypatch.setattr(scheduling, "run", nothing)
    made = build(gemm(), TEXT, BuildLimits(2.0))
    assert made.finding.verdict is Verdict.VERIFIED and not made.shape.specialised
    assert made.steps[0].reason == "no schedule was found: the budget ran out"
    assert made.result.produced_by == "in sequence" and not made.result.proved


def test_the_cache_keeps_how_often_it_hits_by_subject(tmp_path):
    path = tmp_path / "schedules.sqlite"
    subject = subject_of(gemm())
    assert subject == CacheSubject("64x64x64", "bf16", "sm_90a", "convert")
    for hits in (0, 1, 2):
        loop, _, _ = building.scheduled(gemm(), BuildLimits(2.0, cache=str(path)))
        with Cache(path) as cache:
            (rate,) = cache.rates()
        assert (rate.subject, rate.hits, rate.misses) == (subject, hits, 1)
    other = replace(subject, fusion="bias")
    with Cache(path) as cache:
        cache.run(loop, scheduling.Request(solver="rau"), other)
    with Cache(path) as cache:
        assert [one.subject.fusion for one in cache.rates()] == ["bias", "convert"]
