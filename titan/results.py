"""The results of `titan.verify`, `schedule`, `build` and `litmus`: data, text, HTML for notebooks.

Each class wraps the engine's own result, which stays accessible, and renders only on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, overload

from titan.foundation.diagnostics.model import Diagnostic
from titan.foundation.errors import UserError
from titan.foundation.verdict import Verdict

if TYPE_CHECKING:
    from titan.litmus.decide import LitmusDecision
    from titan.package.produce import Produced
    from titan.scheduling.model import Schedule
    from titan.scheduling.run import ScheduleRun
    from titan.verify.model import Finding


class InputError(UserError):
    """The input is invalid; `diagnostics` and the message say what is wrong and where."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        from titan.foundation.diagnostics.render import render

        super().__init__("\n" + render("text", diagnostics))
        self.diagnostics = tuple(diagnostics)


@dataclass(frozen=True, slots=True)
class Findings(Sequence["Finding"]):
    """The verdicts on the kernels of an input: one for each choice of its sizes."""

    items: tuple[Finding, ...]

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    @property
    def verdict(self) -> Verdict:
        """The worst of the verdicts, by which the command chooses its exit code."""
        from titan.foundation.verdict import worst

        code = worst(item.exit_code for item in self.items)
        return next(item.verdict for item in self.items if item.exit_code == code)

    @property
    def verified(self) -> bool:
        """Whether every kernel is verified."""
        return all(item.verdict is Verdict.VERIFIED for item in self.items)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """All diagnostics, the counterexamples first."""
        from titan.report.findings import diagnostics_of

        return [found for item in self.items for found in diagnostics_of(item)]

    def __str__(self) -> str:
        from titan.report.findings import render

        return render(self.items, "text")

    def json(self) -> str:
        """The findings as `titan verify --format json` writes them."""
        from titan.report.findings import as_json

        return as_json(self.items)

    def html(self) -> str:
        """A page with the counterexamples, as `titan verify --html` writes it."""
        from titan.report.verdict_page import page

        return page(self.items)

    def perfetto(self) -> str:
        """The counterexamples as a trace for Perfetto."""
        from titan.report.verdict_trace import trace

        return trace(self.items)

    def _repr_html_(self) -> str:
        from titan.report.verdict_page import fragment

        return "".join(map(fragment, self.items))


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A schedule with what is proved of it; `run` holds everything."""

    run: ScheduleRun

    @property
    def schedule(self) -> Schedule | None:
        """The schedule in the cycles of the loop, checked; None where none was found."""
        return self.run.schedule

    @property
    def ii(self) -> int | None:
        """The initiation interval in cycles."""
        return self.run.schedule.ii if self.run.schedule is not None else None

    @property
    def proved(self) -> bool:
        """Whether no smaller interval has a schedule of any length."""
        return self.run.proved

    def __str__(self) -> str:
        from titan.report.schedule_text import render

        return render(self.run)

    def svg(self) -> str:
        """A picture of the schedule. Raises ValueError where there is none."""
        from titan.report.schedule_html import svg

        if self.run.schedule is None:
            raise ValueError("there is no schedule to draw")
        return svg(self.run.loop, self.run.schedule)

    def _repr_html_(self) -> str:
        picture = self.svg() if self.run.schedule is not None else ""
        return f"<div>{picture}<pre>{escape(str(self))}</pre></div>"


@dataclass(frozen=True, slots=True)
class Package:
    """A package that was built, verified and written."""

    path: str
    produced: Produced

    @property
    def folder(self) -> Path:
        """The folder of the package."""
        return self.produced.folder

    @property
    def finding(self) -> Finding:
        """The verdict on its pipeline."""
        return self.produced.built.finding

    @property
    def pipeline(self) -> str:
        """Its pipeline as a kernel file."""
        return (self.folder / "pipeline.yaml").read_text(encoding="utf-8")

    def __str__(self) -> str:
        from titan.package.summary import as_text

        return as_text(self.path, self.produced)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True)
class LitmusResult:
    """What the memory model says of a litmus test; `decision` holds everything."""

    decision: LitmusDecision

    @property
    def allowed(self) -> bool | None:
        """Whether the outcome is allowed; None if undecided."""
        return self.decision.allowed

    @property
    def holds(self) -> bool | None:
        """Whether the condition of the test holds; None if undecided."""
        return self.decision.holds

    @property
    def verdict(self) -> str:
        """`Allowed`, `Forbidden`, `Forbidden (bounded)` or `Undecided`."""
        return self.decision.verdict

    def __str__(self) -> str:
        from titan.litmus.report import format_decision, format_execution

        text = format_decision(self.decision, None, None)
        if self.decision.witness is not None:
            text += "\n" + format_execution(self.decision.witness)
        return text

    def svg(self) -> str:
        """The execution that shows Allowed. Raises ValueError where there is none."""
        from titan.litmus.graph import to_svg

        if self.decision.witness is None:
            raise ValueError("there is no execution to draw")
        return to_svg(self.decision.witness, self.decision.test.name)

    def _repr_html_(self) -> str:
        picture = self.svg() if self.decision.witness is not None else ""
        return f"<div><pre>{escape(str(self))}</pre>{picture}</div>"
