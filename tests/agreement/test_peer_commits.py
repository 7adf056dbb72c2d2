"""A CTA ends while a peer's commits may still arrive at its barriers: every engine says the same.

PTX orders a commit (`tcgen05.commit`) behind the operations that it tracks, and no commit behind
another one. A wait for a later commit says nothing of an earlier one's arrival, unless the policy
is that all a thread issues to the tensor cores is executed in order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tests.agreement.engines import engines, reference, replayed
from tests.peer_commits import peer_commits
from tests.sampling import part, sampled
from titan.engines.spin import run_spin, spin_available, to_promela
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.expression import Constant
from titan.sync.fault import FaultKind
from titan.sync.parts import peer_commits as barriers_of_peers

PROGRAMS = 400


def test_every_engine_agrees():
    seen: Counter[object] = Counter()
    for seed in range(part(PROGRAMS)):
        program = peer_commits(Random(f"peer commits {seed}"))
        expected = reference(program)
        leak = expected.trace is not None and expected.trace.fault.kind is FaultKind.LEAK_AT_EXIT
        seen[expected.verdict, leak] += 1
        for name, engine in engines().items():
            found = engine(program)
            assert found.verdict in (None, expected.verdict), (seed, name, found.reason)
            if found.trace is not None and found.verdict is Verdict.REFUTED:
                assert replayed(program, found.trace) is not None, (seed, name)
    assert seen[Verdict.VERIFIED, False] > 5 and seen[Verdict.REFUTED, True] > 20, seen


@pytest.mark.skipif(not spin_available(), reason="spin or gcc is not installed")
@pytest.mark.parametrize("seed", sampled(range(12), every=12))
def test_spin_agrees(seed: int):
    program = peer_commits(Random(f"peer commits {seed}"))
    expected = reference(program).verdict is Verdict.REFUTED
    assert (run_spin(to_promela(program), optimise="-O0").rule is not None) is expected


def told_twice(tail: bool, far: bool, allow: bool = False) -> ir.SyncProgram:
    """A commit to `empty`, one to `done` behind it; who waits for `done`, with `tail` for both."""
    home = 1 if far else 0
    issuer = (
        ir.Asynchronous((ir.Effect("A", proxy=ir.Proxy.ASYNC),), "q"),
        ir.QueueArrive("q", ir.Reference("empty")),
        ir.QueueArrive("q", ir.Reference("done")),
    )
    first, last = (
        ir.Wait(ir.Reference(name), Constant(0), Constant(0)) for name in ("empty", "done")
    )
    return ir.SyncProgram(
        "told_twice",
        "sm_100a",
        (
            ir.Role("issuer", issuer),
            ir.Role("waiter", (last, *((first,) if tail else ())), cta=home),
        ),
        barriers=(ir.Barrier("empty", 1, cta=home), ir.Barrier("done", 1, cta=home)),
        buffers=(ir.Buffer("A", initial=0, cta=home),),
        queues=(ir.Queue("q", grouped=False, pipelined=True),),
        policies=ir.Policies(unobserved_phase="allow" if allow else "refuse"),
    )


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("tail", [False, True])
def test_a_later_commit_says_nothing_of_an_earlier_one(tail: bool, far: bool, allow: bool):
    program = told_twice(tail, far, allow)
    expected = Verdict.REFUTED if far and not tail else Verdict.VERIFIED
    assert reference(program).verdict is expected
    for name, engine in engines().items():
        assert engine(program).verdict is expected, name
    assert bool(barriers_of_peers(program)) is far
    in_order = replace(program, policies=replace(program.policies, tensor_pipe="in_order"))
    assert reference(in_order).verdict is Verdict.VERIFIED
    assert {engine(in_order).verdict for engine in engines().values()} == {Verdict.VERIFIED}
    lenient = replace(program, policies=replace(program.policies, exit_in_flight="allow"))
    assert reference(lenient).verdict is Verdict.VERIFIED
