"""What an operation of TTGIR takes on a machine, by the rates of tile operations.

Cycles follow from the shapes in its types and from `backends/<target>/rates.yaml`, as they do for
tile programs. Loads by a copy engine have variable latency and run ahead; results of the matrix
unit are awaited. Layout conversions go through shared memory, once in and once out.
"""

from __future__ import annotations

from dataclasses import replace

from titan.codegen.tile.rates import Rates
from titan.foundation.errors import TitanError
from titan.frontends.graph.shapes import DTYPES, Shaped, shapes
from titan.frontends.ttgir.model import TtgirOperation
from titan.scheduling.loop.model import Operation, ReservationUse
from titan.target.model import Machine

TENSOR_LANES = 128
COPIES = (
    "ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather",
    "ttg.async_copy_global_to_local", "tt.descriptor_load", "tt.descriptor_gather", "tt.load",
    "tt.experimental_descriptor_load",
)  # fmt: skip
PRODUCTS = (
    "tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma",
    "ttng.tc_gen5_mma_scaled",
)  # fmt: skip
STORES = (
    "tt.store", "tt.descriptor_store", "tt.descriptor_reduce", "tt.atomic_rmw",
    "ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce",
    "tt.experimental_descriptor_store",
)  # fmt: skip
CLASSES = {
    **dict.fromkeys(("addf", "subf", "mulf", "negf", "fma", "addi", "subi", "muli"), "add"),
    **dict.fromkeys(
        ("maxnumf", "minnumf", "maximumf", "minimumf", "cmpf", "cmpi", "select", "andi", "ori",
         "xori", "shli", "shrsi", "shrui", "maxsi", "minsi", "maxui", "minui", "absf", "clampf",
         "divsi", "divui", "remsi", "remui", "addptr"),
        "compare",
    ),
    **dict.fromkeys(
        ("truncf", "extf", "fp_to_fp", "sitofp", "uitofp", "fptosi", "fptoui", "trunci", "extsi",
         "extui", "index_cast"),
        "convert",
    ),
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sin", "cos", "erf"), "exponential"),
    **dict.fromkeys(("sqrt", "rsqrt", "precise_sqrt"), "reciprocal"),
    **dict.fromkeys(("divf", "precise_divf"), "divide"),
    "tanh": "tanh",
}  # fmt: skip


class GraphCostError(TitanError):
    """An operation whose cost is not known; the text says why."""


class Costs:
    """Operations of a loop for one machine; `warps` run each that is on tensors together."""

    def __init__(self, machine: Machine, rates: Rates, warps: int, stages: int) -> None:
        self.machine, self.rates, self.warps, self.stages = machine, rates, warps, stages

    def of(self, name: str, operation: TtgirOperation) -> Operation:
        """The operation of the loop. Raises GraphCostError."""
        kind = operation.name
        types = shapes(operation.types)
        if kind in COPIES:
            return self.copy(name, operation, types)
        if kind in PRODUCTS:
            return self.product(name, types)
        if kind in STORES:
            return self.memory(name, types, None)
        if kind in ("ttng.tmem_load", "ttng.tmem_store"):
            return self.tensor_move(name, types, put=kind.endswith("store"))
        if kind in ("ttg.local_load", "ttg.local_store", "ttg.local_alloc", "ttg.convert_layout"):
            times = 2 if kind == "ttg.convert_layout" else 1
            result = types[-1] if kind in ("ttg.local_load", "ttg.convert_layout") else None
            return self.memory(name, types, result, times)
        return self.arithmetic(name, operation, types)

    def copy(self, name: str, operation: TtgirOperation, types: list[Shaped]) -> Operation:
        """A load from global memory: by the engine where the machine has one."""
        if not types:
            raise GraphCostError("its types name no tensor and no view of memory")
        transfer = self.rates.transfer
        amount = types[-1].pointed.bytes
        cycles = transfer.cycles(amount)
        engine = transfer.engine and "async_copy" not in operation.name
        engine = engine and operation.name != "tt.load"
        return Operation(
            name,
            (ReservationUse(transfer.unit, cycles),),
            cycles + transfer.latency_cycles,
            warps=1 if engine else self.warps,
            footprints=(("shared", amount),),
            variable_latency=engine,
            streaming=engine,
            slots=self.stages if engine else None,
            issue_cycles=transfer.issue_cycles or None,
        )

    def product(self, name: str, types: list[Shaped]) -> Operation:
        """M N K multiply-adds: extents of the first two types."""
        if len(types) < 2 or any(len(one.shape) < 2 for one in types[:2]):
            raise GraphCostError("the types of its two operands are not read")
        left, right = types[:2]
        matrix = self.rates.matrix
        dtype = DTYPES.get(left.dtype, left.dtype)
        if dtype not in matrix.per_cycle:
            raise GraphCostError(
                f"the matrix unit of {self.machine.name} has no rate for {left.dtype}"
            )
        rows, depth, columns = left.shape[-2], left.shape[-1], right.shape[-1]
        cycles = max(1, -(-rows * depth * columns // matrix.per_cycle[dtype]))
        words = rows * columns
        made = Operation(
            name,
            (ReservationUse(matrix.unit, cycles),),
            cycles + matrix.latency_cycles,
            registers=words,
            warps=self.warps,
            spill_cycles=self.machine.spill_cycles(words),
            issue_cycles=matrix.issue_cycles or max(1, cycles // max(1, matrix.issue_share)),
        )
        if matrix.result != "tensor":
            return made
        held = (("tensor", -(-words // TENSOR_LANES)),)
        return replace(made, registers=0, warps=1, spill_cycles=0, footprints=held)

    def memory(
        self, name: str, types: list[Shaped], result: Shaped | None, times: int = 1
    ) -> Operation:
        """A transport through shared memory; of registers where it has a result."""
        if not types:
            raise GraphCostError("its types name no tensor and no view of memory")
        rate = self.rates.shared
        cycles = max(1, times * -(-types[-1].bytes // rate.bytes_per_cycle))
        words = 0 if result is None else result.words
        return Operation(
            name,
            (ReservationUse(rate.unit, cycles),),
            cycles + times * rate.latency_cycles,
            registers=words,
            warps=self.warps,
            spill_cycles=self.machine.spill_cycles(words) if words else 0,
        )

    def tensor_move(self, name: str, types: list[Shaped], put: bool) -> Operation:
        """Between tensor memory and registers."""
        rate = self.rates.tensor
        if not types or not rate.unit:
            raise GraphCostError(f"{self.machine.name} has no rates of tensor memory for it")
        cycles = rate.cycles(types[-1].bytes, put)
        words = 0 if put else types[-1].words
        return Operation(
            name,
            (ReservationUse(rate.unit, cycles),),
            cycles + (rate.put_latency_cycles if put else rate.fetch_latency_cycles),
            registers=words,
            warps=self.warps,
            spill_cycles=self.machine.spill_cycles(words) if words else 0,
        )

    def arithmetic(self, name: str, operation: TtgirOperation, types: list[Shaped]) -> Operation:
        """Arithmetic on tensors, and reductions, whose operands are counted."""
        _, _, word = operation.name.partition(".")
        if not types:
            raise GraphCostError("its types name no tensor")
        counted = result = types[-1]
        if operation.name in ("tt.reduce", "tt.scan"):
            counted = types[0]
            inner = [one.name for region in operation.regions for one in region.operations]
            maximum = any("max" in one or "min" in one for one in inner)
            class_ = "row_max" if maximum else "row_sum"
        elif word in CLASSES:
            class_ = CLASSES[word]
        else:
            raise GraphCostError("its cost is not known")
        rate = self.rates.classes[class_]
        uses: list[ReservationUse] = []
        for unit, per_cycle in rate.uses:
            start = uses[-1].end_cycle if uses else 0
            cycles = max(1, -(-counted.elements // per_cycle))
            uses.append(ReservationUse(unit, cycles, 1, start))
        return Operation(
            name,
            tuple(uses),
            uses[-1].end_cycle + rate.latency_cycles,
            registers=result.words,
            warps=self.warps,
            spill_cycles=self.machine.spill_cycles(result.words),
        )
