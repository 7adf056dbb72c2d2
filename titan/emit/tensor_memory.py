"""Accumulators in tensor memory (sm_100a): where they lie, and how what touches them is spelled.

One thread multiplies; a warpgroup fetches the finished accumulator into registers, in the fragment
that all other arithmetic uses, but with the 16 rows of a block side by side in the lanes of a warp.
Tensor memory is taken at the start of the kernel and given back at its end, by the first warp.
Around every synchronisation of a role that touches it stand the tcgen05 fences that PTX asks for.
Source: PTX ISA, tcgen05: tensor memory, memory consistency model; the facts B1 to B12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from titan.emit.arithmetic import beside
from titan.emit.expressions import Scope
from titan.emit.model import EmissionRefused
from titan.emit.names import identifier, integer
from titan.emit.sites import Kind, Site
from titan.emit.spelling import Spelling
from titan.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import ONE
from titan.tile.model import Place as Where

Statement = dict[str, Any]
LANES = 128
COLUMNS_MAX = 512
COLUMNS_MIN = 32
ROW_STEP = 16


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Columns of one buffer: `columns` for each of its stages, from `column` on."""

    name: str
    column: int
    columns: int
    stages: int


def tensor_places(kernel: Kernel, program: ir.SyncProgram) -> dict[str, TensorPlace]:
    """The buffers in tensor memory, one behind the other. Raises EmissionRefused."""
    layouts = {layout.name: layout for layout in kernel.placement.layouts}
    found: dict[str, TensorPlace] = {}
    column = 0
    for buffer in program.buffers:
        if buffer.space is not ir.Space.TENSOR:
            continue
        layout = layouts.get(buffer.name)
        if layout is None or len(layout.tile) != 2 or layout.dtype != "f32" or buffer.parts != 1:
            raise EmissionRefused(f"{buffer.name} is no accumulator of f32 in tensor memory")
        rows, columns = layout.tile
        if rows != LANES or columns % 16 or not 16 <= columns <= 256:
            raise EmissionRefused(f"{buffer.name} is an accumulator of {rows} x {columns}")
        stages = integer(buffer.stages, f"the stages of {buffer.name}", 1, 16)
        found[buffer.name] = TensorPlace(buffer.name, column, columns, stages)
        column += columns * stages
    if column > COLUMNS_MAX:
        raise EmissionRefused(f"{column} columns of tensor memory; there are {COLUMNS_MAX}")
    return found


def allocated(places: dict[str, TensorPlace]) -> int:
    """The columns that are taken: a power of two; 0 where there are no accumulators."""
    needed = max((p.column + p.columns * p.stages for p in places.values()), default=0)
    return max(COLUMNS_MIN, 1 << (needed - 1).bit_length()) if needed else 0


class TensorSpelling(Spelling):
    """Spells a role of a program with accumulators in tensor memory."""

    row_step = ROW_STEP
    places: dict[str, TensorPlace]

    def block(self, sites: tuple[Site, ...], scope: Scope) -> list[Statement]:
        made: list[Statement] = []
        for site in sites:
            fences = site.operation if self._touches() else None
            if isinstance(fences, ir.Arrive):
                made.append({"kind": "tensor_fence", "side": "before"})
            made += self.site(site, scope)
            if isinstance(fences, ir.Wait):
                made.append({"kind": "tensor_fence", "side": "after"})
        return made

    def _touches(self) -> bool:
        """Whether the role multiplies or fetches."""
        return any(
            effect.buffer in self.places
            for operation in ir.walk(self.place.role.body)
            if isinstance(operation, ir.Access | ir.Asynchronous)
            for effect in operation.effects
        )

    def site(self, site: Site, scope: Scope) -> list[Statement]:
        operation = site.operation
        if isinstance(operation, ir.QueueArrive):
            if operation.count != ONE or not self.place.elected:
                raise EmissionRefused("a commit is one arrival of the thread that multiplies")
            barrier = self._barrier(operation.barrier, scope)
            return [{"kind": "tensor_commit", "barrier": barrier, "note": operation.label}]
        if site.kind is Kind.MMA:
            return [self._tensor_mma(site, scope)]
        if site.kind is Kind.FETCH:
            return [self._fetch(site, scope)]
        return super().site(site, scope)

    def _column(self, name: str, stage: str) -> str:
        place = self.places[name]
        text = f"titan_tensor + {place.column}" if place.column else "titan_tensor"
        return text if place.stages == 1 else f"{text} + {stage} * {place.columns}"

    def _fetch(self, site: Site, scope: Scope) -> Statement:
        """The stage is that of the read in front of it."""
        access = self.reads.get(site.number)
        effects = access.effects if access is not None else ()
        effect = next((item for item in effects if item.buffer == site.name), None)
        target = self._form(site.name)
        if effect is None or target["form"] != "float":
            raise EmissionRefused(f"{site.name} is fetched without a read of tensor memory before")
        if target["columns"] != self.places[site.name].columns:
            raise EmissionRefused(f"{site.name} has another shape than its accumulator")
        return {
            "kind": "fetch",
            "target": target,
            "place": self._column(site.name, beside(scope, effect.stage)),
        }

    def _tensor_mma(self, site: Site, scope: Scope) -> Statement:
        operation, issue = self.tiles.operations[site.name], site.operation
        assert isinstance(issue, ir.Asynchronous)
        if not self.place.elected:
            raise EmissionRefused(f"{site.name} is multiplied by more than one thread")
        stages = {effect.buffer: effect for effect in issue.effects if not effect.write}
        sums = [effect for effect in issue.effects if effect.write]
        value = self.tiles.value(site.name)
        if len(sums) != 1 or value.place is not Where.FRAGMENT or value.rows != LANES:
            raise EmissionRefused(f"{site.name} does not add to one accumulator of {LANES} rows")
        carried = self.tiles.carried.get(sums[0].buffer)
        adds = operation.operands[2:] == (sums[0].buffer,)
        if carried is None or carried.next != site.name or carried.initial != 0 or not adds:
            raise EmissionRefused(f"{site.name} adds to something else than what begins with 0")
        if value.columns != self.places[sums[0].buffer].columns:
            raise EmissionRefused(f"{site.name} has another shape than its accumulator")
        left, right = operation.operands[:2]
        flips = (*operation.transpose, False, False)[:2]
        if flips[0]:
            raise EmissionRefused(f"{left} must be K-major")
        a = self._operand(left, stages, scope, rows_along_k=False)
        b = self._operand(right, stages, scope, rows_along_k=not flips[1])
        if a["type"] != b["type"] or a["type"] == "f32":
            raise EmissionRefused(f"{site.name} multiplies {a['type']} and {b['type']}")
        step = 32 // (2 if a["type"] in ("bf16", "f16") else 1)
        inner = b["columns"] if flips[1] else b["rows"]
        columns = b["rows"] if flips[1] else b["columns"]
        if (a["rows"], a["columns"], columns) != (LANES, inner, value.columns) or inner % step:
            raise EmissionRefused(f"the operands of {site.name} do not fit")
        if step == 32 and not flips[1]:
            raise EmissionRefused(f"8-bit operands of {site.name} must be K-major")
        if site.number not in self.iterations:
            raise EmissionRefused(f"the iteration of {site.name} cannot be said")
        return {
            "kind": "tensor_mma", "a": a, "b": b, "steps": inner // step, "type": a["type"],
            "transpose_b": not flips[1], "columns": value.columns,
            "place": self._column(sums[0].buffer, beside(scope, sums[0].stage)),
            "iteration": beside(scope, self.iterations[site.number]),
            "note": identifier(site.name, "an mma"),
        }  # fmt: skip
