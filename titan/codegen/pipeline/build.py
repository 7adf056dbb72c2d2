"""From a tile program to a verified pipeline: schedule, construct, lower, judge; or the next shape.

Nothing leaves this module that is not VERIFIED for the scope that its finding states. What is
refused on the way is reported with its reason: a form that the schedule does not fit, a rule of the
hardware, a verdict, or a target that cannot spell it (`accept`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from titan.codegen.pipeline.assignment import as_the_form
from titan.codegen.pipeline.candidates import DEPTH_DEFAULT, shapes
from titan.codegen.pipeline.document import PipelineDocument
from titan.codegen.pipeline.forms import form_of
from titan.codegen.pipeline.model import UNTAKEN, Built, FormRefused, Shape, TriedCandidate
from titan.codegen.pipeline.printer import pipeline_text
from titan.codegen.pipeline.ranking import ranked
from titan.codegen.tile.model import TileProgram
from titan.foundation.errors import InternalError, Refusal
from titan.foundation.verdict import Reason, Verdict
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.language.lower import LoweringRefused
from titan.scheduling.explain import rings
from titan.scheduling.loop.model import Loop
from titan.scheduling.run import Request, ScheduleRun
from titan.scheduling.work import Stopwatch
from titan.sync.contents import as_engines_see
from titan.sync.expression import Constant
from titan.sync.program import SyncProgram, without_computations
from titan.target.description import target_of
from titan.target.load import machine
from titan.verify import lowering
from titan.verify.legality.check import examine
from titan.verify.model import Finding, VerifyOptions
from titan.verify.pipeline import verify_kernel

if TYPE_CHECKING:
    from titan.scheduling.cache import CacheSubject

PATH = "pipeline.yaml"
IN_ORDER_SECONDS = 2.0  # of work, where no form takes the order of a schedule


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """What a build may take, and where results of the search are kept.

    All of it is counted, so that the same program gives the same package everywhere.
    `verify_seconds` is a backstop of processor time: where it is spent, no package is built.
    `naive`: schedules that know of no limits of registers and memory, for comparisons.
    `specialise`: `always` has forms without a loading warp as fallbacks only, `never` takes no
    others, `heuristic` takes first what the machine model says is faster for `iterations` (the
    iterations of the loop where the tile program fixes them), registers counted. `loop`: `peeled`
    has a prologue and an epilogue where iterations overlap, `unified` one loop over time.
    """

    schedule_seconds: float = 5.0  # of work, not of a clock (`titan/scheduling/work.py`)
    verify_states: int = 2_000_000
    verify_seconds: float = math.inf
    require_any: bool = False
    cache: str | None = None
    solver: str = "auto"
    naive: bool = False
    specialise: str = "always"
    iterations: int = 64
    loop: str = "peeled"


class BuildRefused(Refusal):
    """No shape was verified; `steps` say why for each."""

    def __init__(self, text: str, steps: tuple[TriedCandidate, ...] = ()) -> None:
        super().__init__(text)
        self.steps = steps


Edit = Callable[[PipelineDocument], PipelineDocument]


@dataclass(frozen=True, slots=True)
class BuildCandidate:
    """The pipeline of a shape, ready to be verified; or the `reason` why there is none."""

    shape: Shape
    text: str = ""
    kernel: Kernel | None = None
    program: SyncProgram | None = None
    reason: str = ""


Answer = Finding | str  # the VERIFIED finding on a candidate, or the reason why there is none
Judge = Callable[[Iterable[BuildCandidate], BuildLimits], Iterator[tuple[BuildCandidate, Answer]]]


def one_by_one(
    candidates: Iterable[BuildCandidate], limits: BuildLimits
) -> Iterator[tuple[BuildCandidate, Answer]]:
    """Each candidate is verified when it is asked for, and none after the first that is taken."""
    for candidate in candidates:
        yield candidate, answer_on(candidate, limits)


def answer_on(candidate: BuildCandidate, limits: BuildLimits) -> Answer:
    """The verdict on one candidate, for any process."""
    if candidate.kernel is None:
        return candidate.reason
    try:
        return judged(candidate.kernel, limits)
    except NotVerified as refused:
        return str(refused)


@dataclass(frozen=True, slots=True)
class BuildHooks:
    """Hooks of the caller while a tile program is built.

    `accept` gives the reason why a verified pipeline cannot be written for the target, or None;
    `progress` is called with each step. `judge` gives the answers on candidates in their order,
    perhaps several at the same time. For comparisons, `only` leaves shapes out and `edit` changes a
    pipeline: what comes out of that is decoded and verified like any other.
    """

    accept: Callable[[Built], str | None] = lambda built: None
    progress: Callable[[str], None] = lambda text: None
    only: Callable[[Shape], bool] = lambda shape: True
    edit: Edit = lambda document: document
    judge: Judge = one_by_one


NO_HOOKS = BuildHooks()


def build(
    tile: TileProgram,
    tile_text: str,
    limits: BuildLimits | None = None,
    hooks: BuildHooks = NO_HOOKS,
) -> Built:
    """The first shape that is verified and accepted. Raises BuildRefused."""
    limits = limits or BuildLimits()
    started = Stopwatch()
    try:
        form = form_of(tile.target)
    except FormRefused as refused:
        raise BuildRefused(str(refused)) from None
    hooks.progress("scheduling")
    loop, result, stages = scheduled(tile, limits)
    result, listed, steps = considered(tile, loop, result, stages, limits)
    schedule = result.schedule
    assert schedule is not None
    starts = group_starts(tile, loop, schedule.starts)

    def candidates() -> Iterator[BuildCandidate]:
        tried: set[str] = set()
        for shape in filter(hooks.only, listed):
            hooks.progress(shape.name)
            try:
                text = pipeline_text(hooks.edit(form(tile, shape, starts, schedule.ii)))
                if text in tried:
                    continue  # another shape of the list came out the same
                tried.add(text)
                yield BuildCandidate(shape, text, *decoded(text))
            except (NotVerified, FormRefused) as refused:
                yield BuildCandidate(shape, reason=str(refused))

    for candidate, finding in hooks.judge(candidates(), limits):
        shape, kernel, program = candidate.shape, candidate.kernel, candidate.program
        if isinstance(finding, str) or kernel is None or program is None:
            steps.append(TriedCandidate(shape, False, str(finding)))
            continue
        built = Built(
            tile,
            tile_text,
            loop,
            result,
            shape,
            candidate.text,
            kernel,
            program,
            finding,
            (*steps, TriedCandidate(shape, True)),
            started.seconds,
            finding.notes,
            ranked(tile, result.loop, result, listed),
        )
        reason = hooks.accept(built)
        if reason is None:
            return replace(built, seconds=started.seconds)
        steps.append(TriedCandidate(shape, False, reason))
    raise BuildRefused("no shape of the list can be verified and written", tuple(steps))


def considered(
    tile: TileProgram, loop: Loop, result: ScheduleRun, stages: int, limits: BuildLimits
) -> tuple[ScheduleRun, list[Shape], list[TriedCandidate]]:
    """The schedule that a kernel is built from, the shapes it may have in their order, and what of
    the schedule is not taken. Raises BuildRefused."""
    steps: list[TriedCandidate] = []
    plain = result.schedule is None
    if plain:
        why = f"no schedule was found: {result.evidence.detail}"
        steps.append(TriedCandidate(Shape(UNTAKEN[0], stages), False, why))
        result = unscheduled(loop, result, why)
    search = partial(searched, limits)
    settled, why = as_the_form(tile, loop, result, limits.schedule_seconds, search)
    if why:
        steps.append(TriedCandidate(Shape(UNTAKEN[1], stages), False, why))
    result = settled or result
    assert result.schedule is not None
    needed = max((ring.needed for ring in rings(loop, result.schedule)), default=DEPTH_DEFAULT)
    listed = list(shapes(tile, needed, stages))
    if plain:
        plainest = [shape for shape in listed if not shape.specialised]
        return result, plainest or [s for s in listed if not s.overlapped], steps
    if settled is None:  # the order of the schedule would be that of another kernel
        listed = [shape for shape in listed if not shape.overlapped]
    if limits.loop == "unified":
        listed = over_time(listed)
    listed = [one.shape for one in ranked(tile, result.loop, result, listed)]
    listed, note = specialised(tile, listed, loop, result, limits)
    return replace(result, notes=(*result.notes, *note)), listed, steps


def over_time(listed: list[Shape]) -> list[Shape]:
    """Of each depth the plain shape, as one loop over time; those without a loading role on NVIDIA
    are that already."""
    found: dict[tuple[object, ...], Shape] = {}
    for shape in listed:
        name = f"{shape.name.split(',')[0]}, one loop over time"
        plain = replace(shape, name=name, overlapped=shape.overlapped and not shape.specialised,
                        ping_pong=False, behind=False, unified=True)  # fmt: skip
        found.setdefault((plain.depth, plain.specialised, plain.guarded, plain.tail), plain)
    return list(found.values())


def unscheduled(loop: Loop, result: ScheduleRun, reason: str) -> ScheduleRun:
    """The deterministic baseline: one operation after the other. Raises BuildRefused."""
    from titan.scheduling.assign import assign
    from titan.scheduling.sequence import in_sequence

    teams = assign(loop)
    found = None if teams is None else in_sequence(loop, teams, result.bounds.ii)
    if found is None:
        raise BuildRefused(reason)
    note = f"{reason}; operations are in the order of their dependences instead"
    return replace(result, schedule=found, produced_by="in sequence", notes=(*result.notes, note))


def specialised(
    tile: TileProgram, listed: list[Shape], loop: Loop, result: ScheduleRun, limits: BuildLimits
) -> tuple[list[Shape], tuple[str, ...]]:
    """The shapes in the order that `limits.specialise` asks for, and why. Raises BuildRefused."""
    from titan.scheduling.common import common_group, faster

    apart = [shape for shape in listed if not shape.specialised]
    if limits.specialise == "never":
        if not apart:
            raise BuildRefused(f"{tile.target} has no form of it without a warp that only loads")
        return apart, ()
    if limits.specialise == "always" or not loop.groups or len(apart) in (0, len(listed)):
        return listed, ()
    fixed = tile.trip_count
    trips = fixed.value if isinstance(fixed, Constant) else limits.iterations
    request = Request(solver=limits.solver, budget_seconds=limits.schedule_seconds)
    chosen = faster(result, searched(limits, common_group(loop), request), trips)
    note = chosen.notes[-1:]
    return (
        [*apart, *(s for s in listed if s.specialised)] if chosen.loop != loop else listed
    ), note


def scheduled(tile: TileProgram, limits: BuildLimits) -> tuple[Loop, ScheduleRun, int]:
    """The loop of the body on its machine, its schedule, and the stages that its rings had.

    Where rings of so many stages do not fit, fewer are tried. Raises BuildRefused.
    """
    from titan.codegen.tile.cost import CostError
    from titan.codegen.tile.loops import loop_of
    from titan.scheduling.gauss import TorchMissing
    from titan.scheduling.loop.bounds import Unschedulable

    seconds = limits.schedule_seconds
    if not takes_order(tile):
        seconds = min(seconds, IN_ORDER_SECONDS)
    request = Request(solver=limits.solver, budget_seconds=seconds)
    reason = ""
    for depth in range(tile.depth or DEPTH_DEFAULT, 0, -1):
        try:
            loop = loop_of(tile, machine(tile.target), depth)
        except CostError as error:
            raise BuildRefused(f"{tile.name} has no loop on this machine: {error}") from None
        try:
            if limits.naive:
                return loop, _naive(loop, limits), depth
            return loop, searched(limits, loop, request, subject_of(tile)), depth
        except Unschedulable as error:
            reason = f"no initiation interval exists: {error}"
            if "shared" in error.witness:
                reason += f" ({shared_words(tile)})"
        except TorchMissing as error:
            raise BuildRefused(str(error)) from None
    raise BuildRefused(reason)


def searched(
    limits: BuildLimits, loop: Loop, request: Request, subject: CacheSubject | None = None
) -> ScheduleRun:
    """The schedule of a loop, from the cache where one is named and has it. Raises Unschedulable.

    Look-ups count for the rates of `subject` alone.
    """
    from titan.scheduling.cache import Cache
    from titan.scheduling.run import run

    if limits.cache is None:
        return run(loop, request)
    with Cache(limits.cache) as cache:
        return cache.run(loop, request, subject)


def takes_order(tile: TileProgram) -> bool:
    """Whether some form issues operations in the order of the schedule: waves of AMD and loops
    without a product keep that of the program, and take the depth of the rings alone."""
    return not target_of(tile.target).amd and any(item.kind == "mma" for item in tile.body)


def subject_of(tile: TileProgram) -> CacheSubject:
    """What a tile program is about, for the rates of the cache: rows x columns x depth of its first
    product (or the extents of its first load), type, target, and the kinds beside both."""
    from titan.scheduling.cache import CacheSubject

    values = {one.name: one.result for one in tile.operations if one.result is not None}
    products = [one for one in tile.body if one.kind == "mma"]
    loads = [one for one in tile.operations if one.kind == "load"]
    dtype = loads[0].value.dtype if loads else "none"
    if products:
        left = values.get(products[0].operands[0])
        depth = 0 if left is None else left.rows if products[0].transpose[0] else left.columns
        shape = f"{products[0].value.rows}x{products[0].value.columns}x{depth}"
    else:
        shape = f"{loads[0].value.rows}x{loads[0].value.columns}" if loads else "none"
    beside = {one.function or one.kind for one in tile.operations} - {"load", "mma", "store"}
    return CacheSubject(shape, dtype, tile.target, "+".join(sorted(beside)) or "nothing")


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
        program = lowering.sync_program(whole.kernels[0], together=True).program
    except (lowering.NotLowered, LoweringRefused) as refused:
        raise NotVerified(str(refused)) from None
    stripped = tuple(replace(role, body=without_computations(role.body)) for role in program.roles)
    if as_engines_see(replace(program, roles=stripped)) != plain:
        raise InternalError("what is emitted is not what is verified")
    unlawful = examine(kernel, plain).errors
    if unlawful:
        raise NotVerified(f"{unlawful[0].code}: {unlawful[0].headline}")
    return kernel, program


def judged(kernel: Kernel, limits: BuildLimits) -> Finding:
    """The VERIFIED finding on a pipeline. Raises NotVerified; BuildRefused when time ran out."""
    options = VerifyOptions(
        states_max=limits.verify_states,
        seconds_max=limits.verify_seconds,
        save_traces=None,
        require="any" if limits.require_any else "bounded",
        reviews_fences=False,  # of what is built only the verdict is asked for
    )
    finding = verify_kernel(kernel, options)
    if any(report.reason is Reason.TIME for report in finding.engines):
        raise BuildRefused(
            f"the verification of a shape takes more than {limits.verify_seconds:g} s of processor "
            "time (`--budget`); no other shape is taken for that"
        )
    if finding.verdict is not Verdict.VERIFIED:
        reported = "; ".join(f"{item.code}: {item.headline}" for item in finding.diagnostics[:2])
        raise NotVerified(f"{finding.verdict}{': ' if reported else ''}{reported}")
    return finding
