"""Runs of attention whose products stand in tensor memory, with NumPy tiles.

Beside what `execution.py` does: a stage of a buffer in tensor memory is one sub-tile, as is a stage
of the rows that warpgroups hand to each other. A read of such a buffer and the computation behind
it fetch; a write puts what the agent holds. Buffers of one storage overwrite each other. One agent
may work on every sub-tile in turn: which one follows from the stage that it touched last.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from titan.codegen.tile import semantics
from titan.codegen.tile.attention import Attention, NotAttention, attention_of
from titan.codegen.tile.execution import CtaExecution, EvaluatedAccess, TileFlight
from titan.codegen.tile.model import TileProgram
from titan.sync import program as ir
from titan.sync.control import Agent
from titan.sync.state import Environment


def parts_of(tile: TileProgram, program: ir.SyncProgram) -> Attention | None:
    """The parts of attention, where the pipeline has its products in tensor memory."""
    held = {buffer.name for buffer in program.buffers if buffer.space is ir.Space.TENSOR}
    try:
        parts = attention_of(tile)
    except NotAttention:
        return None
    return parts if {parts.first.name, parts.accumulator.name} <= held else None


class TensorExecution(CtaExecution):
    """A run of a program whose products stand in tensor memory."""

    def __init__(self, attention: Attention, *arguments: Any) -> None:
        self.attention = attention
        super().__init__(*arguments)
        self.first = {0, *accumulate(self.trips)}  # iterations are numbered over all work items

    def sub_tiles(self) -> set[str]:
        """Buffers of which a stage is a sub-tile."""
        parts = self.attention
        rows = (parts.factor, *parts.handed)
        return {
            parts.first.name, parts.left.name, parts.accumulator.name,
            *(value.name for value in rows),
        }  # fmt: skip

    def _shape(self, name: str) -> tuple[int, int]:
        rows, columns = super()._shape(name)
        staged = name in self.operations and self.operations[name].kind == "store"
        return (rows // self.tile.groups if staged or name in self.sub_tiles() else rows), columns

    def _synchronous(self, agent: Agent, access: EvaluatedAccess) -> None:
        registers = self.registers[agent.number]
        if access.load not in self.sub_tiles():
            super()._synchronous(agent, access)
            return
        registers.group, registers.groups = access.stage, self.tile.groups
        if not access.write:
            registers.copies[access.load] = self._content(access).copy()
            return
        value = registers.values.get(self.home[access.load])
        self._content(access)[...] = float("nan") if value is None else value
        self._overwritten(access)

    def _overwritten(self, access: EvaluatedAccess) -> None:
        """What lay in the same place is gone."""
        for name, buffer in self.buffers.items():
            same = buffer.storage and buffer.storage == access.buffer.storage
            if same and name != access.buffer.name and (name, access.stage) in self.stages:
                self.stages[name, access.stage][...] = float("nan")

    def _product(self, flight: TileFlight) -> None:
        """What the matrix unit writes determines which product it is."""
        import numpy as np

        parts = self.attention
        target = next(access for access in flight.accesses if access.write)
        read = {access.load: access for access in flight.accesses if not access.write}
        if target.load == parts.first.name:
            left, right = (self._content(read[name]) for name in parts.first.operands)
            rows = left.shape[0] // self.tile.groups
            left = left[target.stage * rows : (target.stage + 1) * rows]
            made = semantics.apply(parts.first, [left, right])
        else:
            left, right = (self._content(read[name]) for name in parts.second.operands[:2])
            total = self._content(target)
            if target.tile in self.first:  # the first product of a work item overwrites
                total = np.zeros_like(total)
            made = semantics.apply(parts.second, [left, right, total])
        self._content(target)[...] = made
        self._overwritten(target)

    def _now(self, agent: Agent, what: str, index: int, environment: Environment) -> None:
        registers = self.registers[agent.number]
        if what in self.sub_tiles() and what in registers.copies:
            registers.values[self.home[what]] = registers.copies.pop(what)
            return
        super()._now(agent, what, index, environment)

    def _bulk_store(self, flight: TileFlight, access: EvaluatedAccess) -> None:
        operation = self.operations[access.load]
        value = self._content(access).copy()
        item, sub = divmod(access.tile, self.tile.groups)
        environment: dict[str, Any] = self.items[item][flight.agent.role.cta]
        self._put(operation, value, environment, sub * value.shape[0])
