"""Mutants of a pipeline: what the engines verify computes the right numbers.

The one exception is what engines cannot know: a group that computes on an accumulator must have
waited for the multiplication. Only the numbers (and the emitter) see it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.codegen.tile.test_functional import gemm_launch, gemm_pipeline, small
from tests.sampling import WHOLE
from titan.codegen.tile.functional import check, interleavings
from titan.sync import program as ir
from titan.sync.program import without_computations
from titan.verify.mutate.decide import MutationBudget, decide
from titan.verify.mutate.mutants import Mutant, mutants_of

MARK = "compute "
RUNS = interleavings(8, seed=9)
LENIENT = [replace(run, lenient=True) for run in RUNS]


def with_marks(program: ir.SyncProgram, back: bool) -> ir.SyncProgram:
    """Computations as assignments, which mutation leaves alone, or `back` again."""

    def block(operations: ir.Block) -> ir.Block:
        return tuple(one(operation) for operation in operations)

    def one(operation: ir.Operation) -> ir.Operation:
        match operation:
            case ir.Compute(what=what, index=index) if not back:
                return ir.Assign(MARK + what, index)
            case ir.Assign(variable=name, value=value) if back and name.startswith(MARK):
                return ir.Compute(name.removeprefix(MARK), value)
            case ir.Loop(body=body):
                return replace(operation, body=block(body))
            case ir.Branch(then=then, otherwise=otherwise):
                return replace(operation, then=block(then), otherwise=block(otherwise))
        return operation

    roles = tuple(replace(role, body=block(role.body)) for role in program.roles)
    return replace(program, roles=roles)


def engines_cannot_know(mutant: Mutant) -> bool:
    """The wait for the last multiplications, whose result the group computes on."""
    if mutant.site is None or mutant.where != "wait for wgmma <= 0":
        return False
    last = mutant.site.operation.label == "drain acc_next"
    return last and mutant.what in ("deleted", "pending + 1")


def judge(mutants: list[Mutant]) -> Counter[str]:
    """Every mutant judged by the engines and by its numbers; how many went which way."""
    tile = small("gemm")
    inputs, parameters = gemm_launch(129, 33, 60)
    counts: Counter[str] = Counter()
    for mutant in mutants:
        program = with_marks(mutant.program, back=True)
        roles = tuple(replace(r, body=without_computations(r.body)) for r in program.roles)
        verdict = str(decide(replace(program, roles=roles), MutationBudget()).verdict)
        strict = check(tile, program, inputs, parameters, RUNS, ctas=1)
        lenient = check(tile, program, inputs, parameters, LENIENT, ctas=1)
        told = f"{mutant.what} at {mutant.where}: {verdict}, {strict}, {lenient}"
        if engines_cannot_know(mutant):
            assert any(item.text.endswith("is wrong") for item in strict), told
            counts["numbers only"] += 1
        elif verdict == "verified":
            assert not strict and not lenient, told
            counts["right"] += 1
        else:
            # A relaxed wait orders execution here like any other; only its visibility is lost.
            assert strict or mutant.what == "relaxed", told
            wrong = any(item.text.endswith("is wrong") for item in lenient)
            counts["wrong numbers" if wrong else "no end" if lenient else "right by luck"] += 1
    return counts


def all_mutants() -> list[Mutant]:
    return list(mutants_of(with_marks(gemm_pipeline(2), back=False)))


def test_some_mutants_go_the_same_way_by_engines_and_by_numbers() -> None:
    found = [mutant for i, mutant in enumerate(all_mutants()) if i % (6 if WHOLE else 18) == 0]
    found += [mutant for mutant in all_mutants() if engines_cannot_know(mutant)]
    counts = judge(found)
    assert counts["numbers only"] == 2
    assert counts["right"] and counts["no end"]


@pytest.mark.heavy
@pytest.mark.long
def test_all_mutants_go_the_same_way_by_engines_and_by_numbers() -> None:
    counts = judge(all_mutants())
    assert counts["right"] >= 20
    assert counts["wrong numbers"] >= 10
    assert counts["no end"] >= 20
