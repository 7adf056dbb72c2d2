"""What the machine of waves itself saw go wrong in a run, as diagnostics.

Each of these happened in the run that was made, whatever the interleaving.
"""

from __future__ import annotations

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.foundation.diagnostics.wording import counted
from titan.frontends.gcn.code import AssemblyCode
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.rendering import with_sources
from titan.isa.simt.events import Event
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.outcome import Ending, Run
from titan.isa.waves.events import (
    EndsSignalled,
    LanesDiffer,
    MisalignedAtomic,
    OutsideLds,
    OutsidePrivate,
    PendingRegister,
    WaitStatesMissing,
    WaveSignal,
    WaveSignalWait,
)

FAULTS_MAX = 8
IN_FLIGHT = "{register} is {verb} while the load into it is in flight"
READ = "va_vdst read"
# Of gfx1250, by what counts the instruction that uses the register.
IN_USE = {
    "xcnt": "{register} is {verb} while an access that reads it may begin again",
    "va_vdst": "{register} is {verb} while the vector unit has not written it",
    READ: "{register} is {verb} while a vector instruction may still read it",
    "vm_vsrc": "{register} is {verb} while a memory instruction has not read it",
}


# Wait states that LLVM and the manuals ask for, and AMD's hand-written kernels leave out.
SHIPPED = (
    "a scalar register is used that the vector unit wrote",
    "M0 is used that the scalar unit wrote",
)
SHIPPED_STATES_MAX = 2
SHIPPED_HELP = (
    "kernels that AMD ships in machine code leave this out everywhere: where yours is one of them, "
    "`--policy scalar_states=allow` takes it as they do",
)


def policies_allow(counter: str, policies: CodePolicies) -> bool:
    """Whether it is taken for harmless that the register of such an instruction is overwritten."""
    return (counter == "xcnt" and policies.replay == "allow") or (
        counter == READ and policies.vector_reads == "allow"
    )


def wave_faults(run: Run, places: CodePlaces, policies: CodePolicies) -> list[Diagnostic]:
    """The faults, each kind once at an instruction, at most `FAULTS_MAX`."""
    found: dict[tuple[str, int], Diagnostic] = {}
    for event in run.events:
        item = _diagnosed(event, places, policies)
        if item is not None and (item.code, event.instruction) not in found:
            found[(item.code, event.instruction)] = with_sources(item, places)
            if len(found) == FAULTS_MAX:
                break
    return list(found.values())


def _diagnosed(event: Event, places: CodePlaces, policies: CodePolicies) -> Diagnostic | None:
    who = f"here, by wave {event.warp}"
    helps: tuple[str, ...] = ()
    match event:
        case PendingRegister(register=register, write=write, issued_at=at, counter=counter):
            if policies.register_ready == "allow":
                return None
            if policies_allow(counter, policies):
                return None
            verb = "written" if write else "read"
            counts = counter.split()[0]
            others = (Annotation(places.span(at), f"{counts} counts it from here on"),)
            headline = IN_USE.get(counter, IN_FLIGHT).format(register=register, verb=verb)
        case WaitStatesMissing():
            shipped = event.why in SHIPPED and event.needed <= SHIPPED_STATES_MAX
            if policies.register_ready == "allow" or (
                shipped and policies.scalar_states == "allow"
            ):
                return None
            helps = SHIPPED_HELP if shipped else ()
            headline = (
                f"{event.register} needs {counted(event.needed, 'wait state')} here, "
                f"and has {event.passed}"
            )
            others = (Annotation(places.span(event.first), "behind this instruction"),)
            who = f"{event.why} {who}"
        case LanesDiffer(footprint=footprint):
            if policies.lanes == "ordered":
                return None
            low, high = footprint.bounds
            space = "LDS" if footprint.space is MemorySpace.SHARED else "global memory"
            headline = (
                f"lanes of a wave write different values to {space}+{low:#x}..{high - 1:#x} "
                "with one instruction: which of them stays is open"
            )
            return diagnostic("TTN201", headline, places.span(event.instruction), who)
        case WaveSignal(again=True):
            headline = (
                "the wave arrives at the barrier of the work-group again, and has not waited for "
                "its last arrival"
            )
            return diagnostic("TTN210", headline, places.span(event.instruction), who)
        case WaveSignalWait(hangs=True):
            headline = (
                f"the wave waits for arrival {event.generation + 1} of every wave at the barrier "
                "of the work-group, and not all arrive so often"
            )
            return diagnostic("TTN205", headline, places.span(event.instruction), who)
        case EndsSignalled():
            headline = "the wave ends behind its arrival at the barrier, and has not waited"
            return diagnostic("TTN210", headline, places.span(event.instruction), who)
        case OutsideLds(footprint=footprint, size_bytes=size):
            low, high = footprint.bounds
            headline = f"LDS+{low:#x}..{high - 1:#x} lies beyond the {size} bytes of the work-group"
            return diagnostic("TTN218", headline, places.span(event.instruction), who)
        case MisalignedAtomic():
            return _misaligned(event, places, who)
        case OutsidePrivate(start=start, count=count, size_bytes=size):
            headline = (
                f"private memory+{start:#x}..{start + count - 1:#x} lies beyond the {size} bytes "
                "of a lane"
            )
            return diagnostic("TTN218", headline, places.span(event.instruction), who)
        case _:
            return None
    place = places.span(event.instruction)
    return diagnostic("TTN217", headline, place, who, others=others, helps=helps)


def _misaligned(event: MisalignedAtomic, places: CodePlaces, who: str) -> Diagnostic:
    low, _ = event.footprint.bounds
    space = "LDS" if event.footprint.space is MemorySpace.SHARED else "global memory"
    place, size = f"{space}+{low:#x}", event.size_bytes
    headline = f"an atomic of {size} bytes at {place}, which is not a multiple of them"
    return diagnostic("TTN219", headline, places.span(event.instruction), who)


def missing_argument(run: Run, code: AssemblyCode, places: CodePlaces) -> Diagnostic | None:
    """The question for an argument that the run depends on and the launch does not give."""
    outcome = run.outcome
    if outcome.ending is not Ending.REFUSED or outcome.map_offset < 0:
        return None
    at = outcome.map_offset
    number = 0
    for argument in code.kernel.arguments or ():
        if argument.offset <= at < argument.offset + argument.size_bytes:
            if argument.hidden:
                return None
            headline = (
                f"the launch lacks parameter {number} ({argument.name}), "
                f"{argument.size_bytes} bytes at offset {argument.offset}"
            )
            others: tuple[Annotation, ...] = ()
            if outcome.origin >= 0:
                others = (Annotation(places.span(outcome.origin), "it is read here"),)
            place = places.span(outcome.site)
            return diagnostic("TTN018", headline, place, outcome.reason, others=others)
        number += not argument.hidden
    return None
