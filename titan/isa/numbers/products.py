"""wgmma, mma.sync, ldmatrix, stmatrix and movmatrix with their numbers.

A wgmma reads shared memory and adds to its registers when it completes; those of one accumulator
complete in the order of their issue. Each warp of the warpgroup computes its own 16 rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.isa.numbers import matrices, transfers
from titan.isa.numbers.machine import Commit, Memory, NumbersMachine, Transfer
from titan.isa.numbers.matrices import UNKNOWN_BITS, MatrixProduct
from titan.isa.ptx.module import Instruction
from titan.isa.simt.descriptors import MatrixDescriptor, decode
from titan.isa.simt.memory import KNOWN, OPAQUE
from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.state import Fragment, InFlight, Warp
from titan.isa.simt.values import ALL, Opaque, Scalar, Value, lane, opaque_at, uniform

ROWS = 16  # of a wgmma, for each warp


def wgmma(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """wgmma.mma_async of f16, bf16, tf32 and fp8 operands; others stay opaque."""
    warp = fragment.warp
    product = matrices.product_of(machine.instructions[fragment.pc])
    accumulator = _Accumulator(machine, warp, step.out)
    sources: list[Value] = [warp.registers[register] for register in step.args[1:]]
    scale = uniform(warp.registers[step.args[0]], mask)
    operations = machine.recorded(fragment, step, mask)
    if not operations or product is None or not isinstance(scale, int):
        return False
    (operation,) = operations
    operation.after = accumulator.earlier()
    adds = bool(scale & 1)
    machine.transfers[operation.number] = _multiplied(
        machine, operation, _Wgmma(product, step, sources, accumulator if adds else None)
    )
    return False


class _Accumulator:
    """The registers that a wgmma adds to: what they hold, or will when an earlier one completes."""

    def __init__(self, machine: NumbersMachine, warp: Warp, registers: tuple[int, ...]) -> None:
        self.machine = machine
        self.registers = registers
        self.held = [warp.registers[register] for register in registers]
        self.owners = [warp.owned.get(register) for register in registers]
        machine.forget_products(warp)

    def earlier(self) -> tuple[InFlight, ...]:
        """The operations in flight that write them."""
        found = {o.number: o for o in self.owners if o is not None and not o.done}
        return tuple(found.values())

    def values(self) -> list[Value]:
        """The registers, once the earlier operations are complete."""
        return [
            value if owner is None else self.machine.product(owner, register, value)
            for register, value, owner in zip(self.registers, self.held, self.owners, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Wgmma:
    """What is known of a wgmma at its issue; `sources`: descriptors, or registers of A."""

    product: MatrixProduct
    step: DecodedStep
    sources: list[Value]
    accumulator: _Accumulator | None


def _multiplied(machine: NumbersMachine, operation: InFlight, given: _Wgmma) -> Transfer:
    warp, step, product = operation.warp, given.step, given.product

    def transfer() -> Commit:
        a, b = _operands(warp, given)
        width = product.result.bits
        place = matrices.d_place(width)
        shape = (ROWS, product.columns)
        c = matrices.zeros(shape)
        if given.accumulator is not None:
            c = matrices.gather(given.accumulator.values(), place, shape, width)
        d = matrices.compute(product, a, b, c)
        values = matrices.scatter(d, place, len(step.out), width, operation.instruction)
        results = dict(zip(step.out, values, strict=True))
        machine.products[operation.number] = results
        return lambda: machine.deliver(operation)

    return transfer


def _operands(warp: Warp, given: _Wgmma) -> tuple[matrices.Bits, matrices.Bits]:
    """A of the warp's rows and B, as bits."""
    product, sources = given.product, given.sources
    transposed_a, transposed_b, a_registers = given.step.flags[2:5]
    unknown = matrices.zeros((ROWS, product.depth)) + UNKNOWN_BITS
    b = matrices.zeros((product.columns, product.depth)) + UNKNOWN_BITS
    right = _descriptor(sources[0])
    if right is not None:
        b = matrices.operand(warp.cta.shared, right, product.columns, product.depth, product.b,
                             mn_major=bool(transposed_b))  # fmt: skip
    if a_registers:
        bits = matrices.stored_bits(product.a)
        shape = (ROWS, product.depth)
        return matrices.gather(sources[1:], matrices.a_place(bits), shape, bits), b
    left = _descriptor(sources[1])
    if left is None:
        return unknown, b
    a = matrices.operand(warp.cta.shared, left, ROWS, product.depth, product.a,
                         mn_major=bool(transposed_a), first=warp.index % 4 * ROWS)  # fmt: skip
    return a, b


def _descriptor(value: Value) -> MatrixDescriptor | None:
    """A descriptor that the machine has found to be known and the same in all lanes."""
    common = uniform(value, ALL) if not isinstance(value, list) else value[0]
    return decode(common, tensor=False) if isinstance(common, int) else None


# -------------------------------------------------------------------------------- mma.sync


def collective(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """mma.sync of 16 rows by 8 columns, and movmatrix; others stay opaque."""
    instruction = machine.instructions[fragment.pc]
    registers = fragment.warp.registers
    if instruction.opcode == "movmatrix":
        matrix = matrices.gather([registers[step.args[0]]], matrices.matrix_place, (8, 8), 16)
        values = matrices.scatter(matrix.T, matrices.matrix_place, 1, 16, fragment.pc)
    else:
        product = matrices.product_of(instruction)
        found = (
            None if product is None else _small(instruction, step, registers, product, fragment.pc)
        )
        if found is None:
            machine.recorded(fragment, step, mask)
            return False
        values = found
    machine.recorded(fragment, step, mask)
    for register, value in zip(step.out, values, strict=True):
        machine.write(fragment.warp, register, value, mask)
    return False


def _small(
    instruction: Instruction,
    step: DecodedStep,
    registers: list[Value],
    product: MatrixProduct,
    site: int,
) -> list[Value] | None:
    """D of one mma.sync; None where an operand is a constant or the registers do not fit."""
    width = product.result.bits
    bits = matrices.stored_bits(product.a)
    lengths = (ROWS * product.depth * bits // 1024, 8 * product.depth * bits // 1024, len(step.out))
    if len(step.args) != sum(lengths) or "col" not in instruction.modifiers:
        return None
    values = [registers[register] for register in step.args]
    a = matrices.gather(values[: lengths[0]], matrices.a_place(bits), (ROWS, product.depth), bits)
    rest = values[lengths[0] :]
    b = matrices.gather(rest[: lengths[1]], matrices.b_place(bits), (8, product.depth), bits)
    place = matrices.d_place(width)
    c = matrices.gather(rest[lengths[1] :], place, (ROWS, 8), width)
    d = matrices.compute(product, a, b, c)
    return matrices.scatter(d, place, len(step.out), width, site)


# ------------------------------------------------------------------------ ldmatrix, stmatrix


def load_matrix(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """ldmatrix of 8 x 8 matrices of 16-bit elements."""
    transposed = "trans" in machine.words(fragment)
    rows = _rows(machine, fragment, step)
    machine.recorded(fragment, step, mask)
    if "b16" not in machine.words(fragment):
        return False
    for number, register in enumerate(step.out):
        lanes: list[Scalar] = []
        for index in range(32):
            parts = []
            for element in range(2):
                row, column = matrices.matrix_place(index, 0, element)
                if transposed:
                    row, column = column, row
                parts.append(_element(rows[8 * number + row], column))
            if any(part is None for part in parts):
                lanes.append(opaque_at(fragment.pc))
            else:
                lanes.append(sum((part or 0) << 16 * e for e, part in enumerate(parts)))
        machine.write(fragment.warp, register, lanes, mask)
    return False


def _rows(
    machine: NumbersMachine, fragment: Fragment, step: DecodedStep
) -> list[tuple[Memory, int] | None]:
    """Where the rows of 16 bytes lie, by the lanes that give their addresses."""
    space, offset = step.flags[:2]
    found: list[tuple[Memory, int] | None] = []
    for index in range(step.flags[3]):
        address = lane(fragment.warp.registers[step.args[0]], index)
        if isinstance(address, Opaque):
            found.append(None)
        else:
            found.append(machine.where(fragment, space, address + offset))
    return found


def _element(row: tuple[Memory, int] | None, column: int) -> int | None:
    if row is None:
        return None
    data, state = transfers.read(row[0], row[1] + 2 * column, 2)
    return int.from_bytes(data, "little") if state == bytes((KNOWN, KNOWN)) else None


def store_matrix(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
    """stmatrix of 8 x 8 matrices of 16-bit elements."""
    transposed = "trans" in machine.words(fragment)
    rows = _rows(machine, fragment, step)
    values = [fragment.warp.registers[register] for register in step.args[1:]]
    machine.recorded(fragment, step, mask)
    if "b16" not in machine.words(fragment):
        return False
    for number, value in enumerate(values):
        for index in range(32):
            item = lane(value, index)
            for element in range(2):
                row, column = matrices.matrix_place(index, 0, element)
                if transposed:
                    row, column = column, row
                where = rows[8 * number + row] if 8 * number + row < len(rows) else None
                if where is None:
                    continue
                data, state = 0, OPAQUE
                if not isinstance(item, Opaque):
                    data, state = item >> 16 * element & 0xFFFF, KNOWN
                at = where[1] + 2 * column
                transfers.write(where[0], at, data.to_bytes(2, "little"), bytes((state,)) * 2)
    return False
