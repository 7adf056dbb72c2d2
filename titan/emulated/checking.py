"""Each launch before it runs: the checker's decision about all of its interleavings.

A launch is decided without the contents of memory first. A launch verified in this way holds for
all contents and is not decided again; where control depends on contents, the launch is decided with
the present ones. The first, the middle and the last cluster of a grid are decided, each by itself
(`titan/frontends/verify_code.py`).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from titan.emulated.faults import LaunchFault, refused
from titan.emulated.settings import CheckMode, EmulationSettings
from titan.emulated.source_lines import SourceLines
from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import chosen
from titan.frontends.verify_code import CodeOptions
from titan.isa.ptx.module import Function
from titan.isa.simt.launch import Launch, ModuleMemory
from titan.verify.model import Finding

LaunchKey = tuple[object, ...]


class LoadedCode(Protocol):
    """A module of PTX or of AMD's assembly, as a checker takes it."""

    @property
    def digest(self) -> str:
        """Names the text."""

    @property
    def lines(self) -> SourceLines:
        """The sources that it was compiled from."""

    def decided(self, function: Function, launch: Launch, options: CodeOptions) -> Finding:
        """The verdict on a launch of one of its kernels."""

    def variables(self, read: Callable[[int, int], bytes]) -> ModuleMemory | None:
        """What a launch gets of the variables that a program has loaded."""


@dataclass(slots=True)
class LaunchChecker:
    """Decides launches as the settings ask; `verdicts` counts what it found.

    `undecided` has the reason of each kernel's first launch that could not be decided.
    """

    settings: EmulationSettings
    options: CodeOptions = field(init=False)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    skipped: int = 0
    undecided: dict[str, str] = field(default_factory=dict)
    _seen: set[LaunchKey] = field(default_factory=set)
    _verified: set[LaunchKey] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.options = CodeOptions(policies=chosen(self.settings.policies))

    def check(
        self, loaded: LoadedCode, function: Function, launch: Launch,
        contents: Callable[[], Launch],
    ) -> Verdict | None:  # fmt: skip
        """Decide a launch that is given without memory; `contents` gives it with.

        Returns what was counted: VERIFIED or UNDECIDED, None for one that the settings leave out.
        Raises LaunchFault for one that is refuted, LaunchError for one that cannot be run; warns
        of one that is undecided, once for each kernel.
        """
        shape = (
            loaded.digest, function.name, launch.grid, launch.block, launch.cluster,
            launch.dynamic_shared_bytes, launch.module,
        )  # fmt: skip
        if self.settings.check is CheckMode.OFF or (
            self.settings.check is CheckMode.FIRST and shape in self._seen
        ):
            self.skipped += 1
            return None
        self._seen.add(shape)
        key = (*shape, launch.parameters, launch.allocations, tuple(launch.tensor_maps.items()))
        if key in self._verified:
            self.verdicts[Verdict.VERIFIED] += 1
            return Verdict.VERIFIED
        finding = loaded.decided(function, launch, self.options)
        if finding.verdict is Verdict.VERIFIED:
            self._verified.add(key)
        else:
            finding = loaded.decided(function, contents(), self.options)
        self.verdicts[finding.verdict] += 1
        shown = located(loaded, finding.diagnostics)
        if finding.verdict is Verdict.REFUTED:
            raise LaunchFault(f"the launch of {finding.kernel} is wrong", shown)
        if finding.verdict is Verdict.REFUSED:
            raise refused(f"the launch of {finding.kernel} cannot be checked", shown)
        if finding.verdict is not Verdict.VERIFIED:
            reason = next((note for note in finding.notes if note.startswith("undecided")), "")
            if finding.kernel not in self.undecided:
                self.undecided[finding.kernel] = reason
                warnings.warn(f"the launch of {finding.kernel} is {reason}", stacklevel=2)
        return finding.verdict

    def overrule(self, verdict: Verdict | None) -> None:
        """Count a launch as refuted that `check` gave this for: its run shows a fault."""
        if verdict is None:
            self.skipped -= 1
        else:
            self.verdicts[verdict] -= 1
        self.verdicts[Verdict.REFUTED] += 1

    def summary(self) -> str:
        """`3 launches verified, 1 undecided, 2 not checked`; empty if there was none."""
        counts = [
            (self.verdicts[Verdict.VERIFIED], "verified"),
            (self.verdicts[Verdict.REFUTED], "refuted"),
            (self.verdicts[Verdict.UNDECIDED], "undecided"),
            (self.verdicts[Verdict.REFUSED], "refused"),
            (self.skipped, "not checked"),
        ]
        found = [f"{count} {word}" for count, word in counts if count]
        return ", ".join(found)


def located(loaded: LoadedCode, findings: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics on a module at the lines of its sources."""
    return [loaded.lines.at_source(item) for item in findings]
