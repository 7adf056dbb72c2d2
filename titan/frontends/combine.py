"""One finding from the trials of a kernel: the verdict, what it covers, and on what it rests."""

from __future__ import annotations

import time
from dataclasses import dataclass

from titan.foundation.verdict import Verdict
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.sweep import labels_text
from titan.frontends.ptx.trial import Trial
from titan.isa.simt.launch import Launch
from titan.verify.model import Coverage, EngineReport, Finding

DIAGNOSTICS_MAX = 8
ENGINE = "happens-before"


@dataclass(frozen=True, slots=True)
class JudgedKernel:
    """The kernel that a finding is on. `agent` is what runs it: "warp" or "wave"; `agents` of
    `threads` threads each take part in a run.
    """

    path: str
    name: str
    target: str
    agent: str
    agents: int
    threads: int


def combined(
    kernel: JudgedKernel,
    launches: list[tuple[str, Launch]],
    trials: list[Trial],
    policies: CodePolicies,
    started: float,
) -> Finding:
    """One verdict for all runs: refuted by one of them, verified by all, else undecided."""
    order = (Verdict.REFUSED, Verdict.REFUTED, Verdict.UNDECIDED)
    verdict = next(
        (item for item in order if any(trial.verdict is item for trial in trials)),
        Verdict.VERIFIED,
    )
    worst = next(trial for trial in trials if trial.verdict is verdict)
    launch = launches[0][1]
    covered = [trial for trial in trials if trial.verdict is Verdict.VERIFIED]
    coverage = Coverage(
        roles=((kernel.agent, kernel.agents, kernel.threads),),
        ctas=launch.cluster_size,
        policies=policies.as_text(),
        launches=_launch_texts(launch, covered),
    )
    operations = sum(trial.operations for trial in trials)
    instructions = sum(trial.instructions for trial in trials)
    seconds = time.process_time() - started
    remark = (
        f"{instructions:,} {kernel.agent} instructions, "
        f"{operations:,} operations of the sync program"
    )
    engines: tuple[EngineReport, ...] = (EngineReport(ENGINE, verdict, seconds, remark=remark),)
    if verdict is Verdict.REFUSED:
        engines = ()
    notes = []
    if verdict is Verdict.REFUTED:
        notes.append(f"found with {_run_text(worst)}")
    elif verdict is Verdict.UNDECIDED:
        notes.append(f"undecided with {_run_text(worst)}: {worst.reason}")
        notes += [f"suspected: {item.headline}" for item in worst.diagnostics[:1]]
    notes += _assumption_notes(trials)
    diagnostics = worst.diagnostics[:DIAGNOSTICS_MAX]
    if verdict is Verdict.UNDECIDED:
        diagnostics = ()
    return Finding(
        kernel.path,
        kernel.name,
        kernel.target,
        verdict,
        coverage,
        engines,
        diagnostics,
        tuple(notes),
        seconds,
    )


def _run_text(trial: Trial) -> str:
    return f"{trial.label}, CTA {trial.cta}".lstrip(", ")


def _launch_texts(launch: Launch, covered: list[Trial]) -> tuple[str, ...]:
    """`grid 8x4x1, block 256x1x1`, then what was run of each launch, each CTA by itself."""
    shape = [f"grid {_times(launch.grid)}", f"block {_times(launch.block)}"]
    if launch.cluster_size > 1:
        shape.append(f"cluster {_times(launch.cluster)}")
    runs: dict[str, list[str]] = {}
    for trial in covered:
        runs.setdefault(trial.label, []).append(trial.cta)
    alike: dict[str, list[str]] = {}  # labels by the CTAs that were run
    for label, ctas in runs.items():
        alike.setdefault(", ".join(dict.fromkeys(ctas)), []).append(label)
    return (
        ", ".join(shape),
        *(
            f"{label}: CTA {ctas}".lstrip(": ")
            for ctas, labels in alike.items()
            for label in labels_text(labels)
        ),
    )


def _times(extents: tuple[int, int, int]) -> str:
    return "x".join(map(str, extents))


def _assumption_notes(trials: list[Trial]) -> list[str]:
    """What the runs rest on, each once, with how often it was used."""
    found: dict[str, tuple[int, str]] = {}
    for trial in trials:
        for text, times, place in trial.assumptions:
            count, first = found.get(text, (0, place))
            found[text] = (count + times, first)
    return [
        f"assumed {count} time{'s' if count > 1 else ''}: {text} (first at {first})"
        for text, (count, first) in found.items()
    ]
