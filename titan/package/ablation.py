"""Variants of a kernel that differ in one decision, built ahead to be timed side by side.

What a variant leaves out or adds is a question of speed only: each one is a pipeline that was
decoded, lowered and VERIFIED like the product before anything was emitted. Axes: whether a separate
warp loads, whether schedules know of registers, which proxy fences stand, how the last iteration
is done, whether all roles run one loop over time, how deep rings are.
Variants are not packages: they have no certificate, and the gate refuses them. The index names them
all, also those that cannot be built, with what the machine model says of each. Source: seed
evaluation plan, A5 and B2 to B4.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from titan.codegen.emit.write import EmissionRefused, Emitted, emit
from titan.codegen.pipeline.build import (
    BuildHooks,
    BuildLimits,
    BuildRefused,
    NotVerified,
    build,
    decoded,
    judged,
)
from titan.codegen.pipeline.document import PipelineDocument
from titan.codegen.pipeline.fencing import conservative, fewest
from titan.codegen.pipeline.model import Built, Shape
from titan.codegen.pipeline.printer import pipeline_text
from titan.codegen.tile.model import TileProgram
from titan.foundation.atomic import write_folder, write_text
from titan.package import contents
from titan.package.write import package_files

if TYPE_CHECKING:
    from titan.validate.compare.compile import Figures

INDEX = "ablations.json"
FORMAT = "1"
DEPTHS = (2, 3, 4, 5, 6)


@dataclass(frozen=True, slots=True)
class AblationVariant:
    """One setting of one axis. `about` says how it differs from the product."""

    axis: str
    setting: str
    about: str
    tile: Callable[[TileProgram], TileProgram] = lambda tile: tile
    limits: Callable[[BuildLimits], BuildLimits] = lambda limits: limits
    only: Callable[[Shape], bool] = lambda shape: True
    edit: Callable[[PipelineDocument, BuildLimits], PipelineDocument] = lambda document, limits: (
        document
    )
    spills: bool = False  # whether code that spills registers is taken


@dataclass(frozen=True, slots=True)
class Made:
    """A variant of a kernel; without `folder`, `reason` says why it was not built."""

    tile: TileProgram
    variant: AblationVariant
    folder: str = ""
    reason: str = ""
    facts: dict[str, object] = field(default_factory=dict)


def without_redundant(document: PipelineDocument, limits: BuildLimits) -> PipelineDocument:
    """`conservative`, and then without each fence, from the end, that the rest verifies without.

    Raises nothing for a pipeline that is not verified: it stays as it is, and the build refuses it.
    """

    def verified(edited: PipelineDocument) -> bool:
        try:
            kernel, _ = decoded(pipeline_text(edited))
            judged(kernel, limits)
        except NotVerified:
            return False
        return True

    return fewest(conservative(document), verified)


def _naive(limits: BuildLimits) -> BuildLimits:
    return replace(limits, naive=True)


def _tail(tail: str) -> Callable[[TileProgram], TileProgram]:
    return lambda tile: replace(tile, tail=tail)


def _deep(stages: int) -> Callable[[TileProgram], TileProgram]:
    return lambda tile: replace(tile, depth=stages)


VARIANTS = (
    AblationVariant("product", "as built", "what titan build makes"),
    AblationVariant("specialisation", "always", "a separate warp loads, in any case",
            only=lambda shape: shape.specialised),
    AblationVariant("specialisation", "never", "the computing warps load themselves",
            only=lambda shape: not shape.specialised),
    AblationVariant("specialisation", "heuristic", "what the machine model says is faster",
            limits=lambda limits: replace(limits, specialise="heuristic")),
    AblationVariant("registers", "naive", "schedules ignore registers, code may spill",
            limits=_naive, spills=True),
    AblationVariant("fences", "conservative", "a fence wherever a stage or tile is handed over",
            edit=lambda document, limits: conservative(document)),
    AblationVariant("fences", "no redundant", "the conservative ones that verification needs",
            edit=without_redundant),
    AblationVariant("tail", "threads", "threads copy the last iteration", tile=_tail("threads")),
    AblationVariant("tail", "poison", "the last iteration is poison, computed on a safe path",
            tile=_tail("poison")),
    AblationVariant("loop", "unified", "all roles run one loop over time, with guards",
            limits=lambda limits: replace(limits, loop="unified")),
    *(AblationVariant("depth", str(stages), f"rings of {stages} stages", tile=_deep(stages))
      for stages in DEPTHS),
)  # fmt: skip


def prepare(
    programs: list[tuple[TileProgram, str]],
    parent: Path,
    limits: BuildLimits,
    report: Callable[[Made], None] = lambda made: None,
    variants: tuple[AblationVariant, ...] = VARIANTS,
    with_toolchain: bool = True,
) -> list[Made]:
    """All variants of the tile programs, in folders below `parent`, and the index of them.

    Raises CannotWrite.
    """
    found: list[Made] = []
    for tile, text in programs:
        for made in _variants(tile, text, parent, limits, variants, with_toolchain):
            found.append(made)
            report(made)
    index = {"titan": FORMAT, "kind": "ablations", "variants": [_data(made) for made in found]}
    parent.mkdir(parents=True, exist_ok=True)
    write_text(parent / INDEX, json.dumps(index, indent=1) + "\n")
    return found


def _variants(
    tile: TileProgram,
    text: str,
    parent: Path,
    limits: BuildLimits,
    variants: tuple[AblationVariant, ...],
    with_toolchain: bool,
) -> Iterator[Made]:
    known: dict[str, str] = {}
    for variant in variants:
        try:
            built, emitted, figures = _built(tile, text, variant, limits, with_toolchain)
        except BuildRefused as refused:
            steps = "; ".join(f"{step.shape.name}: {step.reason}" for step in refused.steps[:3])
            yield Made(tile, variant, reason=f"{refused}{': ' if steps else ''}{steps}")
            continue
        if variant.axis == "depth" and built.shape.depth != int(variant.setting):
            yield Made(tile, variant, reason=f"built with depth {built.shape.depth} instead")
            continue
        files = package_files(built, emitted)
        del files[contents.CERTIFICATE]
        source = hashlib.sha256(emitted.files[str(emitted.manifest["source"])].encode()).hexdigest()
        name = f"{tile.name}-{tile.target}-{variant.axis}-{variant.setting}".replace(" ", "-")
        folder = known.setdefault(source, name)
        if folder == name:
            write_folder(parent / name, files, may_replace=_is_ours)
        yield Made(tile, variant, folder, facts=_facts(built, figures))


def _is_ours(folder: Path) -> bool:
    """Whether a folder holds a variant and nothing else."""
    names = {path.name for path in folder.iterdir()}
    sources = {name for pair in contents.SOURCES for name in pair}
    return contents.MANIFEST in names and names <= sources | set(contents.FIXED)


def _built(
    tile: TileProgram,
    text: str,
    variant: AblationVariant,
    limits: BuildLimits,
    with_toolchain: bool,
) -> tuple[Built, Emitted, Figures | None]:
    """The first shape that is verified and can be written. Raises BuildRefused."""
    from titan.validate.compare.compile import compile_package
    from titan.validate.compare.toolchain import CannotCompile, ToolchainMissing

    last: list[tuple[Emitted, Figures | None]] = []

    def accept(built: Built) -> str | None:
        try:
            emitted = emit(built.tile, built.kernel, built.program)
            last.append((emitted, None))
            if not with_toolchain:
                return None
            figures = compile_package(emitted.files, tile.target).figures
        except EmissionRefused as refused:
            return str(refused)
        except CannotCompile as error:
            return f"the toolchain refuses it: {error}"
        except ToolchainMissing:
            return None
        last[-1] = emitted, figures
        return "; ".join(figures.faults(variant.spills)) or None

    chosen = variant.limits(limits)
    hooks = BuildHooks(
        accept, only=variant.only, edit=lambda document: variant.edit(document, chosen)
    )
    return build(variant.tile(tile), text, chosen, hooks), *last[-1]


def _facts(built: Built, figures: Figures | None) -> dict[str, object]:
    """What the index says of a variant beside its name; `compiled` where there is a toolchain."""
    schedule = built.result.schedule
    assert schedule is not None
    compiled = None if figures is None else {
        "registers": figures.registers, "spilled_bytes": figures.spill_bytes,
    }  # fmt: skip
    return {
        "verdict": str(built.finding.verdict),
        "shape": built.shape.name,
        "depth": built.shape.depth,
        "specialised": built.shape.specialised,
        "ii": schedule.ii,
        "evidence": built.result.evidence.kind,
        "compiled": compiled,
        "terms": terms(built),
        "rates": machine_rates(built.tile.target),
    }


def terms(built: Built) -> dict[str, float]:
    """Cycles that the machine model asks of one iteration for each reason, each a lower bound.

    Of a unit: its cycles by its capacity. `ring`: from asking for a tile to its release, by the
    depth. `carried`: along values that one iteration hands to the next.
    """
    from titan.scheduling.loop.bounds import demand, recurrence_bound
    from titan.scheduling.loop.model import DATA

    loop = built.loop
    found: dict[str, float] = {}
    for unit in loop.units.values():
        cycles = sum(demand(operation, unit.name) for operation in loop.operations)
        if cycles:
            found[unit.name] = cycles / unit.capacity
    chains = []
    for number, operation in enumerate(loop.operations):
        if operation.streaming:
            readers = [
                loop.operations[edge.sink].latency_cycles
                for edge in loop.dependences
                if edge.source == number and edge.distance == 0
            ]
            chains.append(operation.latency_cycles + max(readers, default=0))
    if chains:
        found["ring"] = max(chains) / built.shape.depth
    within = replace(
        loop, dependences=tuple(edge for edge in loop.dependences if edge.kind == DATA)
    )
    carried = recurrence_bound(within).ii
    if carried > 1:
        found["carried"] = float(carried)
    return found


def machine_rates(target: str) -> dict[str, dict[str, object]]:
    """The numbers of `rates.yaml` behind each term: their paths there, and which way they count.

    `rate`: so much a cycle; `cost`: so many cycles.
    """
    from titan.codegen.tile.rates import rates

    known = rates(target)
    found: dict[str, dict[str, object]] = {}

    def put(term: str, path: str, value: float, kind: str) -> None:
        found.setdefault(term, {})[path] = {"value": value, "kind": kind}

    for dtype, value in known.matrix.per_cycle.items():
        put(known.matrix.unit, f"matrix.per_cycle.{dtype}", value, "rate")
    transfer = known.transfer
    if transfer.cycles_per_kib:
        put(transfer.unit, "transfer.cycles_per_kib", transfer.cycles_per_kib, "cost")
    else:
        put(transfer.unit, "transfer.bytes_per_cycle", transfer.bytes_per_cycle, "rate")
    put(known.shared.unit, "shared.bytes_per_cycle", known.shared.bytes_per_cycle, "rate")
    memory = known.global_memory
    put(memory.unit, "global.bytes_per_cycle", memory.bytes_per_cycle, "rate")
    for name, rate in known.classes.items():
        for unit, value in rate.uses:
            put(unit, f"operations.{name}.uses.{unit}", value, "rate")
    put("ring", "transfer.latency", transfer.latency_cycles, "latency")
    return found


def _data(made: Made) -> dict[str, object]:
    return {
        "kernel": made.tile.name, "target": made.tile.target, "axis": made.variant.axis,
        "setting": made.variant.setting, "about": made.variant.about,
        "folder": made.folder or None, "reason": made.reason, **made.facts,
    }  # fmt: skip
