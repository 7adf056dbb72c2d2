"""A wave that goes round a loop in which nothing changes: it polls what another wave has to store.

Waves run one after another, so that such a loop would go on to the end of the budget. The state at
a branch back is compared with one that is kept, which is taken again at rounds that are powers of
two (Brent), so that a loop that stands is found within as many rounds as it had before and its
period. Control depends on known numbers alone: where these are the same, and the wave has stored
nothing in between, what follows is the same again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from titan.isa.waves.events import OperationIssued
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.state import Scalar, Wave, Words

STANDS = "a loop ends only by what another wave or work-group stores"
ROUNDS_MIN = 64  # before a state is kept


@dataclass(slots=True)
class _Kept:
    """What a wave had at a branch back."""

    scalars: list[Scalar]
    condition: Scalar
    exec: int
    known: list[int]
    vectors: Words
    events: int


class StandingLoops:
    """The branches back of the waves of a work-group."""

    def __init__(self, group: WaveGroup) -> None:
        self.group = group
        self.rounds: dict[tuple[int, int], int] = {}
        self.kept: dict[tuple[int, int], _Kept] = {}

    def stands(self, wave: Wave, instruction: int) -> bool:
        """Whether the wave, which takes this branch back, has been here with the same state."""
        key = wave.number, instruction
        rounds = self.rounds[key] = self.rounds.get(key, 0) + 1
        if rounds < ROUNDS_MIN or wave.private:
            return False
        kept = self.kept.get(key)
        if kept is not None and self._same(wave, kept):
            return True
        if kept is None or not rounds & (rounds - 1):
            self.kept[key] = _Kept(
                list(wave.scalars), wave.condition, wave.exec, list(wave.known),
                wave.vectors.copy(), len(self.group.events),
            )  # fmt: skip
        return False

    def _same(self, wave: Wave, kept: _Kept) -> bool:
        return (
            wave.scalars == kept.scalars
            and (wave.condition, wave.exec) == (kept.condition, kept.exec)
            and wave.known == kept.known
            and _alike(wave.vectors, kept.vectors, wave.known)
            and not any(_stores(event) for event in self.group.events[kept.events :])
        )


def _alike(now: Words, before: Words, known: list[int]) -> bool:
    """Whether the lanes whose words are known have the same ones."""
    differ: NDArray[np.bool_] = now != before
    for register in np.flatnonzero(differ.any(axis=1)):
        lanes = sum(1 << int(lane) for lane in np.flatnonzero(differ[register]))
        if lanes & known[register]:
            return False
    return True


def _stores(event: object) -> bool:
    return isinstance(event, OperationIssued) and any(use.write or use.atomic for use in event.uses)
