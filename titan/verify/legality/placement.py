"""Addresses in shared memory: stages of bulk copies, swizzle patterns, overlaps, budgets.

Sources: PTX ISA, cp.async.bulk and swizzling modes (a pattern of XORs on address bits that repeats
every 256, 512 or 1024 bytes); CUDA programming guide, asynchronous data copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.foundation.source.span import Span
from titan.sync.program import Proxy, Space
from titan.verify.legality.case import Case, PlacedBuffer, plain
from titan.verify.legality.padding import alignment_of, offer, shared_bytes
from titan.verify.legality.rule import rule
from titan.verify.legality.tensor_maps import box_bytes


def _reason(case: Case, memory: PlacedBuffer, multiple: int) -> tuple[str, str]:
    """Why an address must be a multiple, and the limit that says so."""
    if case.repeat(memory) == multiple:
        mode = case.swizzle(memory)
        return f"the {multiple} in which its {mode} swizzle repeats", "swizzle_repeat"
    if multiple == case.limits.number("tensor_alignment"):
        return f"{multiple}, as bulk tensor copies need", "tensor_alignment"
    return f"{multiple}, as bulk copies need", "bulk_alignment"


@rule("TTN408", "swizzle_repeat", "tensor_alignment", "bulk_alignment")
def stage_stride(case: Case) -> Iterator[Diagnostic]:
    """Each stage begins where its copy and its swizzle pattern begin."""
    for memory in case.shared():
        asked = alignment_of(case, memory)
        if memory.buffer.stages > 1 and not memory.stride and asked > 1:
            case.assume("stages of buffers without a size are a legal distance apart")
        if memory.buffer.stages < 2 or not memory.stride or memory.stride % asked == 0:
            continue
        if memory.layout.stride is None and asked == case.limits.number("bulk_alignment"):
            continue  # `bulk_size` reports it
        reason, source = _reason(case, memory, asked)
        headline = (
            f"the stages of {quoted(memory.name)} are {memory.stride} bytes apart, "
            f"not a multiple of {reason}"
        )
        helps = (offer(case, memory),)
        yield case.fault("TTN408", headline, memory.span, source=source, helps=helps)


@rule("TTN408", "swizzle_repeat", "tensor_alignment", "bulk_alignment")
def stage_base(case: Case) -> Iterator[Diagnostic]:
    """The first stage lies at a multiple of what copy and swizzle need; unsaid, it is assumed."""
    assumed = 0
    for memory in case.shared():
        asked = alignment_of(case, memory)
        base, alignment = memory.layout.base, memory.layout.alignment
        reason, source = _reason(case, memory, asked)
        if base is None and alignment is None:
            assumed = max(assumed, asked)
        elif base is not None and base % asked:
            headline = f"{quoted(memory.name)} begins at byte {base}, not a multiple of {reason}"
            helps = (offer(case, memory),)
            yield case.fault("TTN408", headline, memory.span, source=source, helps=helps)
        elif base is None and alignment is not None and alignment % asked:
            headline = f"{quoted(memory.name)} is aligned to {alignment} bytes, not to {reason}"
            helps = (f"align it to {asked} bytes",)
            yield case.fault("TTN408", headline, memory.span, source=source, helps=helps)
    if assumed > 1:
        case.assume(
            f"buffers of bulk copies lie at multiples of what they need (up to {assumed} bytes)"
        )


@rule("TTN408", "bulk_alignment")
def base_keeps_its_alignment(case: Case) -> Iterator[Diagnostic]:
    """What the file says twice must agree."""
    for memory in case.shared():
        base, alignment = memory.layout.base, memory.layout.alignment
        if base is not None and alignment is not None and base % alignment:
            headline = f"{quoted(memory.name)} begins at byte {base}, not a multiple of "
            headline += f"its alignment of {alignment}"
            yield case.fault("TTN408", headline, memory.span)


@rule("TTN408", "bulk_alignment", "tensor_alignment")
def part_of_a_stage(case: Case) -> Iterator[Diagnostic]:
    """A part of a stage that a separate copy fills begins at an address the copy can use."""
    parts = {
        plain(effect.buffer)
        for item in case.bulk_copies()
        for effect in item.effects
        if effect.part is not None and effect.proxy is Proxy.ASYNC
    }
    for memory in case.shared():
        tensor = memory.name in case.maps_of or case.swizzle(memory) != "none"
        name = "tensor_alignment" if tensor else "bulk_alignment"
        asked, size = case.limits.number(name), memory.bytes_per_stage
        if memory.name not in parts or not asked or not size:
            continue
        part = size // memory.buffer.parts
        if size % memory.buffer.parts or part % asked:
            headline = (
                f"a part of {quoted(memory.name)} has {size / memory.buffer.parts:g} bytes, no "
                f"multiple of {asked}"
            )
            yield case.fault("TTN408", headline, memory.span, source=name)


@rule("TTN408", "bulk_alignment")
def bulk_size(case: Case) -> Iterator[Diagnostic]:
    """Bulk copies without a tensor map move multiples of 16 bytes."""
    multiple = case.limits.number("bulk_alignment")
    for memory in case.shared():
        if memory.name not in case.bulk or memory.name in case.maps_of or not multiple:
            continue
        size = memory.bytes_per_stage
        if size % multiple:
            headline = (
                f"a stage of {quoted(memory.name)} has {size} bytes; bulk copies move multiples of "
                f"{multiple}"
            )
            yield case.fault("TTN408", headline, memory.span, source="bulk_alignment")


@rule("TTN408", "bulk_alignment")
def bulk_bytes_of_an_operation(case: Case) -> Iterator[Diagnostic]:
    """The bytes that one copy of a buffer with a size counts are a multiple of 16."""
    multiple = case.limits.number("bulk_alignment")
    for item in case.bulk_copies():
        sized = [
            memory
            for effect in item.effects
            if (memory := case.memories.get(plain(effect.buffer))) is not None
            and memory.bytes_per_stage
        ]
        for completion in item.completes if multiple and sized else ():
            moved = case.values_of(item, completion.bytes)
            odd = next((count for count in moved if count % (multiple or 1)), None)
            reported = any(memory.bytes_per_stage % (multiple or 1) for memory in sized)
            if odd is not None and not reported:
                headline = f"a bulk copy moves {odd} bytes, not a multiple of {multiple}"
                yield case.fault("TTN408", headline, item.span, source="bulk_alignment")
                break


@rule("TTN413", "shared_bytes")
def stages_overlap(case: Case) -> Iterator[Diagnostic]:
    """Two stages of a buffer share no byte."""
    for memory in case.shared():
        stride, size = memory.layout.stride, memory.bytes_per_stage
        if stride is not None and memory.buffer.stages > 1 and stride < size:
            headline = (
                f"the stages of {quoted(memory.name)} are {stride} bytes apart and {size} bytes "
                "large"
            )
            yield case.fault("TTN413", headline, memory.span)


@rule("TTN413", "shared_bytes", "barrier_bytes")
def places_overlap(case: Case) -> Iterator[Diagnostic]:
    """Two things with a place share no byte, unless they are declared as one storage."""
    bases = dict(case.kernel.placement.barrier_bases)
    each = case.limits.number("barrier_bytes") or 8
    found: list[tuple[int, int, str, str, int, Span | None]] = []
    for buffer in case.program.buffers:
        memory = case.memories[plain(buffer.name)]
        base = memory.layout.base
        if base is not None and memory.extent and buffer.space is Space.SHARED:
            storage = buffer.storage or buffer.name
            place = (base, base + memory.extent, memory.name, storage, buffer.cta, memory.span)
            found.append(place)
    for barrier in case.program.barriers:
        base = bases.get(plain(barrier.name))
        if base is not None:
            end, name = base + each * barrier.stages, plain(barrier.name)
            found.append((base, end, name, barrier.name, barrier.cta, barrier.span))
    reported = set()
    for number, (low, high, name, storage, cta, span) in enumerate(found):
        for other in found[:number]:
            same = other[3] == storage or other[4] != cta or (other[2], name) in reported
            if not same and low < other[1] and other[0] < high:
                reported.add((other[2], name))
                headline = f"{quoted(name)} lies in the bytes of {quoted(other[2])}"
                yield case.fault("TTN413", headline, span)


@rule("TTN407", "shared_bytes")
def shared_memory(case: Case) -> Iterator[Diagnostic]:
    """Stages, padding and mbarriers fit into what one CTA can have."""
    room, needed = case.limits.number("shared_bytes"), shared_bytes(case)
    if case.kernel.placed and room is not None and needed > room:
        headline = f"a CTA needs {needed} bytes of shared memory; {case.kernel.target} has {room}"
        yield case.fault("TTN407", headline, case.kernel.span, source="shared_bytes")


@rule("TTN408", "tensor_alignment")
def several_boxes_a_stage(case: Case) -> Iterator[Diagnostic]:
    """Where several boxes of one map fill a stage, each begins at a legal address."""
    asked = case.limits.number("tensor_alignment")
    for item in case.kernel.placement.tensor_maps:
        memory, size = case.memories.get(item.buffer), box_bytes(item)
        if memory is None or not size or not asked or size >= memory.bytes_per_stage:
            continue
        if memory.bytes_per_stage % size or len(case.maps_of[item.buffer]) > 1:
            continue  # what else fills the stage, and where, is not declared
        if size % asked:
            headline = (
                f"the second box of a stage of {quoted(memory.name)} begins at byte {size}, no "
                f"multiple of {asked}"
            )
            yield case.fault("TTN408", headline, item.place("box"), source="tensor_alignment")
