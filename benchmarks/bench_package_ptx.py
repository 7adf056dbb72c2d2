"""The packages that `titan build` writes for NVIDIA, verified as PTX: what nvcc made of each.

    python -m benchmarks.bench_package_ptx [--only TEXT] [--write]

`--only` takes the tile programs whose names contain the text; with `--write` the other rows stay.

Needs nvcc. Each tile program is built and emitted for each NVIDIA target that it names, compiled to
PTX, and judged like anybody's code for the launches of the translation check (fewer iterations than
stages, as many, more than two rounds). `--write` puts the table into docs/reference/real_code.md
and the rows into benchmarks/results/package_ptx.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

from benchmarks.real_code import RESULTS, Row, store, table_text, write
from titan.codegen.emit.write import EmissionRefused, emit
from titan.codegen.pipeline.build import BuildLimits, BuildRefused, build
from titan.codegen.tile.load import load_tile, targets_of
from titan.foundation.resources import root
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.machine import Runner
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies
from titan.frontends.ptx.trial import Trial, judge_run
from titan.target.completion import Vendor
from titan.target.description import generated_targets
from titan.validate.compare.compare import ComparedLaunch
from titan.validate.compare.compile import ptx_of
from titan.validate.compare.launches import launches
from titan.validate.compare.threads import EmittedKernel, launch_of, parse_kernel
from titan.validate.compare.toolchain import CannotCompile

HEAD: Row = ("package", "target", "launches", "warp instructions", "seconds", "verdict", "remark")
STEPS_MAX = 3_000_000


def rows(only: str) -> Iterator[Row]:
    """One row a package."""
    limits = BuildLimits(5.0, verify_seconds=20.0, cache=".titan/schedules.sqlite")
    nvidia = generated_targets(Vendor.NVIDIA)
    for path in sorted((root("protocols") / "tiles").glob("*.yaml")):
        for target in targets_of(str(path)):
            if target not in nvidia or only not in path.stem:
                continue
            try:
                made = build(load_tile(str(path), target=target), path.read_text("utf-8"), limits)
                emitted = emit(made.tile, made.kernel, made.program)
                kernel = parse_kernel(ptx_of(emitted.files, target), emitted.manifest["entry"])
            except (BuildRefused, EmissionRefused, CannotCompile) as reason:
                yield path.stem, target, "", "", "", "no package", str(reason)[:100]
                continue
            chosen = launches(made.tile, made.program, emitted.manifest)
            started = time.process_time()
            trials = [_judged(kernel, launch, dict(emitted.manifest)) for launch in chosen]
            seconds = time.process_time() - started
            worst = next((t for t in trials if t.verdict is not Verdict.VERIFIED), trials[0])
            remark = worst.reason
            if worst.diagnostics:
                remark = f"{worst.diagnostics[0].code}: {worst.diagnostics[0].headline}"
            instructions = sum(trial.instructions for trial in trials)
            yield (
                path.stem, target, str(len(trials)), f"{instructions:,}", f"{seconds:.2f}",
                worst.verdict.value, remark[:120],
            )  # fmt: skip


def _judged(kernel: EmittedKernel, launch: ComparedLaunch, manifest: dict[str, object]) -> Trial:
    """The verdict on one cluster of one launch."""
    made = launch_of(kernel, manifest, launch.sizes, launch.grid)  # type: ignore[arg-type]
    run, errors = Runner(kernel.module, kernel.source, STEPS_MAX).run(made, launch.block)
    if run is None:
        return Trial("", "", Verdict.REFUSED, diagnostics=tuple(errors))
    places = CodePlaces(kernel.module, kernel.source)
    return judge_run(run, ("", ""), kernel.function.name, places, CodePolicies())


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found: list[Row] = []
    for row in rows(options.only):
        print(" | ".join(row), flush=True)
        found.append(row)
    if options.write:
        if options.only:
            found = merged(found)
        store("package_ptx", HEAD, found)
        write("packages", table_text(HEAD, found))


def merged(found: list[Row]) -> list[Row]:
    """The stored rows, those of the same package and target replaced by `found`."""
    stored = json.loads((RESULTS / "package_ptx.json").read_text(encoding="utf-8"))["rows"]
    rows_by_name = {row[:2]: row for row in (tuple(one[key] for key in HEAD) for one in stored)}
    rows_by_name |= {row[:2]: row for row in found}
    return sorted(rows_by_name.values(), key=lambda row: row[0])


if __name__ == "__main__":
    main()
