"""From a file of AMD assembly to a lifted kernel file."""

from __future__ import annotations

from titan.foundation.diagnostics.model import diagnostic
from titan.foundation.errors import UserError
from titan.foundation.source.span import whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code import WaveRunner, close_pairs_of, launched
from titan.frontends.gcn.launched import LaunchedWaves
from titan.frontends.gcn.verify import NOT_LIFTED, read_assembly
from titan.frontends.lift.command import LiftResult, lifted_of, refusal_of_choice
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.verify_code import CodeOptions
from titan.isa.gcn.names_gfx1250 import TARGET as GFX1250


def lift_assembly_file(path: str, options: CodeOptions) -> LiftResult:
    """The kernel file of the one kernel of a file that the options name."""
    read = read_assembly(path, options)
    if read.diagnostics:
        return LiftResult(Verdict.REFUSED, diagnostics=tuple(read.diagnostics))
    names = [code.kernel.name for code in read.kernels]
    place = whole_file(path)
    if len(names) > 1:
        return refusal_of_choice(names, place)
    code = read.kernels[0]
    if code.assembly.target == GFX1250:
        item = diagnostic("TTN010", NOT_LIFTED, place)
        return LiftResult(Verdict.REFUSED, diagnostics=(item,))
    launch, errors, filled = launched(code, read.description, place)
    group = (options.ctas or (0,))[0]
    if launch is not None and group >= launch.ctas:
        errors = [
            diagnostic("TTN009", f"the launch has {launch.ctas} work-groups, and no {group}", place)
        ]
    if launch is None or errors:
        return LiftResult(Verdict.REFUSED, diagnostics=tuple(errors))
    stalls = options.policies.counter_full == "stalls"
    runner = WaveRunner(code, options.steps_max, close_pairs_of(code), stalls)
    places = CodePlaces(code.assembly, code.source)
    waves = LaunchedWaves(code, launch, places, options.policies, runner)
    try:
        return lifted_of(waves, group, [*read.notes, *filled])
    except UserError as error:
        item = diagnostic("TTN002", str(error), place)
        return LiftResult(Verdict.REFUSED, diagnostics=(item,))
