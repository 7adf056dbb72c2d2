"""What bounds a tile program on a multiprocessor: cycles of one iteration by resource.

Tensor cores, special functions, shared memory and the way from the L2 cache follow from the tile
program and the rates of its target (`backends/<target>/rates.yaml`), issue slots from counts of
machine code, or of a model that was fitted to such. The largest of them, the waves of CTAs and a
constant for the beginning and the end of a work item bound the share of the tensor cores' peak from
above. A model and no measurement: latencies are taken as hidden; clocks under load, misses of the
L2 cache and the epilogue are not known to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from titan.codegen.tile.cost import shares_of
from titan.codegen.tile.dtypes import bytes_of
from titan.codegen.tile.exponentials import SHARES, polynomial_shares
from titan.codegen.tile.held import held_operands
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace
from titan.codegen.tile.operations import KINDS, cost_class
from titan.codegen.tile.rates import Rates, rates
from titan.codegen.tile.wave_split import BLOCKS, WaveSplit, wave_split

FILL_CYCLES = 1500  # the first loads of a CTA, and its epilogue
PROCESSORS = {"sm_90a": 132, "sm_100a": 148, "gfx942": 304, "gfx950": 256}  # of the largest GPU
# Bytes of the GPU's memory in a cycle at its highest clock. Data sheets: 3.35 TB/s of an H100 SXM
# at 1.98 GHz, 8 of a B200 at 1.965 GHz, 5.3 of an MI300X at 2.1 GHz, 8 of an MI355X at 2.4 GHz.
MEMORY_BYTES_A_CYCLE = {"sm_90a": 1690, "sm_100a": 4070, "gfx942": 2520, "gfx950": 3330}
TENSOR_CORES, ISSUE_SLOTS = "tensor cores", "issue slots"
INSTRUCTION_ROWS = {"registers": 64, "tensor": 128}  # a right operand is read once for so many


@dataclass(frozen=True, slots=True)
class Roofline:
    """`cycles` of one iteration by resource; work items, their iterations, how CTAs are launched.

    `items` 0: as many as fill whole waves.
    """

    cycles: Mapping[str, float]
    trips: int
    items: int = 0
    processors: int = 1
    persistent: bool = False
    cluster: int = 1

    @property
    def busiest(self) -> float:
        """Cycles of an iteration at the resource that it takes longest at."""
        return max(self.cycles.values())

    @property
    def limit(self) -> str:
        """That resource; the tensor cores where several take as long."""
        return next(name for name, cycles in self.cycles.items() if cycles == self.busiest)

    @property
    def share(self) -> float:
        """The share of the tensor cores' peak, at most; 0 without a product."""
        items = self.items or self.processors
        at_once = self.processors // self.cluster * self.cluster if self.items else items
        waves = -(-items // at_once)
        fills = 1 if self.persistent else waves
        total = waves * self.trips * self.busiest + fills * FILL_CYCLES
        return items * self.trips * self.cycles[TENSOR_CORES] / (self.processors * total)


def iteration_cycles(tile: TileProgram, instructions: float | None = None) -> dict[str, float]:
    """Cycles of one iteration by resource.

    `instructions` of the main loop for a warp: each of the four schedulers of a multiprocessor
    issues for one warp of every group of warps, or of every four waves.
    """
    known = rates(tile.target)
    products = [item for item in tile.body if item.kind == "mma"]
    loads = [item for item in tile.body if item.kind == "load"]
    read = sum(operand_bytes(tile, item, known) for item in products)
    loaded = sum(value_bytes(tile, item.name) // shares_of(tile, item, known) for item in loads)
    fetched = sum(global_bytes(tile, item) for item in loads)
    cycles = {TENSOR_CORES: sum(product_cycles(tile, item, known) for item in products)}
    if instructions is not None:
        slots = instructions * tile.groups / known.groups.together
        cycles[ISSUE_SLOTS] = float(slots * known.issue_cycles)
    shares = polynomial_shares(tile)
    cycles["special functions"] = sum(
        special_cycles(tile, item, known) * (1 - shares.get(item.name, 0) / SHARES)
        for item in tile.body
    )
    cycles["shared memory"] = (read + loaded) / known.shared.bytes_per_cycle
    cycles["L2 to shared memory"] = fetched / known.global_memory.bytes_per_cycle
    return cycles


def product_cycles(tile: TileProgram, product: TileOperation, known: Rates) -> float:
    """Cycles of the tensor cores at their peak rate."""
    value = product.value
    dtype = value_of(tile, product.operands[1]).dtype
    return value.rows * value.columns * contraction(tile, product) / known.matrix.per_cycle[dtype]


def special_cycles(tile: TileProgram, item: TileOperation, known: Rates) -> float:
    """Cycles of the special function units: of the unit that computes exponentials."""
    kind = KINDS[item.kind]
    rate = known.classes.get(cost_class(kind, item.function))
    if rate is None or item.result is None:
        return 0.0
    unit = known.classes["exponential"].uses[0][0]
    counted = item.value if kind.elements == "result" else value_of(tile, item.operands[0])
    elements = counted.rows * counted.columns
    if counted.place is ValuePlace.ROW:  # every lane that has a part of the row computes it
        elements *= known.lanes_per_row
    return sum(elements / per_cycle for name, per_cycle in rate.uses if name == unit)


def value_of(tile: TileProgram, name: str) -> Value:
    """The value of an operation, or one that is carried."""
    carried = (item.value for item in tile.carried if item.value.name == name)
    found = next(carried, None)
    return found or tile.operation(name).value


def value_bytes(tile: TileProgram, name: str) -> int:
    """The size of a value in bytes."""
    value = value_of(tile, name)
    return value.rows * value.columns * bytes_of(value.dtype)


def contraction(tile: TileProgram, product: TileOperation) -> int:
    """The extent that a product sums over: the columns of its left operand as it enters."""
    left = value_of(tile, product.operands[0])
    return left.rows if product.transpose and product.transpose[0] else left.columns


def operand_bytes(tile: TileProgram, product: TileOperation, known: Rates) -> int:
    """Bytes of shared memory that a product reads: left operands once, right ones for every 64 or
    128 rows that an instruction has; of what CTAs that multiply together share, the part of one.
    Where waves read operands into registers, what all of them read."""
    left, right = product.operands[:2]
    of_left = value_of(tile, left).place is ValuePlace.SHARED and left not in held_operands(tile)
    of_right = value_of(tile, right).place is ValuePlace.SHARED
    if known.matrix.operands == "registers":
        return _read_by_waves(tile, product, of_left, of_right)
    repeats = max(1, product.value.rows // INSTRUCTION_ROWS[known.matrix.result])
    shares = {item.name: shares_of(tile, item, known) for item in tile.body if item.kind == "load"}
    of_both = repeats * value_bytes(tile, right) // shares.get(right, 1) if of_right else 0
    return of_both + (value_bytes(tile, left) if of_left else 0)


def _read_by_waves(tile: TileProgram, product: TileOperation, of_left: bool, of_right: bool) -> int:
    """Bytes that all waves read for a product: each of them the rows of both operands for its part
    of the sums."""
    split = wave_split(tile) or WaveSplit((tile.groups, 1), BLOCKS[0])
    left = value_of(tile, product.operands[0])
    row_bytes = contraction(tile, product) * bytes_of(left.dtype)
    sides = [side for side, is_read in enumerate((of_left, of_right)) if is_read]
    rows = sum(split.operand_rows(product.value, side) for side in sides)
    return tile.groups * rows * row_bytes


def global_bytes(tile: TileProgram, load: TileOperation) -> float:
    """Bytes that a CTA fetches: its part where the CTAs of its cluster want the same tile."""
    last = tile.work[-1].name if tile.work else ""
    own = last in tile.names_in(*load.tensor_view.offsets)
    return value_bytes(tile, load.name) / (1 if own else tile.cluster)
