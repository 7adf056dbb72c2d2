"""Whether a warp only loads: asked for, by the machine model, or where nothing is scheduled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from titan.codegen.pipeline import build as building
from titan.codegen.pipeline import document as doc
from titan.codegen.pipeline.build import BuildHooks, BuildLimits, BuildRefused, build, subject_of
from titan.codegen.tile.load import load_tile, parse_tile
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


UNALIGNED = (("dtype: bf16", "dtype: bf16, aligned: false"),)
FORMS = {
    "one product in tensor memory": ("gemm_sm_100a", "sm_100a", ()),
    "attention, its accumulator corrected": ("attention_forward_64_sm_100a", "sm_100a", ()),
    "several products": ("attention_backward_dq_sm_100a", "sm_100a", ()),
    "guarded tiles": ("gemm_small_tiles", "sm_90a", UNALIGNED),
    "guarded tiles, two warpgroups": ("gemm", "sm_90a", UNALIGNED),
}


@pytest.mark.parametrize("what", FORMS)
def test_every_form_has_an_unspecialised_kernel_that_is_verified_for_any_number(what):
    name, target, edits = FORMS[what]
    text = (root("protocols") / "tiles" / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        text = text.replace(old, new)
    limits = BuildLimits(0.2, specialise="never", solver="rau", require_any=True)
    tile = parse_tile(text, target=target)
    made = build(tile, text, limits)
    assert made.finding.verdict is Verdict.VERIFIED and not made.shape.specialised
    assert [role.name for role in made.program.roles] == ["worker"]
    assert made.shape.guarded == bool(edits)
    again = build(tile, text, limits)
    assert again.pipeline_text == made.pipeline_text, "the baseline is deterministic"


def without_meetings(document):
    """The pipeline without the barriers of its warpgroups outside of stores."""

    def kept(block):
        made = []
        for number, statement in enumerate(block):
            sends = isinstance(block[number - 1], doc.FenceStatement)
            if isinstance(statement, doc.ForStatement):
                made.append(replace(statement, body=kept(statement.body)))
            elif isinstance(statement, doc.IfStatement):
                made.append(replace(statement, then=kept(statement.then)))
            elif not isinstance(statement, doc.SyncStatement) or sends:
                made.append(statement)
        return tuple(made)

    program = tuple((role, kept(body)) for role, body in document.program)
    return replace(document, program=program)


@pytest.mark.parametrize("name", ["gemm_sm_100a", "attention_backward_dq_sm_100a"])
def test_threads_have_to_meet_before_one_of_them_multiplies(name):
    """One thread issues for all: what the others have fetched and put is behind a barrier."""
    text = (root("protocols") / "tiles" / f"{name}.yaml").read_text(encoding="utf-8")
    limits = BuildLimits(0.2, specialise="never", solver="rau")
    if name == "gemm_sm_100a":  # no thread touches what is multiplied before the loop is over
        made = build(parse_tile(text), text, limits, BuildHooks(edit=without_meetings))
        assert made.finding.verdict is Verdict.VERIFIED
        return
    with pytest.raises(BuildRefused) as caught:
        build(parse_tile(text), text, limits, BuildHooks(edit=without_meetings))
    assert all("TTN432" in step.reason for step in caught.value.steps), caught.value.steps


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


@pytest.mark.parametrize("name", ["gemm_small_tiles", "gemm_sm_100a", "attention_forward_sm_100a"])
def test_without_a_schedule_the_plain_kernel_is_built_with_the_reason(monkeypatch, name):
    path = root("protocols") / "tiles" / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    tile = load_tile(path, target="sm_100a" if name.endswith("sm_100a") else "sm_90a")
    real = scheduling.run

    def nothing(loop, request):
        found = real(loop, request)
        return replace(found, schedule=None, evidence=Evidence("none", 1, "the budget ran out"))

    monkeypatch.setattr(scheduling, "run", nothing)
    made = build(tile, text, BuildLimits(2.0))
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
