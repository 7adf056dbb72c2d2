"""Whether the descriptors of a tcgen05.mma encode what its name says.

The instruction descriptor, 32 bits in a register, repeats types and shape of the product; the kind
in the name of the instruction says which codes it may hold (PTX, tcgen05, "Instruction
descriptor"). The descriptor of an operand in shared memory has bits that are fixed (PTX, tcgen05,
"Shared memory descriptor"). With others the behaviour is undefined, whatever bytes the product
would touch, so the machine takes of them only what it needs.

Of products with block scales the types, the sparsity and the shape are judged.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt import events as ev
from titan.isa.simt.decode_async import KINDS
from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.outcome import Run

NARROW = (0, 1, 3, 4, 5)  # e4m3, e5m2, e2m3, e3m2, e2m1
MATRIX_TYPES: dict[str, tuple[int, ...]] = {
    "f16": (0, 1),
    "tf32": (2,),
    "f8f6f4": NARROW,
    "i8": (0, 1),
    "mxf8f6f4": NARROW,
    "mxf4": (1,),
    "mxf4nvf4": (1,),
}
SUM_TYPES = {"f16": (0, 1), "tf32": (1,), "f8f6f4": (0, 1), "i8": (2,)}  # of kinds without scales
ROWS = {"one CTA": (64, 128), "a pair": (128, 256), "weights stay": (32, 64, 128)}
COLUMNS_MOST = 256


class DescriptorField(NamedTuple):
    """Some bits of a descriptor, what they are, and the numbers that they may hold."""

    name: str
    low: int
    width: int
    allowed: Container[int]

    def of(self, value: int) -> int:
        """The number that a descriptor has there."""
        return value >> self.low & (1 << self.width) - 1


OF_SHARED_MEMORY = (
    DescriptorField("fixed bits", 46, 3, (1,)),
    DescriptorField("fixed bits", 53, 8, (0,)),
)


def fields_of(step: DecodedStep) -> Iterator[DescriptorField]:
    """The fields of the instruction descriptor of a product, and what they may hold."""
    group, kind_number, _, stationary, scaled, sparse = step.flags[:6]
    kind = KINDS[kind_number]
    types = MATRIX_TYPES[kind]
    short = kind.startswith("mxf4")  # whose type of B has two bits
    yield DescriptorField("sparsity", 2, 1, (sparse,))
    yield DescriptorField("type of A", 7, 3, types)
    yield DescriptorField("type of B", 10, 2 if short else 3, types)
    rows = ROWS["weights stay" if stationary else "a pair" if group == 2 else "one CTA"]
    if scaled:
        yield DescriptorField("rows / 128", 27, 2, tuple(number // 128 for number in rows[1:]))
    else:
        yield DescriptorField("saturation", 3, 1, (0, 1) if kind == "i8" else (0,))
        yield DescriptorField("type of D", 4, 2, SUM_TYPES[kind])
        yield DescriptorField("rows / 16", 24, 5, tuple(number // 16 for number in rows))
        for bit in (6, 23, 29):
            yield DescriptorField(f"reserved bit {bit}", bit, 1, (0,))


def columns_allowed(step: DecodedStep, descriptor: int) -> Container[int]:
    """Numbers of columns / 8: multiples of 16 columns but for 64 rows in one CTA."""
    group, _, _, stationary, scaled = step.flags[:5]
    if stationary:
        return (8, 16, 32)
    any_eight = group == 1 and not scaled and descriptor >> 24 & 31 == 64 // 16
    return range(1 if any_eight else 2, COLUMNS_MOST // 8 + 1, 1 if any_eight else 2)


def malformed_products(run: Run, places: CodePlaces) -> list[Diagnostic]:
    """One TTN219 for each tcgen05.mma with a descriptor that it must not have."""
    found: dict[int, Diagnostic] = {}
    steps = run.prepared.code.steps if run.prepared is not None else ()
    seen: set[tuple[int, ...]] = set()
    for event in run.events:
        if not isinstance(event, ev.AsynchronousEvent) or event.instruction >= len(steps):
            continue
        if event.kind is not ev.RecordedOperation.TENSOR_MULTIPLY or len(event.operands) < 4:
            continue
        key = event.instruction, *event.operands[1:4]
        if event.instruction in found or key in seen:
            continue
        seen.add(key)
        headline = _wrong_field(steps[event.instruction], event.operands)
        if headline:
            span, who = places.span(event.instruction), f"here, by warp {event.warp}"
            fault = diagnostic("TTN219", headline, span, who)
            found[event.instruction] = with_sources(fault, places)
    return list(found.values())


def _wrong_field(step: DecodedStep, operands: tuple[int, ...]) -> str:
    """The first field that holds what it must not, in words; empty if none does."""
    _, a, b, descriptor = operands[:4]
    columns = DescriptorField("columns / 8", 17, 6, columns_allowed(step, descriptor))
    for field in (*fields_of(step), columns):
        number = field.of(descriptor)
        if number not in field.allowed:
            kind = KINDS[step.flags[1]]
            return (
                f"the instruction descriptor {descriptor:#x} has {number} as {field.name}, "
                f"which this form of kind::{kind} does not have"
            )
    in_memory = (("A", a), ("B", b)) if not step.flags[2] else (("B", b),)
    for name, value in in_memory:
        for field in OF_SHARED_MEMORY:
            if field.of(value) not in field.allowed:
                bits = f"bits {field.low} to {field.low + field.width - 1}"
                held = f"{field.of(value):#x} in {bits}, which are fixed"
                return f"the descriptor {value:#x} of {name} has {held}"
    return ""
