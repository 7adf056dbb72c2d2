"""From a file of code to a lifted kernel file, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.span import Span, whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.lift.launched import LaunchedCode, LaunchedPtx
from titan.frontends.lift.launches import lift_cluster, write_given
from titan.frontends.lift.lifted import LiftedKernel, numbers_text
from titan.frontends.ptx.launch import completed
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.sweep import drivers_of
from titan.frontends.verify_code import CodeOptions, read_code


@dataclass(frozen=True, slots=True)
class LiftResult:
    """A kernel file, or why there is none: REFUSED for bad input, or UNDECIDED.

    VERIFIED says that the file is what the launches do, and nothing of whether that is right.
    """

    verdict: Verdict
    lifted: LiftedKernel | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()


def lift_file(path: str, options: CodeOptions) -> LiftResult:
    """The kernel file of the one kernel of a file that the options name."""
    read = read_code(path, options)
    if read.diagnostics:
        return LiftResult(Verdict.REFUSED, diagnostics=tuple(read.diagnostics))
    place = whole_file(path)
    if len(read.kernels) > 1:
        return refusal_of_choice([item.function.name for item in read.kernels], place)
    code = read.kernels[0]
    launch, errors, filled = completed(read.description, code.function, place)
    if launch is None:
        return LiftResult(Verdict.REFUSED, diagnostics=tuple(errors))
    cta = (options.ctas or (0,))[0]
    if cta >= launch.ctas:
        item = diagnostic("TTN009", f"the launch has {launch.ctas} CTAs, and no {cta}", place)
        return LiftResult(Verdict.REFUSED, diagnostics=(item,))
    places = CodePlaces(code.module, code.source)
    launched = LaunchedPtx(code, launch, places, options.policies, options.steps_max)
    return lifted_of(launched, launch.cluster_members(cta)[0], [*read.notes, *filled])


def refusal_of_choice(names: Sequence[str], place: Span) -> LiftResult:
    """The refusal of a file with several kernels, of which none is named."""
    shown = ", ".join(names[:8])
    item = diagnostic("TTN010", f"the module has {len(names)} entries: {shown}", place)
    return LiftResult(Verdict.REFUSED, diagnostics=(item,))


def lifted_of(launched: LaunchedCode, cta: int, notes: list[str]) -> LiftResult:
    """Along the first integer that drives loops and whose loops can be folded."""
    drivers, found, unknown = drivers_of(launched.runner, launched.function, launched.launch)
    if not drivers:
        # No number of trips that could be another, or a run that does not get to them.
        lifted, reason = write_given(launched, cta)
        if lifted is not None:
            notes += [*(unknown or found), "the file models this launch alone"]
            return LiftResult(Verdict.VERIFIED, lifted, (), tuple(notes))
        unknown = [reason]
    notes += unknown
    for driver in drivers:
        lift = lift_cluster(launched, driver, cta)
        if lift.lifted is None:
            notes.append(f"not lifted along {driver}: {lift.reason}")
            continue
        lifted = lift.lifted
        notes.append(
            f"lifted along {driver}, {driver.unit} a trip, from {lifted.minimum} trips "
            f"upwards; folded from launches of {numbers_text(lifted.used)} trips, compared with "
            f"those of {numbers_text(lifted.compared)}"
        )
        for trial in lift.trials:
            if trial.verdict is Verdict.REFUTED and trial.diagnostics:
                headline = trial.diagnostics[0].headline
                notes.append(f"{trial.label} is refuted by itself: {headline}")
                break
        return LiftResult(Verdict.VERIFIED, lifted, (), tuple(notes))
    return LiftResult(Verdict.UNDECIDED, None, (), tuple(notes))
