"""Steps of private memory, and how many bytes an access has.

Memory of each lane alone: values are kept where the address is the same for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from titan.isa.gcn.module import AssemblyInstruction, GcnOperand, Registers
from titan.isa.simt.values import lanes_of
from titan.isa.waves.decode import DecodedInstruction, Step, register_numbers, written_in_order
from titan.isa.waves.events import OutsidePrivate
from titan.isa.waves.group import WaveGroup
from titan.isa.waves.sources import ScalarSource, scalar_source
from titan.isa.waves.state import LANES, OpaqueWord, Refused, Wave

_SIZES = {
    "b8": 1, "u8": 1, "i8": 1, "b16": 2, "u16": 2, "i16": 2, "b32": 4, "b64": 8, "b96": 12,
    "b128": 16, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8,
    "ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2, "dword": 4,
    "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "dwordx8": 32, "dwordx16": 64,
}  # fmt: skip


def size_of(item: AssemblyInstruction) -> int:
    """The bytes that a lane accesses at one place."""
    # What follows `tr` is the width of what lanes exchange: `ds_read_b64_tr_b16` reads 8 bytes.
    words = item.base.partition("_tr_")[0].split("_")
    if "atomic" in words:
        wide = "x2" in words or words[-1] == "f64"
        return 8 if wide else 4
    if "format" in words:
        return 4 * len(words[-1]) if "d16" not in words else 2 * len(words[-1])
    return next((_SIZES[word] for word in reversed(words) if word in _SIZES), 4)


def forget_all(wave: Wave, registers: tuple[int, ...], origin: OpaqueWord) -> None:
    """What is loaded is not known."""
    for register in registers:
        if register < 512:
            wave.forget(register, 1, origin)


def private_step(code: DecodedInstruction, group: WaveGroup) -> Step:
    """Memory of each lane alone: values are kept where the address is the same for all lanes."""
    item, number = code.item, code.number
    registers = written_in_order(code)
    if "_load_lds_" in item.base:
        raise Refused(f"{item.opcode} is not followed")
    load = "_load_" in item.base
    data = () if load else tuple(register_numbers(item.operands[1]))
    address_of = private_address(item, number)
    stores = group.queues.private
    origin = OpaqueWord("private memory", number)

    starts_of = private_starts(item, number)
    size, limit = size_of(item), group.private_bytes

    def step(wave: Wave) -> None:
        start = address_of(wave)
        if limit is not None:
            starts = starts_of(wave)
            outside = starts[(starts < 0) | (starts > limit - size)]
            if outside.size:
                header, first = group.header(wave, number), int(outside[0])
                group.events.append(OutsidePrivate(*header, first, size, limit))
                start = None
        if start is None:
            if not load:
                wave.private.clear()
            group.reads_unwritten |= load
            forget_all(wave, registers, origin)
        elif load:
            for at, register in enumerate(registers):
                row = wave.private.get(start + 4 * at)
                if row is None:
                    group.reads_unwritten = True
                    wave.forget(register, 1, origin)
                else:
                    wave.set_vector(register, row[0], row[1] & wave.exec, row[2])
        else:
            for at, register in enumerate(data):
                _keep(wave, start + 4 * at, register)
        group.issue(wave, number, group.queues.loads if load else stores, registers, ())

    return step


class _PrivatePlace(NamedTuple):
    """The operands that say where private memory is accessed. `base_of`: of all lanes."""

    address: GcnOperand
    base_of: ScalarSource | None
    offset: int

    @staticmethod
    def of(item: AssemblyInstruction, number: int) -> _PrivatePlace:
        operands = item.operands[1:] if "_load_" in item.base else item.operands
        scalars = (one for one in operands if isinstance(one, Registers) and one.bank == "s")
        base = next(scalars, None)
        base_of = None if base is None else scalar_source(base, 1, number)
        return _PrivatePlace(operands[0], base_of, item.integer("offset"))

    def start(self, wave: Wave) -> int | OpaqueWord:
        """Where accesses begin that have no register with a place for each lane."""
        start = 0 if self.base_of is None else self.base_of(wave)
        return start if isinstance(start, OpaqueWord) else start + self.offset


def private_starts(item: AssemblyInstruction, number: int) -> Callable[[Wave], NDArray[np.int64]]:
    """Where an access of private memory begins in the lanes that take part, as far as known."""
    place = _PrivatePlace.of(item, number)
    lanes = isinstance(place.address, Registers) and place.address.bank == "v"
    register = register_numbers(place.address)[0] if lanes else 0

    def found(wave: Wave) -> NDArray[np.int64]:
        start = place.start(wave)
        if isinstance(start, OpaqueWord) or not wave.exec:
            return np.zeros(0, np.int64)
        if not lanes:
            return np.full(1, start, np.int64)
        known = lanes_of(wave.known[register] & wave.exec)
        return wave.vectors[register][known].astype(np.int64) + start

    return found


def private_places(
    item: AssemblyInstruction, number: int
) -> Callable[[Wave], NDArray[np.int64] | None]:
    """Where each lane accesses private memory; None where that of an active one is not known."""
    place = _PrivatePlace.of(item, number)
    lanes = isinstance(place.address, Registers) and place.address.bank == "v"
    register = register_numbers(place.address)[0] if lanes else 0

    def found(wave: Wave) -> NDArray[np.int64] | None:
        start = place.start(wave)
        if isinstance(start, OpaqueWord):
            return None
        if not lanes:
            return np.full(LANES, start, np.int64)
        if wave.known[register] & wave.exec != wave.exec:
            return None
        return wave.vectors[register].astype(np.int64) + start

    return found


def private_address(item: AssemblyInstruction, number: int) -> Callable[[Wave], int | None]:
    """Where an access of private memory begins, the same for all lanes; None if that is not known,
    or if parts of words are accessed."""
    place = _PrivatePlace.of(item, number)
    uniform = not (isinstance(place.address, Registers) and place.address.bank != "s")
    followed = uniform and size_of(item) >= 4

    def found(wave: Wave) -> int | None:
        start = place.start(wave)
        return start if followed and not isinstance(start, OpaqueWord) else None

    return found


def _keep(wave: Wave, address: int, register: int) -> None:
    values, known = wave.vectors[register].copy(), wave.known[register] & wave.exec
    for near in range(address - 3, address + 4):
        if near != address:
            wave.private.pop(near, None)  # a part of it is overwritten
    old = wave.private.get(address)
    if old is not None:
        values = np.where(wave.active, values, old[0])
        known |= old[1] & ~wave.exec
    wave.private[address] = (values, known, wave.origins[register])
