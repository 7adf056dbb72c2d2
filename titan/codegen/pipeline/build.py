"""From a tile program to a verified pipeline: schedule, construct, lower, judge; or the next shape.

Nothing leaves this module that is not VERIFIED for the scope that its finding states. What is
refused on the way is reported with its reason: a form that the schedule does not fit, a rule of the
hardware, a verdict, or a target that cannot spell it (`accept`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from titan.codegen.pipeline.candidates import DEPTH_DEFAULT, shapes
from titan.codegen.pipeline.document import PipelineDocument
from titan.codegen.pipeline.forms import form_of
from titan.codegen.pipeline.model import Built, FormRefused, Shape, TriedCandidate
from titan.codegen.pipeline.printer import pipeline_text
from titan.codegen.tile.model import TileProgram
from titan.foundation.errors import InternalError, Refusal
from titan.foundation.verdict import Verdict
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.language.lower import LoweringRefused
from titan.scheduling.explain import rings
from titan.scheduling.loop.model import Loop
from titan.scheduling.run import Request, ScheduleRun
from titan.sync.program import SyncProgram, without_computations
from titan.target.load import machine
from titan.verify import lowering
from titan.verify.legality.check import examine
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

PATH = "pipeline.yaml"


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """What a build may take, and where results of the search are kept.

    `naive`: schedules that know of no limits of registers and memory, for comparisons.
    """

    schedule_seconds: float = 5.0
    verify_states: int = 2_000_000
    verify_seconds: float = 600.0
    require_any: bool = False
    cache: str | None = None
    solver: str = "auto"
    naive: bool = False


class BuildRefused(Refusal):
    """No shape was verified; `steps` say why for each."""

    def __init__(self, text: str, steps: tuple[TriedCandidate, ...] = ()) -> None:
        super().__init__(text)
        self.steps = steps


Edit = Callable[[PipelineDocument], PipelineDocument]


@dataclass(frozen=True, slots=True)
class BuildHooks:
    """Hooks of the caller while a tile program is built.

    `accept` gives the reason why a verified pipeline cannot be written for the target, or None;
    `progress` is called with each step. For comparisons, `only` leaves shapes out and `edit`
    changes a pipeline: what comes out of that is decoded and verified like any other.
    """

    accept: Callable[[Built], str | None] = lambda built: None
    progress: Callable[[str], None] = lambda text: None
    only: Callable[[Shape], bool] = lambda shape: True
    edit: Edit = lambda document: document


NO_HOOKS = BuildHooks()


def build(
    tile: TileProgram,
    tile_text: str,
    limits: BuildLimits | None = None,
    hooks: BuildHooks = NO_HOOKS,
) -> Built:
    """The first shape that is verified and accepted. Raises BuildRefused."""
    limits = limits or BuildLimits()
    started = time.monotonic()
    try:
        form = form_of(tile.target)
    except FormRefused as refused:
        raise BuildRefused(str(refused)) from None
    hooks.progress("scheduling")
    loop, result, stages = scheduled(tile, limits)
    schedule = result.schedule
    if schedule is None:
        raise BuildRefused(f"no schedule was found: {result.evidence.detail}")
    starts = group_starts(tile, loop, schedule.starts)
    needed = max((ring.needed for ring in rings(loop, schedule)), default=DEPTH_DEFAULT)
    steps: list[TriedCandidate] = []
    tried: set[str] = set()
    for shape in filter(hooks.only, shapes(tile, needed, stages)):
        hooks.progress(shape.name)
        try:
            text = pipeline_text(hooks.edit(form(tile, shape, starts, schedule.ii)))
            if text in tried:
                continue  # another shape of the list came out the same
            tried.add(text)
            kernel, program = decoded(text)
            finding = judged(kernel, limits)
        except (NotVerified, FormRefused) as refused:
            steps.append(TriedCandidate(shape, False, str(refused)))
            continue
        built = Built(
            tile,
            tile_text,
            loop,
            result,
            shape,
            text,
            kernel,
            program,
            finding,
            (*steps, TriedCandidate(shape, True)),
            time.monotonic() - started,
            finding.notes,
        )
        reason = hooks.accept(built)
        if reason is None:
            return replace(built, seconds=time.monotonic() - started)
        steps.append(TriedCandidate(shape, False, reason))
    raise BuildRefused("no shape of the list can be verified and written", tuple(steps))


def scheduled(tile: TileProgram, limits: BuildLimits) -> tuple[Loop, ScheduleRun, int]:
    """The loop of the body on its machine, its schedule, and the stages that its rings had.

    Where rings of so many stages do not fit, fewer are tried. Raises BuildRefused.
    """
    from titan.codegen.tile.cost import CostError
    from titan.codegen.tile.loops import loop_of
    from titan.scheduling.cache import Cache
    from titan.scheduling.gauss import TorchMissing
    from titan.scheduling.loop.bounds import Unschedulable
    from titan.scheduling.run import run

    request = Request(solver=limits.solver, budget_seconds=limits.schedule_seconds)
    reason = ""
    for depth in range(tile.depth or DEPTH_DEFAULT, 0, -1):
        try:
            loop = loop_of(tile, machine(tile.target), depth)
        except CostError as error:
            raise BuildRefused(f"{tile.name} has no loop on this machine: {error}") from None
        try:
            if limits.naive:
                return loop, _naive(loop, limits), depth
            if limits.cache is None:
                return loop, run(loop, request), depth
            with Cache(limits.cache) as cache:
                return loop, cache.run(loop, request), depth
        except Unschedulable as error:
            reason = f"no initiation interval exists: {error}"
            if "shared" in error.witness:
                reason += f" ({shared_words(tile)})"
        except TorchMissing as error:
            raise BuildRefused(str(error)) from None
    raise BuildRefused(reason)


def shared_words(tile: TileProgram) -> str:
    """What takes shared memory besides the rings of the loop."""
    from titan.codegen.tile.cost import shared_left, staging_bytes
    from titan.codegen.tile.rates import rates

    target, known = machine(tile.target), rates(tile.target)
    capacity = target.memories["shared"].capacity
    staging, left = staging_bytes(tile, known), shared_left(tile, target, known)
    return (
        f"of {capacity} bytes of shared memory the tiles that stores send take {staging}, what is "
        f"loaded before the loop and barriers take {max(0, capacity - staging - left)}, which "
        f"leaves {left} for rings; smaller tiles, or results of 16 bits, take less"
    )


def _naive(loop: Loop, limits: BuildLimits) -> ScheduleRun:
    """A schedule without limits on what is kept in registers and memory; it proves nothing."""
    from titan.scheduling import rau
    from titan.scheduling.loop.bounds import bounds
    from titan.scheduling.model import Evidence

    lower = bounds(loop)
    outcome = rau.solve(loop, rau.RauOptions(registers="naive", seconds=limits.schedule_seconds))
    text = "limits of registers and memory are ignored"
    evidence = Evidence("none", lower.ii, text)
    return ScheduleRun(loop, outcome.schedule, evidence, lower, "rau, naive", outcome.seconds)


def group_starts(tile: TileProgram, loop: Loop, starts: tuple[int, ...]) -> dict[str, int]:
    """The cycles of the operations of the first group, by their names in the tile program."""
    by_name = {
        operation.name: start for operation, start in zip(loop.operations, starts, strict=True)
    }
    found = {}
    for operation in tile.body:
        for name in (f"{operation.name}_0", operation.name):
            if name in by_name:
                found[operation.name] = by_name[name]
                break
    return found


class NotVerified(Refusal):
    """The pipeline is against a rule of its target, not verified, or cannot be read."""


def decoded(text: str) -> tuple[Kernel, SyncProgram]:
    """The kernel of a pipeline, and its sync program with computations. Raises NotVerified."""
    family, errors = decode_text(text, PATH)
    whole, more = decode_text(text, PATH, computations=True)
    if family is None or whole is None:
        raise NotVerified("; ".join(item.headline for item in (*errors, *more)))
    kernel = family.kernels[0]
    try:
        plain = lowering.sync_program(kernel).program
        program = lowering.sync_program(whole.kernels[0]).program
    except (lowering.NotLowered, LoweringRefused) as refused:
        raise NotVerified(str(refused)) from None
    stripped = tuple(replace(role, body=without_computations(role.body)) for role in program.roles)
    if replace(program, roles=stripped) != plain:
        raise InternalError("what is emitted is not what is verified")
    unlawful = examine(kernel, plain).errors
    if unlawful:
        raise NotVerified(f"{unlawful[0].code}: {unlawful[0].headline}")
    return kernel, program


def judged(kernel: Kernel, limits: BuildLimits) -> Finding:
    """The VERIFIED finding on a pipeline. Raises NotVerified."""
    options = VerifyOptions(
        states_max=limits.verify_states,
        seconds_max=limits.verify_seconds,
        save_traces=None,
        require="any" if limits.require_any else "bounded",
    )
    finding = verify_kernel(kernel, options)
    if finding.verdict is not Verdict.VERIFIED:
        told = "; ".join(f"{item.code}: {item.headline}" for item in finding.diagnostics[:2])
        raise NotVerified(f"{finding.verdict}{': ' if told else ''}{told}")
    return finding
