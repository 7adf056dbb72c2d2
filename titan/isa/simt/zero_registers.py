"""Registers that hold zero wherever they are read: all that is written to them is made of zeros.

Flow does not matter: a register counts where each step that writes it moves, packs or unpacks
registers that count or constants that are zero, or loads bytes of parameters that are zero. One
that nothing writes does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import DecodedStep, Op, Preset, PresetKind

_MOVES = (Op.MOV, Op.PACK, Op.UNPACK, Op.CVT)


def zero_registers(
    steps: Iterable[DecodedStep],
    presets: Iterable[Preset],
    zero_bytes: AbstractSet[int] = frozenset(),
) -> set[int]:
    """The greatest set of registers of which all of that holds."""
    written: dict[int, list[DecodedStep]] = {}
    for step in steps:
        for register in step.out:
            written.setdefault(register, []).append(step)
    values = {p.register: p.value for p in presets if p.kind is PresetKind.CONSTANT}
    constants = {register for register, value in values.items() if value == 0}
    zeros = set(written) - {p.register for p in presets}
    while True:
        known = zeros | constants
        kept = {
            register
            for register in zeros
            if all(
                (step.op in _MOVES and known.issuperset(step.args))
                or _loaded(step, register, values, zero_bytes)
                for step in written[register]
            )
        }
        if kept == zeros:
            return known
        zeros = kept


def _loaded(
    step: DecodedStep, register: int, values: dict[int, int], zero_bytes: AbstractSet[int]
) -> bool:
    """Whether the step loads zeros into the register, of parameters."""
    if step.op is not Op.LOAD or step.flags[0] != MemorySpace.PARAMETER:
        return False
    base = values.get(step.args[0])
    if base is None:
        return False
    size = step.bits // 8
    start = base + step.flags[1]
    return all(
        zero_bytes >= set(range(start + n * size, start + (n + 1) * size))
        for n, out in enumerate(step.out)
        if out == register
    )
