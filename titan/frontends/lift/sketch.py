"""Operations of a folded role before their memory is final: always used by name, or in turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.frontends.lift.segments import Segment
from titan.frontends.ptx.alike import EffectClass
from titan.sync import program as ir
from titan.sync.expression import Expression


@dataclass(slots=True)
class OperationSketch:
    """One operation. `references`: its mbarriers, its own first, then those that it completes.

    `always`: regions by name that it uses each time; `in_turn`: whole stages of arrays. `effects`
    has an effect of each class as an example.
    """

    example: ir.Operation
    references: list[ir.Reference]
    phase: Expression | None = None
    always: dict[EffectClass, frozenset[str]] = field(default_factory=dict)
    in_turn: list[tuple[EffectClass, str, Expression]] = field(default_factory=list)
    effects: dict[EffectClass, ir.Effect] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoleSketch:
    """A role of the recordings: segments with the operations of their bodies."""

    role: ir.Role
    segments: list[tuple[Segment, list[OperationSketch]]]

    def operations(self) -> list[OperationSketch]:
        """All operations in order."""
        return [item for _, operations in self.segments for item in operations]
