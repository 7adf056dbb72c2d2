"""Verdicts on AMD assembly, and what becomes of every wait and barrier in it.

    python -m benchmarks.amd_code FOLDER [--any] [--mutants] [--wait-states] [--only TEXT] [--store]

FOLDER holds assembly with its launch beside it (`gemm.s`, `gemm.launch.yaml`), HIP in the same
way (`benchmarks/amd`), and packages of `titan build` for AMD GPUs with the launch of their
manifest; clang-22 compiles both, HIP for gfx942 and gfx950. One row of Markdown a kernel. With
`--mutants` each `s_waitcnt` and `s_barrier` is deleted or weakened, and the first work-group of the
launch is judged. What survives that is judged with other trip counts, 0 among them, and other
work-groups. What survives both is argued, or listed:

*redundant*: on all paths of the kernel the weaker wait changes nothing that matters
(`titan/frontends/gcn/redundant_waits.py`). That is looked for in all mutants; one that is refuted
and redundant ends the command, unless the wait that is left out is missed as a wait state.
*equivalent*: in each of these runs, some of which execute it, the mutant makes the same accesses,
and all that conflict are in the same order (`titan/frontends/gcn/phase_order.py`).
With `--any` what is verified is lifted and verified for any number of trips: a column says so, with
the states of the search, or why only launches are covered.
With `--wait-states` each `s_nop` is made one wait state shorter, and judged in the same way.
With `--store` what was measured goes to `benchmarks/results/amd_code.json`, one kernel at a time;
`python -m benchmarks.amd_rows` writes the tables of docs/reference/real_code.md from it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from titan.device.expressions import evaluate
from titan.foundation.scratch import scratch
from titan.foundation.source.span import Source, whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.gcn.code import AssemblyCode, WaveRunner, launched
from titan.frontends.gcn.code_mutants import assembly_mutants
from titan.frontends.gcn.phase_order import PhaseOrder, phase_order, same_order
from titan.frontends.gcn.redundant_waits import redundant_because, weaker_wait
from titan.frontends.gcn.verify import verify_assembly
from titan.frontends.ptx.code_mutants import CodeMutant
from titan.frontends.ptx.launch import LaunchDescription, read_launch, read_launch_text
from titan.frontends.ptx.sweep import sweep
from titan.frontends.verify_code import CodeOptions, ctas_of
from titan.isa.gcn.assembly import parse_assembly
from titan.isa.gcn.module import AssemblyFile, AssemblyKernel
from titan.validate.compare.gcn_compile import CLANG, FLAGS, hip_assembly
from titan.verify.model import Finding, VerifyOptions

SIZE, HEADS = 384, 2  # of packages
HIP_TARGETS = ("gfx942", "gfx950")
RESULTS = Path(__file__).parent / "results" / "amd_code.json"
STATES_MAX = 2_000_000  # of one search for any number of trips


def kernels(folder: Path, only: str) -> Iterator[tuple[str, str, LaunchDescription]]:
    """Name, assembly and launch of each kernel in the folder."""
    for place in sorted(folder.rglob("*.s")):
        launch = place.with_suffix(".launch.yaml")
        if only in place.stem and launch.is_file():
            yield (
                place.stem,
                place.read_text(encoding="utf-8"),
                _described(*read_launch(str(launch))),
            )
    for place in sorted(folder.rglob("*.hip")):
        launch = place.with_suffix(".launch.yaml")
        if only in place.stem and launch.is_file():
            for target in HIP_TARGETS:
                described = _described(*read_launch(str(launch)))
                yield f"{place.stem}, {target}", hip_assembly(place, target), described
    for place in sorted(folder.rglob("manifest.json")):
        manifest = json.loads(place.read_text(encoding="utf-8"))
        if only in place.parent.name and str(manifest["target"]).startswith("gfx"):
            described = launch_of_manifest(manifest, str(place))
            yield place.parent.name, _compiled(place.parent, manifest), described


def launch_of_manifest(manifest: Any, name: str = "manifest.json") -> LaunchDescription:
    """A launch of a package, of sizes that are all alike."""
    return _described(*read_launch_text(_launch(manifest), name))


def _described(found: LaunchDescription | None, errors: list[Any]) -> LaunchDescription:
    if found is None:
        raise SystemExit(f"a launch is not understood: {errors[0].headline}")
    return found


def _launch(manifest: Any) -> str:
    names = [item["name"] for item in manifest["parameters"]]
    sizes = {name: HEADS if name == "heads" else SIZE for name in names}
    values = [
        str(sizes[item["name"]]) if item["kind"] == "size" else "pointer"
        for item in manifest["arguments"]
        if item["kind"] in ("size", "pointer")
    ]
    launch = manifest["launch"]
    return json.dumps(
        {
            "grid": evaluate(launch["grid"], sizes),
            "block": launch["block"],
            "dynamic_shared": launch["dynamic_shared_bytes"],
            "parameters": [int(value) if value.isdigit() else value for value in values],
        }
    )


def _compiled(folder: Path, manifest: Any) -> str:
    with scratch("titan-amd-") as made:
        place = Path(made) / "kernel.s"
        target = f"--offload-arch={manifest['target']}"
        flags = [flag for flag in FLAGS if not flag.startswith("-W")]
        source = str(folder / manifest["source"])
        command = [CLANG, "-x", "hip", target, *flags, "-S", source, "-o", str(place)]
        subprocess.run(command, check=True)
        return place.read_text(encoding="utf-8")


def judged(
    text: str,
    launch: LaunchDescription,
    ctas: tuple[int, ...] | None = None,
    sweep: bool = False,
    require: str = "bounded",
) -> Finding:
    """The verdict on the one kernel of a text."""
    started = time.process_time()
    engines = VerifyOptions(require="any", save_traces=None, states_max=STATES_MAX)
    options = CodeOptions(ctas=ctas, sweep=sweep, require=require, engines=engines)
    (found,) = verify_assembly(Source("k.s", text), launch, options, [], started)
    return found


def any_number(text: str, launch: LaunchDescription) -> str:
    """For which numbers of trips a kernel is verified, or why not for any."""
    found = judged(text, launch, require="any")
    seconds = f"{found.seconds:.1f} s"
    if found.verdict is not Verdict.VERIFIED:
        because = found.narrowing.because if found.narrowing is not None else found.verdict.name
        return f"launches: {because} ({seconds})"
    if not found.coverage.minimums:
        return f"no loop depends on the launch ({seconds})"
    states = [one.states for one in found.engines if one.engine == "explorer"]
    most = f", at most {max(states):,} states" if states else ""
    places = "; ".join(f"{name}, from {least} on" for name, least in found.coverage.minimums)
    return f"any {places}{most} ({seconds})"


@dataclass
class MutantFates:
    """What became of the mutants of one kernel: those refuted, and the others in words."""

    total: int = 0
    refuted: int = 0
    redundant: list[str] = field(default_factory=list)
    equivalent: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def figures(self) -> str:
        """`39 of 49 refuted, 2 redundant, 8 equivalent`."""
        more = (("redundant", self.redundant), ("equivalent", self.equivalent), ("LEFT", self.left))
        words = [f"{len(them)} {name}" for name, them in more if them]
        return ", ".join([f"{self.refuted} of {self.total} refuted", *words])

    def remarks(self) -> list[str]:
        """The survivors with their arguments; first those that have none."""
        arguments = [f"redundant: {one}" for one in self.redundant]
        return [*self.left, *arguments, *(f"equivalent: {one}" for one in self.equivalent)]


def mutants(text: str, launch: LaunchDescription, wait_states: bool = False) -> MutantFates:
    """What becomes of every mutant of the one kernel of a text; or of those of its `s_nop`."""
    source = Source("k.s", text)
    assembly, _ = parse_assembly(source)
    assert assembly is not None
    kernel, fates = assembly.kernels[0], MutantFates()
    original: list[RunOrder] = []
    for mutant in assembly_mutants(assembly, source, kernel):
        if mutant.name.startswith("s_nop") is not wait_states:
            continue
        fates.total += 1
        words = f"line {mutant.line}: {mutant.name}, {mutant.kind}"
        why = _redundant(assembly, kernel, mutant)
        refuting = _refuting(mutant, launch)
        if refuting is not None:
            fates.refuted += 1
            if why is not None and not _wait_states_alone(refuting):
                raise SystemExit(f"refuted, and shown to be redundant: {words} ({why})")
        elif why is not None:
            fates.redundant.append(f"{words} ({why})")
        elif wait_states:
            fates.left.append(words)
        else:
            original = original or orders(text, launch)
            _compare(fates, words, mutant, original, orders(mutant.text, launch))
    return fates


def _refuting(mutant: CodeMutant, launch: LaunchDescription) -> Finding | None:
    found = judged(mutant.text, launch, (0,))
    if found.verdict is not Verdict.REFUTED:
        found = judged(mutant.text, launch, sweep=True)
    return found if found.verdict is Verdict.REFUTED else None


def _wait_states_alone(finding: Finding) -> bool:
    """Whether what was deleted is missed as a wait state only, which is no matter of counters."""
    return all("wait state" in item.headline for item in finding.diagnostics)


def _redundant(assembly: AssemblyFile, kernel: AssemblyKernel, mutant: CodeMutant) -> str | None:
    """Why the mutant does the same as the original on all paths."""
    counter, deleted = mutant.kind.split()[0], mutant.kind.endswith("deleted")
    wait = weaker_wait(assembly, mutant.instruction, counter, deleted)
    return None if wait is None else redundant_because(assembly, kernel, wait)


def _compare(
    fates: MutantFates, words: str, mutant: CodeMutant, original: list[RunOrder],
    changed: list[RunOrder],
) -> None:  # fmt: skip
    """Note whether the runs of a mutant order what conflicts as those of the original do."""
    differences = [
        same_order(one.order, other.order) for one, other in zip(original, changed, strict=True)
    ]
    reached = sum(mutant.instruction in one.executed for one in original)
    if any(differences):
        fates.left.append(f"{words} ({next(filter(None, differences))})")
    elif not reached:
        fates.left.append(f"{words} (no run executes it)")
    else:
        pairs = sum(one.order.conflicts for one in original if one.order is not None)
        runs = f"{len(original)} runs, {reached} of which execute it"
        fates.equivalent.append(f"{words} ({pairs:,} conflicting pairs in the same order, {runs})")


@dataclass(frozen=True)
class RunOrder:
    """How a run orders what conflicts, and the waits and barriers that it executes."""

    order: PhaseOrder | None
    executed: frozenset[int]


def orders(text: str, launch: LaunchDescription) -> list[RunOrder]:
    """How the runs of a sweep order what conflicts: its launches, some work-groups of each."""
    source, options = Source("k.s", text), CodeOptions()
    assembly, _ = parse_assembly(source)
    assert assembly is not None
    code = AssemblyCode(assembly, source, assembly.kernels[0])
    given, errors, _ = launched(code, launch, whole_file("k.s"))
    if given is None:
        raise SystemExit(f"a launch is not understood: {errors[0].headline}")
    runner = WaveRunner(code, options.steps_max)
    runs = [
        runner.run(one, cta)[0]
        for _, one in sweep(runner, code.function, given)[0]
        for cta in ctas_of(one, options)
    ]
    return [
        RunOrder(None, frozenset())
        if run is None
        else RunOrder(phase_order(run), frozenset(event.instruction for event in run.events))
        for run in runs
    ]


def store(what: str, name: str, measured: object) -> None:
    """Put what was measured of a kernel into the stored results."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    kept.setdefault(what, {})[name] = measured
    RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--any", action="store_true")
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--wait-states", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    if given.store and given.wait_states:
        parser.error("--store is for mutants of waits and barriers, and for any number of trips")
    print("| kernel | verdict | seconds | run | any number | mutants | remark |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, text, launch in kernels(given.folder, given.only):
        found = judged(text, launch)
        killed, words = "", list[str]()
        further = any_number(text, launch) if given.any else ""
        if given.mutants or given.wait_states:
            fates = mutants(text, launch, given.wait_states)
            killed = fates.figures()
            words = fates.remarks()
            if given.store:
                store("mutants", name, asdict(fates))
        if given.any and given.store:
            store("any", name, further)
        remark = "; ".join([item.headline for item in found.diagnostics[:1]] + words)
        run = found.engines[0].remark if found.engines else ""
        seconds = found.engines[0].seconds if found.engines else 0.0
        verdict = found.verdict.name.lower()
        cells = (name, verdict, f"{seconds:.2f}", run, further, killed, remark)
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
