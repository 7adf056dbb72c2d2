"""From a tile file to a package on disk (read, build, emit, write), or the reason for none.

A pipeline that is verified but that its target cannot spell sends the build to the next shape; so
does a source that the toolchain of the target, where it is installed, refuses or remarks on, or
whose registers it spills.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from titan.codegen.emit.write import EmissionRefused, Emitted, emit
from titan.codegen.pipeline.build import (
    BuildHooks,
    BuildLimits,
    BuildRefused,
    Judge,
    build,
    one_by_one,
)
from titan.codegen.pipeline.model import Built, TriedCandidate
from titan.codegen.pipeline.size_choice import by_model
from titan.codegen.tile.alternatives import alternatives
from titan.codegen.tile.model import TileProgram
from titan.inspect.counts import count
from titan.inspect.listing import BadListing
from titan.inspect.machine import of_compiled
from titan.inspect.report import summary as loop_summary
from titan.package.certified import written_for
from titan.package.write import write_package
from titan.target.description import target_of
from titan.validate.compare.compile import compile_package
from titan.validate.compare.toolchain import (
    CannotCompile,
    CompiledKernel,
    Endless,
    Figures,
    ToolchainMissing,
)


@dataclass(frozen=True, slots=True)
class Produced:
    """A package that was written to `folder`.

    `figures` are those of the toolchain; without one, `uncompiled` says why there are none.
    `compared` says whether the machine code (PTX, GCN assembly) was compared with the sync program,
    `proof` whether the package holds a certificate of its verdict, `loops` what the machine code
    does in its main loop, `instructions` how many it issues on the usual way around it. `sizes`: of
    a program whose sizes are lists, how they were ranked, and what was refused.
    """

    built: Built
    emitted: Emitted
    folder: Path
    figures: Figures | None
    uncompiled: str = ""
    compared: str = ""
    proof: str = ""
    loops: str = ""
    instructions: int | None = None
    sizes: tuple[str, ...] = ()


class _Trial:
    """Writes and compiles what was verified; keeps the result of the last attempt."""

    def __init__(self, with_toolchain: bool) -> None:
        self.emitted: Emitted | None = None
        self.figures: Figures | None = None
        self.compiled: CompiledKernel | None = None
        self.uncompiled = "" if with_toolchain else "not asked for"
        self.compared = ""

    def accept(self, built: Built) -> str | None:
        """Why the source is not accepted, or None."""
        try:
            self.emitted = emit(built.tile, built.kernel, built.program)
            if self.uncompiled:
                return None
            compiled = compile_package(self.emitted.files, built.tile.target)
            self.compiled, self.figures = compiled, compiled.figures
        except EmissionRefused as refused:
            return str(refused)
        except Endless as error:  # another shape would be taken for want of time
            raise BuildRefused(f"the toolchain does not end: {error}") from None
        except CannotCompile as error:
            return f"the toolchain refuses it: {error}"
        except ToolchainMissing as absent:
            self.uncompiled = str(absent)
            return None
        faults = self.figures.faults() or self._translated(built, self.emitted, compiled)
        return "; ".join(faults) if faults else None

    def _translated(self, built: Built, emitted: Emitted, compiled: CompiledKernel) -> list[str]:
        """Where the machine code differs from what was verified; `compared` says what was done."""
        from titan.validate.compare import gcn_package
        from titan.validate.compare.expected import TooLong
        from titan.validate.compare.threads import UnsupportedPtx
        from titan.validate.compare.translation import translation

        if target_of(built.tile.target).amd:
            self.compared = "machine code"
            kinds = dict(built.kernel.placement.kinds)
            return gcn_package.faults(compiled, emitted.manifest, built.tile, built.program, kinds)
        try:
            found = translation(built.tile, built.program, emitted.manifest, compiled)
        except (UnsupportedPtx, TooLong) as reason:
            self.compared = f"no: {reason}"
            return []
        self.compared = f"PTX, {found.events:,} events of {found.threads} threads"
        return found.faults


@dataclass(frozen=True, slots=True)
class ProductionHooks:
    """Hooks of a caller: `report` takes each step, `judge` verifies the candidates."""

    report: Callable[[str], None] = lambda text: None
    judge: Judge = one_by_one


def produce(
    tile: TileProgram,
    text: str,
    parent: Path,
    limits: BuildLimits,
    hooks: ProductionHooks = ProductionHooks(),
    with_toolchain: bool = True,
    certificate_states: int = 0,
) -> Produced:
    """The package of a tile program, in a folder of `parent` named for kernel and target.

    Where sizes are lists, of the first numbers by the model for which there is one.
    `certificate_states`: configurations that the search for a certificate of the verdict may take.
    Raises BuildRefused, CannotWrite
    where the folder cannot be made, and FaultyError where that search comes to a fault.
    """
    reasons: list[str] = []
    steps: list[TriedCandidate] = []
    listed = by_model(alternatives(tile, text), limits)
    for place, one in enumerate(listed):
        chosen = one.alternative
        trial = _Trial(with_toolchain)
        try:
            taken = BuildHooks(trial.accept, hooks.report, judge=hooks.judge)
            built = build(chosen.tile, chosen.text, limits, taken)
        except BuildRefused as refused:
            if len(listed) == 1:
                raise
            steps += refused.steps
            reasons.append(f"{chosen.words}: {refused}")
            continue
        words = (*(other.words for other in listed[place:]), *reasons) if chosen.sizes else ()
        return replace(_written(built, trial, parent, certificate_states), sizes=words)
    raise BuildRefused("; ".join(reasons), tuple(steps))


def _written(built: Built, trial: _Trial, parent: Path, certificate_states: int) -> Produced:
    assert trial.emitted is not None
    folder = parent / f"{built.tile.name}-{built.tile.target}"
    proof, remark = written_for(built.program, certificate_states)
    write_package(folder, built, trial.emitted, proof)
    words, instructions = loop_counts(trial.compiled)
    return Produced(
        built, trial.emitted, folder, trial.figures, trial.uncompiled, trial.compared, remark,
        words, instructions,
    )  # fmt: skip


def loop_counts(compiled: CompiledKernel | None) -> tuple[str, int | None]:
    """What the main loop of the machine code does, and what costs there, or why nobody knows; and
    its instructions on the usual way."""
    if compiled is None:
        return "no: not compiled", None
    try:
        kernels = [count(function) for function in of_compiled(compiled)]
    except (ToolchainMissing, CannotCompile, BadListing) as reason:
        return f"no: {reason}", None
    mains = [kernel.main for kernel in kernels if kernel.main is not None]
    findings = [finding for kernel in kernels for finding in kernel.findings]
    words = [*(loop_summary(main) for main in mains), *findings]
    summary = "; ".join(words) or "no products in loops, no costly fences"
    return summary, mains[0].usual if len(mains) == 1 else None
