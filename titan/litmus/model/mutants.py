"""What can be removed from the model or relaxed in it, one at a time.

A suite of litmus tests is worth something when each of these mutants decides at least one test
differently; `ModelOptions.mutations` takes the names.
"""

from __future__ import annotations

DROPPED: dict[str, str] = {
    "coherence": "writes in causality order may be in any coherence order",
    "coherence_total": "morally strong writes need not be in coherence order",
    "atomicity": "a write may come between the two halves of an atomic",
    "no_thin_air": "values and dependencies may form cycles",
    "causality": "reads-from and from-read may contradict causality",
    "mbarriers_follow_causality": "operations on one mbarrier take effect in any order",
    "sync_patterns": "release and acquire patterns do not synchronise",
    "sync_fence_sc": "fence.sc does not synchronise",
    "sync_barriers": "bar.sync does not synchronise",
    "sync_cluster_barriers": "barrier.cluster does not synchronise",
    "sync_mbarriers": "mbarriers do not synchronise",
    "observation_rmw": "observation order does not go through atomics",
    "release_operation": "a release operation alone is not a release pattern",
    "release_then_write": "a release and a later write are not a release pattern",
    "release_fence_pattern": "a fence and a later write are not a release pattern",
    "acquire_operation": "an acquire operation alone is not an acquire pattern",
    "read_then_acquire": "a read and a later acquire are not an acquire pattern",
    "acquire_fence_pattern": "a read and a later fence are not an acquire pattern",
    "release_fence_before_arrival": "a fence before a relaxed arrival does not release",
    "acquire_fence_after_wait": "a fence after a relaxed wait does not acquire",
    "causality_through_observation": "causality order is base causality order only",
    "preserved_generic": "generic accesses are not ordered by base causality",
    "preserved_same_proxy": "accesses of one proxy in one CTA are not ordered by base causality",
    "leave_proxy": "a proxy fence does not publish accesses of its proxy",
    "enter_proxy": "a proxy fence does not order later accesses of its proxy",
    "alias_fence": "an alias fence orders nothing",
    "implicit_fence_on_completion": "a completed bulk copy or wgmma is not a proxy fence",
    "enter_async": "fence.proxy.async orders nothing before asynchronous accesses",
    "enter_async_halves": "the uni-directional async fences order nothing",
    "enter_tensormap": "the tensormap fences order nothing",
    "halves_form_patterns": "fence halves do not synchronise around relaxed accesses",
    "mbarrier_init_fence": "fence.mbarrier_init publishes nothing",
    "phase_ends_at_once": "an mbarrier phase may stay open after its counts reach zero",
    "single_order": "seq_cst operations of AMDGPU need no single order",
    "sync_fenced_barriers": "fences around s_barrier do not synchronise",
}

WEAKENED: dict[str, str] = {
    "scopes_always_include": "every scope includes every thread",
    "one_scope_suffices": "morally strong requires only one of the two scopes",
    "reductions_acquire": "the read of a reduction forms acquire patterns",
    "completion_carries_issuer": "complete-tx also releases what the issuer did before",
    "aliases_are_one": "virtual aliases count as the same address",
    "proxies_are_generic": "every proxy is ordered like the generic one",
    "proxy_spans_ctas": "accesses of one proxy are ordered across CTAs",
    "any_proxy_fence": "a fence of any proxy will do",
    "fence_in_any_cta": "a proxy fence may run in any CTA",
    "fence_covers_every_space": "a fence of one state space covers all",
    "alias_fence_in_any_order": "an alias fence may be anywhere",
    "init_fence_covers_data": "fence.mbarrier_init releases all earlier writes",
    "wgmma_waits_for_nothing": "a matrix read is complete when it is issued",
    "restricted_fences_cover_all": "a .sync_restrict fence orders accesses of any memory",
    "read_half_covers_writes": "the ::read release half also publishes writes",
    "read_half_is_cumulative": "the ::read release half also publishes what was observed",
    "bulk_reductions_are_weak": "the accesses of cp.reduce.async.bulk are not atomic",
    "read_wait_covers_writes": "wait_group.read also waits for writes",
    "races_are_defined": "a data race of AMDGPU leaves the other outcomes as they are",
    "wavefront_is_group": "the scope wavefront includes the whole work-group",
    "barriers_synchronise": "s_barrier of AMDGPU synchronises without fences",
}

# No test can catch these, and a test shows that the suite does not: the mutant is equivalent.
EQUIVALENT: dict[str, str] = {
    "fence_sc": (
        "Fence-SC order is part of base causality, so turning round a pair that contradicts it "
        "only takes edges away: every outcome has an execution without such a pair"
    ),
}

MUTANTS: dict[str, str] = {**DROPPED, **WEAKENED, **EQUIVALENT}
