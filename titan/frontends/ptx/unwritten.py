"""Reads of shared and tensor memory that nothing has written, and whose values are used.

What such a read gives is what was there before the launch. Where nothing races it does so in every
interleaving. Products, copies and ldmatrix also read the padding of tiles, whose results are left
out: a second run follows what becomes of it (`titan/isa/simt/tracing/undefined_values.py`).
"""

from __future__ import annotations

from titan.isa.simt.outcome import Run
from titan.isa.simt.tracing.undefined_values import undefined_uses
from titan.isa.simt.unwritten_reads import unwritten_reads


def used_unwritten(run: Run) -> tuple[int, ...]:
    """The instructions of such reads; where the run cannot be made again every read is used."""
    found = unwritten_reads(run)
    uses = undefined_uses(run) if found else frozenset()
    return tuple(found if uses is None else sorted(uses))
