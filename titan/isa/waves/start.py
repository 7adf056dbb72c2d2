"""The state in which a launch begins: registers, the kernarg segment, the dispatch packet.

Source: LLVM, AMDGPU usage, "Initial Kernel Execution State" and the kernel descriptor of gfx90a to
gfx950; hidden arguments of code object version 5.
"""

from __future__ import annotations

import numpy as np

from titan.isa.gcn.module import AssemblyKernel
from titan.isa.gcn.operands import TTMP
from titan.isa.simt.launch import Launch
from titan.isa.waves.group import ConstantBytes
from titan.isa.waves.state import LANES, OpaqueWord, Scalar, Wave

KERNARG, PACKET = 0x6000_0000_0000, 0x6100_0000_0000
_USER = (  # in the order in which they take scalar registers, with how many
    ("private_segment_buffer", 4), ("dispatch_ptr", 2), ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2), ("dispatch_id", 2), ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)  # fmt: skip


def lds_bytes(kernel: AssemblyKernel, launch: Launch) -> int:
    """Bytes of LDS of a work-group: those of the code and those of the launch."""
    return kernel.settings.get("group_segment_fixed_size", 0) + launch.dynamic_shared_bytes


def private_bytes(kernel: AssemblyKernel) -> int | None:
    """The private memory of a lane; None where the kernel does not say, or lets it grow."""
    if kernel.settings.get("uses_dynamic_stack"):
        return None
    return kernel.settings.get("private_segment_fixed_size")


def constants_of(kernel: AssemblyKernel, launch: Launch) -> list[ConstantBytes]:
    """Memory that the runtime fills in."""
    data, known = kernarg(kernel, launch)
    grid = [count * size for count, size in zip(launch.grid, launch.block, strict=True)]
    packet = bytearray(64)
    for at, value in ((4, launch.block[0]), (6, launch.block[1]), (8, launch.block[2])):
        packet[at : at + 2] = value.to_bytes(2, "little")
    for at, value in zip((12, 16, 20), grid, strict=True):
        packet[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")
    packet[28:32] = lds_bytes(kernel, launch).to_bytes(4, "little")
    of_packet = bytes(int(4 <= at < 24 or 28 <= at < 32) for at in range(64))
    return [
        ConstantBytes(KERNARG, data, known, "kernarg"),
        ConstantBytes(PACKET, bytes(packet), of_packet, "the dispatch packet"),
    ]


def kernarg(kernel: AssemblyKernel, launch: Launch) -> tuple[bytes, bytes]:
    """The kernarg segment and which of its bytes are known."""
    arguments = kernel.arguments or ()
    size = kernel.settings.get("kernarg_size", 0)
    size = max([size, *(item.offset + item.size_bytes for item in arguments)])
    size += -size % 4 + 64  # loads may be wider than what is left
    data, known = bytearray(size), bytearray(size)
    given = iter(launch.parameters)
    for argument in arguments:
        start, end = argument.offset, argument.offset + argument.size_bytes
        if argument.hidden:
            value = _hidden(argument.kind, launch)
            if value is not None:
                data[start:end] = value.to_bytes(argument.size_bytes, "little")
                known[start:end] = b"\1" * argument.size_bytes
            continue
        parameter = next(given, None)
        if parameter is not None:
            data[start:end] = parameter.data
            mask = parameter.known
            known[start:end] = b"\1" * len(parameter.data) if mask is None else mask
    return bytes(data), bytes(known)


def _hidden(kind: str, launch: Launch) -> int | None:
    """An argument that the runtime fills in; None for pointers to its own memory."""
    axis = "xyz".find(kind[-1])
    if kind.startswith("hidden_block_count_"):
        return launch.grid[axis]
    if kind.startswith("hidden_group_size_"):
        return launch.block[axis]
    if kind.startswith(("hidden_remainder_", "hidden_global_offset_")):
        return 0
    if kind == "hidden_grid_dims":
        return max(at + 1 for at in range(3) if at == 0 or launch.grid[at] * launch.block[at] > 1)
    return launch.dynamic_shared_bytes if kind == "hidden_dynamic_lds_size" else None


def waves_of(kernel: AssemblyKernel, launch: Launch, cta: int, width: int = LANES) -> list[Wave]:
    """The waves of a work-group before their first instruction; `width` lanes each."""
    of_target = _scalars if width == LANES else scalars_of_gfx1250
    scalars = of_target(kernel, launch, cta)
    found = []
    for number in range((launch.threads + width - 1) // width):
        left = launch.threads - number * width
        wave = Wave(number, (1 << min(left, width)) - 1, width)
        for at, value in scalars.items():
            wave.set_scalar(at, value)
        thread = np.arange(number * width, number * width + LANES, dtype=np.uint32)
        x, y, _ = launch.block
        ids = (
            thread % np.uint32(x),
            thread // np.uint32(x) % np.uint32(y),
            thread // np.uint32(x * y),
        )
        # Places that the kernel does not ask for are zeros: compilers then use v0 without a mask.
        asked = kernel.settings.get("system_vgpr_workitem_id", 0)
        for axis, row in enumerate(ids[: asked + 1]):
            wave.vectors[0] |= row << np.uint32(10 * axis)
        wave.known[0] = wave.exec  # of other lanes nothing is loaded
        found.append(wave)
    return found


def scalars_of_gfx1250(kernel: AssemblyKernel, launch: Launch, cta: int) -> dict[int, Scalar]:
    """Those of gfx1250: what the user asks for, and the place of the work-group in ttmp7 and ttmp9.

    Source: LLVM, AMDGPU usage (initial kernel execution state) and the code that clang writes.
    """
    settings = kernel.settings
    found, at = _of_user(kernel)
    length = settings.get("user_sgpr_kernarg_preload_length", 0)
    start = settings.get("user_sgpr_kernarg_preload_offset", 0)
    data, known = kernarg(kernel, launch)
    for word in range(length):
        place = 4 * (start + word)
        value: Scalar = OpaqueWord(f"bytes {place} to {place + 3} of kernarg", -1, place)
        if all(known[place : place + 4]):
            value = int.from_bytes(data[place : place + 4], "little")
        found[at + word] = value
    x, y, z = launch.coordinates(cta)
    if settings.get("system_sgpr_workgroup_id_z", 0):
        y |= z << 16
    elif launch.grid[2] > 1:
        found[TTMP + 7] = OpaqueWord(
            "the place of a work-group that the kernel does not ask for", -1
        )
    found.setdefault(TTMP + 7, y)
    found[TTMP + 9] = x
    return found


def _of_user(kernel: AssemblyKernel) -> tuple[dict[int, Scalar], int]:
    """The scalar registers that the kernel asks for, and the next one."""
    settings, found = kernel.settings, dict[int, Scalar]()
    at = 0
    pointers = {"kernarg_segment_ptr": KERNARG, "dispatch_ptr": PACKET}
    for name, count in _USER:
        if not settings.get(f"user_sgpr_{name}", 0):
            continue
        for word in range(count):
            address = pointers.get(name)
            unknown = OpaqueWord(f"the value of {name}", -1)
            found[at + word] = unknown if address is None else address >> 32 * word & 0xFFFFFFFF
        at += count
    return found, at


def _scalars(kernel: AssemblyKernel, launch: Launch, cta: int) -> dict[int, Scalar]:
    """The scalar registers that are set, by their numbers."""
    settings = kernel.settings
    found, at = _of_user(kernel)
    at += settings.get("user_sgpr_kernarg_preload_length", 0)  # the code loads them itself as well
    at = max(at, settings.get("user_sgpr_count", 0))
    for axis, place in zip("xyz", launch.coordinates(cta), strict=True):
        if settings.get(f"system_sgpr_workgroup_id_{axis}", int(axis == "x")):
            found[at] = place
            at += 1
    return found
