"""The loops of a kernel of AMD assembly, and the rounds that its waves make of them.

`CountedWaves` looks on while a run is made: it counts the rounds of each passage, and finds how far
registers go from one head to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from titan.isa.gcn.loops import loops_of
from titan.isa.gcn.module import AssemblyFile, AssemblyKernel
from titan.isa.simt.passages import Lanes, RoundCounter, Steps, step_between
from titan.isa.waves.decode import SCALAR_BASE, DecodedInstruction, decoded
from titan.isa.waves.followed import CONDITION, PRIVATE, FollowedInstruction, followed
from titan.isa.waves.relevance import relevant_before
from titan.isa.waves.state import FULL, SCALARS, OpaqueWord, Scalar, Wave, Words

ONE = 1  # the mask of a register that has one value for all lanes


class FollowedKernel:
    """The text of a kernel as runs are followed through it."""

    def __init__(self, assembly: AssemblyFile, kernel: AssemblyKernel) -> None:
        self.assembly, self.kernel = assembly, kernel
        self.loops = loops_of(assembly, kernel)
        self.code: dict[int, FollowedInstruction] = {
            number: followed(decoded(number, assembly.instructions[number]))
            for number in range(kernel.start, kernel.end)
        }

    @cached_property
    def irrelevant(self) -> dict[int, list[int]]:
        """By the head of a loop: registers that it writes, and that decide nothing as they are."""
        relevant = relevant_before(self.assembly, self.kernel, self.code)
        return {
            head: [register for register in sorted(them) if not relevant[head] >> register & 1]
            for head, them in self.written.items()
        }

    @cached_property
    def written(self) -> dict[int, frozenset[int]]:
        """The registers that each loop writes, by its head."""
        return {
            head: frozenset(at for one in body for at in self.code[one].writes)
            for head, body in self.loops.items()
        }


def lanes_at(cta: int, wave: Wave) -> Lanes:
    """A wave, as rounds are counted for it."""
    return cta, wave.number, FULL


class Snapshot:
    """The registers of a wave at one moment."""

    def __init__(self, wave: Wave) -> None:
        self.vectors: Words = wave.vectors.copy()
        self.known = list(wave.known)
        self.scalars = list(wave.scalars)
        self.condition = wave.condition
        self.private = dict(wave.private)
        self.exec = wave.exec
        self.recent = tuple(wave.recent)

    def scalar(self, register: int) -> Scalar:
        """A register with one value for all lanes."""
        return self.condition if register == CONDITION else self.scalars[register - SCALAR_BASE]

    def row(self, register: int) -> tuple[Words, int]:
        """A register with a value for each lane, and the lanes in which it is known."""
        if register >= PRIVATE:
            found = self.private.get(register - PRIVATE)
            return (self.vectors[0], 0) if found is None else found[:2]
        return self.vectors[register], self.known[register]


def is_uniform(register: int) -> bool:
    """Whether it has one value for all lanes."""
    return SCALAR_BASE <= register <= CONDITION


def steps_from(then: Snapshot, now: Snapshot) -> Steps:
    """How far each register goes in each lane, of those that go anywhere."""
    found: dict[int, list[int]] = {}
    for register in (*range(SCALAR_BASE, SCALAR_BASE + SCALARS), CONDITION):
        one, other = then.scalar(register), now.scalar(register)
        if not isinstance(one, OpaqueWord) and not isinstance(other, OpaqueWord) and one != other:
            found[register] = [step_between(one, other)]
    gone = (now.vectors - then.vectors).view(np.int32)
    rows = [(int(at), gone[at], then.known[at] & now.known[at])
            for at in np.flatnonzero(gone.any(axis=1))]  # fmt: skip
    for address in then.private.keys() & now.private.keys():
        (one_row, one_known), (row, known) = (state.row(PRIVATE + address) for state in (then, now))
        rows.append((PRIVATE + address, (row - one_row).view(np.int32), one_known & known))
    for register, by_lane, both in rows:
        steps = [int(step) if both >> lane & 1 else 0 for lane, step in enumerate(by_lane)]
        if any(steps):
            found[register] = steps
    return found


class CountedWaves:
    """Counts rounds of a run, and remembers registers at some heads.

    `watched`: how many rounds lie between the two heads, by passage; `first` is the first of them,
    by its number.
    """

    def __init__(
        self,
        text: FollowedKernel,
        cta: int,
        first: int = 0,
        watched: Mapping[tuple[Lanes, int], int] | None = None,
    ) -> None:
        self.cta = cta
        self.counter = RoundCounter(text.loops, watched or ())
        self.first = first
        self.watched = watched or {}
        self.steps_between: dict[tuple[Lanes, int], Steps] = {}
        self._seen: dict[tuple[Lanes, int], Snapshot] = {}

    def before(self, wave: Wave, code: DecodedInstruction) -> None:
        """Count a head."""
        passage = self.counter.arrive(lanes_at(self.cta, wave), code.number)
        if passage is None or not self.watched:
            return
        key = lanes_at(self.cta, wave), passage.number
        rounds = self.watched.get(key)
        if rounds is None:
            return
        if passage.visits == self.first:
            self._seen[key] = Snapshot(wave)
        elif passage.visits == self.first + rounds:
            self.steps_between[key] = steps_from(self._seen[key], Snapshot(wave))

    def after(self, wave: Wave, code: DecodedInstruction) -> None:
        """Nothing."""
