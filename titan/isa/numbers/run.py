"""Runs a launch with numbers: the memory that it leaves, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.source.span import Source
from titan.isa.numbers import copies, products
from titan.isa.numbers.machine import NumbersHandler, NumbersMachine
from titan.isa.numbers.native import CoreOptions, FlatMemory, NumbersCore, core
from titan.isa.numbers.transfers import read
from titan.isa.ptx.module import Module
from titan.isa.simt.launch import Launch, Options
from titan.isa.simt.memory import KNOWN, Sparse
from titan.isa.simt.operations import DecodedCode, Op, Preset, PresetKind
from titan.isa.simt.outcome import Run
from titan.isa.simt.run import prepare

COMPUTING: dict[Op, NumbersHandler] = {
    Op.COPY: copies.copy,
    Op.BULK_COPY: copies.bulk_copy,
    Op.TENSOR_COPY: copies.tensor_copy,
    Op.STORE_ASYNC: copies.store_async,
    Op.ATOMIC: copies.atomic,
    Op.WGMMA: products.wgmma,
    Op.COLLECTIVE: products.collective,
    Op.LOAD_MATRIX: products.load_matrix,
    Op.STORE_MATRIX: products.store_matrix,
}


def defined(code: DecodedCode) -> DecodedCode:
    """The code with zeros in registers that no instruction writes.

    Compilers read such a register where any value will do, as for the unused half of a packed
    conversion; what is unknown would spread to the half that is used.
    """
    written = {register for step in code.steps for register in step.out}
    written |= {preset.register for preset in code.presets}
    guards = (step.guard for step in code.steps)
    read = {register for step in code.steps for register in step.args} | set(guards)
    missing = sorted(register for register in read - written if register >= 0)
    zeros = tuple(Preset(register, PresetKind.CONSTANT) for register in missing)
    return replace(code, presets=(*code.presets, *zeros))


@dataclass(frozen=True, slots=True)
class Computed:
    """A run and the global memory behind it. A run on the native core has no events."""

    run: Run
    memory: Sparse | FlatMemory

    def contents(self, address: int, count: int) -> tuple[bytes, int]:
        """Bytes of global memory, and how many of them the run has neither made nor was given."""
        if isinstance(self.memory, FlatMemory):
            return self.memory.contents(address, count)
        data, state = read(self.memory, address, count)
        return data, count - state.count(KNOWN)


def compute(
    module: Module, launch: Launch, options: Options | None = None, source: Source | None = None,
    *, native: bool | None = None, asked: CoreOptions | None = None,
) -> tuple[Computed | None, list[Diagnostic]]:  # fmt: skip
    """The run of a launch with numbers, or why there is none (as `titan.isa.simt.run.run`).

    `launch.memory` brings the inputs; a writable memoryview is written in place. `native` None
    takes the native core where it is built, else the Python machine, which has no use for `asked`:
    its sums of tensor cores are always exact. Needs NumPy.
    """
    options = Options() if options is None else options
    ready, findings = prepare(module, launch, options, source)
    if ready is None:
        return None, findings
    code, layout, places = ready
    code = defined(code)
    if native or (native is None and core() is not None):
        asked = CoreOptions() if asked is None else asked
        made = NumbersCore(code, layout, launch, options, module.instructions, asked)
        return Computed(*made.compute(places)), []
    machine = NumbersMachine(code, layout, launch, options, module.instructions, COMPUTING)
    machine.load_parameters(places)
    return Computed(machine.run(), machine.memory), []
