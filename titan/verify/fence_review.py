"""The purpose of each fence of a kernel, which are redundant, and which pairs of accesses lack one.

Decided on the proxy-effect graphs of all sizes that were run. A fence is wasted if every pair stays
justified without it (`TTN306`), and too strong if a form for fewer spaces would do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.engines.fences.cost import costs
from titan.engines.fences.demands import Choice, Demand, Demands
from titan.engines.fences.justify import Unjustified, describe, satisfied
from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.foundation.source.span import Span
from titan.sync import program as ir
from titan.sync.fault import FaultKind
from titan.verify.fence_runs import (
    Loaded,
    Runs,
    far_agents,
    fences_in,
    has_fences,
    line_of,
    run_all,
)
from titan.verify.fence_text import WORD_OF
from titan.verify.vacuity import written_fences

NARROWER: tuple[tuple[ir.Space, ...], ...] = ((ir.Space.GLOBAL,), (ir.Space.SHARED,))
PURPOSES_MAX = 4
WARNING_STEPS = 20_000


@dataclass(slots=True)
class ReviewedFence:
    """One fence of the text, or one that lowering adds (`added`)."""

    line: int
    kind: ir.FenceKind
    spaces: tuple[ir.Space, ...]
    added: bool
    span: Span | None
    executions: int = 0
    cost: int = 0
    purposes: list[str] = field(default_factory=list)
    state: str = "needed"
    saving: int = 0
    enough: tuple[ir.Space, ...] = ()

    @property
    def text(self) -> str:
        """The fence as the kernel's text writes it, its spaces if it names any."""
        names = ", ".join(space.value for space in self.spaces)
        return f"fence: {WORD_OF[self.kind]}" + (f", spaces: [{names}]" if names else "")


@dataclass(slots=True)
class Review:
    """`reason`: why the runs do not represent all interleavings; empty if they do."""

    fences: list[ReviewedFence]
    missing: list[Unjustified]
    cost: int
    demands: int
    reason: str
    path: str

    @property
    def wasted(self) -> list[ReviewedFence]:
        """The fences found redundant or too strong."""
        return [item for item in self.fences if item.state != "needed"]

    def diagnostics(self, *, strong: bool = True) -> list[Diagnostic]:
        """Errors for what is missing, warnings for what is wasted (or, if `strong`, too strong)."""
        found = [_missing_diagnostic(item) for item in self.missing]
        for item in self.wasted:
            if item.added or (item.state == "too strong" and not strong):
                continue
            found.append(_wasted_diagnostic(item))
        return found


def review(loaded: Loaded) -> Review:
    """Judge the fences of a kernel as written."""
    first = loaded.kernels[0]
    runs = run_all(loaded.programs)
    return _Reviewer(loaded.programs, first.target, first.path, runs).review()


def redundant_fences(target: str, path: str, program: ir.SyncProgram) -> list[Diagnostic]:
    """Warnings on fences of the text that a verified program does not need (`TTN306`).

    Nothing is reported where one run does not represent all, or where the runs are too long.
    """
    if not has_fences(target) or not written_fences(program):
        return []
    runs = run_all((program,), steps=WARNING_STEPS)
    found = _Reviewer((program,), target, path, runs).review()
    return [] if found.reason or found.missing else found.diagnostics(strong=False)


class _Reviewer:
    def __init__(
        self, programs: tuple[ir.SyncProgram, ...], target: str, path: str, runs: Runs
    ) -> None:
        self._programs = programs
        self._path = path
        self._runs = runs
        self._table = costs(target)
        self._lines: dict[Choice, ReviewedFence] = {}
        self._narrow_cost: dict[Choice, int] = {}
        self._pairs: list[tuple[Demand, int]] = []

    def _own(self, fence: ir.Fence) -> Choice:
        line = line_of(fence)
        return Choice((line, "" if line else id(fence)), fence.kind, fence.spaces)

    def _choices(self, fence: ir.Fence) -> tuple[Choice, ...]:
        """The fence itself, and the same with fewer spaces."""
        own = self._own(fence)
        if fence.kind is not ir.FenceKind.ASYNC:
            return (own,)
        fewer = [s for s in NARROWER if not fence.spaces or set(s) < set(fence.spaces)]
        return (own, *(Choice(own.point, own.kind, spaces) for spaces in fewer))

    def review(self) -> Review:
        self._price()
        for number, (_, recording) in enumerate(self._runs.recordings):
            self._pairs += [(item, number) for item in Demands(recording, self._choices).all()]
        existing = frozenset(self._lines)
        missing = self._missing(existing)
        self._purposes(existing)
        self._wasted(existing)
        fences = sorted(self._lines.values(), key=lambda item: (item.line, item.kind.value))
        cost = sum(item.cost for item in fences)
        pairs, reason = len(self._pairs), self._runs.reason
        return Review(fences, missing, cost, pairs, reason, self._path)

    def _price(self) -> None:
        for _, recording in self._runs.recordings:
            for _, fence in fences_in(recording.graph, recording.fences):
                line = ReviewedFence(
                    line_of(fence), fence.kind, fence.spaces, bool(fence.label), fence.span
                )
                self._lines.setdefault(self._own(fence), line)
        for recording in self._runs.largest:
            far = far_agents(recording)
            for agent, fence in fences_in(recording.graph, recording.fences):
                item = self._lines[self._own(fence)]
                item.executions += 1
                item.cost += self._table.form(fence.kind, fence.spaces, agent in far).weight
                for choice in self._choices(fence)[1:]:
                    weight = self._table.form(choice.kind, choice.spaces, agent in far).weight
                    self._narrow_cost[choice] = self._narrow_cost.get(choice, 0) + weight

    def _missing(self, existing: frozenset[Choice]) -> list[Unjustified]:
        found: dict[tuple[FaultKind, str, tuple[str, ...]], Unjustified] = {}
        for demand, number in self._pairs:
            if satisfied(demand, existing):
                continue
            kernel, recording = self._runs.recordings[number]
            policies = self._programs[kernel].policies
            item = describe(recording.graph, demand, policies)
            spans = tuple(str(one.span if one else None) for one in item.operations)
            found.setdefault((item.kind, item.place[0], spans), item)
        return list(found.values())

    def _purposes(self, existing: frozenset[Choice]) -> None:
        """The pairs that each fence helps to justify, as lines of the text."""
        for demand, number in self._pairs:
            helping = {
                choice
                for alternative in demand.alternatives
                if alternative.needed <= existing
                for choice in alternative.needed
            }
            if not helping:
                continue
            graph = self._runs.recordings[number][1].graph
            ends = []
            for node in (demand.first, demand.second):
                instance = graph.nodes[node].instance
                span = instance.operation.span if instance else None
                ends.append(f"line {span.start_line}" if span else "a tool")
            text = f"{demand.place[0]}: {_WHAT[demand.kind.value]} ({ends[0]} to {ends[1]})"
            for choice in helping:
                if text not in self._lines[choice].purposes:
                    self._lines[choice].purposes.append(text)

    def _wasted(self, existing: frozenset[Choice]) -> None:
        """Take out what can go, dearest first; then narrow what can be narrowed."""
        held = [demand for demand, _ in self._pairs if satisfied(demand, existing)]
        order = sorted(
            self._lines,
            key=lambda choice: (-self._lines[choice].cost, not self._lines[choice].added,
                                -self._lines[choice].line),
        )  # fmt: skip
        left = existing
        for choice in order:
            fewer = left - {choice}
            if all(satisfied(demand, fewer) for demand in held):
                item = self._lines[choice]
                item.state, item.saving = "redundant", item.cost
                left = fewer
        for choice in order:
            if choice not in left or choice.kind is not ir.FenceKind.ASYNC:
                continue
            item = self._lines[choice]
            for spaces in NARROWER:
                narrow = Choice(choice.point, choice.kind, spaces)
                saving = item.cost - self._narrow_cost.get(narrow, item.cost)
                other = left - {choice} | {narrow}
                if saving > 0 and all(satisfied(demand, other) for demand in held):
                    item.state, item.saving, item.enough = "too strong", saving, spaces
                    left = other
                    break


_WHAT = {
    "TTN301": "generic write, then asynchronous access",
    "TTN302": "generic read, then asynchronous write",
    "TTN303": "initialisation, then use by an engine or another CTA",
    "TTN304": "write of the tensor map, then its use",
    "TTN307": "accesses of which one goes through a cached proxy",
}


def _missing_diagnostic(item: Unjustified) -> Diagnostic:
    first, second = (operation.span if operation else None for operation in item.operations)
    others = (Annotation(first, "the first access"),) if first else ()
    return diagnostic(
        item.kind.value,
        f"{item.missing}: {item.second} follows {item.first}",
        second,
        "the second access",
        others=others,
        notes=(f"path: {item.path}",),
    )


def _wasted_diagnostic(item: ReviewedFence) -> Diagnostic:
    times = f"executed {item.executions} times at the largest size that was run"
    if item.state == "redundant":
        return diagnostic(
            "TTN306",
            "a fence that no pair of accesses needs",
            item.span,
            f"saves {item.saving} of cost",
            notes=(times,),
            helps=("remove it",),
        )
    names = ", ".join(space.value for space in item.enough)
    return diagnostic(
        "TTN306",
        "a fence for more spaces than any pair of accesses needs",
        item.span,
        f"saves {item.saving} of {item.cost}",
        notes=(times,),
        helps=(f"write `spaces: [{names}]`",),
    )
