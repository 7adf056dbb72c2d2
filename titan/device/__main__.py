"""`python -m titan.device`: the runner on a machine that has nothing but Python, NumPy and CuPy.

    python -m titan.device facts
    python -m titan.device litmus FOLDER [--seconds S] [--result FILE] [--page FILE] [--log FILE]
    python -m titan.device probes FOLDER [--result FILE] [--page FILE]
    python -m titan.device suite FOLDER [--quick] [--root DIR]
    python -m titan.device replay FINDING [--times N] [--fresh]
    python -m titan.device fit FOLDER [--result FILE] [--rates FILE]

FOLDER holds rendered tests (`titan litmus render`), probes (litmus/probes), or both with packages.
Exit codes: 0 as the model says, 1 a finding, 2 bad usage or no device.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from titan.device import litmus
from titan.device.documents import Document, FittedMachine, LitmusDocument
from titan.device.findings import BadFinding, Keep
from titan.device.page import page
from titan.device.records import DeviceFacts, WatchOptions
from titan.device.replay import replay
from titan.device.spread import devices
from titan.foundation.atomic import write_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m titan.device")
    commands = parser.add_subparsers(dest="command", required=True)
    facts = commands.add_parser("facts", help="the device and what results depend on")
    run = commands.add_parser("litmus", help="run rendered litmus tests")
    run.add_argument("folder", type=Path)
    run.add_argument("--seconds", type=float, default=1.0, help="for each test")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--scale", type=float, default=1.0, help="of the instances of a batch")
    whole = commands.add_parser("suite", help="litmus, stress and speed within a budget")
    whole.add_argument("folder", type=Path)
    whole.add_argument("--quick", action="store_true", help="under 2 minutes, not under 9")
    whole.add_argument("--root", type=Path, default=Path(), help="where results go")
    disputed = commands.add_parser("probes", help="facts on which sources differ")
    disputed.add_argument("folder", type=Path)
    disputed.add_argument("--result", type=Path, help="write JSON to this file")
    disputed.add_argument("--page", type=Path, help="write HTML to this file")
    again = commands.add_parser("replay", help="run a finding again, from its folder alone")
    again.add_argument("folder", type=Path)
    again.add_argument("--times", type=int, default=10)
    again.add_argument("--seconds", type=float, default=10.0, help="for each time")
    again.add_argument("--fresh", action="store_true", help="compiled again, not the stored binary")
    rates = commands.add_parser("fit", help="rates of the machine description from measured cycles")
    rates.add_argument("folder", type=Path)
    rates.add_argument("--result", type=Path, help="write the measurements as JSON to this file")
    rates.add_argument("--rates", type=Path, help="write the fitted machine to this file")
    for command in (facts, run, whole, disputed, rates):
        command.add_argument("--backend", choices=["gpu", "cpu"], default="gpu")
    for name, about in (("result", "JSON"), ("page", "HTML"), ("log", "JSON lines")):
        run.add_argument(f"--{name}", type=Path, help=f"write {about} to this file")
    for command in (run, whole):
        command.add_argument("--findings", type=Path, help="where findings are kept")
    return _command(parser.parse_args(arguments))


def _command(options: argparse.Namespace) -> int:
    if options.command == "replay":
        return run_replay(options.folder, options.times, options.seconds, options.fresh)
    try:
        found = litmus.machine(options.backend)
    except litmus.NoMachine as error:
        print(f"no device: {error}", file=sys.stderr)
        return 2
    if options.command == "facts":
        print(json.dumps(found, indent=2))
        return 0
    if options.command == "probes":
        return run_probes(options.folder, found, options.result, options.page)
    if options.command == "fit":
        return run_fit(options.folder, found, options.result, options.rates)
    if options.command == "suite":
        return run_suite(options.folder, found, options.quick, options.root, options.findings)
    settings = litmus.RunSettings(options.seconds, options.seed, options.scale)
    outputs = Outputs(options.result, options.page, options.log, options.findings)
    return run_folder(options.folder, found, settings, outputs)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a run leaves what it found; None for what is not asked for."""

    result: Path | None = None
    page: Path | None = None
    log: Path | None = None
    findings: Path | None = None

    def write(self, data: Document) -> None:
        """The result as JSON and as a page."""
        if self.result is not None:
            write_whole(self.result, json.dumps(data, indent=1) + "\n")
        if self.page is not None:
            write_whole(self.page, page(data))


def run_folder(
    folder: Path, facts: DeviceFacts, settings: litmus.RunSettings, outputs: Outputs
) -> int:
    """Run all rendered tests of a folder, a line for each, and write what was asked for."""
    paths = litmus.manifests(folder, facts)
    if not paths:
        print(f"no rendered tests in {folder}", file=sys.stderr)
        return 2

    def report(number: int, row: litmus.LitmusRow) -> None:
        print(line(number + 1, len(paths), row), flush=True)

    places = devices(facts)
    keep = Keep(outputs.findings, facts) if outputs.findings is not None else None
    rows = list(litmus.run_tests(paths, settings, outputs.log, report, places, keep))
    data = litmus.document(facts, rows)
    outputs.write(data)
    print(summary(data))
    return 1 if data["findings"] else 0


def run_probes(
    folder: Path, facts: DeviceFacts, result: Path | None, html: Path | None = None
) -> int:
    """All probes of a folder; what each answered."""
    from titan.device import probes

    paths = probes.manifests(folder)
    if not paths:
        print(f"no probes in {folder}", file=sys.stderr)
        return 2
    answers = list(probes.run(paths, lambda answer: print(probes.line(answer), flush=True)))
    data = probes.document(facts, answers)
    Outputs(result, html).write(data)
    return 1 if any(answer.state != "answered" for answer in answers) else 0


def run_suite(
    folder: Path, facts: DeviceFacts, quick: bool, root: Path, findings: Path | None = None
) -> int:
    """The device suite; its results are files below `root`."""
    from titan.device import suite

    seconds = suite.QUICK_SECONDS if quick else suite.FULL_SECONDS
    keep = Keep(findings or root / "findings", facts)
    found = suite.run(folder, facts, seconds, folder / "log.jsonl", keep=keep)
    for path in suite.save(found, root, write_whole):
        print(path)
    for part, names in found.left.items():
        if names:
            print(f"{part}: the time did not reach {', '.join(names)}")
    return 1 if found.bad else 0


def run_replay(
    folder: Path, times: int, seconds: float, fresh: bool, **options: Unpack[WatchOptions]
) -> int:
    """A finding again; exit code 1 where it is seen again."""
    seen = total = 0
    try:
        for again, text in replay(folder, times, seconds, fresh, **options):
            seen, total = seen + again, total + 1
            print(f"{total}/{times} {text}", flush=True)
    except BadFinding as error:
        print(str(error), file=sys.stderr)
        return 2
    print(f"seen again in {seen} of {total}")
    return 1 if seen else 0


def run_fit(folder: Path, facts: DeviceFacts, result: Path | None, rates: Path | None) -> int:
    """Cycles of the variants of a folder, and the machines that fit them."""
    from titan.device import ablations, cycles

    def report(row: cycles.CycleRow) -> None:
        print(cycles.line(row), flush=True)

    try:
        rows, machines = ablations.fitted(folder, facts, report)
    except ablations.BadIndex as error:
        print(str(error), file=sys.stderr)
        return 2
    for machine in machines:
        print(fitted_lines(machine))
    if result is not None:
        write_whole(result, json.dumps(cycles.document(facts, rows), indent=1) + "\n")
    if rates is not None:
        write_whole(rates, json.dumps(machines, indent=1) + "\n")
    return 1 if any(row.state in ("hung", "failed") for row in rows) else 0


def fitted_lines(machine: FittedMachine) -> str:
    """`sm_90a, TC: 1.25 times the cycles of the description, from 8 measurements`, and so on."""
    lines = []
    for term in machine["terms"]:
        if term["state"] == "fitted":
            error = f" +- {term['standard_error']:.3f}" if term["standard_error"] else ""
            lines.append(
                f"{term['term']}: {term['scale']:.3f}{error} times the cycles of the description, "
                f"from {term['measurements']} measurements"
            )
        elif term["state"] == "bounded":
            lines.append(f"{term['term']}: never the largest, at most {term['at_most']:.3f} times")
    if machine["overhead_cycles"] is not None:
        lines.append(f"overhead: {machine['overhead_cycles']:.1f} cycles an iteration")
    if machine["error_after"] is not None:
        lines.append(
            f"relative error of {len(machine['residuals'])} measurements: "
            f"{machine['error_before']:.3f} before, {machine['error_after']:.3f} after"
        )
    return "\n".join(f"{machine['machine']}, {text}" for text in [*lines, *machine["remarks"]])


def line(number: int, total: int, row: litmus.LitmusRow) -> str:
    """`3/160 MP+weak: seen, 65,536 instances, 400,000 a second`."""
    text = f"{number}/{total} {row.test}: {row.state}, {row.instances:,} instances"
    if row.seconds:
        text += f", {row.rate:,.0f} a second"
    if row.verdict is not None and row.verdict.forbidden:
        values = ", ".join(
            f"{name}={value}"
            for name, value in zip(row.verdict.names, row.verdict.forbidden[0].values, strict=True)
        )
        text += f"; forbidden: {values}, {row.verdict.forbidden[0].count} times"
    return f"{text}; {row.error}" if row.error else text


def summary(data: LitmusDocument) -> str:
    """`160 tests, 1,000,000 instances: 2 finding, 158 seen`."""
    states: dict[str, int] = {}
    for test in data["tests"]:
        states[test["state"]] = states.get(test["state"], 0) + 1
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return f"{len(data['tests'])} tests, {data['instances']:,} instances: {counts}"


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step, in a folder that is made where it lacks. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


if __name__ == "__main__":
    sys.exit(main())
