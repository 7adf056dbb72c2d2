"""The verdicts on a folder of real PTX, and what becomes of mutants, as tables.

    python -m benchmarks.real_code FOLDER [--sweep] [--any] [--write] [--only TEXT]
    python -m benchmarks.real_code FOLDER --mutants [--only TEXT] [--write]

FOLDER holds `NAME.ptx` with its launch `NAME.json` next to it, or the launch is written by hand in
benchmarks/launches. Kernels of `REPAIRED` are judged again with one instruction left out. With
`--write` the table replaces the one in docs/reference/real_code.md, and what was measured goes to
benchmarks/results. `--mutants` takes the files of `MUTANT_FILES`, or those of `--only`.
`make corpus CORPUS=FOLDER` runs the first form. Files without a launch are listed as such. With
`--any` each verified file is also lifted and verified for any number of trips (`STATES_MAX`
states), minutes for all.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from titan.foundation.source.loading import load_file
from titan.foundation.source.span import Source, whole_file
from titan.foundation.verdict import Verdict
from titan.frontends.ptx.code_mutants import CodeMutant, mutants_of
from titan.frontends.ptx.equivalence import Likeness, likeness
from titan.frontends.ptx.launch import (
    LaunchDescription,
    beside,
    completed,
    read_launch,
    read_launch_text,
)
from titan.frontends.ptx.machine import Runner
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.policies import CodePolicies, chosen
from titan.frontends.ptx.record import LaunchRecording, record_together
from titan.frontends.ptx.sweep import sweep
from titan.frontends.ptx.trial import judge_run
from titan.frontends.ptx.warpgroup_waits import groups_left
from titan.frontends.verify_code import (
    ANY_NUMBER,
    STEPS_MAX,
    TEXT_BYTES_MAX,
    CodeOptions,
    verify_code,
    verify_code_file,
)
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.verify.model import Finding

RESULTS = Path(__file__).resolve().parent / "results"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "real_code.md"
LAUNCHES = Path(__file__).resolve().parent / "launches"
# The epilogue of FlashInfer's forward pass arrives at a barrier before it waits at the same one.
REPAIRED = {"fa3_prefill_causal0": "bar.arrive %r1058", "fa3_prefill_causal1": "bar.arrive %r1485"}
# The text of PTX, by which kernels are refuted that the default readings of it verify.
READINGS = {
    "cute_bw_gemm_persistent": ("load_ready", "allow"),
    "cutlass_cpasync": ("copy_fence", "required"),
    "fa4_forward": ("load_ready", "allow"),
    "fa4_forward_always": ("load_ready", "allow"),
    "fa4_forward_never": ("load_ready", "allow"),
}
_ENGINE_NUMBERS = re.compile(r"([\d,]+) warp instructions, ([\d,]+) operations")
Row = tuple[str, ...]
MUTANT_FILES = (
    "cutlass_ws", "gluon_ws_gemm_sm90_d3_seeded0", "triton_gemm_pointers_sm90_s2",
    "triton_gemm_sm90_128x128x64_w4_ws0_s3", "triton_histogram_sm90", "triton_softmax_sm90",
    "gluon_ws_gemm_sm100_d3_seeded0", "triton_attention_sm90_ws0",
    "triton_gemm_sm100_64x128x64_w4_ws1_s3", "cuda_simple_ws",
)  # fmt: skip
# Where the factor of C is in the parameters: with 1 the epilogue loads C, so that part is executed.
WITH_C = {"cutlass_ws": 768}
# By the text of PTX: what a compiler that does wait and fence has lost is no convention of it.
MUTANT_POLICIES = CodePolicies(load_ready="allow", copy_fence="required")
# What becomes of a mutant: the columns of the table, by how the fates begin.
FATES = {
    "refuted": "refuted",
    "same order of conflicts": f"verified, {Likeness.SAME_ORDER.value}",
    "same program": f"verified, {Likeness.SAME_PROGRAM.value}",
    "undecided": "undecided",
    "not executed": "not executed",
    "not shown": "",
}
STATES_MAX = 2_000_000  # of the search for every number of trips
BECAUSE_MAX = 120  # letters of a reason in the table


def files_of(folder: Path, only: str) -> list[Path]:
    """The PTX files, sorted, whose name holds `only`."""
    return [path for path in sorted(folder.glob("*.ptx")) if only in path.name]


def launch_of(path: Path) -> str | None:
    """The launch beside a file of code, else the one written by hand."""
    written = LAUNCHES / f"{path.stem}.launch.yaml"
    return beside(str(path)) or (str(written) if written.is_file() else None)


def verdict_rows(paths: list[Path], sweep: bool, any_number: bool) -> Iterator[Row]:
    """File, instructions run, runs, seconds, verdict and what is to say of it."""
    for path in paths:
        launch = launch_of(path)
        if launch is None:
            yield (path.stem, "", "", "", "no launch", "", "")
            continue
        engines = replace(ANY_NUMBER, states_max=STATES_MAX)
        options = CodeOptions(launch=launch, sweep=sweep, engines=engines)
        options = replace(options, require="any" if any_number else options.require)
        yield from _judged(path, path.stem, options)
        if path.stem in READINGS:
            reading = READINGS[path.stem]
            policies = chosen((reading,))
            name = f"{path.stem}, `{'='.join(reading)}`"
            yield from _judged(path, name, replace(options, policies=policies))
        if path.stem in REPAIRED:
            yield from _repaired(path, options)


def _repaired(path: Path, options: CodeOptions) -> Iterator[Row]:
    text = path.read_text(encoding="utf-8")
    line = re.search(rf"^.*{re.escape(REPAIRED[path.stem])},.*;$", text, re.MULTILINE)
    if line is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / path.name
        other.write_text(text.replace(line[0], ""), encoding="utf-8")
        yield from _judged(other, f"{path.stem} without `{line[0].strip()}`", options)


def _judged(path: Path, name: str, options: CodeOptions) -> Iterator[Row]:
    started = time.process_time()
    findings = list(verify_code_file(str(path), replace(options, require="bounded")))
    seconds = time.process_time() - started
    for finding in findings:
        further = ""
        if options.require == "any" and finding.verdict is Verdict.VERIFIED:
            further = _any_number(path, options)
        yield (name, *_numbers(finding), f"{seconds:.2f}", *_verdict(finding), further)


def _any_number(path: Path, options: CodeOptions) -> str:
    """For which numbers of trips the kernels of a file are verified, or why not for any."""
    started = time.process_time()
    texts = []
    for finding in verify_code_file(str(path), options):
        if finding.verdict is Verdict.VERIFIED:
            open_sizes = len(finding.coverage.minimums)
            least = max((value for _, value in finding.coverage.minimums), default=0)
            words = "no loop depends on the launch" if not open_sizes else "any number"
            texts.append(words + (f" from {least}" if least else ""))
        elif finding.narrowing is not None:
            because = " ".join(finding.narrowing.because.split())
            texts.append(f"launches: {because[:BECAUSE_MAX]}")
        else:
            texts.append(finding.verdict.value)
    return f"{'; '.join(texts)} ({time.process_time() - started:.1f} s)"


def _numbers(finding: Finding) -> tuple[str, str]:
    found = _ENGINE_NUMBERS.search(finding.engines[0].remark) if finding.engines else None
    runs = sum(text.count("(") for text in finding.coverage.launches[1:])
    return (found[1] if found else "", str(runs))


def _verdict(finding: Finding) -> tuple[str, str]:
    if finding.diagnostics:
        item = finding.diagnostics[0]
        line = f" (line {item.span.start_line})" if item.span is not None else ""
        return finding.verdict.value, f"{item.code}: {item.headline}{line}"
    reasons = [note for note in finding.notes if note.startswith("undecided")]
    return finding.verdict.value, reasons[0] if reasons else ""


def mutant_rows(paths: list[Path]) -> Iterator[Row]:
    """File, instruction, kind of mutant, number, and what becomes of them."""
    for path in paths:
        name = launch_of(path)
        source, _ = load_file(path, TEXT_BYTES_MAX)
        module, _ = parse_source(source) if source is not None else (None, [])
        if name is None or source is None or module is None:
            continue
        description = described(path.stem, name)
        executed = _executed(source, description)
        table: dict[tuple[str, str], Counter[str]] = {}
        lines: dict[tuple[str, str, str], list[int]] = {}
        for function in module.entries():
            for mutant in mutants_of(module, source, function):
                reached = not executed or mutant.instruction in executed
                fate = _fate(mutant, path, description) if reached else "not executed"
                if fate == "verified":
                    fate = _longer(mutant, source, description, function.name)
                if fate == "verified":
                    fate = _likeness(mutant, source, description, function.name)
                key = (mutant.name, mutant.kind)
                table.setdefault(key, Counter())[fate] += 1
                lines.setdefault((*key, fate), []).append(mutant.line)
        for (instruction, kind), fates in sorted(table.items()):
            for fate, count in sorted(fates.items()):
                alive = fate.startswith("verified")
                where = lines[(instruction, kind, fate)] if alive else []
                shown = ", ".join(map(str, where[:12]))
                yield (path.stem, instruction, kind, str(count), fate, shown)


def described(stem: str, name: str) -> LaunchDescription | None:
    """The launch of a file, with an array of its own for C where that is asked for."""
    if stem not in WITH_C:
        return read_launch(name)[0]
    recorded = json.loads(Path(name).read_text(encoding="utf-8"))
    data = bytearray.fromhex(recorded["parameters"][0]["bytes"])
    data[WITH_C[stem] : WITH_C[stem] + 4] = struct.pack("<f", 1.0)
    recorded["parameters"][0]["bytes"] = data.hex()
    largest = max(size for _, size in recorded["allocations"])
    behind = max(start + size for start, size in recorded["allocations"])
    recorded["allocations"].append([behind, largest])
    for item in recorded["tensor_maps"]:
        item["base"] = item["base"] or behind
    return read_launch_text(json.dumps(recorded), name)[0]


def _executed(source: Source, description: LaunchDescription | None) -> set[int]:
    """The instructions of which the first CTA leaves an event."""
    module, _ = parse_source(source)
    if module is None or len(module.entries()) != 1:
        return set()
    launch, _, _ = completed(description, module.entries()[0], whole_file(source.path))
    if launch is None:
        return set()
    run, _ = Runner(module, source, STEPS_MAX).run(launch, 0)
    return set() if run is None else {event.instruction for event in run.events}


def _fate(mutant: CodeMutant, path: Path, description: LaunchDescription | None) -> str:
    """What becomes of a mutant in the launch as given."""
    source = Source(str(path), mutant.text)
    options = CodeOptions(ctas=(0,))
    findings = list(verify_code(source, description, options, [], time.process_time()))
    verdicts = {finding.verdict for finding in findings}
    for verdict in (Verdict.REFUTED, Verdict.REFUSED, Verdict.UNDECIDED):
        if verdict in verdicts:
            codes = [item.code for finding in findings for item in finding.diagnostics[:1]]
            return f"{verdict.value} {codes[0]}" if codes else verdict.value
    return "verified"


def _longer(
    mutant: CodeMutant, source: Source, description: LaunchDescription | None, entry: str
) -> str:
    """What becomes of a mutant in the launches of a sweep of the code that it was made from."""
    changed = Source(source.path, mutant.text)
    module, _ = parse_source(changed)
    assert module is not None
    places = CodePlaces(module, changed)
    for launch in _launches(source, description, entry):
        run, _ = Runner(module, changed, STEPS_MAX).run(launch, 0)
        if run is None:
            return Verdict.REFUSED.value
        trial = judge_run(run, ("", ""), entry, places, MUTANT_POLICIES)
        if trial.verdict is not Verdict.VERIFIED:
            codes = [item.code for item in trial.diagnostics[:1]]
            return " ".join([trial.verdict.value, *codes])
    return "verified"


def _likeness(
    mutant: CodeMutant, source: Source, description: LaunchDescription | None, entry: str
) -> str:
    """What is shown of a mutant that is verified: of all launches of the sweep, the least.

    Of each launch the most that is shown under one reading of the wait for a wgmma group, as the
    verdict may rest on either (policy `wgmma_wait`).
    """
    order = (Likeness.DIFFERENT, Likeness.SAME_ORDER, Likeness.SAME_PROGRAM)
    changed = Source(source.path, mutant.text)
    found: list[Likeness] = []
    for launch in _launches(source, description, entry):
        best = Likeness.DIFFERENT
        for warpgroup in (False, True):
            first = _recorded(source, entry, launch, warpgroup)
            second = _recorded(changed, entry, launch, warpgroup)
            if first is not None and second is not None:
                best = max(best, likeness(first, second), key=order.index)
            if best is not Likeness.DIFFERENT:
                break
        found.append(best)
    return f"verified, {min(found, key=order.index).value}"


def _launches(source: Source, description: LaunchDescription | None, entry: str) -> list[Launch]:
    """The launch as given and those of a sweep."""
    if source.path not in _SWEPT:
        module, _ = parse_source(source)
        assert module is not None
        function = next(item for item in module.entries() if item.name == entry)
        launch, _, _ = completed(description, function, whole_file(source.path))
        assert launch is not None
        launches, _ = sweep(Runner(module, source, STEPS_MAX), function, launch)
        _SWEPT[source.path] = [one for _, one in launches]
    return _SWEPT[source.path]


def _recorded(
    source: Source, entry: str, launch: Launch, warpgroup: bool
) -> LaunchRecording | None:
    """The recording of the first CTA; None where its run does not end.

    `warpgroup`: a wait for a wgmma group is one for the parts of all four warps.
    """
    key = (source.text, launch.parameters, warpgroup)
    if key in _RECORDED:
        return _RECORDED[key]
    module, _ = parse_source(source)
    if module is None:
        return None
    run, _ = Runner(module, source, STEPS_MAX).run(launch, 0)
    if run is None or run.outcome.ending is not Ending.FINISHED:
        return None
    places = CodePlaces(module, source)
    groups = groups_left([run]) if warpgroup else 0
    (found,) = record_together([run], entry, "", places.span, CodePolicies(), None, groups)
    if source.text not in {text for text, _, _ in _RECORDED} and len(_RECORDED) > 8:
        return found
    _RECORDED[key] = found
    return found


_SWEPT: dict[str, list[Launch]] = {}
_RECORDED: dict[tuple[str, tuple[LaunchParameter, ...], bool], LaunchRecording] = {}


def summary(rows: list[Row]) -> list[Row]:
    """Of each file the number of mutants, and of those that each fate befalls."""
    counts: dict[str, Counter[str]] = {}
    for name, _, _, number, fate, _ in rows:
        column = next(key for key, begin in FATES.items() if fate.startswith(begin))
        counts.setdefault(name, Counter())[column] += int(number)
    return [
        (name, str(found.total()), *(str(found[column]) for column in FATES))
        for name, found in counts.items()
    ]


def store(name: str, head: Row, rows: list[Row]) -> None:
    """The rows as a file of results."""
    path = RESULTS / f"{name}.json"
    kept = [dict(zip(head, row, strict=True)) for row in rows]
    path.write_text(json.dumps({"rows": kept}, indent=1) + "\n", encoding="utf-8")


def table_text(head: Row, rows: list[Row]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write(mark: str, text: str, page: Path = PAGE) -> None:
    """Put the table between its marks on a page."""
    begin, end = f"<!-- {mark} begin -->\n", f"<!-- {mark} end -->"
    head, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(head + begin + text + end + rest.split(end)[1], encoding="utf-8")


def main() -> None:
    """Print or write the table that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--any", action="store_true")
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    paths = files_of(options.folder, options.only)
    if options.mutants and not options.only:
        paths = [options.folder / f"{name}.ptx" for name in MUTANT_FILES]
    rows: list[Row] = []
    if options.mutants:
        made = mutant_rows(paths)
    else:
        made = verdict_rows(paths, options.sweep, options.any)
    for row in made:
        print(" | ".join(row), flush=True)
        rows.append(row)
    if options.mutants:
        head: Row = ("file", "instruction", "change", "mutants", "verdict", "lines")
        mark, name = "mutants", "real_code_mutants"
    else:
        head = ("file", "warp instructions", "runs", "seconds", "verdict", "remark", "any number")
        mark, name = "verdicts", "real_code"
    if options.write:
        store(name, head, rows)
        if options.mutants:
            head, rows = ("file", "mutants", *FATES), summary(rows)
        write(mark, table_text(head, rows))


if __name__ == "__main__":
    main()
