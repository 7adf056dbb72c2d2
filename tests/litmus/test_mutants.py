"""Dropping or weakening any rule of the model changes the verdict of some litmus file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from titan.foundation.resources import root
from titan.litmus.decide import decide
from titan.litmus.language.suite import find_tests, read_test
from titan.litmus.model.mutants import DROPPED, EQUIVALENT, WEAKENED
from titan.litmus.model.options import FenceRule, ModelOptions

CAUGHT_BY = {
    "coherence": "classic/2+2W+fence.sc+weak",
    "coherence_total": "classic/CoTotal",
    "atomicity": "classic/Atom-inc",
    "no_thin_air": "classic/LB+datas",
    "causality": "classic/MP+rel+acq.gpu+gpu",
    "mbarriers_follow_causality": "async/mbarrier+counted-in-order",
    "sync_patterns": "classic/MP+rel+acq.gpu+gpu",
    "sync_fence_sc": "classic/SB+fence.sc",
    "sync_barriers": "classic/MP+bar",
    "sync_cluster_barriers": "classic/MP+cluster-barrier.release",
    "sync_mbarriers": "async/mbarrier-MP",
    "observation_rmw": "classic/MP+rmw-chain",
    "release_operation": "classic/MP+rel+acq.gpu+gpu",
    "release_then_write": "classic/MP+rel-seq",
    "release_fence_pattern": "classic/MP+fence+acq",
    "acquire_operation": "classic/MP+rel+acq.gpu+gpu",
    "read_then_acquire": "classic/MP+acq-seq-overwritten",
    "acquire_fence_pattern": "classic/MP+fence.acq_rel",
    "release_fence_before_arrival": "cluster/remote-arrive+fence+relaxed",
    "acquire_fence_after_wait": "async/bulkload-gr+relaxed-wait+fence",
    "causality_through_observation": "classic/CoRR+relaxed",
    "preserved_generic": "classic/MP+rel+acq.gpu+gpu",
    "preserved_same_proxy": "async/bulkload-wgmma+minimal",
    "leave_proxy": "proxy/sur-tex+both-fences",
    "enter_proxy": "proxy/gen-con+fence-reader",
    "alias_fence": "proxy/gen-gen+alias-fence-reader",
    "implicit_fence_on_completion": "async/bulkload-gr+minimal",
    "enter_async": "async/gw-bulkstore+minimal",
    "enter_async_halves": "async/gw-bulkstore+halves",
    "enter_tensormap": "tensormap/map-load+minimal",
    "halves_form_patterns": "async/gr-bulkload+relaxed-halves",
    "mbarrier_init_fence": "cluster/init-cluster+minimal",
    "phase_ends_at_once": "async/mbarrier+phase-ends-at-once",
    "scopes_always_include": "classic/MP+rel+acq.cta+cluster",
    "one_scope_suffices": "classic/MP+one-scope",
    "reductions_acquire": "classic/MP+red-no-acquire",
    "completion_carries_issuer": "async/bulkload+not-cumulative",
    "aliases_are_one": "proxy/gen-gen+alias",
    "proxies_are_generic": "proxy/gen-con+none",
    "proxy_spans_ctas": "proxy/sur-sur+two-ctas",
    "any_proxy_fence": "proxy/gen-con+wrong-fence",
    "fence_in_any_cta": "proxy/gen-con+cta+fence-writer",
    "fence_covers_every_space": "async/gw-bulkstore+wrong-space",
    "alias_fence_in_any_order": "ptx/MP_cta_synonym-26",
    "init_fence_covers_data": "cluster/init-cluster+fence-covers-init-only",
    "wgmma_waits_for_nothing": "async/wgmma-bulkload+under-fenced",
    "read_wait_covers_writes": "async/bulkstore-gr+under-fenced",
    "restricted_fences_cover_all": "cluster/restricted-fence+global",
    "read_half_covers_writes": "async/gw-bulkstore+read-half",
    "read_half_is_cumulative": "async/gr-bulkload+read-half-other-thread",
    "bulk_reductions_are_weak": "async/bulk-reduce+two",
    "single_order": "amdgpu/SB+sc.agent@xcds",
    "races_are_defined": "amdgpu/race+elsewhere",
    "sync_fenced_barriers": "amdgpu/barrier+both",
    "wavefront_is_group": "amdgpu/MP+ra.wavefront@group",
    "barriers_synchronise": "amdgpu/barrier+bare",
}
# mutants of what only one reading shows
READINGS = {"read_half_is_cumulative": ModelOptions(FenceRule.PATH)}


def test_every_mutant_is_listed() -> None:
    assert CAUGHT_BY.keys() == DROPPED.keys() | WEAKENED.keys()


@pytest.mark.parametrize("mutant", CAUGHT_BY)
def test_the_suite_catches(mutant: str) -> None:
    test = read_test(root("litmus") / f"{CAUGHT_BY[mutant]}.litmus")
    reading = READINGS.get(mutant, ModelOptions())
    good = decide(test, reading).verdict
    broken = decide(test, replace(reading, mutations=frozenset({mutant}))).verdict
    assert {good, broken} == {"Allowed", "Forbidden"}
    # what is dropped only ever allows more; what is weakened forbids more, but for scopes, where
    # a wider notion of morally strong does both
    if mutant in DROPPED or mutant == "bulk_reductions_are_weak":
        assert broken == "Allowed"


@pytest.mark.parametrize("mutant", EQUIVALENT)
def test_equivalent_mutants_change_nothing(mutant: str) -> None:
    fenced = [
        entry
        for entry in find_tests([root("litmus") / "classic"])
        if "fence.sc" in entry.path.read_text(encoding="utf-8")
    ]
    assert len(fenced) >= 15
    for entry in fenced:
        test = read_test(entry.path)
        mutated = ModelOptions(mutations=frozenset({mutant}))
        assert decide(test).verdict == decide(test, mutated).verdict, entry.path.name


def test_unknown_mutants_are_refused() -> None:
    test = read_test(root("litmus") / "classic" / "MP+bar.litmus")
    with pytest.raises(ValueError, match="no mutants"):
        decide(test, ModelOptions(mutations=frozenset({"misspelled"})))
