"""Mutants of hand-written rings: which there are, what becomes of them, and why."""

from dataclasses import replace

import pytest

from tests.building import ASYNC, FENCE, access, at, e, loop, program, read, write
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.verify.mutate.decide import MutantDecision, MutationBudget, decide
from titan.verify.mutate.judge import Fate, judge_all
from titan.verify.mutate.mutants import SYNCHRONISING, Change, mutants_of
from titan.verify.mutate.site import replaced, sites
from titan.verify.mutate.table import to_json, to_markdown, to_text


def bulk_ring(depth=2, consumers=2, tiles=None):
    """TMA fills, generic reads drain; every operation is needed."""
    stage = f"t % {depth}"
    full, empty = at("full", stage), at("empty", stage)
    producer = [
        ir.Wait(empty, e(f"(t // {depth} + 1) % 2"), e(f"t // {depth} - 1")),
        ir.Arrive(full, transaction=e(128)),
        ir.Asynchronous(
            (write("tile", stage, "t", proxy=ASYNC),), None, (ir.Completion(full, e(128)),)
        ),
    ]
    consumer = [
        ir.Wait(full, e(f"t // {depth} % 2"), e(f"t // {depth}")),
        access(read("tile", stage, "t")),
        FENCE,
        ir.Arrive(empty),
    ]
    return program(
        "bulk_ring",
        [
            ir.Role("producer", (loop("t", "tiles", producer),), 1, 1),
            ir.Role("consumer", (loop("t", "tiles", consumer),), consumers, 1),
        ],
        parameters=[ir.Parameter("tiles", tiles)],
        barriers=[ir.Barrier("full", 1, depth), ir.Barrier("empty", consumers, depth)],
        buffers=[ir.Buffer("tile", depth)],
    )


@pytest.fixture(scope="module")
def ring_score():
    return judge_all(bulk_ring())


def fates(score, **wanted):
    """what -> fate of the mutants whose operation starts with the words given."""
    return {
        judgement.mutant.what: judgement.fate
        for judgement in score.judgements
        if judgement.mutant.where.startswith(wanted["where"])
    }


def test_every_synchronising_operation_is_deleted_once():
    original = bulk_ring()
    deleted = [mutant for mutant in mutants_of(original) if mutant.what == "deleted"]
    synchronising = [s for s in sites(original) if isinstance(s.operation, SYNCHRONISING)]
    assert [mutant.site for mutant in deleted] == synchronising
    for mutant in deleted:
        kept = sum(1 for _ in sites(mutant.program))
        assert kept == sum(1 for _ in sites(original)) - 1


def test_each_mutant_differs_from_the_program_in_one_place():
    original = bulk_ring()
    for mutant in mutants_of(original):
        assert mutant.program != original, mutant.what
        changed = [
            name
            for name in ("roles", "barriers", "named_barriers", "buffers", "queues", "pools")
            if getattr(mutant.program, name) != getattr(original, name)
        ]
        assert len(changed) == 1
        if changed == ["roles"]:
            roles = zip(mutant.program.roles, original.roles, strict=True)
            assert sum(one != other for one, other in roles) == 1


def test_accesses_and_meant_phases_are_never_mutated():
    original = bulk_ring()
    for mutant in mutants_of(original):
        found = {type(s.operation): s.operation for s in sites(mutant.program)}
        assert found[ir.Access] == access(read("tile", "t % 2", "t"))
        for site in sites(mutant.program):
            if isinstance(site.operation, ir.Wait):
                assert site.operation.phase in (e("t // 2 - 1"), e("t // 2"))


def test_no_mutant_of_a_tight_ring_survives(ring_score):
    assert ring_score.baseline.verdict is Verdict.VERIFIED
    counts = ring_score.counts()
    assert counts[Fate.SURVIVING] == counts[Fate.UNDECIDED] == 0, to_text(ring_score)
    assert counts[Fate.KILLED] > 30


@pytest.mark.parametrize("where", ["wait for empty", "wait for full", "arrive on empty", "fence"])
def test_what_a_tight_ring_needs_is_missed(ring_score, where):
    assert fates(ring_score, where=where)["deleted"] is Fate.KILLED


def test_shifted_indices_and_parities_are_refuted(ring_score):
    for where in ("wait for empty", "wait for full"):
        found = fates(ring_score, where=where)
        assert found["parity flipped"] is Fate.KILLED
        assert found["index + 1"] is Fate.KILLED
    found = fates(ring_score, where="barrier empty")
    assert found == {"count + 1": Fate.KILLED, "count - 1": Fate.KILLED}


def test_rules_of_killed_mutants_hold_on_the_reference_search(ring_score):
    """Each killed mutant, at small sizes, is refuted by the plain search as well."""
    checked = 0
    for judgement in ring_score.judgements:
        if judgement.fate is not Fate.KILLED or judgement.mutant.what == "relaxed":
            continue
        outcomes = set()
        for tiles in (1, 2, 3, 5):
            result = explore_reference(judgement.mutant.program, {"tiles": tiles}, Budget(30_000))
            outcomes.add(result.verdict)
            if result.verdict is Verdict.REFUTED:
                break
        assert Verdict.REFUTED in outcomes, judgement.mutant
        checked += 1
    assert checked > 20


def test_a_doubled_wait_is_over_synchronised():
    original = bulk_ring(tiles=3)
    site = next(s for s in sites(original) if isinstance(s.operation, ir.Wait))
    doubled = replaced(original, site, (site.operation, replace(site.operation)))
    found = fates(judge_all(doubled), where="wait for empty")
    assert found["deleted"] is Fate.OVER_SYNCHRONISED


def test_a_commit_of_nothing_is_equivalent():
    original = bulk_ring(tiles=2)
    with_queue = replace(original, queues=(ir.Queue("copies"),))
    site = next(s for s in sites(with_queue) if isinstance(s.operation, ir.Wait))
    idle = replaced(with_queue, site, (ir.Commit("copies"), site.operation))
    judged = {
        j.mutant.what: j for j in judge_all(idle).judgements if j.mutant.where == "commit copies"
    }
    assert judged["deleted"].fate is Fate.EQUIVALENT
    assert "issues nothing" in judged["deleted"].argument


def test_a_fence_of_no_memory_is_equivalent():
    original = bulk_ring(tiles=2)
    site = next(s for s in sites(original) if isinstance(s.operation, ir.Fence))
    idle = ir.Fence(ir.FenceKind.ASYNC, (ir.Space.TENSOR,))
    padded = replaced(original, site, (site.operation, idle))
    judged = {
        j.mutant.what: j
        for j in judge_all(padded).judgements
        if j.mutant.where == "fence proxy.async tensor"
    }
    assert judged["deleted"].fate is Fate.EQUIVALENT


def test_a_read_through_the_texture_proxy_is_missed():
    """What one agent writes to global memory and another reads, read as ld.global.nc does it."""
    meet = ir.BarrierSync(at("all"), e(2))
    roles = [
        ir.Role("writer", (access(write("g", 0, 1)), meet), 1, 1),
        ir.Role("reader", (meet, access(read("g", 0, 1), read("h", 0, 0))), 1, 1),
    ]
    original = program(
        "table",
        roles,
        named_barriers=[ir.NamedBarrier("all")],
        buffers=[ir.Buffer(n, space=ir.Space.GLOBAL, initial=0) for n in ("g", "h")],
    )
    judged = {
        j.mutant.what: j for j in judge_all(original).judgements if "read g" in j.mutant.where
    }
    found = judged["read through the texture proxy"]
    assert found.fate is Fate.KILLED and "TTN307" in found.rule
    assert not any("h[0] through" in j.mutant.where for j in judge_all(original).judgements)


def test_half_a_fence_is_missed(ring_score):
    found = fates(ring_score, where="fence")
    assert found["kind proxy.async.release"] is found["kind proxy.async.acquire"] is Fate.KILLED
    assert "kind proxy.texture" not in found


def test_a_refuted_program_has_no_score():
    broken = replace(
        bulk_ring(tiles=2), barriers=(ir.Barrier("full", 2, 2), ir.Barrier("empty", 2, 2))
    )
    score = judge_all(broken)
    assert score.baseline.verdict is Verdict.REFUTED
    assert not score.judgements
    assert "not mutated" in to_text(score)


def test_a_shift_that_verifies_without_reason_is_told_as_surviving():
    """With an engine that passes everything, shifts survive and the rest is explained."""
    verified = MutantDecision(Verdict.VERIFIED, ("nobody",), "nothing", ordered=True)

    def careless(candidate: ir.SyncProgram) -> MutantDecision:
        kept = sum(isinstance(s.operation, SYNCHRONISING) for s in sites(candidate))
        whole = sum(isinstance(s.operation, SYNCHRONISING) for s in sites(bulk_ring(tiles=2)))
        if kept < whole:
            return MutantDecision(Verdict.REFUTED, ("nobody",), rule="TTN205")
        return verified

    score = judge_all(bulk_ring(tiles=2), careless)
    surviving = [j for j in score.judgements if j.fate is Fate.SURVIVING]
    assert surviving and all(j.mutant.change is Change.SHIFTED for j in surviving)


def test_relaxed_order_stays_undecided_without_the_order_engine():
    def unordered(candidate: ir.SyncProgram) -> MutantDecision:
        return MutantDecision(Verdict.VERIFIED, ("explorer",), "tiles 2", ordered=None)

    score = judge_all(bulk_ring(tiles=2), unordered)
    relaxed = [j for j in score.judgements if j.mutant.what == "relaxed"]
    assert relaxed and all(j.fate is Fate.UNDECIDED for j in relaxed)


def test_a_spent_budget_is_undecided():
    assert decide(bulk_ring(4, 3), MutationBudget(states=50)).verdict is Verdict.UNDECIDED


def test_tables_agree_with_the_counts(ring_score):
    import json

    rows = json.loads(to_json([ring_score]))
    assert rows[0]["counts"]["killed"] == ring_score.counts()[Fate.KILLED]
    assert len(rows[0]["mutants"]) == len(ring_score.judgements)
    markdown = to_markdown([ring_score]).splitlines()
    assert markdown[2].split("|")[2].strip() == str(len(ring_score.judgements))
    assert "all" in markdown[-1]
