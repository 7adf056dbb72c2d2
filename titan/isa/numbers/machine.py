"""The SIMT machine with numbers: results for what its instructions leave opaque.

Each handler lets the machine do and record what it always does, and then says what the
asynchronous operations that were issued move when they complete, or writes the registers that the
machine left opaque. What this domain does not compute (tensor memory, sparse and block-scaled
products, reductions other than sums) stays opaque.

Data are read when an operation completes, which is as late as the machine puts it: a program that
overwrites an operand too early computes something else here, under some seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from titan.isa.numbers.functions import clock_bits, function_of
from titan.isa.ptx.module import Instruction
from titan.isa.simt import accesses
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.handlers import HANDLERS
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.layout import MemoryLayout
from titan.isa.simt.machine import Handler
from titan.isa.simt.memory import Bytes, Sparse
from titan.isa.simt.operations import DecodedCode, DecodedStep, Kind, Op
from titan.isa.simt.state import Fragment, InFlight, Warp
from titan.isa.simt.values import Scalar, Value, lane

Memory = Bytes | Sparse
Commit = Callable[[], None]
Transfer = Callable[[], Commit]  # reads; what it gives writes
NumbersHandler = Callable[["NumbersMachine", Fragment, DecodedStep, int], bool]


class NumbersMachine(SimtExecution):
    """One run with numbers. `instructions[i]` is the text that `code.steps[i]` was decoded from;
    `computing` are the handlers that add results.
    """

    computes = True

    def __init__(
        self, code: DecodedCode, layout: MemoryLayout, launch: Launch, options: Options,
        instructions: Sequence[Instruction], computing: Mapping[Op, NumbersHandler],
    ) -> None:  # fmt: skip
        super().__init__(_compared(code, instructions), layout, launch, options)
        self.instructions = instructions
        self.transfers: dict[int, Transfer] = {}
        self.products: dict[int, dict[int, Value]] = {}  # results of wgmma by number and register
        self.names: dict[int, dict[int, int]] = {}  # copies of such registers, by number
        self.product_warps: dict[int, list[int]] = {}
        for place, step in enumerate(self.steps):
            if step.op in computing:
                self.handlers[place] = self._adapted(computing[step.op])
            elif step.op is Op.MOV and (clock := clock_bits(instructions[place])) is not None:
                self.handlers[place] = self._adapted(_clock(*clock))
            narrow = step.op is Op.SETP and code.steps[place].op is Op.OPAQUE  # see _compared
            if narrow or (self.functions[place] is None and step.op is Op.OPAQUE):
                self.functions[place] = function_of(instructions[place])

    def _adapted(self, handler: NumbersHandler) -> Handler:
        return lambda _, fragment, step, mask: handler(self, fragment, step, mask)

    def recorded(self, fragment: Fragment, step: DecodedStep, mask: int) -> list[InFlight]:
        """Execute an instruction as the machine does; the operations that it issued, in order."""
        before = self.operations
        HANDLERS[step.op](self, fragment, step, mask)
        return [operation for operation in self.flight if operation.number >= before]

    def finish(self, operation: InFlight) -> None:
        """Complete an operation: what it moves is there before anything else runs."""
        if operation.done:
            return
        for earlier in operation.after:
            self.finish(earlier)
        transfer = self.transfers.pop(operation.number, None)
        commit = None if transfer is None else transfer()
        super().finish(operation)
        if commit is not None:
            commit()

    def check_owned(self, fragment: Fragment, step: DecodedStep) -> None:
        """A copy of a register in flight gets what that one gets."""
        super().check_owned(fragment, step)
        if step.op is not Op.MOV or step.out[0] < 0:
            return
        source, target, owned = step.args[0], step.out[0], fragment.warp.owned
        operation = owned.get(source)
        if operation is not None and owned.get(target) is operation:
            names = self.names.setdefault(operation.number, {})
            names[target] = names.get(source, source)

    def product(self, operation: InFlight, register: int, otherwise: Value) -> Value:
        """What an operation that is complete has for a register."""
        results = self.products.get(operation.number, {})
        name = self.names.get(operation.number, {}).get(register, register)
        return results.get(name, otherwise)

    def one_of(self, value: Value, lanes: int, site: int) -> Scalar:
        """The value of the highest lane: PTX lets one of them be stored, and does not say which."""
        return lane(value, lanes.bit_length() - 1)

    def deliver(self, operation: InFlight) -> None:
        """Write the registers that a complete operation still owns."""
        warp = operation.warp
        for register in operation.registers:
            if warp.owned.get(register) is operation:
                value = warp.registers[register]
                warp.registers[register] = self.product(operation, register, value)

    def forget_products(self, warp: Warp) -> None:
        """Drop results of the warp that no register waits for."""
        needed = {operation.number for operation in warp.owned.values()}
        for operation in self.flight:
            needed.update((operation.number, *(earlier.number for earlier in operation.after)))
        kept = self.product_warps.setdefault(warp.cta.number * 32 + warp.index, [])
        for number in [number for number in kept if number not in needed]:
            self.products.pop(number, None)
            self.names.pop(number, None)
            kept.remove(number)
        kept.extend(number for number in needed if number not in kept)

    def words(self, fragment: Fragment) -> tuple[str, ...]:
        """The modifiers of the instruction that a handler executes."""
        return self.instructions[fragment.pc].modifiers

    def where(self, fragment: Fragment, space: int, address: int) -> tuple[Memory, int] | None:
        """Memory and offset of an address; None for other windows and CTAs that are not there."""
        found, cta, at = accesses.place(self, fragment.warp, space, address)
        if found == MemorySpace.SHARED:
            return None if cta is None else (cta.shared, at)
        return (self.memory, at) if found == MemorySpace.GLOBAL else None


def _clock(low: int, bits: int) -> NumbersHandler:
    """mov of some bits of a clock, which counts warp instructions."""

    def read(machine: NumbersMachine, fragment: Fragment, step: DecodedStep, mask: int) -> bool:
        value = machine.count >> low & ((1 << bits) - 1)
        machine.write(fragment.warp, step.out[0], value, mask)
        return False

    return read


def _compared(code: DecodedCode, instructions: Sequence[Instruction]) -> DecodedCode:
    """Comparisons of 16-bit numbers become SETP, which has two results."""
    steps = tuple(
        replace(step, op=Op.SETP, kind=Kind.FLOAT, flags=(0, 0, 0, 0, 0))
        if step.op is Op.OPAQUE and instructions[place].opcode == "setp"
        else step
        for place, step in enumerate(code.steps)
    )
    return replace(code, steps=steps)
