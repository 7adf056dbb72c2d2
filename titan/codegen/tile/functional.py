"""Does a lowered pipeline compute what its tile program means? Tried with numbers, not proved.

The sync program (with its computations) runs under the reference interpreter, one adversarial
interleaving at a time, and every operation moves NumPy tiles:

- an engine's operation takes effect where it finishes: a copy fills its stage, a product reads its
  stages and the registers of its group. In a `torn` run a stage is also spoilt from when a
  copy into it begins. A wait that is missing or comes early, a stage given back too soon, shows
  as wrong numbers.
- a group of warps is one agent with its own rows of every fragment, and with one copy of every
  value, as registers are; a product that continues with a sum writes the registers of that sum. A
  carried value takes its next one where the pipeline says so, else at the end of each iteration.
- computations on what is still being read from shared memory (counted loads of AMD) are done when
  the reads return, in order: the stage must last until then.

`Interleaving.lenient` runs programs that the interpreter would stop, so that the numbers decide.
Which buffer is which tile follows from the names that pipelines use: a buffer is called like its
`load` or `store`, an accumulator in tensor memory like its carried value, with `@cta` in a cluster
and `_registers` for tiles that pass through registers. Attention in tensor memory has its own rules
(`tensor_execution.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from titan.codegen.tile import semantics
from titan.codegen.tile.adversarial import Interleaving, interleavings, without_phases
from titan.codegen.tile.dtypes import FORMATS
from titan.codegen.tile.execution import CtaExecution, Items
from titan.codegen.tile.model import TileProgram
from titan.codegen.tile.tensor_execution import TensorExecution, parts_of
from titan.sync import program as ir
from titan.sync.fault import Fault

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from titan.codegen.tile.semantics import Array

__all__ = [
    "FunctionalOutcome",
    "Interleaving",
    "OutputDifference",
    "check",
    "deviation",
    "interleavings",
    "simulate",
]


@dataclass(frozen=True, slots=True)
class FunctionalOutcome:
    """The outputs of one run, or the fault that stopped it."""

    outputs: dict[str, Array]
    steps: int
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """A run that went wrong; `worst` is the largest error, in units of what is tolerated."""

    interleaving: Interleaving
    text: str
    worst: float = 0.0


def check(
    tile: TileProgram,
    program: ir.SyncProgram,
    inputs: Mapping[str, ArrayLike],
    parameters: Mapping[str, int],
    runs: Iterable[Interleaving],
    ctas: int = 2,
) -> list[OutputDifference]:
    """What goes wrong in which of the runs, compared with the float64 reference.

    `ctas`: how many CTAs (clusters) share the work items of a persistent kernel.
    """
    exact = semantics.reference64(tile, inputs, parameters)
    meant = semantics.run(tile, inputs, parameters)
    found = []
    for run in runs:
        outcome = simulate(tile, program, inputs, parameters, run, ctas)
        if outcome.fault is not None:
            text = f"{outcome.fault.kind}: {outcome.fault.message}"
            found.append(OutputDifference(run, text))
            continue
        for tensor in tile.tensors:
            if tensor.output:
                name = tensor.name
                worst = deviation(outcome.outputs[name], meant[name], exact[name], tensor.dtype)
                if not worst <= 1:
                    found.append(OutputDifference(run, f"{name} is wrong", worst))
    return found


def deviation(found: Array, meant: Array, exact: Array, dtype: str) -> float:
    """The largest error, in units of what is tolerated; infinite where elements are missing or
    should be infinite and are not.

    Tolerated are two units in the last place of the type and a thousandth of the largest number
    beyond what the exact meaning is off from the float64 reference itself.
    """
    import numpy as np

    if not np.array_equal(np.isnan(found), np.isnan(meant)):
        return float("inf")
    endless = ~np.isnan(meant) & ~np.isfinite(meant)
    if not np.array_equal(found[endless], meant[endless]):
        return float("inf")
    written = np.isfinite(meant) & np.isfinite(exact)
    if not written.any():
        return 0.0
    off = np.abs(meant[written] - exact[written])
    unit = 2.0 ** (1 - FORMATS[dtype].mantissa)
    allowed = off + unit * np.abs(exact[written]) + 1e-3 * np.abs(exact[written]).max() + 1e-30
    return float((np.abs(found[written] - exact[written]) / allowed).max())


def simulate(
    tile: TileProgram,
    program: ir.SyncProgram,
    inputs: Mapping[str, ArrayLike],
    parameters: Mapping[str, int],
    interleaving: Interleaving,
    ctas: int = 2,
) -> FunctionalOutcome:
    """One run of every CTA (cluster) over its work items. Raises ValueError for other programs."""
    import numpy as np

    memory = semantics.check_launch(tile, inputs, parameters)
    for tensor in tile.tensors:
        if tensor.output:
            shape = semantics.shape_of(tensor, parameters)
            begin = 0.0 if tensor.name in tile.sums else np.nan
            memory[tensor.name] = np.full(shape, begin, np.float32)
        else:
            rounded = semantics.rounded(memory[tensor.name], tensor.dtype)
            memory[tensor.name] = rounded
    marks = {
        tensor.name: np.zeros(memory[tensor.name].shape, bool)
        for tensor in tile.tensors
        if tensor.output
    }
    machine_program = without_phases(program) if interleaving.lenient else program
    steps = 0
    parts = parts_of(tile, program)
    for items in _shares(tile, program, parameters, ctas):
        given = (tile, machine_program, memory, marks, items, interleaving)
        run = CtaExecution(*given) if parts is None else TensorExecution(parts, *given)
        fault = run.go()
        steps += run.steps
        if fault is not None:
            return FunctionalOutcome({}, steps, fault)
    outputs = {tensor.name: memory[tensor.name] for tensor in tile.tensors if tensor.output}
    return FunctionalOutcome(outputs, steps)


def _shares(
    tile: TileProgram, program: ir.SyncProgram, parameters: Mapping[str, int], ctas: int
) -> list[Items]:
    """The work items of each CTA, or of each cluster, whose CTAs differ in the last coordinate."""
    size = len({role.cta for role in program.roles})
    found: Items = []
    for item in semantics.work_items(tile, parameters):
        if size == 1:
            found.append([item])
        elif item[tile.work[-1].name] % size == 0:
            last = tile.work[-1].name
            found.append([{**item, last: item[last] + cta} for cta in range(size)])
    if not any(parameter.name == "work" for parameter in program.parameters):
        return [[one] for one in found]
    return [found[cta::ctas] for cta in range(min(ctas, len(found)))]
