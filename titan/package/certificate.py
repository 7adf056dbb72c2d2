"""The certificate of a package: what was built, on which evidence, and the digest of every file.

Fields are of two kinds. What follows from the files (digests, schedule, bound, scope, policies) is
derived again by `check.py`. What cannot be derived without searching again is a statement: why
earlier candidates were refused, evidence other than a bound, versions of tools. Both are under
`digest`, the hash of the certificate itself. Nothing depends on time, host or path; of the engines
only the one that decided the scope is named, since whether another one finishes in time depends on
the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from titan.foundation.verdict import Verdict
from titan.package import canonical, contents
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.model import Evidence, Schedule
from titan.scheduling.store import digest as loop_digest
from titan.sync.program import SyncProgram
from titan.verify.model import Coverage, Finding

if TYPE_CHECKING:
    from titan.codegen.pipeline.model import Built, Shape
    from titan.scheduling.loop.model import Loop

FORMAT = "1"
SOLVERS = ("z3-solver", "python-sat")
ANY = "any"
# What shapes did not have when the first certificates were written.
LATER = ("unified", "poison", "sliced", "staged", "pair")


def certificate(built: Built, files: Mapping[str, bytes]) -> dict[str, object]:
    """The certificate over `files`, which are all files of the package but itself."""
    assert built.result.schedule is not None
    data: dict[str, object] = {
        "titan": FORMAT,
        "certificate": built.tile.name,
        "target": built.tile.target,
        "files": digests(files),
        "loop_digest": loop_digest(built.loop),
        "schedule": schedule_section(built.loop, built.result.schedule, built.result.evidence),
        "pipeline": {
            "kernel": built.kernel.name,
            "sync_program": canonical.digest(built.program),
            "shape": shape_data(built.shape),
            "candidates": [
                {"shape": shape_data(step.shape), "taken": step.taken, "reason": step.reason}
                for step in built.steps
            ],
        },
        "verification": verification_section(built.finding),
        "tools": versions(),
    }
    return sealed(data)


def sealed(data: dict[str, object]) -> dict[str, object]:
    """The certificate with the digest of all its other fields."""
    body = {key: value for key, value in data.items() if key != "digest"}
    return {**body, "digest": contents.sha256(contents.to_json(body))}


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """The SHA-256 of every file, by name."""
    return {name: contents.sha256(files[name]) for name in sorted(files)}


def schedule_section(loop: Loop, schedule: Schedule, evidence: Evidence) -> dict[str, object]:
    """`bound` is what plain arithmetic gives, `lower_bound` what the evidence claims."""
    return {
        "ii": schedule.ii,
        "length": schedule.length(loop),
        "stages": schedule.stages(loop),
        "bound": bounds(loop).ii,
        "lower_bound": evidence.lower_bound,
        "evidence": evidence.kind,
        "complete": evidence.complete,
    }


def verification_section(finding: Finding) -> dict[str, object]:
    """The verdict, who decided it, for which sizes, and under which policies."""
    return {
        "verdict": str(finding.verdict),
        "engine": deciding_engine(finding),
        "scope": scope(finding.coverage),
        "policies": dict(finding.coverage.policies),
    }


def scope(coverage: Coverage) -> dict[str, object]:
    """Sizes, parameters, agents and CTAs that the verdict covers."""
    minimums = dict(coverage.minimums)
    turns = {name: last for name, _, last in coverage.turns}
    return {
        "sizes": dict(coverage.sizes),
        "parameters": {
            name: {
                "values": ANY if values is None else list(values),
                "minimum": minimums.get(name, 0),
                **_turns(values, turns.get(name)),
            }
            for name, values in coverage.parameters
        },
        "roles": {
            name: {"agents": agents, "threads": threads} for name, agents, threads in coverage.roles
        },
        "ctas": coverage.ctas,
    }


def _turns(values: tuple[int, ...] | None, last: int | None) -> dict[str, list[int]]:
    """Of a size with a number for each round, whose numbers are listed: those tried in turn."""
    if values is None or last is None:
        return {}
    return {"turns": [value for value in values if value <= last]}


def deciding_engine(finding: Finding) -> str:
    """The first engine that verified exactly the values that the verdict covers."""
    from titan.verify.judge import decides

    program: SyncProgram | None = finding.program
    covered = dict(finding.coverage.parameters)
    for report in finding.engines:
        matches = all(covered.get(name) == values for name, values in report.sizes)
        if program is not None and not decides(report, program):
            continue
        if report.engine != "typestate" and report.verdict is Verdict.VERIFIED and matches:
            return report.engine
    return ""


def versions() -> dict[str, str]:
    """Versions of titan and of the solvers that may have searched; nothing else of the machine."""
    from importlib.metadata import PackageNotFoundError, version

    from titan.foundation.version import __version__

    found = {"titan": __version__}
    for package in SOLVERS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def shape_data(shape: Shape) -> dict[str, object]:
    """A shape as data; what was added to shapes later is written only where it is used."""
    return {name: value for name, value in asdict(shape).items() if value or name not in LATER}
