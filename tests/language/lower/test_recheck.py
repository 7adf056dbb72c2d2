"""The sync program makes the accesses of its protocol; any other program is told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.language.lower import examples
from tests.language.protocol.strategies import protocols
from titan.language.lower import LoweringRefused, lower
from titan.language.lower.recheck import NotCompared, differences
from titan.language.protocol import model
from titan.language.protocol.unroll import UnrollError
from titan.sync import program as ir
from titan.sync.expression import ONE, Binary
from titan.verify.lowering import sync_program
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import read_family

ROOT = Path(__file__).resolve().parents[3]
FILES = ("protocols/fa3_forward", "protocols/hopper_gemm", "protocols/hopper_gemm_persistent",
         "examples/ring", "examples/early_release")  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_kernels_of_the_library_are_lowered_to_their_accesses(name: str) -> None:
    family, _, _ = read_family(str(ROOT / f"{name}.yaml"), VerifyOptions())
    assert family is not None
    for kernel in family.kernels:
        assert kernel.protocol is not None
        assert differences(kernel.protocol, sync_program(kernel).program) == []


def changed(program: ir.SyncProgram) -> Iterator[ir.SyncProgram]:
    """One effect on another stage or tile, without a tile, or left out."""
    for number, role in enumerate(program.roles):
        for body in _bodies(role.body):
            roles = (
                *program.roles[:number],
                replace(role, body=body),
                *program.roles[number + 1 :],
            )
            yield replace(program, roles=roles)


def _bodies(block: ir.Block) -> Iterator[ir.Block]:
    for place, operation in enumerate(block):
        for other in _others(operation):
            yield (*block[:place], other, *block[place + 1 :])


def _others(operation: ir.Operation) -> Iterator[ir.Operation]:
    match operation:
        case ir.Loop(body=body):
            yield from (replace(operation, body=other) for other in _bodies(body))
        case ir.Branch(then=then):
            yield from (replace(operation, then=other) for other in _bodies(then))
        case ir.Access(effects=effects) | ir.Asynchronous(effects=effects):
            for place, effect in enumerate(effects):
                kept = [replace(effect, tile=None), replace(effect, write=not effect.write)]
                if effect.tile is not None:
                    kept.append(replace(effect, tile=Binary("+", effect.tile, ONE)))
                kept.append(replace(effect, stage=Binary("+", effect.stage, ONE)))
                for other in kept:
                    several = (*effects[:place], other, *effects[place + 1 :])
                    yield replace(operation, effects=several)
                yield replace(operation, effects=(*effects[:place], *effects[place + 1 :]))


def test_any_other_access_is_told() -> None:
    protocol = examples.hopper_gemm()
    mutants = list(changed(lower(protocol)))
    assert len(mutants) >= 20
    for mutant in mutants:
        found = differences(protocol, mutant)
        assert found and "where the protocol has" in found[0]


def test_other_agents_are_not_compared() -> None:
    protocol = examples.hopper_gemm()
    program = lower(protocol)
    with pytest.raises(NotCompared, match="other agents"):
        differences(protocol, replace(program, roles=program.roles[:1]))


seen: Counter[str] = Counter()


@settings(max_examples=60, derandomize=True)
@given(protocols())
def test_random_protocols_are_lowered_to_their_accesses(protocol: model.Protocol) -> None:
    try:
        program = lower(protocol)
    except LoweringRefused:
        seen["refused"] += 1
        return
    try:
        assert differences(protocol, program) == []
    except (NotCompared, UnrollError) as reason:
        seen[str(reason)] += 1
        return
    seen["compared"] += 1


def test_enough_random_protocols_were_compared() -> None:
    if not seen:
        pytest.skip("the random protocols ran elsewhere")
    assert seen["compared"] > 15, seen
