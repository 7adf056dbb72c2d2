"""Which pointer of the launch an address is made from, where its index is not known.

An address that is a pointer plus something unknown stays in the memory that the pointer leads to:
C++ has no other meaning for it, and each use is an event (`Policy.OPAQUE_INDEX`). Decided on the
text: all definitions of the address register are followed through moves, sums and selections to
8-byte parameters, and to variables of the module. Where some definition is not followed (a pointer
from memory, from a call, put together from halves), or two pointers take part, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence

from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.launch import Allocation
from titan.isa.simt.memory import Bytes
from titan.isa.simt.operations import DecodedCode, DecodedStep, Op, PresetKind

POINTER_BITS = 64
_ACCESSES = (Op.LOAD, Op.STORE, Op.ATOMIC)
_SPACES = (MemorySpace.GLOBAL, MemorySpace.GENERIC)
_CARRY = frozenset(
    {
        Op.MOV, Op.ADD, Op.SUB, Op.NEG, Op.SELP, Op.MIN, Op.MAX, Op.AND, Op.OR, Op.XOR,
        Op.TO_GENERIC, Op.FROM_GENERIC, Op.CVT,
    }
)  # fmt: skip
_SUMS_OF_PRODUCTS = (Op.MAD_LOW, Op.MAD_WIDE)
_NUMBERS = frozenset({Op.MUL_LOW, Op.MUL_WIDE, Op.MUL_HIGH, Op.SHL, Op.SHR, Op.DIV, Op.REM})
_CONSTANT_MAX = 1 << 32  # what is larger may be an address


def reaches(
    code: DecodedCode,
    pointed: Sequence[Allocation],
    parameters: Bytes,
    variables: Sequence[tuple[int, int]] = (),
) -> dict[int, tuple[int, int]]:
    """For accesses of global memory by instruction: the range in which they stay. `variables`: the
    ranges of those of the module.
    """
    if not pointed and not variables:
        return {}
    origins = _Origins(code, variables)
    found = {}
    for index, step in enumerate(code.steps):
        if step.op not in _ACCESSES or step.flags[0] not in _SPACES:
            continue
        found_in = origins.of(step.args[0]) or ()
        given = [
            parameters.read(offset, 8, -1)
            for offset in found_in
            if 0 <= offset <= parameters.size - 8
        ]
        ranges = {variables[~origin] for origin in found_in if origin < 0}
        if ranges and not all(isinstance(v, int) and v < _CONSTANT_MAX for v in given):
            continue
        ranges |= {
            (memory.start, memory.start + memory.size_bytes)
            for value in given
            for memory in pointed
            if isinstance(value, int) and 0 <= value - memory.start < memory.size_bytes
        }
        if len(ranges) == 1:
            found[index] = ranges.pop()
    return found


class _Origins:
    """The parameters, by offset, and variables, by ~index, of which values may be made."""

    def __init__(self, code: DecodedCode, variables: Sequence[tuple[int, int]]) -> None:
        self._writers: dict[int, list[tuple[int, DecodedStep]]] = {}
        for step in code.steps:
            for place, register in enumerate(step.out):
                self._writers.setdefault(register, []).append((place, step))
        self._constants: dict[int, int] = {}
        self._unfollowed: set[int] = set()
        self._variables: dict[int, int] = {}
        for preset in code.presets:
            if preset.kind is PresetKind.CONSTANT:
                self._constants[preset.register] = preset.value
            inside = [n for n, (at, end) in enumerate(variables) if at <= preset.value < end]
            if inside and preset.kind is PresetKind.CONSTANT:
                self._variables[preset.register] = inside[0]
            elif preset.name == "shared" or preset.value >= _CONSTANT_MAX:
                self._unfollowed.add(preset.register)
        self._known: dict[int, frozenset[int] | None] = {}

    def of(self, register: int) -> frozenset[int] | None:
        """The offsets of the parameters; None where some definition is not followed."""
        if register not in self._known:
            self._known[register] = self._follow(register)
        return self._known[register]

    def _follow(self, register: int) -> frozenset[int] | None:
        waiting, seen, offsets = [register], {register}, set()
        while waiting:
            current = waiting.pop()
            if current in self._unfollowed:
                return None
            if current in self._variables:
                offsets.add(~self._variables[current])
            for place, step in self._writers.get(current, ()):
                sources = _sources(step)
                if sources is None and step.op is Op.LOAD:
                    offset = self._parameter(step, place)
                    if offset is None:
                        return None
                    offsets.add(offset)
                elif sources is None:
                    return None
                for source in sources or ():
                    if source >= 0 and source not in seen:
                        seen.add(source)
                        waiting.append(source)
        return frozenset(offsets)

    def _parameter(self, step: DecodedStep, place: int) -> int | None:
        base = self._constants.get(step.args[0])
        if step.flags[0] != MemorySpace.PARAMETER or base is None:
            return None
        return base + step.flags[1] + place * POINTER_BITS // 8


def _sources(step: DecodedStep) -> Sequence[int] | None:
    """The registers from which a result may be a pointer; None where that is not followed."""
    if step.op is Op.MAD_WIDE:
        return step.args[2:]
    if step.bits < POINTER_BITS or step.op in _NUMBERS:
        return ()
    if step.op is Op.CVT and step.flags[1] < POINTER_BITS:
        return ()
    if step.op in _SUMS_OF_PRODUCTS:
        return step.args[2:]
    return step.args if step.op in _CARRY else None
