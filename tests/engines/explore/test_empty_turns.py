"""Faults behind turns of an outer loop in which nothing is executed: their paths are followed."""

from __future__ import annotations

from itertools import product

import pytest

from titan.engines.explore.search import Reductions, explore
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.sync.program import SyncProgram
from titan.verify.lowering import sync_program
from titan.verify.replay import replay

KERNEL = """\
titan: 1
kernel: turns
target: sm_90a
sizes: {n: any, m: {any: true, per: w, minimum: MINIMUM}}
buffers: {A: {bytes: 16}}
barriers: {full: 1, empty: 1}
roles: {p: {warps: 1, counters: {i: 0}}, c: {warps: 1, counters: {i: 0}}}
program:
  p:
    - for: w in 0..n
      do:
        - for: j in 0..m
          do:
            - {wait: empty, phase: i - 1}
            - store: A = i
            - arrive: full
            - count: {i: i + 1}
  c:
    - for: w in 0..n
      do:
        - for: j in 0..m
          do:
            - {wait: full, phase: i}
            - {load: A = i, when: "WHEN"}
            - {arrive: empty, when: "WHEN"}
            - count: {i: i + 1}
"""


UNWAITED = """\
titan: 1
kernel: unwaited
target: sm_90a
sizes: {n: any, m: {any: true, per: w, minimum: MINIMUM}}
barriers: {both: 2}
roles: {p: {warps: 1}, c: {warps: 1}}
program:
  p: [{for: w in 0..n, do: [{for: j in 0..m, do: [{arrive: both}]}]}]
  c:
    - for: w in 0..n
      do:
        - for: j in 0..m
          do:
            - {arrive: both, token: true}
            - {wait: both, token: true}
"""
BOTH = list(product((True, False), repeat=2))


def turns(minimum: int, when: str) -> SyncProgram:
    """A ring with work items of any number of tiles; the consumer leaves out some tiles."""
    return program_of(KERNEL.replace("WHEN", when), minimum)


def program_of(text: str, minimum: int) -> SyncProgram:
    family, errors = decode_text(text.replace("MINIMUM", str(minimum)))
    assert family is not None, errors
    return sync_program(family.kernels[0]).program


@pytest.mark.parametrize("minimum", [0, 1])
@pytest.mark.parametrize("when", ["j != 1", "j != 2", "w != 1", "w != 2 or j != 1", "i != 3"])
@pytest.mark.parametrize(("symmetry", "partial_order"), BOTH)
def test_the_path_to_a_fault_replays(minimum: int, when: str, symmetry: bool, partial_order: bool):
    program = turns(minimum, when)
    result = explore(program, reductions=Reductions(symmetry, partial_order))
    assert result.verdict is Verdict.REFUTED and result.trace is not None
    replay(program, result.trace)


@pytest.mark.parametrize("minimum", [0, 1])
@pytest.mark.parametrize(("symmetry", "partial_order"), BOTH)
def test_a_size_is_decided_behind_empty_turns(minimum: int, symmetry: bool, partial_order: bool):
    """The arrival that nobody has waited for needs a turn of two; turns before it are empty."""
    program = program_of(UNWAITED, minimum)
    result = explore(program, reductions=Reductions(symmetry, partial_order))
    assert result.verdict is Verdict.REFUTED and result.trace is not None
    replay(program, result.trace)
