"""Behind which registers a load stands that gave a number, as the launch says what memory holds.

A value that is not known carries the execution that it comes from (`Traced`); a number carries
nothing. So each register of a warp may have a *source* beside its value: the execution that wrote
it, if that loaded a number, or took one of whose making a load was part: as an operand, or in the
predicate that decided which lanes it writes. A register of which a part is written, or may have
been, has both sources. Too many sources are safe: a load then counts as used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from titan.isa.simt.state import Warp


class KnownSources:
    """The sources of registers, by warp and number. `joined` makes one source of two."""

    def __init__(self, joined: Callable[[int, int], int]) -> None:
        self._of: dict[Warp, dict[int, int]] = {}
        self._joined = joined

    def of(self, warp: Warp, registers: Iterable[int]) -> set[int]:
        """The sources of some registers of a warp."""
        found = self._of.get(warp)
        if not found:
            return set()
        return {found[register] for register in registers if register in found}

    def replace(self, warp: Warp, register: int, source: int | None) -> None:
        """All lanes of a register were written, from `source` or from none."""
        if source is not None:
            self._of.setdefault(warp, {})[register] = source
        elif warp in self._of:
            self._of[warp].pop(register, None)

    def add(self, warp: Warp, register: int, source: int | None) -> None:
        """Some lanes of a register were written, or might have been."""
        if source is None:
            return
        found = self._of.setdefault(warp, {})
        before = found.get(register)
        found[register] = source if before is None else self._joined(before, source)
