"""AMD: wait counters, direct-to-LDS loads, the register file.

Sources: CDNA3 and CDNA4 instruction set architecture (S_WAITCNT, LDS addresses from M0); LLVM's
AMDGPU usage and its assembler.
"""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.diagnostics.wording import quoted
from titan.sync.program import Asynchronous, Proxy, QueueWait, Space
from titan.verify.legality.case import Case, PlacedBuffer, plain, round_up
from titan.verify.legality.rule import rule


@rule("TTN403", "counter_max")
def counter_saturates(case: Case) -> Iterator[Diagnostic]:
    """A wait names at most what the field of its counter can say; beyond, it waits for more."""
    reported = set()
    for _, operation in case.operations:
        if not isinstance(operation, QueueWait):
            continue
        kind = case.queue_kind(operation.queue)
        most = case.limits.table("counter_max").get(kind)
        pending = max(case.values_of(operation, operation.pending), default=0)
        if most is not None and pending > most:
            headline = f"{pending} operations may stay in flight; {kind} counts "
            headline += f"to {most}"
            if headline not in reported:
                reported.add(headline)
                yield case.fault("TTN403", headline, operation.span, source="counter_max")


def dma_buffers(case: Case) -> Iterator[tuple[PlacedBuffer, Asynchronous]]:
    """The LDS buffers that loads counted by vmcnt fill, each with its first load."""
    seen = set()
    for _, item in case.asynchronous:
        if case.queue_kind(item.queue) not in ("vmcnt", "loadcnt"):
            continue
        for effect in item.effects:
            memory = case.memories.get(plain(effect.buffer))
            writes = effect.write and effect.proxy is Proxy.GENERIC
            if memory is None or not writes or memory.name in seen:
                continue
            if memory.buffer.space is Space.SHARED:
                seen.add(memory.name)
                yield memory, item


@rule("TTN422", "lds_dma_widths")
def dma_width(case: Case) -> Iterator[Diagnostic]:
    """A lane copies 1, 2 or 4 bytes; on gfx950 12 and 16 as well."""
    widths = case.limits.numbers("lds_dma_widths")
    for memory in case.shared():
        width = memory.layout.lane_bytes
        if width is None or widths is None or width in widths:
            continue
        takes = ", ".join(map(str, widths)) if widths else "no direct-to-LDS loads through M0"
        headline = f"a lane copies {width} bytes into {quoted(memory.name)}; {case.kernel.target} "
        headline += f"has {takes}"
        yield case.fault("TTN422", headline, memory.span, source="lds_dma_widths")


@rule("TTN422", "lds_dma_alignment")
def dma_address(case: Case) -> Iterator[Diagnostic]:
    """M0 is a multiple of 4, so each part that a load fills begins at one."""
    multiple = case.limits.number("lds_dma_alignment")
    for memory, item in dma_buffers(case):
        starts = [memory.layout.base or 0]
        if memory.buffer.stages > 1:
            starts.append(memory.stride)
        if any(effect.part is not None for effect in item.effects) and memory.bytes_per_stage:
            starts.append(memory.bytes_per_stage // memory.buffer.parts)
        for start in starts:
            if multiple and start % multiple:
                headline = (
                    f"a part of {quoted(memory.name)} begins at byte {start}, not a multiple of "
                    f"the {multiple} that M0 counts in"
                )
                yield case.fault("TTN422", headline, memory.span, source="lds_dma_alignment")
                break


@rule("TTN422", "lds_dma_end")
def dma_reach(case: Case) -> Iterator[Diagnostic]:
    """M0 reaches 64 KiB on CDNA3 and 256 KiB on CDNA4."""
    end = case.limits.number("lds_dma_end")
    for memory, _ in dma_buffers(case):
        last = (memory.layout.base or 0) + memory.extent
        if end is not None and last > end:
            headline = f"{quoted(memory.name)} ends at byte {last}; M0 reaches {end}"
            yield case.fault("TTN422", headline, memory.span, source="lds_dma_end")


@rule("TTN422", "lds_dma_widths")
def dma_fills_whole_units(case: Case) -> Iterator[Diagnostic]:
    """Lanes fill successive units; three dwords leave a hole of one."""
    width_limit = case.limits.numbers("lds_dma_widths")
    for memory, _ in dma_buffers(case):
        width, size = memory.layout.lane_bytes, memory.bytes_per_stage // memory.buffer.parts
        if width is None or not size or not width_limit or width not in width_limit:
            continue
        unit = 16 if width == 12 else width
        if size % unit:
            headline = f"a part of {quoted(memory.name)} has {size} bytes; lanes fill units of "
            headline += str(unit)
            yield case.fault("TTN422", headline, memory.span, source="lds_dma_widths")


@rule("TTN421", "registers_per_lane", "register_granule", "simds", "waves_per_simd")
def register_file(case: Case) -> Iterator[Diagnostic]:
    """All waves have the largest role's registers, and a SIMD's waves share one file."""
    limits = case.limits
    most, granule = limits.number("registers_per_lane"), limits.number("register_granule")
    simds, width = limits.number("simds"), limits.number("threads_per_warp")
    if most is None or granule is None or simds is None or width is None:
        return
    largest = max(case.own_roles, key=lambda role: role.registers, default=None)
    if largest is None or not largest.registers:
        return
    waves = -(-sum(-(-role.agents * role.threads // width) for role in case.own_roles) // simds)
    each = round_up(largest.registers, granule)
    if each > most:
        headline = f"role {quoted(largest.name)} requests {each} registers a lane; {most} exist"
    elif each * waves > most:
        headline = (
            f"{waves} waves share a SIMD's {most} registers, and role {quoted(largest.name)} "
            f"requests {each} in each of them"
        )
    else:
        return
    yield case.fault("TTN421", headline, largest.span, source="registers_per_lane")
