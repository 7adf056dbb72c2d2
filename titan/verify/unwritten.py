"""Whether a kernel reads shared or tensor memory before anything has written it.

Engines compare what a read finds with the tile that it names; a read that names none may see
anything that was written. That something was is decided here. In a verified program a read and a
write of the same region are ordered in the same way by all interleavings, so one run for each
choice of sizes is enough. The sizes are at their bound: with fewer tiles than stages real kernels
read stages that nothing fills, and leave out what they read.

Left out: global memory, which others fill; registers, whose computations are not in the
program; buffers with `initial`; stages that are handed over without data (`bytes: 0`), whose
readers mask them; runs of more than `STEPS_MAX`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.span import Span
from titan.language.protocol.model import Produce, Protocol
from titan.language.protocol.unroll import walk
from titan.sync import program as ir
from titan.sync.expression import Constant, Expression
from titan.sync.interpreter import SEMANTICS, UNDEFINED, Interpreter
from titan.sync.memory_rules import MemoryRules
from titan.sync.parts import effects_of
from titan.sync.reductions import Reduction
from titan.sync.state import Cell, Draft, ExecutionContext, Extent, key_text
from titan.verify.one_run import one_run
from titan.verify.sizes import bound_of, equal_sizes

CODE = "TTN222"
STEPS_MAX = 5_000  # of a run; what a longer one reads later is not seen
SPACES = (ir.Space.SHARED, ir.Space.TENSOR)


def masked_buffers(protocol: Protocol | None) -> frozenset[str]:
    """The buffers of rings whose stages may be handed over without data."""
    if protocol is None:
        return frozenset()
    rings = {
        statement.ring
        for role in protocol.roles
        for statement in walk(role.body)
        if isinstance(statement, Produce) and not _has_bytes(statement.bytes)
    }
    return frozenset(name for ring in protocol.rings if ring.name in rings for name in ring.buffers)


def _has_bytes(number: Expression | None) -> bool:
    return number is None or (isinstance(number, Constant) and number.value > 0)


def unwritten_reads(
    program: ir.SyncProgram,
    sizes: Mapping[str, int] | None = None,
    sums: Mapping[Span, bool] | None = None,
    masked: frozenset[str] = frozenset(),
) -> list[Diagnostic]:
    """One diagnostic for each operation that reads what no operation before it has written.

    The program has to be verified: the order of what races would be that of this run. `sizes`: of
    its free parameters, by default their bound. `sums`: the places of products that read what
    their accumulator holds, each time or (False) at least the first one. `masked`: buffers whose
    readers leave out what is not there.
    """
    if sizes is None:
        sizes = equal_sizes(program, bound_of(program))
    found = _read_in_one_run(program, sizes, sums or {}, masked)
    values = [f"{name} = {value}" for name, value in sorted(sizes.items())]
    notes = (f"with {', '.join(values)}",) if values else ()
    helps = (
        "fill it before it is read; where something outside of the file does, say so with "
        "`initial: 0`",
    )
    return [
        diagnostic(
            CODE, f"{key_text(cell)} is read and nothing has written it", span,
            "read here", notes=notes, helps=helps,
        )
        for span, cell in found.items()
    ]  # fmt: skip


def _reads_anything(program: ir.SyncProgram, examined: set[str]) -> bool:
    """Whether some read of these names no tile; engines compare the others."""
    storages = {item.name: item.storage or item.name for item in program.buffers}
    return any(
        not effect.write and effect.tile is None and storages[effect.buffer] in examined
        for role in program.roles
        for operation in ir.walk(role.body)
        for effect in effects_of(operation)
    )


def _read_in_one_run(
    program: ir.SyncProgram,
    sizes: Mapping[str, int],
    sums: Mapping[Span, bool],
    masked: frozenset[str],
) -> dict[Span | None, Cell]:
    """The places of reads in the first run that ends, with the first cell that each reads."""
    found: dict[Span | None, Cell] = {}
    met: dict[tuple[int, Span], int] = {}  # of each product that adds, the first step
    now = [0]  # the step that is taken
    examined = {item.storage or item.name for item in program.buffers if item.space in SPACES}
    examined -= {item.storage or item.name for item in program.buffers if item.name in masked}
    if not sums and not _reads_anything(program, examined):
        return found

    class UnwrittenCells(MemoryRules):
        """The rules of memory; what is read and was never written is noted."""

        def check_read(
            self, draft: Draft, context: ExecutionContext, cell: Cell, tile: int,
            queue: str | None = None,
        ) -> None:  # fmt: skip
            super().check_read(draft, context, cell, tile, queue)
            self._note(draft, context, cell)

        def check_write(
            self, draft: Draft, context: ExecutionContext, cell: Cell, queue: str | None = None,
            extent: Extent | None = None, reduction: Reduction | None = None,
        ) -> None:  # fmt: skip
            super().check_write(draft, context, cell, queue, extent, reduction)
            span = context.operation.span
            if extent is not None and span is not None and span in sums:
                first = met.setdefault((context.agent, span), now[0])
                if sums[span] or first == now[0]:
                    self._note(draft, context, cell)

        def _note(self, draft: Draft, context: ExecutionContext, cell: Cell) -> None:
            if draft.cells[cell].tile != UNDEFINED or cell[0] not in examined:
                return
            accesses = (access for flight in draft.flights() for access in flight.accesses)
            if not any(other == cell and write for other, write, *_ in accesses):
                found.setdefault(context.operation.span, cell)

    machine = Interpreter(program, dict(sizes), replace(SEMANTICS, memory=UnwrittenCells))
    for taken, _ in enumerate(one_run(machine)):
        now[0] = taken
        if taken == STEPS_MAX:
            break
    return found
