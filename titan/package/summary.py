"""The report of a build: one block of text or one JSON object for each package."""

from __future__ import annotations

from titan.codegen.pipeline.model import Built, TriedCandidate
from titan.codegen.tile.manifest import Manifest
from titan.package.explain import Explanation
from titan.package.explain import as_data as explained_data
from titan.package.explain import rows as explained_rows
from titan.package.produce import Produced
from titan.report.findings import parameters_text


def as_text(
    path: str, produced: Produced, explanation: Explanation | None = None, timings: bool = False
) -> str:
    """What was built, from what, for which scope, and which candidates were refused.

    With `timings` the processor time too.
    """
    built = produced.built
    rows = [
        ("schedule", schedule_words(built)),
        ("pipeline", f"{built.shape.name}; {roles_words(built)}"),
        ("verified", scope_words(built)),
        ("resources", resource_words(produced.emitted.manifest)),
        ("compiled", compiled_words(produced)),
        *((("loop", produced.loops),) if produced.figures is not None else ()),
        *(("not taken", f"{step.shape.name}: {step.reason}") for step in refused(built.steps)),
        *(("sizes", words) for words in produced.sizes),
        *(explained_rows(explanation) if explanation is not None else ()),
        ("certified", produced.proof),
        ("package", str(produced.folder)),
        *((("time", f"{built.seconds:.2f} s"),) if timings else ()),
    ]
    head = f"BUILT {built.tile.name} ({path}) for {built.tile.target}"
    return "\n".join([head, *(f"  {name:<10}{text}" for name, text in rows)]) + "\n"


def as_data(
    path: str, produced: Produced, explanation: Explanation | None = None, timings: bool = False
) -> dict[str, object]:
    """The same as data."""
    built = produced.built
    schedule = built.result.schedule
    return {
        "path": path,
        "kernel": built.tile.name,
        "target": built.tile.target,
        "folder": str(produced.folder),
        "depth": built.shape.depth,
        "shape": built.shape.name,
        **({"sizes": list(produced.sizes)} if produced.sizes else {}),
        "ii": schedule.ii if schedule is not None else None,
        "lower_bound": built.result.evidence.lower_bound,
        "evidence": built.result.evidence.kind,
        "cached": built.result.cached,
        "scope": scope_words(built),
        "resources": produced.emitted.manifest["resources"],
        "registers": produced.figures.registers if produced.figures else None,
        "spill_bytes": produced.figures.spill_bytes if produced.figures else None,
        "compared": produced.compared,
        "loop": produced.loops,
        "certified": produced.proof,
        "refused": [{"shape": s.shape.name, "reason": s.reason} for s in refused(built.steps)],
        **({"seconds": round(built.seconds, 3)} if timings else {}),
        **({"explanation": explained_data(explanation)} if explanation is not None else {}),
    }


def refused(steps: tuple[TriedCandidate, ...]) -> tuple[TriedCandidate, ...]:
    """The candidates that were not taken."""
    return tuple(step for step in steps if not step.taken)


def schedule_words(built: Built) -> str:
    """The initiation interval, and what proves it."""
    result = built.result
    assert result.schedule is not None
    ii = result.schedule.ii
    gap = result.gap or 0
    proof = "proved" if result.proved and not gap else f"at most {gap} cycles above the optimum"
    cached = ", from the cache" if result.cached else ""
    return f"initiation interval {ii} cycles, {proof} ({result.evidence.detail}){cached}"


def roles_words(built: Built) -> str:
    """The roles with their agents and threads."""
    roles = built.program.roles
    return ", ".join(f"{role.agents} x {role.name} ({role.threads} threads)" for role in roles)


def scope_words(built: Built) -> str:
    """The number of tiles that the verdict covers: the widest that an engine has done."""
    return f"all interleavings; {parameters_text(built.finding.coverage)}"


def resource_words(manifest: Manifest) -> str:
    """The resources of the manifest, each by its name."""
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in manifest["resources"].items()
    )


def compiled_words(produced: Produced) -> str:
    """What the toolchain reported, or why it was not asked."""
    figures = produced.figures
    if figures is None:
        return f"no: {produced.uncompiled}"
    return (
        f"{figures.registers} registers at entry, no spills, no remarks; "
        f"compared with the sync program: {produced.compared}"
    )
