"""The random programs are worth comparing engines on: verdicts, kinds, operations."""

from collections import Counter
from random import Random

import pytest

from tests.sampling import part
from tests.strategies import FAMILIES, program_of_seed, random_program
from titan.engines.explore.reference import explore_reference
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync import program as ir
from titan.sync.fault import FaultKind

RARE = {FaultKind.WEAK_SYNCHRONISATION}  # of the happens-before engine, not of the interpreter
STATES_MAX = 5_000


def test_programs_end_in_both_verdicts_and_in_every_kind_of_fault():
    found: Counter[str] = Counter()
    for seed in range(part(1200, 3)):
        result = explore_reference(program_of_seed(seed), budget=Budget(states_max=1_500))
        found[result.trace.fault.kind.name if result.trace else result.verdict] += 1
    assert part(300, 3) < found[Verdict.VERIFIED] < part(900, 3)
    assert found[Verdict.UNDECIDED] < 60
    missing = {kind.name for kind in FaultKind if kind not in RARE} - set(found)
    assert not missing - {"POOL_MISUSE", "UNPUBLISHED_INIT"}, found
    assert found["DEADLOCK"] < part(300, 3)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"free", "cached", "halves"}))
def test_structured_programs_are_mostly_correct_as_drawn(family):
    verdicts = Counter(
        explore_reference(random_program(Random(seed), family, 0), None, Budget(STATES_MAX)).verdict
        for seed in range(12)
    )
    assert verdicts[Verdict.VERIFIED] >= 9, verdicts


def test_every_operation_and_every_flag_occurs():
    programs = [program_of_seed(seed) for seed in range(600)]
    operations = [
        operation
        for program in programs
        for role in program.roles
        for operation in ir.walk(role.body)
    ]
    kinds = {type(operation).__name__ for operation in operations}
    # `Compute` is for programs that are to be emitted; no engine meets it.
    expected = {kind.__name__ for kind in ir.Operation.__subclasses__()} - {"Compute"}
    assert kinds == expected, expected - kinds
    arrives = [operation for operation in operations if isinstance(operation, ir.Arrive)]
    assert any(arrive.drop for arrive in arrives) and any(arrive.token for arrive in arrives)
    waits = [operation for operation in operations if isinstance(operation, ir.Wait)]
    assert {wait.phase is None for wait in waits} == {True, False}
    queue_waits = [operation for operation in operations if isinstance(operation, ir.QueueWait)]
    assert {wait.until for wait in queue_waits} == set(ir.Until)
    fences = [operation for operation in operations if isinstance(operation, ir.Fence)]
    assert {fence.kind for fence in fences} == set(ir.FenceKind)
    queues = {(q.grouped, q.ordered, q.pipelined) for program in programs for q in program.queues}
    assert len(queues) >= 6


def test_a_seed_names_one_program():
    assert program_of_seed(17) == program_of_seed(17)
