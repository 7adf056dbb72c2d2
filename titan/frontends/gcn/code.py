"""One kernel of AMD assembly as launches and machines take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from titan.foundation.collector import uncollected
from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.errors import UserError
from titan.foundation.extras import brought_by
from titan.foundation.source.span import Source, Span
from titan.frontends.gcn.depth import lds_depth
from titan.frontends.ptx.launch import LaunchDescription, completed
from titan.isa.gcn.module import AssemblyFile, AssemblyKernel
from titan.isa.gcn.names_gfx1250 import TARGET as GFX1250
from titan.isa.ptx.module import Function, StateSpace, Variable
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Run

if TYPE_CHECKING:
    from titan.isa.waves.decided_ways import DecidedWays
    from titan.isa.waves.machine import WaveMachine
    from titan.isa.waves.wait_states import ClosePair

Prepared = TypeVar("Prepared")

LDS_BYTES = {
    "gfx950": 163_840,
    "gfx1250": 327_680,
}  # of a work-group; the other targets have LDS_BYTES_OF_OTHERS
LDS_BYTES_OF_OTHERS = 65_536
TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1250")
_TYPES = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}


@dataclass(frozen=True, slots=True)
class AssemblyCode:
    """A kernel to be launched; `source` is the text of `assembly`."""

    assembly: AssemblyFile
    source: Source
    kernel: AssemblyKernel

    @property
    def function(self) -> Function:
        """The kernel as launch descriptions see one: its parameters, and limits of the block."""
        arguments = self.kernel.arguments or ()
        parameters = tuple(
            Variable(
                item.name, StateSpace.PARAMETER, _TYPES.get(item.size_bytes, "b8"),
                item.size_bytes, 1, offset=item.offset,
            )
            for item in arguments
            if not item.hidden
        )  # fmt: skip
        static = self.kernel.settings.get("group_segment_fixed_size", 0)
        lds = Variable("LDS", StateSpace.SHARED, "b8", static, 16)
        limits: dict[str, tuple[int, ...]] = {}
        if self.kernel.threads is not None:
            limits["reqntid"] = self.kernel.threads
        if self.kernel.threads_max is not None:
            limits["maxntid"] = (self.kernel.threads_max, 1, 1)
        return Function(self.kernel.name, True, parameters, (), (), (lds,), 0, 0, limits)


def launched(
    code: AssemblyCode, described: LaunchDescription | None, place: Span
) -> tuple[Launch | None, list[Diagnostic], list[str]]:
    """The launch of a kernel, what is wrong or missing, and notes on what was filled in."""
    described = described or LaunchDescription(place)
    notes: list[str] = []
    block = code.kernel.threads
    if described.block is None and block is None and code.kernel.threads_max is not None:
        block = (code.kernel.threads_max, 1, 1)
        notes.append(f"no block is given: {block[0]}x1x1 is used, the largest that is compiled for")
    if described.block is None:
        described = replace(described, block=block)
    if described.shared_bytes is None:
        static = code.kernel.settings.get("group_segment_fixed_size", 0)
        limit = LDS_BYTES.get(code.assembly.target, LDS_BYTES_OF_OTHERS)
        described = replace(described, shared_bytes=max(0, limit - static))
        notes.append(f"no bytes of LDS are given: the {limit} of {code.assembly.target} are used")
    launch, errors, more = completed(described, code.function, place)
    if launch is not None and launch.cluster_size > 1:
        errors = [diagnostic("TTN017", "work-groups of AMD GPUs form no clusters", described.span)]
        launch = None
    return launch, errors, [*notes, *more]


def close_pairs_of(code: AssemblyCode) -> tuple[ClosePair, ...]:
    """The instructions that some path brings too close to each other; none without NumPy."""
    try:
        from titan.isa.waves.vector_states_gfx1250 import close_pairs_of_gfx1250
        from titan.isa.waves.wait_states import close_pairs
    except ImportError:
        return ()  # the run will ask for it
    if code.assembly.target == GFX1250:
        return close_pairs_of_gfx1250(code.assembly, code.kernel)
    return close_pairs(code.assembly, code.kernel)


@dataclass(frozen=True, slots=True)
class WaveRunner:
    """Runs work-groups of launches of one kernel. `steps_max` counts wave instructions.

    `close`: pairs of instructions to look out for, which may have too few wait states in between.
    `stalls`: whether an operation is issued only when its counter has room.
    """

    code: AssemblyCode
    steps_max: int
    close: tuple[ClosePair, ...] = ()
    stalls: bool = True

    @uncollected
    def run(self, launch: Launch, cta: int, seed: int = 0) -> tuple[Run | None, list[Diagnostic]]:
        """The run of a work-group. Raises UserError where NumPy is missing."""
        try:
            run, _ = self._made(launch, cta, lambda _: None)
        except ImportError:
            raise UserError(f"AMD assembly needs NumPy: {brought_by('run')}") from None
        return run, []

    def depth(self, base: Run, longer: Run) -> int:
        """Stages of the deepest ring in LDS that the longer run shows."""
        return lds_depth(longer)

    @uncollected
    def traced(self, launch: Launch, cta: int, unused: bool = False) -> Run:
        """The run of a work-group with marks of what lanes store, where they equal others. With
        `unused`, loads of which nothing is used read no memory."""
        from titan.isa.waves.lane_arms import ArmsValues
        from titan.isa.waves.used_loads import UsedLoads, without_unused

        def follow(machine: WaveMachine) -> UsedLoads | None:
            values = ArmsValues(machine.group)
            machine.numbering = machine.group.values = values
            loads = UsedLoads(machine.group) if unused else None
            machine.follower = loads
            return loads

        run, loads = self._made(launch, cta, follow)
        return run if loads is None else without_unused(run, loads)

    def ways(self, launch: Launch, cta: int) -> DecidedWays | None:
        """All ways that data may choose of a run that a condition on data has ended."""
        from titan.isa.waves.decided_ways import DecidingValues, decided_ways

        @uncollected
        def made(script: Sequence[bool]) -> tuple[Run, DecidingValues]:
            def follow(machine: WaveMachine) -> DecidingValues:
                values = DecidingValues(machine.group, script=script)
                machine.numbering = machine.group.values = machine.decider = values
                return values

            return self._made(launch, cta, follow)

        return decided_ways(launch, made)

    @uncollected
    def numbered(self, launch: Launch, cta: int) -> tuple[Run, dict[int, bytes]]:
        """The run of a work-group, and by event a number for what each global store writes."""
        from titan.isa.waves.numbering import Numbering

        def number(machine: WaveMachine) -> Numbering:
            machine.numbering = numbering = Numbering(machine.group)
            return numbering

        run, numbering = self._made(launch, cta, number)
        return run, numbering.stored

    def _made(
        self, launch: Launch, cta: int, prepare: Callable[[WaveMachine], Prepared]
    ) -> tuple[Run, Prepared]:
        """A run, and what was prepared for it. What the launch has in memory is followed but for
        what the work-group itself writes."""
        from titan.isa.waves.machine import WaveMachine

        left = None
        while True:
            assembly, kernel = self.code.assembly, self.code.kernel
            machine = WaveMachine(assembly, kernel, launch, cta, self.steps_max, self.close)
            machine.group.stalls = self.stalls
            if left is not None:
                machine.group.initial = left
            prepared = prepare(machine)
            run = machine.run()
            before, left = left, machine.group.unwritten()
            if left is None or before is not None:
                return run, prepared
