"""Reads of memory and registers that nothing has written, and whose values are used.

What such a read gives is what was there before the launch. Where nothing races it does so in every
interleaving. Products, copies and ldmatrix also read the padding of tiles, whose results are left
out: a second run follows what becomes of it (`titan/isa/simt/tracing/undefined_values.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.remarks import (
    PERHAPS_WRITTEN,
    UNDEFINED_RESULT,
    UNWRITTEN,
    UNWRITTEN_REGISTER,
)
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt.operations import Op
from titan.isa.simt.outcome import Run
from titan.isa.simt.tracing.chosen_writes import may_lack_writes
from titan.isa.simt.tracing.undefined_values import undefined_uses
from titan.isa.simt.unwritten_reads import unwritten_reads
from titan.isa.simt.unwritten_registers import unwritten_registers

USES_MAX = 4


def with_unwritten(run: Run) -> Run:
    """The run with such reads; where it cannot be made again every read of memory is used."""
    found = unwritten_reads(run)
    made = run.prepared
    reads = bool(found) or bool(run.undefined) or may_lack_writes(run)
    if not reads and (made is None or not any(unwritten_registers(made.code))):
        return run
    uses = undefined_uses(run)
    if uses is None:
        return replace(run, unwritten=tuple(found))
    return replace(run, unwritten=tuple(sorted(uses.reads)), unwritten_registers=uses.registers)


def certain_uses(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """Registers that are used, whatever unknown data are, and that nothing has written: one for
    each of the first instructions that use such."""
    found: dict[int, Diagnostic] = {}
    for use in run.unwritten_registers:
        if use.certain and use.instruction not in found and len(found) < USES_MAX:
            holds = "what nothing has written"
            if use.made_at >= 0:
                made_at = places.span(use.made_at).start_line
                holds = f"what line {made_at} leaves undefined"
            headline = f"register {use.register} holds {holds}, and is used here"
            item = diagnostic("TTN223", headline, places.span(use.instruction))
            found[use.instruction] = with_sources(item, places)
    return list(found.values())


def perhaps_used(run: Run) -> Iterator[tuple[str, int]]:
    """Memory that is used, and registers that perhaps are: why that is open, and where."""
    for instruction in run.unwritten[:1]:
        made = run.prepared
        stores = made is not None and made.code.steps[instruction].op is Op.STORE
        yield PERHAPS_WRITTEN if stores else UNWRITTEN, instruction
    for use in run.unwritten_registers:
        if not use.certain:
            yield UNDEFINED_RESULT if use.made_at >= 0 else UNWRITTEN_REGISTER, use.instruction
