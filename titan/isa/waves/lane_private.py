"""The numbers of words of private memory (`lane_values.py`), by the text of their address.

Words that overlap others in part are not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from titan.isa.waves.lane_numbers import Numbers
from titan.isa.waves.state import Wave


class PrivateNumbers:
    """Of each wave and place in private memory, the numbers of its lanes."""

    def __init__(self) -> None:
        self._words: dict[tuple[int, int], Numbers] = {}

    def forget(self) -> None:
        """Nothing is known any more."""
        self._words.clear()

    def load(self, wave: Wave, start: int | None, count: int) -> list[Numbers] | None:
        """So many words from a place on; None where one is not known."""
        if start is None:
            return None
        keys = [(wave.number, start + 4 * at) for at in range(count)]
        if any(key not in self._words for key in keys):
            return None
        return [self._words[key] for key in keys]

    def store(
        self, wave: Wave, start: int | None, rows: Sequence[Numbers], own: Callable[[], Numbers]
    ) -> None:
        """Active lanes write registers; `own` makes numbers that nothing else has."""
        words = range(0) if start is None else range(start, start + 4 * len(rows), 4)
        for key in [key for key in self._words if key[0] == wave.number]:
            near = start is None or words.start - 4 < key[1] < words.stop
            if near and key[1] not in words:
                del self._words[key]
        for at, row in zip(words, rows, strict=False):
            old = self._words.get((wave.number, at))
            old = own() if old is None else old
            self._words[wave.number, at] = np.where(wave.active[:, None], row, old)
