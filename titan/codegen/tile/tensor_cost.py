"""The loop of two products in tensor memory: what passes between it and registers costs as well.

For every sub-tile, beside what the body says:

    FIRST_fetched     scores to the registers of the softmax
    LEFT_put          probabilities into the columns of the scores
    ACC_fetched       the accumulator to the registers of the correction, after the second product
    CORRECTED_put     and back, before the second product continues with it

The scores of the next iteration are computed after the second product, which reads what lies in
their columns. Source: FlashAttention-4, as `protocols/loops/fa4_forward.yaml` has it.
"""

from __future__ import annotations

from typing import Any

from titan.codegen.tile.attention import Attention
from titan.codegen.tile.cost import TENSOR_LANES, Builder, Origin, teams_of, words_of
from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.model import TileOperation, TileProgram, Value
from titan.scheduling.loop.model import ORDER, Operation, ReservationUse
from titan.target.model import Machine

BLOCKS = 2  # of 16 rows, for each warp


class AttentionBuilder(Builder):
    """The loop of two products in tensor memory, while it is made."""

    def __init__(self, tile: TileProgram, machine: Machine, depth: int, parts: Attention) -> None:
        super().__init__(tile, machine, depth)
        self.parts = parts
        teams = teams_of(tile, machine, self.rates)
        self.correcting = [group for group in teams if group.name == "correction"]

    def compute(self, operation: TileOperation, group: int) -> None:
        """The operation, with the fetch before it or behind it, and the put behind it."""
        parts, name = self.parts, operation.name
        if name == parts.correct.name:
            self.move(_fetched(parts.accumulator.name), parts.accumulator, name, group)
        super().compute(operation, group)
        if name == parts.first.name:
            self.move(_fetched(name), self.values[name], name, group)
        if name == parts.left.name:
            self.move(_put(name), parts.left, name, group, put=True)
        if name == parts.correct.name:
            self.move(_put(name), self.values[name], name, group, put=True)

    def cost(self, operation: TileOperation) -> dict[str, Any]:
        """The uses and the latency of an operation, in cycles of the machine."""
        made = super().cost(operation)
        if operation is self.parts.correct:
            made["registers"] = self.held(made["registers"])
            made["spill_cycles"] = self.machine.spill_cycles(made["registers"])
        return made

    def held(self, words: int) -> int:
        """Registers of an accumulator: where all are too many, one block of rows after the other
        is fetched, corrected and put back."""
        (team,) = {group.registers_per_thread for group in self.correcting}
        threads = self.warps * self.machine.threads_per_warp
        return words if team is None or words <= team * threads else words // BLOCKS

    def move(self, name: str, value: Value, operation: str, group: int, put: bool = False) -> None:
        """Adds a move between tensor memory and registers."""
        rates = self.rates.tensor
        amount = value.rows // self.teams * value.columns * bytes_of(value.dtype)
        cycles = rates.cycles(amount, put)
        latency = cycles + (rates.put_latency_cycles if put else rates.fetch_latency_cycles)
        made: dict[str, Any] = {
            "uses": (ReservationUse(rates.unit, cycles),),
            "latency_cycles": latency,
            "warps": self.warps,
        }
        if not put:
            words = words_of(value, self.rates, self.teams)
            if value == self.parts.accumulator:
                words = self.held(words)
            made |= {"registers": words, "spill_cycles": self.machine.spill_cycles(words)}
        elif operation == self.parts.left.name:
            made["footprints"] = (("tensor", -(-amount // (4 * TENSOR_LANES))),)
        key = f"{name}_{group}"
        self.put(Operation(key, **made), Origin(operation, group, value.name))

    def depend(self, operation: TileOperation, group: int) -> None:
        """Adds the dependences of an operation in one group."""
        parts, name = self.parts, operation.name
        super().depend(operation, group)
        first, second = f"{parts.first.name}_{group}", f"{parts.second.name}_{group}"
        if name == parts.first.name:
            scores = f"{_fetched(name)}_{group}"
            self.edge(first, scores, self.latency(first), blocking=True)
            self.edge(scores, first, self.latency(scores), 1, ORDER)
            self.edge(second, first, self.operations[self.positions[second]].cycles, 1, ORDER)
        if name == parts.correct.name:
            before = f"{_fetched(parts.accumulator.name)}_{group}"
            self.edge(second, before, self.latency(second), 1, blocking=True)

    def from_value(
        self, key: str, source: str, sink: TileOperation, number: int, group: int, distance: int
    ) -> None:
        """Values that stand in tensor memory pass through a move."""
        parts, to = self.parts, f"{sink.name}_{group}"
        if source == parts.first.name:
            scores = f"{_fetched(source)}_{group}"
            self.edge(scores, to, self.latency(scores), distance)
        elif source == parts.second.name:  # the accumulator of the iteration before
            before = f"{_fetched(parts.accumulator.name)}_{group}"
            self.edge(before, to, self.latency(before))
        elif sink.name == parts.second.name:
            put = f"{_put(source)}_{group}"
            self.edge(key, put, self.latency(key), distance)
            self.edge(put, to, self.latency(put), blocking=True)
        else:
            super().from_value(key, source, sink, number, group, distance)


def _fetched(name: str) -> str:
    return f"{name}_fetched"


def _put(name: str) -> str:
    return f"{name}_put"
