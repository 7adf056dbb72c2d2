"""Operations of the loop of a tile program, with units and cycles; `loops.py` gives the loop.

A load stands once; every other operation of the body once for each team, `NAME_g`, on the rows of
that team: a team is a group of the program, on AMD four of its groups (waves, one a SIMD). Cycles
follow from shapes and the rates of the target (`backends/<target>/rates.yaml`),
registers are 32-bit words of all threads of the group. Where the matrix unit reads registers only
(AMD), each of its operands in shared memory gets a read of its own, `OPERAND_into_NAME_g`. Where
products are in tensor memory, what passes between it and registers is an operation as well
(`titan/codegen/tile/tensor_cost.py`).

What happens outside of the loop costs no cycles here, but what it holds is taken off: tiles loaded
before and the staging of stores off the shared memory, values of `before` off the registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.codegen.tile.alternation import WARPGROUPS, may_alternate
from titan.codegen.tile.attention import Attention, NotAttention, attention_of
from titan.codegen.tile.block_scales import scales_of
from titan.codegen.tile.dtypes import FORMATS, bytes_of
from titan.codegen.tile.exponentials import SHARES, polynomial_shares
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace
from titan.codegen.tile.operations import KINDS, VECTORS, cost_class
from titan.codegen.tile.products import NotInTensorMemory, TensorProducts, tensor_products
from titan.codegen.tile.rates import Rates, rates
from titan.codegen.tile.staging import STAGES, may_slice, overlaid, slices_of
from titan.foundation.errors import Refusal
from titan.scheduling.loop.model import DATA, ORDER, Dependence, Loop, Operation, ReservationUse
from titan.target.model import Machine, WarpGroup

BARRIER_BYTES = 1024  # kept for barriers and alignment where an engine loads
TENSOR_LANES = 128
SHARED_STAGES = 2  # of what groups share


class CostError(Refusal):
    """The program has no loop on this machine; the text says why."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What an operation of the loop is: the tile operation, on the rows of a team.

    `operand`: it only reads that operand of the operation into registers; where the operand is the
    operation itself, its result, from tensor memory or back into it.
    """

    operation: str
    group: int | None = None
    operand: str = ""


def parts_of(tile: TileProgram, rates_: Rates) -> Attention | None:
    """The parts of attention, where its products stand in tensor memory; None for other loops."""
    products = sum(operation.kind == "mma" for operation in tile.body)
    if rates_.matrix.result != "tensor" or products < 2:
        return None
    try:
        return attention_of(tile)
    except NotAttention:
        return None


def products_of(tile: TileProgram, rates_: Rates) -> TensorProducts | None:
    """The products of another loop of several of them, where those stand in tensor memory.

    Raises CostError.
    """
    products = sum(operation.kind == "mma" for operation in tile.body)
    if rates_.matrix.result != "tensor" or products < 2:
        return None
    try:
        found = tensor_products(tile)
    except NotInTensorMemory as error:
        raise CostError(f"products are in tensor memory: {error}") from None
    if found.corrects:
        try:
            attention_of(tile)
        except NotAttention as error:
            raise CostError(f"products are in tensor memory: {error}") from None
    return found


def staging_bytes(tile: TileProgram, rates_: Rates, in_place: bool = True) -> int:
    """Shared memory from which fragments are stored; all groups have theirs, unless one warpgroup
    stores for all of them (`titan/codegen/tile/attention.py`). Of what may be staged in slices, so
    many slices as the ring has; with `in_place`, nothing of what may be staged in the place of
    another tile."""
    if not rates_.transfer.engine:
        return 0
    values, free = _values(tile), overlaid(tile) if in_place else {}
    at_a_time = tile.groups if parts_of(tile, rates_) is not None else 1  # one sub-tile
    total = 0
    for operation in tile.operations:
        if operation.kind != "store" or operation.name in free:
            continue
        value = values[operation.operands[0]]
        if value.place is ValuePlace.FRAGMENT:
            amount = value.rows // at_a_time * value.columns * bytes_of(value.dtype)
            slices = slices_of(value) if may_slice(tile) else 1
            total += amount if slices == 1 else amount // slices * STAGES
    return total * (WARPGROUPS if may_alternate(tile) else 1)


def shares_of(tile: TileProgram, load: TileOperation, rates_: Rates) -> int:
    """How many CTAs of a cluster each hold a share of a loaded tile, for products that they do
    together: those of tensor memory, of tiles that do not differ between the CTAs. Block scales are
    whole in each of them."""
    last = {dimension.name for dimension in tile.work[-1:]}
    own = load.view is None or bool(last & tile.names_in(*load.view.offsets))
    scales = any(load.name in scales_of(operation) for operation in tile.body)
    return 1 if own or scales or rates_.matrix.result != "tensor" else tile.cluster


def shared_left(tile: TileProgram, machine: Machine, rates_: Rates, in_place: bool = True) -> int:
    """Bytes of shared memory that the rings of the loop may have; `in_place`: where stores are
    staged in the place of other tiles, if they may be."""
    taken = staging_bytes(tile, rates_, in_place) + (BARRIER_BYTES if rates_.transfer.engine else 0)
    parts = parts_of(tile, rates_)
    if parts is not None:  # rows that the softmax hands over
        taken += sum(4 * value.rows for value in (parts.factor, *parts.handed))
    taken += SHARED_STAGES * sum(
        one.value.rows * one.value.columns * bytes_of(one.value.dtype)
        for one in tile.body
        if one.kind == "share"
    )
    for operation in tile.before:
        value = operation.result
        if value is not None and value.place is ValuePlace.SHARED:
            taken += value.rows * value.columns * bytes_of(value.dtype)
    return max(0, machine.memories["shared"].capacity - taken)


def teams_of(tile: TileProgram, machine: Machine, rates_: Rates) -> tuple[WarpGroup, ...]:
    """The warp groups: a producer where an engine loads, one team for each group, and one more
    that corrects accumulators which stand in tensor memory.

    A team's registers are what is left when each producer thread keeps its own, a multiple of 8.
    """
    groups = rates_.groups
    teams_count, warps = team_shape(tile, rates_)
    threads = groups.warps * groups.together * machine.threads_per_warp
    corrected = parts_of(tile, rates_) is not None
    share = (machine.registers_total // threads - groups.reserved) // (teams_count + corrected)
    most = min(groups.registers, share // 8 * 8)
    held = _held_before(tile, rates_, teams_count) // threads
    teams = []
    if rates_.transfer.engine:
        teams.append(WarpGroup("producer", 1, None, True))
    if rates_.matrix.result == "tensor":
        teams.append(WarpGroup("mma", 1))
    if corrected:
        word = "softmax"
    else:
        word = "consumer" if rates_.transfer.engine else "waves"
    teams += [WarpGroup(f"{word}{g}", warps, max(1, most - held)) for g in range(teams_count)]
    if corrected:
        teams.append(WarpGroup("correction", warps, max(1, most)))
    return tuple(teams)


def team_shape(tile: TileProgram, rates_: Rates) -> tuple[int, int]:
    """How many teams compute, and the warps of each."""
    together = rates_.groups.together
    teams = max(1, tile.groups // together)
    return teams, rates_.groups.warps * tile.groups // teams


def words_of(value: Value, rates_: Rates, teams: int) -> int:
    """32-bit registers of one team for its part of a value; 0 in shared memory."""
    if value.place is ValuePlace.SHARED:
        return 0
    return _elements(value, rates_, teams) * FORMATS[value.dtype].bits // 32


def _elements(value: Value, rates_: Rates, teams: int) -> int:
    """Numbers that the lanes of one team hold (copies counted)."""
    rows = value.rows // teams
    if value.place is ValuePlace.ROW:
        return rows * rates_.lanes_per_row
    if value.place is ValuePlace.COLUMN:
        return value.columns * rates_.lanes_per_column * rates_.groups.together
    return rows * value.columns


def _values(tile: TileProgram) -> dict[str, Value]:
    found = {item.value.name: item.value for item in tile.carried}
    found |= {op.name: op.result for op in tile.operations if op.result is not None}
    return found


def _held_before(tile: TileProgram, rates_: Rates, teams: int) -> int:
    """Registers of a team that values of `before` hold through the loop."""
    used = {name for operation in (*tile.body, *tile.after) for name in operation.operands}
    return sum(
        words_of(operation.result, rates_, teams)
        for operation in tile.before
        if operation.result is not None and operation.name in used
    )


class Builder:
    """The loop of one tile program on one machine, while it is made."""

    def __init__(self, tile: TileProgram, machine: Machine, depth: int) -> None:
        self.tile = tile
        self.machine = machine
        self.depth = depth
        self.rates = rates(machine.name)
        self.teams, self.warps = team_shape(tile, self.rates)
        self.values = _values(tile)
        self.shares = polynomial_shares(tile)
        self.next = {item.value.name: item.next for item in tile.carried}
        self.body = {operation.name: operation for operation in tile.body}
        self.operations: list[Operation] = []
        self.positions: dict[str, int] = {}
        self.origins: dict[str, Origin] = {}
        self.edges: dict[Dependence, None] = {}

    def loop(self) -> Loop:
        """The loop with its operations and dependences. Raises CostError."""
        tile = self.tile
        for operation in tile.body:
            if operation.kind == "load":
                self.put(self.load(operation), Origin(operation.name))
        for group in range(self.teams):
            for operation in tile.body:
                if operation.kind != "load":
                    self.compute(operation, group)
        for group in range(self.teams):
            for operation in tile.body:
                if operation.kind != "load":
                    self.depend(operation, group)
        return Loop(
            tile.name,
            self.machine,
            tuple(self.operations),
            tuple(self.edges),
            teams_of(tile, self.machine, self.rates),
            (("shared", shared_left(tile, self.machine, self.rates)),),
            tile.note,
        )

    def put(self, operation: Operation, origin: Origin) -> None:
        """Adds an operation of the loop. Raises CostError for a name that is taken."""
        if operation.name in self.positions:
            raise CostError(f"two operations of the loop are called {operation.name}")
        self.positions[operation.name] = len(self.operations)
        self.operations.append(operation)
        self.origins[operation.name] = origin

    # Operations

    def load(self, operation: TileOperation) -> Operation:
        """The operation of a load: its uses of the copy engine, in cycles."""
        value, transfer = self.values[operation.name], self.rates.transfer
        amount = value.rows * value.columns * bytes_of(value.dtype)
        amount //= shares_of(self.tile, operation, self.rates)
        cycles = transfer.cycles(amount)
        return Operation(
            operation.name,
            (ReservationUse(transfer.unit, cycles),),
            cycles + transfer.latency_cycles,
            warps=1 if transfer.engine else self.warps,
            footprints=(("shared", amount),),
            variable_latency=transfer.engine,
            streaming=transfer.engine,
            slots=self.depth,
            issue_cycles=transfer.issue_cycles or None,
        )

    def compute(self, operation: TileOperation, group: int) -> None:
        """The operation on the rows of one group, with the reads that it needs."""
        if operation.kind == "mma" and self.rates.matrix.operands == "registers":
            for number, name in enumerate(operation.operands[:2]):
                if self.values[name].place is ValuePlace.SHARED:
                    rows = self.rows_of(operation, number)
                    read = self.shared_read(self.values[name], rows)
                    key = _read_name(name, operation.name, group)
                    self.put(Operation(key, **read), Origin(operation.name, group, name))
        made = self.cost(operation)
        name = f"{operation.name}_{group}"
        self.put(Operation(name, **made), Origin(operation.name, group))

    def rows_of(self, operation: TileOperation, number: int) -> float:
        """The share of an operand in shared memory that one group reads: its rows, or all."""
        return 1 / self.teams if number == 0 else 1.0

    def cost(self, operation: TileOperation) -> dict:
        """The uses and the latency of an operation, in cycles of the machine."""
        if operation.kind == "mma":
            return self.matrix(operation)
        if operation.kind == "read":
            source = self.values[operation.operands[0]]
            if operation.value.place is ValuePlace.COLUMN:  # each team has a copy of all of it
                words = words_of(operation.value, self.rates, self.teams)
                return self.shared_read(source, 1.0) | {"registers": words}
            return self.shared_read(source, 1 / self.teams)
        if operation.kind in VECTORS:
            return self.vector(operation)
        if operation.kind == "store":
            return self.store(self.values[operation.operands[0]])
        if operation.kind == "share":
            return self.share(operation.value)
        value = operation.value
        kind = KINDS[operation.kind]
        rate = self.rates.classes[cost_class(kind, operation.function)]
        counted = value if kind.elements == "result" else self.values[operation.operands[0]]
        amount = _elements(counted, self.rates, self.teams)
        coarsely = amount * self.shares.get(operation.name, 0) // SHARES
        uses: list[ReservationUse] = []
        for unit, per_cycle in rate.uses:
            start = uses[-1].end_cycle if uses else 0
            cycles = max(1, -(-(amount - coarsely) // per_cycle))
            uses.append(ReservationUse(unit, cycles, 1, start))
        if coarsely and self.rates.polynomial is not None:  # beside the special functions
            for unit, per_cycle in self.rates.polynomial.uses:
                uses.insert(0, ReservationUse(unit, -(-coarsely // per_cycle)))
        return self.in_registers(value, tuple(uses), rate.latency_cycles)

    def in_registers(self, value: Value, uses: tuple[ReservationUse, ...], latency: int) -> dict:
        """The cost of an operation whose result is kept in registers."""
        words = words_of(value, self.rates, self.teams)
        return {
            "uses": uses,
            "latency_cycles": uses[-1].end_cycle + latency,
            "registers": words,
            "warps": self.warps,
            "spill_cycles": self.machine.spill_cycles(words),
        }

    def matrix(self, operation: TileOperation) -> dict:
        """The cost of a product on the tensor cores of one team."""
        value, matrix = self.values[operation.name], self.rates.matrix
        left = self.values[operation.operands[0]]
        depth = left.rows if operation.transpose[0] else left.columns
        work = value.rows // self.teams * value.columns * depth
        cycles = max(1, -(-work // matrix.per_cycle[left.dtype]))
        made = self.in_registers(
            value, (ReservationUse(matrix.unit, cycles),), matrix.latency_cycles
        )
        made["issue_cycles"] = matrix.issue_cycles or max(1, cycles // max(1, matrix.issue_share))
        if matrix.result == "tensor":
            columns = -(-made["registers"] // TENSOR_LANES)
            made |= {"registers": 0, "spill_cycles": 0, "warps": 1}
            made["footprints"] = (("tensor", columns),)
        return made

    def shared_read(self, source: Value, share: float) -> dict:
        """A part of a tile in shared memory, to registers as it is."""
        memory = self.rates.shared
        amount = int(source.rows * source.columns * bytes_of(source.dtype) * share)
        cycles = max(1, -(-amount // memory.bytes_per_cycle))
        return {
            "uses": (ReservationUse(memory.unit, cycles),),
            "latency_cycles": cycles + memory.latency_cycles,
            "registers": amount // 4,
            "warps": self.warps,
            "issue_cycles": self.rates.transfer.issue_cycles or None,
        }

    def vector(self, operation: TileOperation) -> dict:
        """The cost of reading a vector from global memory."""
        name, value = operation.tensor_view.tensor, operation.value
        tensor = next(item for item in self.tile.tensors if item.name == name)
        memory = self.rates.global_memory
        amount = value.columns * (value.rows // self.teams if value.rows > 1 else 1)
        cycles = max(1, -(-amount * bytes_of(tensor.dtype) // memory.bytes_per_cycle))
        return self.in_registers(
            value, (ReservationUse(memory.unit, cycles),), memory.latency_cycles
        )

    def store(self, value: Value) -> dict:
        """A fragment through shared memory where an engine stores, else straight."""
        amount = value.rows // self.teams * value.columns * bytes_of(value.dtype)
        shared, transfer = self.rates.shared, self.rates.transfer
        uses: list[ReservationUse] = []
        if value.place is ValuePlace.ROW or not transfer.engine:
            memory = self.rates.global_memory
            uses.append(ReservationUse(memory.unit, max(1, -(-amount // memory.bytes_per_cycle))))
        else:
            if value.place is ValuePlace.FRAGMENT:
                uses.append(
                    ReservationUse(shared.unit, max(1, -(-amount // shared.bytes_per_cycle)))
                )
            start = uses[-1].end_cycle if uses else 0
            uses.append(ReservationUse(transfer.unit, transfer.cycles(amount), 1, start))
        written = uses[0].cycles if len(uses) > 1 else 1
        return {
            "uses": tuple(uses),
            "latency_cycles": uses[-1].end_cycle + shared.latency_cycles,
            "warps": self.warps,
            "issue_cycles": written,
        }

    def share(self, value: Value) -> dict:
        """A fragment to shared memory, where all groups meet behind it."""
        amount = value.rows // self.teams * value.columns * bytes_of(value.dtype)
        cycles = max(1, -(-amount // self.rates.shared.bytes_per_cycle))
        return {
            "uses": (ReservationUse(self.rates.shared.unit, cycles),),
            "latency_cycles": cycles + self.rates.shared.latency_cycles,
            "warps": self.warps,
            "issue_cycles": cycles,
        }

    # Dependences

    def depend(self, operation: TileOperation, group: int) -> None:
        """Every operand from where it is computed, in this iteration or in the one before."""
        for number, name in enumerate(operation.operands):
            source, distance = (self.next[name], 1) if name in self.next else (name, 0)
            if source not in self.body:
                continue
            sink = f"{operation.name}_{group}"
            if self.body[source].kind == "load":
                into = _read_name(name, operation.name, group)
                if into in self.positions:
                    self.from_load(source, into)
                    self.edge(into, sink, self.latency(into))
                else:
                    self.from_load(source, sink)
                continue
            self.from_value(f"{source}_{group}", source, operation, number, group, distance)

    def from_load(self, load: str, reader: str) -> None:
        """The reader waits for the load, and the load of `depth` iterations on for the reader."""
        engine = self.rates.transfer.engine
        self.edge(load, reader, 0 if engine else self.latency(load), blocking=True)
        self.edge(reader, load, self.latency(reader), self.depth, ORDER)

    def from_value(
        self,
        key: str,
        source: str,
        sink: TileOperation,
        number: int,
        group: int,
        distance: int,
    ) -> None:
        """The dependence of a reader on the value that it takes, by its name."""
        to = f"{sink.name}_{group}"
        delay, blocking = self.latency(key), False
        if self.body[source].kind == "mma":
            if sink.kind == "mma" and number == 2:
                delay = self.operations[self.positions[key]].cycles  # sums stay in the pipe
            elif self.rates.matrix.result == "tensor":
                raise CostError(
                    f"{sink.name} uses the product {source} within the loop, which on "
                    f"{self.machine.name} is in tensor memory"
                )
            else:
                blocking = self.rates.matrix.operands == "shared"  # asynchronous: waited for
        self.edge(key, to, delay, distance, blocking=blocking)

    def latency(self, name: str) -> int:
        """The latency of an operation, in cycles."""
        return self.operations[self.positions[name]].latency_cycles

    def edge(
        self,
        source: str,
        sink: str,
        delay: int,
        distance: int = 0,
        kind: str = DATA,
        blocking: bool = False,
    ) -> None:
        """Adds a dependence between two operations of the loop."""
        found = Dependence(
            self.positions[source], self.positions[sink], delay, distance, kind, blocking
        )
        self.edges[found] = None


def _read_name(operand: str, operation: str, group: int) -> str:
    return f"{operand}_into_{operation}_{group}"
