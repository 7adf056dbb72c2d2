"""A CTA ends on synchronisation that carries no visibility, held against a store at its end.

What a thread of the peer has done in the memory of a CTA must be visible to the CTA when it ends,
as it must be to a store there at that moment. Random programs of one agent a CTA: as they are, and
with such a store in place of the rule of ends.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tests.cases.judging import assert_refuted, assert_verified, judge_text
from tests.sampling import part
from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.exits import ends_on_meeting
from titan.sync.expression import Constant
from titan.sync.fault import FaultKind

PROGRAMS = 1_200
LAST = 3  # the barrier of the last hand-over


def two_ctas(seed: int) -> tuple[ir.SyncProgram, ir.SyncProgram]:
    """The program, and one that stores to what is its CTA's at the end instead."""
    random = Random(f"weak ends {seed}")

    def order() -> ir.Order:
        return random.choice((ir.Order.SYNCHRONISING, ir.Order.SYNCHRONISING, ir.Order.RELAXED))

    def scope() -> ir.Scope:
        return random.choice((ir.Scope.CLUSTER, ir.Scope.CLUSTER, ir.Scope.CTA))

    writer: list[ir.Operation] = []
    reader: list[ir.Operation] = []
    for turn in range(random.randint(1, LAST)):
        for _ in range(random.randint(0, 2)):
            far = ir.Effect("B", write=random.random() < 0.6, part=Constant(random.randrange(2)))
            writer.append(ir.Access((far,)))
        place = ir.Reference("b", Constant(turn))
        writer.append(ir.Arrive(place, order=order(), scope=scope()))
        if random.random() < 0.8 or turn == 0:
            wait = ir.Wait(place, Constant(0), Constant(0), order(), scope())
            reader.append(wait)
    if random.random() < 0.3:
        meeting = ir.BarrierSync(ir.Reference("cluster"), Constant(64), order())
        writer.append(meeting)
        reader.append(meeting)
    store = ir.Access((ir.Effect("B", write=True),))
    made = ir.SyncProgram(
        f"weak_ends_{seed}",
        "sm_90a",
        (ir.Role("writer", tuple(writer)), ir.Role("reader", tuple(reader), cta=1)),
        barriers=(ir.Barrier("b", 1, LAST, cta=1),),
        named_barriers=(ir.NamedBarrier("cluster", scope=ir.Scope.CLUSTER),),
        buffers=(ir.Buffer("B", 1, 2, initial=0, cta=1),),
    )
    told = replace(made.roles[1], body=(*reader, store))
    policies = replace(made.policies, exit_in_flight="allow")
    return made, replace(made, roles=(made.roles[0], told), policies=policies)


def test_an_end_asks_for_what_a_store_there_asks_for():
    seen: Counter[str] = Counter()
    for seed in range(part(PROGRAMS)):
        program, with_store = two_ctas(seed)
        found, expected = analyse(program), analyse(with_store)
        if expected.fault is not None and expected.fault.kind is not FaultKind.WEAK_SYNCHRONISATION:
            assert found.verdict is Verdict.REFUTED, seed  # not even ordered
            seen["unordered"] += 1
            continue
        if _unwaited_arrival(program):
            continue  # an arrival itself may come late, and touches no memory
        assert found.verdict is expected.verdict, seed
        seen[found.verdict.value] += 1
        if ends_on_meeting(program):
            assert found.verdict is Verdict.VERIFIED, seed
            seen["meeting"] += 1
    assert min(seen[word] for word in ("unordered", "verified", "refuted", "meeting")) > 5, seen


def _unwaited_arrival(program: ir.SyncProgram) -> bool:
    arrived = {item.barrier for item in program.roles[0].body if isinstance(item, ir.Arrive)}
    waited = {item.barrier for item in program.roles[1].body if isinstance(item, ir.Wait)}
    return bool(arrived - waited)


KERNEL = """
titan: 1
kernel: ends
target: sm_90a
ctas: 2
sizes: {{n: any}}
buffers: {{B: {{bytes: 512}}}}
barriers: {{done: {{count: 1, cta: 1}}}}
named_barriers: {{cluster: {{scope: cluster}}}}
roles: {{writer: {{warps: 1, cta: 0}}, reader: {{warps: 1, cta: 1}}}}
program:
  writer:
    - for: t in 0..n
      do:
        - store: B@1
    - arrive: done
      {arrival}
    {end}
  reader:
    - wait: done
      phase: 0
      scope: cluster
    {end}
"""
MEETING = "- sync: cluster"


@pytest.mark.parametrize(
    ("arrival", "end", "expected"),
    [
        ("scope: cluster", "", "verified"),
        ("order: relaxed", "", "TTN305"),
        ("scope: cta", "", "TTN305"),
        ("order: relaxed", MEETING, "verified"),
        ("order: relaxed", MEETING + "\n      order: relaxed", "TTN305"),
    ],
)
def test_a_kernel_that_ends_too_weakly(arrival: str, end: str, expected: str):
    found = judge_text(KERNEL.format(arrival=arrival, end=end))
    if expected == "verified":
        assert_verified(found)
    else:
        assert_refuted(found, {expected})
