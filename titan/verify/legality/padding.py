"""Padding: how far the stages of a buffer must be apart, and what that costs.

Where a CTA has no room for it, the way out is another transport: copies of the threads
(cp.async) need 16 bytes, and their swizzle is up to software.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm

from titan.foundation.records import dataclass
from titan.language.kernel.model import Layout
from titan.verify.legality.case import Case, PlacedBuffer, round_up


@dataclass(frozen=True, slots=True)
class Padding:
    """A legal stride and base for one buffer; `cost` in bytes over all stages, base included."""

    stride: int
    base: int | None
    cost: int
    fits: bool


def alignment_of(case: Case, memory: PlacedBuffer) -> int:
    """Bytes that each stage's address must be a multiple of; 1 where nothing is asked for."""
    asked = case.repeat(memory)
    if memory.name in case.bulk:
        bulk, tensor = case.limits.number("bulk_alignment"), case.limits.number("tensor_alignment")
        asked = lcm(asked, bulk or 1)
        if memory.name in case.maps_of or case.swizzle(memory) != "none":
            asked = lcm(asked, tensor or 1)
    return asked


def padding(case: Case, memory: PlacedBuffer) -> Padding:
    """The least padding that makes each stage of the buffer legal."""
    asked = alignment_of(case, memory)
    stride = round_up(memory.stride, asked) if memory.buffer.stages > 1 else memory.stride
    base = memory.layout.base
    moved = round_up(base, asked) if base is not None else None
    cost = (memory.buffer.stages - 1) * (stride - memory.stride)
    cost += (moved - base) if moved is not None and base is not None else 0
    room = case.limits.number("shared_bytes")
    return Padding(stride, moved, cost, room is None or shared_bytes(case) + cost <= room)


def padded(case: Case, memory: PlacedBuffer) -> Layout:
    """The buffer's layout with that padding."""
    found = padding(case, memory)
    stride = found.stride if memory.buffer.stages > 1 else memory.layout.stride
    alignment = memory.layout.alignment
    if alignment is not None:
        alignment = round_up(alignment, alignment_of(case, memory))
    return replace(memory.layout, stride=stride, base=found.base, alignment=alignment)


def offer(case: Case, memory: PlacedBuffer) -> str:
    """The help for a stage at a wrong address."""
    found = padding(case, memory)
    if not found.fits:
        room = case.limits.number("shared_bytes")
        return (
            f"padding costs {found.cost} bytes, and {case.kernel.target} has {room}: use fewer "
            "stages, or fill them by threads (`transport: async_copy`), without the hardware's "
            "swizzle"
        )
    sentences = []
    if found.stride != memory.stride:
        added = found.stride - memory.stride
        sentences.append(
            f"`stride: {found.stride}` leaves {added} bytes after each stage but the last"
        )
    if found.base != memory.layout.base:
        sentences.append(f"`base: {found.base}` moves its first stage")
    if not sentences:
        return f"align it to {alignment_of(case, memory)} bytes"
    return f"{' and '.join(sentences)}; it costs {found.cost} bytes of shared memory"


def shared_bytes(case: Case) -> int:
    """Bytes of shared memory that the fullest CTA needs at least, alignment left out."""
    return max((shared_bytes_of(case, cta) for cta in case.ctas), default=0)


def shared_bytes_of(case: Case, cta: int) -> int:
    """Buffers of one storage are counted once, mbarriers with their size."""
    largest: dict[str, int] = {}
    end = 0
    for memory in case.shared():
        if not _is_in(case, memory, cta):
            continue
        storage = memory.buffer.storage.partition("@")[0] or memory.name
        largest[storage] = max(largest.get(storage, 0), memory.extent)
        if memory.layout.base is not None:
            end = max(end, memory.layout.base + memory.extent)
    each = case.limits.number("barrier_bytes") or 0
    barriers = sum(each * item.stages for item in case.program.barriers if item.cta == cta)
    for barrier in case.program.barriers:
        base = dict(case.kernel.placement.barrier_bases).get(barrier.name.partition("@")[0])
        if base is not None and barrier.cta == cta:
            end = max(end, base + each * barrier.stages)
    return max(sum(largest.values()) + barriers, end)


def _is_in(case: Case, memory: PlacedBuffer, cta: int) -> bool:
    """Whether the buffer exists in that CTA."""
    name = memory.name
    return any(
        item.cta == cta and item.name.partition("@")[0] == name for item in case.program.buffers
    )
