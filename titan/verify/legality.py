"""Limits of the target that no interleaving shows: memory, registers, barrier ids, alignment.

Only what is certain from the file is refused: sizes that are not given are not guessed, and memory
that buffers share is counted once.
"""

from __future__ import annotations

from collections import Counter

from titan.diagnostics.model import Diagnostic, diagnostic
from titan.diagnostics.wording import quoted
from titan.kernel.model import Kernel
from titan.protocol.model import Transport
from titan.source.span import Span
from titan.sync.program import Scope, Space, SyncProgram

# CUDA C++ Programming Guide, technical specifications; CDNA3, CDNA4 and gfx1250 assemblers.
SHARED_BYTES = {
    "sm_80": 163 << 10, "sm_90": 227 << 10, "sm_90a": 227 << 10, "sm_100": 227 << 10,
    "sm_100a": 227 << 10, "sm_103a": 227 << 10, "sm_120a": 99 << 10,
    "gfx90a": 64 << 10, "gfx942": 64 << 10, "gfx950": 160 << 10, "gfx1250": 320 << 10,
}  # fmt: skip
REGISTERS = 65_536  # of one CTA, compute capability 8.0 and later
SETMAXNREG = range(24, 257, 8)  # PTX, setmaxnreg
NAMED_BARRIERS = 16  # PTX, bar: ids 0 to 15
REPEAT_BYTES = {"32B": 256, "64B": 512, "128B": 1024}  # PTX, swizzling modes
BULK_BYTES = 16  # PTX, cp.async.bulk: size and addresses


def illegal(kernel: Kernel, program: SyncProgram) -> list[Diagnostic]:
    """What breaks a limit of the kernel's target."""
    found = [*_shared_memory(kernel, program), *_alignment(kernel, program)]
    if kernel.target.startswith("sm_"):
        found += [*_registers(kernel), *_named_barriers(kernel, program)]
    return found


def _place(span: object, kernel: Kernel) -> Span | None:
    return span if isinstance(span, Span) else kernel.span


def _shared_memory(kernel: Kernel, program: SyncProgram) -> list[Diagnostic]:
    limit = SHARED_BYTES.get(kernel.target)
    largest: dict[tuple[int, str], int] = {}
    for buffer in program.buffers:
        if buffer.space is Space.SHARED:
            key = (buffer.cta, buffer.storage or buffer.name)
            size = buffer.stages * buffer.bytes_per_stage
            largest[key] = max(largest.get(key, 0), size)
    used: Counter[int] = Counter()
    for (cta, _), size in largest.items():
        used[cta] += size
    for barrier in program.barriers:
        used[barrier.cta] += 8 * barrier.stages
    most = max(used.values(), default=0)
    if limit is None or most <= limit:
        return []
    headline = f"a CTA needs {most} bytes of shared memory; {kernel.target} has {limit}"
    return [diagnostic("TTN407", headline, kernel.span)]


def _alignment(kernel: Kernel, program: SyncProgram) -> list[Diagnostic]:
    swizzles = {item.name: item.swizzle for item in kernel.placement.layouts}
    rings = kernel.protocol.rings if kernel.protocol is not None else ()
    bulk = {name for ring in rings if ring.transport is Transport.BULK for name in ring.buffers}
    found: dict[str, Diagnostic] = {}
    for buffer in program.buffers:
        name = buffer.name.partition("@")[0]
        size, repeat = buffer.bytes_per_stage, REPEAT_BYTES.get(swizzles.get(name, ""), 0)
        if buffer.space is not Space.SHARED or not size:
            continue
        if repeat and buffer.stages > 1 and size % repeat:
            headline = (
                f"a stage of {quoted(name)} has {size} bytes, no multiple of the {repeat} in which "
                f"its {swizzles[name]} swizzle repeats"
            )
        elif buffer.name in bulk and size % BULK_BYTES:
            headline = (
                f"a stage of {quoted(name)} has {size} bytes; bulk copies move multiples of "
                f"{BULK_BYTES}"
            )
        else:
            continue
        found.setdefault(headline, diagnostic("TTN408", headline, _place(buffer.span, kernel)))
    return list(found.values())


def _registers(kernel: Kernel) -> list[Diagnostic]:
    found = []
    total = 0
    for role in kernel.roles:
        total += role.registers * role.threads * role.agents
        if role.registers and role.registers not in SETMAXNREG:
            headline = (
                f"role {quoted(role.name)} asks for {role.registers} registers; setmaxnreg takes "
                "multiples of 8 from 24 to 256"
            )
            found.append(diagnostic("TTN406", headline, role.span or kernel.span))
    if total > REGISTERS:
        headline = f"the roles ask for {total} registers in all; a CTA has {REGISTERS}"
        place = next((role.span for role in kernel.roles if role.registers), kernel.span)
        found.append(diagnostic("TTN406", headline, place))
    return found


def _named_barriers(kernel: Kernel, program: SyncProgram) -> list[Diagnostic]:
    ids: Counter[str] = Counter()
    for barrier in program.named_barriers:
        if barrier.scope is Scope.CTA:
            ids[barrier.name.partition("@")[2]] += barrier.stages
    most = max(ids.values(), default=0)
    if most <= NAMED_BARRIERS:
        return []
    headline = f"{most} named barriers in one CTA; it has {NAMED_BARRIERS}, with ids 0 to 15"
    first = program.named_barriers[0].span
    return [diagnostic("TTN405", headline, _place(first, kernel))]
