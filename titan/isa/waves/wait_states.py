"""Instructions that follow another one too closely: wait states that no hardware inserts.

On gfx90a, gfx942 and gfx950 some results may be used only a number of *wait states* later. Every
instruction between is one, `s_nop N` is N + 1; compilers insert them, an assembler does not. The
hardware interlocks all other uses, and those here that need 0 (a product that adds to the result of
the one before, in the same registers).

`close_pairs` looks backwards from every instruction over all paths. What it finds is a fault where
a run executes both with so few wait states between, which the machine of waves sees; where no run
takes the path, nothing is decided. Of matrix products the nearest one that writes a register
counts, as it is behind all that are before it.

Sources: CDNA2, CDNA3 and CDNA4 instruction set architecture, 4.5 (manually inserted wait states)
and 7.5, 7.6 (dependencies of matrix instructions); where they leave a number open, the hazard
recogniser of LLVM, with which the tests compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from titan.isa.gcn.module import AssemblyFile, AssemblyInstruction, AssemblyKernel, Literal
from titan.isa.waves.decode import register_name
from titan.isa.waves.hazard_rules import (
    NOTHING,
    HazardFacts,
    Need,
    facts_of,
    matrix_needs,
    other_needs,
)
from titan.isa.waves.state import STATES_MAX

STATES_MAX_WITHOUT_MATRIX = 5


@dataclass(frozen=True, slots=True)
class ClosePair:
    """`second` needs `needed` wait states behind `first`, and some path has no more than `passed`.

    `register`: the one over which they depend; `why` says what is done to it.
    """

    first: int
    second: int
    needed: int
    passed: int
    register: str
    why: str


def states_of(item: AssemblyInstruction) -> int:
    """The wait states that an instruction is worth."""
    if item.base == "s_nop" and item.operands and isinstance(item.operands[0], Literal):
        return (item.operands[0].value & 15) + 1
    return 1


def close_pairs(assembly: AssemblyFile, kernel: AssemblyKernel) -> tuple[ClosePair, ...]:
    """All pairs that some path through the kernel brings too close to each other."""
    return _Search(assembly, kernel).pairs()


def predecessors(code: Sequence[AssemblyInstruction], start: int) -> list[list[int]]:
    """The instructions in front of each; `start` is the number of the first."""
    before: list[list[int]] = [[] for _ in code]
    for at, item in enumerate(code):
        following = []
        if item.target >= 0:
            following.append(item.target - start)
        if item.base not in ("s_branch", "s_endpgm", "s_setpc_b64"):
            following.append(at + 1)
        for place in following:
            if 0 <= place < len(before):
                before[place].append(at)
    return before


class _Search:
    def __init__(self, assembly: AssemblyFile, kernel: AssemblyKernel) -> None:
        self.start, self.target = kernel.start, assembly.target
        self.code: Sequence[AssemblyInstruction] = assembly.instructions[kernel.start : kernel.end]
        self.facts = [
            facts_of(kernel.start + at, item, assembly.target) for at, item in enumerate(self.code)
        ]
        self.states = [states_of(item) for item in self.code]
        self.before = predecessors(self.code, self.start)
        matrix = any(one.matrix for one in self.facts)
        self.most = STATES_MAX if matrix else STATES_MAX_WITHOUT_MATRIX

    def pairs(self) -> tuple[ClosePair, ...]:
        found: list[ClosePair] = []
        for at, facts in enumerate(self.facts):
            if facts.reads or facts.writes or facts.implicit:
                found += self._behind(at, facts)
        return tuple(found)

    def _behind(self, at: int, facts: HazardFacts) -> list[ClosePair]:
        """The pairs of which this instruction is the second."""
        found: dict[int, tuple[Need, int]] = {}
        seen: dict[tuple[int, frozenset[int]], int] = {}
        waiting = [(place, 0, NOTHING) for place in self.before[at]]
        while waiting:
            place, passed, hidden = waiting.pop()
            if seen.get((place, hidden), STATES_MAX) <= passed:
                continue
            seen[place, hidden] = passed
            first = self.facts[place]
            if first.matrix:
                needs = matrix_needs(first, facts, self.target, hidden)
            else:
                needs = other_needs(first, facts, self.target)
            for need in needs:
                known = found.get(place)
                if need.states > passed and (known is None or need.states > known[0].states):
                    found[place] = need, passed
            passed += self.states[place]
            if passed < self.most:
                hidden = hidden | first.writes if first.matrix else hidden
                waiting += [(earlier, passed, hidden) for earlier in self.before[place]]
        return [
            ClosePair(
                self.start + place, self.start + at, need.states, passed,
                register_name(need.register), need.why,
            )
            for place, (need, passed) in sorted(found.items())
        ]  # fmt: skip
