"""Pipelines that `titan build` writes, verified for every number, and every mutant of them.

pipelines/ holds them as written: persistent kernels with rings of four stages, whose work items
have a number of tiles each, and a pair of CTAs that load for each other. A mutant that is verified
for every number must be refuted for no number by happens-before, nor by a search without partial
order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sampling import WHOLE, sampled
from titan.engines.explore import known
from titan.engines.explore.search import ExplorationResult, Reductions, explore
from titan.engines.happens_before.engine import analyse
from titan.engines.result import Budget
from titan.foundation.verdict import Verdict
from titan.sync.fault import FaultKind
from titan.sync.program import SyncProgram
from titan.sync.weak import may_be_weak
from titan.verify.lowering import sync_program
from titan.verify.model import VerifyOptions
from titan.verify.mutate.mutants import Mutant, mutants_of
from titan.verify.pipeline import read_family, verify_file
from titan.verify.sizes import Values

FOLDER = Path(__file__).parent / "pipelines"
STATES = {"gemm_low_k": 40_000, "gemm_persistent_sm_100a": 50_000, "gemm_cluster2": 5_000}
PER_ITEM = (
    (1, 2), (2, 1), (4, 1, 1), (1, 1, 5), (5, 1), (1, 3, 1, 2), (3, 1, 1, 1, 1, 4), (1,) * 7,
)  # fmt: skip
NO_PARTIAL_ORDER = Reductions(partial_order=False)


@cache
def program_of(name: str) -> SyncProgram:
    family, errors, _ = read_family(str(FOLDER / f"{name}.yaml"), VerifyOptions())
    assert family is not None, errors
    return sync_program(family.kernels[0]).program


def every_number(program: SyncProgram) -> ExplorationResult:
    return explore(program, None, Budget(500_000, 20.0))


@pytest.mark.parametrize("name", STATES)
def test_every_number_is_verified(name: str) -> None:
    result = every_number(program_of(name))
    assert result.verdict is Verdict.VERIFIED
    assert "any number of" in result.scope
    assert result.states < STATES[name]


@pytest.mark.parametrize("name", sampled(STATES))
def test_the_command_requires_every_number(name: str) -> None:
    options = VerifyOptions(require="any", save_traces=None, seconds_max=30.0)
    (finding,) = verify_file(str(FOLDER / f"{name}.yaml"), options)
    assert finding.verdict is Verdict.VERIFIED
    assert all(values is None for _, values in finding.coverage.parameters)


def test_following_who_knows_what_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "follows", lambda flat: True)
    result = every_number(program_of("gemm_low_k"))
    assert result.verdict is Verdict.VERIFIED
    assert result.states < 2 * STATES["gemm_low_k"]


@pytest.mark.parametrize(("depth", "states"), ((2, 5_000), (3, 15_000)))
def test_shallower_rings_take_fewer_states(depth: int, states: int) -> None:
    options = VerifyOptions(overrides=(("depth", (depth,)),))
    family, errors, _ = read_family(str(FOLDER / "gemm_low_k.yaml"), options)
    assert family is not None, errors
    result = every_number(sync_program(family.kernels[0]).program)
    assert result.verdict is Verdict.VERIFIED
    assert result.states < states


def sizes_of(program: SyncProgram) -> Iterator[Values]:
    """Numbers of tiles, one for all work items or one for each."""
    names = [parameter.name for parameter in program.parameters if parameter.value is None]
    if len(names) == 1:
        yield from ({names[0]: tiles} for tiles in range(1, 15))
        return
    work, tiles = names
    yield from ({work: items, tiles: each} for items in range(4) for each in (1, 2, 3, 4, 5, 6, 9))
    yield from ({work: len(each), tiles: each} for each in PER_ITEM)


def small_sizes(program: SyncProgram) -> list[Values]:
    names = [parameter.name for parameter in program.parameters if parameter.value is None]
    if len(names) == 1:
        return [{names[0]: tiles} for tiles in (1, 2, 3)]
    numbers: tuple[tuple[int, ...], ...] = ((1,), (3,), (1, 2), (2, 1), (1, 1, 1))
    return [{names[0]: len(each), names[1]: each} for each in numbers]


def refuted(program: SyncProgram, seconds: float) -> str:
    """Which engine refutes the program at which sizes; nothing if none does."""
    for sizes in sizes_of(program):
        result = analyse(program, sizes)
        if result.verdict is Verdict.REFUTED:
            assert result.fault is not None
            if result.fault.kind is FaultKind.WEAK_SYNCHRONISATION and may_be_weak(program):
                return ""  # said of relaxed operations, which only this engine sees
            return f"happens-before: {result.fault.kind} at {sizes}"
    end = time.process_time() + seconds
    for sizes in small_sizes(program):
        left = Budget(200_000, end - time.process_time())
        found = explore(program, sizes, left, NO_PARTIAL_ORDER) if left.seconds_max > 0 else None
        if found is not None and found.verdict is Verdict.REFUTED:
            return f"all interleavings: refuted at {sizes}"
    return ""


def judge(mutants: list[Mutant], seconds: float) -> tuple[list[str], int]:
    """Mutants that are verified and should not be; how many are refuted for some number."""
    wrong, caught = [], 0
    for number, mutant in enumerate(mutants):
        outcome = every_number(mutant.program).verdict
        caught += outcome is Verdict.REFUTED
        found = refuted(mutant.program, seconds) if outcome is Verdict.VERIFIED else ""
        if found:
            wrong.append(f"{number}, {mutant.what} of {mutant.where}: verified, but {found}")
    return wrong, caught


@pytest.mark.parametrize("name", STATES)
def test_no_mutant_is_verified_that_others_refute(name: str) -> None:
    mutants = list(mutants_of(program_of(name)))[3 :: 13 if WHOLE else 65]
    wrong, caught = judge(mutants, 0.5)
    assert not wrong, "\n".join(wrong)
    assert caught > len(mutants) // 3


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", STATES)
def test_no_mutant_at_all_is_verified_that_others_refute(name: str) -> None:
    mutants = list(mutants_of(program_of(name)))
    wrong, caught = judge(mutants, 3.0)
    assert not wrong, "\n".join(wrong)
    assert caught > len(mutants) // 2
