"""What the decoders of the instruction families share: registers, constants, addresses, modifiers.

A form that the machine does not know raises `Unsupported`; `decode.py` makes a finding of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from titan.foundation.diagnostics.wording import quoted
from titan.foundation.errors import Refusal
from titan.isa.ptx import module as ptx
from titan.isa.simt.events import AccessScope, AccessSemantics
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.layout import GRID_WORKSPACE, MemoryLayout
from titan.isa.simt.operations import SINK, DecodedStep, Kind, Preset, PresetKind

VECTOR_MAX = 8

_SEMANTICS = {
    "relaxed": AccessSemantics.RELAXED,
    "acquire": AccessSemantics.ACQUIRE,
    "release": AccessSemantics.RELEASE,
    "acq_rel": AccessSemantics.ACQUIRE_RELEASE,
    "sc": AccessSemantics.SEQUENTIAL,
    "volatile": AccessSemantics.VOLATILE,
    "mmio": AccessSemantics.VOLATILE,
}
_SCOPES = {
    "cta": AccessScope.CTA,
    "cluster": AccessScope.CLUSTER,
    "gpu": AccessScope.GPU,
    "sys": AccessScope.SYSTEM,
}
_SPACES = {
    "shared": MemorySpace.SHARED,
    "shared::cta": MemorySpace.SHARED,
    "shared::cluster": MemorySpace.SHARED,
    "global": MemorySpace.GLOBAL,
    "local": MemorySpace.LOCAL,
    "param": MemorySpace.PARAMETER,
    "param::entry": MemorySpace.PARAMETER,
    "param::func": MemorySpace.PARAMETER,
    "const": MemorySpace.CONSTANT,
}
_KINDS = {"b": Kind.BITS, "u": Kind.UNSIGNED, "s": Kind.SIGNED, "f": Kind.FLOAT}
OPAQUE_SPECIAL = ("clock", "globaltimer", "smid", "nsmid", "gridid", "pm", "envreg", "current_")


class Unsupported(Refusal):
    """A form that the machine does not know; the text says what of it."""


def type_of(word: str) -> tuple[Kind, int] | None:
    """Kind and bits of a scalar type; None for packed and unknown ones."""
    if word == "pred":
        return Kind.PREDICATE, 1
    if word == "bf16":
        return Kind.BFLOAT, 16
    if word[:1] in _KINDS and word[1:] in ("8", "16", "32", "64", "128"):
        return _KINDS[word[0]], int(word[1:])
    return None


class DecodeContext:
    """What the decoders of the families ask: registers, constants, addresses, modifiers."""

    def __init__(self, module: ptx.Module, layout: MemoryLayout) -> None:
        self.module = module
        self.layout = layout
        self.names: list[str] = []
        self.types: list[str] = []
        self.presets: list[Preset] = []
        self._known: dict[tuple[PresetKind, int, str], int] = {}
        self.bases: dict[str, int] = {}
        self._carries: dict[str, int] = {}
        self.output_masks: list[tuple[ptx.Instruction, tuple[int, ...]]] = []  # of tcgen05.mma
        self.function = module.functions[0]
        self.starts = {f.name: f.start for f in module.functions if not f.declared}
        for function in module.functions:
            self.bases[function.name] = len(self.names)
            for register in function.registers:
                self.names.append(register.name)
                self.types.append(register.type)

    # ------------------------------------------------------------------------ registers

    def _preset(self, kind: PresetKind, value: int, name: str, type_: str) -> int:
        key = (kind, value, name)
        number = self._known.get(key)
        if number is None:
            number = len(self.names)
            self.names.append(name or str(value))
            self.types.append(type_)
            self.presets.append(Preset(number, kind, value, name))
            self._known[key] = number
        return number

    def constant(self, value: int) -> int:
        """The register preset to `value`; equal constants share one register."""
        return self._preset(PresetKind.CONSTANT, value, "", "b64")

    def carry(self) -> int:
        """The register of the carry (CC.CF), which every function has to itself."""
        name = f"{self.function.name} carry"
        if name not in self._carries:
            self._carries[name] = len(self.names)
            self.names.append("the carry")
            self.types.append("pred")
        return self._carries[name]

    def special(self, name: str) -> int:
        """The register preset to a special register such as `%tid.x`; some start opaque."""
        stem = name.removeprefix("%")
        if stem in ("envreg1", "envreg2"):  # where cooperative groups find the barrier of the grid
            low = stem == "envreg2"
            return self.constant(GRID_WORKSPACE & 0xFFFFFFFF if low else GRID_WORKSPACE >> 32)
        if stem.startswith(OPAQUE_SPECIAL):
            return self._preset(PresetKind.OPAQUE, 0, stem, "b64")
        return self._preset(PresetKind.SPECIAL, 0, stem, "b64")

    def symbol(self, symbol: ptx.Symbol) -> tuple[MemorySpace, int]:
        """The window of a symbol, and a register that holds its address in it."""
        place = self.layout.find(self.function.name, symbol.name)
        if place is None:
            if symbol.name in self.starts:
                return MemorySpace.CONSTANT, self.constant(self.starts[symbol.name])
            raise Unsupported(f"the address of {quoted(symbol.name)}")
        space, start = place
        if space is MemorySpace.SHARED:  # depends on the rank of the CTA
            address = start + symbol.offset
            return space, self._preset(PresetKind.SPECIAL, address, "shared", "b32")
        return space, self.constant(start + symbol.offset)

    def source(self, operand: ptx.Operand, bits: int = 64, kind: Kind = Kind.BITS) -> int:
        """The register that holds an operand of `bits` bits."""
        if isinstance(operand, ptx.PtxRegister):
            return self.bases[self.function.name] + operand.number
        if isinstance(operand, ptx.Immediate):
            return self.constant(_constant(operand, bits, kind))
        if isinstance(operand, ptx.Special):
            return self.special(operand.name)
        if isinstance(operand, ptx.Symbol):
            return self.symbol(operand)[1]
        raise Unsupported("an operand")

    def result(self, operand: ptx.Operand) -> int:
        """The register that a result goes to, SINK for `_`; raises Unsupported for the rest."""
        if isinstance(operand, ptx.PtxRegister):
            return self.bases[self.function.name] + operand.number
        if isinstance(operand, ptx.Sink):
            return SINK
        raise Unsupported("a result")

    def results(self, operand: ptx.Operand) -> tuple[int, ...]:
        """The registers of a result, one for each vector element; raises as `result` does."""
        items = operand.items if isinstance(operand, ptx.Vector) else (operand,)
        return tuple(self.result(item) for item in items)

    def vector(self, operand: ptx.Operand) -> ptx.Operand:
        """The operand of an access or a mov: a scalar, or a vector of at most eight."""
        if isinstance(operand, ptx.Vector) and not 1 <= len(operand.items) <= VECTOR_MAX:
            raise Unsupported(f"a vector of {len(operand.items)}")
        return operand

    def sources(self, operand: ptx.Operand, bits: int = 32) -> tuple[int, ...]:
        """The registers of each element of `bits` bits; `_` reads as the constant 0."""
        items = operand.items if isinstance(operand, ptx.Vector) else (operand,)
        return tuple(
            self.constant(0) if isinstance(item, ptx.Sink) else self.source(item, bits)
            for item in items
        )

    def width(self, operand: ptx.Operand) -> int:
        """Bits of the register (or of the first one) that takes a result; 64 if unknown."""
        if isinstance(operand, ptx.Vector):
            return min((self.width(item) for item in operand.items), default=64)
        number = self.result(operand)
        type_ = type_of(self.types[number]) if number >= 0 else None
        return 64 if type_ is None else type_[1]

    def is_predicate(self, operand: ptx.Operand) -> bool:
        """Whether the operand is a register declared `.pred`; constants are not."""
        if not isinstance(operand, ptx.PtxRegister):
            return False
        return self.types[self.bases[self.function.name] + operand.number] == "pred"

    def address(self, operand: ptx.Operand, space: MemorySpace) -> tuple[int, int, MemorySpace]:
        """Register, offset and window of `[...]`. A symbol brings its own window."""
        if isinstance(operand, ptx.PtxRegister):
            return self.source(operand), 0, space
        if not isinstance(operand, ptx.Address):
            raise Unsupported("an address")
        if operand.base is None:
            return self.constant(0), operand.offset, space
        if isinstance(operand.base, ptx.Symbol):
            own, register = self.symbol(operand.base)
            return register, operand.offset, own
        return self.source(operand.base), operand.offset, space


def _constant(operand: ptx.Immediate, bits: int, kind: Kind) -> int:
    """The bits of an immediate as an operand of `bits` bits."""
    if kind is Kind.FLOAT and operand.type in ("f64", "") and bits == 32:
        if operand.type == "":
            number = float(operand.value)
        else:
            number = struct.unpack("<d", operand.value.to_bytes(8, "little"))[0]
        try:
            return int.from_bytes(struct.pack("<f", number), "little")
        except OverflowError:
            return 0x7F800000 if number > 0 else 0xFF800000
    if kind is Kind.PREDICATE:
        return int(operand.value != 0)
    return operand.value & ((1 << bits) - 1)


def semantics_of(
    modifiers: tuple[str, ...], default: AccessSemantics = AccessSemantics.WEAK
) -> AccessSemantics:
    """The first memory-ordering word among the modifiers, else `default`."""
    return next((_SEMANTICS[word] for word in modifiers if word in _SEMANTICS), default)


def scope_of(modifiers: tuple[str, ...], default: AccessScope = AccessScope.NONE) -> AccessScope:
    """The scope among the modifiers, else `default`; `.volatile` and `.mmio` mean system."""
    scope = next((_SCOPES[word] for word in modifiers if word in _SCOPES), default)
    return AccessScope.SYSTEM if "volatile" in modifiers or "mmio" in modifiers else scope


def space_of(modifiers: tuple[str, ...]) -> MemorySpace:
    """The first state space among the modifiers; GENERIC where none is written."""
    return next((_SPACES[word] for word in modifiers if word in _SPACES), MemorySpace.GENERIC)


Handler = Callable[[DecodeContext, ptx.Instruction], DecodedStep]
