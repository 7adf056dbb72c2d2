"""Four warps execute one wgmma, and one of them releases the stage: whose wait is `wait_group`?

The ring of tests/isa/texts: one warp copies, a warpgroup multiplies. Changes of it are read under
both values of the policy `wgmma_wait`.
"""

from __future__ import annotations

import pytest

from tests.isa.simt.running import MAP, ran
from tests.isa.simt.test_recording import TENSOR
from tests.isa.texts import text_of
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.remarks import REMARKS
from titan.frontends.ptx.trial import Trial, judge_run, judge_together
from titan.frontends.ptx.warpgroup_waits import groups_left
from titan.isa.ptx.module import Module
from titan.isa.ptx.parse import parse
from titan.isa.simt.launch import Launch, LaunchParameter, Options
from titan.isa.simt.outcome import WGMMA_GROUPS, Ending, Run
from titan.sync import program as ir

WARPGROUP, WARP = CodePolicies(), CodePolicies(wgmma_wait="warp")
RELEASE = "\tmbarrier.arrive.shared::cta.b64 _, [%r12];\n"
WAIT = "\twgmma.wait_group.sync.aligned 0;\n"
ISSUE = "\twgmma.fence.sync.aligned;\n"
BY_ONE = "\tsetp.eq.u32 %p7, %r2, {thread};\n\t@%p7 mbarrier.arrive.shared::cta.b64 _, [%r12];\n"
COUNTS = [("[%r5], 128;", "[%r5], 1;"), ("[%r5+8], 128;", "[%r5+8], 1;")]


def ring(count: int, *edits: tuple[str, str], seed: int = 0) -> tuple[Run, Module, CodePlaces]:
    text = text_of("ring")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    module, findings = parse(text, "ring.ptx")
    assert module is not None, findings
    launch = Launch("ring", (1, 1, 1), (160, 1, 1), dynamic_shared_bytes=16384,
                    parameters=(LaunchParameter(MAP), LaunchParameter(count.to_bytes(4, "little"))),
                    tensor_maps={MAP: TENSOR})  # fmt: skip
    run = ran(module, launch, Options(seed=seed))
    return run, module, CodePlaces(module, Source("ring.ptx", text))


def judged(count: int, *edits: tuple[str, str], policies=WARPGROUP, seed: int = 0) -> Trial:
    run, _, places = ring(count, *edits, seed=seed)
    return judge_run(run, ("", ""), "ring", places, policies)


def by_one(thread: int) -> list[tuple[str, str]]:
    return [(RELEASE, BY_ONE.format(thread=thread)), *COUNTS]


def assumed(trial: Trial) -> bool:
    return any(text == REMARKS["warpgroup-wait"] for text, _, _ in trial.assumptions)


@pytest.mark.parametrize("policies", [WARPGROUP, WARP])
def test_where_each_warp_releases_nothing_is_assumed(policies):
    trial = judged(5, policies=policies)
    assert trial.verdict is Verdict.VERIFIED and not assumed(trial)


@pytest.mark.parametrize("thread", [0, 33, 127])
@pytest.mark.parametrize("seed", [0, 2])
def test_one_warp_may_release_for_its_warpgroup(thread, seed):
    trial = judged(5, *by_one(thread), seed=seed)
    assert trial.verdict is Verdict.VERIFIED, trial.diagnostics
    assert assumed(trial)
    alone = judged(5, *by_one(thread), policies=WARP, seed=seed)
    assert alone.verdict is Verdict.REFUTED and not assumed(alone)
    assert alone.diagnostics[0].code in ("TTN202", "TTN212")


@pytest.mark.parametrize("thread", [0, 96])
def test_a_release_before_anybody_has_waited_is_refuted(thread):
    """What another warp of the group issued has not been waited for by anybody."""
    early = BY_ONE.format(thread=thread) + WAIT
    trial = judged(5, (RELEASE, ""), *COUNTS, (WAIT, early))
    assert trial.verdict is Verdict.REFUTED
    assert trial.diagnostics[0].code == "TTN202"


def test_a_wait_that_leaves_the_group_is_no_wait_for_it():
    late = [*by_one(0), (WAIT, WAIT.replace("0;", "1;"))]
    trial = judged(5, *late, ("END:\n", f"END:\n{WAIT}"))
    assert trial.verdict is Verdict.REFUTED
    assert trial.diagnostics[0].code == "TTN202"


def test_the_group_hands_over_what_it_did_and_no_access_of_a_warp():
    """Warp 1 stores a word before its wgmma; warp 0 loads it after the wait."""
    word = "\t.shared .align 8 .b64 full[2];\n"
    store = "\tsetp.eq.u32 %p7, %r2, 32;\n\t@%p7 st.shared.u32 [word], 1;\n" + ISSUE
    load = "\tsetp.eq.u32 %p7, %r2, 0;\n\t@%p7 ld.shared.u32 %r20, [word];\n" + RELEASE
    edits = [(word, word + "\t.shared .b32 word;\n"), (ISSUE, store), (RELEASE, load)]
    trial = judged(1, *edits)
    assert trial.verdict is Verdict.REFUTED
    assert trial.diagnostics[0].code == "TTN305"
    between = [(WAIT, WAIT + "\tbar.sync 1, 128;\n")]
    assert judged(1, *edits, *between).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("policies", [WARPGROUP, WARP])
def test_a_warp_that_waits_for_another_before_it_multiplies_hangs(policies):
    """Warp 1 multiplies only after warp 0 has waited for the product that needs warp 1."""
    before = "\tsetp.eq.u32 %p7, %r3, 1;\n\t@%p7 bar.sync 1, 64;\n" + ISSUE
    after = WAIT + "\tsetp.eq.u32 %p7, %r3, 0;\n\t@%p7 bar.sync 1, 64;\n"
    edits = [(ISSUE, before), (WAIT, after)]
    run, _, _ = ring(2, *edits)
    assert run.outcome.ending is Ending.HUNG
    assert WGMMA_GROUPS in {waiter.what for waiter in run.outcome.waiters}
    trial = judged(2, *edits, policies=policies)
    if policies is WARPGROUP:
        assert trial.verdict is Verdict.REFUTED and trial.diagnostics[0].code == "TTN205"
    else:
        assert trial.verdict is not Verdict.VERIFIED


@pytest.mark.parametrize("left", [0, 1])
def test_groups_take_turns_at_as_many_barriers_as_are_left(left):
    wait = WAIT.replace("0;", f"{left};")
    run, _, places = ring(5, *by_one(0), (WAIT, wait), ("END:\n", f"END:\n{WAIT}"))
    assert groups_left([run]) == left + 1
    ((recording, _),) = judge_together([run], [("", "")], "ring", places, WARPGROUP)
    names = [item.name for item in recording.program.barriers if item.name.startswith("wgmma")]
    assert len(names) == left + 1
    warp = recording.program.roles[2]
    waits = [item for item in warp.body if isinstance(item, ir.Wait) and item.barrier.name in names]
    assert len(waits) == 5
    assert [item.phase.value for item in waits] == [n // (left + 1) for n in range(5)]
