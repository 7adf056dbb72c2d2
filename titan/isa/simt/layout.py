"""Where variables stand, and which address means which memory.

Shared memory of a CTA is a window of 2^24 bytes; the first 1024 are reserved by the system (PTX:
`%reserved_smem_offset_begin`), then come the static variables, then the dynamic ones. In a cluster
an address has the CTA's rank in bits 24 and above, in both shared windows.

Generic addresses: global ones are themselves; the other windows are far above any address of a
driver. The numbers have no meaning outside of a run. As on a device, a window does not begin at a
multiple of 2^32: an address that is cut to 32 bits in place of `cvta` leads nowhere. Below
`LOWEST_GLOBAL` no driver has memory, so that a number of another window, or none, is no pointer.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from titan.isa.ptx.module import Function, Module, StateSpace, Variable
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.launch import ModuleMemory

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
RESERVED_BYTES = 1024
WINDOW_BITS = 48
WINDOW_START = 0x58000000  # of each in its 2^48 bytes, a multiple of what code aligns to
LOWEST_GLOBAL = 1 << 16
GENERIC_WINDOWS = {
    MemorySpace.SHARED: 0xFE,
    MemorySpace.LOCAL: 0xFC,
    MemorySpace.PARAMETER: 0xFA,
    MemorySpace.CONSTANT: 0xF8,
}
HIGHEST_GLOBAL = min(GENERIC_WINDOWS.values()) << WINDOW_BITS
MODULE_BASE = 0xE0 << WINDOW_BITS  # global variables of the module
# Behind variables, so that what leaves one of them is not in the next one; in shared memory what
# room there is.
GAPS = {
    StateSpace.GLOBAL: 256,
    StateSpace.LOCAL: 256,
    StateSpace.CONSTANT: 256,
    StateSpace.PARAMETER: 16,  # of calls, which are many
}
PARAMETER_GAP = 256  # of the entry; a multiple of what they are aligned to
SHARED_GAP_MAX = 1 << 14
SHARED_GAP_STEP = 1 << 10  # so that a variable is as aligned as it is without gaps
SHARED_ROOM = 1 << 18  # what descriptors of matrices can address
GRID_WORKSPACE = 0xDF << WINDOW_BITS  # of a cooperative launch
GRID_WORKSPACE_BYTES = 4096
SPACES = {
    StateSpace.GLOBAL: MemorySpace.GLOBAL,
    StateSpace.SHARED: MemorySpace.SHARED,
    StateSpace.CONSTANT: MemorySpace.CONSTANT,
    StateSpace.LOCAL: MemorySpace.LOCAL,
    StateSpace.PARAMETER: MemorySpace.PARAMETER,
}


def to_generic(space: MemorySpace, address: int) -> int:
    """The generic address of an address of a window."""
    window = GENERIC_WINDOWS.get(space)
    return address if window is None else (window << WINDOW_BITS) + WINDOW_START + address


def resolve(address: int) -> tuple[MemorySpace, int]:
    """The window of a generic address, and the address in it."""
    window = address >> WINDOW_BITS
    for space, number in GENERIC_WINDOWS.items():
        if window == number:
            return space, (address - WINDOW_START) & ((1 << WINDOW_BITS) - 1)
    return MemorySpace.GLOBAL, address


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """Addresses of symbols, by (function or "", name); sizes of the memories."""

    places: dict[tuple[str, str], tuple[MemorySpace, int]]
    shared_bytes: int  # the end of the window, reserved and dynamic part included
    static_shared_bytes: int
    dynamic_start: int
    constants: dict[int, bytes]
    constant_bytes: int
    module_globals: tuple[tuple[int, int, bytes], ...]  # address, size, initial bytes
    local_bytes: int
    parameters: tuple[tuple[int, int], ...]  # offset and size of each of the entry
    holes: tuple[tuple[MemorySpace, int, int], ...]  # space, start, end of what no variable has

    def in_hole(self, space: int, at: int, count: int) -> bool:
        """Whether some of the bytes are between variables."""
        return any(s == space and at < end and start < at + count for s, start, end in self.holes)

    @property
    def parameter_bytes(self) -> int:
        """The end of the memory of parameters."""
        return sum(self.parameters[-1]) if self.parameters else 0

    def find(self, function: str, name: str) -> tuple[MemorySpace, int] | None:
        """The space and start of a symbol, a function's own before the module's; None if absent."""
        return self.places.get((function, name)) or self.places.get(("", name))


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment if alignment > 1 else value


class _Builder:
    def __init__(self, start: int = MODULE_BASE, shared_gap: int = 0) -> None:
        self.start = start
        self.gaps = {**GAPS, StateSpace.SHARED: shared_gap}
        self.holes: dict[tuple[MemorySpace, int], int] = {}  # starts, by space and end
        self.shared_count = 0
        self.places: dict[tuple[str, str], tuple[MemorySpace, int]] = {}
        self.next = {
            MemorySpace.SHARED: RESERVED_BYTES,
            MemorySpace.CONSTANT: 0,
            MemorySpace.GLOBAL: start,
            MemorySpace.LOCAL: 0,
        }
        self.dynamic: list[tuple[str, Variable]] = []
        self.initial: list[tuple[MemorySpace, int, int, Variable]] = []

    def place(self, owner: str, variable: Variable, space: MemorySpace) -> None:
        if space is MemorySpace.SHARED and variable.external and variable.size_bytes == 0:
            self.dynamic.append((owner, variable))
            return
        start = _align(self.next[space], variable.alignment)
        end, gap = start + variable.size_bytes, self.gaps.get(variable.space, 0)
        self.widen(space, start)
        self.next[space] = end + gap
        self.shared_count += space is MemorySpace.SHARED
        if gap and space is not MemorySpace.GLOBAL:
            self.holes[space, end + gap] = end
        self.places[(owner, variable.name)] = (space, start)
        if space in (MemorySpace.CONSTANT, MemorySpace.GLOBAL):
            self.initial.append((space, start, variable.size_bytes, variable))

    def widen(self, space: MemorySpace, start: int) -> None:
        """The hole in front goes on to where the next variable starts."""
        hole = self.holes.pop((space, self.next[space]), None)
        if hole is not None:
            self.holes[space, start] = hole

    def bytes_of(self, variable: Variable) -> bytes:
        data = bytearray(variable.initial or b"")
        for offset, width, symbol in variable.references:
            found = self.places.get(("", symbol.name))
            if found is not None:
                address = to_generic(found[0], found[1]) + symbol.offset
                data[offset : offset + width] = (address % (1 << 8 * width)).to_bytes(
                    width, "little"
                )
        return bytes(data)

    def module_variables(self, module: Module) -> None:
        for variable in module.variables:
            self.place("", variable, SPACES[variable.space])


@dataclass(frozen=True, slots=True)
class ModuleVariables:
    """Variables of a module: (space, offset, bytes) by name; the initial bytes of both spaces."""

    places: dict[str, tuple[MemorySpace, int, int]]
    globals: bytes
    constants: bytes


def variables_of(module: Module, start: int) -> ModuleVariables:
    """Global and constant variables of a module whose global ones begin at an address."""
    build = _Builder(start)
    build.module_variables(module)
    first = {MemorySpace.GLOBAL: start, MemorySpace.CONSTANT: 0}
    data = {space: bytearray(build.next[space] - at) for space, at in first.items()}
    places = {}
    for space, at, size, variable in build.initial:
        offset, initial = at - first[space], build.bytes_of(variable)
        data[space][offset : offset + len(initial)] = initial
        places[variable.name] = (space, offset, size)
    return ModuleVariables(
        places, bytes(data[MemorySpace.GLOBAL]), bytes(data[MemorySpace.CONSTANT])
    )


def lay_out(
    module: Module, entry: Function, dynamic_bytes: int, held: ModuleMemory | None = None
) -> MemoryLayout:
    """Places everything that the entry and the functions that it may call can name. `held`: the
    variables of the module, which are elsewhere then.
    """
    dense = _place_all(module, entry, held, 0)
    dense_end = dense.next[MemorySpace.SHARED]
    build = _place_all(module, entry, held, _shared_gap(dense, dense_end + dynamic_bytes))
    alignment = max((v.alignment for _, v in build.dynamic), default=16)
    dynamic_start = _align(build.next[MemorySpace.SHARED], max(16, alignment))
    build.widen(MemorySpace.SHARED, dynamic_start)
    for owner, variable in build.dynamic:
        build.places[(owner, variable.name)] = (MemorySpace.SHARED, dynamic_start)
    initial = [(s, at, size, build.bytes_of(v)) for s, at, size, v in build.initial]
    constants = {at: data for s, at, _, data in initial if s is MemorySpace.CONSTANT}
    if held is not None:
        constants[0] = held.constants
    parameters = entry_places(entry)
    return MemoryLayout(
        places=build.places,
        shared_bytes=dynamic_start + dynamic_bytes,
        static_shared_bytes=dense_end - RESERVED_BYTES,
        dynamic_start=dynamic_start,
        constants=constants,
        constant_bytes=build.next[MemorySpace.CONSTANT],
        module_globals=tuple((at, n, d) for s, at, n, d in initial if s is MemorySpace.GLOBAL),
        local_bytes=build.next[MemorySpace.LOCAL],
        parameters=parameters,
        holes=(
            *((space, low, high) for (space, high), low in build.holes.items()),
            *(
                (MemorySpace.PARAMETER, at + size, following)
                for (at, size), (following, _) in pairwise(parameters)
            ),
        ),
    )


def entry_places(entry: Function) -> tuple[tuple[int, int], ...]:
    """Offset and size of each parameter of the entry: as aligned as they are, and apart."""
    return tuple(
        (parameter.offset + number * PARAMETER_GAP, parameter.size_bytes)
        for number, parameter in enumerate(entry.parameters)
    )


def _place_all(
    module: Module, entry: Function, held: ModuleMemory | None, shared_gap: int
) -> _Builder:
    build = _Builder(MODULE_BASE if held is None else held.start, shared_gap)
    build.module_variables(module)
    if held is not None:
        build.initial.clear()
    for function in module.functions:
        if function.entry and function is not entry:
            continue
        for variable in function.variables:
            build.place(function.name, variable, _own(SPACES[variable.space]))
        if function.entry:
            for parameter, (at, _) in zip(function.parameters, entry_places(function), strict=True):
                build.places[(function.name, parameter.name)] = (MemorySpace.PARAMETER, at)
        else:
            for parameter in function.parameters + function.results:
                build.place(function.name, parameter, MemorySpace.LOCAL)
    return build


def _shared_gap(dense: _Builder, end: int) -> int:
    """How far apart variables of shared memory may be; none where there is one alone."""
    count = dense.shared_count
    if count + bool(dense.dynamic) < 2:
        return 0
    room = (SHARED_ROOM - end) // count - SHARED_GAP_STEP  # the dynamic part may begin later
    return max(0, min(SHARED_GAP_MAX, room // SHARED_GAP_STEP * SHARED_GAP_STEP))


def _own(space: MemorySpace) -> MemorySpace:
    """`.param` variables in a body (arguments of calls) are memory of the thread."""
    return MemorySpace.LOCAL if space is MemorySpace.PARAMETER else space
