"""A machine program: waves with their instructions, and the caches between them.

Each wave stands behind a path of caches: its CU's, its XCD's L2 (one for the agent on gfx90a), what
the agent shares, and the system. The path ends at the first level that all waves of the test share:
what lies beyond cannot be seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.litmus.language.ast import Scope, ThreadPlacement
from titan.litmus.language.machine_steps import CdnaStep

Node = tuple[object, ...]
_LEVELS = {"gfx90a": ("cu", "agent", "system")}
_DEFAULT_LEVELS = ("cu", "xcd", "agent", "system")


@dataclass(frozen=True, slots=True)
class MachineWave:
    """Instructions of one wave with the registers that it starts with.

    `group` is the work-group. Threads of one wave that a test distinguishes run one after the
    other, as a divergent branch runs them.
    """

    name: str
    place: ThreadPlacement
    steps: tuple[CdnaStep, ...]
    registers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MachineProgram:
    """`fine` are global locations that no cache of gfx90a keeps (fine-grained memory)."""

    target: str
    waves: tuple[MachineWave, ...]
    memory: tuple[tuple[str, int], ...]
    lds: tuple[tuple[str, int], ...]
    fine: frozenset[str] = frozenset()

    def levels(self) -> tuple[str, ...]:
        """The levels of caches of the target up to the first that all waves share."""
        every = _LEVELS.get(self.target, _DEFAULT_LEVELS)
        for number, level in enumerate(every):
            if len({node_of(level, wave.place) for wave in self.waves}) == 1:
                return every[: number + 1]
        return every

    def path(self, wave: int) -> tuple[Node, ...]:
        """The nodes of a wave, its CU first."""
        return tuple(node_of(level, self.waves[wave].place) for level in self.levels())

    def depth(self, reach: Scope) -> int:
        """The place in the path at which an access of this reach is coherent."""
        level = {Scope.CTA: "cu", Scope.GPU: "agent", Scope.SYS: "system"}[reach]
        levels = self.levels()
        return levels.index(level) if level in levels else len(levels) - 1

    def reach(self, step: CdnaStep) -> Scope:
        """Of an access; fine-grained memory of gfx90a is not cached."""
        if self.target == "gfx90a" and (step.source or step.location) in self.fine:
            return Scope.SYS
        return step.reach


def node_of(level: str, place: ThreadPlacement) -> Node:
    """The node of a level that a place is behind; a work-group has a CU of its own."""
    return {
        "cu": ("cu", place.gpu, place.cta),
        "xcd": ("xcd", place.gpu, place.cluster),
        "agent": ("agent", place.gpu),
        "system": ("system",),
    }[level]
