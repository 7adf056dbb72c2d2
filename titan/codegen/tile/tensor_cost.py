"""Loops of several products in tensor memory: what passes to and from registers costs as well.

Of attention (two products, one corrected accumulator), for every sub-tile, beside what the body
says:

    FIRST_fetched     scores to the registers of the softmax
    LEFT_put          probabilities into the columns of the scores
    ACC_fetched       the accumulator to the registers of the correction, after the second product
    CORRECTED_put     and back, before the second product continues with it

The scores of the next iteration are computed after the second product, which reads what lies in
their columns. Of other loops (attention backward) each result that threads read is fetched, each
fragment that a product takes is put, and sums stay where they are. A result is computed again when
it has been fetched, a fragment put again when the products that take it are over.
Source: FlashAttention-4, as `protocols/loops/fa4_forward.yaml` and `fa4_backward.yaml` have it.
"""

from __future__ import annotations

from typing import Any

from titan.codegen.tile.attention import Attention
from titan.codegen.tile.cost import TENSOR_LANES, Builder, Origin, teams_of, words_of
from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.model import TileOperation, TileProgram, Value
from titan.codegen.tile.products import TensorProducts
from titan.scheduling.loop.model import ORDER, Operation, ReservationUse
from titan.target.model import Machine

BLOCKS = 2  # of 16 rows, for each warp


class TensorBuilder(Builder):
    """A loop with moves between tensor memory and registers, while it is made."""

    def moved(
        self, name: str, value: Value, origin: Origin, words: int | None = None, columns: int = 0
    ) -> None:
        """Adds a fetch of `words` registers, or where there are none a put into `columns`."""
        rates, put = self.rates.tensor, words is None
        amount = value.rows // self.teams * value.columns * bytes_of(value.dtype)
        cycles = rates.cycles(amount, put)
        latency = cycles + (rates.put_latency_cycles if put else rates.fetch_latency_cycles)
        made: dict[str, Any] = {
            "uses": (ReservationUse(rates.unit, cycles),),
            "latency_cycles": latency,
            "warps": self.warps,
        }
        if words is not None:
            made |= {"registers": words, "spill_cycles": self.machine.spill_cycles(words)}
        if columns:
            made["footprints"] = (("tensor", columns),)
        self.put(Operation(f"{name}_{origin.group}", **made), origin)

    def columns_of(self, value: Value) -> int:
        """Columns of tensor memory that a sub-tile of a fragment takes."""
        amount = value.rows // self.teams * value.columns * bytes_of(value.dtype)
        return -(-amount // (4 * TENSOR_LANES))


class ProductsBuilder(TensorBuilder):
    """The loop of several products in tensor memory whose sums nobody corrects."""

    def __init__(
        self, tile: TileProgram, machine: Machine, depth: int, parts: TensorProducts
    ) -> None:
        super().__init__(tile, machine, depth)
        self.parts = parts
        self.fetched = {product.name for product in parts.fetched}
        self.lefts = {value.name: value for value in parts.lefts}

    def compute(self, operation: TileOperation, group: int) -> None:
        """The operation, with the fetch or the put behind it."""
        name = operation.name
        super().compute(operation, group)
        origin = Origin(name, group, name)
        if name in self.fetched:
            words = words_of(self.values[name], self.rates, self.teams)
            self.moved(_fetched(name), self.values[name], origin, words)
        if name in self.lefts:
            left = self.lefts[name]
            self.moved(_put(name), left, origin, columns=self.columns_of(left))

    def depend(self, operation: TileOperation, group: int) -> None:
        """Adds the dependences of an operation in one group."""
        super().depend(operation, group)
        name, key = operation.name, f"{operation.name}_{group}"
        if name in self.fetched:
            fetch = f"{_fetched(name)}_{group}"
            self.edge(key, fetch, self.latency(key), blocking=True)
            self.edge(fetch, key, self.latency(fetch), 1, ORDER)
        if name in self.lefts:
            put = f"{_put(name)}_{group}"
            self.edge(key, put, self.latency(key))
            for product in self.parts.readers(name):
                reader = f"{product.name}_{group}"
                self.edge(put, reader, self.latency(put), blocking=True)
                self.edge(reader, put, self.latency(reader), 1, ORDER)

    def from_value(
        self, key: str, source: str, sink: TileOperation, number: int, group: int, distance: int
    ) -> None:
        """Values that stand in tensor memory pass through a move."""
        if source in self.fetched:
            fetch = f"{_fetched(source)}_{group}"
            self.edge(fetch, f"{sink.name}_{group}", self.latency(fetch), distance)
        elif source not in self.lefts or sink.kind != "mma":
            super().from_value(key, source, sink, number, group, distance)


class AttentionBuilder(TensorBuilder):
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
        words = None
        if not put:
            words = words_of(value, self.rates, self.teams)
            words = self.held(words) if value == self.parts.accumulator else words
        columns = self.columns_of(value) if put and operation == self.parts.left.name else 0
        self.moved(name, value, Origin(operation, group, value.name), words, columns)

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
