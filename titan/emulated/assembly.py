"""Launches of AMD's assembly on the emulated device: each work-group on the machine of waves.

Work-groups run one after the other, wave by wave from barrier to barrier: in this order a kernel
without races computes what it does in any other. Each launch is decided as `titan verify` does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from titan.emulated.checking import LoadedCode
from titan.emulated.faults import refused
from titan.emulated.machine import LaunchQueue, require_finished
from titan.emulated.modules import KeptTexts
from titan.emulated.source_lines import SourceLines
from titan.foundation.source.span import Source
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code import AssemblyCode
from titan.frontends.gcn.verify import verify_waves
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.verify_code import CodeOptions
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.module import AssemblyFile
from titan.isa.numbers.device import LaunchError
from titan.isa.numbers.run import Computed
from titan.isa.ptx.module import Function
from titan.isa.simt.launch import Launch, ModuleMemory
from titan.verify.model import Finding


@dataclass(frozen=True, slots=True)
class LoadedAssembly:
    """A file of assembly; `digest` names its text."""

    assembly: AssemblyFile
    source: Source
    places: CodePlaces
    lines: SourceLines
    digest: str

    def code(self, name: str) -> AssemblyCode:
        """The kernel of a name. Raises LaunchError."""
        for kernel in self.assembly.kernels:
            if kernel.name == name:
                return AssemblyCode(self.assembly, self.source, kernel)
        raise LaunchError(f"the assembly has no kernel {name}")

    def entry(self, name: str) -> Function:
        """It, as launches see one."""
        return self.code(name).function

    def decided(self, function: Function, launch: Launch, options: CodeOptions) -> Finding:
        """The verdict on a launch of a kernel.

        With memory the run follows what is there; where that leads nowhere, as in place, what is
        found without it counts.
        """
        code = self.code(function.name)
        found = verify_waves(code, launch, options, self.places)
        if launch.memory and found.verdict is Verdict.UNDECIDED:
            other = verify_waves(code, replace(launch, memory={}), options, self.places)
            return other if other.verdict is Verdict.REFUTED else found
        return found

    def variables(self, read: Callable[[int, int], bytes]) -> ModuleMemory | None:
        """Assembly has none that a launch is given."""


def _read(source: Source, digest: str) -> LoadedAssembly:
    assembly, findings = parse_assembly(source)
    if assembly is None:
        raise refused("the assembly cannot be read", findings)
    places = CodePlaces(assembly, source)
    return LoadedAssembly(assembly, source, places, SourceLines(places, "assembly"), digest)


_ASSEMBLIES = KeptTexts(_read)


def load_assembly(text: str, name: str = "kernel.s") -> LoadedAssembly:
    """The assembly of a text, parsed once. Raises LaunchError where it cannot be read."""
    return _ASSEMBLIES.load(text, name)


class AssemblyQueue(LaunchQueue):
    """Runs launches of assembly; the seed of the settings has no use here."""

    def computed(
        self, loaded: LoadedCode, launch: Launch, number: int
    ) -> tuple[Computed | None, dict[int, bytes]]:
        """One run, and the bytes that it leaves in each allocation. Raises LaunchError."""
        import numpy as np

        from titan.isa.waves.contents import Contents
        from titan.isa.waves.machine import WaveMachine

        if not isinstance(loaded, LoadedAssembly):
            raise LaunchError("the device runs assembly, and this is PTX")
        kernel = loaded.code(str(launch.entry)).kernel
        parts = {
            start: np.frombuffer(bytearray(data), np.uint8) for start, data in launch.memory.items()
        }
        contents = Contents(list(parts.items()))
        for group in range(launch.ctas):
            machine = WaveMachine(
                loaded.assembly, kernel, launch, group, self.settings.steps_max, contents=contents
            )
            outcome = machine.run().outcome
            self.instructions += machine.steps
            require_finished(outcome, f"the launch of {launch.entry}", loaded.lines)
        return None, {start: part.tobytes() for start, part in parts.items()}
